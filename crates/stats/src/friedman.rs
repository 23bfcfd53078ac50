//! Friedman's test over data sets, and Nemenyi's critical difference after it.
//!
//! Sources: M. Friedman (1937); J. Demšar, "Statistical comparisons of classifiers over multiple
//! data sets" (2006); R. L. Iman and J. M. Davenport (1980) for the F form, which is less
//! conservative.

use ndarray::{Array2, ArrayView2};

use crate::{
    StatsError, average_ranks,
    error::probability,
    letters::significance_letters,
    series::finite_rows,
    special::{chi_squared_sf, f_sf, studentized_range_quantile, studentized_range_sf},
};

/// Result of the test.
#[derive(Debug, Clone, PartialEq)]
pub struct Friedman {
    /// Average rank of each treatment over the blocks, 1 the highest score.
    pub average_ranks: Vec<f64>,
    /// The chi-squared statistic, corrected for ties.
    pub statistic: f64,
    /// Its p-value, treatments − 1 degrees of freedom.
    pub p_value: f64,
    /// Iman and Davenport's F; infinite if all blocks have the same ranks.
    pub f_statistic: f64,
    /// Its p-value, (treatments − 1) and (treatments − 1)(blocks − 1) degrees of freedom.
    pub f_p_value: f64,
    /// Number of blocks (data sets).
    pub blocks: usize,
}

/// Tests whether treatments differ. `scores` has a row for each treatment and a column for each
/// block (data set).
///
/// # Errors
/// If there are fewer than three treatments or two blocks, scores are not finite, or all treatments
/// are tied in all blocks.
pub fn friedman(scores: ArrayView2<'_, f64>) -> Result<Friedman, StatsError> {
    let (k, n) = scores.dim();
    if k < 3 {
        return Err(StatsError::TooFew {
            what: "Friedman's test (treatments)",
            needed: 3,
            found: k,
        });
    }
    finite_rows("scores", scores)?;
    if n < 2 {
        return Err(StatsError::TooFew {
            what: "Friedman's test (data sets)",
            needed: 2,
            found: n,
        });
    }
    let mut sums = vec![0.0; k];
    let mut ties = 0.0;
    for block in scores.columns() {
        let negated: Vec<f64> = block.iter().map(|score| -score).collect();
        for (sum, rank) in sums.iter_mut().zip(average_ranks(&negated)) {
            *sum += rank;
        }
        let mut sorted = negated;
        sorted.sort_by(f64::total_cmp);
        // Compared as numbers, so −0.0 and 0.0 tie.
        ties += sorted
            .chunk_by(|a, b| a == b)
            .map(|group| {
                let t = group.len() as f64;
                t * (t * t - 1.0)
            })
            .sum::<f64>();
    }
    let (k, n) = (k as f64, n as f64);
    let correction = 1.0 - ties / (k * (k * k - 1.0) * n);
    if correction <= 0.0 {
        return Err(StatsError::Undefined {
            what: "Friedman's test",
            why: "all treatments are tied on every data set",
        });
    }
    let squares: f64 = sums.iter().map(|s| s * s).sum();
    let statistic = (12.0 / (k * n * (k + 1.0)) * squares - 3.0 * n * (k + 1.0)) / correction;
    let most = n * (k - 1.0);
    let f_statistic = if most - statistic > 1e-12 * most {
        (n - 1.0) * statistic / (most - statistic)
    } else {
        f64::INFINITY
    };
    Ok(Friedman {
        average_ranks: sums.iter().map(|s| s / n).collect(),
        statistic,
        p_value: chi_squared_sf(statistic, k - 1.0),
        f_statistic,
        f_p_value: if f_statistic.is_finite() {
            f_sf(f_statistic, k - 1.0, (k - 1.0) * (n - 1.0))
        } else {
            0.0
        },
        blocks: n as usize,
    })
}

/// Nemenyi's comparison of all pairs.
#[derive(Debug, Clone, PartialEq)]
pub struct Nemenyi {
    /// Minimum difference of average ranks that is significant at the given level.
    pub critical_difference: f64,
    /// p-value of every pair: `p_values[[i, j]]`, 1 on the diagonal.
    pub p_values: Array2<f64>,
    /// Letters: treatments that share a letter do not differ significantly.
    pub letters: Vec<String>,
}

/// Compares all pairs after [`friedman`]: the critical difference q √(k(k + 1) / (6 n)), q the
/// studentised range's quantile over √2.
///
/// # Errors
/// If `alpha` is outside (0, 1).
pub fn nemenyi(test: &Friedman, alpha: f64) -> Result<Nemenyi, StatsError> {
    probability("alpha", alpha)?;
    let k = test.average_ranks.len();
    let scale = ((k * (k + 1)) as f64 / (6.0 * test.blocks as f64)).sqrt();
    let root = std::f64::consts::SQRT_2;
    let critical_difference = studentized_range_quantile(alpha, k) / root * scale;
    let apart = |i: usize, j: usize| (test.average_ranks[i] - test.average_ranks[j]).abs();
    let p_values = Array2::from_shape_fn((k, k), |(i, j)| {
        if i == j {
            1.0
        } else {
            studentized_range_sf(apart(i, j) / scale * root, k)
        }
    });
    let mut order: Vec<usize> = (0..k).collect();
    order.sort_by(|&a, &b| test.average_ranks[a].total_cmp(&test.average_ranks[b]));
    Ok(Nemenyi {
        critical_difference,
        p_values,
        letters: significance_letters(&order, |i, j| apart(i, j) > critical_difference)?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use ndarray::aview2;

    use super::*;

    #[test]
    fn demsar_s_worked_example_is_found() {
        // Demšar (2006), table 6: four classifiers on fourteen data sets; average ranks 3.143,
        // 2.000, 2.893, 1.964, chi-squared 9.28, F 3.69, critical differences 1.25 at 0.05 and 1.12
        // at 0.10.
        let c45 = [
            0.763, 0.599, 0.954, 0.628, 0.882, 0.936, 0.661, 0.583, 0.775, 1.000, 0.940, 0.619, 0.972, 0.957,
        ];
        let m = [
            0.768, 0.591, 0.971, 0.661, 0.888, 0.931, 0.668, 0.583, 0.838, 1.000, 0.962, 0.666, 0.981, 0.978,
        ];
        let cf = [
            0.771, 0.590, 0.968, 0.654, 0.886, 0.916, 0.609, 0.563, 0.866, 1.000, 0.965, 0.614, 0.9751, 0.946,
        ];
        let both = [
            0.798, 0.569, 0.967, 0.657, 0.898, 0.931, 0.685, 0.625, 0.875, 1.000, 0.962, 0.669, 0.975, 0.970,
        ];
        let found = friedman(aview2(&[c45, m, cf, both])).unwrap();
        for (rank, published) in found.average_ranks.iter().zip([3.143, 2.000, 2.893, 1.964]) {
            assert!((rank - published).abs() < 5e-4, "{:?}", found.average_ranks);
        }
        for (alpha, published) in [(0.05, 1.25), (0.10, 1.12)] {
            let after = nemenyi(&found, alpha).unwrap();
            assert!((after.critical_difference - published).abs() < 5e-3, "{after:?}");
        }
        // The paper's own statistic is not corrected for ties.
        let squares: f64 = found.average_ranks.iter().map(|rank| rank * rank).sum();
        let uncorrected = 12.0 * 14.0 / 20.0 * (squares - 4.0 * 25.0 / 4.0);
        assert!((uncorrected - 9.28).abs() < 5e-3, "{uncorrected}");
        assert!(found.statistic > uncorrected);
        let f = 13.0 * uncorrected / (14.0 * 3.0 - uncorrected);
        assert!((f - 3.69).abs() < 5e-3, "{f}");
    }

    #[test]
    fn the_published_quantiles_of_nemenyi_s_test_are_found() {
        // Demšar (2006), table 5a.
        for (groups, published) in [
            (2, 1.960),
            (3, 2.343),
            (4, 2.569),
            (5, 2.728),
            (6, 2.850),
            (8, 3.031),
            (10, 3.164),
        ] {
            let found = studentized_range_quantile(0.05, groups) / std::f64::consts::SQRT_2;
            assert!((found - published).abs() < 1e-3, "{groups}: {found}");
        }
    }

    #[test]
    fn what_cannot_be_ranked_is_refused() {
        let what = |found: Result<Friedman, StatsError>| found.unwrap_err();
        assert!(matches!(
            what(friedman(aview2(&[[1.0, 2.0], [2.0, 1.0]]))),
            StatsError::TooFew { needed: 3, .. }
        ));
        assert!(matches!(
            what(friedman(aview2(&[[1.0], [2.0], [3.0]]))),
            StatsError::TooFew { needed: 2, .. }
        ));
        assert!(matches!(
            what(friedman(aview2(&[[1.0; 3]; 3]))),
            StatsError::Undefined { .. }
        ));
        assert!(matches!(
            what(friedman(aview2(&[[1.0, 2.0], [2.0, f64::NAN], [3.0, 1.0]]))),
            StatsError::NotFinite { index: 1, .. }
        ));
    }
}
