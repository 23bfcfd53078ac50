//! The pairs of rewrites and copies to compare.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use super::{measure::Separated, rewrites};
use crate::{
    change::Change,
    run::{
        drift::Pair,
        plan::{Plan, Variant},
        rounds::Round,
        transform::Transformed,
        units::digest_of_texts,
    },
    separation::{Changed, Triple, differs, stratum},
};

/// Triples of a data set under one transformation and seed; the same for every encoder.
#[derive(Debug)]
pub(in crate::run) struct Set {
    pub(super) table: usize,
    pub(super) transformation: usize,
    pub(super) seed: usize,
    pub(super) triples: Arc<Vec<Triple>>,
    pub(super) digest: String,
}

/// A data set's texts with their rewrites by a transformation and seed, each pair once.
///
/// A near copy, and a rewrite that contains the text, are omitted. They share more words with the
/// text than any copy does, so every encoder that reacts to words at all would separate them.
pub(super) fn rewrites_of(plan: &Plan, transformed: &Transformed, table: usize, variant: Variant) -> Vec<Pair> {
    let Variant::Transformed { transformation, seed } = variant else {
        return Vec::new();
    };
    let (Some(table), Some(planned)) = (plan.tables.get(table), plan.transformations.get(transformation)) else {
        return Vec::new();
    };
    let asked = plan.requests.of(planned);
    let requests: BTreeSet<usize> = table.requests.of(planned).iter().flatten().copied().collect();
    let pair = |request: usize| {
        let made = transformed.get(transformation, seed, request)?;
        (made.change == Change::Changed).then(|| Some((asked.get(request)?.text, made.text)))?
    };
    let mut seen = HashSet::new();
    let pairs = requests.into_iter().filter_map(pair);
    pairs.filter(|pair| seen.insert(*pair)).collect()
}

/// The sets that a round adds.
pub(in crate::run) fn sets(plan: &Plan, transformed: &Transformed, round: &Round, known: &[Separated]) -> Vec<Set> {
    let known: HashSet<(usize, usize, usize)> = known.iter().map(Separated::set).collect();
    let mut sets = Vec::new();
    for &table in &round.tables {
        let Some(changes) = plan.tables.get(table).map(|table| &table.copies.chosen) else {
            continue;
        };
        for variant in round.variants(plan) {
            let Variant::Transformed { transformation, seed } = variant else {
                continue;
            };
            let wanted = plan.transformations.get(transformation).is_some_and(rewrites);
            if !wanted || changes.is_empty() || known.contains(&(table, transformation, seed)) {
                continue;
            }
            let mut made: HashMap<u32, Vec<u32>> = HashMap::new();
            for (original, rewrite) in rewrites_of(plan, transformed, table, variant) {
                made.entry(original).or_default().push(rewrite);
            }
            let triples = triples(plan, changes, &made);
            if triples.is_empty() {
                continue;
            }
            let digest = digest(plan, &triples);
            sets.push(Set {
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
fn triples(plan: &Plan, changes: &[Changed<u32>], made: &HashMap<u32, Vec<u32>>) -> Vec<Triple> {
    let mut triples = Vec::new();
    for one in changes {
        let text = plan.corpus.get(one.text);
        for &rewrite in made.get(&one.text).into_iter().flatten() {
            let rewritten = plan.corpus.get(rewrite);
            for &(kind, change) in &one.copies {
                let changed = plan.corpus.get(change);
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

fn digest(plan: &Plan, triples: &[Triple]) -> String {
    let texts = triples.iter().flat_map(|one| [one.text, one.rewrite, one.change]);
    digest_of_texts(texts.map(|text| plan.corpus.get(text)))
}
