//! Reads lists written by language models: from an answer to its items, for any numbering.
//!
//! These forms are recognised: `1.` `1)` `(1)` `[1]` `1:` `1 -` `1、` `#1`, digits of other scripts
//! (１ ١ ۱ १ ১), circled digits, keycaps, letters and Roman numerals with a delimiter, bullets,
//! "Sentence 1:" in any language, all of them in bold or after a bullet; a JSON list or object;
//! numbers within one line; and plain lines, if their number is the requested one.

mod marks;

use serde_json::Value;

use marks::{Mark, mark, numbered};

/// The items of an answer, in order, without their marks; `wanted` only decides whether plain lines
/// are a list.
pub fn items(answer: &str, wanted: usize) -> Vec<String> {
    let answer = answer.trim();
    if let Some(items) = from_json(answer) {
        return items;
    }
    let lines: Vec<&str> = answer.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let marked: Vec<Option<(Mark, &str)>> = lines.iter().map(|line| mark(line)).collect();
    // Numbers take precedence over bullets: a dash inside a numbered list does not start an item.
    let count = |mark: Mark| marked.iter().flatten().filter(|(found, _)| *found == mark).count();
    let list = [Mark::Number, Mark::Label, Mark::Letter, Mark::Bullet]
        .into_iter()
        .find(|mark| count(*mark) > 1);
    if let Some(list) = list {
        return marked_items(&lines, &marked, list);
    }
    let joined = lines.join(" ");
    let inline = within_a_line(&joined);
    if inline.len() > 1 {
        return inline;
    }
    if lines.len() == wanted {
        return lines
            .iter()
            .map(|line| bare(mark(line).map_or(line, |(_, rest)| rest)))
            .collect();
    }
    match marked.iter().flatten().next() {
        Some((_, only)) => vec![bare(only)],
        None => Vec::new(),
    }
}

/// A line without the mark of a list, if it has one.
pub fn without_mark(line: &str) -> &str {
    let line = line.trim();
    mark(line).map_or(line, |(_, rest)| rest)
}

/// Lines with the list's mark are items; if a mark is alone on its line, the next line is its item.
/// Other lines between are commentary.
fn marked_items(lines: &[&str], marked: &[Option<(Mark, &str)>], list: Mark) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    let mut open = false;
    for (line, found) in lines.iter().zip(marked) {
        match found {
            Some((mark, rest)) if *mark == list => {
                open = rest.is_empty();
                items.push(bare(rest));
            }
            _ if open => {
                if let Some(last) = items.last_mut() {
                    *last = bare(line);
                }
                open = false;
            }
            _ => {}
        }
    }
    items.retain(|item| !item.is_empty());
    items
}

fn from_json(answer: &str) -> Option<Vec<String>> {
    if !answer.starts_with(['[', '{']) {
        return None;
    }
    let value: Value = serde_json::from_str(answer).ok()?;
    let mut items = Vec::new();
    collect(&value, &mut items);
    items.retain(|item: &String| !item.is_empty());
    Some(items)
}

/// Every text in a JSON value, in its order: `["a", "b"]`, `{"1": "a"}`, `{"sentences": [{"text":
/// "a"}]}`.
fn collect(value: &Value, items: &mut Vec<String>) {
    match value {
        Value::String(text) => items.push(bare(text)),
        Value::Array(values) => values.iter().for_each(|value| collect(value, items)),
        Value::Object(map) => map.values().for_each(|value| collect(value, items)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// `1. a 2. b 3. c`: consecutive numbers within one text.
fn within_a_line(text: &str) -> Vec<String> {
    let mut cuts: Vec<(usize, usize)> = Vec::new();
    for (at, _) in text.char_indices() {
        let space = text[at..].starts_with(char::is_whitespace);
        let at_word = !space && (at == 0 || text[..at].ends_with(char::is_whitespace));
        let wanted = cuts.len() as u32 + 1;
        if at_word
            && let Some((number, rest)) = numbered(&text[at..])
            && number == wanted
        {
            cuts.push((at, text.len() - rest.len()));
        }
    }
    let ends = cuts.iter().skip(1).map(|(at, _)| *at).chain([text.len()]);
    cuts.iter()
        .zip(ends)
        .map(|((_, from), to)| bare(text[*from..to].trim()))
        .filter(|item| !item.is_empty())
        .collect()
}

/// An item without emphasis marks around it.
fn bare(item: &str) -> String {
    let mut item = item.trim();
    for around in ["**", "__", "*", "_"] {
        if let Some(inside) = item.strip_prefix(around).and_then(|rest| rest.strip_suffix(around))
            && !inside.contains(around)
        {
            item = inside.trim();
        }
    }
    item.to_owned()
}

#[cfg(test)]
mod tests {
    use super::{
        marks::{labelled, lettered},
        *,
    };

    const FOUR: [&str; 4] = ["Red cars stop.", "Blue cars stop.", "Red cars go.", "Red bikes stop."];

    fn list(line: impl Fn(usize, &str) -> String) -> String {
        let lines: Vec<_> = FOUR.iter().enumerate().map(|(at, text)| line(at, text)).collect();
        lines.join("\n")
    }

    #[test]
    fn every_style_of_numbering_gives_the_four_sentences() {
        let zero = |zero: u32, at: usize| char::from_u32(zero + at as u32 + 1).unwrap_or('?');
        let word = |at: usize| ["i", "ii", "iii", "iv"][at];
        let styles: Vec<(&str, String)> = vec![
            ("1.", list(|at, t| format!("{}. {t}", at + 1))),
            ("1.text", list(|at, t| format!("{}.{t}", at + 1))),
            ("1)", list(|at, t| format!("{}) {t}", at + 1))),
            ("(1)", list(|at, t| format!("({}) {t}", at + 1))),
            ("[1]", list(|at, t| format!("[{}] {t}", at + 1))),
            ("1:", list(|at, t| format!("{}: {t}", at + 1))),
            ("1 -", list(|at, t| format!("{} - {t}", at + 1))),
            ("#1", list(|at, t| format!("#{}. {t}", at + 1))),
            ("1、", list(|at, t| format!("{}、{t}", at + 1))),
            ("full width", list(|at, t| format!("{}．{t}", zero(0xFF10, at)))),
            (
                "full width in brackets",
                list(|at, t| format!("（{}）{t}", zero(0xFF10, at))),
            ),
            ("Arabic", list(|at, t| format!("{}. {t}", zero(0x0660, at)))),
            ("Persian", list(|at, t| format!("{}) {t}", zero(0x06F0, at)))),
            ("Devanagari", list(|at, t| format!("{}. {t}", zero(0x0966, at)))),
            ("circled", list(|at, t| format!("{} {t}", zero(0x245F, at)))),
            ("keycap", list(|at, t| format!("{}\u{FE0F}\u{20E3} {t}", at + 1))),
            ("-", list(|_, t| format!("- {t}"))),
            ("*", list(|_, t| format!("* {t}"))),
            ("•", list(|_, t| format!("• {t}"))),
            ("•text", list(|_, t| format!("•{t}"))),
            ("a)", list(|at, t| format!("{}) {t}", zero(0x60, at)))),
            ("A.", list(|at, t| format!("{}. {t}", zero(0x40, at)))),
            ("iv)", list(|at, t| format!("{}) {t}", word(at)))),
            ("Sentence 1:", list(|at, t| format!("Sentence {}: {t}", at + 1))),
            ("Satz 1:", list(|at, t| format!("Satz {}: {t}", at + 1))),
            ("**Sentence 1:**", list(|at, t| format!("**Sentence {}:** {t}", at + 1))),
            ("جملة 1:", list(|at, t| format!("جملة {}: {t}", at + 1))),
            ("**1.**", list(|at, t| format!("**{}.** {t}", at + 1))),
            ("1. **text**", list(|at, t| format!("{}. **{t}**", at + 1))),
            ("- 1.", list(|at, t| format!("- {}. {t}", at + 1))),
            ("> 1.", list(|at, t| format!("> {}. {t}", at + 1))),
            ("blank lines", list(|at, t| format!("{}. {t}\n", at + 1))),
            ("the text a line below", list(|at, t| format!("{}.\n{t}", at + 1))),
            (
                "a heading a line above",
                list(|at, t| format!("Sentence {}:\n{t}", at + 1)),
            ),
            (
                "a lead-in",
                format!(
                    "Here are four tricky sentences:\n\n{}",
                    list(|at, t| format!("{}. {t}", at + 1))
                ),
            ),
            (
                "a farewell",
                format!("{}\n\nI hope this helps!", list(|at, t| format!("{}. {t}", at + 1))),
            ),
            (
                "comments",
                list(|at, t| format!("{}. {t}\n   - changes a word", at + 1)) + "\n   - and more",
            ),
            ("plain lines", FOUR.join("\n")),
            (
                "one line",
                "1. Red cars stop. 2. Blue cars stop. 3. Red cars go. 4. Red bikes stop.".into(),
            ),
            (
                "one line, brackets",
                "(1) Red cars stop. (2) Blue cars stop. (3) Red cars go. (4) Red bikes stop.".into(),
            ),
            ("JSON list", serde_json::json!(FOUR).to_string()),
            (
                "JSON object",
                serde_json::json!({"1": FOUR[0], "2": FOUR[1], "3": FOUR[2], "4": FOUR[3]}).to_string(),
            ),
            (
                "JSON list in an object",
                serde_json::json!({"count": 4, "sentences": FOUR.map(|text| serde_json::json!({ "text": text }))})
                    .to_string(),
            ),
        ];
        for (style, answer) in styles {
            assert_eq!(items(&answer, 4), FOUR, "{style}: {answer}");
        }
    }

    #[test]
    fn numbers_of_the_text_are_no_marks() {
        assert_eq!(
            items("1. 2.5 million people left.\n2. 10:30 is late.", 2),
            ["2.5 million people left.", "10:30 is late."]
        );
        assert!(numbered("1.5 million").is_none());
        assert!(numbered("10:30 is late").is_none());
        assert!(numbered("2020 was a year").is_none());
        assert!(numbered("1234. x").is_none());
        assert!(labelled("Apollo 11 landed").is_none());
        assert!(lettered("A man plays.").is_none());
    }

    #[test]
    fn text_that_is_no_list_has_no_items() {
        assert_eq!(items("I cannot help with that.", 4), Vec::<String>::new());
        assert_eq!(items("", 4), Vec::<String>::new());
        assert_eq!(items("One line.\nAnother line.", 4), Vec::<String>::new());
        assert_eq!(items("1. Only one.", 4), ["Only one."]);
        assert_eq!(items("{\"a\": ", 4), Vec::<String>::new());
    }

    #[test]
    fn a_mark_is_taken_off_a_line() {
        assert_eq!(without_mark(" 2) word"), "word");
        assert_eq!(without_mark("- word"), "word");
        assert_eq!(without_mark("word - word"), "word - word");
        assert_eq!(without_mark(&format!("{}2) word", "- ".repeat(50_000))), "word");
    }
}
