//! The texts of a batch, packed: one token after another, without padding. So the side on which a
//! model's tokenizer would pad does not matter.

use std::{borrow::Cow, ops::Range};

/// The requested results for a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestedOutputs {
    pub text_vector: bool,
    /// One vector per token.
    pub token_vectors: bool,
    /// Weights of tokens of the vocabulary.
    pub sparse: bool,
}

impl RequestedOutputs {
    /// No result.
    pub const NONE: Self = Self {
        text_vector: false,
        token_vectors: false,
        sparse: false,
    };
    /// Only the text's vector.
    pub const TEXT_VECTOR: Self = Self {
        text_vector: true,
        ..Self::NONE
    };
}

impl Default for RequestedOutputs {
    fn default() -> Self {
        Self::TEXT_VECTOR
    }
}

/// Weights of tokens of the vocabulary, by ascending token id. All other weights are 0.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SparseVector {
    /// Token ids.
    pub ids: Vec<u32>,
    /// The weight of each id; above 0.
    pub weights: Vec<f32>,
}

/// Results of texts: each kind for the texts that want it, in their order.
#[derive(Debug, Default, PartialEq)]
pub struct Outputs {
    /// Vectors of texts, before a final normalisation.
    pub text_vectors: Vec<f32>,
    /// One vector per token, as the input of the pooling or of late interaction.
    pub token_vectors: Vec<f32>,
    /// One per text.
    pub sparse: Vec<SparseVector>,
}

/// Number of values or sparse vectors in [`Outputs`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    pub text_vectors: usize,
    pub token_vectors: usize,
    /// Sparse vectors.
    pub sparse: usize,
}

impl Outputs {
    /// Adds the results of the texts that follow.
    pub fn append(&mut self, next: Self) {
        fn join<T>(all: &mut Vec<T>, mut next: Vec<T>) {
            if all.is_empty() {
                *all = next;
            } else {
                all.append(&mut next);
            }
        }
        join(&mut self.text_vectors, next.text_vectors);
        join(&mut self.token_vectors, next.token_vectors);
        join(&mut self.sparse, next.sparse);
    }

    /// Removes and returns the results of the last texts.
    #[must_use]
    pub fn split_last(&mut self, sizes: Sizes) -> Self {
        fn last<T>(all: &mut Vec<T>, count: usize) -> Vec<T> {
            if count == all.len() {
                std::mem::take(all)
            } else {
                all.split_off(all.len().saturating_sub(count))
            }
        }
        Self {
            text_vectors: last(&mut self.text_vectors, sizes.text_vectors),
            token_vectors: last(&mut self.token_vectors, sizes.token_vectors),
            sparse: last(&mut self.sparse, sizes.sparse),
        }
    }
}

/// One text in the form that a model accepts.
#[derive(Debug, Clone, Copy)]
pub struct TextView<'a> {
    /// Token ids.
    pub ids: &'a [u32],
    /// Leading tokens that the pooling excludes: the prompt, in models that do not pool it.
    pub prompt: usize,
    /// First token of the second text, if the text is a pair whose sides have different token
    /// types.
    pub second: Option<usize>,
    /// The requested result.
    pub want: RequestedOutputs,
}

impl<'a> TextView<'a> {
    /// A text whose vector is requested.
    pub fn plain(ids: &'a [u32]) -> Self {
        Self {
            ids,
            prompt: 0,
            second: None,
            want: RequestedOutputs::default(),
        }
    }
}

impl AsRef<[u32]> for TextView<'_> {
    fn as_ref(&self) -> &[u32] {
        self.ids
    }
}

/// A queued text: an owned [`TextView`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sequence {
    /// Token ids.
    pub ids: Vec<u32>,
    /// See [`TextView::prompt`].
    pub prompt: usize,
    /// See [`TextView::second`].
    pub second: Option<usize>,
    /// See [`TextView::want`].
    pub want: RequestedOutputs,
}

impl Sequence {
    /// The text in the form that a model accepts.
    pub fn view(&self) -> TextView<'_> {
        TextView {
            ids: &self.ids,
            prompt: self.prompt,
            second: self.second,
            want: self.want,
        }
    }
}

impl From<Vec<u32>> for Sequence {
    fn from(ids: Vec<u32>) -> Self {
        Self { ids, ..Self::default() }
    }
}

/// Weighted sums over the rows of each text: a pooling for devices with slow transfers to the CPU.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sums {
    /// Number of sums per text.
    pub count: usize,
    /// For each text in order, `count × tokens` weights.
    pub weights: Vec<f32>,
}

impl Sums {
    /// Weights of the text that these rows belong to.
    pub fn of(&self, rows: &Range<usize>) -> &[f32] {
        &self.weights[rows.start * self.count..rows.end * self.count]
    }
}

/// Token ids of several texts side by side, with the start of each.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenBatch {
    ids: Vec<u32>,
    offsets: Vec<usize>,
    /// Token types; empty if all are 0.
    types: Vec<u32>,
    sums: Option<Sums>,
}

impl TokenBatch {
    /// Packs the texts in order.
    pub fn pack<S: AsRef<[u32]>>(texts: &[S]) -> Self {
        let mut ids = Vec::new();
        let mut offsets = vec![0];
        for text in texts {
            ids.extend_from_slice(text.as_ref());
            offsets.push(ids.len());
        }
        Self {
            ids,
            offsets,
            types: Vec::new(),
            sums: None,
        }
    }

    /// Requests sums instead of the rows.
    #[must_use]
    pub fn wanting(mut self, sums: Sums) -> Self {
        self.sums = Some(sums);
        self
    }

    /// The sums requested instead of the rows, if any.
    pub fn sums(&self) -> Option<&Sums> {
        self.sums.as_ref()
    }

    /// Packs the texts in order, with their token types.
    pub fn of(texts: &[TextView<'_>]) -> Self {
        let mut batch = Self::pack(texts);
        if texts.iter().any(|text| text.second.is_some()) {
            let one = |text: &TextView<'_>| {
                let first = text.second.unwrap_or(text.ids.len()).min(text.ids.len());
                let second = text.ids.len() - first;
                std::iter::repeat_n(0, first).chain(std::iter::repeat_n(1, second))
            };
            batch.types = texts.iter().flat_map(one).collect();
        }
        batch
    }

    /// The type of each token: 1 in the second text of a pair, else 0.
    pub fn types(&self) -> Cow<'_, [u32]> {
        if self.types.is_empty() {
            Cow::Owned(vec![0; self.ids.len()])
        } else {
            Cow::Borrowed(&self.types)
        }
    }

    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    pub fn tokens(&self) -> usize {
        self.ids.len()
    }

    pub fn texts(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The rows of each text.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = Range<usize>> + '_ {
        self.offsets.windows(2).map(|pair| pair[0]..pair[1])
    }

    /// Position of each token in its text.
    pub fn positions(&self) -> impl Iterator<Item = usize> + '_ {
        self.ranges().flat_map(|range| 0..range.len())
    }
}

/// Splits texts into runs of about `target` tokens, each with at least one text; keeps the order.
pub fn runs(lengths: impl IntoIterator<Item = usize>, target: usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let (mut start, mut end, mut tokens) = (0, 0, 0);
    for length in lengths {
        if end > start && tokens + length > target {
            runs.push(start..end);
            (start, tokens) = (end, 0);
        }
        end += 1;
        tokens += length;
    }
    if end > start {
        runs.push(start..end);
    }
    runs
}

/// Splits texts into at most `count` runs of nearly equal numbers of tokens, each with at least one
/// text; keeps the order.
pub fn even_runs(lengths: impl Iterator<Item = usize> + Clone, count: usize) -> Vec<Range<usize>> {
    let total: usize = lengths.clone().sum();
    let count = count.max(1);
    let mut runs: Vec<Range<usize>> = Vec::with_capacity(count);
    let (mut start, mut end, mut tokens) = (0, 0, 0);
    for length in lengths {
        // A text that crosses the end of a run belongs to the run that contains more of it.
        if end > start && (2 * tokens + length) * count > 2 * total * (runs.len() + 1) {
            runs.push(start..end);
            start = end;
        }
        end += 1;
        tokens += length;
    }
    if end > start {
        runs.push(start..end);
    }
    runs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn packing_keeps_order_and_says_where_each_text_lies() {
        let batch = TokenBatch::pack(&[vec![1, 2, 3], vec![], vec![4]]);
        assert_eq!(batch.ids(), [1, 2, 3, 4]);
        assert_eq!(batch.ranges().collect::<Vec<_>>(), [0..3, 3..3, 3..4]);
        assert_eq!(batch.positions().collect::<Vec<_>>(), [0, 1, 2, 0]);
        assert_eq!((batch.tokens(), batch.texts()), (4, 3));
    }

    #[test]
    fn results_are_joined_and_split_in_order() {
        let of = |first: f32| Outputs {
            text_vectors: vec![first, first + 0.1],
            token_vectors: vec![first; 3],
            sparse: vec![SparseVector {
                ids: vec![7],
                weights: vec![first],
            }],
        };
        let mut all = Outputs::default();
        for first in [1.0, 2.0, 3.0] {
            all.append(of(first));
        }
        let sizes = Sizes {
            text_vectors: 2,
            token_vectors: 3,
            sparse: 1,
        };
        for first in [3.0, 2.0, 1.0] {
            assert_eq!(all.split_last(sizes), of(first));
        }
        assert_eq!(all, Outputs::default());
    }

    #[test]
    fn tokens_of_a_second_text_have_type_one() {
        let pair = TextView {
            second: Some(2),
            ..TextView::plain(&[1, 2, 3])
        };
        assert_eq!(*TokenBatch::of(&[TextView::plain(&[7]), pair]).types(), [0, 0, 0, 1]);
        assert_eq!(*TokenBatch::of(&[TextView::plain(&[7, 8])]).types(), [0, 0]);
    }

    proptest! {
        #[test]
        fn runs_cover_all_texts_in_order_within_the_target(lengths in prop::collection::vec(0usize..50, 0..40), target in 1usize..100) {
            let runs = runs(lengths.iter().copied(), target);
            let covered: Vec<usize> = runs.iter().cloned().flatten().collect();
            prop_assert_eq!(covered, (0..lengths.len()).collect::<Vec<_>>());
            for run in runs {
                prop_assert!(!run.is_empty());
                prop_assert!(run.len() == 1 || lengths[run].iter().sum::<usize>() <= target);
            }
        }

        #[test]
        fn even_runs_cover_all_texts_in_order_and_differ_by_no_more_than_a_text(
            lengths in prop::collection::vec(0usize..50, 0..200), count in 1usize..20,
        ) {
            let runs = even_runs(lengths.iter().copied(), count);
            let covered: Vec<usize> = runs.iter().cloned().flatten().collect();
            prop_assert_eq!(covered, (0..lengths.len()).collect::<Vec<_>>());
            prop_assert!(runs.len() <= count);
            let share = lengths.iter().sum::<usize>() as f64 / count as f64;
            for run in runs {
                prop_assert!(!run.is_empty());
                prop_assert!(run.len() == 1 || lengths[run].iter().sum::<usize>() as f64 <= share + 50.0);
            }
        }
    }
}
