//! The row of a transformation.

use crate::{Axis, Parameter};

/// A transformation as the catalogue declares it.
#[derive(Debug)]
pub struct Declaration {
    /// The catalogue's name, e.g. `paraphrase`.
    pub name: &'static str,
    /// The property of a text that it varies.
    pub axis: Axis,
    /// One sentence.
    pub description: &'static str,
    /// How its texts are made.
    pub making: Mechanism,
    /// In the order in which a label shows them.
    pub parameters: &'static [Parameter],
    /// The part that is drawn at random.
    pub draw: Draw,
    /// Length of the result beside that of its text.
    pub length: Length,
    /// Facts that a rewrite must keep.
    pub facts: Facts,
    /// Whether it makes several texts, of another meaning, from one. The original then cannot take
    /// the place of a failed result.
    pub gives_several: bool,
    /// Whether its texts can be variants for GASE.
    pub augments: bool,
    /// Sampling temperature of the paper that it is from, where a request gives none.
    pub temperature: f64,
}

/// How texts are made.
#[derive(Debug, Clone, Copy)]
pub enum Mechanism {
    /// By rule, without a generator.
    Rule,
    /// By one call to a generator for each prompt, each on the answer of the call before.
    Prompts(&'static [PromptKind]),
    /// By a generator that continues the text, without a prompt.
    Continuation,
}

/// A task that prompts set a generator. Several wordings may set the same task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PromptKind {
    /// Id of the default prompt. The ids of other wordings begin with it.
    pub name: &'static str,
    /// Whether a prompt of this kind must name the language of the answer. Others may.
    pub needs_language: bool,
    /// Form of the answer.
    pub answer: AnswerForm,
}

/// Form of a generator's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnswerForm {
    /// A text about as long as its original.
    Text,
    /// A text that is meant to be longer than its original.
    LongText,
    /// Words in one line, without punctuation.
    Words,
    /// A numbered list of `count` texts.
    List,
}

/// The part of a transformation that is drawn at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draw {
    /// Nothing, or a draw that depends on the text alone.
    Nothing,
    /// Words of each text, by its id.
    Words,
    /// One target language for the run, unless `target_language` is given.
    Target,
    /// A target language for each text, from `target_languages`.
    TargetPerText,
    /// A pivot language for each text, unless `pivot_language` is given.
    PivotPerText,
}

/// Length of a result beside that of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// About the same.
    Kept,
    /// More words than its text.
    Longer,
    /// Shorter: a longer one is an error.
    Shorter,
    /// Some words of the text.
    Part,
}

/// Facts (numbers, negations, names) that a rewrite must keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Facts {
    /// None may be lost or added; a name may be added.
    Same,
    /// None may be lost.
    NoneLost,
    /// None may be added or changed.
    NoneAdded,
    /// The numbers stay: names are spelt differently in other languages, and negation is compared
    /// within one language.
    Numbers,
    /// No requirement.
    Any,
}

impl Declaration {
    /// Calls to a generator per attempt; 0 if it is made by rule.
    pub fn calls(&self) -> u32 {
        match self.making {
            Mechanism::Rule => 0,
            Mechanism::Prompts(prompts) => prompts.len() as u32,
            Mechanism::Continuation => 1,
        }
    }

    pub fn needs_generator(&self) -> bool {
        !matches!(self.making, Mechanism::Rule)
    }

    /// The kind of prompt of each of its calls, in order.
    pub fn prompts(&self) -> &'static [PromptKind] {
        match self.making {
            Mechanism::Prompts(prompts) => prompts,
            Mechanism::Rule | Mechanism::Continuation => &[],
        }
    }

    /// Whether its result is in a different language from its text.
    pub fn changes_language(&self) -> bool {
        matches!(self.draw, Draw::Target | Draw::TargetPerText)
    }

    /// Whether the result is meant to be much shorter than its text.
    pub fn shortens(&self) -> bool {
        matches!(self.length, Length::Shorter | Length::Part)
    }

    pub fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }
}

impl PartialEq for Declaration {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Declaration {}
