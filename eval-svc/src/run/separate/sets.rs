//! The pairs of rewrites and copies to compare.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use crate::{
    run::{
        plan::{Layout, Variant, rounds::Round, transformations::PlannedTransformation},
        transform::{TextResults, pairs::rewrites_of},
        units::digest_of_texts,
    },
    separation::{TextCopies, Triple, differs, stratum},
};

/// Triples of a data set under one transformation and seed; the same for every encoder.
#[derive(Debug)]
pub(crate) struct TripleSet {
    pub(crate) table: usize,
    pub(crate) transformation: usize,
    pub(crate) seed: usize,
    pub(crate) triples: Arc<Vec<Triple>>,
    pub(crate) digest: String,
}

/// The sets that a round adds to the `known` ones, by data set and variant.
pub(crate) fn sets(
    layout: &Layout,
    text_results: &TextResults,
    round: &Round,
    known: &HashSet<(usize, Variant)>,
) -> Vec<TripleSet> {
    let mut sets = Vec::new();
    for &table in &round.tables {
        let Some(changes) = layout.tables.get(table).map(|table| &table.copies.chosen) else {
            continue;
        };
        for variant in round.variants(layout) {
            let Variant::Transformed { transformation, seed } = variant else {
                continue;
            };
            let planned = layout.transformations.get(transformation);
            let keeps_meaning = planned.is_some_and(PlannedTransformation::keeps_meaning);
            if !keeps_meaning || changes.is_empty() || known.contains(&(table, variant)) {
                continue;
            }
            let mut rewrites: HashMap<u32, Vec<u32>> = HashMap::new();
            for (original, rewrite) in rewrites_of(layout, text_results, table, variant) {
                rewrites.entry(original).or_default().push(rewrite);
            }
            let triples = triples(layout, changes, &rewrites);
            if triples.is_empty() {
                continue;
            }
            let digest = digest(layout, &triples);
            sets.push(TripleSet {
                table,
                transformation,
                seed,
                triples: Arc::new(triples),
                digest,
            });
        }
    }
    sets
}

/// Every changed copy with every rewrite of its text. A pair whose rewrite equals the changed copy,
/// apart from case and marks, is omitted.
fn triples(layout: &Layout, changes: &[TextCopies<u32>], rewrites: &HashMap<u32, Vec<u32>>) -> Vec<Triple> {
    let mut triples = Vec::new();
    for one in changes {
        let text = layout.corpus.get(one.text);
        for &rewrite in rewrites.get(&one.text).into_iter().flatten() {
            let rewritten = layout.corpus.get(rewrite);
            for &(kind, change) in &one.copies {
                let changed = layout.corpus.get(change);
                if differs(changed, rewritten) {
                    triples.push(Triple {
                        text: one.text,
                        counts_as: one.counts_as,
                        rewrite,
                        change,
                        kind,
                        stratum: stratum(text, rewritten, changed),
                    });
                }
            }
        }
    }
    triples
}

fn digest(layout: &Layout, triples: &[Triple]) -> String {
    let texts = triples.iter().flat_map(|one| [one.text, one.rewrite, one.change]);
    digest_of_texts(texts.map(|text| layout.corpus.get(text)))
}
