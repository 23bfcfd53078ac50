//! Correlation of drift with ratings.

use crate::stats::{self, Bootstrap, Correlation, IntervalMethod, StatsError};

/// Minimum number of texts for which a correlation is reported: with fewer, a bootstrap interval
/// covers almost everything or, with ties, too little.
pub const LEAST_TEXTS: usize = 10;
/// Number of bootstrap resamples.
const RESAMPLES: usize = 1_000;
const LEVEL: f64 = 0.95;
/// Fixed seed: the same numbers give the same interval.
const SEED: u64 = 1337;

/// A correlation of drift with ratings over texts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Relation {
    pub texts: usize,
    /// Spearman's rho, -1 to 1; absent if it is undefined or there are too few texts.
    pub spearman: Option<f64>,
    /// 95 % percentile bootstrap interval over texts.
    pub interval: Option<(f64, f64)>,
    /// Number of the 1,000 resamples that were omitted because all their ratings (or drifts) are
    /// equal.
    pub undefined_resamples: usize,
    /// The missing results, and the reason.
    pub note: Option<String>,
}

/// Spearman's rho of drift with ratings, with one value of each per text, and its percentile
/// bootstrap interval (HTEB, figure 3).
pub fn relate(drift: &[f64], ratings: &[f64]) -> Relation {
    let mut relation = Relation {
        texts: ratings.len(),
        ..Relation::default()
    };
    if ratings.len() < LEAST_TEXTS {
        relation.note = Some(format!(
            "{} text{} with a rating, too few for a correlation (at least {LEAST_TEXTS})",
            ratings.len(),
            if ratings.len() == 1 { "" } else { "s" }
        ));
        return relation;
    }
    match stats::spearman(drift, ratings) {
        Ok(rho) => relation.spearman = Some(rho),
        Err(StatsError::Constant) => {
            let alike = if ratings.windows(2).all(|two| two[0] == two[1]) {
                format!("every text is rated {}", ratings[0])
            } else {
                "every text moved equally far".to_owned()
            };
            relation.note = Some(format!("{alike}: no correlation is defined"));
            return relation;
        }
        Err(error) => {
            relation.note = Some(error.to_string());
            return relation;
        }
    }
    let settings = Bootstrap {
        resamples: RESAMPLES,
        level: LEVEL,
        seed: SEED,
        method: IntervalMethod::Percentile,
    };
    match Correlation::Spearman.bootstrap(drift, ratings, &settings) {
        Ok(found) => {
            relation.interval = Some((found.interval.low, found.interval.high));
            relation.undefined_resamples = found.undefined;
        }
        Err(error) => relation.note = Some(format!("no interval: {error}")),
    }
    relation
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const RATINGS: [f64; 24] = [
        5.0, 5.0, 2.0, 5.0, 4.0, 4.0, 4.5, 3.5, 5.0, 2.0, 3.5, 4.0, 4.5, 4.0, 3.0, 2.0, 2.0, 2.0, 3.0, 5.0, 3.0, 4.5,
        5.0, 3.5,
    ];
    const DRIFT: [f64; 24] = [
        0.093, 0.246, 0.372, 0.046, 0.215, 0.15, 0.147, 0.226, 0.107, 0.393, 0.251, 0.185, 0.21, 0.27, 0.191, 0.345,
        0.301, 0.35, 0.213, 0.151, 0.288, 0.167, 0.087, 0.231,
    ];

    /// scipy 1.17.1: `spearmanr(DRIFT, RATINGS).statistic` is -0.826562412392862.
    /// `bootstrap(paired=True, method='percentile', n_resamples=1000)` over 60 seeds: ends -0.9482
    /// (SD 0.0023 over seeds) and -0.5695 (SD 0.0117). The draws differ, so the ends agree within
    /// five of those SDs.
    #[test]
    fn the_coefficient_is_that_of_scipy_and_the_interval_agrees_within_the_spread_over_draws() {
        let found = relate(&DRIFT, &RATINGS);
        assert!(
            (found.spearman.unwrap() - -0.826_562_412_392_862).abs() < 1e-12,
            "{found:?}"
        );
        let (low, high) = found.interval.unwrap();
        assert!((low - -0.9482).abs() < 0.012, "{low}");
        assert!((high - -0.5695).abs() < 0.06, "{high}");
        assert_eq!(
            (found.texts, found.undefined_resamples, found.note.as_deref()),
            (24, 0, None)
        );
        assert_eq!(relate(&DRIFT, &RATINGS), found, "the same numbers, the same interval");
    }

    #[test]
    fn few_texts_and_equal_ratings_have_no_coefficient_and_say_why() {
        let few = relate(&DRIFT[..9], &RATINGS[..9]);
        assert_eq!((few.texts, few.spearman, few.interval), (9, None, None));
        assert_eq!(
            few.note.as_deref(),
            Some("9 texts with a rating, too few for a correlation (at least 10)")
        );
        let flat = relate(&DRIFT, &[5.0; 24]);
        assert_eq!(
            flat.note.as_deref(),
            Some("every text is rated 5: no correlation is defined")
        );
        let still = relate(&[0.0; 24], &RATINGS);
        assert!(still.note.unwrap().contains("equally far"));
    }

    #[test]
    fn resamples_without_a_correlation_are_left_out_and_counted() {
        // One rating of 24 differs: a resample misses it with a probability of (23 / 24) ^ 24,
        // about 0.36.
        let mut ratings = [5.0; 24];
        ratings[2] = 3.0;
        let found = relate(&DRIFT, &ratings);
        assert!((280..=440).contains(&found.undefined_resamples), "{found:?}");
        assert!(found.interval.is_some());
    }
}
