//! Every test and interval against scipy, irrCAC and krippendorff on at least 200 designs
//! (`fixtures/make.py`), and the papers' tables from their published numbers.

mod bounded;
mod designs;
mod papers;
mod prediction_powered;
mod statrs;
mod thresholds;

use std::sync::LazyLock;

use isomer_stats::{
    Alternative, Bootstrap, Correlation, IntervalMethod, KendallMethod, Method, Statistic, StatsError, WilcoxonOptions,
    Zeros,
    agreement::{Metric, Ratings, Weights, gwet, krippendorff_alpha},
    benjamini_hochberg, correlation_p_value_for,
    friedman::{friedman, nemenyi},
    hodges_lehmann, holm, kendall_test, paired_bootstrap_test, pearson, pearson_interval, sign_flip_test, spearman,
    spearman_interval, special, statistic_interval, two_sample_permutation_test, wilcoxon_interval,
    wilcoxon_signed_rank, wilcoxon_with,
};
use serde_json::Value;

use designs::{SplitMix, close, close_relative, correlated, designs, numbers, ratings, sample, treatments};

const SIDES: [Alternative; 3] = [Alternative::TwoSided, Alternative::Greater, Alternative::Less];

fn read(name: &str) -> Value {
    let path = std::path::Path::new(".").join("tests/fixtures").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

static SCIPY: LazyLock<Value> = LazyLock::new(|| read("scipy.json"));

fn rng(base: u64, index: usize) -> SplitMix {
    SplitMix::new(base + index as u64)
}

#[test]
fn signed_rank_tests_equal_scipy_with_every_treatment_of_zeros() {
    let mut compared = 0;
    for (index, expected) in designs(&SCIPY, "wilcoxon").iter().enumerate() {
        let d = sample(&mut rng(1_000, index), index);
        let Some(rows) = expected.as_array() else {
            assert_eq!(
                wilcoxon_signed_rank(&d, Alternative::TwoSided),
                Err(StatsError::AllZero)
            );
            continue;
        };
        let what = |row: usize| format!("design {index} of {}, row {row}", d.len());
        for (row, side) in SIDES.into_iter().enumerate() {
            let expected = numbers(&rows[row]);
            let found = wilcoxon_signed_rank(&d, side).unwrap();
            close(found.statistic, expected[0].unwrap(), 1e-9, &what(row));
            close(found.p_value, expected[1].unwrap(), 1e-9, &what(row));
            compared += 1;
        }
        let options = |zeros, method| WilcoxonOptions {
            alternative: SIDES[index % 3],
            method,
            zeros,
            continuity: index % 2 == 1,
        };
        for (z, zeros) in [Zeros::Drop, Zeros::Pratt, Zeros::Split].into_iter().enumerate() {
            let row = 3 + 3 * z;
            let expected = numbers(&rows[row]);
            let found = wilcoxon_with(&d, &options(zeros, Method::Normal)).unwrap();
            // scipy's two-sided z is −|z|.
            let z_found = match SIDES[index % 3] {
                Alternative::TwoSided => -found.z.unwrap().abs(),
                _ => found.z.unwrap(),
            };
            close(found.statistic, expected[0].unwrap(), 1e-9, &what(row));
            if let Some(z_expected) = expected[2] {
                close(z_found, z_expected, 1e-9, &what(row));
                close(found.p_value, expected[1].unwrap().min(1.0), 1e-9, &what(row));
            }
            for (next, method) in [(1, Method::Exact), (2, Method::Auto)] {
                if method == Method::Auto && index % 2 == 1 {
                    continue; // scipy was asked for Auto without the correction
                }
                let expected = numbers(&rows[row + next]);
                let found = wilcoxon_with(&d, &options(zeros, method)).unwrap();
                close(found.statistic, expected[0].unwrap(), 1e-9, &what(row + next));
                close(found.p_value, expected[1].unwrap(), 1e-9, &what(row + next));
                compared += 1;
            }
        }
    }
    assert!(compared > 1_500, "{compared}");
}

#[test]
fn shifts_and_their_intervals_equal_counting_every_average() {
    let (mut exact, mut unreachable) = (0, 0);
    for (index, expected) in designs(&SCIPY, "shift").iter().enumerate() {
        let d = sample(&mut rng(2_000, index), index);
        let what = format!("design {index} of {}", d.len());
        close(hodges_lehmann(&d).unwrap(), expected[0].as_f64().unwrap(), 1e-12, &what);
        let level = [0.9, 0.95, 0.99][index % 3];
        let found = wilcoxon_interval(&d, level, Alternative::TwoSided);
        if expected[1].is_null() {
            assert!(
                matches!(found, Err(StatsError::LevelUnreachable { .. })),
                "{what}: {found:?}"
            );
            unreachable += 1;
            continue;
        }
        let (found, expected) = (found.unwrap(), numbers(&expected[1]));
        close(found.low, expected[0].unwrap(), 1e-12, &what);
        close(found.high, expected[1].unwrap(), 1e-12, &what);
        close(found.achieved, expected[2].unwrap(), 1e-12, &what);
        exact += usize::from(found.exact);
    }
    assert!(exact > 100 && unreachable > 10, "{exact} {unreachable}");
}

#[test]
fn correlations_their_p_values_and_intervals_equal_scipy() {
    for (index, expected) in designs(&SCIPY, "correlation").iter().enumerate() {
        let (x, y) = correlated(&mut rng(3_000, index), index);
        if expected.is_null() {
            assert_eq!(pearson(&x, &y), Err(StatsError::Constant));
            continue;
        }
        let expected = numbers(expected);
        let (side, n) = (SIDES[index % 3], x.len());
        let what = |name: &str| format!("{name}, design {index} of {n}");
        let (r, rho) = (pearson(&x, &y).unwrap(), spearman(&x, &y).unwrap());
        let tau = kendall_test(&x, &y, side, KendallMethod::Auto).unwrap();
        close(r, expected[0].unwrap(), 1e-9, &what("pearson"));
        close(rho, expected[2].unwrap(), 1e-9, &what("spearman"));
        close(tau.tau_b, expected[4].unwrap(), 1e-9, &what("kendall"));
        // A correlation that differs from 1 only in the last bit has a p-value of about that bit's
        // root.
        if r.abs() < 1.0 - 1e-9 {
            close(
                correlation_p_value_for(r, n, side),
                expected[1].unwrap(),
                1e-9,
                &what("pearson p"),
            );
        }
        if rho.abs() < 1.0 - 1e-9 {
            close(
                correlation_p_value_for(rho, n, side),
                expected[3].unwrap(),
                1e-9,
                &what("spearman p"),
            );
        }
        close(tau.p_value, expected[5].unwrap(), 1e-9, &what("kendall p"));
        let normal = kendall_test(&x, &y, side, KendallMethod::Normal).unwrap();
        close(normal.p_value, expected[6].unwrap(), 1e-9, &what("kendall normal p"));
        if let [low, high, rho_low, rho_high] = expected[7..] {
            let level = [0.9, 0.95][index % 2];
            let (a, b) = pearson_interval(&x, &y, level).unwrap();
            close(a, low.unwrap(), 1e-9, &what("pearson low"));
            close(b, high.unwrap(), 1e-9, &what("pearson high"));
            let (a, b) = spearman_interval(&x, &y, level).unwrap();
            close(a, rho_low.unwrap(), 1e-9, &what("spearman low"));
            close(b, rho_high.unwrap(), 1e-9, &what("spearman high"));
        }
    }
}

#[test]
fn adjusted_p_values_equal_scipy() {
    for (index, expected) in designs(&SCIPY, "adjusted").iter().enumerate() {
        let mut rng = rng(4_000, index);
        let m = 1 + rng.below(12);
        let mut p = Vec::new();
        for _ in 0..m {
            let u = rng.below(1 << 20) as f64 / f64::from(1 << 20);
            p.push(if index % 4 == 0 {
                (u * u * 10.0).round_ties_even() / 10.0
            } else {
                u * u
            });
        }
        for (found, expected) in [(holm(&p), &expected[0]), (benjamini_hochberg(&p), &expected[1])] {
            for (a, b) in found.iter().zip(numbers(expected)) {
                close(*a, b.unwrap(), 1e-9, &format!("design {index}"));
            }
        }
    }
}

#[test]
fn bootstrap_intervals_equal_scipy_s_on_the_same_draws() {
    let (mut percentile, mut bca, mut pairs) = (0, 0, 0);
    for (index, expected) in designs(&SCIPY, "bootstrap").iter().enumerate() {
        let expected = numbers(expected);
        let mut d = sample(&mut rng(5_000, index), index);
        d.truncate(designs::SIZES[index % 24]);
        let statistic = [Statistic::Mean, Statistic::Median, Statistic::HodgesLehmann][index % 3];
        let settings = |method, resamples| Bootstrap {
            resamples,
            level: 0.9,
            seed: index as u64,
            method,
        };
        for (at, method) in [(0, IntervalMethod::Percentile), (2, IntervalMethod::Bca)] {
            let found = statistic_interval(&d, statistic, &settings(method, 199));
            let what = format!("design {index} of {}, {statistic:?} {method:?}", d.len());
            match (expected[at], expected[at + 1]) {
                (Some(low), Some(high)) => {
                    let found = found.unwrap();
                    close(found.low, low, 1e-9, &what);
                    close(found.high, high, 1e-9, &what);
                    *(if at == 0 { &mut percentile } else { &mut bca }) += 1;
                }
                _ if method == IntervalMethod::Bca => assert!(found.is_err(), "{what}: {found:?}"),
                _ => assert!(found.is_ok_and(|interval| interval.low == interval.high)),
            }
        }
        if expected.len() == 8 {
            let (x, y) = correlated(&mut rng(6_000, index), index);
            for (at, method) in [(4, IntervalMethod::Percentile), (6, IntervalMethod::Bca)] {
                let found = Correlation::Pearson.bootstrap(&x, &y, &settings(method, 99)).unwrap();
                let what = format!("pairs, design {index} of {}, {method:?}", x.len());
                close(found.interval.low, expected[at].unwrap(), 1e-9, &what);
                close(found.interval.high, expected[at + 1].unwrap(), 1e-9, &what);
                pairs += 1;
            }
        }
    }
    assert!(
        percentile > 190 && bca > 150 && pairs > 60,
        "{percentile} {bca} {pairs}"
    );
}

#[test]
fn resampling_tests_equal_scipy_and_numpy() {
    for (index, expected) in designs(&SCIPY, "tests").iter().enumerate() {
        let expected = numbers(expected);
        let side = SIDES[index % 3];
        let mut d = sample(&mut rng(7_000, index), index);
        let what = format!("design {index} of {}", d.len());
        let found = paired_bootstrap_test(&d, side, 299, index as u64).unwrap();
        close(found.p_value, expected[0].unwrap(), 1e-9, &what);
        d.truncate(3 + index % 9);
        match expected[1] {
            Some(p) => close(sign_flip_test(&d, side, 0, 0).unwrap().p_value, p, 1e-9, &what),
            None => assert_eq!(sign_flip_test(&d, side, 0, 0), Err(StatsError::AllZero)),
        }
        let mut rng = rng(8_000, index);
        let (mut x, mut y) = (sample(&mut rng, index), sample(&mut rng, index + 3));
        x.truncate(2 + index % 4);
        y.truncate(3 + index % 3);
        let found = two_sample_permutation_test(&x, &y, side, 0, 0).unwrap();
        close(found.statistic, expected[2].unwrap(), 1e-9, &what);
        close(found.p_value, expected[3].unwrap(), 1e-9, &what);
    }
}

#[test]
fn friedman_and_nemenyi_equal_scipy() {
    for (index, expected) in designs(&SCIPY, "friedman").iter().enumerate() {
        let scores = treatments(index);
        if expected.is_null() {
            assert!(friedman(scores.view()).is_err());
            continue;
        }
        let expected = numbers(expected);
        let found = friedman(scores.view()).unwrap();
        let what = format!("design {index}");
        close(found.statistic, expected[0].unwrap(), 1e-9, &what);
        close(found.p_value, expected[1].unwrap(), 1e-9, &what);
        match expected[2] {
            Some(f) => close(found.f_statistic, f, 1e-6, &what),
            None => assert!(found.f_statistic.is_infinite()),
        }
        close(found.f_p_value, expected[3].unwrap(), 1e-9, &what);
        let after = nemenyi(&found, 0.05).unwrap();
        close(after.critical_difference, expected[4].unwrap(), 1e-6, &what);
        close(after.p_values[[0, 1]], expected[5].unwrap(), 1e-6, &what);
    }
}

#[test]
fn distributions_keep_their_digits_far_out() {
    let special = &SCIPY["special"];
    for row in designs(special, "normal") {
        let v = numbers(row).into_iter().map(Option::unwrap).collect::<Vec<f64>>();
        close_relative(special::normal_sf(v[0]), v[1], 1e-10, &format!("normal sf at {}", v[0]));
        close(
            special::normal_quantile(v[2]),
            v[3],
            1e-11,
            &format!("normal quantile at {:e}", v[2]),
        );
    }
    for row in designs(special, "student") {
        let v = numbers(row).into_iter().map(Option::unwrap).collect::<Vec<f64>>();
        close_relative(
            special::student_sf(v[1], v[0]),
            v[2],
            1e-9,
            &format!("t sf at {}, {}", v[1], v[0]),
        );
        close_relative(
            special::student_quantile(v[3], v[0]),
            v[4],
            1e-9,
            &format!("t quantile {:e}, {}", v[3], v[0]),
        );
    }
    for row in designs(special, "chi") {
        let v = numbers(row).into_iter().map(Option::unwrap).collect::<Vec<f64>>();
        close_relative(
            special::chi_squared_sf(v[1], v[0]),
            v[2],
            1e-9,
            &format!("chi sf at {}, {}", v[1], v[0]),
        );
    }
    for row in designs(special, "f") {
        let v = numbers(row).into_iter().map(Option::unwrap).collect::<Vec<f64>>();
        close_relative(
            special::f_sf(v[2], v[0], v[1]),
            v[3],
            1e-9,
            &format!("F sf at {}, {} {}", v[2], v[0], v[1]),
        );
    }
    for row in designs(special, "nct") {
        let v = numbers(row).into_iter().map(Option::unwrap).collect::<Vec<f64>>();
        let found = special::noncentral_student_sf(v[1], v[0], v[2]);
        close(
            found,
            v[3],
            1e-9,
            &format!("noncentral t at {}, {} {}", v[1], v[0], v[2]),
        );
    }
}

#[test]
fn agreement_equals_gwet_s_and_krippendorff_s_reference() {
    let fixture = read("agreement.json");
    let mut compared = 0;
    for (index, expected) in designs(&fixture, "ratings").iter().enumerate() {
        let Ok(ratings) = Ratings::new(ratings(index).view(), None) else {
            assert!(expected.is_null(), "design {index}");
            continue;
        };
        if expected.is_null() {
            continue;
        }
        let expected = numbers(expected);
        for (w, weights) in [Weights::Identity, Weights::Ordinal, Weights::Linear, Weights::Quadratic]
            .iter()
            .enumerate()
        {
            let found = gwet(&ratings, *weights, 0.95).unwrap();
            let figures = [
                found.coefficient,
                found.observed,
                found.chance,
                found.standard_error,
                found.interval.0,
                found.p_value,
            ];
            for (at, figure) in figures.iter().enumerate() {
                // irrCAC's interval is also limited to 1; its p-value is 1 − cdf, accurate to
                // 1e-15.
                close(
                    *figure,
                    expected[6 * w + at].unwrap(),
                    1e-9,
                    &format!("design {index}, {weights:?}, figure {at}"),
                );
            }
            compared += 1;
        }
        for (m, metric) in [Metric::Nominal, Metric::Ordinal, Metric::Interval, Metric::Ratio]
            .iter()
            .enumerate()
        {
            let found = krippendorff_alpha(&ratings, *metric).unwrap();
            close(
                found,
                expected[24 + m].unwrap(),
                1e-9,
                &format!("design {index}, {metric:?}"),
            );
        }
    }
    assert!(compared > 760, "{compared}");
}

#[test]
fn signed_rank_intervals_hold_the_true_shift_as_often_as_they_say() {
    // 4000 samples from a symmetric law around 0.25; three standard errors of the share are 0.01.
    let mut rng = SplitMix::new(12_000);
    for (n, tied) in [(6, false), (9, false), (19, false), (19, true)] {
        let (mut held, mut achieved) = (0, 0.0);
        for _ in 0..4_000 {
            let values: Vec<f64> = (0..n)
                .map(|_| {
                    let b = rng.bell();
                    0.25 + if tied { (1.5 * b).round() } else { b }
                })
                .collect();
            let found = wilcoxon_interval(&values, 0.95, Alternative::TwoSided).unwrap();
            held += u32::from(found.low <= 0.25 && 0.25 <= found.high);
            achieved = found.achieved;
        }
        let share = f64::from(held) / 4_000.0;
        if tied {
            assert!(share >= achieved - 0.01, "{n} with ties: {share} of {achieved}");
        } else {
            assert!((share - achieved).abs() < 0.01, "{n}: {share} is not {achieved}");
        }
    }
}
