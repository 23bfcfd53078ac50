//! Paired decisions of two systems on the same items: McNemar's exact test, and the sign test, of
//! which it is a special case.
//!
//! Both test whether the items on which the two systems differ fall to either side with equal
//! probability. They ignore the items on which the systems agree (Q. McNemar, "Note on the sampling
//! error of the difference between correlated proportions or percentages", Psychometrika 12, 1947).
//! The two-sided p-value is twice the smaller tail of a binomial distribution with p = 1/2, at most
//! 1: `statsmodels.stats.contingency_tables.mcnemar(exact=True)` and `scipy.stats.binomtest`.

use statrs::distribution::{Binomial, DiscreteCDF};

/// Two-sided p-value of McNemar's exact test. `only_first` items are right only under the first
/// system, `only_second` only under the second. 1 if there are none.
pub fn mcnemar_exact(only_first: u64, only_second: u64) -> f64 {
    let (few, all) = (only_first.min(only_second), only_first + only_second);
    if all == 0 || 2 * few >= all {
        return 1.0;
    }
    Binomial::new(0.5, all).map_or(f64::NAN, |law| (2.0 * law.cdf(few)).min(1.0))
}

/// Two-sided p-value of the sign test over units that each contain one or several paired decisions.
/// `differences` contains the sum of each unit's differences. Units at 0 are left out, as in
/// McNemar's test, which is the case of one decision per unit.
pub fn sign_test(differences: impl IntoIterator<Item = i64>) -> f64 {
    let (mut above, mut below) = (0, 0);
    for difference in differences {
        above += u64::from(difference > 0);
        below += u64::from(difference < 0);
    }
    mcnemar_exact(above, below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_values_are_those_of_statsmodels_and_scipy() {
        // statsmodels 0.15.0 `mcnemar([[5, b], [c, 5]], exact=True)` and scipy 1.17.1
        // `binomtest(min(b, c), b + c, 0.5)`, which agree.
        let cases = [
            (1, 0, 1.0),
            (7, 2, 0.179_687_5),
            (2, 9, 0.065_429_687_5),
            (10, 10, 1.0),
            (3, 17, 0.002_576_828_002_929_687_5),
            (40, 61, 0.046_044_066_929_342_785),
            (500, 430, 0.023_608_839_292_547_163),
            (0, 30, 1.862_645_149_230_957e-9),
            (1200, 1300, 0.047_681_865_221_043_444),
        ];
        for (first, second, expected) in cases {
            let found = mcnemar_exact(first, second);
            assert!(
                (found / expected - 1.0).abs() < 1e-9,
                "{first} {second}: {found}, expected {expected}"
            );
        }
    }

    #[test]
    fn the_sign_test_over_single_decisions_is_mcnemar_s() {
        let differences = [1, 1, -1, 0, 1, 0, 1, 1, 1, -1, 1];
        assert_eq!(sign_test(differences), mcnemar_exact(7, 2));
        // 2 (1 + 9 + 36) / 2^9
        assert!((mcnemar_exact(7, 2) - 92.0 / 512.0).abs() < 1e-15);
        assert_eq!(mcnemar_exact(2, 7), mcnemar_exact(7, 2));
    }

    #[test]
    fn a_unit_counts_once_whatever_its_number_of_decisions() {
        assert_eq!(sign_test([9, 1, 1, 1, 1]), mcnemar_exact(5, 0));
        assert_eq!((sign_test([]), sign_test([0, 0]), mcnemar_exact(3, 3)), (1.0, 1.0, 1.0));
    }
}
