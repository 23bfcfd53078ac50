//! Plain data shared by reports, settings and decisions: enumerations, counts, transformations.
//!
//! The code that makes decisions with them is in other crates.

mod counters;
mod gate;
mod judging;
mod outcome;
mod prompts;
mod rule;
mod separation;
pub mod transformation;
pub mod truncation;
mod validity;

pub use counters::{Counters, JudgeCounters};
pub use gate::{Adjust, Basis, COUNTS_TEXTS, OnUndecided, Texts, Unit};
pub use judging::{ProbeKind, ProbeResult, Scale};
pub use outcome::Outcome;
pub use prompts::{Part, PromptSource};
pub use rule::{Measure, MeasureRow, MeasureUnit, RuleKind, RuleRow, RuleScope, Side};
pub use separation::{Kind, Stratum};
pub use transformation::{ChannelDose, Transformation};
pub use truncation::CutCount;
pub use validity::ValidityLimit;
