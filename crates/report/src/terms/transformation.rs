//! The transformations a suite may name, with their parameters.

use serde::{Deserialize, Serialize};

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
        /// this left: see [`Transformation::each_target`].
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
    /// One of the others, made with a prompt that is not its default.
    Worded {
        /// Which.
        of: Box<Transformation>,
        /// Id of the prompt, e.g. `paraphrase-b`.
        prompt: String,
    },
}

/// Every name that a suite may have with the parameters it takes, in the order of the transform
/// service's catalogue.
pub const CATALOGUE: [(&str, &[&str]); 11] = [
    ("paraphrase", &[]),
    ("backtranslation", &["pivot_language"]),
    ("style_change", &[]),
    ("expansion", &[]),
    ("summarisation", &[]),
    ("summarised_expansion", &[]),
    ("translation", &["target_language", "all_targets"]),
    ("cross_translation", &["target_languages"]),
    ("keywords", &[]),
    ("random_keywords", &["keep_ratio"]),
    ("stopword_removal", &[]),
];

/// Transformations that make several texts of another meaning, for which a dataset's labels would
/// no longer hold.
pub const NOT_SCORABLE: [&str; 3] = ["distractors", "multi_swap", "continuation"];

impl Transformation {
    /// The transformation of this name with default parameters.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "paraphrase" => Self::Paraphrase,
            "backtranslation" => Self::Backtranslation { pivot_language: None },
            "style_change" => Self::StyleChange,
            "expansion" => Self::Expansion,
            "summarisation" => Self::Summarisation,
            "summarised_expansion" => Self::SummarisedExpansion,
            "translation" => Self::Translation {
                target_language: None,
                all_targets: false,
            },
            "cross_translation" => Self::CrossTranslation {
                target_languages: Vec::new(),
            },
            "keywords" => Self::Keywords,
            "random_keywords" => Self::RandomKeywords { keep_ratio: None },
            "stopword_removal" => Self::StopwordRemoval,
            _ => return None,
        })
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
            Self::Worded { of, .. } => of.name(),
        }
    }

    /// Whether it is made by rule: it asks no generator and has no prompt.
    pub fn is_by_rule(&self) -> bool {
        match self {
            Self::RandomKeywords { .. } | Self::StopwordRemoval => true,
            Self::Worded { of, .. } => of.is_by_rule(),
            Self::Paraphrase
            | Self::Backtranslation { .. }
            | Self::StyleChange
            | Self::Expansion
            | Self::Summarisation
            | Self::SummarisedExpansion
            | Self::Translation { .. }
            | Self::CrossTranslation { .. }
            | Self::Keywords => false,
        }
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
            Self::Paraphrase
            | Self::StyleChange
            | Self::Expansion
            | Self::Summarisation
            | Self::SummarisedExpansion
            | Self::Translation { .. }
            | Self::Keywords
            | Self::StopwordRemoval => false,
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

    /// The transformations that this one stands for: itself, or with `all_targets` one for each of
    /// the targets.
    pub fn each_target(self, targets: &[String]) -> Vec<Self> {
        match self {
            Self::Worded { of, prompt } => {
                let each = of.each_target(targets).into_iter();
                each.map(|of| Self::Worded {
                    of: Box::new(of),
                    prompt: prompt.clone(),
                })
                .collect()
            }
            Self::Translation { all_targets: true, .. } => targets
                .iter()
                .map(|target| Self::Translation {
                    target_language: Some(target.clone()),
                    all_targets: false,
                })
                .collect(),
            other => vec![other],
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
        for (name, _) in CATALOGUE {
            assert_eq!(Transformation::named(name).unwrap().name(), name);
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
        let each = all.each_target(&["es".to_owned(), "fr".to_owned()]);
        let labels: Vec<String> = each.iter().map(Transformation::label).collect();
        assert_eq!(labels, ["translation(es)", "translation(fr)"]);
        assert!(each.iter().all(|one| !one.draws_per_seed()));
        assert!(Transformation::named("translation").unwrap().draws_per_seed());
        assert_eq!(
            Transformation::Paraphrase.each_target(&[]),
            [Transformation::Paraphrase]
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
