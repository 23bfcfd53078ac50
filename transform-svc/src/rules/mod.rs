//! Transformations that need no generator: functions of the text, its parameters and, for random
//! draws, a seed. A new rule is a file with its row, and a line of `RULES`.

pub mod multi_swap;
pub mod noise;
pub mod random_keywords;
pub mod stopwords;

use std::{fmt::Debug, sync::Arc};

use isomer_transformations::{ParameterError, Parameters, Transformation};
use serde_json::Value as Json;

use crate::{checks::Check, language::Language};

/// A rule with its parameters.
pub trait Rule: Debug + Send + Sync {
    /// Checks that texts of a language can be transformed.
    ///
    /// # Errors
    /// The reason why such texts cannot be transformed.
    fn check_language(&self, _: Language) -> Result<(), UnsupportedLanguage> {
        Ok(())
    }

    /// The texts made of a text: one, or several if the transformation gives several.
    ///
    /// # Errors
    /// The check that the text fails, if no text can be made from it.
    fn apply(&self, text: &Subject<'_>) -> Result<Vec<String>, RuleRefusal>;
}

/// A language that a rule does not support.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsupportedLanguage {
    /// The reason why the rule does not apply to the language.
    pub problem: String,
    /// How to avoid the error.
    pub hint: String,
}

/// A text that a rule cannot transform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleRefusal {
    /// The check that it fails.
    pub check: Check,
    /// The reason, in words.
    pub reason: String,
}

/// A text to transform.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The text, unchanged from the request.
    pub text: &'a str,
    /// Its language; `None` if unknown.
    pub language: Option<Language>,
    /// Seed of the run.
    pub seed: u64,
    /// Name of the run.
    pub run: &'a str,
    /// Id of the text, from which draws of words are derived.
    pub id: &'a str,
}

/// The declaration of a rule.
struct Row {
    /// The catalogue's name of its transformation.
    name: &'static str,
    read: fn(Parameters<'_>) -> Result<Arc<dyn Rule>, ParameterError>,
    /// Values of a parameter with few values.
    values: fn(&str) -> Vec<Json>,
}

fn any(_: &str) -> Vec<Json> {
    Vec::new()
}

/// The rules, in the order of the catalogue.
const RULES: &[Row] = &[random_keywords::ROW, stopwords::ROW, multi_swap::ROW, noise::ROW];

/// The rule of a transformation; `None` if it needs a generator.
///
/// # Errors
/// If a value of a parameter is unknown to the rule.
pub fn rule(transformation: &Transformation) -> Result<Option<Arc<dyn Rule>>, ParameterError> {
    let row = RULES.iter().find(|row| row.name == transformation.name());
    row.map(|row| (row.read)(transformation.parameters())).transpose()
}

/// The values of a parameter, if they are few.
pub fn values(transformation: &str, parameter: &str) -> Vec<Json> {
    let row = RULES.iter().find(|row| row.name == transformation);
    row.map_or_else(Vec::new, |row| (row.values)(parameter))
}

#[cfg(test)]
mod tests {
    use isomer_transformations::{CATALOGUE, Mechanism};

    use super::*;

    #[test]
    fn every_transformation_by_rule_has_its_rule() {
        let declared = CATALOGUE.iter().filter(|row| matches!(row.making, Mechanism::Rule));
        let declared: Vec<&str> = declared.map(|row| row.name).collect();
        let rules: Vec<&str> = RULES.iter().map(|row| row.name).collect();
        assert_eq!(declared, rules);
    }
}
