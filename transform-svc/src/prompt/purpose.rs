//! Purposes of prompts, and the placeholders that each must hold.

use std::sync::LazyLock;

use isomer_transformations::{AnswerForm, CATALOGUE, PromptKind};

use super::Placeholder;

/// The task that a prompt gives to a model. Two-call transformations use two purposes
/// (backtranslation: `translation` twice).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Writes a text for a transformation.
    Write(PromptKind),
    /// Rates how alike `{original}` and `{transformed}` are in meaning, 0 to 5 (PTEB).
    JudgeSimilarity,
    /// Rates how well `{transformed}` carries out `{task}` on `{original}`, 1 to 5 (HTEB).
    JudgeQuality,
    /// Rates how well formed `{transformed}` is, 1 to 5 (HTEB).
    JudgeFluency,
}

impl Purpose {
    /// All purposes: those of the catalogue's prompts, each once, then the judges'.
    pub fn all() -> &'static [Self] {
        static ALL: LazyLock<Vec<Purpose>> = LazyLock::new(|| {
            let mut all: Vec<Purpose> = Vec::new();
            for kind in CATALOGUE.iter().flat_map(|row| row.prompts()) {
                if !all.contains(&Purpose::Write(*kind)) {
                    all.push(Purpose::Write(*kind));
                }
            }
            all.extend([Purpose::JudgeSimilarity, Purpose::JudgeQuality, Purpose::JudgeFluency]);
            all
        });
        &ALL
    }

    /// The purpose's name: the id of its default prompt, and the beginning of every other wording's
    /// id.
    pub fn name(self) -> &'static str {
        match self {
            Self::Write(kind) => kind.name,
            Self::JudgeSimilarity => "judge_similarity",
            Self::JudgeQuality => "judge_quality",
            Self::JudgeFluency => "judge_fluency",
        }
    }

    /// The purpose of a prompt id: `paraphrase` and `paraphrase-b` both have the purpose
    /// paraphrase.
    pub fn of_id(id: &str) -> Option<Self> {
        Self::all().iter().copied().find(|purpose| {
            id.strip_prefix(purpose.name()).is_some_and(|rest| {
                rest.is_empty()
                    || rest.strip_prefix('-').is_some_and(|wording| {
                        !wording.is_empty()
                            && wording
                                .chars()
                                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_')
                    })
            })
        })
    }

    /// Whether the prompt rates pairs rather than writing texts.
    pub fn judges(self) -> bool {
        !matches!(self, Self::Write(_))
    }

    /// Form of the answer.
    pub fn answer(self) -> AnswerForm {
        match self {
            Self::Write(kind) => kind.answer,
            Self::JudgeSimilarity | Self::JudgeQuality | Self::JudgeFluency => AnswerForm::Text,
        }
    }

    /// Placeholders for the user's texts. Each occurs once, in the last message only.
    pub(super) fn material(self) -> &'static [Placeholder] {
        match self {
            Self::JudgeSimilarity | Self::JudgeQuality => &[Placeholder::Original, Placeholder::Transformed],
            Self::JudgeFluency => &[Placeholder::Transformed],
            Self::Write(_) => &[Placeholder::Text],
        }
    }

    /// Placeholders that must occur.
    pub(super) fn required(self) -> &'static [Placeholder] {
        match self {
            Self::Write(kind) if kind.needs_language => &[Placeholder::Language],
            Self::JudgeQuality => &[Placeholder::Task],
            _ => &[],
        }
    }

    /// Placeholders that may occur anywhere.
    pub(super) fn optional(self) -> &'static [Placeholder] {
        match self {
            Self::Write(kind) if kind.needs_language => &[],
            Self::Write(kind) if kind.answer == AnswerForm::List => &[Placeholder::Language, Placeholder::Count],
            Self::Write(_) => &[Placeholder::Language],
            Self::JudgeSimilarity | Self::JudgeQuality | Self::JudgeFluency => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_purpose_or_a_wording_of_one() {
        let name = |id| Purpose::of_id(id).map(Purpose::name);
        assert_eq!(name("paraphrase"), Some("paraphrase"));
        assert_eq!(name("paraphrase-b"), Some("paraphrase"));
        assert_eq!(name("style_change-gemma-3"), Some("style_change"));
        for id in [
            "",
            "paraphrase-",
            "paraphrase-B",
            "paraphraseb",
            "backtranslation",
            "paraphrase-b c",
        ] {
            assert_eq!(Purpose::of_id(id), None, "{id}");
        }
        for purpose in Purpose::all() {
            assert_eq!(Purpose::of_id(purpose.name()), Some(*purpose));
        }
    }
}
