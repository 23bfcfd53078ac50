//! The catalogue of transformations. [`CATALOGUE`] has one row for each: its name, what it varies,
//! its parameters, its prompts, and what a rewrite by it must keep. The transform service, suites,
//! reports, the command line and the gateway's bounds read these rows.
//!
//! A transformation by rule also has its rule in `transform-svc/src/rules`, and a prompt its text
//! in `transform-svc/prompts`.

mod axis;
mod catalogue;
mod declaration;
mod parameter;
mod transformation;
#[cfg(feature = "wire")]
pub mod wire;

#[cfg(test)]
mod tests;

pub use axis::Axis;
pub use catalogue::CATALOGUE;
pub use declaration::{AnswerForm, Declaration, Draw, Facts, Length, Mechanism, PromptKind};
pub use parameter::{Parameter, ParameterError, Parameters, Scope, Value, ValueExpansion};
pub use transformation::{Transformation, percent};

/// The row of a name.
pub fn declaration(name: &str) -> Option<&'static Declaration> {
    CATALOGUE.iter().find(|row| row.name == name)
}

/// Rows of the transformations that a suite may name. The others make several texts of another
/// meaning, for which the labels of a data set no longer hold.
pub fn scorable() -> impl Iterator<Item = &'static Declaration> {
    CATALOGUE.iter().filter(|row| !row.gives_several)
}
