//! Brackets of several scripts.

const BRACKETS: [(char, char); 8] = [
    ('(', ')'),
    ('[', ']'),
    ('{', '}'),
    ('<', '>'),
    ('（', '）'),
    ('【', '】'),
    ('［', '］'),
    ('〔', '〕'),
];
/// The content of the brackets at the end of a text.
pub(super) fn enclosed(text: &str) -> Option<&str> {
    BRACKETS.iter().find_map(|(open, close)| {
        let inside = text.strip_suffix(*close)?;
        let at = inside.rfind(*open).filter(|at| *at > 0)?;
        Some(inside[at + open.len_utf8()..].trim())
    })
}

pub(super) fn is_opening(c: char) -> bool {
    BRACKETS.iter().any(|(open, _)| c == *open)
}

pub(super) fn is_closing(c: char) -> bool {
    BRACKETS.iter().any(|(_, close)| c == *close)
}

pub(super) fn is_enclosed(text: &str) -> bool {
    let text = text.trim().trim_end_matches(['.', '。']);
    BRACKETS
        .iter()
        .any(|(open, close)| text.starts_with(*open) && text.ends_with(*close))
}

/// The content of the brackets at the beginning of a text.
pub(super) fn enclosed_first(text: &str) -> Option<&str> {
    BRACKETS.iter().find_map(|(open, close)| {
        let inside = text.strip_prefix(*open)?;
        let (inside, rest) = inside.split_once(*close)?;
        (!inside.starts_with('|') && !rest.trim().is_empty()).then(|| inside.trim())
    })
}
