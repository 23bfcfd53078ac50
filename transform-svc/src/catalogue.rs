//! The catalogue of transformations: every one the papers define, those not served yet included.
//! Which of them a suite may name: `crates/report/src/terms/transformation.rs`.

use isomer_config::spelling::nearest;
use isomer_proto::transform::v1 as proto;

use crate::prompt::Purpose;

/// A transformation, without its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the catalogue's, described in ENTRIES")]
pub enum Kind {
    Paraphrase,
    Backtranslation,
    StyleChange,
    Expansion,
    Summarisation,
    SummarisedExpansion,
    Translation,
    CrossTranslation,
    Keywords,
    RandomKeywords,
    StopwordRemoval,
    Distractors,
    MultiSwap,
    Continuation,
    Noise,
}

/// What the catalogue says of a transformation.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Which.
    pub kind: Kind,
    /// Its name, e.g. `paraphrase`.
    pub name: &'static str,
    /// What it varies.
    pub axis: proto::Axis,
    /// One sentence.
    pub description: &'static str,
    /// Generator calls per attempt; 0 for those that need none.
    pub calls: u32,
    /// Whether `Transform` serves it.
    pub served: bool,
}

const fn entry(
    kind: Kind,
    name: &'static str,
    axis: proto::Axis,
    calls: u32,
    served: bool,
    description: &'static str,
) -> Entry {
    Entry {
        kind,
        name,
        axis,
        description,
        calls,
        served,
    }
}

/// The message of the transformation of this name, with default parameters.
///
/// # Errors
/// The nearest name there is, if one is near, where no transformation has this one.
pub fn with_defaults(name: &str) -> Result<proto::transformation::Kind, Option<&'static str>> {
    let known = ENTRIES.iter().any(|entry| entry.name == name);
    let message = known.then(|| proto::Transformation::named(name)).flatten();
    message
        .and_then(|message| message.kind)
        .ok_or_else(|| nearest(name, ENTRIES.iter().map(|entry| entry.name)))
}

/// All of them, in the order in which they are listed.
pub const ENTRIES: [Entry; 15] = {
    use proto::Axis::{Adversarial, Augmentation, Language, Length, Lexical, Noise};
    [
        entry(
            Kind::Paraphrase,
            "paraphrase",
            Lexical,
            1,
            true,
            "Other words, same meaning, same language (PTEB, HTEB, GASE).",
        ),
        entry(
            Kind::Backtranslation,
            "backtranslation",
            Lexical,
            2,
            true,
            "Into a pivot language and back (HTEB).",
        ),
        entry(
            Kind::StyleChange,
            "style_change",
            Lexical,
            1,
            true,
            "Informal to formal, formal or scientific to informal (HTEB).",
        ),
        entry(
            Kind::Expansion,
            "expansion",
            Length,
            1,
            true,
            "More detail, same core meaning and sentence type (HTEB).",
        ),
        entry(
            Kind::Summarisation,
            "summarisation",
            Length,
            1,
            true,
            "Shorter, same meaning and sentence type (HTEB, GASE).",
        ),
        entry(
            Kind::SummarisedExpansion,
            "summarised_expansion",
            Length,
            2,
            true,
            "Expansion, then summarisation of it (HTEB).",
        ),
        entry(
            Kind::Translation,
            "translation",
            Language,
            1,
            true,
            "Into one target language for the whole run (HTEB).",
        ),
        entry(
            Kind::CrossTranslation,
            "cross_translation",
            Language,
            1,
            true,
            "Into a target language drawn per text (HTEB).",
        ),
        entry(
            Kind::Keywords,
            "keywords",
            Augmentation,
            1,
            true,
            "The most relevant words (GASE).",
        ),
        entry(
            Kind::RandomKeywords,
            "random_keywords",
            Augmentation,
            0,
            true,
            "A random 16.1/58.2 of the words, at least 3, without punctuation; no generator (GASE control).",
        ),
        entry(
            Kind::StopwordRemoval,
            "stopword_removal",
            Augmentation,
            0,
            true,
            "The text without its function words; no generator (GASE control).",
        ),
        entry(
            Kind::Distractors,
            "distractors",
            Adversarial,
            1,
            true,
            "Texts that look alike and mean something else (CLSD).",
        ),
        entry(
            Kind::MultiSwap,
            "multi_swap",
            Adversarial,
            0,
            true,
            "Words and names of one kind change places, once to three times; English, no generator (PARTIAL).",
        ),
        entry(
            Kind::Continuation,
            "continuation",
            Adversarial,
            1,
            true,
            "\", and\" plus generated tokens, cut every few tokens (PARTIAL).",
        ),
        entry(
            Kind::Noise,
            "noise",
            Noise,
            0,
            true,
            "Errors of one kind in a share of the letters, words or gaps; no generator.",
        ),
    ]
};

impl Kind {
    /// Its entry in the catalogue.
    pub fn entry(self) -> &'static Entry {
        // The array is in declaration order, which a test holds.
        &ENTRIES[self as usize]
    }

    /// Its name, e.g. `paraphrase`.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Whether it asks a language model.
    pub fn needs_generator(self) -> bool {
        self.entry().calls > 0
    }

    /// Sampling temperature of the paper it is from, where a request gives none.
    pub fn default_temperature(self) -> f64 {
        // CLSD, table 3. HTEB's transformations are greedy, and so is everything else.
        if self == Self::Distractors { 1.0 } else { 0.0 }
    }

    /// What each of its calls asks for, in order; empty where it needs no generator.
    pub fn purposes(self) -> &'static [Purpose] {
        match self {
            Self::Paraphrase => &[Purpose::Paraphrase],
            Self::StyleChange => &[Purpose::StyleChange],
            Self::Expansion => &[Purpose::Expansion],
            Self::Summarisation => &[Purpose::Summarisation],
            Self::Translation | Self::CrossTranslation => &[Purpose::Translation],
            Self::Backtranslation => &[Purpose::Translation, Purpose::Translation],
            Self::SummarisedExpansion => &[Purpose::Expansion, Purpose::Summarisation],
            Self::Keywords => &[Purpose::Keywords],
            Self::Distractors => &[Purpose::Distractors],
            Self::RandomKeywords | Self::StopwordRemoval | Self::MultiSwap | Self::Continuation | Self::Noise => &[],
        }
    }

    /// Whether its result is in another language than its text.
    pub fn changes_language(self) -> bool {
        matches!(self, Self::Translation | Self::CrossTranslation)
    }

    /// Whether it gives several texts for one, none of which the original can stand in for.
    pub fn gives_several(self) -> bool {
        matches!(self, Self::Distractors | Self::MultiSwap | Self::Continuation)
    }

    /// Whether the result is meant to be much shorter than its text.
    pub fn shortens(self) -> bool {
        matches!(self, Self::Summarisation | Self::Keywords)
    }

    /// Whether it is meant to make a text longer.
    pub fn expands(self) -> bool {
        matches!(self, Self::Expansion | Self::SummarisedExpansion)
    }
}

/// Names of what is served, for an error message.
pub fn served_names() -> String {
    let names: Vec<_> = ENTRIES
        .iter()
        .filter(|entry| entry.served)
        .map(|entry| entry.name)
        .collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_found_under_its_kind() {
        for (index, entry) in ENTRIES.iter().enumerate() {
            assert_eq!(entry.kind as usize, index, "{}", entry.name);
            assert_eq!(entry.kind.entry().name, entry.name);
        }
    }

    #[test]
    fn every_call_of_a_served_transformation_has_its_prompt() {
        // A text is continued without being asked to.
        for entry in ENTRIES.iter().filter(|entry| entry.kind != Kind::Continuation) {
            assert!(entry.served, "{}", entry.name);
            assert_eq!(entry.kind.purposes().len(), entry.calls as usize, "{}", entry.name);
        }
    }

    #[test]
    fn the_axes_are_those_of_hteb() {
        let of = |axis| {
            ENTRIES
                .iter()
                .filter(|e| e.axis == axis)
                .map(|e| e.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            of(proto::Axis::Lexical),
            ["paraphrase", "backtranslation", "style_change"]
        );
        assert_eq!(
            of(proto::Axis::Length),
            ["expansion", "summarisation", "summarised_expansion"]
        );
        assert_eq!(of(proto::Axis::Language), ["translation", "cross_translation"]);
    }
}
