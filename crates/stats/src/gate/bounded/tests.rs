#![allow(clippy::unwrap_used)]
use super::*;
use crate::random::{stream, uniform};

const POINTS: Range = Range { low: -30.0, high: 70.0 };

fn drops(n: usize, seed: u64) -> Vec<f64> {
    let mut rng = stream(seed, n);
    (0..n).map(|_| 8.0 * uniform(&mut rng).powi(2) - 1.0).collect()
}

#[test]
fn all_or_nothing_gives_clopper_and_pearson_s_bounds() {
    // The p at which the binomial tail is 0.05, by bisection of the sum of its terms.
    for (k, n, low, high) in [
        (0, 20, 0.0, 0.139_108_340_668),
        (1, 20, 0.002_561_378_777, 0.216_106_164_207),
        (7, 50, 0.067_596_699_004, 0.246_935_201_731),
    ] {
        let values: Vec<f64> = (0..n).map(|i| f64::from(u8::from(i < k))).collect();
        let found = bounded_interval(&values, Range { low: 0.0, high: 1.0 }, 0.05).unwrap();
        assert!(
            (found.0 - low).abs() < 1e-8 && (found.1 - high).abs() < 1e-8,
            "{k} of {n}: {found:?}"
        );
    }
}

#[test]
fn no_drop_at_all_bounds_the_mean_by_what_may_have_been_missed() {
    let found = bounded_interval(&[0.0; 19], POINTS, 0.05).unwrap();
    assert!((found.1 - 70.0 * (1.0 - 0.05_f64.powf(1.0 / 19.0))).abs() < 1e-6);
}

#[test]
fn the_tail_is_what_drawing_the_weights_gives() {
    for (n, limit) in [(3, 4.0), (8, 6.0), (30, 5.0)] {
        let values = drops(n, 5);
        let mut rng = stream(9, n);
        let draws = 200_000;
        let mut reached = 0;
        for _ in 0..draws {
            let mut sum = -uniform(&mut rng).ln() * (POINTS.high - limit);
            for v in &values {
                sum += -uniform(&mut rng).ln() * (v - limit);
            }
            reached += u32::from(sum >= 0.0);
        }
        let share = f64::from(reached) / f64::from(draws);
        let exact = p_at_least(&values, POINTS.high, limit).unwrap();
        assert!((share - exact).abs() < 0.005, "{n}: {share} {exact}");
    }
}

#[test]
fn the_saddlepoint_agrees_with_the_exact_tail() {
    for n in [60, 200, 512] {
        for limit in [2.2, 2.8, 3.4] {
            let moved: Vec<f64> = drops(n, 3).iter().map(|v| v - limit).collect();
            let top = 70.0 - limit;
            let (exact, near) = (tail_of(&moved, top), saddlepoint(&moved, 1.0, top));
            assert!(
                near > 0.98 * exact && near < 1.04 * exact,
                "{n} {limit}: {exact} {near}"
            );
        }
    }
}

#[test]
fn order_does_not_matter_and_units_may_change() {
    let values = drops(23, 1);
    let found = bounded_interval(&values, POINTS, 0.05).unwrap();
    let mut other = values.clone();
    other.reverse();
    other.swap(3, 11);
    let again = bounded_interval(&other, POINTS, 0.05).unwrap();
    assert!((found.0 - again.0).abs() < 1e-7 && (found.1 - again.1).abs() < 1e-7);
    let moved: Vec<f64> = values.iter().map(|v| 10.0 - 2.5 * v).collect();
    let range = Range {
        low: 10.0 - 2.5 * POINTS.high,
        high: 10.0 - 2.5 * POINTS.low,
    };
    let mirrored = bounded_interval(&moved, range, 0.05).unwrap();
    assert!((mirrored.0 - (10.0 - 2.5 * found.1)).abs() < 1e-6);
    assert!((mirrored.1 - (10.0 - 2.5 * found.0)).abs() < 1e-6);
}

#[test]
fn less_alpha_and_a_wider_range_give_wider_bounds() {
    let values = drops(40, 2);
    let mut last = (f64::INFINITY, f64::NEG_INFINITY);
    for alpha in [0.4, 0.2, 0.1, 0.05, 0.01, 0.001] {
        let found = bounded_interval(&values, POINTS, alpha).unwrap();
        assert!(
            found.0 < last.0 && found.1 > last.1 && found.0 < found.1,
            "{alpha}: {found:?}"
        );
        last = found;
    }
    let wide = Range {
        low: -100.0,
        high: 100.0,
    };
    let (narrow, wide) = (
        bounded_interval(&values, POINTS, 0.05).unwrap(),
        bounded_interval(&values, wide, 0.05).unwrap(),
    );
    assert!(wide.0 < narrow.0 && wide.1 > narrow.1);
}

#[test]
fn the_least_number_of_units_decides_and_one_less_does_not() {
    for (limit, alpha) in [(3.0, 0.05), (1.0, 0.05), (10.0, 0.01)] {
        let least = least_units(Limit::at_most(limit), POINTS, 0.0, alpha).unwrap();
        let high = |n: usize| bounded_interval(&vec![0.0; n], POINTS, alpha).unwrap().1;
        assert!(
            high(least) <= limit + 1e-3 && high(least - 1) > limit,
            "{limit}: {least}"
        );
    }
    assert_eq!(least_units(Limit::at_most(3.0), POINTS, 3.0, 0.05), None);
    assert_eq!(least_units(Limit::at_most(80.0), POINTS, 0.0, 0.05), Some(1));
    assert_eq!(
        least_units(Limit::at_least(-3.0), Range { low: -70.0, high: 30.0 }, 0.0, 0.05),
        least_units(Limit::at_most(3.0), POINTS, 0.0, 0.05)
    );
}

#[test]
fn as_many_units_as_are_asked_for_decide() {
    let values = drops(30, 4);
    let needed = units_needed(&values, POINTS, 3.0, 0.05).unwrap();
    assert!(needed > 30, "{needed}");
    let more: Vec<f64> = values.iter().copied().cycle().take(needed.div_ceil(30) * 30).collect();
    assert!(bounded_interval(&more, POINTS, 0.05).unwrap().1 <= 3.0);
    let fewer: Vec<f64> = values
        .iter()
        .copied()
        .cycle()
        .take((needed / 30 - 1).max(1) * 30)
        .collect();
    assert!(bounded_interval(&fewer, POINTS, 0.05).unwrap().1 > 3.0);
}

#[test]
fn nonsense_is_refused() {
    assert!(bounded_interval(&[], POINTS, 0.05).is_err());
    assert!(bounded_interval(&[71.0], POINTS, 0.05).is_err());
    assert!(bounded_interval(&[f64::NAN], POINTS, 0.05).is_err());
    assert!(bounded_interval(&[1.0], POINTS, 0.0).is_err());
    let backwards = Range { low: 1.0, high: 0.0 };
    assert!(bounded_interval(&[0.5], backwards, 0.05).is_err());
    assert!(p_at_least(&[2.0], 1.0, 0.5).is_err());
}
