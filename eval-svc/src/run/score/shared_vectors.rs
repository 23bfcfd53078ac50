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
    /// Positions in the data set of the first two such texts; absent in counts of versions that did
    /// not record them.
    #[serde(default)]
    pub example: Option<[usize; 2]>,
}

/// Length of a common beginning, in bytes, behind which a provider may have cut two texts if it
/// does not report truncation. Few encoders read less.
const BEGINNING: usize = 500;

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
    let truncated = |(position, key): (usize, Key)| encodings.cut(position, key).flatten();
    let mut counted = SharedVectors {
        texts: seen.len() as u64,
        ..SharedVectors::default()
    };
    for own in by_vector.values() {
        let mut whole = own.iter().copied().filter(|own| truncated(*own) != Some(true));
        let Some(first) = whole.next() else { continue };
        let one = text(first.1);
        let differs = |other: &(usize, Key)| {
            let two = text(other.1);
            let may_be_cut = truncated(*other).is_none() && common_beginning(one, two) >= BEGINNING;
            !may_be_cut && !same_words(one, two)
        };
        if let Some(other) = whole.find(differs) {
            counted.shared += own.iter().filter(|own| truncated(**own) != Some(true)).count() as u64;
            let pair = [first.0, other.0];
            counted.example = Some(counted.example.map_or(pair, |known| known.min(pair)));
        }
    }
    Some(counted)
}

fn common_beginning(one: &str, two: &str) -> usize {
    one.bytes().zip(two.bytes()).take_while(|(one, two)| one == two).count()
}
