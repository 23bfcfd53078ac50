//! Times the Hodges–Lehmann bootstrap and a whole HTEB-sized analysis. `bench_numpy.py` runs it
//! beside numpy.
//!
//! `cargo run --release -p isomer-stats --example bench`

use std::time::Instant;

use isomer_stats::{
    Alternative, StatsError, differences,
    friedman::{friedman, nemenyi},
    hodges_lehmann, hodges_lehmann_bootstrap, holm, kendall_tau_b, mean, median,
    reliability::split_half_reliability,
    sample_sd,
    series::matrix,
    wilcoxon_interval, wilcoxon_signed_rank,
};

const ENCODERS: usize = 16;
const DATASETS: usize = 32;
const TRANSFORMATIONS: usize = 8;
const SEEDS: usize = 3;
const AXES: [&[usize]; 3] = [&[0, 1, 2], &[3, 4, 5], &[6, 7]];
const RESAMPLES: usize = 1_000;

/// Plausible scores: encoders, data sets and transformations differ, seeds hardly do.
fn score(e: usize, d: usize, t: Option<usize>, s: usize) -> f64 {
    let noise = |a: usize| ((a * 2_654_435_761) % 1_000_003) as f64 / 1_000_003.0 - 0.5;
    let base = 55.0 + e as f64 + 20.0 * noise(d + 7) + 3.0 * noise(e * 101 + d);
    t.map_or(base, |t| {
        base - 3.0 - t as f64 + 2.0 * noise(e * 7_919 + d * 104_729 + t * 31) + 0.3 * noise(s + 1_000 * (t + 9 * d))
    })
}

fn main() -> Result<(), StatsError> {
    shift();
    analysis()
}

#[allow(clippy::print_stdout)]
fn shift() {
    let values: Vec<f64> = (0..300)
        .map(|i| ((i * 7_919) % 10_007) as f64 / 10_007.0 - 0.4)
        .collect();
    let mut times: Vec<f64> = (0..21)
        .map(|seed| {
            let start = Instant::now();
            let interval = hodges_lehmann_bootstrap(&values, RESAMPLES, 0.95, seed);
            assert!(interval.is_some());
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!(
        "hodges-lehmann bootstrap, n 300, {RESAMPLES} resamples: {:.3} ms (median of 21)",
        1e3 * times[10]
    );
}

/// All tests of HTEB, over every encoder, data set, transformation and seed.
#[allow(clippy::print_stdout)]
fn analysis() -> Result<(), StatsError> {
    let start = Instant::now();
    let mut tests = 0;
    // Mean over seeds: encoder × data set × transformation.
    let cell = |e, d, t| mean(&(0..SEEDS).map(|s| score(e, d, Some(t), s)).collect::<Vec<f64>>()).unwrap_or(f64::NAN);
    let cells: Vec<Vec<Vec<f64>>> = (0..ENCODERS)
        .map(|e| {
            (0..DATASETS)
                .map(|d| (0..TRANSFORMATIONS).map(|t| cell(e, d, t)).collect())
                .collect()
        })
        .collect();
    let originals: Vec<Vec<f64>> = (0..ENCODERS)
        .map(|e| (0..DATASETS).map(|d| score(e, d, None, 0)).collect())
        .collect();
    let mut family = |all: &[Vec<f64>]| -> Result<Vec<f64>, StatsError> {
        let mut p = Vec::new();
        for d in all {
            let absolute: Vec<f64> = d.iter().map(|v| v.abs()).collect();
            let found = (
                hodges_lehmann(d),
                median(&absolute),
                sample_sd(d),
                hodges_lehmann_bootstrap(d, RESAMPLES, 0.95, 1337),
            );
            assert!(found.0.is_some() && found.3.is_some());
            wilcoxon_interval(d, 0.95, Alternative::TwoSided)?;
            p.push(wilcoxon_signed_rank(d, Alternative::TwoSided)?.p_value);
            tests += 1;
        }
        Ok(holm(&p))
    };
    // Each transformation, over all encoders and per encoder.
    let of = |e: usize, t: usize| -> Vec<f64> { (0..DATASETS).map(|d| cells[e][d][t] - originals[e][d]).collect() };
    let pooled: Vec<Vec<f64>> = (0..TRANSFORMATIONS)
        .map(|t| {
            (0..DATASETS)
                .map(|d| (0..ENCODERS).map(|e| of(e, t)[d]).sum::<f64>() / ENCODERS as f64)
                .collect()
        })
        .collect();
    let mut adjusted = family(&pooled)?;
    for e in 0..ENCODERS {
        adjusted.extend(family(&(0..TRANSFORMATIONS).map(|t| of(e, t)).collect::<Vec<_>>())?);
    }
    // Every pair of encoders, per axis and in total.
    let axis = |e: usize, axis: &[usize]| -> Vec<f64> {
        (0..DATASETS)
            .map(|d| axis.iter().map(|t| cells[e][d][*t]).sum::<f64>() / axis.len() as f64)
            .collect()
    };
    let all: Vec<usize> = (0..TRANSFORMATIONS).collect();
    for part in AXES.iter().copied().chain([all.as_slice()]) {
        let scores: Vec<Vec<f64>> = (0..ENCODERS).map(|e| axis(e, part)).collect();
        let pairs: Result<Vec<Vec<f64>>, StatsError> = (0..ENCODERS)
            .flat_map(|a| (0..a).map(move |b| (a, b)))
            .map(|(a, b)| differences(&scores[a], &scores[b]))
            .collect();
        adjusted.extend(family(&pairs?)?);
        let rows = matrix(&scores, ["the first encoder", "another encoder"])?;
        nemenyi(&friedman(rows.view())?, 0.05)?;
        let strata: Vec<String> = (0..DATASETS).map(|d| format!("task {}", d % 7)).collect();
        split_half_reliability(rows.view(), &strata, 1_000, 1337)?;
    }
    // Ranking stability per data set and transformation.
    let mut taus = 0;
    for d in 0..DATASETS {
        let original: Vec<f64> = (0..ENCODERS).map(|e| originals[e][d]).collect();
        for t in 0..TRANSFORMATIONS {
            kendall_tau_b(&original, &(0..ENCODERS).map(|e| cells[e][d][t]).collect::<Vec<f64>>())?;
            taus += 1;
        }
    }
    println!(
        "analysis, {ENCODERS} encoders x {DATASETS} data sets x {TRANSFORMATIONS} x {SEEDS}: {tests} shifts with intervals \
         and tests ({RESAMPLES} resamples each), {taus} taus, 4 Friedman tests, 4 reliabilities: {:.3} s",
        start.elapsed().as_secs_f64()
    );
    assert_eq!(adjusted.len(), tests);
    Ok(())
}
