//! The rows. Each transformation's source is in brackets.

use crate::{
    Axis,
    declaration::{AnswerForm, Declaration, Draw, Facts, Length, Mechanism, PromptKind},
    parameter::{Parameter, Scope, Value, ValueExpansion},
};

const fn prompt(name: &'static str) -> PromptKind {
    PromptKind {
        name,
        needs_language: false,
        answer: AnswerForm::Text,
    }
}

/// A parameter of requests and suites that has a default.
const fn parameter(name: &'static str, description: &'static str, value: Value) -> Parameter {
    Parameter {
        name,
        description,
        value,
        scope: Scope::Both,
        each: ValueExpansion::Never,
    }
}

/// A whole number from 1.
const fn up_to(most: u32, default: u32) -> Value {
    Value::Whole {
        least: 1,
        most,
        default,
    }
}

const EXPANSION: PromptKind = PromptKind {
    answer: AnswerForm::LongText,
    ..prompt("expansion")
};
const SUMMARISATION: PromptKind = prompt("summarisation");
const TRANSLATION: PromptKind = PromptKind {
    needs_language: true,
    ..prompt("translation")
};

/// A rewrite of the same meaning, language and length, in other words.
const REWRITE: Declaration = Declaration {
    name: "",
    axis: Axis::Lexical,
    description: "",
    making: Mechanism::Prompts(&[]),
    parameters: &[],
    draw: Draw::Nothing,
    length: Length::Kept,
    facts: Facts::Same,
    gives_several: false,
    augments: true,
    temperature: 0.0,
};

/// Texts made by rule, of which no fact is asked.
const BY_RULE: Declaration = Declaration {
    axis: Axis::Augmentation,
    making: Mechanism::Rule,
    facts: Facts::Any,
    ..REWRITE
};

/// Several texts of another meaning.
const OTHER_MEANING: Declaration = Declaration {
    axis: Axis::Adversarial,
    facts: Facts::Any,
    gives_several: true,
    augments: false,
    ..REWRITE
};

/// Every transformation, in the order in which they are listed.
pub static CATALOGUE: &[Declaration] = &[
    Declaration {
        name: "paraphrase",
        description: "Other words, same meaning, same language (PTEB, HTEB, GASE).",
        making: Mechanism::Prompts(&[prompt("paraphrase")]),
        ..REWRITE
    },
    Declaration {
        name: "backtranslation",
        description: "Into a pivot language and back (HTEB).",
        making: Mechanism::Prompts(&[TRANSLATION, TRANSLATION]),
        parameters: &[parameter(
            "pivot_language",
            "The pivot; absent: drawn for each text.",
            Value::Language,
        )],
        draw: Draw::PivotPerText,
        ..REWRITE
    },
    Declaration {
        name: "style_change",
        description: "Informal to formal, formal or scientific to informal (HTEB).",
        making: Mechanism::Prompts(&[prompt("style_change")]),
        ..REWRITE
    },
    Declaration {
        name: "expansion",
        axis: Axis::Length,
        description: "More detail, same core meaning and sentence type (HTEB).",
        making: Mechanism::Prompts(&[EXPANSION]),
        length: Length::Longer,
        facts: Facts::NoneLost,
        ..REWRITE
    },
    Declaration {
        name: "summarisation",
        axis: Axis::Length,
        description: "Shorter, same meaning and sentence type (HTEB, GASE).",
        making: Mechanism::Prompts(&[SUMMARISATION]),
        length: Length::Shorter,
        facts: Facts::NoneAdded,
        ..REWRITE
    },
    Declaration {
        name: "summarised_expansion",
        axis: Axis::Length,
        description: "Expansion, then summarisation of it (HTEB).",
        making: Mechanism::Prompts(&[EXPANSION, SUMMARISATION]),
        length: Length::Longer,
        facts: Facts::NoneLost,
        ..REWRITE
    },
    Declaration {
        name: "translation",
        axis: Axis::Language,
        description: "Into one target language for the whole run (HTEB).",
        making: Mechanism::Prompts(&[TRANSLATION]),
        parameters: &[
            Parameter {
                each: ValueExpansion::If("all_targets"),
                ..parameter(
                    "target_language",
                    "The target; absent: drawn once for the run.",
                    Value::Language,
                )
            },
            Parameter {
                scope: Scope::Suites,
                ..parameter(
                    "all_targets",
                    "Into each target language that is drawn from, as a transformation of its own.",
                    Value::Flag,
                )
            },
            Parameter {
                scope: Scope::Requests,
                ..parameter(
                    "seed_rank",
                    "Position, from 0, of the seed among the seeds of a run, to draw without replacement.",
                    Value::Whole {
                        least: 0,
                        most: u32::MAX,
                        default: 0,
                    },
                )
            },
        ],
        draw: Draw::Target,
        facts: Facts::Numbers,
        ..REWRITE
    },
    Declaration {
        name: "cross_translation",
        axis: Axis::Language,
        description: "Into a target language drawn per text (HTEB).",
        making: Mechanism::Prompts(&[TRANSLATION]),
        parameters: &[parameter(
            "target_languages",
            "Permitted targets; absent: all.",
            Value::Languages,
        )],
        draw: Draw::TargetPerText,
        facts: Facts::Numbers,
        ..REWRITE
    },
    Declaration {
        name: "keywords",
        axis: Axis::Augmentation,
        description: "The most relevant words (GASE).",
        making: Mechanism::Prompts(&[PromptKind {
            answer: AnswerForm::Words,
            ..prompt("keywords")
        }]),
        length: Length::Part,
        facts: Facts::Any,
        ..REWRITE
    },
    Declaration {
        name: "hyde",
        axis: Axis::Augmentation,
        description: "A passage that would answer the text, for queries of a search (HyDE).",
        making: Mechanism::Prompts(&[PromptKind {
            answer: AnswerForm::LongText,
            ..prompt("hyde")
        }]),
        length: Length::Longer,
        facts: Facts::Any,
        ..REWRITE
    },
    Declaration {
        name: "doc2query",
        axis: Axis::Augmentation,
        description: "A question that the text answers, for documents of a search (doc2query).",
        making: Mechanism::Prompts(&[prompt("doc2query")]),
        length: Length::Part,
        facts: Facts::Any,
        ..REWRITE
    },
    Declaration {
        name: "random_keywords",
        description: "A random 16.1/58.2 of the words, at least 3, without punctuation; no generator (GASE control).",
        parameters: &[parameter(
            "keep_ratio",
            "Share of words that stay; at least 3 words do.",
            Value::Share { default: 16.1 / 58.2 },
        )],
        draw: Draw::Words,
        ..BY_RULE
    },
    Declaration {
        name: "stopword_removal",
        description: "The text without its function words; no generator (GASE control).",
        ..BY_RULE
    },
    Declaration {
        name: "distractors",
        description: "Texts that look alike and mean something else (CLSD).",
        making: Mechanism::Prompts(&[PromptKind {
            answer: AnswerForm::List,
            ..prompt("distractors")
        }]),
        parameters: &[parameter("count", "How many.", up_to(10, 4))],
        // CLSD, table 3.
        temperature: 1.0,
        ..OTHER_MEANING
    },
    Declaration {
        name: "multi_swap",
        description: "Words and names of one kind change places, once to three times; English, no generator (PARTIAL).",
        making: Mechanism::Rule,
        parameters: &[parameter(
            "swaps",
            "Maximum of swaps; there is a text for each number up to it.",
            up_to(3, 3),
        )],
        draw: Draw::Words,
        ..OTHER_MEANING
    },
    Declaration {
        name: "continuation",
        description: "\", and\" plus generated tokens, cut every few tokens (PARTIAL).",
        making: Mechanism::Continuation,
        parameters: &[
            parameter("stride", "Tokens between cuts.", up_to(64, 5)),
            parameter("cuts", "Number of cuts.", up_to(16, 4)),
        ],
        ..OTHER_MEANING
    },
    Declaration {
        name: "noise",
        axis: Axis::Noise,
        description: "Errors of one kind in a share of the letters, words or gaps; no generator.",
        parameters: &[
            Parameter {
                each: ValueExpansion::IfAbsent,
                ..parameter("channel", "Kind of error.", Value::Name)
            },
            Parameter {
                each: ValueExpansion::IfAbsent,
                ..parameter(
                    "dose",
                    "Expected share of the letters, words or gaps that change.",
                    Value::Share { default: 0.1 },
                )
            },
        ],
        // Noise may lengthen a text, and the reservation for a variant assumes that rules do not.
        augments: false,
        ..BY_RULE
    },
];
