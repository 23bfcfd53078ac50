#![allow(clippy::unwrap_used)]
use super::*;
use crate::{
    evidence::{Evidence, PreparedEvidence, resample::Clusters},
    stats::random::{normal, stream, uniform},
};

/// The difference of two scores (points) over resamples of their items, each item a cluster.
fn resampled(original: &Evidence, transformed: &Evidence, resamples: usize, name: &str) -> ResampledDifference {
    let ids: Vec<u32> = (0..u32::try_from(original.items()).unwrap()).collect();
    let clusters = Clusters::new(&ids, original, name);
    let (a, b) = (PreparedEvidence::new(original), PreparedEvidence::new(transformed));
    let mut weights = Vec::new();
    let values: Vec<f64> = (0..resamples)
        .map(|index| {
            clusters.draw(index, &mut weights);
            match (a.score(&weights), b.score(&weights)) {
                (Some(a), Some(b)) => (b - a) * 100.0,
                _ => f64::NAN,
            }
        })
        .collect();
    let estimate = (transformed.whole().unwrap() - original.whole().unwrap()) * 100.0;
    ResampledDifference::new(estimate, &values, clusters.len(), clusters.effective() - 1.0).unwrap()
}

/// The 1001 quantiles of the difference of two means, over resamples that are drawn and averaged
/// without weights.
fn plain(original: &[f64], transformed: &[f64], resamples: usize) -> Vec<f64> {
    let mut values: Vec<f64> = (0..resamples)
        .map(|index| {
            let mut rng = stream(99, index);
            let rows = (0..original.len()).map(|_| (uniform(&mut rng) * original.len() as f64) as usize);
            let differences: Vec<f64> = rows.map(|i| 100.0 * (transformed[i] - original[i])).collect();
            mean(&differences).unwrap()
        })
        .collect();
    values.sort_by(f64::total_cmp);
    values
}

#[test]
fn quantiles_are_those_of_a_plain_bootstrap_of_paired_differences() {
    let mut rng = stream(1, 0);
    let original: Vec<f64> = (0..60).map(|_| uniform(&mut rng)).collect();
    let transformed: Vec<f64> = original.iter().map(|v| v - 0.1 * uniform(&mut rng)).collect();
    let own = resampled(
        &Evidence::mean(&original, None),
        &Evidence::mean(&transformed, None),
        8_000,
        "reference",
    );
    let reference = plain(&original, &transformed, 8_000);
    let spread = sample_sd(&reference).unwrap();
    for p in [0.025, 0.05, 0.5, 0.95, 0.975] {
        let (found, wanted) = (quantile(&own.sorted, p).unwrap(), quantile(&reference, p).unwrap());
        assert!((found - wanted).abs() < 0.1 * spread, "{p}: {found} {wanted}");
    }
    // The standard error of a mean of n differences is s / √n.
    let differences: Vec<f64> = original
        .iter()
        .zip(&transformed)
        .map(|(o, t)| 100.0 * (t - o))
        .collect();
    let formula = sample_sd(&differences).unwrap() / 60f64.sqrt();
    assert!(
        (own.standard_error() / formula - 1.0).abs() < 0.03,
        "{} {formula}",
        own.standard_error()
    );
}

#[test]
fn bounds_are_student_s_of_a_normal_distribution() {
    // Quantiles of a normal distribution, as for resamples of a mean of ten values: (n − 1) / n of
    // the variance.
    let spread = 2.0 * 0.9f64.sqrt();
    let values: Vec<f64> = (1..20_000)
        .map(|i| 5.0 + spread * crate::stats::special::normal_quantile(f64::from(i) / 20_000.0))
        .collect();
    let own = ResampledDifference::new(5.0, &values, 10, 9.0).unwrap();
    let interval = own.interval(0.95);
    assert!(
        (interval.high - (5.0 + 2.262_157 * 2.0)).abs() < 0.02,
        "{}",
        interval.high
    );
    assert!((interval.low - (5.0 - 2.262_157 * 2.0)).abs() < 0.02);
    assert!((own.standard_error() - 2.0).abs() < 0.005);
    assert!((own.item_bound(0.95) - (5.0 + 1.833_113 * 2.0)).abs() < 0.02);
}

#[test]
fn a_few_resamples_that_carry_everything_do_not_turn_the_bounds_around() {
    // Often resamples do not contain the one item that lost, so their distribution is extremely
    // skewed.
    for rare in [1, 5, 20, 100, 400] {
        let values: Vec<f64> = (0..1_000)
            .map(|i| if i < rare { -40.0 - f64::from(i) } else { 0.0 })
            .collect();
        let estimate = mean(&values).unwrap();
        for sign in [1.0, -1.0] {
            let turned: Vec<f64> = values.iter().map(|v| v * sign).collect();
            let own = ResampledDifference::new(estimate * sign, &turned, 12, 11.0).unwrap();
            let bounds: Vec<f64> = [0.005, 0.025, 0.25, 0.5, 0.75, 0.975, 0.995]
                .map(|p| own.item_bound(p))
                .to_vec();
            assert!(bounds.windows(2).all(|w| w[0] <= w[1]), "{rare}: {bounds:?}");
            let interval = own.interval(0.95);
            assert!(
                interval.low <= estimate * sign && estimate * sign <= interval.high,
                "{rare}: {interval:?}"
            );
            // The bound reaches the tail with the losses.
            let tail = if sign > 0.0 { interval.low } else { -interval.high };
            assert!(tail <= -40.0, "{rare}: {interval:?}");
        }
    }
}

#[test]
fn no_change_on_twenty_items_is_not_certainty() {
    let same = Evidence::mean(&[1.0; 20], None);
    let own = resampled(&same, &same, 200, "same");
    // 1 − 0.05^(1/20) = 13.9 %: the exact binomial bound for none in twenty.
    assert!((own.item_bound(0.05) + 13.91).abs() < 0.01, "{}", own.item_bound(0.05));
    assert!((own.item_bound(0.95) - 13.91).abs() < 0.01);
    let interval = own.interval(0.95);
    assert!(interval.low < -10.0 && interval.high > 10.0 && interval.standard_error == 0.0);
    assert!(interval.note.unwrap().contains("no item changed"));
}

#[test]
fn one_cluster_or_undefined_scores_make_no_interval() {
    assert!(ResampledDifference::new(1.0, &[1.0, 2.0, 3.0], 1, 0.0).is_none());
    assert!(ResampledDifference::new(f64::NAN, &[1.0, 2.0, 3.0], 3, 2.0).is_none());
    assert!(ResampledDifference::new(1.0, &[1.0, f64::NAN, f64::NAN, f64::NAN, 2.0], 3, 2.0).is_none());
    let some = ResampledDifference::new(1.0, &[1.0, f64::NAN, 2.0], 3, 2.0).unwrap();
    assert!(some.interval(0.95).note.unwrap().contains("1 of 3"));
}

#[test]
fn an_interval_over_groups_is_student_s_and_never_narrower_than_over_items() {
    let own = over_groups(&[-1.0, -2.0, -3.0], None, 0.95).unwrap();
    // Mean −2, sd 1, t of 2 degrees of freedom 4.302653.
    assert!((own.low - (-2.0 - 4.302_652_7 / 3f64.sqrt())).abs() < 1e-6);
    assert_eq!((own.units, own.note), (3, None));
    let close = over_groups(&[-2.0, -2.0, -2.0], Some(0.5), 0.95).unwrap();
    assert_eq!(close.standard_error, 0.5);
    assert!(close.high > 0.0 && close.note.is_some());
    assert!(over_groups(&[-1.0], Some(0.5), 0.95).is_none());
    assert!(over_groups(&[-1.0, f64::NAN], None, 0.95).is_none());
}

#[test]
fn degrees_of_freedom_add_up_where_parts_are_alike_and_shrink_to_the_noisiest() {
    assert!((satterthwaite(&[(2.0, 9.0), (2.0, 9.0)]) - 18.0).abs() < 1e-12);
    assert!((satterthwaite(&[(100.0, 9.0), (1e-9, 500.0)]) - 9.0).abs() < 1e-6);
    assert_eq!(satterthwaite(&[(0.0, 9.0), (0.0, 5.0)]), 14.0);
}

/// A case of the simulation: a pair of scores from random items, and the difference in the limit of
/// infinitely many items.
struct Case {
    name: &'static str,
    truth: f64,
    draw: fn(&mut rand_chacha::ChaCha8Rng) -> (Evidence, Evidence),
}

fn flips(rng: &mut rand_chacha::ChaCha8Rng) -> (Evidence, Evidence) {
    let one = |_| {
        let u = uniform(rng);
        // Right before and wrong after: 6 %; the reverse: 2 %.
        match u {
            u if u < 0.06 => (1.0, 0.0),
            u if u < 0.08 => (0.0, 1.0),
            u if u < 0.80 => (1.0, 1.0),
            _ => (0.0, 0.0),
        }
    };
    let (a, b): (Vec<f64>, Vec<f64>) = (0..150).map(one).unzip();
    (Evidence::mean(&a, None), Evidence::mean(&b, None))
}

/// Gold, similarity and similarity under transformation, jointly normal: correlations 0.8 and 0.7
/// with gold.
fn similarities(rng: &mut rand_chacha::ChaCha8Rng) -> (Evidence, Evidence) {
    let (mut gold, mut first, mut second) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..80 {
        let g = normal(rng);
        let s = 0.8 * g + 0.6 * normal(rng);
        gold.push(g);
        first.push(s as f32);
        // Var = 0.765625 + rest = 1, correlation with gold 0.8 × 0.875 = 0.7.
        second.push((0.875 * s + (1.0f64 - 0.765_625).sqrt() * normal(rng)) as f32);
    }
    let of = |predicted| Evidence::Spearman {
        gold: gold.clone(),
        predicted,
        points: Vec::new(),
    };
    (of(first), of(second))
}

/// Many queries keep their list, some lose the first place, and a few lose everything.
fn queries(rng: &mut rand_chacha::ChaCha8Rng) -> (Evidence, Evidence) {
    let one = |_| {
        let before = if uniform(rng) < 0.7 { 1.0 } else { 0.63 };
        let after = match uniform(rng) {
            u if u < 0.75 => before,
            u if u < 0.95 => before * 0.63,
            _ => 0.0,
        };
        (before, after)
    };
    let (a, b): (Vec<f64>, Vec<f64>) = (0..50).map(one).unzip();
    (Evidence::mean(&a, None), Evidence::mean(&b, None))
}

/// Spearman's correlation of jointly normal variables of Pearson correlation r.
fn rank(r: f64) -> f64 {
    6.0 / std::f64::consts::PI * (r / 2.0).asin()
}

fn cases() -> [Case; 3] {
    // Mean before: 0.7 + 0.3 × 0.63 = 0.889; after: × (0.75 + 0.2 × 0.63) = × 0.876.
    [
        Case {
            name: "accuracy, 150 items, 8 % flip",
            truth: -4.0,
            draw: flips,
        },
        Case {
            name: "Spearman, 80 pairs",
            truth: 100.0 * (rank(0.7) - rank(0.8)),
            draw: similarities,
        },
        Case {
            name: "nDCG, 50 queries",
            truth: 100.0 * 0.889 * (0.876 - 1.0),
            draw: queries,
        },
    ]
}

/// Shares of samples whose interval covers the truth (95 %), and whose one-sided bounds (5 %) lie
/// beyond it. The methods are plain percentiles, expanded percentiles, the basic bootstrap, and
/// [`ResampledDifference::item_bound`].
fn coverage(case: &Case, samples: usize, resamples: usize) -> [[f64; 3]; 4] {
    use rayon::prelude::*;
    let one = |index: usize| -> [[f64; 3]; 4] {
        let (a, b) = (case.draw)(&mut stream(4242, index));
        let own = resampled(&a, &b, resamples, &format!("{} {index}", case.name));
        let at = |p| quantile(&own.sorted, p).unwrap();
        let basic = |p| 2.0 * own.estimate - at(1.0 - p);
        let t = case.truth;
        let row = |low: f64, high: f64, lower: f64, upper: f64| {
            let share = |held: bool| f64::from(u8::from(held));
            [share(low <= t && t <= high), share(t < lower), share(t > upper)]
        };
        let e = |p| at(normal_cdf(expanded(p, own.freedom)));
        let c = |p| own.item_bound(p);
        [
            row(at(0.025), at(0.975), at(0.05), at(0.95)),
            row(e(0.025), e(0.975), e(0.05), e(0.95)),
            row(basic(0.025), basic(0.975), basic(0.05), basic(0.95)),
            row(c(0.025), c(0.975), c(0.05), c(0.95)),
        ]
    };
    let all: Vec<_> = (0..samples).into_par_iter().map(one).collect();
    std::array::from_fn(|m| std::array::from_fn(|k| all.iter().map(|s| s[m][k]).sum::<f64>() / samples as f64))
}

#[test]
fn intervals_cover_what_they_say() {
    for case in cases() {
        let [.., own] = coverage(&case, 300, 300);
        // The table has 0.913 to 0.957 and 0.043 to 0.076; for 300 samples the standard error of a
        // share is 0.016.
        assert!((0.87..0.99).contains(&own[0]), "{}: {own:?}", case.name);
        assert!(own[1] < 0.12 && own[2] < 0.12, "{}: {own:?}", case.name);
    }
}

/// The table on which the choice of method is based:
/// `cargo test -p isomer-scoring --lib coverage_table -- --ignored --nocapture`.
#[test]
#[ignore = "a table for readers, a minute long"]
fn coverage_table() {
    for case in cases() {
        let samples = std::env::var("ISOMER_SAMPLES")
            .ok()
            .and_then(|n| n.parse().ok())
            .unwrap_or(4_000);
        let found = coverage(&case, samples, 1_000);
        for (method, row) in ["percentile", "expanded", "basic", "corrected"].iter().zip(found) {
            println!(
                "{:32} {method:11} covers {:.3}, below {:.3}, above {:.3}",
                case.name, row[0], row[1], row[2]
            );
        }
    }
}
