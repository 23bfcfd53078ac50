//! Words in other letter case: all small, all capitals, capitalised, whichever differs.
//!
//! Eligible unit: a word without digits that has a letter with two cases. Whole words change,
//! because people write whole words in another case (`change_char_case` of NL-Augmenter, K. D.
//! Dhole et al., 2021, changes letters). Georgian has capitals in Unicode and does not use them.

use crate::{
    draft::Draft,
    language::{Language, Script},
    letters::{is_cased, lower, upper},
    noise::{Noise, NotApplicable},
    text::Text,
};

/// Letter case.
pub(super) struct Case;

impl Noise for Case {
    fn refusal(&self, language: Language) -> Option<NotApplicable> {
        let cased = matches!(
            language.script(),
            Script::Latin | Script::Cyrillic | Script::Greek | Script::Armenian
        );
        (!cased).then_some(NotApplicable::NoCase(language))
    }

    fn write(&self, text: &Text<'_>, language: Language, draft: &mut Draft<'_>) {
        for word in text.words.iter().filter(|word| !word.numeric) {
            let span = text.span(word);
            let own = &text.source[span.clone()];
            if !own.chars().any(is_cased) {
                continue;
            }
            if let Some(mut pick) = draft.unit() {
                let mut forms = forms(own, language.is_turkic());
                forms.retain(|form| form != own);
                let form = pick.of(&forms).map_or(own, String::as_str);
                draft.replace(span).push_str(form);
            }
        }
    }
}

/// The distinct forms of a word.
fn forms(word: &str, turkic: bool) -> Vec<String> {
    let small = |word: &str| -> String {
        let last = word.chars().count();
        let form = |(at, c)| match lower(c, turkic) {
            'σ' if at + 1 == last && at > 0 => 'ς',
            c => c,
        };
        word.chars().enumerate().map(form).collect()
    };
    let small = small(word);
    let capitals: String = word.chars().map(|c| upper(c, turkic)).collect();
    let mut capitalised = String::with_capacity(word.len());
    let mut rest = small.chars();
    capitalised.extend(rest.next().map(|c| upper(c, turkic)));
    capitalised.push_str(rest.as_str());
    let mut forms = vec![small, capitals, capitalised];
    forms.dedup();
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_script_has_its_own_rules() {
        assert_eq!(forms("Table", false), ["table", "TABLE", "Table"]);
        assert_eq!(forms("a", false), ["a", "A"]);
        assert_eq!(forms("İstanbul'ı", true), ["istanbul'ı", "İSTANBUL'I", "İstanbul'ı"]);
        assert_eq!(forms("ΛΌΓΟΣ", false), ["λόγος", "ΛΌΓΟΣ", "Λόγος"]);
        assert_eq!(forms("Straße", false), ["straße", "STRAßE", "Straße"]);
    }
}
