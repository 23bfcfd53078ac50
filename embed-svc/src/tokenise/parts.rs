//! Tokens, each with its part of the text, and conversion of ids back to text.

use std::ops::Range;

use super::{Kind, TextTokenizer, turn};

/// A token of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub id: u32,
    /// The part of the text, or a special token's name.
    pub text: String,
    /// Whether the token is one of those added around the text.
    pub special: bool,
    /// Byte range in prompt and text; `None` if the token corresponds to no part of them.
    pub bytes: Option<Range<usize>>,
}

impl TextTokenizer {
    /// All tokens of `prompt + text` without truncation, with the special tokens around it if
    /// `special`.
    ///
    /// # Errors
    /// If the tokenizer fails or is a list of words, which does not record positions.
    pub fn parts(&self, prompt: &str, text: &str, special: bool) -> Result<Vec<Part>, String> {
        let Kind::File(inner) = &self.kind else {
            return Err("a list of words does not have the positions of words in a text".into());
        };
        let whole = format!("{prompt}{text}{}", self.suffix);
        let _turn = turn(&whole);
        let encoding = self.guarded(|| inner.encode(whole.as_str(), special))?;
        let ids = encoding.get_ids().iter().zip(encoding.get_tokens());
        let places = encoding.get_offsets().iter().zip(encoding.get_special_tokens_mask());
        let part = |((id, name), (&(start, end), special)): ((&u32, &String), (&(usize, usize), &u32))| {
            let special = *special == 1;
            let bytes = (!special).then_some(start..end);
            // A token may begin or end within a character.
            let text = bytes.clone().and_then(|bytes| whole.as_bytes().get(bytes));
            Part {
                id: *id,
                text: text.map_or_else(|| name.clone(), |text| String::from_utf8_lossy(text).into_owned()),
                special,
                bytes,
            }
        };
        Ok(ids.zip(places).map(part).collect())
    }

    /// The text of ids; special tokens are included if `special`.
    ///
    /// # Errors
    /// If an id has no token (the first such id is named) or the tokenizer fails.
    pub fn text_of(&self, ids: &[u32], special: bool) -> Result<String, String> {
        let inner = match &self.kind {
            Kind::File(inner) => inner,
            Kind::Words(words) => return words.text_of(ids),
        };
        if let Some(id) = ids.iter().find(|id| inner.id_to_token(**id).is_none()) {
            return Err(unknown(*id));
        }
        self.guarded(|| inner.decode(ids, !special))
    }
}

pub(super) fn unknown(id: u32) -> String {
    format!("the tokenizer has no token of the id {id}")
}
