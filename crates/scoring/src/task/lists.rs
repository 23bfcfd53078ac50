//! The result lists of a search that are kept with its scores.

use serde::{Deserialize, Serialize};

use crate::metric::search::Hit;

/// Number of best documents kept per query. At the usual persistence of 0.9 they have 97 % of the
/// weight of rank-biased overlap.
pub const LIST_DEPTH: usize = 20;

/// The best documents of each query. Every field has one entry per query.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ResultLists {
    /// Maximum number of documents kept per query.
    pub depth: usize,
    /// Maximum number of documents per query that the search returned: relevant documents beyond it
    /// are not found.
    pub searched: usize,
    /// Number of documents in the corpus.
    pub corpus: usize,
    /// Rows of the documents in the corpus, best first.
    pub documents: Vec<Vec<u32>>,
    pub similarities: Vec<Vec<f32>>,
    /// The ranks, from 1, of the relevant documents among the kept ones.
    pub relevant: Vec<Vec<u32>>,
    /// The rank of the first relevant document among all that the search returned.
    pub first_relevant: Vec<Option<u32>>,
    /// Number of documents judged relevant.
    pub judged: Vec<u32>,
}

impl ResultLists {
    /// Creates lists from the documents found for each query, best first, and the judgements.
    pub(super) fn new(hits: &[Vec<Hit>], judgements: &[Vec<(usize, i32)>], searched: usize, corpus: usize) -> Self {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let mut lists = Self {
            depth: LIST_DEPTH.min(searched),
            searched,
            corpus,
            ..Self::default()
        };
        for (hits, judged) in hits.iter().zip(judgements) {
            let relevant = |hit: &Hit| {
                judged
                    .iter()
                    .any(|(document, grade)| *document == hit.document && *grade > 0)
            };
            let kept = || hits.iter().take(LIST_DEPTH);
            let ranks = (1_u32..).zip(kept()).filter(|(_, hit)| relevant(hit));
            lists.relevant.push(ranks.map(|(rank, _)| rank).collect());
            lists.documents.push(kept().map(|hit| number(hit.document)).collect());
            lists.similarities.push(kept().map(|hit| hit.score).collect());
            let first = hits.iter().position(relevant);
            lists.first_relevant.push(first.map(|rank| number(rank + 1)));
            lists
                .judged
                .push(number(judged.iter().filter(|(_, grade)| *grade > 0).count()));
        }
        lists
    }

    pub fn queries(&self) -> usize {
        self.documents.len()
    }

    /// Whether each query has an entry in every field.
    pub fn fits(&self, queries: usize) -> bool {
        let lengths = [
            self.documents.len(),
            self.similarities.len(),
            self.relevant.len(),
            self.first_relevant.len(),
            self.judged.len(),
        ];
        lengths.iter().all(|length| *length == queries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_end_at_their_depth_and_a_first_relevant_document_is_found_beyond_it() {
        let hits = |n: usize| {
            (0..n).map(|document| Hit {
                document,
                score: 1.0 - document as f32 / 100.0,
            })
        };
        let found = vec![hits(30).collect::<Vec<_>>(), hits(30).collect()];
        let judgements = vec![vec![(3, 1), (25, 2), (4, 0)], vec![(27, 1), (99, 1)]];
        let lists = ResultLists::new(&found, &judgements, 1000, 30);
        assert!(lists.fits(2));
        assert_eq!((lists.documents[0].len(), lists.depth), (LIST_DEPTH, LIST_DEPTH));
        assert_eq!(lists.relevant, [vec![4], vec![]]);
        assert_eq!(lists.first_relevant, [Some(4), Some(28)]);
        assert_eq!(lists.judged, [2, 2]);
    }
}
