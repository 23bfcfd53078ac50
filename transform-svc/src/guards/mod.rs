//! Meaning guards: does a rewrite keep the numbers, the negations and the names of its original?
//!
//! HTEB's ten checks ([`crate::checks`]) find what went wrong with a generation: no text, the wrong
//! language, a leaked prompt. Guards look at a text that passed them and ask whether it still says
//! the same. They are rules, not models, and pure functions of the two texts, their languages and
//! the transformation, so a text from the cache gets the same findings as a fresh one.
//!
//! A finding is a warning. What it is worth is measured on rewrites labelled by hand
//! (`tests/it/guards.rs`; figures in docs/reference/guards.md). Where the rules do not know a
//! language they answer "cannot tell" (`Finding::Untold`), never "kept".

mod names;
mod negation;
mod numbers;
mod stem;

use crate::{catalogue::Kind, language::Language};
use isomer_proto::ProtoEnum;

pub use isomer_proto::transform::v1::Guard;

/// What a guard says of a rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finding {
    Kept,
    Broken,
    /// The rules do not know the language well enough.
    Untold,
}

/// What a transformation must not do with the facts of a text. A changed fact counts as one lost
/// and one added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Duty {
    /// A fact of the original must not be missing.
    lost: bool,
    /// The rewrite must not bring a fact that the original does not have.
    added: bool,
}

/// Findings of the guards on a rewrite; each list in the order of [`Guard::all`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guarded {
    /// Guards that found a fact lost or changed.
    pub fired: Vec<Guard>,
    /// Guards that could not tell.
    pub untold: Vec<Guard>,
}

/// What a guard asks of a transformation; `None` if it asks nothing.
///
/// A summary may leave facts out and an expansion may add some. A translation is asked for its
/// numbers only: names are spelt differently in other languages, and negation is compared within
/// one language.
fn duty(guard: Guard, kind: Kind) -> Option<Duty> {
    match kind {
        Kind::Paraphrase | Kind::Backtranslation | Kind::StyleChange => Some(Duty {
            lost: true,
            // A rewrite may name what the original only refers to.
            added: guard != Guard::Names,
        }),
        Kind::Expansion | Kind::SummarisedExpansion => Some(Duty {
            lost: true,
            added: false,
        }),
        Kind::Summarisation => Some(Duty {
            lost: false,
            added: true,
        }),
        Kind::Translation | Kind::CrossTranslation => (guard == Guard::Numbers).then_some(Duty {
            lost: true,
            added: true,
        }),
        Kind::Keywords
        | Kind::RandomKeywords
        | Kind::StopwordRemoval
        | Kind::Distractors
        | Kind::MultiSwap
        | Kind::Continuation
        | Kind::Noise => None,
    }
}

/// Looks at a rewrite. `source` is the language of the original, `target` that of the rewrite;
/// `None` where unknown.
pub fn run(kind: Kind, original: &str, rewrite: &str, source: Option<Language>, target: Option<Language>) -> Guarded {
    let mut guarded = Guarded::default();
    for guard in Guard::all() {
        let Some(duty) = duty(guard, kind) else { continue };
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
