//! Text to tokens and tokens to bytes, from the vocabulary inside the file.
//!
//! Two families: byte-level BPE (`gpt2`: every token is a string of substitutes for bytes, merges
//! are listed) and SentencePiece (`llama`: tokens have scores, spaces are `▁`, missing characters
//! fall back to byte tokens). Control tokens are matched here, not by the `tokenizers` crate,
//! because `<|im_end|>` is one only if the template wrote it, not a message: see
//! [`Vocabulary::encode`].

mod bpe;
mod bytes;

use std::collections::{HashMap, HashSet};

use tokenizers::Tokenizer;

use crate::{
    LocalError,
    gguf::{GgufFile, required},
};

/// `tokenizer.ggml.token_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Control,
    UserDefined,
    Byte,
    Unused,
}

/// A vocabulary and its tokenizer.
pub(crate) struct Vocabulary {
    tokenizer: Tokenizer,
    /// SentencePiece: spaces become `▁`. The value states whether a text gets a space in front.
    sentence_piece: Option<bool>,
    /// Control and user-defined tokens by their text.
    special: HashMap<String, (u32, Kind)>,
    /// Byte lengths of those texts, longest first.
    special_lengths: Vec<usize>,
    /// First bytes of those texts.
    special_starts: HashSet<u8>,
    /// Bytes of all tokens one after another, and the end of each.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    bos: Option<u32>,
    add_bos: bool,
    end_of_text: HashSet<u32>,
    bos_text: String,
    eos_text: String,
}

/// Control tokens that end a turn in one chat format or another.
const TURN_ENDS: [&str; 8] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|end|>",
    "<end_of_turn>",
    "<eos>",
    "</s>",
];

impl Vocabulary {
    pub(crate) fn read(file: &GgufFile) -> Result<Self, LocalError> {
        let key = "tokenizer.ggml.tokens";
        let tokens = required(key, file.find_texts(key)?)?;
        let key = "tokenizer.ggml.token_type";
        let kinds = required(key, file.find_codes(key)?)?;
        same_length(key, kinds.len(), tokens.len())?;
        let kinds: Vec<Kind> = kinds.into_iter().map(kind).collect();
        let key = "tokenizer.ggml.model";
        let (tokenizer, sentence_piece) = match required(key, file.find_text(key)?)? {
            "gpt2" => (bpe::byte_level(file, &tokens)?, None),
            "llama" => {
                let prefix = file.find_flag("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
                (bpe::scored(file, &tokens, &kinds)?, Some(prefix))
            }
            other => {
                return Err(LocalError::BadValue {
                    key: key.to_owned(),
                    message: format!("`{other}` is not supported; supported are gpt2, llama"),
                });
            }
        };
        let mut special = HashMap::new();
        for (id, (token, kind)) in (0u32..).zip(tokens.iter().zip(&kinds)) {
            if matches!(kind, Kind::Control | Kind::UserDefined) && !token.is_empty() {
                special.insert((*token).to_owned(), (id, *kind));
            }
        }
        let lengths: HashSet<usize> = special.keys().map(String::len).collect();
        let mut special_lengths: Vec<usize> = lengths.into_iter().collect();
        special_lengths.sort_unstable_by(|a, b| b.cmp(a));
        let special_starts = special.keys().filter_map(|text| text.bytes().next()).collect();
        let (bytes, ends) = bytes::of_tokens(&tokens, &kinds, sentence_piece.is_some());

        let id_of = |key: &str| -> Result<Option<u32>, LocalError> {
            match file.find_count(key)? {
                Some(id) if id >= tokens.len() => Err(LocalError::BadValue {
                    key: key.to_owned(),
                    message: format!("{id} is not below the vocabulary's {}", tokens.len()),
                }),
                id => Ok(id.and_then(|id| u32::try_from(id).ok())),
            }
        };
        let eos_key = "tokenizer.ggml.eos_token_id";
        let eos = required(eos_key, id_of(eos_key)?)?;
        let mut end_of_text = HashSet::from([eos]);
        for key in ["tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"] {
            end_of_text.extend(id_of(key)?);
        }
        for text in TURN_ENDS {
            if let Some(&(id, Kind::Control)) = special.get(text) {
                end_of_text.insert(id);
            }
        }
        let bos = id_of("tokenizer.ggml.bos_token_id")?;
        let text_of = |id: Option<u32>| id.map_or(String::new(), |id| tokens[id as usize].to_owned());
        let add_bos = file
            .find_flag("tokenizer.ggml.add_bos_token")?
            .unwrap_or(sentence_piece.is_some());
        Ok(Self {
            tokenizer,
            sentence_piece,
            special,
            special_lengths,
            special_starts,
            bytes,
            ends,
            bos,
            add_bos,
            end_of_text,
            bos_text: text_of(bos),
            eos_text: text_of(Some(eos)),
        })
    }

    /// Number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether a token ends the text.
    pub(crate) fn ends_text(&self, id: u32) -> bool {
        self.end_of_text.contains(&id)
    }

    /// Text of the beginning-of-prompt token, as templates name it.
    pub(crate) fn bos_text(&self) -> &str {
        &self.bos_text
    }

    /// Text of the end-of-text token, as templates name it.
    pub(crate) fn eos_text(&self) -> &str {
        &self.eos_text
    }

    /// The bytes that a token adds to the answer: none for control tokens.
    pub(crate) fn token(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let end = self.ends.get(id).copied().unwrap_or(0);
        let start = id.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// First and last characters of control tokens, which must be broken up to make a text
    /// harmless.
    pub(crate) fn control_edges(&self) -> (HashSet<char>, HashSet<char>) {
        let control = || self.special.iter().filter(|(_, (_, kind))| *kind == Kind::Control);
        (
            control().filter_map(|(text, _)| text.chars().next()).collect(),
            control().filter_map(|(text, _)| text.chars().next_back()).collect(),
        )
    }

    /// Tokens of a prompt in which control tokens are recognised. Every `guard` is removed
    /// afterwards, so an apparent control token with a guard inside remains text.
    pub(crate) fn encode(&self, prompt: &str, guard: Option<char>) -> Result<Vec<u32>, LocalError> {
        let mut ids = Vec::new();
        let mut rest = prompt;
        let mut is_start = true;
        while !rest.is_empty() {
            let (before, control) = self.next_special(rest, Kind::Control);
            match guard.filter(|guard| before.contains(*guard)) {
                Some(guard) => self.encode_text(&before.replace(guard, ""), is_start, &mut ids)?,
                None => self.encode_text(before, is_start, &mut ids)?,
            }
            rest = &rest[before.len()..];
            if let Some((text, id)) = control {
                ids.push(id);
                rest = &rest[text.len()..];
            }
            is_start = control.is_some();
        }
        Ok(self.with_bos(ids))
    }

    /// Tokens of a text in which no control token is recognised.
    pub(crate) fn encode_harmless(&self, text: &str) -> Result<Vec<u32>, LocalError> {
        let mut ids = Vec::new();
        self.encode_text(text, true, &mut ids)?;
        Ok(self.with_bos(ids))
    }

    /// Adds the beginning-of-text token if the model requires one and the template has not added
    /// it.
    fn with_bos(&self, mut ids: Vec<u32>) -> Vec<u32> {
        if let Some(bos) = self.bos.filter(|bos| self.add_bos && ids.first() != Some(bos)) {
            ids.insert(0, bos);
        }
        ids
    }

    /// Tokens of text without control tokens; user-defined tokens are matched anywhere.
    fn encode_text(&self, text: &str, mut is_start: bool, ids: &mut Vec<u32>) -> Result<(), LocalError> {
        let mut rest = text;
        while !rest.is_empty() {
            let (before, special) = self.next_special(rest, Kind::UserDefined);
            self.encode_plain(before, is_start, ids)?;
            rest = &rest[before.len()..];
            if let Some((text, id)) = special {
                ids.push(id);
                rest = &rest[text.len()..];
            }
            is_start = special.is_some();
        }
        Ok(())
    }

    fn encode_plain(&self, text: &str, is_start: bool, ids: &mut Vec<u32>) -> Result<(), LocalError> {
        if text.is_empty() {
            return Ok(());
        }
        let encoding = match self.sentence_piece {
            None => self.tokenizer.encode_fast(text, false).map_err(tokenizer_error)?,
            Some(prefix) => {
                let mut spaced = String::with_capacity(text.len() + 8);
                if prefix && is_start {
                    spaced.push('▁');
                }
                spaced.extend(text.chars().map(|c| if c == ' ' { '▁' } else { c }));
                self.tokenizer.encode_fast(spaced, false).map_err(tokenizer_error)?
            }
        };
        ids.extend_from_slice(encoding.get_ids());
        Ok(())
    }

    /// The text before the first special token of a kind, and that token.
    fn next_special<'a>(&self, text: &'a str, wanted: Kind) -> (&'a str, Option<(&'a str, u32)>) {
        for (start, first) in text.bytes().enumerate() {
            if !self.special_starts.contains(&first) {
                continue;
            }
            for &len in &self.special_lengths {
                let Some(candidate) = text.get(start..start + len) else {
                    continue;
                };
                match self.special.get(candidate) {
                    Some(&(id, kind)) if kind == wanted => return (&text[..start], Some((candidate, id))),
                    _ => {}
                }
            }
        }
        (text, None)
    }
}

fn same_length(key: &str, found: usize, expected: usize) -> Result<(), LocalError> {
    if found == expected {
        return Ok(());
    }
    Err(LocalError::BadValue {
        key: key.to_owned(),
        message: format!("has {found} entries for {expected} tokens"),
    })
}

fn kind(code: u8) -> Kind {
    match code {
        3 => Kind::Control,
        4 => Kind::UserDefined,
        5 => Kind::Unused,
        6 => Kind::Byte,
        // 1 is normal; 2, unknown, is treated as text when it is generated.
        _ => Kind::Normal,
    }
}

fn tokenizer_error(e: impl std::fmt::Display) -> LocalError {
    LocalError::Tokenizer(e.to_string())
}
