//! Text to token ids, the way sentence-transformers does it.

use std::path::Path;

use tokenizers::{
    NormalizerWrapper, PostProcessor, Tokenizer, TruncationDirection,
    normalizers::{Lowercase, Sequence as NormalizerSequence},
};

use crate::error::EmbedError;

/// Which end of a too long text is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Tokens at the beginning.
    Head,
    /// Tokens at the end.
    Tail,
}

/// The ids of one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    /// Ids as the model sees them, special tokens included, cut to the limit.
    pub ids: Vec<u32>,
    /// Number of ids before anything was cut.
    pub count: usize,
}

impl Tokens {
    /// Whether the text was longer than the model takes.
    pub fn truncated(&self) -> bool {
        self.ids.len() < self.count
    }
}

/// A model's tokenizer. Truncation and padding that the file carries are switched off: the folder's own limit rules, and
/// nothing is padded here.
#[derive(Debug)]
pub struct TextTokenizer {
    inner: Tokenizer,
    special: usize,
}

impl TextTokenizer {
    /// Reads a `tokenizer.json`. `lower_case` is `do_lower_case` of `sentence_bert_config.json`: the text is lower-cased
    /// before the tokenizer sees it.
    pub fn load(file: &Path, lower_case: bool) -> Result<Self, EmbedError> {
        const MEND: &str = "fetch the model again, or save it with a fast tokenizer (`tokenizer.save_pretrained`)";
        let bytes = std::fs::read(file)
            .map_err(|error| EmbedError::file(file, format!("the tokenizer cannot be read: {error}"), MEND))?;
        let mut inner = Tokenizer::from_bytes(&bytes)
            .map_err(|error| EmbedError::file(file, format!("not a tokenizer: {error}"), MEND))?;
        inner.with_padding(None);
        inner
            .with_truncation(None)
            .map_err(|error| EmbedError::file(file, format!("truncation cannot be switched off: {error}"), MEND))?;
        if lower_case {
            // As sentence-transformers does since version 5: before the tokenizer's own normalisation.
            let mut steps = vec![NormalizerWrapper::Lowercase(Lowercase)];
            steps.extend(inner.get_normalizer().cloned());
            let normalizer = Some(NormalizerSequence::new(steps));
            inner
                .with_normalizer(normalizer)
                .map_err(|error| EmbedError::file(file, format!("cannot be made to lower-case: {error}"), MEND))?;
        }
        let special = inner
            .get_post_processor()
            .map_or(0, |processor| processor.added_tokens(false));
        Ok(Self { inner, special })
    }

    /// Special tokens around every text.
    pub fn special_tokens(&self) -> usize {
        self.special
    }

    /// Largest id plus one.
    pub fn vocabulary(&self) -> usize {
        self.inner
            .get_vocab(true)
            .values()
            .max()
            .map_or(0, |&id| id as usize + 1)
    }

    /// Ids of `prompt + text`, at most `limit` of them; special tokens are kept when the text is cut. `limit` is larger
    /// than [`TextTokenizer::special_tokens`].
    pub fn encode(&self, prompt: &str, text: &str, limit: usize, cut: Cut) -> Result<Tokens, String> {
        let joined;
        let text = if prompt.is_empty() {
            text
        } else {
            joined = format!("{prompt}{text}");
            &joined
        };
        let mut encoding = self.inner.encode_fast(text, false).map_err(|error| error.to_string())?;
        let count = encoding.len() + self.special;
        if count > limit {
            let direction = match cut {
                Cut::Head => TruncationDirection::Left,
                Cut::Tail => TruncationDirection::Right,
            };
            encoding.truncate(limit.saturating_sub(self.special), 0, direction);
        }
        let encoding = self
            .inner
            .post_process(encoding, None, true)
            .map_err(|error| error.to_string())?;
        Ok(Tokens {
            ids: encoding.get_ids().to_vec(),
            count,
        })
    }
}
