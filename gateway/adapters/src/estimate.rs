//! Tokens of a text, where the provider does not count them before it is asked.

/// Tokens that an encoder puts around a text.
const MARKS: u64 = 2;
/// Bytes a token. English has above four, other alphabets and Han three to five, digits and source
/// code about three: a limit that is kept by this measure is kept by the provider's own for all but
/// texts of rare signs.
const BYTES: u64 = 3;

/// On the high side, so that what is cut by it fits: a token for every three bytes, and two around
/// the text.
pub(crate) fn tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES) + MARKS
}

#[cfg(test)]
mod tests {
    use super::tokens;

    #[test]
    fn an_estimate_is_above_what_tokenizers_say() {
        // Counted with the tokenizers of all-MiniLM-L6-v2 and multilingual-e5-small, the larger of
        // both, special tokens included.
        for (text, counted) in [
            ("", 2),
            ("The quick brown fox jumps over the lazy dog.", 15),
            ("Der schnelle braune Fuchs springt über den faulen Hund.", 20),
            ("敏捷的棕色狐狸跳过了懒狗。", 15),
        ] {
            assert!(tokens(text) >= counted, "{text}");
        }
    }
}
