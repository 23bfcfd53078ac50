//! Exact bounds of a proportion (Clopper and Pearson 1934), for `successes` in `trials` independent
//! draws.
//!
//! Each bound is one-sided: the lower bound is above the true proportion with a probability of at
//! most `alpha`, and the upper bound is below it with the same maximum probability. Together they
//! are a two-sided interval at `1 - 2 alpha`.
//!
//! [`clustered_proportion`] is for draws that come in clusters, e.g. decisions on items that share
//! a text, or on one item under several seeds.

use statrs::distribution::{Beta, ContinuousCDF};

use crate::special::student_quantile;

/// Number of halvings of [0, 1] until two neighbouring doubles are left.
const HALVINGS: usize = 80;

/// The lower bound: the largest p that `successes` or more in `trials` draws reject at `alpha`; 0
/// without successes or trials.
pub fn clopper_pearson_lower(successes: u64, trials: u64, alpha: f64) -> f64 {
    if successes == 0 || trials == 0 {
        return 0.0;
    }
    let successes = successes.min(trials);
    // P(X >= k) under p is the regularised incomplete beta function at p with k and n - k + 1.
    quantile(alpha, successes as f64, (trials - successes) as f64 + 1.0)
}

/// The upper bound: the smallest p that `successes` or fewer in `trials` draws reject at `alpha`; 1
/// if all succeed.
pub fn clopper_pearson_upper(successes: u64, trials: u64, alpha: f64) -> f64 {
    1.0 - clopper_pearson_lower(trials.saturating_sub(successes), trials, alpha)
}

/// A proportion with a two-sided interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProportionInterval {
    pub low: f64,
    pub high: f64,
    /// Number of independent draws equivalent to the clusters.
    pub effective: f64,
    /// Whether each cluster is one draw. In that case this is Clopper and Pearson's interval.
    pub exact: bool,
}

/// Interval of a proportion whose draws come in clusters, given the successes and draws of each.
/// Clusters without a draw are ignored; `None` with fewer than two others.
///
/// If a cluster contains several draws, Clopper and Pearson's interval is computed for the
/// effective number of draws: p (1 − p) divided by the variance between clusters (a ratio
/// estimate's, linearised), times the squared ratio of Student's quantiles with n − 1 and clusters
/// − 1 degrees of freedom, and at most n (E. L. Korn and B. I. Graubard, "Confidence intervals for
/// proportions with small expected number of positive counts estimated from survey data", Survey
/// Methodology 24, 1998). If all draws or none succeed, no variance is observed, so each cluster
/// counts as one draw.
pub fn clustered_proportion(clusters: &[(f64, f64)], level: f64) -> Option<ProportionInterval> {
    let own: Vec<(f64, f64)> = clusters.iter().copied().filter(|(_, draws)| *draws > 0.0).collect();
    if own.len() < 2 || !(level > 0.0 && level < 1.0) {
        return None;
    }
    let (successes, draws) = own.iter().fold((0.0, 0.0), |(s, d), own| (s + own.0, d + own.1));
    let (p, count, tail) = (successes / draws, own.len() as f64, (1.0 - level) / 2.0);
    let exact = own.iter().all(|(_, draws)| *draws == 1.0);
    let effective = if exact {
        draws
    } else if successes <= 0.0 || successes >= draws {
        count
    } else {
        let squares: f64 = own.iter().map(|(s, d)| (s - p * d).powi(2)).sum();
        let variance = count / (count - 1.0) * squares / (draws * draws);
        let quantile = |freedom: f64| student_quantile(1.0 - tail, freedom);
        let ratio = quantile((draws - 1.0).max(1.0)) / quantile(count - 1.0);
        let worth = if variance > 0.0 {
            p * (1.0 - p) / variance
        } else {
            draws
        };
        (worth * ratio * ratio).min(draws)
    };
    let lower = |p: f64| {
        if p <= 0.0 {
            0.0
        } else {
            quantile(tail, effective * p, effective * (1.0 - p) + 1.0)
        }
    };
    Some(ProportionInterval {
        low: lower(p),
        high: 1.0 - lower(1.0 - p),
        effective,
        exact,
    })
}

/// The x at which the beta distribution with these parameters reaches `p`, by bisection: the
/// relative error of statrs' own inverse can reach 8e-7 (`tests/it/reference/statrs.rs`).
fn quantile(p: f64, a: f64, b: f64) -> f64 {
    let Ok(law) = Beta::new(a, b) else {
        return f64::NAN;
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if law.cdf(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// P(X >= k) of a binomial variable, term by term.
    fn tail(k: u64, n: u64, p: f64) -> f64 {
        let choose = |j: u64| (0..j).fold(1.0, |product, i| product * (n - i) as f64 / (i + 1) as f64);
        (k..=n)
            .map(|j| choose(j) * p.powf(j as f64) * (1.0 - p).powf((n - j) as f64))
            .sum()
    }

    #[test]
    fn bounds_are_those_of_the_binomial_tail() {
        for (k, n, alpha) in [(1, 10, 0.05), (7, 9, 0.05), (9, 9, 0.025), (40, 50, 0.01), (1, 1, 0.05)] {
            let bound = clopper_pearson_lower(k, n, alpha);
            assert!((tail(k, n, bound) - alpha).abs() < 1e-9, "{k} of {n}: {bound}");
            let upper = clopper_pearson_upper(n - k, n, alpha);
            assert!((upper - (1.0 - bound)).abs() < 1e-12);
        }
        // All n succeed: the lower bound is alpha^(1/n). None succeeds: the upper bound is 1 -
        // alpha^(1/n) (the rule of three).
        assert!((clopper_pearson_lower(20, 20, 0.05) - 0.05f64.powf(0.05)).abs() < 1e-12);
        assert!((clopper_pearson_upper(0, 20, 0.05) - (1.0 - 0.05f64.powf(0.05))).abs() < 1e-12);
    }

    #[test]
    fn nothing_seen_bounds_nothing() {
        assert_eq!(
            (clopper_pearson_lower(0, 0, 0.05), clopper_pearson_upper(0, 0, 0.05)),
            (0.0, 1.0)
        );
        assert_eq!(clopper_pearson_lower(0, 9, 0.05), 0.0);
        assert_eq!(clopper_pearson_upper(9, 9, 0.05), 1.0);
    }

    #[test]
    fn draws_one_by_one_have_the_exact_interval_and_copies_add_nothing() {
        let single: Vec<(f64, f64)> = (0..20).map(|i| (f64::from(u8::from(i < 17)), 1.0)).collect();
        let found = clustered_proportion(&single, 0.95).unwrap();
        assert!(found.exact && found.effective == 20.0);
        assert!((found.low - clopper_pearson_lower(17, 20, 0.025)).abs() < 1e-12);
        assert!((found.high - clopper_pearson_upper(17, 20, 0.025)).abs() < 1e-12);
        // Five copies of each draw are worth no more than the draw itself.
        let copies: Vec<(f64, f64)> = single.iter().map(|(s, d)| (5.0 * s, 5.0 * d)).collect();
        let again = clustered_proportion(&copies, 0.95).unwrap();
        assert!(!again.exact && again.effective <= 20.0, "{again:?}");
        assert!(again.low <= found.low && again.high >= found.high);
        // All draws succeed, so each cluster counts as one draw.
        let all: Vec<(f64, f64)> = vec![(5.0, 5.0); 20];
        let certain = clustered_proportion(&all, 0.95).unwrap();
        assert_eq!((certain.effective, certain.high), (20.0, 1.0));
        assert!((certain.low - clopper_pearson_lower(20, 20, 0.025)).abs() < 1e-12);
        assert_eq!(clustered_proportion(&[(3.0, 5.0), (0.0, 0.0)], 0.95), None);
    }

    #[test]
    fn the_interval_of_clusters_covers_where_the_one_that_ignores_them_does_not() {
        use crate::random::{stream, uniform};
        let (mut covers, mut naive, runs) = (0, 0, 1_000);
        for run in 0..runs {
            let mut rng = stream(11, run);
            // A cluster's own probability is 0.6 or 1.0; each has six draws.
            let clusters: Vec<(f64, f64)> = (0..40)
                .map(|_| {
                    let own = if uniform(&mut rng) < 0.5 { 0.6 } else { 1.0 };
                    let successes = (0..6).filter(|_| uniform(&mut rng) < own).count();
                    (successes as f64, 6.0)
                })
                .collect();
            let found = clustered_proportion(&clusters, 0.95).unwrap();
            covers += usize::from(found.low <= 0.8 && 0.8 <= found.high);
            let successes = clusters.iter().map(|own| own.0).sum::<f64>() as u64;
            let (low, high) = (
                clopper_pearson_lower(successes, 240, 0.025),
                clopper_pearson_upper(successes, 240, 0.025),
            );
            naive += usize::from(low <= 0.8 && 0.8 <= high);
        }
        // The standard error of a share of 1,000 near 0.95 is 0.007.
        assert!(covers >= 935, "{covers} of {runs}");
        assert!(naive < 935, "{naive} of {runs}: the simulation would notice");
    }
}
