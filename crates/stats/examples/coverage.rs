//! How often intervals of the Hodges–Lehmann shift hold the true shift, by simulation.
//!
//! `cargo run --release -p isomer-stats --example coverage [SAMPLES]`

use isomer_stats::{
    Alternative, Bootstrap, IntervalMethod, Statistic, StatsError, special::normal_quantile, statistic_interval,
    wilcoxon_interval,
};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{RngCore, SeedableRng},
};
use rayon::prelude::*;

/// Symmetric laws around zero, so that the shift is zero.
fn draw(law: &str, u: f64) -> f64 {
    match law {
        "normal" => normal_quantile(u),
        "uniform" => u - 0.5,
        // Laplace
        "heavy tails" => {
            if u < 0.5 {
                (2.0 * u).ln()
            } else {
                -(2.0 - 2.0 * u).ln()
            }
        }
        // normal, rounded to whole numbers: ties and zeros
        _ => (1.5 * normal_quantile(u)).round(),
    }
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), StatsError> {
    let samples: usize = std::env::args()
        .nth(1)
        .and_then(|arg| arg.parse().ok())
        .unwrap_or(10_000);
    let drawn = samples.div_ceil(10);
    println!("share of samples whose 95 % interval holds the true shift: {samples} signed-rank, {drawn} bootstrap");
    println!(
        "{:<14}{:>5}{:>22}{:>22}{:>14}",
        "law", "n", "signed-rank (nominal)", "percentile bootstrap", "BCa bootstrap"
    );
    for law in ["normal", "uniform", "heavy tails", "ties and zeros"] {
        for n in [6, 9, 19, 32, 100] {
            let held: Result<Vec<[u32; 3]>, StatsError> = (0..samples)
                .into_par_iter()
                .map(|sample| {
                    let mut rng = ChaCha8Rng::seed_from_u64(7);
                    rng.set_stream(sample as u64);
                    let values: Vec<f64> = (0..n)
                        .map(|_| draw(law, ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64))
                        .collect();
                    let within = |low: f64, high: f64| u32::from(low <= 0.0 && 0.0 <= high);
                    let exact = wilcoxon_interval(&values, 0.95, Alternative::TwoSided)?;
                    let mut found = [within(exact.low, exact.high), 0, 0];
                    if sample >= drawn {
                        return Ok(found);
                    }
                    for (at, method) in [(1, IntervalMethod::Percentile), (2, IntervalMethod::Bca)] {
                        let settings = Bootstrap {
                            resamples: 1_000,
                            level: 0.95,
                            seed: 1337,
                            method,
                        };
                        // An accelerated interval that does not exist contains nothing.
                        if let Ok(interval) = statistic_interval(&values, Statistic::HodgesLehmann, &settings) {
                            found[at] = within(interval.low, interval.high);
                        }
                    }
                    Ok(found)
                })
                .collect();
            let held = held?;
            let share = |at: usize| {
                let of = if at == 0 { samples } else { drawn };
                100.0 * held[..of].iter().map(|h| f64::from(h[at])).sum::<f64>() / of as f64
            };
            let some: Vec<f64> = (0..n).map(|i| i as f64).collect();
            let nominal = 100.0 * wilcoxon_interval(&some, 0.95, Alternative::TwoSided)?.achieved;
            println!(
                "{law:<14}{n:>5}{:>13.2} ({nominal:.2}){:>22.2}{:>14.2}",
                share(0),
                share(1),
                share(2)
            );
        }
    }
    Ok(())
}
