//! Text that no person would write: control characters, wrong encodings, tokens of chat templates,
//! one piece repeated many times.

use super::answer::AnswerContext;

/// Tokens of chat templates, and typical results of wrongly decoded Chinese.
const TOKENS: [&str; 16] = [
    "锟斤拷",
    "烫烫烫",
    "<|",
    "|>",
    "</s>",
    "<s>",
    "[inst]",
    "[/inst]",
    "<<sys>>",
    "<pad>",
    "<unk>",
    "<eos>",
    "<bos>",
    "<end_of_turn>",
    "<start_of_turn>",
    "[unk]",
];
/// The characters of the bytes from 0x80 in Windows-1251.
const CP1251: &str = "ЂЃ‚ѓ„…†‡€‰Љ‹ЊЌЋЏђ‘’“”•–—\u{98}™љ›њќћџ\u{a0}ЎўЈ¤Ґ¦§Ё©Є«¬\u{ad}®Ї°±Ііґµ¶·ё№є»јЅѕїАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯабвгдежзийклмнопрстуфхцчшщъыьэюя";
/// The characters of the bytes from 0x80 to 0x9F in Windows-1252; the others are those of Latin-1.
const CP1252: &str = "€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8d}Ž\u{8f}\u{90}‘’“”•–—˜™š›œ\u{9d}žŸ";
/// Maximum number of characters of a repeated piece.
const PIECE: usize = 100;

/// Whether an answer is garbled although its original is not.
pub(in crate::checks) fn is_garbled(answer: &AnswerContext<'_>) -> bool {
    let AnswerContext { original, text, .. } = *answer;
    let (before, after) = (original.to_lowercase(), text.to_lowercase());
    text.chars().any(is_broken) && !original.chars().any(is_broken)
        || TOKENS
            .iter()
            .any(|token| after.contains(token) && !before.contains(token))
        || is_misread(text) && !is_misread(original)
        || repeats(&after) && !repeats(&before)
}

fn is_broken(c: char) -> bool {
    c == '\u{FFFD}' || c.is_control() && !matches!(c, '\n' | '\r' | '\t')
}

/// Whether a text is UTF-8 that was decoded as a single-byte code page.
fn is_misread(text: &str) -> bool {
    let western = |c: char| {
        let high = CP1252.chars().position(|known| known == c).map(|at| at + 0x80);
        let byte = high.or_else(|| (0xA0..=0xFF).contains(&(c as usize)).then_some(c as usize))?;
        u8::try_from(byte).ok()
    };
    let cyrillic = |c: char| {
        let at = CP1251.chars().position(|known| known == c)?;
        u8::try_from(at + 0x80).ok()
    };
    let accented = |c: &char| matches!(c, 'À'..='ÿ' | '’' | '‘' | '“' | '”' | '…' | '–' | '—');
    let of_west = misread_chars(text, western);
    // A few may be accidental: a capital letter before a quotation mark looks like two bytes of one
    // character.
    of_west.iter().any(accented) || of_west.len() > 3 || misread_chars(text, cyrillic).len() > 3
}

/// The non-ASCII letters and marks that result if the text's characters are mapped back to bytes
/// and the bytes are decoded as UTF-8.
fn misread_chars(text: &str, byte: impl Fn(char) -> Option<u8>) -> Vec<char> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut found = Vec::new();
    for c in text.chars().chain([' ']) {
        match byte(c) {
            Some(own) => bytes.push(own),
            None => {
                let chars = bytes.utf8_chunks().flat_map(|chunk| chunk.valid().chars());
                found.extend(
                    chars.filter(|c| c.is_alphanumeric() || matches!(c, '\u{2010}'..='\u{2026}' | '。' | '、')),
                );
                bytes.clear();
            }
        }
    }
    found
}

/// Whether a piece of a text is repeated many times in succession.
fn repeats(text: &str) -> bool {
    let chars: Vec<char> = text.chars().collect();
    // Number of letters before each character.
    let letters: Vec<usize> = std::iter::once(0)
        .chain(chars.iter().scan(0, |letters, c| {
            *letters += usize::from(c.is_alphabetic());
            Some(*letters)
        }))
        .collect();
    (1..=PIECE).any(|size| {
        let times = match size {
            1 => 9,
            2 | 3 => 8,
            4..=20 => 5,
            _ => 3,
        };
        let needed = size * (times - 1);
        let mut run = 0;
        (size..chars.len()).any(|at| {
            run = if chars[at] == chars[at - size] { run + 1 } else { 0 };
            run >= needed && letters[at + 1] > letters[at + 1 - size]
        })
    })
}
