//! Languages: their script and the keyboard that they are typed on.

/// A language that noise is defined for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Language {
    code: &'static str,
    script: Script,
    keyboard: Keyboard,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Script {
    Arabic,
    Armenian,
    Bengali,
    Burmese,
    Cyrillic,
    Devanagari,
    Ethiopic,
    Georgian,
    Greek,
    Gujarati,
    Gurmukhi,
    Han,
    Hangul,
    Hebrew,
    Japanese,
    Kannada,
    Khmer,
    Latin,
    Malayalam,
    Odia,
    Tamil,
    Telugu,
    Thai,
}

/// How texts in a language are typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Keyboard {
    Albanian,
    Arabic,
    Azerbaijani,
    Azerty,
    Belarusian,
    Bulgarian,
    Croatian,
    Czech,
    Danish,
    Georgian,
    Greek,
    Hebrew,
    Hungarian,
    Icelandic,
    InScript,
    Italian,
    Mongolian,
    Norwegian,
    Persian,
    Portuguese,
    Qwerty,
    Qwertz,
    Romanian,
    Russian,
    Serbian,
    Slovak,
    Spanish,
    Swedish,
    Thai,
    Turkish,
    Ukrainian,
    Urdu,
    /// The Korean two-set keyboard: a key is a jamo.
    TwoSet,
    /// An input method composes the letters.
    InputMethod,
    /// The common keyboard is not in this crate.
    Unknown,
}

use {Keyboard as K, Script as S};

/// Codes of ISO 639-3 and 639-1 (the same code where no shorter one exists), script, keyboard.
///
/// A language without a layout of its own has that of the country's computers: QWERTY where English
/// is or was the language of administration, AZERTY where French is.
const LANGUAGES: &[(&str, &str, Script, Keyboard)] = &[
    ("afr", "af", S::Latin, K::Qwerty),
    ("amh", "am", S::Ethiopic, K::InputMethod),
    ("ara", "ar", S::Arabic, K::Arabic),
    ("arq", "arq", S::Arabic, K::Arabic),
    ("ary", "ary", S::Arabic, K::Arabic),
    ("arz", "arz", S::Arabic, K::Arabic),
    ("asm", "as", S::Bengali, K::InScript),
    ("aze", "az", S::Latin, K::Azerbaijani),
    ("bel", "be", S::Cyrillic, K::Belarusian),
    ("ben", "bn", S::Bengali, K::InScript),
    ("bos", "bs", S::Latin, K::Croatian),
    ("bul", "bg", S::Cyrillic, K::Bulgarian),
    ("cat", "ca", S::Latin, K::Spanish),
    ("ces", "cs", S::Latin, K::Czech),
    ("cym", "cy", S::Latin, K::Qwerty),
    ("dan", "da", S::Latin, K::Danish),
    ("deu", "de", S::Latin, K::Qwertz),
    ("ell", "el", S::Greek, K::Greek),
    ("eng", "en", S::Latin, K::Qwerty),
    ("est", "et", S::Latin, K::Swedish),
    ("eus", "eu", S::Latin, K::Spanish),
    ("fas", "fa", S::Arabic, K::Persian),
    ("fin", "fi", S::Latin, K::Swedish),
    ("fra", "fr", S::Latin, K::Azerty),
    ("gle", "ga", S::Latin, K::Qwerty),
    ("glg", "gl", S::Latin, K::Spanish),
    ("guj", "gu", S::Gujarati, K::InScript),
    ("hau", "ha", S::Latin, K::Qwerty),
    ("heb", "he", S::Hebrew, K::Hebrew),
    ("hin", "hi", S::Devanagari, K::InScript),
    ("hrv", "hr", S::Latin, K::Croatian),
    ("hun", "hu", S::Latin, K::Hungarian),
    ("hye", "hy", S::Armenian, K::Unknown),
    ("ibo", "ig", S::Latin, K::Qwerty),
    ("ind", "id", S::Latin, K::Qwerty),
    ("isl", "is", S::Latin, K::Icelandic),
    ("ita", "it", S::Latin, K::Italian),
    ("jav", "jv", S::Latin, K::Qwerty),
    ("jpn", "ja", S::Japanese, K::InputMethod),
    ("kan", "kn", S::Kannada, K::InScript),
    ("kat", "ka", S::Georgian, K::Georgian),
    ("khm", "km", S::Khmer, K::Unknown),
    ("kin", "rw", S::Latin, K::Qwerty),
    ("kor", "ko", S::Hangul, K::TwoSet),
    ("lav", "lv", S::Latin, K::Qwerty),
    ("lin", "ln", S::Latin, K::Azerty),
    ("lit", "lt", S::Latin, K::Qwerty),
    ("lug", "lg", S::Latin, K::Qwerty),
    ("mal", "ml", S::Malayalam, K::InScript),
    ("mar", "mr", S::Devanagari, K::InScript),
    ("mon", "mn", S::Cyrillic, K::Mongolian),
    ("msa", "ms", S::Latin, K::Qwerty),
    ("mya", "my", S::Burmese, K::Unknown),
    ("nep", "ne", S::Devanagari, K::InScript),
    ("nld", "nl", S::Latin, K::Qwerty),
    ("nor", "no", S::Latin, K::Norwegian),
    ("ori", "or", S::Odia, K::InScript),
    ("orm", "om", S::Latin, K::Qwerty),
    ("pan", "pa", S::Gurmukhi, K::InScript),
    ("pcm", "pcm", S::Latin, K::Qwerty),
    ("pol", "pl", S::Latin, K::Qwerty),
    ("por", "pt", S::Latin, K::Portuguese),
    ("ron", "ro", S::Latin, K::Romanian),
    ("run", "rn", S::Latin, K::Azerty),
    ("rus", "ru", S::Cyrillic, K::Russian),
    ("slk", "sk", S::Latin, K::Slovak),
    ("slv", "sl", S::Latin, K::Croatian),
    ("sna", "sn", S::Latin, K::Qwerty),
    ("som", "so", S::Latin, K::Qwerty),
    ("spa", "es", S::Latin, K::Spanish),
    ("sqi", "sq", S::Latin, K::Albanian),
    ("srp", "sr", S::Cyrillic, K::Serbian),
    ("swa", "sw", S::Latin, K::Qwerty),
    ("swe", "sv", S::Latin, K::Swedish),
    ("tam", "ta", S::Tamil, K::InScript),
    ("tel", "te", S::Telugu, K::InScript),
    ("tgl", "tl", S::Latin, K::Qwerty),
    ("tha", "th", S::Thai, K::Thai),
    ("tir", "ti", S::Ethiopic, K::InputMethod),
    ("tur", "tr", S::Latin, K::Turkish),
    ("ukr", "uk", S::Cyrillic, K::Ukrainian),
    ("urd", "ur", S::Arabic, K::Urdu),
    ("vie", "vi", S::Latin, K::Qwerty),
    ("xho", "xh", S::Latin, K::Qwerty),
    ("yor", "yo", S::Latin, K::Qwerty),
    ("zho", "zh", S::Han, K::InputMethod),
    ("zul", "zu", S::Latin, K::Qwerty),
];

/// Other codes of the languages above.
const ALIASES: &[(&str, &str)] = &[
    ("als", "sq"),
    ("arb", "ar"),
    ("azj", "az"),
    ("cmn", "zh"),
    // mteb's code for the Chinese of MASSIVE.
    ("cmo", "zh"),
    ("ekk", "et"),
    ("fil", "tl"),
    ("gaz", "om"),
    ("khk", "mn"),
    ("lvs", "lv"),
    ("nb", "no"),
    ("nn", "no"),
    ("nno", "no"),
    ("nob", "no"),
    ("npi", "ne"),
    ("ory", "or"),
    ("pes", "fa"),
    ("swh", "sw"),
    ("yue", "zh"),
    ("zsm", "ms"),
];

impl Language {
    /// Stands for the language of a text that is not known.
    pub const ENGLISH: Self = Self {
        code: "en",
        script: Script::Latin,
        keyboard: Keyboard::Qwerty,
    };

    /// Reads a BCP-47 tag or a code of mteb: the primary subtag counts (`pt-BR` is Portuguese,
    /// `eng-Latn` English). `None` if the language is not listed.
    pub fn parse(tag: &str) -> Option<Self> {
        let primary = tag.split(['-', '_']).next()?.to_ascii_lowercase();
        let alias = ALIASES.iter().find(|(code, _)| *code == primary);
        let primary = alias.map_or(primary.as_str(), |(_, known)| known);
        let row = LANGUAGES.iter().find(|row| row.0 == primary || row.1 == primary)?;
        Some(Self::of_row(row))
    }

    /// All languages, by their code of ISO 639-3.
    pub fn all() -> impl Iterator<Item = Self> {
        LANGUAGES.iter().map(Self::of_row)
    }

    fn of_row(&(_, code, script, keyboard): &(&str, &'static str, Script, Keyboard)) -> Self {
        Self { code, script, keyboard }
    }

    /// The shortest code, e.g. `en`.
    pub fn code(self) -> &'static str {
        self.code
    }

    pub(crate) fn script(self) -> Script {
        self.script
    }

    pub(crate) fn keyboard(self) -> Keyboard {
        self.keyboard
    }

    /// Whether i has a dot in capitals too.
    pub(crate) fn is_turkic(self) -> bool {
        matches!(self.code, "tr" | "az")
    }
}
