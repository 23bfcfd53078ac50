//! Retrieval by the terms of texts, alone or fused with a search by vectors.

use ndarray::ArrayView2;
use rayon::prelude::*;

use super::{Profile, RetrievalLabels, ScoreError, Scores, retrieval};
use crate::{
    lexical::LexicalIndex,
    metric::{
        Similarity,
        fusion::{Fusion, WeightedHits, fuse},
        search::{self, TieOrder},
    },
};

/// Fewest hits of either search that are fused, however short the list of a query (mteb).
const FEWEST_FUSED: usize = 100;

/// How the hits of two searches become one list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HybridSearch {
    /// How scores become comparable.
    pub fusion: Fusion,
    /// Weight of the search by vectors; the search by terms has the rest to 1.
    pub dense_weight: f64,
}

/// The texts of retrieval, for a search by terms.
#[derive(Debug, Clone, Copy)]
pub struct LexicalInput<'a, S> {
    /// The documents, in the order of their ids.
    pub documents: &'a LexicalIndex,
    /// One text per query.
    pub queries: &'a [S],
}

/// The vectors of retrieval.
#[derive(Debug, Clone, Copy)]
pub struct DenseInput<'a> {
    /// One vector per query.
    pub queries: ArrayView2<'a, f32>,
    /// One vector per document.
    pub documents: ArrayView2<'a, f32>,
    /// The encoder's similarity.
    pub similarity: Similarity,
}

/// Scores retrieval by BM25. A query finds the documents that have one of its terms.
///
/// # Errors
/// If texts and ids do not match, or there are no queries or no documents.
pub fn score_lexical<S: AsRef<str> + Sync>(
    labels: &RetrievalLabels<'_>,
    lexical: LexicalInput<'_, S>,
    profile: Profile,
) -> Result<Scores, ScoreError> {
    lexical.check(labels, profile)?;
    let terms = labels.terms(profile);
    let order = TieOrder::new(search::id_order(labels.document_ids).into(), terms.ties);
    let hits = lexical.documents.search(lexical.queries, &order, terms.k);
    retrieval::score_hits(labels, hits, profile)
}

/// Scores retrieval by the fused hits of a search by vectors and one by BM25.
///
/// # Errors
/// If vectors, texts and ids do not match, there are no queries or no documents, or a similarity is
/// not a number.
pub fn score_hybrid<S: AsRef<str> + Sync>(
    labels: &RetrievalLabels<'_>,
    dense: DenseInput<'_>,
    lexical: LexicalInput<'_, S>,
    hybrid: HybridSearch,
    profile: Profile,
) -> Result<Scores, ScoreError> {
    lexical.check(labels, profile)?;
    let key = retrieval::main_key(profile)?;
    retrieval::counted("queries", dense.queries.nrows(), labels.query_ids.len(), key)?;
    retrieval::counted("documents", dense.documents.nrows(), labels.document_ids.len(), key)?;
    ScoreError::widths("documents", dense.queries, dense.documents)?;
    let terms = labels.terms(profile);
    let depth = terms.k.max(FEWEST_FUSED);
    let ids = search::id_order(labels.document_ids);
    let by_vectors = search::top_k(
        dense.queries,
        dense.documents,
        &ids,
        dense.similarity,
        depth,
        terms.ties,
    );
    retrieval::check_depth(labels, &by_vectors, depth, key)?;
    let order = TieOrder::new(ids.into(), terms.ties);
    let by_terms = lexical.documents.search(lexical.queries, &order, depth);
    let fused = by_vectors.par_iter().zip(&by_terms).map(|(by_vectors, by_terms)| {
        let both = [(by_vectors, hybrid.dense_weight), (by_terms, 1.0 - hybrid.dense_weight)];
        let both = both.map(|(hits, weight)| WeightedHits { hits, weight });
        fuse(&both, hybrid.fusion, &order, terms.k)
    });
    retrieval::score_hits(labels, fused.collect(), profile)
}

impl<S> LexicalInput<'_, S> {
    fn check(&self, labels: &RetrievalLabels<'_>, profile: Profile) -> Result<(), ScoreError> {
        let key = retrieval::main_key(profile)?;
        retrieval::counted("queries", self.queries.len(), labels.query_ids.len(), key)?;
        retrieval::counted("documents", self.documents.documents(), labels.document_ids.len(), key)
    }
}
