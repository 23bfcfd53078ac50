//! Letters of another script that look the same.
//!
//! Eligible unit: a letter, alone in its cluster, of a word without digits, that has a look-alike.
//!
//! The pairs are a selection from `confusables.txt` of Unicode 14 (UTS #39, "Unicode Security
//! Mechanisms"): letters of scripts in use, both of one prototype. Only pairs of two scripts are
//! here, or of two languages in Arabic script, and no digits or Han numerals. As an attack they are
//! studied by N. Boucher et al., "Bad Characters: Imperceptible NLP Attacks", IEEE S&P 2022.

use std::sync::LazyLock;

use crate::{
    cells::Cells,
    draft::Draft,
    language::{Language, Script},
    noise::{Noise, NotApplicable},
    text::Text,
};

/// Sets of letters that look the same.
const SETS: &str = "aаα cс dԁ eе gց hһհ iіι jј oоοօ pрρ qԛզ sѕ uυս vν wԝ xх yуγ
AАΑ BВΒ CС EЕΕ HНΗ IІΙ JЈ KКΚ MМΜ NΝ OОΟՕ PРΡ SЅՏ TТΤ UՍ XХΧ YΥ ZΖ
нʜ кκ тτ гr ЗƷ
كک يیى هہ
口ロ 力カ 工エ 夕タ 卜ト へヘ";

/// Look-alikes.
pub(super) struct Homoglyphs;

fn table() -> &'static Cells<Vec<char>> {
    static TABLE: LazyLock<Cells<Vec<char>>> = LazyLock::new(|| Cells::of_sets(SETS));
    &TABLE
}

impl Noise for Homoglyphs {
    fn refusal(&self, language: Language) -> Option<NotApplicable> {
        let known = matches!(
            language.script(),
            Script::Latin
                | Script::Cyrillic
                | Script::Greek
                | Script::Armenian
                | Script::Arabic
                | Script::Han
                | Script::Japanese
        );
        (!known).then_some(NotApplicable::NoTable(language))
    }

    fn write(&self, text: &Text<'_>, _: Language, draft: &mut Draft<'_>) {
        let table = table();
        for (at, ..) in text.letters() {
            let mut characters = text.cluster(at).chars();
            let (Some(c), None) = (characters.next(), characters.next()) else {
                continue;
            };
            let Some(others) = table.get(c) else {
                continue;
            };
            if let Some(mut pick) = draft.unit() {
                draft.replace(text.range(at)).extend(pick.of(others));
            }
        }
    }
}
