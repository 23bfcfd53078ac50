//! What prompts are for, and what each must hold.

use super::Placeholder;

/// What a prompt asks a model to do. Two-call transformations use two of them (backtranslation:
/// `translation` twice).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Other words, same meaning.
    Paraphrase,
    /// Informal to formal and the reverse; the model tells which it is given (HTEB's one prompt for
    /// both directions).
    StyleChange,
    /// Longer.
    Expansion,
    /// Shorter.
    Summarisation,
    /// Into `{language}`.
    Translation,
    /// The most relevant words.
    Keywords,
    /// `{count}` numbered texts that look alike and mean something else.
    Distractors,
    /// Rates how alike `{original}` and `{transformed}` are in meaning, 0 to 5 (PTEB).
    JudgeSimilarity,
    /// Rates how well `{transformed}` carries out `{task}` on `{original}`, 1 to 5 (HTEB).
    JudgeQuality,
    /// Rates how well formed `{transformed}` is, 1 to 5 (HTEB).
    JudgeFluency,
}

impl Purpose {
    /// Every purpose, in declaration order.
    pub const ALL: [Self; 10] = [
        Self::Paraphrase,
        Self::StyleChange,
        Self::Expansion,
        Self::Summarisation,
        Self::Translation,
        Self::Keywords,
        Self::Distractors,
        Self::JudgeSimilarity,
        Self::JudgeQuality,
        Self::JudgeFluency,
    ];

    /// Its name: the id of its default prompt, and the beginning of every other wording's id.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paraphrase => "paraphrase",
            Self::StyleChange => "style_change",
            Self::Expansion => "expansion",
            Self::Summarisation => "summarisation",
            Self::Translation => "translation",
            Self::Keywords => "keywords",
            Self::Distractors => "distractors",
            Self::JudgeSimilarity => "judge_similarity",
            Self::JudgeQuality => "judge_quality",
            Self::JudgeFluency => "judge_fluency",
        }
    }

    /// The purpose of a prompt id: `paraphrase` and `paraphrase-b` are both for paraphrase.
    pub fn of_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|purpose| {
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

    /// Whether it rates pairs rather than writing texts.
    pub fn judges(self) -> bool {
        matches!(self, Self::JudgeSimilarity | Self::JudgeQuality | Self::JudgeFluency)
    }

    /// Placeholders for material (the user's texts, not our words). Each occurs once, in the last
    /// message, and nowhere else.
    pub(super) fn material(self) -> &'static [Placeholder] {
        match self {
            Self::JudgeSimilarity | Self::JudgeQuality => &[Placeholder::Original, Placeholder::Transformed],
            Self::JudgeFluency => &[Placeholder::Transformed],
            _ => &[Placeholder::Text],
        }
    }

    /// Placeholders that must occur somewhere.
    pub(super) fn required(self) -> &'static [Placeholder] {
        match self {
            Self::Translation => &[Placeholder::Language],
            Self::JudgeQuality => &[Placeholder::Task],
            _ => &[],
        }
    }

    /// Placeholders that may occur anywhere.
    pub(super) fn optional(self) -> &'static [Placeholder] {
        match self {
            Self::Distractors => &[Placeholder::Language, Placeholder::Count],
            Self::JudgeSimilarity | Self::JudgeFluency | Self::Translation => &[],
            Self::JudgeQuality => &[],
            _ => &[Placeholder::Language],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_purpose_or_a_wording_of_one() {
        assert_eq!(Purpose::of_id("paraphrase"), Some(Purpose::Paraphrase));
        assert_eq!(Purpose::of_id("paraphrase-b"), Some(Purpose::Paraphrase));
        assert_eq!(Purpose::of_id("style_change-gemma-3"), Some(Purpose::StyleChange));
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
        for (at, purpose) in Purpose::ALL.into_iter().enumerate() {
            assert_eq!(purpose as usize, at);
            assert_eq!(Purpose::of_id(purpose.name()), Some(purpose));
        }
    }
}
