//! The splitting of a text by byte-level vocabularies before merging, selected by the name in
//! `tokenizer.ggml.pre`.

use tokenizers::{
    PreTokenizerWrapper, SplitDelimiterBehavior,
    pre_tokenizers::{
        byte_level::ByteLevel,
        digits::Digits,
        sequence::Sequence,
        split::{Split, SplitPattern},
    },
};

use crate::LocalError;

/// Qwen 2's pattern: words with one leading character, single digits, punctuation, line breaks,
/// spaces.
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Llama 3's pattern: like Qwen 2's, but up to three digits together.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// A way to split a text.
pub(crate) struct PreTokenizer {
    pub(crate) steps: PreTokenizerWrapper,
    /// Whether the text is first normalised to NFC.
    pub(crate) composed: bool,
    /// Whether a piece that is itself a token is kept whole, regardless of the merges.
    pub(crate) whole_words_first: bool,
}

pub(crate) fn named(name: &str) -> Result<PreTokenizer, LocalError> {
    // The last step maps bytes to the vocabulary's printable substitutes.
    let bytes = |split: bool| PreTokenizerWrapper::from(ByteLevel::new(false, false, split));
    let (steps, composed, whole_words_first) = match name {
        "gpt-2" => (vec![bytes(true)], false, false),
        "smollm" => (vec![Digits::new(true).into(), bytes(true)], false, false),
        "qwen2" => (vec![split(QWEN2)?, bytes(false)], true, false),
        "llama-bpe" | "llama3" | "llama-v3" => (vec![split(LLAMA3)?, bytes(false)], false, true),
        other => {
            return Err(LocalError::BadValue {
                key: "tokenizer.ggml.pre".to_owned(),
                message: format!("`{other}` is not supported; supported are gpt-2, smollm, qwen2, llama-bpe"),
            });
        }
    };
    Ok(PreTokenizer {
        steps: Sequence::new(steps).into(),
        composed,
        whole_words_first,
    })
}

fn split(pattern: &str) -> Result<PreTokenizerWrapper, LocalError> {
    Split::new(
        SplitPattern::Regex(pattern.to_owned()),
        SplitDelimiterBehavior::Isolated,
        false,
    )
    .map(Into::into)
    .map_err(|e| LocalError::Tokenizer(e.to_string()))
}
