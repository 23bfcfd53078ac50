//! Languages: reading tags, names for prompts, detection, drawing a target.
//!
//! cld2 detects languages. It distinguished all of 47 test languages, the African ones included, in
//! microseconds per sentence. On short texts it guesses; [`detect`] then returns `None` (too short
//! for detection).

use std::sync::LazyLock;

use cld2::{Format, Reliability};
use isomer_config::spelling::nearest;
pub use isomer_proto::transform::v1::LanguageCheck;
use unicode_segmentation::UnicodeSegmentation;

use crate::{seed, word_lists::WordLists};

/// Languages that the detector confuses or does not know, and other codes of languages.
static LISTS: LazyLock<WordLists> = LazyLock::new(|| WordLists::read(include_str!("languages.txt")));

/// ISO 639-1 (or -3 if there is none), ISO 639-3, English name.
const NAMES: &[(&str, &str, &str)] = &include!("language_names.in");

/// Target languages of `translation` and `cross_translation` (HTEB).
pub const TARGETS: [&str; 5] = ["es", "fr", "de", "tr", "ar"];

/// Pivots of `backtranslation` (HTEB).
pub const PIVOTS: [&str; 6] = ["en", "es", "fr", "de", "tr", "ar"];

/// A known language. Compare with [`Language::matches`], which treats languages that a detector
/// cannot distinguish as equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Language {
    code: &'static str,
    name: &'static str,
}

impl Language {
    /// Reads a BCP-47 tag: only the primary subtag is used (`pt-BR` is Portuguese, `eng-Latn`
    /// English). `None` if unknown.
    pub fn parse(tag: &str) -> Option<Self> {
        let primary = tag.split(['-', '_']).next()?.to_ascii_lowercase();
        let mut aliases = LISTS.list("alias").iter().filter_map(|alias| alias.split_once(' '));
        let alias = aliases.find(|(code, _)| *code == primary);
        let primary = alias.map_or(primary.as_str(), |(_, known)| known);
        NAMES
            .iter()
            .find(|(two, three, _)| *two == primary || *three == primary)
            .map(|&(code, _, name)| Self { code, name })
    }

    /// The shortest code, for example `en`.
    pub fn code(self) -> &'static str {
        self.code
    }

    /// English name, for example `German`.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// The tag and name nearest to an unknown tag: `englsh` and `English` give `en`, `deu-` gives
    /// `de`.
    pub fn nearest(tag: &str) -> Option<(&'static str, &'static str)> {
        let named = |wanted: &str| {
            NAMES
                .iter()
                .find(|(two, three, name)| [*two, *three, *name].contains(&wanted))
                .map(|(code, _, name)| (*code, *name))
        };
        // Every two-letter tag is close to many others, so a suggestion requires a full or nearly
        // full name.
        let names = NAMES
            .iter()
            .map(|(_, _, name)| *name)
            .filter(|_| tag.chars().count() > 3);
        nearest(tag, names).and_then(named)
    }

    /// Whether two codes are one language as far as a detector can distinguish.
    pub fn matches(self, other: Self) -> bool {
        let (own, other) = (self.taken_for(), other.taken_for());
        let has = |set: &str, code: &str| set.split(' ').any(|one| one == code);
        own == other || LISTS.list("same").iter().any(|set| has(set, own) && has(set, other))
    }

    /// The code that the detector returns for texts in this language: its own, or that of the
    /// language it confuses them with.
    fn taken_for(self) -> &'static str {
        self.undetected().filter(|other| !other.is_empty()).unwrap_or(self.code)
    }

    /// The language as which the detector classifies this unknown one; empty if its result is
    /// useless. `None` if it knows the language.
    fn undetected(self) -> Option<&'static str> {
        LISTS.list("undetected").iter().find_map(|row| {
            let rest = row.strip_prefix(self.code)?;
            (rest.is_empty() || rest.starts_with(' ')).then(|| rest.trim_start())
        })
    }

    /// Whether the detector knows the language or maps it to one particular other language.
    fn is_detectable(self) -> bool {
        self.undetected() != Some("")
    }
}

/// Number of words, and of letters, below which a text in an alphabet is too short for detection.
const MIN_WORDS: usize = 4;
const MIN_LETTERS: usize = 16;

/// The language of a text; `None` if it is too short or the detector is not sure.
pub fn detect(text: &str) -> Option<Language> {
    detect_with(text, None)
}

/// Like [`detect`], with a hint of the likely language.
fn detect_with(text: &str, hint: Option<Language>) -> Option<Language> {
    let (words, letters) = text.unicode_words().fold((0, 0), |(words, letters), word| {
        (words + 1, letters + word.chars().filter(|c| c.is_alphabetic()).count())
    });
    // A script with a single language (Arabic is shared, Hangul is not) needs fewer words; cld2
    // itself reports when it is not sure.
    if words < MIN_WORDS || (letters < MIN_LETTERS && text.is_ascii()) {
        return None;
    }
    let hints = cld2::Hints {
        language: hint.map(|language| {
            cld2::Lang(match language.taken_for() {
                "he" => "iw",
                "jv" => "jw",
                code => code,
            })
        }),
        ..cld2::Hints::default()
    };
    // After a letter in another script, cld2 reads the next character, even past the end of the
    // text. It then reads arbitrary memory, and invalid UTF-8 there makes it index outside its
    // tables. A space is therefore appended to every text.
    let found = cld2::detect_language_ext(&format!("{text} "), Format::Text, &hints);
    if found.reliability != Reliability::Reliable || found.scores[0].percent < 60 {
        return None;
    }
    Language::parse(found.language?.0)
}

/// Compares a text's language with the expected one.
///
/// Sentences full of foreign names mislead the detector ("Sean Brown gioca nella National Hockey
/// League." is classified as English), so a text judged wrong or too short is detected a second
/// time with a hint. If the second result is the right language, the verdict changes from wrong to
/// untold, or from untold to right. On Italian RTE3 this lowers the share wrongly called wrong from
/// 11.5 to 8.8 % and raises the share called right from 66 to 80 %; texts in another language are
/// found as often as before.
pub fn check(text: &str, expected: Language) -> LanguageCheck {
    if !expected.is_detectable() {
        return LanguageCheck::TooShort;
    }
    let hinted = || detect_with(text, Some(expected)).is_some_and(|found| found.matches(expected));
    match detect(text) {
        Some(found) if found.matches(expected) => LanguageCheck::Right,
        None if hinted() => LanguageCheck::Right,
        Some(_) if !hinted() => LanguageCheck::Wrong,
        _ => LanguageCheck::TooShort,
    }
}

/// The target language of a run under one seed: the first language that is not the source, in a
/// permutation of [`TARGETS`] that depends only on the seed and the run's name. All texts therefore
/// get one language, except those already written in it. Two seeds may draw the same language;
/// [`target_of_rank`] does not.
pub fn draw_target(seed: u64, run: &str, source: Option<Language>) -> Option<Language> {
    draw(&known(&TARGETS), seed, &["translation-target", run], source)
}

/// The target language of the seed at `rank` (from 0) among a run's seeds, drawn without
/// replacement. The run's name alone determines an order of the targets without the source. The
/// ranks traverse that order and restart at its end. So no language occurs twice before each
/// occurred once, whatever the seeds and the order of requests.
pub fn target_of_rank(rank: u32, run: &str, source: Option<Language>) -> Option<Language> {
    let targets = known(&TARGETS);
    let permitted: Vec<Language> = seed::permutation(0, &["translation-targets", run], targets.len())
        .into_iter()
        .filter_map(|index| targets.get(index).copied())
        .filter(|target| source.is_none_or(|source| !target.matches(source)))
        .collect();
    permitted.get((rank as usize).checked_rem(permitted.len())?).copied()
}

/// A language for one text: the first language that is not the source, in a permutation of the
/// candidates that depends on seed, run and the text's id. The order of the candidates does not
/// matter. `what` makes draws for different purposes independent. `None` if the source is the only
/// candidate.
pub fn draw_for_text(
    candidates: &[Language],
    seed: u64,
    what: &str,
    run: &str,
    id: &str,
    source: Option<Language>,
) -> Option<Language> {
    let mut candidates = candidates.to_vec();
    candidates.sort_unstable_by_key(|language| language.code);
    candidates.dedup();
    draw(&candidates, seed, &[what, run, id], source)
}

/// The languages with these codes, which must all be known.
pub fn known(codes: &[&str]) -> Vec<Language> {
    codes.iter().filter_map(|code| Language::parse(code)).collect()
}

fn draw(candidates: &[Language], seed: u64, path: &[&str], source: Option<Language>) -> Option<Language> {
    seed::permutation(seed, path, candidates.len())
        .into_iter()
        .filter_map(|index| candidates.get(index).copied())
        .find(|drawn| source.is_none_or(|source| !drawn.matches(source)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::collections::HashSet;

    use super::*;

    fn lang(tag: &str) -> Language {
        Language::parse(tag).unwrap()
    }

    #[test]
    fn tags_are_read_in_the_forms_that_datasets_use() {
        for tag in ["en", "EN", "en-GB", "eng", "eng-Latn", "en_US"] {
            assert_eq!(lang(tag).code(), "en", "{tag}");
        }
        assert_eq!(lang("arb").code(), "ar");
        assert_eq!(lang("hau").name(), "Hausa");
        assert_eq!(lang("pt-BR").name(), "Portuguese");
        assert!(Language::parse("xx").is_none());
        assert!(Language::parse("").is_none());
        assert!(Language::parse("english").is_none());
    }

    #[test]
    fn every_list_of_languages_is_read() {
        LISTS.assert_names(&["same", "undetected", "alias"]);
        let known = |code: &str| NAMES.iter().any(|(two, three, _)| [*two, *three].contains(&code));
        for row in LISTS.list("alias") {
            let (code, standard) = row.split_once(' ').unwrap();
            assert!(!known(code) && known(standard), "{row}");
        }
        assert_eq!(lang("ary").undetected(), Some("ar"));
        assert_eq!((lang("ff").undetected(), lang("en").undetected()), (Some(""), None));
    }

    #[test]
    fn every_name_is_listed_once() {
        let codes: HashSet<_> = NAMES.iter().map(|entry| entry.0).collect();
        assert_eq!(codes.len(), NAMES.len());
        for target in TARGETS {
            assert!(Language::parse(target).is_some());
        }
    }

    #[test]
    fn sentences_are_told_apart() {
        for (code, text) in [
            ("en", "A man is playing the guitar on the street."),
            ("de", "Ein Mann spielt auf der Straße Gitarre."),
            ("es", "Un hombre está tocando la guitarra en la calle."),
            ("fr", "Un homme joue de la guitare dans la rue."),
            ("tr", "Bir adam sokakta gitar çalıyor ve şarkı söylüyor."),
            ("ar", "رجل يعزف على الغيتار في الشارع."),
            ("zh", "一个男人正在街上弹吉他。"),
            ("sw", "Mwanamume anapiga gitaa barabarani na watu wanamsikiliza."),
            ("ha", "Gwamnatin Najeriya ta sanar da sabon tsari na aikin gona."),
            ("ru", "Мужчина играет на гитаре, а рядом с ним поёт женщина."),
        ] {
            assert_eq!(detect(text).map(Language::code), Some(code), "{text}");
        }
    }

    #[test]
    fn a_short_text_is_too_short_to_tell() {
        for text in ["", "OK", "Paris", "no", "Die Hard", "🎉🎉", "12 34 56 78", "!!!"] {
            assert_eq!(detect(text), None, "{text}");
        }
    }

    #[test]
    fn norwegian_is_forgiven_danish_but_german_is_not_dutch() {
        assert!(lang("nb").matches(lang("da")));
        assert!(!lang("de").matches(lang("nl")));
    }

    #[test]
    fn a_target_depends_on_seed_and_run_and_avoids_the_source() {
        let free = draw_target(1337, "", None).unwrap();
        assert_eq!(draw_target(1337, "", Some(lang("en"))), Some(free));
        let turned = draw_target(1337, "", Some(free)).unwrap();
        assert_ne!(turned, free);
        assert_eq!(draw_target(1337, "", Some(free)), Some(turned));
        let code = |seed, run: &str| draw_target(seed, run, None).unwrap().code();
        let seeds: HashSet<_> = (0..200).map(|seed| code(seed, "")).collect();
        assert_eq!(seeds.len(), TARGETS.len());
        let runs: HashSet<_> = (0..50).map(|run| code(1, &run.to_string())).collect();
        assert!(runs.len() > 2);
    }

    #[test]
    fn ranks_draw_every_target_once_before_any_comes_again() {
        for source in [
            None,
            Some(lang("en")),
            Some(lang("fr")),
            Some(lang("arq")),
            Some(lang("zu")),
        ] {
            for run in ["hteb-english", "pteb", "", "a run"] {
                let code = |rank| target_of_rank(rank, run, source).unwrap().code();
                let own = source.is_some_and(|source| known(&TARGETS).iter().any(|target| target.matches(source)));
                let n = if own { TARGETS.len() - 1 } else { TARGETS.len() } as u32;
                let first: HashSet<_> = (0..n).map(code).collect();
                assert_eq!(first.len(), n as usize, "{run} {source:?}");
                assert!(source.is_none_or(|source| !first.iter().any(|target| lang(target).matches(source))));
                assert!((0..2 * n).all(|rank| code(rank) == code(rank % n)));
            }
        }
        let orders: HashSet<Vec<&str>> = (0..40)
            .map(|run| {
                let run = run.to_string();
                (0..5)
                    .map(|rank| target_of_rank(rank, &run, None).unwrap().code())
                    .collect()
            })
            .collect();
        assert!(
            orders.len() > 10,
            "the order is the same in {} of 40 runs",
            40 - orders.len()
        );
    }

    #[test]
    fn dialects_are_languages_of_their_own_and_checked_as_what_they_are_taken_for() {
        let arabic = "رجل يعزف على الغيتار في الشارع والناس يستمعون إليه.";
        for (code, name) in [("arq", "Algerian Arabic"), ("ary-Arab", "Moroccan Arabic")] {
            let dialect = lang(code);
            assert_eq!(dialect.name(), name);
            assert_ne!(dialect.code(), "ar");
            assert_eq!(check(arabic, dialect), LanguageCheck::Right);
            assert_eq!(
                check("Un homme joue de la guitare dans la rue.", dialect),
                LanguageCheck::Wrong
            );
            assert!(dialect.matches(lang("ar")) && !dialect.matches(lang("fa")));
            // A text in a dialect is never translated into the language that the detector confuses
            // the dialect with.
            assert!((0..10).all(|rank| target_of_rank(rank, "r", Some(dialect)).unwrap().code() != "ar"));
        }
        let pidgin = "Di woman say she no go gree make dem carry her pikin comot from di house.";
        assert_ne!(check(pidgin, lang("pcm")), LanguageCheck::Wrong);
        assert_eq!(
            check("Un homme joue de la guitare dans la rue.", lang("pcm")),
            LanguageCheck::Wrong
        );
    }

    #[test]
    fn a_language_that_the_detector_does_not_know_is_never_called_wrong() {
        for code in ["bem", "ff", "hil", "ilo", "lus"] {
            assert_eq!(
                check("A man is playing the guitar on the street.", lang(code)),
                LanguageCheck::TooShort
            );
        }
    }

    /// Another service owns the catalogue of data sets and requests texts in these languages.
    #[test]
    fn every_language_of_the_catalogue_of_data_sets_is_known() {
        let path = std::path::Path::new(".").join("../crates/datasets/catalogue/datasets.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        let catalogue: toml::Table = text.parse().unwrap();
        let mut codes = HashSet::new();
        for dataset in catalogue["dataset"].as_array().unwrap() {
            let languages = dataset["languages"].as_table().unwrap();
            codes.extend(
                languages
                    .values()
                    .flat_map(|codes| codes.as_array().unwrap())
                    .map(|code| code.as_str().unwrap()),
            );
        }
        assert!(codes.len() > 60, "{}", codes.len());
        let unknown: Vec<&&str> = codes.iter().filter(|code| Language::parse(code).is_none()).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        // The detector recognises each as itself or as the language it confuses it with.
        assert!(codes.iter().all(|code| lang(code).is_detectable()));
        for (code, known) in [
            ("arq-Arab", "arq"),
            ("ary-Arab", "ary"),
            ("ory-Orya", "or"),
            ("cmo-Hans", "zh"),
            ("pcm-Latn", "pcm"),
        ] {
            assert!(codes.contains(code) || code == "cmo-Hans", "{code}");
            assert_eq!(lang(code).code(), known);
        }
    }

    #[test]
    fn lists_of_languages_name_known_ones() {
        let known = |code: &str| NAMES.iter().any(|(own, ..)| *own == code);
        LISTS.assert_names(&["same", "undetected", "alias"]);
        for row in LISTS.list("undetected") {
            assert!(row.split(' ').all(known), "{row}");
        }
        for row in LISTS.list("alias") {
            let (alias, code) = row.split_once(' ').unwrap();
            assert!(known(code) && !known(alias), "{row}");
        }
        for code in LISTS.list("same").iter().flat_map(|set| set.split(' ')) {
            assert!(known(code) || lang(code).code() != code, "{code}");
        }
    }

    #[test]
    fn a_texts_own_draw_depends_on_seed_run_and_id_and_never_gives_the_source() {
        let draw = |candidates: &[&str], seed, what: &str, run: &str, id: &str, source: &str| {
            draw_for_text(&known(candidates), seed, what, run, id, Language::parse(source)).map(Language::code)
        };
        let ids: Vec<String> = (0..300).map(|id| id.to_string()).collect();
        let all = |seed, what: &str, run: &str| -> Vec<_> {
            ids.iter()
                .map(|id| draw(&PIVOTS, seed, what, run, id, "en").unwrap())
                .collect()
        };
        let drawn = all(1337, "pivot", "r");
        assert_eq!(drawn, all(1337, "pivot", "r"));
        assert!(
            drawn != all(1338, "pivot", "r") && drawn != all(1337, "pivot", "s") && drawn != all(1337, "target", "r")
        );
        assert!(!drawn.contains(&"en"));
        for code in ["es", "fr", "de", "tr", "ar"] {
            let times = drawn.iter().filter(|drawn| **drawn == code).count();
            assert!(
                (30..=90).contains(&times),
                "{code} {times} times of 300, expected about 60"
            );
        }
        assert_eq!(
            draw(&["fr", "de"], 1, "t", "", "x", "en"),
            draw(&["de", "fr", "de"], 1, "t", "", "x", "en")
        );
        assert_eq!(draw(&["de"], 1, "t", "", "x", "de"), None);
        assert_eq!(draw(&["de"], 1, "t", "", "x", ""), Some("de"));
    }

    #[test]
    fn a_language_that_is_none_is_told_the_nearest() {
        for (asked, code) in [("englsh", "en"), ("German", "de"), ("spanish", "es"), ("Haussa", "ha")] {
            assert_eq!(Language::nearest(asked).map(|(code, _)| code), Some(code), "{asked}");
        }
        assert_eq!(Language::nearest("xx"), None);
        assert_eq!(Language::nearest("zzzzzzzz"), None);
    }

    /// Without the appended space, the process ends here with a segmentation fault.
    #[test]
    fn what_lies_behind_a_text_is_not_read() {
        const TEXT: &str = "An ordinary sentence of English words that ends with one letter of Greekλ";
        let expected = detect(TEXT);
        for (lead, second) in (0xf0..=0xf7).flat_map(|lead| (0..=0xff).map(move |second| (lead, second))) {
            let bytes = [TEXT.as_bytes(), &[lead, second, 0xff, 0xff]].concat();
            let text = str::from_utf8(&bytes[..TEXT.len()]).unwrap();
            assert_eq!(detect(text), expected, "before {lead:x} {second:x}");
        }
    }

    #[test]
    fn a_text_is_right_or_wrong_or_too_short_to_tell() {
        let german = "Ein Mann spielt auf der Straße Gitarre.";
        assert_eq!(check(german, lang("de")), LanguageCheck::Right);
        assert_eq!(check(german, lang("en")), LanguageCheck::Wrong);
        assert_eq!(check("Guten Tag", lang("de")), LanguageCheck::TooShort);
        assert_eq!(check("Guten Tag", lang("en")), LanguageCheck::TooShort);
        assert_eq!(check("", lang("en")), LanguageCheck::TooShort);
    }
}
