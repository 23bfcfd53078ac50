//! The texts of a data set with their results: rewrites, pairs and variants.

use std::collections::{BTreeSet, HashSet};

use super::{Outcome, TextResult, TextResults};
use crate::{
    change::Change,
    run::plan::{Layout, Variant, table::Table, transformations::PlannedTransformation},
};

/// A text and its transformed text, by their numbers in the corpus.
pub(crate) type Pair = (u32, u32);

/// Numbers of a dataset's texts under a variant.
pub(crate) fn texts_of(layout: &Layout, text_results: &TextResults, table: usize, variant: Variant) -> Vec<u32> {
    let Some(table) = layout.tables.get(table) else {
        return Vec::new();
    };
    let Variant::Transformed { transformation, seed } = variant else {
        return table.texts.clone();
    };
    let requests = match layout.transformations.get(transformation) {
        Some(planned) => table.requests.of(planned).as_slice(),
        None => &[],
    };
    let result = |request: &Option<usize>| text_results.get(transformation, seed, (*request)?);
    table
        .texts
        .iter()
        .zip(requests)
        .map(|(original, request)| result(request).map_or(*original, |result| result.text))
        .collect()
}

/// Numbers of the requests of a data set for a transformation.
pub(crate) fn requests(table: &Table, planned: &PlannedTransformation) -> BTreeSet<usize> {
    table.requests.of(planned).iter().flatten().copied().collect()
}

/// A data set's texts, by their numbers, with their results under a transformation and seed, as far
/// as they have been requested. They are in the order of their requests.
pub(crate) fn results_of<'a>(
    layout: &'a Layout,
    text_results: &'a TextResults,
    table: &Table,
    t: usize,
    s: usize,
) -> impl Iterator<Item = (u32, &'a TextResult)> {
    let planned = layout.transformations.get(t);
    let requests = planned.map(|planned| requests(table, planned));
    let texts = planned.map_or(&[][..], |planned| layout.requests.of(planned).as_slice());
    let requests = requests.unwrap_or_default().into_iter();
    requests.filter_map(move |request| Some((texts.get(request)?.text, text_results.get(t, s, request)?)))
}

/// The results of a data set under a variant; none for the originals.
fn results_under<'a>(
    layout: &'a Layout,
    text_results: &'a TextResults,
    table: usize,
    variant: Variant,
) -> Vec<(u32, &'a TextResult)> {
    match (layout.tables.get(table), variant) {
        (Some(table), Variant::Transformed { transformation, seed }) => {
            results_of(layout, text_results, table, transformation, seed).collect()
        }
        _ => Vec::new(),
    }
}

/// A dataset's distinct texts that were transformed, in the order of their requests. A text that is
/// replaced by its original has not moved and is omitted. Empty for the originals.
pub(crate) fn pairs_of(layout: &Layout, text_results: &TextResults, table: usize, variant: Variant) -> Vec<Pair> {
    let results = results_under(layout, text_results, table, variant).into_iter();
    let moved = results.filter(|(_, result)| matches!(result.outcome, Outcome::Ok | Outcome::Recovered));
    moved.map(|(original, result)| (original, result.text)).collect()
}

/// A data set's texts with their rewrites by a transformation and seed, each pair once.
///
/// A near copy, and a rewrite that contains the text, are omitted. They share more words with the
/// text than any copy does, so every encoder that reacts to words at all would separate them.
pub(crate) fn rewrites_of(layout: &Layout, text_results: &TextResults, table: usize, variant: Variant) -> Vec<Pair> {
    let results = results_under(layout, text_results, table, variant).into_iter();
    let changed = results.filter(|(_, result)| result.change == Change::Changed);
    let pairs = changed.map(|(original, result)| (original, result.text));
    let mut seen = HashSet::new();
    pairs.filter(|pair| seen.insert(*pair)).collect()
}
