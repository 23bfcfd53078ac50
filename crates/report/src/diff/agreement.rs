//! Agreement of the result lists of two encoders.

use super::{Change, DiffOptions, ListAgreement, ScoredItems};
use crate::{
    evidence::Evidence,
    metric::overlap::{overlap_at, rank_biased_overlap},
    profile::{LEVEL, Replicates, Sum, over_datasets},
    stats::mean,
    task::ResultLists,
};

/// Agreement of the result lists of a data set under a variant.
pub(super) struct Lists {
    overlap: Replicates,
    biased: Replicates,
    means: [f64; 2],
    same_first: f64,
    lists: u64,
}

/// Overlap at `k` and rank-biased overlap of each query's lists, averaged over seeds, and the
/// number of lists with the same first document.
///
/// # Errors
/// The reason why the lists cannot be compared: they are not stored, shorter than `k`,
/// inconsistent, or the first `k` documents are the whole corpus, which every two lists share.
pub fn overlaps(
    old: &[Option<&ResultLists>],
    new: &[Option<&ResultLists>],
    k: usize,
    persistence: f64,
) -> Result<(Vec<f64>, Vec<f64>, u64), String> {
    let kept = |lists: Option<&ResultLists>| lists.is_some();
    if old.is_empty() || !old.iter().chain(new).copied().all(kept) {
        return Err("its result lists are not kept; run the check again".to_owned());
    }
    let (old, new): (Vec<&ResultLists>, Vec<&ResultLists>) = (
        old.iter().flatten().copied().collect(),
        new.iter().flatten().copied().collect(),
    );
    let (queries, corpus) = (old[0].queries(), old[0].corpus);
    let all = || old.iter().chain(&new);
    if old.len() != new.len() || !all().all(|one| one.fits(queries) && one.corpus == corpus) {
        return Err("its result lists do not fit together".to_owned());
    }
    if let Some(short) = all().find(|one| one.depth < k) {
        return Err(format!(
            "{} documents of each query are kept, fewer than the {k} to compare; give a smaller k",
            short.depth
        ));
    }
    if corpus <= k {
        return Err(format!(
            "its corpus has {corpus} documents, so that the first {k} are all of them; give a smaller k"
        ));
    }
    let (mut shares, mut biased) = (vec![0.0; queries], vec![0.0; queries]);
    let mut same_first = 0;
    for (old, new) in old.iter().zip(&new) {
        for (q, (old, new)) in old.documents.iter().zip(&new.documents).enumerate() {
            shares[q] += overlap_at(old, new, k);
            biased[q] += rank_biased_overlap(old, new, persistence);
            same_first += u64::from(old.first() == new.first());
        }
    }
    let seeds = old.len() as f64;
    for value in shares.iter_mut().chain(&mut biased) {
        *value /= seeds;
    }
    Ok((shares, biased, same_first))
}

/// Agreement on a data set under a variant.
///
/// # Errors
/// As [`overlaps`].
pub(super) fn lists(
    old: &[ScoredItems<'_>],
    new: &[ScoredItems<'_>],
    options: DiffOptions,
    clusters: &[u32],
    name: &str,
) -> Result<Lists, String> {
    let [old_lists, new_lists] = [old, new].map(|all| all.iter().map(|one| one.lists).collect::<Vec<_>>());
    let (shares, biased, same_first) = overlaps(&old_lists, &new_lists, options.k, options.persistence)?;
    let none = || "it has no queries".to_owned();
    let means = [
        mean(&shares).ok_or_else(none)? * 100.0,
        mean(&biased).ok_or_else(none)? * 100.0,
    ];
    let lists = (shares.len() * old.len()) as u64;
    let replicates =
        |values: &[f64], mean: f64| Replicates::of(vec![mean], &[&Evidence::mean(values, None)], clusters, name);
    Ok(Lists {
        overlap: replicates(&shares, means[0])?,
        biased: replicates(&biased, means[1])?,
        means,
        same_first: same_first as f64 / lists as f64,
        lists,
    })
}

/// Agreement over data sets, averaged like scores: within `groups` first.
pub(super) fn over(all: &[&Lists], groups: &[Vec<usize>]) -> Option<ListAgreement> {
    if all.is_empty() {
        return None;
    }
    let average = |of: &dyn Fn(&Lists) -> f64| {
        let means = groups
            .iter()
            .map(|group| group.iter().map(|d| of(all[*d])).sum::<f64>() / group.len() as f64);
        means.sum::<f64>() / groups.len() as f64
    };
    let agreement = |value: f64, replicates: Vec<&Replicates>| Change {
        value,
        interval: over_datasets(groups, &replicates, &Sum(vec![1.0])).map(|resampled| {
            let mut interval = resampled.interval(LEVEL);
            (interval.low, interval.high) = (interval.low.max(0.0), interval.high.min(100.0));
            interval
        }),
    };
    Some(ListAgreement {
        overlap: agreement(
            average(&|own| own.means[0]),
            all.iter().map(|own| &own.overlap).collect(),
        ),
        rank_biased_overlap: agreement(
            average(&|own| own.means[1]),
            all.iter().map(|own| &own.biased).collect(),
        ),
        same_first: average(&|own| own.same_first),
        lists: all.iter().map(|own| own.lists).sum(),
        datasets: all.len(),
    })
}
