//! Plain data that a report shows and that settings and decisions are made of: names of choices,
//! counts, transformations.
//!
//! What is decided with them stays with whoever decides.

mod counters;
mod gate;
mod judging;
mod outcome;
mod prompts;
mod separation;
pub mod transformation;
pub mod truncation;

pub use counters::{Counters, JudgeCounters};
pub use gate::{Adjust, Basis, MAX_UNCHANGED, OnUndecided, Texts, Unit};
pub use judging::{ProbeKind, ProbeResult, Scale};
pub use outcome::Outcome;
pub use prompts::{Part, PromptSource};
pub use separation::{Kind, Stratum};
pub use transformation::Transformation;
pub use truncation::CutCount;
