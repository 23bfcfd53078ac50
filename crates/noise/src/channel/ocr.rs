//! Errors of optical character recognition.
//!
//! Eligible unit: a letter of a word without digits that has an entry below, or two letters that
//! have one together (`rn`, `cl` …). A letter with an accent may lose it.
//!
//! The tables are our own selection of the pairs of similar shapes that studies of such errors
//! list: K. Taghva and E. Stofsky, "OCRSpell: an interactive spelling correction system for OCR
//! errors in text", IJDAR 3, 2001; T.-T.-H. Nguyen et al., "Deep Statistical Analysis of OCR Errors
//! for Effective Post-OCR Processing", JCDL 2019; the table of nlpaug (E. Ma, 2019). A digit
//! replaces a letter only between two letters, so that no number appears.

use std::sync::LazyLock;

use crate::{
    cells::Cells,
    draft::Draft,
    hangul,
    language::{Language, Script},
    letters::base,
    noise::{Noise, NotApplicable},
    text::{Class, Text, Word},
};

/// Letters and their readings, a string for each script: Latin, Greek, Cyrillic, Arabic (letters
/// that differ by their dots), Hebrew, Devanagari, Thai, kana and Han.
const READINGS: [&str; 9] = [
    "a:o b:h,6 c:e,o d:cl e:c f:t g:q,9 h:b i:l,j,1 j:i l:i,I,1 m:rn n:u,ri o:c,0 q:g,9 s:5 t:f,l u:n,ii \
     v:y w:vv y:v z:2 B:R,8 C:G D:O E:F F:P,E G:C,6 I:l,1 K:R O:Q,0 P:F Q:O R:B,K S:5 U:V V:U Z:2 ß:B æ:œ \
     œ:æ ø:o ł:l,t ı:i,l þ:p",
    "ν:υ υ:ν ο:σ σ:ο α:σ ε:ς ς:ε ι:τ τ:ι η:π π:η γ:ν λ:χ χ:λ θ:ο",
    "а:о в:з г:т д:л е:с з:э,в и:н,п й:и л:п н:и,п о:с п:н,л с:е,о т:г ц:и ч:н ш:щ,ил щ:ш ъ:ь ы:ьі ь:ъ \
     э:з ю:то",
    "ب:ت,ي ت:ث,ن ث:ت ن:ت,ب ي:ب ج:ح,خ ح:ج,خ خ:ح,ج د:ذ,ر ذ:د ر:ز ز:ر س:ش ش:س ص:ض ض:ص ط:ظ ظ:ط ع:غ غ:ع ف:ق \
     ق:ف ه:ة ة:ه ى:ي پ:ب چ:ج ژ:ز ک:گ گ:ک",
    "ב:כ כ:ב ג:נ נ:ג ד:ר ר:ד ה:ח,ת ח:ה,ת ת:ח ו:ז,ן ז:ו ן:ו ם:ס ס:ם ע:צ צ:ע",
    "ब:व व:ब घ:ध ध:घ भ:म म:भ प:ष ष:प थ:य य:थ ड:इ,ङ ट:ठ ठ:ट ए:ऐ त:न न:त",
    "ก:ถ,ภ ถ:ก,ภ ภ:ถ,ก ข:ช ช:ซ,ข ซ:ช ค:ด,ต ด:ค,ต ต:ด,ค บ:ป ป:บ ผ:พ,ฝ ฝ:ผ,ฟ พ:ฟ,ผ ฟ:พ,ฝ น:ม ม:น ฎ:ฏ ฏ:ฎ \
     ล:ส ส:ล ท:ห",
    "シ:ツ ツ:シ ソ:ン ン:ソ ク:ワ ワ:ク は:ほ ほ:は ぬ:め め:ぬ れ:わ わ:れ る:ろ ろ:る き:さ さ:き ち:ら ら:ち い:り が:か で:て ば:ぱ ぱ:ば",
    "未:末 末:未 土:士 士:土 日:曰,目 目:日,自 自:目,白 白:自 己:已 已:己 人:入 入:人 大:太,犬 太:大 天:夭,夫 夫:天 午:牛 牛:午 干:于 于:干 贝:见 见:贝 \
     问:间 间:问 王:玉,主 玉:王 主:王 木:本 本:木 体:休 休:体 代:伐 今:令 令:今 住:往 往:住 名:各 各:名 右:石 石:右 刀:力 力:刀 我:找 找:我 买:卖 卖:买 \
     子:孑 候:侯 侯:候 待:侍 侍:待 微:徽 徽:微 爪:瓜 瓜:爪 乌:鸟 鸟:乌 市:巿 析:折 折:析 治:冶 活:话 在:任 的:旳",
];

/// Two letters and their reading.
const PAIRS: &[(&str, &str)] = &[
    ("cl", "d"),
    ("ii", "u"),
    ("in", "m"),
    ("li", "h"),
    ("nn", "m"),
    ("ri", "n"),
    ("rn", "m"),
    ("vv", "w"),
];

/// Jamo that are read for each other.
const JAMO: &str = "ㄱㅋ ㄷㅌ ㅈㅊ ㅇㅎ ㅁㅇ ㅏㅑ ㅓㅕ ㅗㅛ ㅜㅠ ㅐㅔ ㅡㅜ ㅂㅍ";

/// Recognition errors.
pub(super) struct Ocr;

struct Tables {
    letters: Cells<Vec<&'static str>>,
    jamo: Cells<Vec<char>>,
}

fn tables() -> &'static Tables {
    static TABLES: LazyLock<Tables> = LazyLock::new(|| {
        let mut letters: Cells<Vec<&'static str>> = Cells::default();
        for (letter, readings) in READINGS
            .iter()
            .flat_map(|script| script.split(' '))
            .filter_map(|row| row.split_once(':'))
        {
            for letter in letter.chars() {
                letters.entry(letter).extend(readings.split(','));
            }
        }
        Tables {
            letters,
            jamo: Cells::of_sets(JAMO),
        }
    });
    &TABLES
}

impl Noise for Ocr {
    fn refusal(&self, language: Language) -> Option<NotApplicable> {
        let known = matches!(
            language.script(),
            Script::Latin
                | Script::Cyrillic
                | Script::Greek
                | Script::Arabic
                | Script::Hebrew
                | Script::Devanagari
                | Script::Thai
                | Script::Han
                | Script::Japanese
                | Script::Hangul
        );
        (!known).then_some(NotApplicable::NoTable(language))
    }

    fn write(&self, text: &Text<'_>, _: Language, draft: &mut Draft<'_>) {
        let tables = tables();
        // Pieces before it are done.
        let mut next = 0;
        for (at, _, word) in text.letters() {
            if at < next {
                continue;
            }
            if let Some(reading) = pair(text, at, word) {
                next = at + 2;
                if draft.unit().is_some() {
                    draft
                        .replace(text.pieces[at].start..text.pieces[at + 1].end)
                        .push_str(reading);
                }
                continue;
            }
            single(text, at, word, tables, draft);
        }
    }
}

/// The reading of a letter and the next one.
fn pair(text: &Text<'_>, at: usize, word: &Word) -> Option<&'static str> {
    let (start, end) = (text.pieces[at].start, text.pieces.get(at + 1)?.end);
    if at + 1 >= word.pieces.end || end - start != 2 {
        return None;
    }
    let both = &text.source[start..end];
    PAIRS
        .iter()
        .find(|(letters, _)| *letters == both)
        .map(|(_, reading)| *reading)
}

fn single(text: &Text<'_>, at: usize, word: &Word, tables: &Tables, draft: &mut Draft<'_>) {
    let cluster = text.cluster(at);
    let Some(c) = cluster.chars().next() else {
        return;
    };
    if hangul::is_syllable(c) && cluster.len() == c.len_utf8() {
        if hangul::has_variant(c, &tables.jamo)
            && let Some(mut pick) = draft.unit()
        {
            let replaced = hangul::replaced(c, &tables.jamo, false, &mut pick);
            draft.replace(text.range(at)).push(replaced.unwrap_or(c));
        }
        return;
    }
    let plain = base(c);
    let readings = tables
        .letters
        .get(c)
        .or_else(|| tables.letters.get(plain))
        .map_or(&[][..], Vec::as_slice);
    // A digit stands between two letters only.
    let inside = at > word.pieces.start
        && text.is(Some(at - 1), Class::Letter)
        && at + 1 < word.pieces.end
        && text.is(Some(at + 1), Class::Letter);
    let permitted = |reading: &&&str| inside || !reading.as_bytes()[0].is_ascii_digit();
    let loses_accent = plain != c && plain.is_alphabetic();
    let options = readings.iter().filter(permitted).count() + usize::from(loses_accent);
    if options == 0 {
        return;
    }
    if let Some(mut pick) = draft.unit() {
        let chosen = pick.below(options);
        let rest = &cluster[c.len_utf8()..];
        let out = draft.replace(text.range(at));
        match readings.iter().filter(permitted).nth(chosen) {
            Some(reading) => out.push_str(reading),
            None => out.push(plain),
        }
        // The accents of a decomposed letter are lost with it; vowel signs are not.
        out.extend(rest.chars().filter(|c| !('\u{300}'..='\u{36f}').contains(c)));
    }
}
