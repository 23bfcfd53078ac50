//! BM25 in Lucene's form, as bm25s computes it for mteb's baseline:
//! Σ ln(1 + (N − df + ½) / (df + ½)) · tf / (tf + k₁ · (1 − b + b · length / mean length)) over the
//! terms of the query, a repeated term counted as often as it occurs.
//!
//! Only documents that have a term of the query are found. mteb fills its lists with documents of
//! score 0 in no particular order, and a fusion by ranks would credit them.

use std::collections::HashMap;

use rayon::prelude::*;

use super::{Analysis, analysis::FREQUENT};
use crate::metric::search::{Hit, TieOrder};

/// Saturation of repeated terms.
const K1: f64 = 1.5;
/// Normalisation by length.
const B: f64 = 0.75;
/// Version of terms and weights: increment it when a score changes.
const VERSION: u32 = 1;

/// Documents that are analysed together. Their terms are in memory twice until they are in the
/// index.
const CHUNK: usize = 1024;

/// A term in a document.
#[derive(Debug, Clone, Copy)]
struct Posting {
    document: u32,
    /// The frequency of the term, then its share of the document's score.
    value: f64,
}

/// The terms of documents, with their weights.
#[derive(Debug)]
pub struct LexicalIndex {
    analysis: Analysis,
    /// Position of each term in `postings`.
    terms: HashMap<String, usize>,
    /// Postings of each term, in the order of the documents.
    postings: Vec<Vec<Posting>>,
    documents: usize,
}

impl LexicalIndex {
    /// Everything on which a score depends beside the texts.
    pub fn stamp(analysis: &Analysis) -> String {
        format!("bm25/{VERSION} k1={K1} b={B} {analysis}")
    }

    /// Indexes documents in the order of their rows.
    pub fn new<S: AsRef<str> + Sync>(documents: &[S], analysis: Analysis) -> Self {
        let mut terms: HashMap<String, usize> = HashMap::new();
        let mut postings: Vec<Vec<Posting>> = Vec::new();
        let mut numbers = 0_u32..;
        for chunk in documents.chunks(CHUNK) {
            let texts = chunk.par_iter();
            let counted: Vec<HashMap<String, f64>> = texts.map(|text| counts(&analysis, text.as_ref())).collect();
            for (own, document) in counted.into_iter().zip(numbers.by_ref()) {
                for (term, value) in own {
                    let next = terms.len();
                    let place = *terms.entry(term).or_insert(next);
                    if place == postings.len() {
                        postings.push(Vec::new());
                    }
                    postings[place].push(Posting { document, value });
                }
            }
        }
        if !analysis.has_stop_words() {
            let total = documents.len() as f64;
            let frequent = postings.iter_mut().filter(|own| own.len() as f64 / total >= FREQUENT);
            frequent.for_each(Vec::clear);
        }
        weigh(&mut postings, documents.len());
        Self {
            analysis,
            terms,
            postings,
            documents: documents.len(),
        }
    }

    pub fn documents(&self) -> usize {
        self.documents
    }

    /// The at most `k` best documents of each query among those that have a term of it, best first.
    pub fn search<S: AsRef<str> + Sync>(&self, queries: &[S], order: &TieOrder<'_>, k: usize) -> Vec<Vec<Hit>> {
        let one = |query: &S| {
            let mut scores = vec![0.0; self.documents];
            let mut found = Vec::new();
            let terms = self.analysis.terms(query.as_ref());
            for place in terms.iter().filter_map(|term| self.terms.get(term)) {
                for posting in &self.postings[*place] {
                    let score = &mut scores[posting.document as usize];
                    if *score == 0.0 {
                        found.push(posting.document as usize);
                    }
                    *score += posting.value;
                }
            }
            order.best(found.into_iter().map(|document| (document, scores[document])), k)
        };
        queries.par_iter().map(one).collect()
    }
}

/// The frequency of each term of a text.
fn counts(analysis: &Analysis, text: &str) -> HashMap<String, f64> {
    let mut counts = HashMap::new();
    for term in analysis.terms(text) {
        *counts.entry(term).or_insert(0.0) += 1.0;
    }
    counts
}

/// Turns frequencies into weights. A weight is above 0, so a score of 0 means that no term matches.
fn weigh(postings: &mut [Vec<Posting>], documents: usize) {
    let mut lengths = vec![0.0; documents];
    for posting in postings.iter().flatten() {
        lengths[posting.document as usize] += posting.value;
    }
    let total = documents as f64;
    let mean = lengths.iter().sum::<f64>() / total;
    for own in postings {
        let found = own.len() as f64;
        let rarity = (1.0 + (total - found + 0.5) / (found + 0.5)).ln();
        for posting in own {
            let length = lengths[posting.document as usize];
            posting.value *= rarity / (posting.value + K1 * (1.0 - B + B * length / mean));
        }
    }
}
