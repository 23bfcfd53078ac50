//! Looks of a gate. A look spends a part of the error probability, so a replica that takes over a
//! run repeats no look of an earlier leader: it uses the recorded report.

pub(super) mod attempts;
pub(super) mod facts;
pub(super) mod grid;
pub(super) mod items;
pub(super) mod results;

use isomer_proto::ProtoEnum;

use self::{facts::Counts, items::ItemEvidence, results::RunResults};
use crate::{
    gate::{self, BoundGate},
    report::{GateReport, RoundReport, SequentialReport},
    run::{
        RunError,
        plan::{Encoders, Layout, rounds::Round},
        record::RecordedLook,
        score::ScoreEntry,
        separate,
        units::UnitStore,
    },
};

/// Digest of the inputs of a look: BLAKE3 (hex) over the round and the content addresses of its
/// scores, in order.
pub(crate) fn inputs(round: &Round, scores: &[ScoreEntry]) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut add = |part: &[u8]| {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    };
    for number in [round.number, round.seeds]
        .into_iter()
        .chain(round.tables.iter().copied())
    {
        add(&(number as u64).to_le_bytes());
    }
    add(&round.alpha.to_bits().to_le_bytes());
    let mut units: Vec<&str> = scores.iter().map(|one| one.unit.as_str()).collect();
    units.sort_unstable();
    units.iter().for_each(|unit| add(unit.as_bytes()));
    hasher.finalize().to_hex().to_string()
}

/// The report of a look that an earlier leader recorded, with the digest of its inputs.
///
/// # Errors
/// [`RunError::LookChanged`] if it was made on other scores: a second look at other numbers would
/// spend the error probability again.
pub(crate) fn recorded(look: RecordedLook, number: usize, inputs: &str) -> Result<GateReport, RunError> {
    if look.inputs != inputs {
        return Err(RunError::LookChanged { number });
    }
    Ok(look.report)
}

/// Decides the gate on the results so far. `shared_by`: number of looks that share the error
/// probability of rules on separation.
pub(crate) fn look(
    results: &mut RunResults,
    bound: &BoundGate,
    units: &UnitStore,
    round: &Round,
    shared_by: usize,
) -> GateReport {
    let earlier = results.verdicts.take();
    let items = ItemEvidence::new(results, units);
    let counts = Counts::new(results, items.levels(bound));
    let look = gate::Look {
        datasets: &round.tables,
        seeds: round.seeds,
        alpha: round.alpha,
        round: round.number,
        facts: counts.facts(),
        subsets: &items.subsets_of_rules(bound),
        separation: &separate::of_rules(&results.layout, bound, &results.separations, round),
        items: &items.of_rules(bound),
        sequences: &items.sequences_of_rules(bound),
        shared_by,
    };
    gate::look(bound, &items.grid, &look, earlier)
}

/// The report on the rounds of a gate, before the first.
pub(crate) fn sequential(
    layout: &Layout,
    encoders: &Encoders,
    gate: &BoundGate,
    rounds: Vec<RoundReport>,
) -> SequentialReport {
    SequentialReport {
        spending: gate.sequential.dashed().to_owned(),
        rounds,
        taken: 0,
        texts_planned: layout.texts_planned() as u64,
        texts_asked: 0,
        scores_planned: (layout.tables.len() * layout.variants().len() * encoders.len()) as u64,
        scores_made: 0,
    }
}

/// Number of decisions made, and number of all decisions.
pub(crate) fn decided(report: &GateReport) -> (usize, usize) {
    let verdicts = report.encoders.iter().flat_map(|one| &one.rules);
    let decided = verdicts.clone().filter(|rule| rule.verdict.is_decided());
    (decided.count(), verdicts.count())
}
