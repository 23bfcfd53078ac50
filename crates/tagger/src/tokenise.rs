//! Text to tokens.
//!
//! White space splits first. From each piece, punctuation is then split off at both ends and
//! clitics (`n't`, `'s`, `'ll`) at the end. The rest is split at hyphens and slashes between
//! letters. The result follows spaCy's English tokeniser as far as its documentation and its output
//! on running text show its rules, because its tags are the reference.

use std::ops::Range;

/// Abbreviations that keep their full stop, in lower case. Single letters and `U.S.`-like chains
/// need no list.
const ABBREVIATIONS: &[&str] = &[
    "adm.", "ala.", "apr.", "ariz.", "ark.", "aug.", "bros.", "calif.", "capt.", "co.", "col.", "colo.", "conn.",
    "corp.", "dec.", "del.", "dr.", "feb.", "fla.", "gen.", "gov.", "ill.", "inc.", "ind.", "jan.", "jr.", "jul.",
    "jun.", "kan.", "kans.", "ky.", "ltd.", "mar.", "mass.", "messrs.", "mich.", "minn.", "miss.", "mo.", "mont.",
    "mr.", "mrs.", "ms.", "mt.", "neb.", "nebr.", "nev.", "nov.", "oct.", "okla.", "ore.", "ph.d.", "prof.", "rep.",
    "rev.", "sen.", "sep.", "sept.", "sr.", "st.", "tenn.", "va.", "vs.", "wash.", "wis.", "e.g.", "i.e.", "a.m.",
    "p.m.", "d.c.", "n.y.", "n.j.", "n.c.", "s.c.", "n.h.", "n.m.", "n.d.", "s.d.",
];

/// Units that are split off a number, longer ones first.
const UNITS: &[&str] = &[
    "km/h", "kmh", "mph", "hpa", "kpa", "km²", "km2", "cm²", "mm²", "m²", "m³", "lbs", "km", "cm", "dm", "mm", "nm",
    "kg", "mg", "gb", "mb", "kb", "tb", "am", "pm", "ft", "lb", "oz", "yd", "ha", "µg", "ml", "cl", "hz", "°c", "°f",
    "%", "m", "g", "l", "k", "°",
];

/// Clitics, in lower case, with either apostrophe.
const CLITICS: &[&str] = &["s", "m", "re", "ve", "ll", "d"];

/// Maximum length of an abbreviation or a clitic in bytes. Longer pieces are not compared with the
/// lists, so that the time does not grow with the square of a piece's length.
const LONGEST: usize = 8;

/// The tokens of a text, in order; every character that is not white space is in exactly one.
pub fn tokenise(text: &str) -> Vec<Range<usize>> {
    let mut tokens = Vec::with_capacity(text.len() / 5 + 1);
    let mut start = None;
    for (at, c) in text.char_indices() {
        match (c.is_whitespace(), start) {
            (true, Some(from)) => {
                piece(text, from..at, &mut tokens);
                start = None;
            }
            (false, None) => start = Some(at),
            _ => {}
        }
    }
    if let Some(from) = start {
        piece(text, from..text.len(), &mut tokens);
    }
    tokens
}

fn is_quote(c: char) -> bool {
    matches!(
        c,
        '"' | '\'' | '“' | '”' | '‘' | '’' | '`' | '´' | '«' | '»' | '„' | '‚'
    )
}

fn is_currency(c: char) -> bool {
    matches!(c, '$' | '£' | '€' | '¥' | '₹' | '₽' | '₩' | '฿' | '¢')
}

fn is_mark(c: char) -> bool {
    matches!(
        c,
        ',' | ';'
            | ':'
            | '!'
            | '?'
            | '¿'
            | '¡'
            | '('
            | ')'
            | '['
            | ']'
            | '{'
            | '}'
            | '<'
            | '>'
            | '…'
            | '—'
            | '–'
            | '。'
            | '，'
            | '、'
            | '*'
            | '&'
            | '|'
            | '§'
            | '='
            | '_'
            | '#'
            | '~'
            | '^'
            | '\\'
            | '/'
    )
}

/// Whether a piece is an address, which is kept whole whatever its punctuation.
fn is_address(piece: &str) -> bool {
    if piece.contains("://") || piece.starts_with("www.") {
        return true;
    }
    piece.split_once('@').is_some_and(|(name, host)| {
        !name.is_empty() && host.contains('.') && host.chars().all(|c| c.is_alphanumeric() || ".-_".contains(c))
    })
}

/// Splits a piece without white space.
fn piece(text: &str, mut range: Range<usize>, tokens: &mut Vec<Range<usize>>) {
    let mut ends: Vec<Range<usize>> = Vec::new();
    while !range.is_empty() {
        let rest = &text[range.clone()];
        if is_whole(rest) {
            break;
        }
        if let Some(len) = front(rest) {
            tokens.push(range.start..range.start + len);
            range.start += len;
        } else if let Some(len) = end(rest) {
            ends.push(range.end - len..range.end);
            range.end -= len;
        } else {
            break;
        }
    }
    if !range.is_empty() {
        middle(text, range, tokens);
    }
    tokens.extend(ends.into_iter().rev());
}

/// Pieces that are one token although they begin or end with punctuation.
fn is_whole(piece: &str) -> bool {
    let mut chars = piece.chars();
    match (chars.next(), chars.next(), chars.next()) {
        (Some(_), None, _) => true,
        // An initial: `J.`
        (Some(letter), Some('.'), None) => letter.is_alphabetic(),
        // A stand-alone clitic, two apostrophes as quotes, `:)` and the like.
        (Some('\'' | '’'), Some(_), _) => {
            let clitic = || CLITICS.contains(&piece.trim_start_matches(['\'', '’']).to_lowercase().as_str());
            piece == "''" || piece.len() <= LONGEST && clitic()
        }
        (Some(':' | ';'), Some(')' | '(' | 'D' | 'P' | '/'), None)
        | (Some(':' | ';'), Some('-'), Some(')' | '(' | 'D' | 'P')) => piece.chars().count() <= 3,
        _ => matches!(piece, "''" | "``" | "--" | "---" | "..") || piece.chars().all(|c| c == '.'),
    }
}

/// Length of the punctuation mark at the beginning of a piece.
fn front(piece: &str) -> Option<usize> {
    let first = piece.chars().next()?;
    for run in ["''", "``", "--"] {
        if piece.starts_with(run) {
            return Some(piece.len() - piece.trim_start_matches(first).len());
        }
    }
    let dots = piece.len() - piece.trim_start_matches('.').len();
    if dots > 1 {
        return Some(dots);
    }
    let taken = is_quote(first) || is_currency(first) || is_mark(first) || (first == '%' && piece.len() > 1);
    taken.then(|| first.len_utf8())
}

/// Length of the mark, clitic or unit at the end of a piece.
fn end(piece: &str) -> Option<usize> {
    let last = piece.chars().next_back()?;
    let clitic = clitic(piece);
    if clitic.is_some() {
        return clitic;
    }
    for run in ["''", "``", "--"] {
        if piece.ends_with(run) {
            return Some(piece.len() - piece.trim_end_matches(last).len());
        }
    }
    let body = &piece[..piece.len() - last.len_utf8()];
    if last == '.' {
        let dots = piece.len() - piece.trim_end_matches('.').len();
        if dots > 1 {
            return Some(dots);
        }
        return (!keeps_full_stop(piece, body)).then_some(1);
    }
    if is_quote(last) || is_mark(last) || last == '%' || (is_currency(last) && !body.is_empty()) {
        return Some(last.len_utf8());
    }
    unit(piece)
}

fn keeps_full_stop(piece: &str, body: &str) -> bool {
    let Some(before) = body.chars().next_back() else {
        return true;
    };
    if piece.len() <= LONGEST && ABBREVIATIONS.contains(&piece.to_lowercase().as_str()) {
        return true;
    }
    if !before.is_uppercase() {
        return false;
    }
    // One capital before the stop: an initial or a chain such as `U.S.`; several capitals: `NATO.`
    let head = &body[..body.len() - before.len_utf8()];
    !head.chars().next_back().is_some_and(char::is_alphanumeric)
}

fn clitic(piece: &str) -> Option<usize> {
    let cut = piece
        .char_indices()
        .rev()
        .take(4)
        .find(|(_, c)| matches!(c, '\'' | '’'))?
        .0;
    let mark = piece[cut..].chars().next()?.len_utf8();
    let tail = piece[cut + mark..].to_lowercase();
    let head = &piece[..cut];
    if tail == "t" {
        // The n belongs to the clitic.
        let n = head.chars().next_back().filter(|c| matches!(c, 'n' | 'N'))?;
        return (head.len() > n.len_utf8()).then(|| piece.len() - cut + n.len_utf8());
    }
    let follows_word = head
        .chars()
        .next_back()
        .is_some_and(|c| c.is_alphanumeric() || c == '.');
    (follows_word && CLITICS.contains(&tail.as_str())).then(|| piece.len() - cut)
}

fn unit(piece: &str) -> Option<usize> {
    let digits = piece.trim_end_matches(|c: char| !c.is_ascii_digit());
    if digits.is_empty()
        || digits.len() == piece.len()
        || !digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ','))
    {
        return None;
    }
    let tail = &piece[digits.len()..];
    UNITS.contains(&tail.to_lowercase().as_str()).then_some(tail.len())
}

/// Words that are two tokens without an apostrophe, with the length of the first.
const JOINED: &[(&str, usize)] = &[
    ("cannot", 3),
    ("gonna", 3),
    ("gotta", 3),
    ("dont", 2),
    ("doesnt", 4),
    ("didnt", 3),
    ("isnt", 2),
    ("wasnt", 3),
    ("wouldnt", 5),
    ("couldnt", 5),
    ("havent", 4),
    ("im", 1),
    ("ive", 1),
    ("youre", 3),
    ("thats", 4),
];

/// Splits the part between the marks.
fn middle(text: &str, range: Range<usize>, tokens: &mut Vec<Range<usize>>) {
    let piece = &text[range.clone()];
    if is_address(piece) {
        tokens.push(range);
        return;
    }
    if piece.len() < 8 && piece.is_ascii() {
        let lower = piece.to_ascii_lowercase();
        if let Some((_, cut)) = JOINED.iter().find(|(word, _)| *word == lower) {
            tokens.extend([range.start..range.start + cut, range.start + cut..range.end]);
            return;
        }
    }
    let mut start = range.start;
    let mut push = |span: Range<usize>| {
        if !span.is_empty() {
            tokens.push(span);
        }
    };
    let mut before: Option<char> = None;
    let (mut at, mut run_end) = (0, 0);
    while let Some(c) = piece[at..].chars().next() {
        let rest = &piece[at..];
        // A run is measured once, not for each of its characters.
        if at >= run_end {
            run_end = piece.len() - rest.trim_start_matches(c).len();
        }
        let len = infix(before, c, run_end - at, &piece[run_end..]);
        if len > 0 && at > 0 && at + len < piece.len() {
            push(start..range.start + at);
            push(range.start + at..range.start + at + len);
            at += len;
            start = range.start + at;
            before = None;
        } else if c == '.' && before.is_some_and(char::is_lowercase) && rest[1..].starts_with(char::is_uppercase) {
            // A missing space: `end.Begin`.
            push(start..range.start + at);
            push(range.start + at..range.start + at + 1);
            at += 1;
            start = range.start + at;
            before = None;
        } else {
            before = Some(c);
            at += c.len_utf8();
        }
    }
    push(start..range.end);
}

/// Length of the mark that splits here; 0 if there is none. `run` is the length of the run of this
/// character, and `after` follows it.
fn infix(before: Option<char>, c: char, run: usize, after: &str) -> usize {
    let Some(before) = before else {
        return 0;
    };
    let after = after.chars().next();
    let letters = before.is_alphabetic() && after.is_some_and(char::is_alphabetic);
    let digits = before.is_ascii_digit() && after.is_some_and(|c| c.is_ascii_digit());
    match c {
        '.' if run > 1 => run,
        '-' | '–' | '—' | '~' if letters => run,
        '-' | '–' | '*' | '+' | '^' if digits && run == 1 => run,
        '—' | '–' if run == 1 && after.is_some_and(char::is_alphanumeric) => run,
        '-' if run > 1 => run,
        '/' | ':' | '<' | '>' | '='
            if run == 1 && before.is_alphanumeric() && after.is_some_and(char::is_alphabetic) =>
        {
            run
        }
        ',' if letters && run == 1 => run,
        '…' => run,
        '(' | ')' | '[' | ']' | '"' | '“' | '”' | '?' | '!' | ';' if letters || (run == 1 && after.is_some()) => {
            run
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<&str> {
        tokenise(text).into_iter().map(|span| &text[span]).collect()
    }

    #[test]
    fn clitics_are_tokens() {
        assert_eq!(words("Don't you've John's"), ["Do", "n't", "you", "'ve", "John", "'s"]);
        assert_eq!(words("we’ll can’t dogs'"), ["we", "’ll", "ca", "n’t", "dogs", "'"]);
        assert_eq!(words("John 's O'Neil cannot"), ["John", "'s", "O'Neil", "can", "not"]);
        assert_eq!(words("U.S.'s"), ["U.S.", "'s"]);
    }

    #[test]
    fn full_stops_belong_to_abbreviations_and_initials_only() {
        assert_eq!(
            words("Mr. J. Smith of the U.S. Navy slept."),
            ["Mr.", "J.", "Smith", "of", "the", "U.S.", "Navy", "slept", "."]
        );
        assert_eq!(
            words("He joined NATO. So what..."),
            ["He", "joined", "NATO", ".", "So", "what", "..."]
        );
        assert_eq!(words("at 3.50 in 1998."), ["at", "3.50", "in", "1998", "."]);
    }

    #[test]
    fn marks_and_hyphens_divide() {
        assert_eq!(
            words("(well-known, \"red\" or/blue)"),
            [
                "(", "well", "-", "known", ",", "\"", "red", "\"", "or", "/", "blue", ")"
            ]
        );
        assert_eq!(words("1990-95 and 1,000"), ["1990", "-", "95", "and", "1,000"]);
        assert_eq!(words("'' Time '' and --"), ["''", "Time", "''", "and", "--"]);
    }

    #[test]
    fn money_units_and_addresses() {
        assert_eq!(
            words("$5.20 or 10km, 5%"),
            ["$", "5.20", "or", "10", "km", ",", "5", "%"]
        );
        assert_eq!(
            words("see http://a.org/b-c, or me@host.com."),
            ["see", "http://a.org/b-c", ",", "or", "me@host.com", "."]
        );
    }

    proptest! {
        #[test]
        fn tokens_cover_any_text(text in "\\PC{0,80}|[a-zA-Z'’.,\\-/ $%0-9…—“”\u{301}\n\t]{0,60}") {
            let mut next = 0;
            for span in tokenise(&text) {
                prop_assert!(span.start >= next && span.end > span.start);
                prop_assert!(text[next..span.start].chars().all(char::is_whitespace));
                prop_assert!(!text[span.clone()].chars().any(char::is_whitespace));
                next = span.end;
            }
            prop_assert!(text[next..].chars().all(char::is_whitespace));
        }
    }
}
