//! Split-half reliability of a ranking of encoders.

use std::collections::HashMap;

use ndarray::ArrayView2;
use rayon::prelude::*;

use crate::{
    StatsError,
    describe::{mean, quantile},
    random::{below, shuffle, stream},
    series::finite_rows,
    spearman,
    stop::draws,
};

/// The similarity of the rankings of encoders by two halves of the data sets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reliability {
    /// Median over the splits of Spearman's correlation between the halves' mean scores.
    pub median: f64,
    /// The 2.5 % and 97.5 % quantiles over the splits. They show how much the figure depends on the
    /// split, and are not a confidence interval.
    pub spread: (f64, f64),
    /// Number of splits with a correlation.
    pub splits: usize,
    /// Number of splits without one, because a half scores all encoders alike.
    pub undefined: usize,
}

/// Splits the data sets in halves within every stratum (task type), ranks the encoders by their
/// mean score on each half and correlates the two rankings. If a stratum has an odd number of data
/// sets, the extra one goes to the half that has fewer. `scores` has a row for each encoder and a
/// column for each data set, averaged over seeds and transformations before; `strata` names the
/// stratum of each data set. HTEB (table 3) uses 1000 splits.
///
/// # Errors
/// If there are fewer than three encoders or two data sets, numbers of data sets and strata differ,
/// scores are not finite, there are no splits, or no split has a correlation.
pub fn split_half_reliability<S: AsRef<str> + Sync>(
    scores: ArrayView2<'_, f64>,
    strata: &[S],
    splits: usize,
    seed: u64,
) -> Result<Reliability, StatsError> {
    let few = |what, needed, found| Err(StatsError::TooFew { what, needed, found });
    let (encoders, datasets) = scores.dim();
    if encoders < 3 {
        return few("split-half reliability (encoders)", 3, encoders);
    }
    if strata.len() < 2 {
        return few("split-half reliability (data sets)", 2, strata.len());
    }
    if splits == 0 {
        return few("split-half reliability (splits)", 1, 0);
    }
    if datasets != strata.len() {
        return Err(StatsError::LengthMismatch {
            left_name: "strata",
            left: strata.len(),
            right_name: "an encoder's scores",
            right: datasets,
        });
    }
    finite_rows("scores", scores)?;
    let groups = groups(strata);
    let mut found: Vec<f64> = draws(splits)
        .filter_map(|index| {
            let (left, right) = halves(&groups, &mut stream(seed, index));
            let means = |half: &[usize]| -> Vec<f64> {
                scores
                    .rows()
                    .into_iter()
                    .filter_map(|series| mean(&half.iter().map(|&i| series[i]).collect::<Vec<f64>>()))
                    .collect()
            };
            spearman(&means(&left), &means(&right)).ok()
        })
        .collect();
    found.sort_unstable_by(f64::total_cmp);
    let at = |q| {
        quantile(&found, q).ok_or(StatsError::Undefined {
            what: "split-half reliability",
            why: "no split gives both halves different scores",
        })
    };
    Ok(Reliability {
        median: at(0.5)?,
        spread: (at(0.025)?, at(0.975)?),
        splits: found.len(),
        undefined: splits - found.len(),
    })
}

/// The data sets of each stratum, strata in the order of their first data set.
fn groups<S: AsRef<str>>(strata: &[S]) -> Vec<Vec<usize>> {
    let mut names: HashMap<&str, usize> = HashMap::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (i, name) in strata.iter().enumerate() {
        let group = *names.entry(name.as_ref()).or_insert(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        groups[group].push(i);
    }
    groups
}

fn halves(groups: &[Vec<usize>], rng: &mut rand_chacha::ChaCha8Rng) -> (Vec<usize>, Vec<usize>) {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for group in groups {
        let mut members = group.clone();
        shuffle(rng, &mut members);
        let half = members.len() / 2;
        left.extend(&members[..half]);
        right.extend(&members[half..2 * half]);
        if let Some(odd) = members.get(2 * half) {
            let to_left = match left.len().cmp(&right.len()) {
                std::cmp::Ordering::Less => true,
                std::cmp::Ordering::Greater => false,
                std::cmp::Ordering::Equal => below(rng, 2) == 0,
            };
            if to_left {
                left.push(*odd);
            } else {
                right.push(*odd);
            }
        }
    }
    (left, right)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use ndarray::{Array2, s};

    use super::*;

    #[test]
    fn encoders_that_keep_their_order_everywhere_are_ranked_with_full_reliability() {
        let scores = Array2::from_shape_fn((5, 9), |(e, d)| (10 * e + d) as f64);
        let strata = ["sts", "sts", "sts", "sts", "cls", "cls", "cls", "pair", "pair"];
        let found = split_half_reliability(scores.view(), &strata, 200, 1337).unwrap();
        assert_eq!((found.median, found.spread, found.undefined), (1.0, (1.0, 1.0), 0));
    }

    #[test]
    fn encoders_ranked_by_noise_have_next_to_none() {
        let mut rng = stream(5, 0);
        let scores = Array2::from_shape_simple_fn((40, 30), || crate::random::normal(&mut rng));
        let found = split_half_reliability(scores.view(), &["one"; 30], 400, 1).unwrap();
        assert!(found.median.abs() < 0.3, "{found:?}");
    }

    #[test]
    fn halves_take_half_of_every_stratum_and_differ_by_one_at_most() {
        let strata = ["a", "a", "a", "a", "b", "b", "b", "c", "d"];
        let groups = groups(&strata);
        for index in 0..50 {
            let (left, right) = halves(&groups, &mut stream(9, index));
            assert!(left.len().abs_diff(right.len()) <= 1);
            assert_eq!(left.iter().filter(|i| **i < 4).count(), 2);
            let mut all = [left, right].concat();
            all.sort_unstable();
            assert_eq!(all, (0..9).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_thread_count_changes_nothing_and_nonsense_is_refused() {
        let scores = Array2::from_shape_fn((6, 8), |(e, d)| ((e * 5 + d * 7) % 11) as f64);
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| split_half_reliability(scores.view(), &["x"; 8], 300, 2).unwrap())
        };
        assert_eq!(run(1), run(4));
        assert!(split_half_reliability(scores.slice(s![..2, ..]), &["x"; 8], 300, 2).is_err());
        assert!(split_half_reliability(scores.view(), &["x"; 7], 300, 2).is_err());
        assert!(split_half_reliability(Array2::ones((3, 8)).view(), &["x"; 8], 10, 2).is_err());
    }
}
