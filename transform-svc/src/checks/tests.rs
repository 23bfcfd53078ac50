//! Tests each check on texts that it fires on and on texts that it does not fire on, in several
//! languages.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use isomer_transformations::declaration;

use super::*;

const ORIGINAL: &str = "A man is playing the guitar on a busy street in town.";

fn kind(name: &str) -> &'static Declaration {
    declaration(name).unwrap()
}

fn lang(code: &str) -> Option<Language> {
    Some(Language::parse(code).unwrap())
}

fn paraphrase(text: &str) -> Vec<Check> {
    run(kind("paraphrase"), ORIGINAL, text, lang("en"))
}

#[test]
fn a_good_paraphrase_passes() {
    assert_eq!(paraphrase("Someone plays guitar along a crowded road in the city."), []);
}

#[test]
fn a_copy_is_identical_whatever_its_case() {
    assert_eq!(
        paraphrase(" a MAN is playing the guitar on a busy street in town. "),
        [Check::Identical]
    );
}

#[test]
fn no_text_is_empty_and_truncated() {
    assert_eq!(paraphrase("  \n"), [Check::Empty, Check::Truncated]);
    assert_eq!(run(kind("paraphrase"), "Hello there", "", None), [Check::Empty]);
}

#[test]
fn an_empty_original_and_an_empty_text_are_identical_and_empty() {
    assert_eq!(run(kind("paraphrase"), "", "", None), [Check::Identical, Check::Empty]);
}

#[test]
fn dots_alone_are_an_ellipsis_and_one_full_stop_is_not() {
    for dots in ["...", "…", "..", ". . .", "……"] {
        assert!(paraphrase(dots).contains(&Check::Ellipsis), "{dots}");
    }
    assert!(!paraphrase(".").contains(&Check::Ellipsis));
    assert!(!paraphrase("Well... someone plays guitar in a street.").contains(&Check::Ellipsis));
}

#[test]
fn structured_output_starts_with_a_brace_or_bracket() {
    assert!(paraphrase("{\"text\": \"Someone plays guitar in a street.\"}").contains(&Check::Structured));
    assert!(paraphrase("[Someone plays guitar in a street]").contains(&Check::Structured));
    assert!(!paraphrase("Someone {a man} plays guitar in a street.").contains(&Check::Structured));
}

#[test]
fn reasoning_is_a_leak() {
    for text in [
        "<think>The user wants a paraphrase.</think> Someone plays guitar.",
        "Let me think about how to say this. Someone plays guitar.",
        "Step 1: replace the subject. Someone plays guitar in a street.",
        "I'll rephrase the text: someone plays guitar in a street.",
    ] {
        assert!(paraphrase(text).contains(&Check::ReasoningLeak), "{text}");
    }
}

#[test]
fn reasoning_words_of_the_original_are_no_leak() {
    let original = "Let me think about it, she said to the manager.";
    assert_eq!(
        run(
            kind("paraphrase"),
            original,
            "Let me think it over, she told the boss.",
            lang("en")
        ),
        []
    );
    let original = "I will go to the market with her tomorrow.";
    assert_eq!(
        run(
            kind("paraphrase"),
            original,
            "I'll head to the market with her tomorrow.",
            lang("en")
        ),
        []
    );
}

#[test]
fn a_lead_in_is_a_leak_unless_the_original_has_it() {
    for text in [
        "Paraphrased text: Someone plays guitar in a crowded street.",
        "Here is the paraphrase: Someone plays guitar in a street.",
        "Sure, here's a rephrased version:\nSomeone plays guitar in a street.",
        "**Paraphrase:** Someone plays guitar in a crowded street.",
    ] {
        assert!(paraphrase(text).contains(&Check::InstructionPrefix), "{text}");
    }
    let original = "Summary: the profits of the company rose last year.";
    assert_eq!(
        run(
            kind("paraphrase"),
            original,
            "Summary: last year the company earned more money.",
            lang("en")
        ),
        []
    );
}

#[test]
fn the_wrong_language_is_told_and_a_short_text_is_not_judged() {
    let german = "Ein Mann spielt auf einer belebten Straße in der Stadt Gitarre.";
    assert_eq!(paraphrase(german), [Check::WrongLanguage]);
    assert_eq!(run(kind("translation"), ORIGINAL, german, lang("de")), []);
    assert_eq!(
        run(
            kind("translation"),
            ORIGINAL,
            "Someone plays guitar on the street in town.",
            lang("de")
        ),
        [Check::WrongLanguage]
    );
    assert_eq!(run(kind("paraphrase"), "Guten Tag", "Hello you", lang("de")), []);
    assert_eq!(run(kind("paraphrase"), ORIGINAL, german, None), []);
}

#[test]
fn more_than_five_times_the_words_is_runaway_but_not_for_expansions() {
    let (five, six) = ("word ".repeat(10), "word ".repeat(11));
    assert!(!run(kind("paraphrase"), "two words", &five, None).contains(&Check::Runaway));
    assert!(run(kind("paraphrase"), "two words", &six, None).contains(&Check::Runaway));
    assert!(run(kind("translation"), "🎉", "one two three four five six", None).contains(&Check::Runaway));
    for kind in [kind("expansion"), kind("summarised_expansion")] {
        assert!(!run(kind, "two words", &six, None).contains(&Check::Runaway));
    }
}

#[test]
fn under_a_fifth_of_the_words_is_truncated_but_not_for_summaries_or_short_inputs() {
    let ten = "one two three four five six seven eight nine ten";
    assert_eq!(run(kind("paraphrase"), ten, "digit", None), [Check::Truncated]);
    assert_eq!(run(kind("paraphrase"), ten, "digit row", None), []);
    assert_eq!(run(kind("summarisation"), ten, "digit", None), []);
    assert_eq!(run(kind("paraphrase"), "one two three", "1", None), []);
    assert_eq!(run(kind("paraphrase"), "one two three four", "1", None), []);
}

#[test]
fn lengths_count_characters_where_chinese_has_no_spaces() {
    let original = "今天天气很好我们一起去公园散步吧";
    assert_eq!(run(kind("paraphrase"), original, "公园", None), [Check::Truncated]);
    assert_eq!(
        run(kind("paraphrase"), original, "天气不错，去公园走走吧", lang("zh")),
        []
    );
    assert!(run(kind("paraphrase"), "天气", &"好".repeat(11), None).contains(&Check::Runaway));
}

#[test]
fn a_summary_longer_than_its_input_is_one_but_a_paraphrase_may_grow() {
    let longer = format!("{ORIGINAL} Really.");
    assert_eq!(
        run(kind("summarisation"), ORIGINAL, &longer, lang("en")),
        [Check::SummaryLonger]
    );
    assert_eq!(paraphrase(&longer), []);
    assert_eq!(run(kind("summarisation"), "a b c d", "e f g h", None), []);
}

#[test]
fn several_checks_may_hold_of_one_text() {
    let fired = run(
        kind("summarisation"),
        "ok go",
        "[Let me think] one two three four five six seven eight nine ten",
        None,
    );
    assert_eq!(
        fired,
        [
            Check::Structured,
            Check::ReasoningLeak,
            Check::Runaway,
            Check::SummaryLonger,
            Check::Placeholder
        ]
    );
}

#[test]
fn a_control_may_keep_or_lose_words_but_not_all() {
    assert_eq!(
        run(kind("stopword_removal"), "one two three four five six", "one", None),
        []
    );
    assert_eq!(
        run(kind("random_keywords"), "three short words", "three short words", None),
        []
    );
    assert_eq!(
        run(kind("stopword_removal"), "to be or not to be", "", None),
        [Check::Empty]
    );
}

/// Each row has a kind, an original, its transformed text, the expected language and the checks
/// that fire, in several languages.
#[test]
fn the_ten_error_types_in_several_languages() {
    use Check::{
        Ellipsis, Empty, Garbled, Identical, InstructionPrefix, ReasoningLeak, Runaway, Structured, SummaryLonger,
        Truncated, WrongLanguage,
    };
    let german = "Der Ausschuss hat seine Entscheidung auf nächste Woche verschoben.";
    let turkish = "Komite kararını gelecek haftaya kadar erteledi çünkü iki üye hastaydı.";
    let arabic = "أجلت اللجنة قرارها إلى الأسبوع المقبل بسبب مرض اثنين من أعضائها.";
    let swahili = "Kamati iliahirisha uamuzi wake hadi wiki ijayo kwa sababu wanachama wawili walikuwa wagonjwa.";
    let chinese = "委员会因为两名成员生病而把决定推迟到下周。";
    let cases: &[(&Declaration, &str, &str, &str, &[Check])] = &[
        (
            kind("style_change"),
            german,
            "DER AUSSCHUSS HAT SEINE ENTSCHEIDUNG AUF NÄCHSTE WOCHE VERSCHOBEN.",
            "de",
            &[Identical],
        ),
        (kind("backtranslation"), turkish, turkish, "tr", &[Identical]),
        (kind("backtranslation"), turkish, arabic, "tr", &[WrongLanguage]),
        (kind("cross_translation"), german, arabic, "ar", &[]),
        (
            kind("cross_translation"),
            german,
            "The committee put its decision off to next week.",
            "fr",
            &[WrongLanguage],
        ),
        (
            kind("cross_translation"),
            german,
            german,
            "tr",
            &[Identical, WrongLanguage],
        ),
        (
            kind("paraphrase"),
            swahili,
            "The committee postponed its decision because two members were ill.",
            "sw",
            &[WrongLanguage],
        ),
        (
            kind("paraphrase"),
            swahili,
            "Kwa kuwa wanachama wawili waliugua, kamati ilisogeza uamuzi wake hadi wiki ijayo.",
            "sw",
            &[],
        ),
        (
            kind("paraphrase"),
            chinese,
            "由于两名委员患病，委员会决定下周再作决定。",
            "zh",
            &[],
        ),
        (kind("paraphrase"), chinese, "推迟", "zh", &[Truncated]),
        (kind("paraphrase"), arabic, "\u{2026}", "ar", &[Ellipsis, Truncated]),
        (kind("translation"), german, "", "fr", &[Empty, Truncated]),
        (
            kind("translation"),
            german,
            "Traduction : Le comité a reporté sa décision à la semaine prochaine.",
            "fr",
            &[InstructionPrefix],
        ),
        (
            kind("translation"),
            german,
            "الترجمة: أجلت اللجنة قرارها إلى الأسبوع المقبل.",
            "ar",
            &[InstructionPrefix],
        ),
        (
            kind("style_change"),
            german,
            "{\"text\": \"Der Ausschuss entscheidet erst in der nächsten Woche.\"}",
            "de",
            &[Structured],
        ),
        (
            kind("keywords"),
            german,
            "Keywords: Ausschuss Entscheidung Woche verschoben",
            "de",
            &[InstructionPrefix],
        ),
        (kind("keywords"), ORIGINAL, "guitar", "en", &[]),
        (
            kind("distractors"),
            ORIGINAL,
            "Let me think. A man is selling the guitar on a quiet street.",
            "en",
            &[ReasoningLeak],
        ),
        (
            kind("summarisation"),
            chinese,
            "委员会因为两名成员生病，把原来的决定推迟到了下周一再说。",
            "zh",
            &[SummaryLonger],
        ),
        (
            kind("summarised_expansion"),
            "Hi there",
            &"sehr ".repeat(11),
            "",
            &[Garbled],
        ),
        (
            kind("backtranslation"),
            "Hallo du",
            &"sehr ".repeat(11),
            "",
            &[Runaway, Garbled],
        ),
        (kind("summarised_expansion"), ORIGINAL, "Music.", "en", &[Truncated]),
        (
            kind("summarised_expansion"),
            "A man plays.",
            "A man plays his guitar in town.",
            "en",
            &[],
        ),
    ];
    for (kind, original, text, code, fired) in cases {
        assert_eq!(
            &run(kind, original, text, Language::parse(code)),
            fired,
            "{} {text}",
            kind.name
        );
    }
}
