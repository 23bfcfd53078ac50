//! Splits requests into batches that a provider accepts.

use std::{future::Future, ops::Range};

use futures::{StreamExt, TryStreamExt, stream};
use isomer_proto::gateway::v1::ProviderLimits;
use isomer_service_kit::Fault;

/// A limit per request. In a message, 0 means that no limit is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchLimit(usize);

impl BatchLimit {
    pub(crate) const UNKNOWN: Self = Self(usize::MAX);

    pub(crate) const fn of(limit: u32) -> Self {
        match limit {
            0 => Self::UNKNOWN,
            limit => Self(limit as usize),
        }
    }

    /// The stricter of two limits.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }

    pub(crate) fn allows(self, count: usize) -> bool {
        count <= self.0
    }

    /// The limit as a number in a message.
    pub(crate) fn number(self) -> u32 {
        u32::try_from(self.0).unwrap_or(0)
    }
}

/// The size of a request's batches, and the number of concurrent batches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batches {
    pub(crate) items: BatchLimit,
    pub(crate) tokens: BatchLimit,
    pub(crate) at_once: usize,
}

impl Batches {
    /// `at_once` applies if the limits do not set a number.
    pub(crate) fn new(limits: Option<&ProviderLimits>, at_once: usize) -> Self {
        let limits = limits.cloned().unwrap_or_default();
        Self {
            items: BatchLimit::of(limits.max_batch_items),
            tokens: BatchLimit::of(limits.max_batch_tokens),
            at_once: match limits.max_concurrency {
                0 => at_once,
                most => usize::try_from(most).unwrap_or(at_once),
            },
        }
    }

    /// Splits items of these sizes, in tokens, into runs within the limits. An item above the limit
    /// is sent alone, and the provider decides about it.
    pub(crate) fn cut(&self, sizes: &[u64]) -> Vec<Range<usize>> {
        let mut pieces = Vec::new();
        let (mut first, mut tokens) = (0, 0_u64);
        for (at, size) in sizes.iter().enumerate() {
            let together = usize::try_from(tokens + size).unwrap_or(usize::MAX);
            if at > first && !(self.items.allows(at - first + 1) && self.tokens.allows(together)) {
                pieces.push(first..at);
                (first, tokens) = (at, 0);
            }
            tokens += size;
        }
        if first < sizes.len() {
            pieces.push(first..sizes.len());
        }
        pieces
    }

    /// Calls `call` once per part, several at once, and returns the answers in the order of the
    /// parts. The first failure ends all calls.
    pub(crate) async fn each<T, F>(
        &self,
        pieces: Vec<Range<usize>>,
        call: impl FnMut(Range<usize>) -> F,
    ) -> Result<Vec<T>, Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        stream::iter(pieces.into_iter().map(call))
            .buffered(self.at_once)
            .try_collect()
            .await
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn batches(items: u32, tokens: u32) -> Batches {
        Batches::new(
            Some(&ProviderLimits {
                max_batch_items: items,
                max_batch_tokens: tokens,
                ..ProviderLimits::default()
            }),
            2,
        )
    }

    #[test]
    fn pieces_are_cut_where_items_or_tokens_are_full() {
        assert_eq!(batches(2, 0).cut(&[1, 1, 1, 1, 1]), [0..2, 2..4, 4..5]);
        assert_eq!(batches(0, 10).cut(&[4, 4, 4, 10, 1]), [0..2, 2..3, 3..4, 4..5]);
        assert_eq!(batches(0, 0).cut(&[9; 5]).len(), 1);
        assert!(batches(3, 3).cut(&[]).is_empty());
    }

    #[test]
    fn an_item_that_is_too_large_goes_alone() {
        assert_eq!(batches(0, 5).cut(&[1, 99, 1]), [0..1, 1..2, 2..3]);
    }

    proptest! {
        #[test]
        fn pieces_are_whole_in_order_and_within_the_limits(
            sizes in prop::collection::vec(0_u64..20, 0..40),
            items in 0_u32..6,
            tokens in 0_u32..30,
        ) {
            let pieces = batches(items, tokens).cut(&sizes);
            let joined: Vec<usize> = pieces.iter().cloned().flatten().collect();
            prop_assert_eq!(joined, (0..sizes.len()).collect::<Vec<_>>());
            for piece in pieces {
                prop_assert!(items == 0 || piece.len() <= items as usize);
                let total: u64 = sizes[piece.clone()].iter().sum();
                prop_assert!(tokens == 0 || total <= u64::from(tokens) || piece.len() == 1);
            }
        }
    }
}
