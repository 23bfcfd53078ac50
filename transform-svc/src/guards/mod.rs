//! Meaning guards check whether a rewrite keeps the numbers, the negations and the names of its
//! original.
//!
//! HTEB's ten checks ([`crate::checks`]) find errors of a generation: no text, the wrong language,
//! a leaked prompt. Guards check whether a text that passed them still has the same meaning. They
//! are rules, not models, and pure functions of the two texts, their languages and the
//! transformation, so a cached text gets the same findings as a new one.
//!
//! A finding is a warning. Its reliability is measured on rewrites labelled by hand
//! (`tests/it/guards.rs`; figures in docs/reference/guards.md). If the rules do not cover a
//! language, the finding is "cannot tell" (`Finding::Unknown`), never "kept".

mod names;
mod negation;
mod numbers;
mod stem;

use isomer_transformations::{Declaration, Facts};

use crate::language::Language;

pub use isomer_proto::transform::v1::Guard;

/// A guard's declaration. A new guard is a value of [`Guard`], a module with its row, and a line of
/// [`GUARDS`].
pub struct GuardRow {
    /// Its number in the protocol, which also gives its name.
    pub guard: Guard,
    /// The facts that it looks for.
    pub facts: &'static str,
    /// Languages with rules.
    pub languages: &'static str,
    /// Its finding in other languages.
    pub elsewhere: &'static str,
    /// Whether a rewrite may add such a fact: it may name what the original only refers to.
    may_add: bool,
    /// Whether a translation must keep these facts.
    translates: bool,
    look: fn(&Rewrite<'_>, Policy) -> Finding,
}

/// The guards, in the order of the values of `Guard`.
pub const GUARDS: [&GuardRow; 3] = [&numbers::GUARD, &negation::GUARD, &names::GUARD];

/// A text and its rewrite, with the codes of their languages; `None` if unknown.
struct Rewrite<'a> {
    original: &'a str,
    rewrite: &'a str,
    source: Option<&'a str>,
    target: Option<&'a str>,
}

/// The finding of a guard on a rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finding {
    Kept,
    Broken,
    /// The rules do not cover the language.
    Unknown,
}

/// Changes to the facts of a text that a transformation must not make. A changed fact counts as one
/// lost and one added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Policy {
    /// Whether the rewrite must keep every fact of the original.
    lost: bool,
    /// Whether the rewrite must not add a fact.
    added: bool,
}

/// Findings of the guards on a rewrite; each list in the order of `GUARDS`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuardFindings {
    /// Guards that found a fact lost or changed.
    pub fired: Vec<Guard>,
    /// Guards without a finding, because their rules do not cover the language.
    pub unknown: Vec<Guard>,
}

impl GuardRow {
    /// The policy for a rewrite that must keep these facts; `None` if there is none.
    fn policy(&self, facts: Facts) -> Option<Policy> {
        let (lost, added) = match facts {
            Facts::Same => (true, !self.may_add),
            Facts::NoneLost => (true, false),
            Facts::NoneAdded => (false, true),
            Facts::Numbers if self.translates => (true, true),
            Facts::Numbers | Facts::Any => return None,
        };
        Some(Policy { lost, added })
    }
}

/// Runs the guards on a rewrite. `source` is the language of the original, `target` that of the
/// rewrite; `None` if unknown.
pub fn run(
    kind: &Declaration,
    original: &str,
    rewrite: &str,
    source: Option<Language>,
    target: Option<Language>,
) -> GuardFindings {
    let mut findings = GuardFindings::default();
    let pair = Rewrite {
        original,
        rewrite,
        source: source.map(Language::code),
        target: target.map(Language::code),
    };
    for row in GUARDS {
        let Some(policy) = row.policy(kind.facts) else { continue };
        match (row.look)(&pair, policy) {
            Finding::Kept => {}
            Finding::Broken => findings.fired.push(row.guard),
            Finding::Unknown => findings.unknown.push(row.guard),
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use isomer_proto::ProtoEnum;

    use super::*;

    #[test]
    fn every_guard_of_the_protocol_has_its_row() {
        assert!(Guard::all().eq(GUARDS.map(|row| row.guard)));
    }
}
