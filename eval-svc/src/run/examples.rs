//! Example texts of a report: some drawn by content, and those with the largest drift.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    drift::{Drifted, Pair, pairs_of},
    plan::{Plan, PlannedTransformation, Table, Variant},
    transform::{Made, Outcome, Transformed},
};
use crate::{
    report::{Example, Picked},
    stats,
};

/// Examples of each dataset and transformation. `each` are drawn by content under the first seed,
/// so that every run shows the same ones. One in four of them is a text that could not be
/// transformed, if there are any. From the remaining texts, the `each` texts with the largest drift
/// under any seed are added, by the mean over encoders.
pub(super) fn pick(plan: &Plan, transformed: &Transformed, drifted: &[Drifted], each: usize) -> Vec<Example> {
    let mut examples = Vec::new();
    for (d, table) in plan.tables.iter().enumerate() {
        for (t, planned) in plan.transformations.iter().enumerate() {
            let moved = Moved::new(plan, transformed, drifted, (d, t));
            let drawn = drawn(plan, transformed, (table, planned, t), each);
            let shown: BTreeSet<Pair> = drawn.iter().map(|(original, made)| (*original, made.text)).collect();
            for (original, made) in drawn {
                let pair = (original, made.text);
                let drift = is_transformed(made).then(|| moved.drift.get(&(0, pair))).flatten();
                examples.push(example(plan, (table, planned), (0, pair), made, drift, Picked::Drawn));
            }
            for (seed, pair) in moved.furthest(&shown, each) {
                if let Some(made) = moved.made.get(&(seed, pair)) {
                    let drift = moved.drift.get(&(seed, pair));
                    examples.push(example(
                        plan,
                        (table, planned),
                        (seed, pair),
                        made,
                        drift,
                        Picked::WorstMoved,
                    ));
                }
            }
        }
    }
    examples
}

/// Drift per encoder (by position) of each seed's pairs, for one dataset and transformation.
struct Moved<'a> {
    drift: HashMap<(usize, Pair), BTreeMap<usize, f64>>,
    made: HashMap<(usize, Pair), &'a Made>,
}

impl<'a> Moved<'a> {
    fn new(plan: &Plan, transformed: &'a Transformed, drifted: &[Drifted], (d, t): (usize, usize)) -> Self {
        let mut moved = Self {
            drift: HashMap::new(),
            made: HashMap::new(),
        };
        let of_seed = |seed: usize| {
            let variant = Variant::Transformed {
                transformation: t,
                seed,
            };
            pairs_of(plan, transformed, d, variant)
        };
        let pairs: Vec<Vec<Pair>> = (0..plan.suite.seeds.len()).map(of_seed).collect();
        let is_shown = |one: &&Drifted| (one.table, one.transformation) == (d, t) && !plan.is_variant(one.encoder);
        for one in drifted.iter().filter(is_shown) {
            for (pair, drift) in pairs[one.seed].iter().zip(&one.drift) {
                if let Some(drift) = drift {
                    let per_encoder = moved.drift.entry((one.seed, *pair)).or_default();
                    per_encoder.insert(one.encoder, f64::from(*drift));
                }
            }
        }
        let planned = &plan.transformations[t];
        let requests: BTreeSet<usize> = plan.tables[d].requests.of(planned).iter().flatten().copied().collect();
        for seed in 0..plan.suite.seeds.len() {
            for request in &requests {
                if let Some(made) = transformed.get(t, seed, *request) {
                    let original = plan.requests.of(planned)[*request].text;
                    moved.made.insert((seed, (original, made.text)), made);
                }
            }
        }
        moved
    }

    /// The pairs with the largest drift, each once under its first such seed, without pairs that
    /// are already shown.
    fn furthest(&self, shown: &BTreeSet<Pair>, most: usize) -> Vec<(usize, Pair)> {
        let mut all: Vec<(f64, usize, Pair)> = self
            .drift
            .iter()
            .filter(|((_, pair), _)| !shown.contains(pair))
            .map(|((seed, pair), drift)| (mean(drift).unwrap_or_default(), *seed, *pair))
            .collect();
        all.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        // One line per original, because its other seeds would look much the same.
        let mut seen = BTreeSet::new();
        let fresh = all.into_iter().filter(|(_, _, (original, _))| seen.insert(*original));
        fresh.take(most).map(|(_, seed, pair)| (seed, pair)).collect()
    }
}

fn mean(drift: &BTreeMap<usize, f64>) -> Option<f64> {
    stats::mean(&drift.values().copied().collect::<Vec<f64>>())
}

fn is_transformed(made: &Made) -> bool {
    matches!(made.outcome, Outcome::Ok | Outcome::Recovered)
}

/// Originals with their results under the first seed.
fn drawn<'a>(
    plan: &Plan,
    transformed: &'a Transformed,
    (table, planned, t): (&Table, &PlannedTransformation, usize),
    each: usize,
) -> Vec<(u32, &'a Made)> {
    let original = |request: usize| plan.requests.of(planned)[request].text;
    let requests: BTreeSet<usize> = table.requests.of(planned).iter().flatten().copied().collect();
    let mut drawn: Vec<([u8; 32], usize)> = requests
        .into_iter()
        .map(|request| {
            (
                *blake3::hash(plan.corpus.get(original(request)).as_bytes()).as_bytes(),
                request,
            )
        })
        .collect();
    drawn.sort_unstable();
    let all = drawn
        .into_iter()
        .filter_map(|(_, request)| Some((original(request), transformed.get(t, 0, request)?)));
    let (good, bad): (Vec<_>, Vec<_>) = all.partition(|(_, made)| is_transformed(made));
    let shown_bad = bad.len().min(each / 4);
    let good = good.into_iter().take(each - shown_bad);
    good.chain(bad.into_iter().take(shown_bad)).collect()
}

fn example(
    plan: &Plan,
    (table, planned): (&Table, &PlannedTransformation),
    (seed, (original, text)): (usize, Pair),
    made: &Made,
    drift: Option<&BTreeMap<usize, f64>>,
    picked: Picked,
) -> Example {
    let id = |e: &usize| {
        plan.encoders
            .get(*e)
            .map(|encoder| encoder.id.clone())
            .unwrap_or_default()
    };
    Example {
        dataset: table.dataset.name().to_owned(),
        transformation: planned.label.clone(),
        seed: plan.suite.seeds.get(seed).copied().unwrap_or_default(),
        original: plan.corpus.get(original).to_owned(),
        transformed: plan.corpus.get(text).to_owned(),
        outcome: made.outcome,
        failed_checks: made.failed_checks.iter().map(|name| (*name).to_owned()).collect(),
        edit_distance: made
            .measures
            .map(|measures| measures.0)
            .filter(|_| is_transformed(made)),
        picked,
        drift: drift.and_then(mean),
        drift_by_encoder: drift
            .map(|drift| drift.iter().map(|(e, drift)| (id(e), *drift)).collect())
            .unwrap_or_default(),
    }
}
