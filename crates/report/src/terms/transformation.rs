//! The transformations a suite may name, with their parameters.

use serde::{Deserialize, Serialize};

/// Channel and dose of noise.
#[derive(Debug, Clone, PartialEq)]
pub struct ChannelDose {
    /// The channel's name.
    pub channel: String,
    /// Share of the units that change.
    pub dose: f64,
}

/// A transformation that turns each text into one text, with its parameters. Definitions:
/// `TransformService`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Transformation {
    /// Same meaning, other words.
    Paraphrase,
    /// To a pivot language and back.
    Backtranslation {
        /// BCP-47 pivot; absent: drawn per text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pivot_language: Option<String>,
    },
    /// Informal to formal, formal to informal.
    StyleChange,
    /// Longer.
    Expansion,
    /// Shorter.
    Summarisation,
    /// Longer, then shorter.
    SummarisedExpansion,
    /// Into one language.
    Translation {
        /// BCP-47 target; absent: drawn once for each seed of the run, without replacement.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target_language: Option<String>,
        /// Into each of the service's targets, as a transformation of its own. A plan has none with
        /// this left: see [`Transformation::each`].
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        all_targets: bool,
    },
    /// Into a language drawn per text.
    CrossTranslation {
        /// Permitted targets; empty: the service's.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        target_languages: Vec<String>,
    },
    /// The most relevant words.
    Keywords,
    /// A random part of the words; needs no generator.
    RandomKeywords {
        /// Share of words kept; absent: the service's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep_ratio: Option<f64>,
    },
    /// Function words removed; needs no generator.
    StopwordRemoval,
    /// Errors of one kind at a dose; needs no generator.
    Noise {
        /// Kind of error; absent: each one, as a transformation of its own. A plan has none with
        /// this left, nor without a dose: see [`Transformation::each`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        channel: Option<String>,
        /// Share of the letters, words or gaps that change; absent: each dose, likewise.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dose: Option<f64>,
    },
    /// One of the others, made with a prompt that is not its default.
    Worded {
        /// Which.
        of: Box<Transformation>,
        /// Id of the prompt, e.g. `paraphrase-b`.
        prompt: String,
    },
}

/// A name that a suite may have.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The transform service's name.
    pub name: &'static str,
    /// Parameters that a suite may give.
    pub parameters: &'static [&'static str],
    /// Whether it is made by rule: it asks no generator and has no prompt.
    pub by_rule: bool,
}

const fn generated(name: &'static str, parameters: &'static [&'static str]) -> Row {
    Row {
        name,
        parameters,
        by_rule: false,
    }
}

const fn by_rule(name: &'static str, parameters: &'static [&'static str]) -> Row {
    Row {
        by_rule: true,
        ..generated(name, parameters)
    }
}

/// Every name that a suite may have, in the order of the transform service's catalogue.
pub const CATALOGUE: [Row; 12] = [
    generated("paraphrase", &[]),
    generated("backtranslation", &["pivot_language"]),
    generated("style_change", &[]),
    generated("expansion", &[]),
    generated("summarisation", &[]),
    generated("summarised_expansion", &[]),
    generated("translation", &["target_language", "all_targets"]),
    generated("cross_translation", &["target_languages"]),
    generated("keywords", &[]),
    by_rule("random_keywords", &["keep_ratio"]),
    by_rule("stopword_removal", &[]),
    by_rule("noise", &["channel", "dose"]),
];

/// The row of a name.
pub fn row(name: &str) -> Option<&'static Row> {
    CATALOGUE.iter().find(|row| row.name == name)
}

/// The values of parameters that a transformation may stand for all of, as the transform service
/// lists them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Choices<'a> {
    /// Target languages of a translation.
    pub target_languages: &'a [String],
    /// Channels of noise.
    pub channels: &'a [String],
    /// Doses of noise.
    pub doses: &'a [f64],
}

/// Transformations that make several texts of another meaning, for which a dataset's labels would
/// no longer hold.
pub const NOT_SCORABLE: [&str; 3] = ["distractors", "multi_swap", "continuation"];

impl Transformation {
    /// The transformation of this name with default parameters.
    pub fn named(name: &str) -> Option<Self> {
        serde_json::from_value(serde_json::json!({ "name": name })).ok()
    }

    /// The catalogue's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Paraphrase => "paraphrase",
            Self::Backtranslation { .. } => "backtranslation",
            Self::StyleChange => "style_change",
            Self::Expansion => "expansion",
            Self::Summarisation => "summarisation",
            Self::SummarisedExpansion => "summarised_expansion",
            Self::Translation { .. } => "translation",
            Self::CrossTranslation { .. } => "cross_translation",
            Self::Keywords => "keywords",
            Self::RandomKeywords { .. } => "random_keywords",
            Self::StopwordRemoval => "stopword_removal",
            Self::Noise { .. } => "noise",
            Self::Worded { of, .. } => of.name(),
        }
    }

    /// Whether it is made by rule: it asks no generator and has no prompt.
    pub fn is_by_rule(&self) -> bool {
        row(self.name()).is_some_and(|row| row.by_rule)
    }

    /// Parameters that a suite may give.
    pub fn parameters(&self) -> &'static [&'static str] {
        row(self.name()).map_or(&[], |row| row.parameters)
    }

    /// Ids of the prompts that it is made with instead of the defaults.
    pub fn prompts(&self) -> Vec<String> {
        match self {
            Self::Worded { of, prompt } => [of.prompts(), vec![prompt.clone()]].concat(),
            _ => Vec::new(),
        }
    }

    /// Whether something is drawn for each text: a pivot, a target, the words that stay. Two equal
    /// texts then each have their own draw.
    pub fn draws_per_text(&self) -> bool {
        match self {
            Self::Backtranslation { pivot_language } => pivot_language.is_none(),
            Self::CrossTranslation { target_languages } => target_languages.len() != 1,
            Self::RandomKeywords { .. } => true,
            Self::Worded { of, .. } => of.draws_per_text(),
            _ => false,
        }
    }

    /// Whether something is drawn once for each seed and holds for every text: the target language.
    /// Scores under one seed then share what was drawn, whatever the data set.
    pub fn draws_per_seed(&self) -> bool {
        match self {
            Self::Worded { of, .. } => of.draws_per_seed(),
            other => matches!(
                other,
                Self::Translation {
                    target_language: None,
                    all_targets: false,
                }
            ),
        }
    }

    /// The transformations that this one stands for: itself, or one for each of the values that it
    /// leaves open.
    pub fn each(self, choices: Choices<'_>) -> Vec<Self> {
        match self {
            Self::Worded { of, prompt } => {
                let each = of.each(choices).into_iter();
                each.map(|of| Self::Worded {
                    of: Box::new(of),
                    prompt: prompt.clone(),
                })
                .collect()
            }
            Self::Noise { channel, dose } => {
                let channels = channel.map_or_else(|| choices.channels.to_vec(), |own| vec![own]);
                let doses = dose.map_or_else(|| choices.doses.to_vec(), |own| vec![own]);
                let of_channel = |channel: String| {
                    doses.clone().into_iter().map(move |dose| Self::Noise {
                        channel: Some(channel.clone()),
                        dose: Some(dose),
                    })
                };
                channels.into_iter().flat_map(of_channel).collect()
            }
            Self::Translation { all_targets: true, .. } => choices
                .target_languages
                .iter()
                .map(|target| Self::Translation {
                    target_language: Some(target.clone()),
                    all_targets: false,
                })
                .collect(),
            other => vec![other],
        }
    }

    /// Channel and dose, if it is noise of one channel at one dose.
    pub fn noise(&self) -> Option<ChannelDose> {
        match self {
            Self::Noise {
                channel: Some(channel),
                dose: Some(dose),
            } => Some(ChannelDose {
                channel: channel.clone(),
                dose: *dose,
            }),
            _ => None,
        }
    }

    /// Name with parameters, unique within a suite, e.g. `translation(fr)` or
    /// `paraphrase(paraphrase-b)`.
    pub fn label(&self) -> String {
        let parameters = match self {
            Self::Backtranslation {
                pivot_language: Some(language),
            }
            | Self::Translation {
                target_language: Some(language),
                ..
            } => language.clone(),
            Self::Translation { all_targets: true, .. } => "all targets".to_owned(),
            Self::CrossTranslation { target_languages } if !target_languages.is_empty() => target_languages.join("+"),
            Self::RandomKeywords {
                keep_ratio: Some(ratio),
            } => ratio.to_string(),
            Self::Noise { channel, dose } => {
                let dose = dose.map(crate::format::percent);
                let own: Vec<&str> = channel.iter().chain(&dose).map(String::as_str).collect();
                if own.is_empty() {
                    return self.name().to_owned();
                }
                own.join(" ")
            }
            Self::Worded { of, prompt } => {
                let own = of.label();
                return match own.strip_suffix(')') {
                    Some(own) => format!("{own}, {prompt})"),
                    None => format!("{own}({prompt})"),
                };
            }
            _ => return self.name().to_owned(),
        };
        format!("{}({parameters})", self.name())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_name_of_the_catalogue_has_its_transformation() {
        for row in CATALOGUE {
            assert_eq!(Transformation::named(row.name).unwrap().name(), row.name);
        }
        assert!(Transformation::named("multi_swap").is_none());
    }

    #[test]
    fn all_targets_are_a_transformation_each_and_draw_nothing() {
        let all = Transformation::Translation {
            target_language: None,
            all_targets: true,
        };
        assert!(!all.draws_per_seed());
        let targets = ["es".to_owned(), "fr".to_owned()];
        let choices = Choices {
            target_languages: &targets,
            ..Choices::default()
        };
        let each = all.each(choices);
        let labels: Vec<String> = each.iter().map(Transformation::label).collect();
        assert_eq!(labels, ["translation(es)", "translation(fr)"]);
        assert!(each.iter().all(|one| !one.draws_per_seed()));
        assert!(Transformation::named("translation").unwrap().draws_per_seed());
        assert_eq!(
            Transformation::Paraphrase.each(Choices::default()),
            [Transformation::Paraphrase]
        );
    }

    #[test]
    fn noise_stands_for_each_channel_and_dose_that_it_leaves_open() {
        let channels = ["case".to_owned(), "ocr".to_owned()];
        let choices = Choices {
            channels: &channels,
            doses: &[0.01, 0.4],
            ..Choices::default()
        };
        let labels = |channel: Option<&str>, dose| {
            let channel = channel.map(str::to_owned);
            let each = Transformation::Noise { channel, dose }.each(choices);
            each.iter().map(Transformation::label).collect::<Vec<_>>()
        };
        let all = [
            "noise(case 1 %)",
            "noise(case 40 %)",
            "noise(ocr 1 %)",
            "noise(ocr 40 %)",
        ];
        assert_eq!(labels(None, None), all);
        assert_eq!(
            labels(Some("keyboard"), None),
            ["noise(keyboard 1 %)", "noise(keyboard 40 %)"]
        );
        assert_eq!(labels(None, Some(0.1)), ["noise(case 10 %)", "noise(ocr 10 %)"]);
        assert_eq!(
            Transformation::named("noise").map(|noise| noise.label()).as_deref(),
            Some("noise")
        );
    }

    #[test]
    fn parameters_show_in_the_label() {
        let french = Transformation::Translation {
            target_language: Some("fr".into()),
            all_targets: false,
        };
        assert_eq!(french.label(), "translation(fr)");
        let worded = |of: &Transformation| Transformation::Worded {
            of: Box::new(of.clone()),
            prompt: "translation-mine".into(),
        };
        assert_eq!(worded(&french).label(), "translation(fr, translation-mine)");
        assert_eq!(
            worded(&Transformation::Paraphrase).label(),
            "paraphrase(translation-mine)"
        );
        assert_eq!(
            (worded(&french).name(), worded(&french).prompts()),
            ("translation", vec!["translation-mine".to_owned()])
        );
        assert!(
            !worded(&french).draws_per_seed()
                && worded(&Transformation::named("translation").unwrap()).draws_per_seed()
        );
        assert_eq!(Transformation::Paraphrase.label(), "paraphrase");
    }
}
