//! Texts that have another text's vector: the encoder confuses its results or ignores its input.
//!
//! Drops cannot show this. If rewrites are confused in the same way as their originals, all scores
//! stay the same, and rewordings stay nearer than changes of meaning.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::{
    change::same_words,
    run::{encode::vectors::Encodings, plan::table::Key},
};

/// Counts of texts that have another text's vector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedVectors {
    /// Distinct texts.
    pub texts: u64,
    /// Of these, texts whose vector is, bit for bit, that of a text with other words. A truncated
    /// text does not count: the difference may be in the part that was cut off.
    pub shared: u64,
}

/// Counts each distinct text once; `None` if a text has no vector.
pub(crate) fn count<'a>(
    keys: &[Key],
    encodings: &impl Encodings,
    text: impl Fn(Key) -> &'a str,
) -> Option<SharedVectors> {
    let mut seen = HashSet::new();
    let mut by_vector: HashMap<[u8; blake3::OUT_LEN], Vec<(usize, Key)>> = HashMap::new();
    for (position, key) in keys.iter().copied().enumerate() {
        if seen.insert(key) {
            let vector = encodings.digest(position, key)?;
            by_vector.entry(vector).or_default().push((position, key));
        }
    }
    let whole = |(position, key): &&(usize, Key)| encodings.cut(*position, *key).flatten() != Some(true);
    let of_vector = |own: &Vec<(usize, Key)>| -> u64 {
        let own: Vec<&str> = own.iter().filter(whole).map(|(_, key)| text(*key)).collect();
        match own.split_first() {
            Some((first, rest)) if rest.iter().any(|other| !same_words(first, other)) => own.len() as u64,
            _ => 0,
        }
    };
    Some(SharedVectors {
        texts: seen.len() as u64,
        shared: by_vector.values().map(of_vector).sum(),
    })
}
