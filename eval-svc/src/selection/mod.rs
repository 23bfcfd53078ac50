//! Choosing generators by measurement (PTEB, steps 1 and 2): judges by their agreement with gold
//! scores of STS, paraphrasers by a judge's ratings of their texts. Pure functions over ratings
//! that the caller collects.

mod gold;
mod results;

pub use gold::{GoldError, GoldPair, GoldSet, range_of};
pub use results::{
    Clock, JudgeResult, JudgeScore, ParaphraserResult, Report, Settings, rank_judges, rank_paraphrasers,
};

use rand::seq::SliceRandom;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use crate::stats::{self, Interval};

/// The judges' scale, to which gold scores are mapped.
pub const SCALE: (f64, f64) = (0.0, 5.0);
/// Number of resamples of an interval.
pub const RESAMPLES: usize = 1000;
/// Confidence level of an interval.
pub const LEVEL: f64 = 0.95;
/// Minimum number of pairs for which a rank correlation is computed.
const LEAST_PAIRS: usize = 3;

/// A pair with its gold score and a judge's rating.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatedPair {
    /// Mean number of words of the pair's texts.
    pub words: f64,
    /// Gold score on [`SCALE`].
    pub gold: f64,
    /// The judge's rating; `None` if it gave none.
    pub rating: Option<f64>,
}

/// The agreement of a judge with gold scores.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Agreement {
    pub pairs: usize,
    /// Pairs with a rating, on which the other values are computed.
    pub rated: usize,
    /// Spearman's correlation, -1 to 1. `None` with fewer than three ratings, or if all ratings or
    /// all gold scores are equal.
    pub spearman: Option<f64>,
    /// Mean absolute difference on the scale of 0 to 5.
    pub mae: Option<f64>,
}

/// Agreement on a part of the pairs.
#[derive(Debug, Clone, PartialEq)]
pub struct Bin {
    /// The part, for example `11-20` words or `4-5` points.
    pub label: String,
    pub agreement: Agreement,
}

/// A mean with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub n: usize,
    pub mean: f64,
    /// Percentile bootstrap interval of the mean.
    pub interval: Interval,
}

/// The rows to use out of `count`: all, or `limit` drawn without replacement, in ascending order.
/// The draw depends on the seed, the counts and the name only.
pub fn sample(count: usize, limit: Option<usize>, seed: u64, name: &str) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..count).collect();
    let Some(limit) = limit.filter(|limit| *limit < count) else {
        return rows;
    };
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.update(name.as_bytes());
    rows.shuffle(&mut ChaCha8Rng::from_seed(*hasher.finalize().as_bytes()));
    rows.truncate(limit);
    rows.sort_unstable();
    rows
}

/// Maps a gold score linearly from its own range to [`SCALE`]. `None` if it is outside its range.
pub fn rescale(gold: f64, range: (f64, f64)) -> Option<f64> {
    let (low, high) = range;
    (low < high && (low..=high).contains(&gold)).then(|| (gold - low) / (high - low) * (SCALE.1 - SCALE.0) + SCALE.0)
}

/// Agreement over all pairs.
pub fn agreement(pairs: &[RatedPair]) -> Agreement {
    let (gold, rating) = rated(pairs);
    let differences: Vec<f64> = gold.iter().zip(&rating).map(|(a, b)| (a - b).abs()).collect();
    Agreement {
        pairs: pairs.len(),
        rated: gold.len(),
        spearman: (gold.len() >= LEAST_PAIRS)
            .then(|| stats::spearman(&rating, &gold).ok())
            .flatten(),
        mae: stats::mean(&differences),
    }
}

fn rated(pairs: &[RatedPair]) -> (Vec<f64>, Vec<f64>) {
    pairs.iter().filter_map(|pair| Some((pair.gold, pair.rating?))).unzip()
}

/// Percentile bootstrap interval of the rank correlation, over pairs.
pub fn spearman_interval(pairs: &[RatedPair], seed: u64) -> Option<Interval> {
    let (gold, rating) = rated(pairs);
    if gold.len() < LEAST_PAIRS {
        return None;
    }
    // Pairs are resampled by their indices.
    let numbers: Vec<f64> = (0..gold.len()).map(|number| number as f64).collect();
    let of = |drawn: &[f64]| {
        let pick = |values: &[f64]| -> Vec<f64> { drawn.iter().map(|number| values[*number as usize]).collect() };
        stats::spearman(&pick(&rating), &pick(&gold)).ok()
    };
    stats::bootstrap_interval(&numbers, of, RESAMPLES, LEVEL, seed).ok()
}

/// Agreement by the number of words of a pair: up to the first edge, above it and up to the second,
/// …, above the last.
pub fn by_words(pairs: &[RatedPair], edges: &[u32]) -> Vec<Bin> {
    let mut low = 0.0;
    let mut bins = Vec::with_capacity(edges.len() + 1);
    let within = |low: f64, high: f64| -> Vec<RatedPair> {
        pairs
            .iter()
            .filter(|pair| pair.words > low && pair.words <= high || low == 0.0 && pair.words == 0.0)
            .copied()
            .collect()
    };
    for edge in edges {
        let high = f64::from(*edge);
        bins.push(Bin {
            label: format!("{}-{edge}", low as u32 + 1),
            agreement: agreement(&within(low, high)),
        });
        low = high;
    }
    bins.push(Bin {
        label: format!("over {}", low as u32),
        agreement: agreement(&within(low, f64::INFINITY)),
    });
    bins
}

/// Agreement by gold score, one bin per point; the last bin includes both its ends.
pub fn by_gold(pairs: &[RatedPair]) -> Vec<Bin> {
    (0..5)
        .map(|point| {
            let part: Vec<RatedPair> = pairs
                .iter()
                .filter(|pair| (pair.gold.floor() as i64).clamp(0, 4) == point)
                .copied()
                .collect();
            Bin {
                label: format!("{point}-{}", point + 1),
                agreement: agreement(&part),
            }
        })
        .collect()
}

/// The mean of values with its interval; `None` if there are no values.
pub fn estimate(values: &[f64], seed: u64) -> Option<Estimate> {
    Some(Estimate {
        n: values.len(),
        mean: stats::mean(values)?,
        interval: stats::mean_bootstrap(values, RESAMPLES, LEVEL, seed)?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn pair(words: f64, gold: f64, rating: impl Into<Option<f64>>) -> RatedPair {
        RatedPair {
            words,
            gold,
            rating: rating.into(),
        }
    }

    #[test]
    fn a_judge_that_orders_pairs_as_gold_does_correlates_fully_however_far_off_it_is() {
        let pairs = [
            pair(5.0, 0.0, 2.0),
            pair(5.0, 2.5, 3.0),
            pair(5.0, 5.0, 4.5),
            pair(5.0, 1.0, None),
        ];
        let found = agreement(&pairs);
        assert_eq!((found.pairs, found.rated), (4, 3));
        assert!((found.spearman.unwrap() - 1.0).abs() < 1e-12);
        assert!((found.mae.unwrap() - 3.0 / 3.0).abs() < 1e-12);
        let interval = spearman_interval(&pairs, 1337).unwrap();
        assert!((interval.low - 1.0).abs() < 1e-12 && (interval.high - 1.0).abs() < 1e-12);
    }

    #[test]
    fn what_has_no_correlation_is_said_to_have_none() {
        assert_eq!(agreement(&[]), Agreement::default());
        let constant = [pair(1.0, 1.0, 3.0), pair(1.0, 2.0, 3.0), pair(1.0, 3.0, 3.0)];
        assert_eq!(agreement(&constant).spearman, None);
        assert!(agreement(&constant).mae.is_some());
        assert_eq!(agreement(&constant[..2]).spearman, None);
    }

    #[test]
    fn every_pair_is_in_one_bin_of_words_and_one_of_gold() {
        let pairs: Vec<_> = [0.0, 1.0, 10.0, 10.5, 20.0, 21.0, 500.0]
            .into_iter()
            .zip([0.0, 0.99, 1.0, 2.5, 3.0, 4.0, 5.0])
            .map(|(words, gold)| pair(words, gold, gold))
            .collect();
        let counts = |bins: Vec<Bin>| -> Vec<(String, usize)> {
            bins.into_iter().map(|bin| (bin.label, bin.agreement.pairs)).collect()
        };
        let words = counts(by_words(&pairs, &[10, 20]));
        assert_eq!(words, [("1-10".into(), 3), ("11-20".into(), 2), ("over 20".into(), 2)]);
        let gold = counts(by_gold(&pairs));
        assert_eq!(gold.iter().map(|bin| bin.1).collect::<Vec<_>>(), [2, 1, 1, 1, 2]);
    }

    #[test]
    fn gold_scores_are_brought_to_the_scale_of_the_judge() {
        assert_eq!(rescale(3.0, (1.0, 5.0)), Some(2.5));
        assert_eq!(rescale(4.0, (1.0, 4.0)), Some(5.0));
        assert_eq!(rescale(0.5, (1.0, 5.0)), None);
        assert_eq!(rescale(1.0, (1.0, 1.0)), None);
    }

    #[test]
    fn a_sample_depends_on_seed_and_name_and_on_nothing_else() {
        let drawn = sample(100, Some(10), 1337, "STSBenchmark");
        assert_eq!(drawn, sample(100, Some(10), 1337, "STSBenchmark"));
        assert_ne!(drawn, sample(100, Some(10), 1338, "STSBenchmark"));
        assert_ne!(drawn, sample(100, Some(10), 1337, "SICK-R"));
        assert!(drawn.windows(2).all(|pair| pair[0] < pair[1]) && drawn.len() == 10);
        assert_eq!(sample(3, Some(3), 1, ""), [0, 1, 2]);
        assert_eq!(sample(3, None, 1, ""), [0, 1, 2]);
    }
}
