//! Drawing resamples, in parallel.

use rayon::prelude::*;

use super::{Bootstrap, Statistic, of_sorted};
use crate::{
    random::{below, stream},
    stop::draws,
};

/// A named statistic over all resamples. A resample is drawn as counts of the sorted values, so
/// that it is sorted from the start.
pub(super) fn named(values: &[f64], statistic: Statistic, settings: &Bootstrap) -> Vec<f64> {
    let n = values.len();
    if statistic == Statistic::Mean {
        // The mean's last bits depend on the order of its terms. The order is that of the draws, as
        // for any other function.
        return of_sample(values, &crate::mean, settings)
            .into_iter()
            .flatten()
            .collect();
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut place = vec![0_usize; n];
    for (at, &i) in order.iter().enumerate() {
        place[i] = at;
    }
    let sorted: Vec<f64> = order.iter().map(|&i| values[i]).collect();
    draws(settings.resamples)
        .map_init(
            || (vec![0_u32; n], Vec::with_capacity(n), Vec::with_capacity(4 * n)),
            |(counts, drawn, scratch), index| {
                let mut rng = stream(settings.seed, index);
                counts.fill(0);
                for _ in 0..n {
                    counts[place[below(&mut rng, n)]] += 1;
                }
                drawn.clear();
                for (value, count) in sorted.iter().zip(counts.iter()) {
                    for _ in 0..*count {
                        drawn.push(*value);
                    }
                }
                of_sorted(statistic, drawn, scratch)
            },
        )
        .flatten()
        .collect()
}

/// Any statistic over all resamples, in their order.
pub(super) fn of_sample(
    values: &[f64],
    statistic: &(impl Fn(&[f64]) -> Option<f64> + Sync),
    settings: &Bootstrap,
) -> Vec<Option<f64>> {
    draws(settings.resamples)
        .map_init(
            || vec![0.0; values.len()],
            |sample, index| {
                let mut rng = stream(settings.seed, index);
                for slot in sample.iter_mut() {
                    *slot = values[below(&mut rng, values.len())];
                }
                statistic(sample)
            },
        )
        .collect()
}

/// A statistic of pairs over all resamples.
pub(super) fn of_pairs(
    x: &[f64],
    y: &[f64],
    statistic: &(impl Fn(&[f64], &[f64]) -> Option<f64> + Sync),
    settings: &Bootstrap,
) -> Vec<Option<f64>> {
    draws(settings.resamples)
        .map_init(
            || (vec![0.0; x.len()], vec![0.0; x.len()]),
            |(left, right), index| {
                let mut rng = stream(settings.seed, index);
                for (a, b) in left.iter_mut().zip(right.iter_mut()) {
                    let i = below(&mut rng, x.len());
                    (*a, *b) = (x[i], y[i]);
                }
                statistic(left, right)
            },
        )
        .collect()
}
