//! Estimates a text's tokens, for providers that do not count them before a request.

use isomer_proto::{common::v1::Usage, encoder::v1::RerankRequest};

/// Special tokens that an encoder adds to a text.
const MARKS: u64 = 2;
/// Bytes per token. English has above four, other alphabets and Han three to five, digits and
/// source code about three. So a batch within a limit by this estimate is within it by the
/// provider's count too, except for texts of rare characters.
const BYTES: u64 = 3;

/// A high estimate, so that batches cut by it fit: one token for every three bytes, and two special
/// tokens.
pub(crate) fn tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES) + MARKS
}

/// Estimated usage of texts with these numbers of tokens.
pub(crate) fn usage(sizes: &[u64]) -> Usage {
    Usage {
        texts: sizes.len() as u64,
        tokens: sizes.iter().copied().fold(0, u64::saturating_add),
        tokens_estimated: true,
        ..Usage::default()
    }
}

/// Estimated tokens of each document, including the query that is read with it.
pub(crate) fn documents(request: &RerankRequest) -> Vec<u64> {
    let query = tokens(&request.query);
    let documents = request.documents.iter();
    documents.map(|text| tokens(text).saturating_add(query)).collect()
}

#[cfg(test)]
mod tests {
    use super::tokens;

    #[test]
    fn an_estimate_is_above_what_tokenizers_say() {
        // Counted with the tokenizers of all-MiniLM-L6-v2 and multilingual-e5-small. The larger
        // count is used, including special tokens.
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
