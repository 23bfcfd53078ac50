#![allow(clippy::unwrap_used, clippy::approx_constant)] // a depression score of 3.14 is not a pi
use super::*;

fn with(method: Method, zeros: Zeros) -> WilcoxonOptions {
    WilcoxonOptions {
        method,
        zeros,
        ..WilcoxonOptions::default()
    }
}

#[test]
fn three_differences_of_one_sign_cannot_be_significant() {
    let w = wilcoxon_signed_rank(&[0.1, 0.2, 0.3], Alternative::TwoSided).unwrap();
    assert_eq!(
        (w.statistic, w.p_value, w.distribution),
        (0.0, 0.25, Distribution::Exact)
    );
    let w = wilcoxon_signed_rank(&[0.1, 0.2, 0.3], Alternative::Greater).unwrap();
    assert_eq!((w.statistic, w.p_value), (6.0, 0.125));
}

#[test]
fn swapping_the_sides_swaps_the_one_sided_p_values() {
    let d = [0.3, -0.1, 0.2, 0.5, -0.05, 0.4];
    let flipped: Vec<f64> = d.iter().map(|v| -v).collect();
    let a = wilcoxon_signed_rank(&d, Alternative::Greater).unwrap();
    let b = wilcoxon_signed_rank(&flipped, Alternative::Less).unwrap();
    assert!((a.p_value - b.p_value).abs() < 1e-15);
}

#[test]
fn only_zeros_is_an_error_not_a_p_value() {
    for zeros in [Zeros::Drop, Zeros::Pratt, Zeros::Split] {
        let found = wilcoxon_with(&[0.0, 0.0], &with(Method::Auto, zeros));
        assert_eq!(found, Err(StatsError::AllZero));
    }
    assert!(wilcoxon_signed_rank(&[], Alternative::TwoSided).is_err());
    assert_eq!(
        wilcoxon_signed_rank(&[1.0, f64::NAN], Alternative::TwoSided),
        Err(StatsError::NotFinite {
            argument: "differences",
            index: 1
        })
    );
}

#[test]
fn the_conditional_distribution_is_that_of_all_sign_permutations_at_any_size() {
    // Sixteen differences in four tied groups, two of them zero: more than scipy enumerates.
    let d = [
        1.0, 1.0, -1.0, 2.0, 2.0, 2.0, -3.0, 3.0, 3.0, 3.0, 0.0, 0.0, 4.0, 4.0, -1.0, 2.0,
    ];
    for zeros in [Zeros::Drop, Zeros::Pratt, Zeros::Split] {
        let found = wilcoxon_with(&d, &with(Method::Conditional, zeros)).unwrap();
        assert_eq!(found.distribution, Distribution::Permutation);
        let ranked = RankedDifferences::new(&d, zeros);
        let (mut at_most, mut at_least) = (0_u32, 0_u32);
        let k = ranked.signed.len();
        for signs in 0..1_u32 << k {
            let plus: f64 = ranked.constant
                + (0..k)
                    .filter(|i| signs >> i & 1 == 1)
                    .map(|i| ranked.signed[i])
                    .sum::<f64>();
            at_most += u32::from(plus <= ranked.plus);
            at_least += u32::from(plus >= ranked.plus);
        }
        let p = 2.0 * f64::from(at_most.min(at_least)) / f64::from(1_u32 << k);
        assert!(
            (found.p_value - p).abs() < 1e-14,
            "{zeros:?}: {} is not {p}",
            found.p_value
        );
    }
}

#[test]
fn paired_values_are_tested_by_their_differences() {
    // Hollander and Wolfe (1973), table 3.1, the depression scores of R's `wilcox.test` example:
    // V = 40, p = 0.01953.
    let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
    let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
    let options = WilcoxonOptions {
        alternative: Alternative::Greater,
        ..WilcoxonOptions::default()
    };
    let found = wilcoxon_paired(&before, &after, &options).unwrap();
    assert_eq!(found.statistic, 40.0);
    assert!((found.p_value - 0.019_53).abs() < 5e-6);
    assert!(wilcoxon_paired(&before, &after[1..], &options).is_err());
}

#[test]
fn an_exact_test_of_too_many_is_refused() {
    let d: Vec<f64> = (1..=2_001).map(f64::from).collect();
    let refused = wilcoxon_with(&d, &with(Method::Exact, Zeros::Drop)).unwrap_err();
    assert!(refused.to_string().contains("normal approximation"));
}
