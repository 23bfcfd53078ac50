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

/// 100 items that are lost with a probability of `lost` and won with one of 0.03, and a figure with
/// a standard error of 2; the true mean is `100 (lost − 0.03)`.
fn drawn(lost: f64, gate: usize) -> [Stratum; 2] {
    let mut rng = stream(11, gate);
    let values: Vec<f64> = (0..100)
        .map(|_| match uniform(&mut rng) {
            u if u < lost => 100.0,
            u if u > 0.97 => -100.0,
            _ => 0.0,
        })
        .collect();
    let figure = Evidence::Measured {
        estimate: 100.0 * (lost - 0.03) + 2.0 * normal_quantile(uniform(&mut rng)),
        standard_error: 2.0,
        freedom: 99.0,
    };
    [
        Stratum::of_items(&values, POINTS),
        Stratum {
            weight: 1.0,
            evidence: figure,
        },
    ]
}

#[test]
fn beyond_the_limit_it_seldom_passes_and_within_the_value_of_a_fail_it_seldom_fails() {
    let limit = Limit {
        fail_at: 2.0,
        ..Limit::at_most(10.0)
    };
    let mirrored = Limit {
        fail_at: -2.0,
        ..Limit::at_least(-10.0)
    };
    let turned = |stratum: Stratum| Stratum {
        evidence: match stratum.evidence {
            Evidence::Items { clusters, range } => Evidence::Items {
                clusters: clusters.iter().map(|own| Cluster { sum: -own.sum, ..*own }).collect(),
                range,
            },
            Evidence::Measured {
                estimate,
                standard_error,
                freedom,
            } => Evidence::Measured {
                estimate: -estimate,
                standard_error,
                freedom,
            },
        },
        ..stratum
    };
    const GATES: usize = 1_000;
    let share = |wanted: Verdict, truth: f64| {
        let verdicts = (0..GATES).into_par_iter().map(|gate| {
            let strata = drawn(0.03 + truth / 100.0, gate);
            let verdict = |limit, strata: &[Stratum]| decide_with(limit, 0.05, strata, 1_999).unwrap().verdict;
            // Bounds of the two sides are drawn, so a verdict next to a limit may differ.
            (verdict(limit, &strata), verdict(mirrored, &strata.map(turned)))
        });
        let verdicts: Vec<(Verdict, Verdict)> = verdicts.collect();
        let count = |same: &dyn Fn(&(Verdict, Verdict)) -> bool| verdicts.iter().filter(|own| same(own)).count();
        assert!(count(&|(one, other)| one != other) < GATES / 50);
        count(&|(one, _)| *one == wanted) as f64 / GATES as f64
    };
    // 0.05 plus three standard errors for 1,000 gates: 0.071.
    for errs in [share(Verdict::Pass, 10.0), share(Verdict::Fail, 2.0)] {
        assert!(errs > 0.005 && errs < 0.071, "{errs}");
    }
    // A limit alone decides far fewer of these: 10 points lie within the bounds.
    assert!(share(Verdict::Fail, 9.0) > 0.8);
    assert!(share(Verdict::Pass, 0.0) > 0.9);
}

#[test]
fn a_value_of_a_fail_within_the_limit_takes_precedence_and_asks_for_the_fewer_items() {
    let with = |fail_at: f64, values: &[f64]| {
        let limit = Limit {
            fail_at,
            ..Limit::at_most(10.0)
        };
        decide_items(limit, 0.05, &[Stratum::of_items(values, POINTS)]).unwrap()
    };
    let spread: Vec<f64> = (0..400).map(|i| if i % 2 == 0 { 2.0 } else { 8.0 }).collect();
    assert_eq!(with(10.0, &spread).verdict, Verdict::Pass);
    assert_eq!(with(2.0, &spread).verdict, Verdict::Fail);
    let few: Vec<f64> = (0..60).map(|i| if i % 12 == 0 { 100.0 } else { 0.0 }).collect();
    let needed = |fail_at| with(fail_at, &few).need.unwrap().units.unwrap();
    assert_eq!(with(2.0, &few).verdict, Verdict::Undecided);
    assert!(needed(2.0) < needed(10.0), "{} {}", needed(2.0), needed(10.0));
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
