//! Split-half reliability of a ranking of encoders.

use rayon::prelude::*;

use crate::{
    StatsError,
    describe::{mean, quantile},
    error::finite,
    random::{below, shuffle, stream},
    spearman,
};

/// How similarly two halves of the data sets rank the encoders.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reliability {
    /// Median over the splits of Spearman's correlation between the halves' mean scores.
    pub median: f64,
    /// The 2.5 % and 97.5 % quantiles over the splits: how much the figure depends on the split,
    /// not a confidence interval.
    pub spread: (f64, f64),
    /// Splits with a correlation.
    pub splits: usize,
    /// Splits without one, because a half scores all encoders alike.
    pub undefined: usize,
}

/// Splits the data sets in halves within every stratum (task type), ranks the encoders by their
/// mean score on each half and correlates the two. An odd one out goes to the half that has fewer
/// data sets. `scores` holds one series an encoder, seeds and transformations averaged before;
/// `strata` names the stratum of each data set. HTEB (table 3) takes 1000 splits.
///
/// # Errors
/// If there are fewer than three encoders or two data sets, series have different lengths, scores
/// are not finite, there are no splits, or no split has a correlation.
pub fn split_half_reliability<S: AsRef<str> + Sync>(
    scores: &[Vec<f64>],
    strata: &[S],
    splits: usize,
    seed: u64,
) -> Result<Reliability, StatsError> {
    let few = |what, needed, found| Err(StatsError::TooFew { what, needed, found });
    if scores.len() < 3 {
        return few("split-half reliability (encoders)", 3, scores.len());
    }
    if strata.len() < 2 {
        return few("split-half reliability (data sets)", 2, strata.len());
    }
    if splits == 0 {
        return few("split-half reliability (splits)", 1, 0);
    }
    for series in scores {
        if series.len() != strata.len() {
            return Err(StatsError::LengthMismatch {
                left_name: "strata",
                left: strata.len(),
                right_name: "an encoder's scores",
                right: series.len(),
            });
        }
        finite("scores", series)?;
    }
    let groups = groups(strata);
    let mut found: Vec<f64> = (0..splits)
        .into_par_iter()
        .filter_map(|index| {
            let (left, right) = halves(&groups, &mut stream(seed, index));
            let means = |half: &[usize]| -> Vec<f64> {
                scores
                    .iter()
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
    let mut names: Vec<&str> = Vec::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (i, name) in strata.iter().enumerate() {
        match names.iter().position(|known| *known == name.as_ref()) {
            Some(group) => groups[group].push(i),
            None => {
                names.push(name.as_ref());
                groups.push(vec![i]);
            }
        }
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
    use super::*;

    #[test]
    fn encoders_that_keep_their_order_everywhere_are_ranked_with_full_reliability() {
        let scores: Vec<Vec<f64>> = (0..5)
            .map(|e| (0..9).map(|d| f64::from(10 * e + d)).collect())
            .collect();
        let strata = ["sts", "sts", "sts", "sts", "cls", "cls", "cls", "pair", "pair"];
        let found = split_half_reliability(&scores, &strata, 200, 1337).unwrap();
        assert_eq!((found.median, found.spread, found.undefined), (1.0, (1.0, 1.0), 0));
    }

    #[test]
    fn encoders_ranked_by_noise_have_next_to_none() {
        let mut rng = stream(5, 0);
        let scores: Vec<Vec<f64>> = (0..40)
            .map(|_| (0..30).map(|_| crate::random::normal(&mut rng)).collect())
            .collect();
        let found = split_half_reliability(&scores, &["one"; 30], 400, 1).unwrap();
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
        let scores: Vec<Vec<f64>> = (0..6)
            .map(|e| (0..8).map(|d| f64::from((e * 5 + d * 7) % 11)).collect())
            .collect();
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| split_half_reliability(&scores, &["x"; 8], 300, 2).unwrap())
        };
        assert_eq!(run(1), run(4));
        assert!(split_half_reliability(&scores[..2], &["x"; 8], 300, 2).is_err());
        assert!(split_half_reliability(&scores, &["x"; 7], 300, 2).is_err());
        assert!(split_half_reliability(&vec![vec![1.0; 8]; 3], &["x"; 8], 10, 2).is_err());
    }
}
