//! A channel's interface, and the reasons why one does not apply.

use crate::{draft::Draft, language::Language, text::Text};

pub(crate) trait Noise: Sync {
    /// The reason why the channel can change no text of a language; `None` if it can.
    fn refusal(&self, language: Language) -> Option<NotApplicable>;

    /// Offers each eligible unit of a text to the draft, in order, and writes the changed ones.
    fn write(&self, text: &Text<'_>, language: Language, draft: &mut Draft<'_>);
}

/// The reason why a channel does not apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotApplicable {
    /// Chinese, Japanese, Amharic …: a slip of the finger changes what the method offers.
    #[error("{} is typed through an input method, so a wrong key does not give a wrong letter", .0.code())]
    InputMethod(Language),
    /// The language is typed on a keyboard whose layout is not in this crate.
    #[error("the keyboard layout of {} is not known", .0.code())]
    NoLayout(Language),
    /// The script has one case.
    #[error("the script of {} has no letter case", .0.code())]
    NoCase(Language),
    /// The letters of the script have no known look-alikes.
    #[error("similar letters of the script of {} are not known", .0.code())]
    NoTable(Language),
    /// The script has no marks that can be left out.
    #[error("the script of {} has no marks that writers leave out", .0.code())]
    NoDiacritics(Language),
    #[error("no lexicon is shipped for {}", .0.code())]
    NoLexicon(Language),
    /// The text has nothing that the channel could change.
    #[error("the text has no unit that this noise could change")]
    NothingEligible,
}

impl NotApplicable {
    /// A stable name of the reason.
    pub fn reason(self) -> &'static str {
        match self {
            Self::InputMethod(_) => "input_method",
            Self::NoLayout(_) => "no_layout",
            Self::NoCase(_) => "no_case",
            Self::NoTable(_) => "no_table",
            Self::NoDiacritics(_) => "no_diacritics",
            Self::NoLexicon(_) => "no_lexicon",
            Self::NothingEligible => "nothing_eligible",
        }
    }
}
