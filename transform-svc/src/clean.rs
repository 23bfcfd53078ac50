//! Light cleaning of a generated text before the checks see it. It takes off the envelope, never a leak:
//!
//! 1. whitespace around the text;
//! 2. our own delimiters (`<text>` … `</text>`) around the whole of it, which small models copy from the prompt;
//! 3. one pair of quotation marks around the whole of it, where the original has none.

/// Opening and closing quotation marks.
const QUOTES: &[(char, char)] = &[
    ('"', '"'),
    ('\'', '\''),
    ('“', '”'),
    ('‘', '’'),
    ('„', '“'),
    ('„', '”'),
    ('«', '»'),
    ('»', '«'),
    ('`', '`'),
    ('「', '」'),
];

/// The text without its envelope. `delimiters` are the lines around `{text}` in the prompt, empty where there are none.
pub fn clean(original: &str, raw: &str, delimiters: (&str, &str)) -> String {
    let mut text = raw.trim();
    let (open, close) = delimiters;
    if !open.is_empty() && !close.is_empty() {
        text = text.strip_prefix(open).map_or(text, str::trim_start);
        text = text.strip_suffix(close).map_or(text, str::trim_end);
    }
    if unquote(original.trim()).is_none()
        && let Some(inner) = unquote(text)
    {
        text = inner;
    }
    text.to_owned()
}

/// The inside of a text that one pair of quotation marks encloses: `"a" or "b"` is not enclosed.
fn unquote(text: &str) -> Option<&str> {
    QUOTES.iter().find_map(|&(open, close)| {
        let inner = text.strip_prefix(open)?.strip_suffix(close)?;
        (!inner.contains([open, close]) && !inner.trim().is_empty()).then(|| inner.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAGS: (&str, &str) = ("<text>", "</text>");

    #[test]
    fn the_envelope_goes_and_the_text_stays() {
        assert_eq!(clean("a", "  b \n", TAGS), "b");
        assert_eq!(clean("a", "<text>\nb\n</text>", TAGS), "b");
        assert_eq!(clean("a", "b\n</text>", TAGS), "b");
        assert_eq!(clean("a", "\"b c.\"", TAGS), "b c.");
        assert_eq!(clean("a", "„b c“", ("", "")), "b c");
    }

    #[test]
    fn quotes_stay_where_the_original_has_them_or_where_they_enclose_only_parts() {
        assert_eq!(clean("\"a\"", "\"b\"", TAGS), "\"b\"");
        assert_eq!(clean("a", "\"b\" or \"c\"", TAGS), "\"b\" or \"c\"");
        assert_eq!(clean("a", "'tis b", TAGS), "'tis b");
    }

    #[test]
    fn a_lead_in_is_left_for_the_checks() {
        assert_eq!(clean("a", "Summary: b", TAGS), "Summary: b");
        assert_eq!(clean("a", "\"\"", TAGS), "\"\"");
    }
}
