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
//! language, the finding is "cannot tell" (`Finding::Untold`), never "kept".

mod names;
mod negation;
mod numbers;
mod stem;

use isomer_proto::ProtoEnum;
use isomer_transformations::{Declaration, Facts};

use crate::language::Language;

pub use isomer_proto::transform::v1::Guard;

/// The finding of a guard on a rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finding {
    Kept,
    Broken,
    /// The rules do not cover the language.
    Untold,
}

/// Changes to the facts of a text that a transformation must not make. A changed fact counts as one
/// lost and one added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Duty {
    /// Whether the rewrite must keep every fact of the original.
    lost: bool,
    /// Whether the rewrite must not add a fact.
    added: bool,
}

/// Findings of the guards on a rewrite; each list in the order of [`Guard::all`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guarded {
    /// Guards that found a fact lost or changed.
    pub fired: Vec<Guard>,
    /// Guards without a finding, because their rules do not cover the language.
    pub untold: Vec<Guard>,
}

/// The duty of a rewrite that must keep these facts, by guard; `None` if there is none.
fn duty(guard: Guard, facts: Facts) -> Option<Duty> {
    let (lost, added) = match facts {
        // A rewrite may name a person or thing that the original only refers to.
        Facts::Same => (true, guard != Guard::Names),
        Facts::NoneLost => (true, false),
        Facts::NoneAdded => (false, true),
        Facts::Numbers if guard == Guard::Numbers => (true, true),
        Facts::Numbers | Facts::Any => return None,
    };
    Some(Duty { lost, added })
}

/// Runs the guards on a rewrite. `source` is the language of the original, `target` that of the
/// rewrite; `None` if unknown.
pub fn run(
    kind: &Declaration,
    original: &str,
    rewrite: &str,
    source: Option<Language>,
    target: Option<Language>,
) -> Guarded {
    let mut guarded = Guarded::default();
    for guard in Guard::all() {
        let Some(duty) = duty(guard, kind.facts) else { continue };
        let (source, target) = (source.map(Language::code), target.map(Language::code));
        let finding = match guard {
            Guard::Numbers => numbers::look(original, rewrite, source, target, duty),
            Guard::Negation => negation::look(original, rewrite, source, duty),
            Guard::Names => names::look(original, rewrite, source, duty),
            Guard::Unspecified => continue,
        };
        match finding {
            Finding::Kept => {}
            Finding::Broken => guarded.fired.push(guard),
            Finding::Untold => guarded.untold.push(guard),
        }
    }
    guarded
}
