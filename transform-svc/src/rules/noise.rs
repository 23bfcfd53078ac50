//! Errors in texts at a given dose, without a generator: the channels of `isomer-noise`.

use std::sync::Arc;

use isomer_config::spelling::suggest;
use isomer_noise::{Channel, Dose, NotApplicable, applies, apply};
use isomer_transformations::{ParameterError, Parameters};
use serde_json::Value as Json;

use super::{Row, Rule, RuleRefusal, Subject, UnsupportedLanguage};
use crate::{checks::Check, language::Language};

pub(super) const ROW: Row = Row {
    name: "noise",
    read: |given| Ok(Arc::new(Noise::read(given)?)),
    values,
};

/// The rule: errors of a channel at a dose.
#[derive(Debug)]
pub struct Noise {
    channel: Channel,
    dose: Dose,
}

fn values(parameter: &str) -> Vec<Json> {
    match parameter {
        "channel" => Channel::ALL.iter().map(|channel| channel.name().into()).collect(),
        "dose" => Dose::ALL.into_iter().map(|dose| dose.share().into()).collect(),
        _ => Vec::new(),
    }
}

impl Noise {
    /// # Errors
    /// If the channel or the dose is unknown.
    fn read(given: Parameters<'_>) -> Result<Self, ParameterError> {
        let name = given.text("channel").unwrap_or_default();
        let channel = Channel::named(name).ok_or_else(|| {
            let known: Vec<&str> = Channel::ALL.iter().map(|channel| channel.name()).collect();
            ParameterError {
                parameter: "channel".to_owned(),
                problem: format!("unknown channel `{name}`"),
                hint: suggest(name, &known),
            }
        })?;
        let share = given.share("dose");
        let dose = Dose::of_share(share).ok_or_else(|| {
            let known = Dose::ALL.map(|dose| dose.share().to_string()).join(", ");
            ParameterError {
                parameter: "dose".to_owned(),
                problem: format!("{share} is not a dose"),
                hint: format!("give one of {known}"),
            }
        })?;
        Ok(Self { channel, dose })
    }

    fn refused(&self, reason: NotApplicable) -> String {
        format!("no {} noise: {reason}", self.channel.name())
    }
}

impl Rule for Noise {
    fn check_language(&self, language: Language) -> Result<(), UnsupportedLanguage> {
        let known = known(language);
        let applicable = known.and_then(|known| applies(self.channel, known).map_err(|reason| self.refused(reason)));
        applicable.map_err(|problem| UnsupportedLanguage {
            problem,
            hint: "leave the texts of this language out, or take another channel".to_owned(),
        })
    }

    /// A text of unknown language is treated as English.
    fn apply(&self, text: &Subject<'_>) -> Result<Vec<String>, RuleRefusal> {
        let language = text.language.map_or(Ok(isomer_noise::Language::ENGLISH), known);
        let language = language.map_err(|reason| RuleRefusal {
            check: Check::GeneratorError,
            reason,
        })?;
        let noised = apply(self.channel, text.text, language, self.dose, text.seed);
        noised.map(|noised| vec![noised.text]).map_err(|reason| RuleRefusal {
            check: match reason {
                NotApplicable::NothingEligible => Check::TooFew,
                _ => Check::GeneratorError,
            },
            reason: self.refused(reason),
        })
    }
}

fn known(language: Language) -> Result<isomer_noise::Language, String> {
    isomer_noise::Language::parse(language.code())
        .ok_or_else(|| format!("noise is not defined for {}", language.name()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use isomer_transformations::Transformation;

    use super::*;

    fn read(channel: &str, dose: Option<f64>) -> Result<Noise, ParameterError> {
        let mut noise = Transformation::named("noise").unwrap().with("channel", channel);
        if let Some(dose) = dose {
            noise = noise.with("dose", dose);
        }
        Noise::read(noise.parameters())
    }

    fn apply(noise: &Noise, text: &str, language: Option<Language>) -> Result<String, Check> {
        let (seed, run, id) = (1, "", "");
        let applied = noise.apply(&Subject {
            text,
            language,
            seed,
            run,
            id,
        });
        applied.map(|texts| texts.concat()).map_err(|refused| refused.check)
    }

    #[test]
    fn a_wrong_parameter_is_named() {
        let channel = read("keybord", None).unwrap_err();
        assert_eq!(
            (channel.parameter.as_str(), channel.hint.as_str()),
            ("channel", "did you mean `keyboard`?")
        );
        let dose = read("ocr", Some(0.3)).unwrap_err();
        assert_eq!(dose.parameter, "dose");
        assert!(dose.hint.contains("0.2, 0.4"), "{}", dose.hint);
        assert_eq!(read("ocr", None).unwrap().dose, Dose::Moderate);
    }

    #[test]
    fn each_reason_has_its_check() {
        let case = read("case", Some(0.4)).unwrap();
        let [japanese, latin] = ["ja", "la"].map(|code| Language::parse(code).unwrap());
        let problem = |language| case.check_language(language).unwrap_err().problem;
        assert!(problem(japanese).contains("no letter case"));
        assert!(problem(latin).contains("not defined for Latin"));
        assert_eq!(
            apply(&case, "猫が寝ている。", Some(japanese)),
            Err(Check::GeneratorError)
        );
        assert_eq!(apply(&case, "12 345", None), Err(Check::TooFew));
        let text = "A cat sleeps on the warm roof of the old house by the river.";
        assert_ne!(apply(&case, text, None).unwrap(), text);
    }
}
