//! How far the result lists of two encoders agree.

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

/// Overlap at `k` and rank-biased overlap of each query's lists, mean over seeds, and in how many
/// lists the first document is the same. `None` without lists, or if they do not fit together.
pub fn overlaps(
    old: &[Option<&ResultLists>],
    new: &[Option<&ResultLists>],
    (k, persistence): (usize, f64),
) -> Option<(Vec<f64>, Vec<f64>, u64)> {
    let queries = old.first().copied().flatten()?.queries();
    let (mut shares, mut biased) = (vec![0.0; queries], vec![0.0; queries]);
    let mut same_first = 0;
    for (old, new) in old.iter().zip(new) {
        let (old, new) = ((*old)?, (*new)?);
        if !old.fits(queries) || !new.fits(queries) || old.corpus != new.corpus {
            return None;
        }
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
    Some((shares, biased, same_first))
}

/// Agreement on a data set under a variant.
pub(super) fn lists(
    old: &[ScoredItems<'_>],
    new: &[ScoredItems<'_>],
    options: DiffOptions,
    clusters: &[u32],
    name: &str,
) -> Option<Lists> {
    let [old_lists, new_lists] = [old, new].map(|all| all.iter().map(|one| one.lists).collect::<Vec<_>>());
    let (shares, biased, same_first) = overlaps(&old_lists, &new_lists, (options.k, options.persistence))?;
    let means = [mean(&shares)? * 100.0, mean(&biased)? * 100.0];
    let lists = (shares.len() * old.len()) as u64;
    let replicates =
        |values: &[f64], mean: f64| Replicates::of(vec![mean], &[&Evidence::mean(values, None)], clusters, name).ok();
    Some(Lists {
        overlap: replicates(&shares, means[0])?,
        biased: replicates(&biased, means[1])?,
        means,
        same_first: same_first as f64 / lists as f64,
        lists,
    })
}

/// Agreement over data sets, as scores are averaged: within `groups` first.
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
