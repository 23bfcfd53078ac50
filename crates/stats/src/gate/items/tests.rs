#![allow(clippy::unwrap_used)]
use super::*;
use crate::gate::bounded::bounded_interval;

const POINTS: Range = Range {
    low: -100.0,
    high: 100.0,
};

fn values(n: usize, seed: u64) -> Vec<f64> {
    let mut rng = stream(seed, n);
    (0..n)
        .map(|_| {
            let u = uniform(&mut rng);
            if u < 0.05 { 100.0 * u / 0.05 } else { 0.0 }
        })
        .collect()
}

#[test]
fn one_data_set_has_the_bounds_of_its_items() {
    for n in [7, 80, 700] {
        let values = values(n, 1);
        let found = decide_items(Limit::at_most(3.0), 0.05, &[Stratum::of_items(&values, POINTS)]).unwrap();
        let (low, high) = bounded_interval(&values, POINTS, 0.05).unwrap();
        assert!((found.low.unwrap() - low).abs() < 1e-6 && (found.high.unwrap() - high).abs() < 1e-6);
        assert_eq!(found.units, n);
    }
}

#[test]
fn drawn_bounds_of_two_halves_are_about_those_of_the_whole() {
    // Two equal strata: both halves add a draw at the end of the range, so the bounds are a little
    // wider.
    for n in [200, 1_200] {
        let values = values(n, 2);
        let whole = bounds(&[Stratum::of_items(&values, POINTS)], 0.05, 0.05).unwrap();
        let (even, odd): (Vec<(usize, f64)>, Vec<(usize, f64)>) =
            values.iter().copied().enumerate().partition(|(i, _)| i % 2 == 0);
        let half = |part: Vec<(usize, f64)>| {
            let values: Vec<f64> = part.into_iter().map(|(_, v)| v).collect();
            Stratum::of_items(&values, POINTS)
        };
        let halves = bounds(&[half(even), half(odd)], 0.05, 0.05).unwrap();
        assert!((halves.0 - whole.0).abs() < 1e-9);
        let slack = 100.0 / n as f64;
        assert!(
            halves.2 > whole.2 - 0.2 * slack && halves.2 < whole.2 + 2.0 * slack,
            "{whole:?} {halves:?}"
        );
        assert!(
            halves.1 < whole.1 + 0.2 * slack && halves.1 > whole.1 - 2.0 * slack,
            "{whole:?} {halves:?}"
        );
    }
}

#[test]
fn a_table_draws_what_weights_draw() {
    let values = values(600, 4);
    let clusters: Vec<Cluster> = values.iter().copied().map(Cluster::from).collect();
    let by_weights = Law::Weights(clusters.clone(), 100.0, 1);
    let by_table = Law::Table(table_of(&clusters, 100.0));
    let normals: Vec<f64> = (0..20_000)
        .map(|i| normal_quantile((f64::from(i) + 0.5) / 20_000.0))
        .collect();
    let quantiles = |law: &Law| {
        let mut draws = law.draws(&normals, &mut stream(5, 0));
        draws.sort_unstable_by(f64::total_cmp);
        [0.01, 0.05, 0.5, 0.95, 0.99].map(|q| draws[(q * 20_000.0) as usize])
    };
    let (a, b) = (quantiles(&by_weights), quantiles(&by_table));
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() < 0.06, "{a} {b}");
    }
}

#[test]
fn rows_that_share_a_text_count_once() {
    let rows = values(40, 3);
    let alone = decide_items(Limit::at_most(3.0), 0.05, &[Stratum::of_items(&rows, POINTS)]).unwrap();
    // Each row five times: with 200 independent rows the bound would shrink, with 40 clusters it
    // does not.
    let clusters = rows.iter().map(|v| Cluster { sum: 5.0 * v, items: 5 }).collect();
    let stratum = Stratum {
        weight: 1.0,
        evidence: Evidence::Items {
            clusters,
            range: POINTS,
        },
    };
    let together = decide_items(Limit::at_most(3.0), 0.05, &[stratum]).unwrap();
    assert!((alone.high.unwrap() - together.high.unwrap()).abs() < 1e-6);
    assert!((alone.estimate - together.estimate).abs() < 1e-9);
    let repeated: Vec<f64> = rows.iter().flat_map(|v| [*v; 5]).collect();
    let naive = decide_items(Limit::at_most(3.0), 0.05, &[Stratum::of_items(&repeated, POINTS)]).unwrap();
    assert!(naive.high.unwrap() < together.high.unwrap());
}

#[test]
fn measured_figures_get_student_s_bounds_and_weights_are_shares() {
    let measured = |estimate, standard_error, weight| Stratum {
        weight,
        evidence: Evidence::Measured {
            estimate,
            standard_error,
            freedom: 60.0,
        },
    };
    let (estimate, low, high) = bounds(&[measured(2.0, 0.5, 1.0)], 0.05, 0.05).unwrap();
    let half = 0.5 * student_quantile(0.95, 60.0);
    assert!((high - estimate - half).abs() < 0.02 && (estimate - low - half).abs() < 0.02);
    let two = bounds(&[measured(2.0, 0.5, 3.0), measured(6.0, 0.0, 1.0)], 0.05, 0.05).unwrap();
    assert!((two.0 - 3.0).abs() < 1e-12 && (two.2 - two.0 - 0.75 * half).abs() < 0.02);
}

#[test]
fn verdicts_and_what_would_decide() {
    let clear = vec![
        Stratum::of_items(&[0.0; 300], POINTS),
        Stratum::of_items(&[0.0; 200], POINTS),
    ];
    assert_eq!(
        decide_items(Limit::at_most(3.0), 0.05, &clear).unwrap().verdict,
        Verdict::Pass
    );
    let broken = vec![
        Stratum::of_items(&[30.0; 300], POINTS),
        Stratum::of_items(&[20.0; 200], POINTS),
    ];
    assert_eq!(
        decide_items(Limit::at_most(3.0), 0.05, &broken).unwrap().verdict,
        Verdict::Fail
    );
    let few = vec![
        Stratum::of_items(&values(60, 6), POINTS),
        Stratum::of_items(&values(50, 7), POINTS),
    ];
    let found = decide_items(Limit::at_most(3.5), 0.05, &few).unwrap();
    assert_eq!(found.verdict, Verdict::Undecided);
    assert!(found.need.unwrap().units.unwrap() > 110);
}

#[test]
fn nonsense_is_refused() {
    let refused = |strata: &[Stratum]| decide_items(Limit::at_most(3.0), 0.05, strata).is_err();
    assert!(refused(&[]));
    assert!(refused(&[Stratum::of_items(&[], POINTS)]));
    assert!(refused(&[Stratum::of_items(&[101.0], POINTS)]));
    assert!(refused(&[Stratum::of_items(&[f64::NAN], POINTS)]));
    let weightless = Stratum {
        weight: 0.0,
        ..Stratum::of_items(&[1.0], POINTS)
    };
    assert!(refused(&[weightless]));
    assert!(decide_items(Limit::at_most(3.0), 0.5, &[Stratum::of_items(&[1.0], POINTS)]).is_err());
}
