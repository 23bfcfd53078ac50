//! The tokenizer of each family, built from the vocabulary in the file.

use std::collections::HashSet;

use tokenizers::{Tokenizer, models::bpe, normalizers::unicode::NFC};

use super::{Kind, same_length, tokenizer_error};
use crate::{
    LocalError,
    gguf::{GgufFile, required},
    pre_tokenizer,
};

fn vocabulary_of(tokens: &[&str]) -> bpe::Vocab {
    tokens.iter().map(|t| (*t).to_owned()).zip(0u32..).collect()
}

/// Byte-level BPE: the file lists the merges.
pub(super) fn byte_level(file: &GgufFile, tokens: &[&str]) -> Result<Tokenizer, LocalError> {
    let key = "tokenizer.ggml.pre";
    let pre = pre_tokenizer::named(required(key, file.find_text(key)?)?)?;
    let key = "tokenizer.ggml.merges";
    let merges: Option<Vec<_>> = required(key, file.find_texts(key)?)?
        .into_iter()
        // Tokens contain substitutes for spaces, never a space itself.
        .map(|merge| merge.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned())))
        .collect();
    let merges = merges.ok_or_else(|| LocalError::BadValue {
        key: key.to_owned(),
        message: "an entry is not two tokens with a space between them".to_owned(),
    })?;
    let model = bpe::BPE::builder()
        .vocab_and_merges(vocabulary_of(tokens), merges)
        .ignore_merges(pre.whole_words_first)
        .build()
        .map_err(tokenizer_error)?;
    let mut tokenizer = Tokenizer::new(model);
    if pre.composed {
        tokenizer.with_normalizer(Some(NFC)).map_err(tokenizer_error)?;
    }
    tokenizer.with_pre_tokenizer(Some(pre.steps));
    Ok(tokenizer)
}

/// SentencePiece as BPE: the pair whose joined token has the highest score merges first (Kudo &
/// Richardson 2018). So every split of a token into two known parts is a merge, in order of the
/// token's score.
pub(super) fn scored(file: &GgufFile, tokens: &[&str], kinds: &[Kind]) -> Result<Tokenizer, LocalError> {
    let key = "tokenizer.ggml.scores";
    let scores = required(key, file.find_floats(key)?)?;
    same_length(key, scores.len(), tokens.len())?;
    let normal: HashSet<&str> = tokens
        .iter()
        .zip(kinds)
        .filter(|(_, kind)| **kind == Kind::Normal)
        .map(|(token, _)| *token)
        .collect();
    let mut by_score: Vec<usize> = (0..tokens.len()).filter(|&id| kinds[id] == Kind::Normal).collect();
    by_score.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
    let mut merges = Vec::new();
    for id in by_score {
        let token = tokens[id];
        for (cut, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(cut);
            if normal.contains(left) && normal.contains(right) {
                merges.push((left.to_owned(), right.to_owned()));
            }
        }
    }
    let unknown = file
        .find_count("tokenizer.ggml.unknown_token_id")?
        .and_then(|id| tokens.get(id));
    let mut builder = bpe::BPE::builder()
        .vocab_and_merges(vocabulary_of(tokens), merges)
        .byte_fallback(true)
        .fuse_unk(true)
        // Whole texts are not worth caching.
        .cache_capacity(0);
    if let Some(unknown) = unknown {
        builder = builder.unk_token((*unknown).to_owned());
    }
    Ok(Tokenizer::new(builder.build().map_err(tokenizer_error)?))
}
