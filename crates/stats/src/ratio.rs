//! The ratio of two means over the same items, with Fieller's interval (E. C. Fieller, "Some
//! problems in interval estimation", JRSS B 16, 1954).
//!
//! The interval holds the ratios ρ for which the mean of numerator − ρ · denominator does not
//! differ from 0 by Student's t. Items are drawn by cluster within each stratum, and strata are
//! fixed. It is bounded only if the denominator itself differs from 0 at the level.

use crate::special::student_quantile;

/// Sums over the items of a cluster, which are drawn together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatioCluster {
    /// Sum of the items' numerators.
    pub numerator: f64,
    /// Sum of the items' denominators.
    pub denominator: f64,
    pub items: usize,
}

/// The items of a stratum.
#[derive(Debug, Clone, PartialEq)]
pub struct RatioStratum {
    /// Its share of both means. Shares are divided by their sum.
    pub weight: f64,
    /// Its items.
    pub clusters: Vec<RatioCluster>,
}

/// A ratio of two means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Mean numerator divided by mean denominator.
    pub estimate: f64,
    /// Both ends of the interval; `None` if it is not bounded.
    pub interval: Option<(f64, f64)>,
}

/// Means with the variances and the covariance of their errors.
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    numerator: f64,
    denominator: f64,
    of_numerator: f64,
    of_denominator: f64,
    of_both: f64,
}

/// The ratio of the means over strata at a confidence level. `None` if the denominator is 0, a
/// stratum has no items, or a number is not finite.
pub fn ratio_of_means(strata: &[RatioStratum], level: f64) -> Option<Ratio> {
    let total: f64 = strata.iter().map(|one| one.weight).sum();
    let mut sum = Moments::default();
    let mut freedom = 0.0;
    for stratum in strata {
        let own = moments(&stratum.clusters)?;
        let weight = stratum.weight / total;
        sum.numerator += weight * own.numerator;
        sum.denominator += weight * own.denominator;
        sum.of_numerator += weight * weight * own.of_numerator;
        sum.of_denominator += weight * weight * own.of_denominator;
        sum.of_both += weight * weight * own.of_both;
        freedom += stratum.clusters.len() as f64 - 1.0;
    }
    let estimate = sum.numerator / sum.denominator;
    (estimate.is_finite()).then(|| Ratio {
        estimate,
        interval: fieller(&sum, level, freedom),
    })
}

/// Means per item; a mean's error is that of a ratio of sums over clusters.
fn moments(clusters: &[RatioCluster]) -> Option<Moments> {
    let items: f64 = clusters.iter().map(|one| one.items as f64).sum();
    if items == 0.0 {
        return None;
    }
    let numerator = clusters.iter().map(|one| one.numerator).sum::<f64>() / items;
    let denominator = clusters.iter().map(|one| one.denominator).sum::<f64>() / items;
    let n = clusters.len() as f64;
    // One cluster leaves no degree of freedom for the errors.
    let scale = if n > 1.0 { n / (n - 1.0) / (items * items) } else { 0.0 };
    let mut own = Moments {
        numerator,
        denominator,
        ..Moments::default()
    };
    for one in clusters {
        let above = one.numerator - numerator * one.items as f64;
        let below = one.denominator - denominator * one.items as f64;
        own.of_numerator += scale * above * above;
        own.of_denominator += scale * below * below;
        own.of_both += scale * above * below;
    }
    Some(own)
}

/// The roots of (d² − t² · V_d) ρ² − 2 (n d − t² · V_nd) ρ + n² − t² · V_n.
fn fieller(sum: &Moments, level: f64, freedom: f64) -> Option<(f64, f64)> {
    if freedom < 1.0 {
        return None;
    }
    let squared = student_quantile((1.0 + level) / 2.0, freedom).powi(2);
    let a = sum.denominator.powi(2) - squared * sum.of_denominator;
    let b = sum.numerator * sum.denominator - squared * sum.of_both;
    let c = sum.numerator.powi(2) - squared * sum.of_numerator;
    if a <= 0.0 {
        return None;
    }
    // Not negative for a > 0 but for rounding.
    let root = (b * b - a * c).max(0.0).sqrt();
    Some(((b - root) / a, (b + root) / a))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::random::{stream, uniform};

    fn stratum(pairs: &[(f64, f64)]) -> RatioStratum {
        let cluster = |(numerator, denominator): &(f64, f64)| RatioCluster {
            numerator: *numerator,
            denominator: *denominator,
            items: 1,
        };
        RatioStratum {
            weight: 1.0,
            clusters: pairs.iter().map(cluster).collect(),
        }
    }

    #[test]
    fn the_ends_are_the_ratios_at_which_a_paired_t_test_has_the_level() {
        let pairs = [(1.0, 2.0), (0.5, 3.0), (2.0, 2.5), (1.5, 4.0), (0.0, 1.0), (1.2, 2.2)];
        let found = ratio_of_means(&[stratum(&pairs)], 0.95).unwrap();
        assert!((found.estimate - 6.2 / 14.7).abs() < 1e-12);
        let (low, high) = found.interval.unwrap();
        assert!(low < found.estimate && found.estimate < high);
        for end in [low, high] {
            let differences: Vec<f64> = pairs.iter().map(|(n, d)| n - end * d).collect();
            let mean = differences.iter().sum::<f64>() / 6.0;
            let squares: f64 = differences.iter().map(|one| (one - mean).powi(2)).sum();
            let t = mean / (squares / 5.0 / 6.0).sqrt();
            assert!((t.abs() - student_quantile(0.975, 5.0)).abs() < 1e-9, "{t}");
        }
    }

    #[test]
    fn a_denominator_that_may_be_zero_leaves_the_interval_open() {
        let pairs = [(1.0, 2.0), (0.5, -1.5), (2.0, 1.0), (1.5, -1.2)];
        let found = ratio_of_means(&[stratum(&pairs)], 0.95).unwrap();
        assert_eq!(found.interval, None);
        assert_eq!(ratio_of_means(&[stratum(&[(1.0, 1.0), (1.0, -1.0)])], 0.95), None);
        assert_eq!(ratio_of_means(&[stratum(&[(1.0, 2.0)])], 0.95).unwrap().interval, None);
        assert_eq!(ratio_of_means(&[stratum(&[])], 0.95), None);
    }

    #[test]
    fn equal_series_have_the_ratio_one_without_doubt() {
        let found = ratio_of_means(&[stratum(&[(2.0, 2.0), (3.0, 3.0), (2.5, 2.5), (2.2, 2.2)])], 0.95).unwrap();
        let (low, high) = found.interval.unwrap();
        assert!((low - 1.0).abs() < 1e-9 && (high - 1.0).abs() < 1e-9, "{low} {high}");
    }

    #[test]
    fn items_of_a_cluster_are_no_independent_evidence() {
        let pairs = [(1.0, 2.0), (0.5, 3.0), (2.0, 2.5), (1.5, 4.0), (0.0, 1.0), (1.2, 2.2)];
        let once = ratio_of_means(&[stratum(&pairs)], 0.95).unwrap();
        let mut doubled = stratum(&pairs);
        for one in &mut doubled.clusters {
            (one.numerator, one.denominator, one.items) = (2.0 * one.numerator, 2.0 * one.denominator, 2);
        }
        let doubled = ratio_of_means(&[doubled], 0.95).unwrap();
        let (own, other) = (once.interval.unwrap(), doubled.interval.unwrap());
        assert!((own.0 - other.0).abs() < 1e-12 && (own.1 - other.1).abs() < 1e-12);
    }

    #[test]
    fn the_interval_covers_the_ratio_as_often_as_its_level_says() {
        let (mut covered, runs) = (0, 2000);
        for run in 0..runs {
            let mut rng = stream(49, run);
            // Two strata of unequal sizes, skewed drops that share a part; the ratio of means is
            // (0.3 + 0.2) / (0.6 + 0.2) in the first, and the same in the second.
            let mut draw = |n: usize| {
                let pairs: Vec<(f64, f64)> = (0..n)
                    .map(|_| {
                        let shared = if uniform(&mut rng) < 0.2 { 1.0 } else { 0.0 };
                        (shared + 0.6 * uniform(&mut rng), shared + 1.2 * uniform(&mut rng))
                    })
                    .collect();
                stratum(&pairs)
            };
            let strata = [draw(60), draw(30)];
            let (low, high) = ratio_of_means(&strata, 0.95).unwrap().interval.unwrap();
            covered += usize::from((low..=high).contains(&(0.5 / 0.8)));
        }
        let share = covered as f64 / runs as f64;
        assert!((0.935..0.965).contains(&share), "{share}");
    }
}
