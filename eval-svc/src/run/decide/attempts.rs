//! Attempts: runs that decide the same rules on the same data for one encoder. Repeating a check
//! with other seeds, samples or generators until it passes raises the chance of a false pass.

use jiff::Timestamp;

use super::results::RunResults;
use crate::{
    gate::{AttemptPolicy, BoundGate, RuleLocation},
    report::Attempts,
    run::record::{AttemptRecord, RunRecord},
    stats::{StatsError, gate::releases::release_alpha},
};

/// The attempts of a run's first look, one for each judged encoder.
pub(crate) fn of_look(gate: &BoundGate, results: &RunResults, run: &RunRecord, at: Timestamp) -> Vec<AttemptRecord> {
    let judged = gate.judged.iter();
    judged
        .map(|encoder| AttemptRecord {
            subject: subject(results, gate, *encoder),
            run: run.id.clone(),
            owner: run.owner.clone(),
            evidence: evidence(results, *encoder),
            at,
        })
        .collect()
}

/// Digest of parts, each prefixed with its length.
fn digest<T: AsRef<[u8]>>(parts: impl IntoIterator<Item = T>) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.as_ref().len() as u64).to_le_bytes());
        hasher.update(part.as_ref());
    }
    hasher.finalize().to_hex().to_string()
}

/// The subject of a decision. Seeds, samples and the generator do not belong to it: another one
/// would count as a first attempt.
fn subject(results: &RunResults, gate: &BoundGate, encoder: usize) -> String {
    let (layout, encoders) = (&results.layout, &results.encoders);
    let vectors = |encoder: usize| {
        let planned = &encoders[encoder];
        let space = planned.encoder.vector_space.clone().unwrap_or_default();
        format!("{} {:?}", space.digest, planned.variant)
    };
    let rules = gate.rules.iter().map(|bound| {
        let mut rule = bound.rule.clone();
        (rule.name, rule.place) = (None, RuleLocation::default());
        rule.to_string()
    });
    let mut parts = vec![
        vectors(encoder),
        gate.baseline.map(vectors).unwrap_or_default(),
        layout.suite.profile.name().to_owned(),
    ];
    let sorted = |mut parts: Vec<String>| {
        parts.sort_unstable();
        digest(parts)
    };
    let tables = layout.tables.iter();
    parts.push(sorted(rules.collect()));
    parts.push(sorted(
        tables.map(|table| table.dataset.source_digest().to_owned()).collect(),
    ));
    let transformations = layout.transformations.iter();
    parts.push(sorted(transformations.map(|planned| planned.label.clone()).collect()));
    digest(parts)
}

/// Digest of the content addresses of an encoder's scores.
fn evidence(results: &RunResults, encoder: usize) -> String {
    let own = results.scores.iter().filter(|one| one.encoder == encoder);
    let mut units: Vec<&str> = own.map(|one| one.unit.as_str()).collect();
    units.sort_unstable();
    digest(units)
}

/// The place of an attempt among all records of its subject, oldest first. Records with equal
/// evidence are one attempt.
pub(crate) fn place(own: &AttemptRecord, records: &[AttemptRecord]) -> Attempts {
    let mut earlier: Vec<&AttemptRecord> = Vec::new();
    for record in records {
        if record.evidence == own.evidence {
            break;
        }
        if earlier.iter().all(|known| known.evidence != record.evidence) {
            earlier.push(record);
        }
    }
    Attempts {
        number: earlier.len() as u64 + 1,
        earlier: earlier.into_iter().map(|record| record.run.clone()).collect(),
    }
}

/// The error probability that a look may spend, after the attempts of the encoder with the most.
///
/// # Errors
/// If `alpha` is not a probability.
pub(crate) fn alpha(policy: AttemptPolicy, alpha: f64, attempts: &[Attempts]) -> Result<f64, StatsError> {
    let most = attempts.iter().map(|attempts| attempts.number).max();
    match (policy, most) {
        (AttemptPolicy::Spend, Some(number)) => release_alpha(alpha, number),
        _ => Ok(alpha),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn record(run: &str, evidence: &str) -> AttemptRecord {
        AttemptRecord {
            subject: "s".to_owned(),
            run: run.to_owned(),
            owner: None,
            evidence: evidence.to_owned(),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_repeated_check_is_the_same_attempt_and_other_scores_are_the_next() {
        let all = [record("a", "1"), record("b", "2"), record("c", "1"), record("d", "3")];
        let number = |own: &AttemptRecord| place(own, &all).number;
        assert_eq!(all.each_ref().map(number), [1, 2, 1, 3]);
        assert_eq!(place(&all[3], &all).earlier, ["a", "b"]);
        let new = record("e", "4");
        assert_eq!(
            place(&new, &[]),
            Attempts {
                number: 1,
                earlier: Vec::new()
            }
        );
    }

    #[test]
    fn only_spending_divides_alpha_and_by_the_encoder_with_the_most_attempts() {
        let attempts = [1, 3].map(|number| Attempts {
            number,
            earlier: Vec::new(),
        });
        assert_eq!(alpha(AttemptPolicy::Report, 0.05, &attempts).unwrap(), 0.05);
        let spent = alpha(AttemptPolicy::Spend, 0.05, &attempts).unwrap();
        assert!((spent - 0.05 / 12.0).abs() < 1e-15);
    }
}
