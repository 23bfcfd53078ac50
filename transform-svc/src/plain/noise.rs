//! Errors in texts at a dose, without a generator: the channels of `isomer-noise`.

use isomer_config::spelling::nearest;
use isomer_noise::{Channel, Dose, NotApplicable, applies, apply};
use isomer_proto::transform::v1 as proto;

use crate::{checks::Check, error::TransformError, language::Language};

/// The dose of a request that names none.
const DEFAULT_DOSE: Dose = Dose::Moderate;

/// Channel and dose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noise {
    channel: Channel,
    dose: Dose,
}

impl Noise {
    /// Reads the parameters; `field` is the path of the message.
    ///
    /// # Errors
    /// If the channel or the dose is unknown.
    pub fn read(message: &proto::Noise, field: &str) -> Result<Self, TransformError> {
        let channel = Channel::parse(&message.channel).ok_or_else(|| {
            let known = || Channel::ALL.iter().map(|channel| channel.name());
            let hint = match nearest(&message.channel, known()) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("give one of {}", known().collect::<Vec<_>>().join(", ")),
            };
            let problem = format!("unknown channel `{}`", message.channel);
            TransformError::invalid(format!("{field}.channel"), problem, hint)
        })?;
        let share = message.dose.unwrap_or(DEFAULT_DOSE.share());
        let dose = Dose::of_share(share).ok_or_else(|| {
            let known = Dose::ALL.map(|dose| dose.share().to_string()).join(", ");
            let hint = format!("give one of {known}");
            TransformError::invalid(format!("{field}.dose"), format!("{share} is not a dose"), hint)
        })?;
        Ok(Self { channel, dose })
    }

    /// Checks that the channel knows a language.
    ///
    /// # Errors
    /// The reason why it does not, in words.
    pub fn check(self, language: Language) -> Result<(), String> {
        let known = known(language)?;
        applies(self.channel, known).map_err(|reason| self.refused(reason))
    }

    /// The text with the errors. A text of unknown language is treated as English.
    ///
    /// # Errors
    /// The reason why there are none, in words, with its check.
    pub fn apply(self, text: &str, language: Option<Language>, seed: u64) -> Result<String, (Check, String)> {
        let language = language.map_or(Ok(isomer_noise::Language::ENGLISH), known);
        let language = language.map_err(|problem| (Check::GeneratorError, problem))?;
        let noised = apply(self.channel, text, language, self.dose, seed);
        noised.map(|noised| noised.text).map_err(|reason| {
            let check = match reason {
                NotApplicable::NothingEligible => Check::TooFew,
                _ => Check::GeneratorError,
            };
            (check, self.refused(reason))
        })
    }

    fn refused(self, reason: NotApplicable) -> String {
        format!("no {} noise: {reason}", self.channel.name())
    }
}

fn known(language: Language) -> Result<isomer_noise::Language, String> {
    isomer_noise::Language::parse(language.code())
        .ok_or_else(|| format!("noise is not defined for {}", language.name()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(channel: &str, dose: Option<f64>) -> Result<Noise, TransformError> {
        let channel = channel.to_owned();
        Noise::read(&proto::Noise { channel, dose }, "noise")
    }

    #[test]
    fn a_wrong_parameter_is_named() {
        let field = |error: TransformError| match error {
            TransformError::Invalid { field, hint, .. } => (field, hint),
            other => (other.to_string(), String::new()),
        };
        let (at, hint) = field(read("keybord", None).unwrap_err());
        assert_eq!(
            (at.as_str(), hint.as_str()),
            ("noise.channel", "did you mean `keyboard`?")
        );
        let (at, hint) = field(read("ocr", Some(0.3)).unwrap_err());
        assert_eq!(at, "noise.dose");
        assert!(hint.contains("0.2, 0.4"), "{hint}");
        assert_eq!(read("ocr", None).unwrap().dose, Dose::Moderate);
    }

    #[test]
    fn each_reason_has_its_check() {
        let case = read("case", Some(0.4)).unwrap();
        let [japanese, latin] = ["ja", "la"].map(|code| Language::parse(code).unwrap());
        assert!(case.check(japanese).unwrap_err().contains("no letter case"));
        assert!(case.check(latin).unwrap_err().contains("not defined for Latin"));
        assert_eq!(
            case.apply("猫が寝ている。", Some(japanese), 1).unwrap_err().0,
            Check::GeneratorError
        );
        assert_eq!(case.apply("12 345", None, 1).unwrap_err().0, Check::TooFew);
        let text = "A cat sleeps on the warm roof of the old house by the river.";
        assert_ne!(case.apply(text, None, 1).unwrap(), text);
    }
}
