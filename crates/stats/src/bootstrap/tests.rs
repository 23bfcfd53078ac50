#![allow(clippy::unwrap_used)]
use super::*;
use crate::{Alternative, sample_sd, spearman};

fn values() -> Vec<f64> {
    (0..200).map(|i| f64::from((i * 7919) % 211) / 211.0).collect()
}

fn bca(resamples: usize, seed: u64) -> Bootstrap {
    Bootstrap {
        method: IntervalMethod::Bca,
        ..percentile(resamples, 0.95, seed)
    }
}

#[test]
fn the_thread_count_does_not_change_the_interval() {
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let x = values();
            let y: Vec<f64> = x.iter().map(|v| v * v - 0.3 * v).collect();
            (
                hodges_lehmann_bootstrap(&x, 400, 0.95, 1337).unwrap(),
                pairs_interval(&x, &y, |a, b| spearman(a, b).ok(), &bca(200, 7)).unwrap(),
                paired_bootstrap_test(&y, Alternative::TwoSided, 500, 3).unwrap(),
            )
        })
    };
    assert_eq!(run(1), run(3));
}

#[test]
fn another_seed_gives_another_interval() {
    assert_ne!(
        mean_bootstrap(&values(), 200, 0.95, 1),
        mean_bootstrap(&values(), 200, 0.95, 2)
    );
}

#[test]
fn a_named_statistic_gives_the_interval_of_the_function_it_names() {
    let x = values();
    let settings = percentile(300, 0.9, 11);
    for (statistic, function) in [
        (Statistic::Mean, mean as fn(&[f64]) -> Option<f64>),
        (Statistic::Median, crate::median),
        (Statistic::HodgesLehmann, hodges_lehmann),
    ] {
        for method in [IntervalMethod::Percentile, IntervalMethod::Bca] {
            let settings = Bootstrap { method, ..settings };
            assert_eq!(
                statistic_interval(&x, statistic, &settings).unwrap(),
                sample_interval(&x, function, &settings).unwrap()
            );
        }
    }
}

#[test]
fn the_interval_of_a_mean_agrees_with_normal_theory() {
    let x = values();
    for settings in [percentile(4000, 0.95, 1337), bca(4000, 1337)] {
        let interval = statistic_interval(&x, Statistic::Mean, &settings).unwrap();
        let half = 1.959_964 * sample_sd(&x).unwrap() / (x.len() as f64).sqrt();
        let centre = mean(&x).unwrap();
        assert!((interval.low - (centre - half)).abs() < 0.1 * half, "{interval:?}");
        assert!((interval.high - (centre + half)).abs() < 0.1 * half, "{interval:?}");
    }
}

#[test]
fn a_constant_sample_has_an_interval_of_no_width_and_no_accelerated_one() {
    let interval = hodges_lehmann_bootstrap(&[0.25; 7], 100, 0.9, 5).unwrap();
    assert_eq!((interval.low, interval.high), (0.25, 0.25));
    let refused = statistic_interval(&[0.25; 7], Statistic::Mean, &bca(100, 5)).unwrap_err();
    assert!(refused.to_string().contains("BCa"));
}

#[test]
fn a_statistic_that_some_resamples_do_not_have_is_an_error_or_counted() {
    let odd = |v: &[f64]| (v[0] > 1.0).then_some(v[0]);
    assert!(sample_interval(&[1.0, 2.0, 3.0], odd, &percentile(50, 0.9, 1)).is_err());
    let (x, y) = ([1.0, 2.0, 3.0], [2.0, 1.0, 3.0]);
    let found = pairs_interval(&x, &y, |a, b| spearman(a, b).ok(), &percentile(900, 0.9, 1)).unwrap();
    // All three draws are equal: 3 of 27.
    assert!((60..140).contains(&found.undefined), "{}", found.undefined);
}

#[test]
fn nonsense_is_refused() {
    assert!(bootstrap_interval(&[], mean, 10, 0.95, 0).is_err());
    assert!(bootstrap_interval(&[1.0], mean, 0, 0.95, 0).is_err());
    assert!(bootstrap_interval(&[1.0], mean, 10, 1.0, 0).is_err());
    assert!(bootstrap_interval(&[f64::NAN], mean, 10, 0.95, 0).is_err());
    assert!(pairs_interval(&[1.0, 2.0], &[1.0], |_, _| None, &percentile(9, 0.9, 1)).is_err());
    assert!(paired_bootstrap_test(&[1.0], Alternative::TwoSided, 10, 0).is_err());
}
