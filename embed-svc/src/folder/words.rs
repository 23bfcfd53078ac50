//! The folder of a `WordEmbeddings` module.

use std::path::Path;

use serde::Deserialize;

use super::read_json;
use crate::error::EmbedError;

/// The conversion of texts into ids in a `WordEmbeddings` module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordTokens {
    /// Split at white space and looked up in a list of words.
    Words(WordList),
    /// By a `tokenizer.json`, including special tokens.
    Tokenizer,
}

/// `whitespacetokenizer_config.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct WordList {
    /// Words in the order of their ids.
    pub vocab: Vec<String>,
    /// Words that are dropped. Required: sentence-transformers has a list of its own for a file
    /// without one.
    pub stop_words: Vec<String>,
    /// Whether a text is lower-cased first.
    #[serde(default)]
    pub do_lower_case: bool,
}

/// `wordembedding_config.json` and the tokenizer's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// Maximum length of a text in words.
    pub max_seq_length: usize,
    pub tokens: WordTokens,
}

pub(super) fn read(folder: &Path) -> Result<Words, EmbedError> {
    #[derive(Deserialize)]
    struct Config {
        tokenizer_class: String,
        #[serde(default = "million")]
        max_seq_length: usize,
    }
    fn million() -> usize {
        1_000_000
    }
    let file = folder.join("wordembedding_config.json");
    let config: Config = read_json(&file)?;
    let class = config.tokenizer_class.as_str();
    let tokens = match class.rsplit('.').next() {
        Some("WhitespaceTokenizer") if class.starts_with("sentence_transformers.") => {
            WordTokens::Words(read_json(&folder.join("whitespacetokenizer_config.json"))?)
        }
        Some("TransformersTokenizerWrapper") if class.starts_with("sentence_transformers.") => WordTokens::Tokenizer,
        _ => {
            return Err(EmbedError::file(
                &file,
                format!("tokenizer_class `{class}` is not served"),
                "supported: sentence-transformers' WhitespaceTokenizer and TransformersTokenizerWrapper",
            ));
        }
    };
    Ok(Words {
        max_seq_length: config.max_seq_length,
        tokens,
    })
}
