//! Looks of a gate as steps of a run's ledger. A look spends a part of the error probability, so a
//! replica that takes over a run repeats no look of an earlier leader: it uses the recorded report.

use super::{RunError, live::Live, measure::Measured, rounds::Round};
use crate::report::GateReport;

/// Digest of the inputs of a look: BLAKE3 (hex) over the round and the content addresses of its
/// scores, in order.
pub(super) fn inputs(round: &Round, measured: &Measured) -> String {
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
    let mut units: Vec<&str> = measured.scored.iter().map(|one| one.unit.as_str()).collect();
    units.sort_unstable();
    units.iter().for_each(|unit| add(unit.as_bytes()));
    hasher.finalize().to_hex().to_string()
}

/// The recorded report of a look, if an earlier leader made it.
///
/// # Errors
/// [`RunError::LookChanged`] if it was made on other scores: a second look at other numbers would
/// spend the error probability again.
pub(super) async fn recorded(live: &Live, number: usize, inputs: &str) -> Result<Option<GateReport>, RunError> {
    let Some(look) = live.look(number).await? else {
        return Ok(None);
    };
    if look.inputs != inputs {
        return Err(RunError::LookChanged { number });
    }
    Ok(Some(look.report))
}
