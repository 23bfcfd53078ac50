//! Marks of list items: numbers of several scripts, letters, bullets, "Sentence 1:".

/// The mark of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Number,
    Label,
    Letter,
    Bullet,
}

/// The mark that a line begins with, and the text after it.
pub(super) fn mark(line: &str) -> Option<(Mark, &str)> {
    let mut bullet = None;
    let mut line = line;
    // `- 1. text`: the mark after the bullets is used.
    loop {
        if let Some(found) = counting(line) {
            return Some(found);
        }
        let Some(rest) = bulleted(line) else { break };
        line = rest;
        bullet.get_or_insert((Mark::Bullet, rest));
    }
    bullet
}

/// A number, label or letter, and the text after it.
fn counting(line: &str) -> Option<(Mark, &str)> {
    // `**1.** text` leaves asterisks after the number; `* text` is a bullet.
    let plain = line.trim_start_matches(['*', '_', '#', '>']).trim_start();
    let number = || numbered(plain).map(|(_, rest)| (Mark::Number, rest));
    let label = || labelled(plain).map(|rest| (Mark::Label, rest));
    let letter = || lettered(plain).map(|rest| (Mark::Letter, rest));
    number().or_else(label).or_else(letter)
}

/// The rest of a line after a bullet.
fn bulleted(line: &str) -> Option<&str> {
    let rest = line.strip_prefix([
        '-', '*', '•', '–', '—', '·', '▪', '‣', '◦', '→', '●', '○', '‐', '・', '+',
    ])?;
    let stands_apart = rest.starts_with(char::is_whitespace) || line.starts_with(['•', '▪', '‣', '●', '・']);
    stands_apart.then(|| rest.trim_start())
}

/// A number with its delimiter, and the text after it.
pub(super) fn numbered(text: &str) -> Option<(u32, &str)> {
    let mut chars = text.chars();
    let first = chars.next()?;
    if let Some(circled) = circled(first) {
        let rest = chars.as_str().trim_start_matches(['\u{FE0F}', '.', ')', ':', '、']);
        return Some((circled, rest.trim_start()));
    }
    if let Some(close) = closing(first) {
        let (number, rest) = digits(chars.as_str())?;
        let rest = rest.strip_prefix(close)?;
        return Some((number, after(rest)));
    }
    let text = text
        .strip_prefix("No. ")
        .or_else(|| text.strip_prefix("Nr. "))
        .or_else(|| text.strip_prefix('№'))
        .unwrap_or(text)
        .trim_start();
    let (number, rest) = digits(text)?;
    if let Some(rest) = rest
        .strip_prefix('\u{FE0F}')
        .or(Some(rest))
        .and_then(|rest| rest.strip_prefix('\u{20E3}'))
    {
        return Some((number, rest.trim_start()));
    }
    let rest = rest.trim_start_matches('*');
    let delimited = rest
        .strip_prefix(['.', ')', ':', '、', '．', '）', '：', '。', '﹒', '՝', '·', '/'])
        .or_else(|| {
            rest.trim_start()
                .strip_prefix(['-', '–', '—'])
                .filter(|rest| rest.starts_with(char::is_whitespace))
        })
        .or_else(|| rest.strip_prefix(" )"))?;
    // `1.5 million` and `10:30` are numbers within the text.
    if delimited.starts_with(|c: char| c.is_numeric()) {
        return None;
    }
    Some((number, after(delimited)))
}

/// "Sentence 1: text", in any language: one word, a number, a delimiter.
pub(super) fn labelled(text: &str) -> Option<&str> {
    let (word, rest) = text.split_once(' ')?;
    let letters = word.chars().count();
    if !(2..=14).contains(&letters) || !word.chars().all(|c| c.is_alphabetic() || c == '#') {
        return None;
    }
    let (_, rest) = digits(rest.trim_start_matches('#'))?;
    let rest = rest.trim_start_matches('*').trim_start();
    let delimited = rest.strip_prefix([':', '.', ')', '：', '-', '–', '—'])?;
    (!delimited.starts_with(|c: char| c.is_numeric())).then(|| after(delimited))
}

/// `a)`, `B.`, `iv)`.
pub(super) fn lettered(text: &str) -> Option<&str> {
    let text = text.strip_prefix('(').unwrap_or(text);
    let length = text.chars().take_while(char::is_ascii_alphabetic).count();
    let word = text.get(..length)?;
    let roman = word.len() <= 4 && !word.is_empty() && word.chars().all(|c| "ivxIVX".contains(c));
    if length != 1 && !roman {
        return None;
    }
    let rest = text[length..].strip_prefix([')', '.', ':'])?;
    rest.starts_with(char::is_whitespace).then(|| after(rest))
}

fn after(rest: &str) -> &str {
    rest.trim_start_matches('*').trim_start()
}

fn closing(open: char) -> Option<char> {
    Some(match open {
        '(' => ')',
        '[' => ']',
        '（' => '）',
        '【' => '】',
        '［' => '］',
        _ => return None,
    })
}

/// One to three decimal digits of a script that models use for numbering.
fn digits(text: &str) -> Option<(u32, &str)> {
    let mut number = 0;
    let mut end = 0;
    for (at, c) in text.char_indices().take(3) {
        let Some(digit) = digit(c) else { break };
        number = number * 10 + digit;
        end = at + c.len_utf8();
    }
    let rest = &text[end..];
    (end > 0 && !rest.starts_with(|c| digit(c).is_some())).then_some((number, rest))
}

fn digit(c: char) -> Option<u32> {
    let code = c as u32;
    [0x30, 0xFF10, 0x0660, 0x06F0, 0x0966, 0x09E6]
        .into_iter()
        .find_map(|zero| code.checked_sub(zero).filter(|digit| *digit < 10))
}

/// ① and ⑴ and ➀, up to ten.
fn circled(c: char) -> Option<u32> {
    [0x2460, 0x2474, 0x2776, 0x2780, 0x278A]
        .into_iter()
        .find_map(|one| (c as u32).checked_sub(one).filter(|after| *after < 10))
        .map(|after| after + 1)
}
