//! The model file: sparse weights of one byte, sorted by feature.
//!
//! Numbers are little-endian; a *varint* has seven bits per byte, low ones first, with the high bit
//! set on all but the last. The file is `ISOTAG`, a byte [`VERSION`], then two chains. A chain
//! consists of: number of tags (u8); their names (length u8, UTF-8); the scores into the first
//! token (i16 per tag), then of each next tag from each previous (i16), where -32768 forbids;
//! number of features (u32); for each, in order of its hash: the difference to the previous hash
//! (varint), the number of its weights (u8), and each weight's tag (u8) and value (i8).

use crate::viterbi::{self, FORBIDDEN, Transitions};

/// Increment it with every change of the file format or of the features.
pub const VERSION: u8 = 1;

const MAGIC: &[u8; 6] = b"ISOTAG";
const FORBIDDEN_I16: i16 = i16::MIN;

/// The reason why a model file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The file is not a model file.
    #[error("not a tagger's model file")]
    Magic,
    /// A model file of another version.
    #[error("a model file of version {found}; this program reads version {VERSION}")]
    Version {
        /// Its version.
        found: u8,
    },
    /// The file is truncated.
    #[error("the model file is cut short")]
    Short,
    /// Its parts contradict each other.
    #[error("the model file is damaged: {0}")]
    Damaged(&'static str),
    /// A tag that this program does not know.
    #[error("the model file has an unknown tag `{0}`")]
    UnknownTag(String),
}

/// The weight of a feature for a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight {
    pub tag: u8,
    pub value: i8,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    tags: Vec<String>,
    transitions: Transitions,
    /// Open addressing: feature + 1 (0 for a free slot), then the start and number of its weights.
    table: Vec<(u32, u32)>,
    shift: u32,
    weights: Vec<Weight>,
}

/// Bits of a table entry that count the weights of a feature.
const COUNT_BITS: u32 = 8;

impl Chain {
    /// Builds a chain from features in ascending order, each with its weights.
    ///
    /// # Errors
    /// If features are out of order, tags out of range, or sizes are inconsistent.
    pub fn new(
        tags: Vec<String>,
        transitions: Transitions,
        features: &[(u32, Vec<Weight>)],
    ) -> Result<Self, ModelError> {
        let mut chain = Self::empty(tags, transitions, features.len());
        for (feature, weights) in features {
            chain.weights.extend(weights);
            chain.insert(*feature, weights.len())?;
        }
        Ok(chain)
    }

    fn empty(tags: Vec<String>, transitions: Transitions, features: usize) -> Self {
        let slots = (features * 2).next_power_of_two().max(2);
        Self {
            tags,
            transitions,
            table: vec![(0, 0); slots],
            shift: 32 - slots.ilog2(),
            weights: Vec::new(),
        }
    }

    /// Adds a feature, whose weights are the last `count`, to the table.
    fn insert(&mut self, feature: u32, count: usize) -> Result<(), ModelError> {
        let start = self.weights.len() - count;
        if count >= 1 << COUNT_BITS || start >= 1 << (32 - COUNT_BITS) {
            return Err(ModelError::Damaged("too many weights"));
        }
        if self.weights[start..]
            .iter()
            .any(|weight| usize::from(weight.tag) >= self.tags.len())
        {
            return Err(ModelError::Damaged("a tag out of range"));
        }
        let mut slot = self.slot(feature);
        while self.table[slot].0 != 0 {
            if self.table[slot].0 == feature + 1 {
                return Err(ModelError::Damaged("a feature twice"));
            }
            slot = (slot + 1) % self.table.len();
        }
        self.table[slot] = (feature + 1, (start as u32) << COUNT_BITS | count as u32);
        Ok(())
    }

    fn slot(&self, feature: u32) -> usize {
        (feature.wrapping_mul(0x9e37_79b1) >> self.shift) as usize
    }

    /// Names of the tags.
    pub fn tags(&self) -> &[String] {
        &self.tags
    }

    pub fn weights_of(&self, feature: u32) -> &[Weight] {
        let mut slot = self.slot(feature);
        loop {
            match self.table[slot] {
                // Half of the slots are free, so the search ends.
                (0, _) => return &[],
                (key, entry) if key == feature + 1 => {
                    let start = (entry >> COUNT_BITS) as usize;
                    return &self.weights[start..start + (entry & ((1 << COUNT_BITS) - 1)) as usize];
                }
                _ => slot = (slot + 1) & (self.table.len() - 1),
            }
        }
    }

    /// Adds the weights of features to the scores of the tags.
    pub fn add(&self, features: &[u32], scores: &mut [i32]) {
        for feature in features {
            for weight in self.weights_of(*feature) {
                scores[usize::from(weight.tag)] += i32::from(weight.value);
            }
        }
    }

    /// The best tags of a text of `len` tokens, by number; see [`viterbi::best`].
    pub fn best(&self, len: usize, emit: impl FnMut(usize, &mut [i32])) -> Vec<usize> {
        viterbi::best(&self.transitions, len, emit)
    }

    /// Appends the chain to a file.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(self.tags.len() as u8);
        for tag in &self.tags {
            out.push(tag.len() as u8);
            out.extend(tag.as_bytes());
        }
        let tags = 0..self.tags.len();
        let firsts = tags.clone().map(|tag| self.transitions.first(tag));
        let nexts = tags
            .clone()
            .flat_map(|next| tags.clone().map(move |previous| (previous, next)));
        let nexts = nexts.map(|(previous, next)| self.transitions.score(previous, next));
        for score in firsts.chain(nexts) {
            let score = i16::try_from(score).unwrap_or(FORBIDDEN_I16);
            out.extend(score.to_le_bytes());
        }
        let mut features: Vec<u32> = self
            .table
            .iter()
            .filter(|(key, _)| *key > 0)
            .map(|(key, _)| key - 1)
            .collect();
        features.sort_unstable();
        out.extend((features.len() as u32).to_le_bytes());
        let mut last = 0;
        for feature in features {
            let mut difference = feature - last;
            last = feature;
            while difference >= 0x80 {
                out.push(difference as u8 | 0x80);
                difference >>= 7;
            }
            out.push(difference as u8);
            let weights = self.weights_of(feature);
            out.push(weights.len() as u8);
            out.extend(weights.iter().flat_map(|weight| [weight.tag, weight.value as u8]));
        }
    }
}

/// A file of two chains.
pub fn write(pos: &Chain, entities: &Chain) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.push(VERSION);
    pos.write(&mut out);
    entities.write(&mut out);
    out
}

/// Reads a file of two chains.
///
/// # Errors
/// Those of [`ModelError`].
pub fn read(bytes: &[u8]) -> Result<(Chain, Chain), ModelError> {
    let bytes = bytes.strip_prefix(MAGIC.as_slice()).ok_or(ModelError::Magic)?;
    let (&version, rest) = bytes.split_first().ok_or(ModelError::Short)?;
    if version != VERSION {
        return Err(ModelError::Version { found: version });
    }
    let mut reader = Reader { rest };
    let chains = (reader.chain()?, reader.chain()?);
    if !reader.rest.is_empty() {
        return Err(ModelError::Damaged("there is more behind its end"));
    }
    Ok(chains)
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], ModelError> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or(ModelError::Short)?;
        self.rest = rest;
        Ok(head)
    }

    fn byte(&mut self) -> Result<u8, ModelError> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn scores(&mut self, count: usize) -> Result<Vec<i32>, ModelError> {
        let bytes = self.take(count * 2)?;
        Ok(bytes
            .chunks_exact(2)
            .map(|pair| match i16::from_le_bytes([pair[0], pair[1]]) {
                FORBIDDEN_I16 => FORBIDDEN,
                score => score.into(),
            })
            .collect())
    }

    fn varint(&mut self) -> Result<u32, ModelError> {
        let mut value = 0;
        for shift in [0, 7, 14, 21] {
            let byte = self.byte()?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ModelError::Damaged("a number is too long"))
    }

    fn chain(&mut self) -> Result<Chain, ModelError> {
        let count = usize::from(self.byte()?);
        let mut tags = Vec::with_capacity(count);
        for _ in 0..count {
            let len = self.byte()?.into();
            let name = std::str::from_utf8(self.take(len)?).map_err(|_| ModelError::Damaged("a tag is not UTF-8"))?;
            tags.push(name.to_owned());
        }
        let first = self.scores(count)?;
        let scores = self.scores(count * count)?;
        let transitions = Transitions::new(count, scores, first).ok_or(ModelError::Damaged("it has no tags"))?;
        let len = self.take(4)?;
        let features = u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize;
        // Each feature takes at least two bytes, so a damaged count cannot cause a large table.
        if features > self.rest.len() / 2 {
            return Err(ModelError::Short);
        }
        let mut chain = Chain::empty(tags, transitions, features);
        let mut feature = 0_u32;
        for _ in 0..features {
            feature = feature
                .checked_add(self.varint()?)
                .filter(|feature| *feature < u32::MAX)
                .ok_or(ModelError::Damaged("a feature out of range"))?;
            let weights = usize::from(self.byte()?);
            let pairs = self.take(weights * 2)?.chunks_exact(2);
            chain.weights.extend(pairs.map(|pair| Weight {
                tag: pair[0],
                value: pair[1] as i8,
            }));
            chain.insert(feature, weights)?;
        }
        Ok(chain)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use proptest::prelude::*;

    use super::*;

    fn chain() -> Chain {
        let transitions = Transitions::new(2, vec![1, -2, FORBIDDEN, 4], vec![5, FORBIDDEN]).unwrap();
        let weight = |tag, value| Weight { tag, value };
        let features = [
            (0, vec![weight(1, -128)]),
            (7, vec![]),
            (67_108_863, vec![weight(0, 3), weight(1, 127)]),
        ];
        Chain::new(vec!["A".into(), "B-X".into()], transitions, &features).unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let file = write(&chain(), &chain());
        let (first, second) = read(&file).unwrap();
        assert_eq!((&first, &second), (&chain(), &chain()));
        assert_eq!(first.weights_of(67_108_863).len(), 2);
        assert!(first.weights_of(8).is_empty());
    }

    #[test]
    fn a_file_cut_short_or_of_another_kind_is_refused() {
        let file = write(&chain(), &chain());
        for len in 7..file.len() {
            assert!(read(&file[..len]).is_err(), "{len}");
        }
        assert_eq!(read(b"GGUF").unwrap_err(), ModelError::Magic);
        let mut newer = file.clone();
        newer[6] = VERSION + 1;
        assert_eq!(read(&newer).unwrap_err(), ModelError::Version { found: VERSION + 1 });
        let longer = [file, vec![0]].concat();
        assert!(matches!(read(&longer).unwrap_err(), ModelError::Damaged(_)));
    }

    proptest! {
        #[test]
        fn a_damaged_file_makes_no_panic(at in 0_usize..80, value: u8) {
            let mut file = write(&chain(), &chain());
            let len = file.len();
            file[at % len] = value;
            if let Ok((chain, _)) = read(&file) {
                chain.best(5, |at, scores| chain.add(&[at as u32, 7], scores));
            }
        }
    }
}
