//! Kendall's tau-b and its test, as in `scipy.stats.kendalltau`.

use crate::{Alternative, StatsError, error::paired, special::normal_sf};

/// Maximum size of a sample without ties for which `Auto` is exact, as in scipy.
const EXACT_MAX: usize = 33;
/// Maximum sample size of the exact method.
const EXACT_LIMIT: usize = 500;

/// How the p-value is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KendallMethod {
    /// scipy's choice: exact without ties up to 33 pairs (or if at most one pair is out of order),
    /// normal otherwise.
    #[default]
    Auto,
    /// The distribution of the number of discordant pairs over all permutations. Ties are not
    /// permitted.
    Exact,
    /// Normal approximation with the variance corrected for ties.
    Normal,
}

/// Result of the test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KendallTest {
    /// Kendall's tau-b, in [-1, 1].
    pub tau_b: f64,
    pub p_value: f64,
    /// Whether it is based on the exact distribution.
    pub exact: bool,
}

/// Counts of pairs of observations.
struct Counts {
    n: u64,
    /// Number of concordant pairs minus number of discordant pairs.
    balance: i64,
    discordant: u64,
    x: Ties,
    y: Ties,
}

/// Ties of one series: over groups of t equal values, Σ t(t−1)/2, Σ t(t−1)(t−2), Σ t(t−1)(2t+5).
#[derive(Default)]
struct Ties {
    pairs: u64,
    triples: f64,
    spread: f64,
}

/// Kendall's tau-b (scipy `kendalltau`): concordant minus discordant pairs, divided by the
/// geometric mean of the numbers of untied pairs in each series. O(n log n), by W. R. Knight's
/// method (1966).
///
/// # Errors
/// If lengths are unequal, there are fewer than two pairs, a value is not finite, or a series is
/// constant.
pub fn kendall_tau_b(x: &[f64], y: &[f64]) -> Result<f64, StatsError> {
    counts(x, y).map(|counts| tau(&counts))
}

/// Tests whether tau is zero.
///
/// # Errors
/// Those of [`kendall_tau_b`]; also if the exact method is requested with ties or more than 500
/// pairs.
pub fn kendall_test(
    x: &[f64],
    y: &[f64],
    alternative: Alternative,
    method: KendallMethod,
) -> Result<KendallTest, StatsError> {
    let counts = counts(x, y)?;
    let tied = counts.x.pairs > 0 || counts.y.pairs > 0;
    let total = counts.n * (counts.n - 1) / 2;
    let exact = match method {
        KendallMethod::Normal => false,
        KendallMethod::Exact if tied => {
            return Err(StatsError::Ties {
                what: "the exact test of Kendall's tau",
                instead: "the normal approximation",
            });
        }
        KendallMethod::Exact if x.len() > EXACT_LIMIT => {
            return Err(StatsError::OutOfRange {
                argument: "x (how many values)",
                value: x.len() as f64,
                allowed: "at most 500 for the exact test of Kendall's tau; use the normal approximation",
            });
        }
        KendallMethod::Exact => true,
        KendallMethod::Auto => {
            let off = counts.discordant.min(total - counts.discordant);
            !tied && (x.len() <= EXACT_MAX || off <= 1 && x.len() <= EXACT_LIMIT)
        }
    };
    let (less, greater) = if exact {
        // tau is small when many pairs are discordant.
        let (few, many) = inversion_tails(counts.n as usize, counts.discordant as usize);
        (many, few)
    } else {
        let n = counts.n as f64;
        let m = n * (n - 1.0);
        let variance = (m * (2.0 * n + 5.0) - counts.x.spread - counts.y.spread) / 18.0
            + 2.0 * counts.x.pairs as f64 * counts.y.pairs as f64 / m
            + if counts.n > 2 {
                counts.x.triples * counts.y.triples / (9.0 * m * (n - 2.0))
            } else {
                0.0
            };
        let z = counts.balance as f64 / variance.sqrt();
        (normal_sf(-z), normal_sf(z))
    };
    Ok(KendallTest {
        tau_b: tau(&counts),
        p_value: alternative.p_value(less, greater),
        exact,
    })
}

fn tau(counts: &Counts) -> f64 {
    let total = counts.n * (counts.n - 1) / 2;
    let (x, y) = ((total - counts.x.pairs) as f64, (total - counts.y.pairs) as f64);
    (counts.balance as f64 / x.sqrt() / y.sqrt()).clamp(-1.0, 1.0)
}

fn counts(x: &[f64], y: &[f64]) -> Result<Counts, StatsError> {
    paired(x, y, "a correlation", 2)?;
    let n = x.len() as u64;
    let total = n * (n - 1) / 2;
    let mut pairs: Vec<(f64, f64)> = x.iter().zip(y).map(|(a, b)| (a + 0.0, b + 0.0)).collect();
    pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let joint: u64 = pairs.chunk_by(|a, b| a == b).map(|group| choose_two(group.len())).sum();
    let x_ties = ties(pairs.iter().map(|pair| pair.0).collect());
    let mut second: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
    // Sorted by x, and by y within equal x. Pairs that are out of order in y are discordant.
    let mut buffer = second.clone();
    let discordant = inversions(&mut second, &mut buffer);
    let y_ties = ties(second);
    if x_ties.pairs == total || y_ties.pairs == total {
        return Err(StatsError::Constant);
    }
    let untied = total as i64 - x_ties.pairs as i64 - y_ties.pairs as i64 + joint as i64;
    Ok(Counts {
        n,
        balance: untied - 2 * discordant as i64,
        discordant,
        x: x_ties,
        y: y_ties,
    })
}

fn choose_two(n: usize) -> u64 {
    (n * (n - 1) / 2) as u64
}

/// Ties of ascending values.
fn ties(sorted: Vec<f64>) -> Ties {
    let mut found = Ties::default();
    for group in sorted.chunk_by(|a, b| a == b) {
        let t = group.len() as f64;
        found.pairs += choose_two(group.len());
        found.triples += t * (t - 1.0) * (t - 2.0);
        found.spread += t * (t - 1.0) * (2.0 * t + 5.0);
    }
    found
}

/// Sorts by merging and counts the pairs that were out of order.
fn inversions(values: &mut [f64], buffer: &mut [f64]) -> u64 {
    let n = values.len();
    if n < 2 {
        return 0;
    }
    let half = n / 2;
    let (left_buffer, right_buffer) = buffer.split_at_mut(half);
    let mut count = {
        let (left, right) = values.split_at_mut(half);
        inversions(left, left_buffer) + inversions(right, right_buffer)
    };
    let (mut i, mut j) = (0, half);
    for slot in buffer.iter_mut() {
        if j == n || i < half && values[i] <= values[j] {
            *slot = values[i];
            i += 1;
        } else {
            *slot = values[j];
            j += 1;
            count += (half - i) as u64;
        }
    }
    values.copy_from_slice(buffer);
    count
}

/// (P(D ≤ d), P(D ≥ d)) of the number of inversions D of a random permutation of n.
fn inversion_tails(n: usize, d: usize) -> (f64, f64) {
    let total = n * (n - 1) / 2;
    let up_to = |limit: usize| -> f64 {
        // Element by element: inserting the j-th element adds 0 to j − 1 inversions with equal
        // probability.
        let mut chances = vec![0.0; limit + 1];
        chances[0] = 1.0;
        let mut next = vec![0.0; limit + 1];
        for j in 2..=n {
            let mut window = 0.0_f64;
            for c in 0..=limit {
                window += chances[c];
                if c >= j {
                    window -= chances[c - j];
                }
                next[c] = window.max(0.0) / j as f64;
            }
            std::mem::swap(&mut chances, &mut next);
        }
        chances.iter().sum::<f64>().min(1.0)
    };
    // The distribution is symmetric, so each tail is summed from its own extreme end.
    let mirrored = total - d;
    if d <= mirrored {
        let few = up_to(d);
        let below = if d == 0 { 0.0 } else { up_to(d - 1) };
        (few, 1.0 - below)
    } else {
        let many = up_to(mirrored);
        let above = if mirrored == 0 { 0.0 } else { up_to(mirrored - 1) };
        (1.0 - above, many)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The definition, applied to every pair of observations.
    fn by_pairs(x: &[f64], y: &[f64]) -> f64 {
        let sign = |d: f64| i64::from(d > 0.0) - i64::from(d < 0.0);
        let (mut balance, mut untied_x, mut untied_y) = (0_i64, 0_u64, 0_u64);
        for i in 1..x.len() {
            for j in 0..i {
                let (dx, dy) = (sign(x[i] - x[j]), sign(y[i] - y[j]));
                balance += dx * dy;
                untied_x += dx.unsigned_abs();
                untied_y += dy.unsigned_abs();
            }
        }
        balance as f64 / (untied_x as f64).sqrt() / (untied_y as f64).sqrt()
    }

    proptest::proptest! {
        #[test]
        fn merging_counts_what_comparing_every_pair_counts(
            pairs in proptest::collection::vec((-4..5_i32, -4..5_i32), 2..50)
        ) {
            let (x, y): (Vec<f64>, Vec<f64>) = pairs.iter().map(|p| (f64::from(p.0), f64::from(p.1))).unzip();
            match kendall_tau_b(&x, &y) {
                Ok(tau) => proptest::prop_assert!((tau - by_pairs(&x, &y)).abs() < 1e-14),
                Err(error) => proptest::prop_assert_eq!(error, StatsError::Constant),
            }
        }
    }

    #[test]
    fn four_in_order_have_one_chance_in_twenty_four() {
        let x = [1.0, 2.0, 3.0, 4.0];
        let found = kendall_test(&x, &x, Alternative::Greater, KendallMethod::Auto).unwrap();
        assert!((found.p_value - 1.0 / 24.0).abs() < 1e-15 && found.exact);
        let found = kendall_test(&x, &x, Alternative::Less, KendallMethod::Auto).unwrap();
        assert_eq!(found.p_value, 1.0);
    }

    #[test]
    fn the_exact_test_refuses_ties() {
        let found = kendall_test(
            &[1.0, 1.0, 2.0],
            &[1.0, 2.0, 3.0],
            Alternative::TwoSided,
            KendallMethod::Exact,
        );
        assert!(matches!(found, Err(StatsError::Ties { .. })));
    }
}
