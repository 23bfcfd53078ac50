//! Exact bounds of a proportion (Clopper and Pearson 1934): of `successes` in `trials` independent
//! draws.
//!
//! Each bound is one-sided: the lower bound lies above the true proportion with a chance of at most
//! `alpha`, and so does the upper bound below it. Both together are a two-sided interval at `1 - 2
//! alpha`.

use statrs::function::beta::beta_reg;

/// Halvings of [0, 1] until two neighbouring doubles are left.
const HALVINGS: usize = 80;

/// The largest p that `successes` or more in `trials` draws reject at `alpha`: the lower bound; 0
/// without successes or trials.
pub fn clopper_pearson_lower(successes: u64, trials: u64, alpha: f64) -> f64 {
    if successes == 0 || trials == 0 {
        return 0.0;
    }
    let successes = successes.min(trials);
    // P(X >= k) under p is the regularised incomplete beta function at p with k and n - k + 1.
    quantile(alpha, successes as f64, (trials - successes) as f64 + 1.0)
}

/// The smallest p that `successes` or fewer in `trials` draws reject at `alpha`: the upper bound; 1
/// where all succeed.
pub fn clopper_pearson_upper(successes: u64, trials: u64, alpha: f64) -> f64 {
    1.0 - clopper_pearson_lower(trials.saturating_sub(successes), trials, alpha)
}

/// The x at which the beta distribution with these parameters reaches `p`.
fn quantile(p: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if beta_reg(a, b, middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
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
        // All of n: the lower bound is alpha^(1/n). None of n: the upper bound is 1 - alpha^(1/n)
        // (the rule of three).
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
}
