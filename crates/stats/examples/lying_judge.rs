//! Simulates lower bounds of the share of faithful rewrites from thirty ratings and a judge's
//! verdicts on all rewrites, with judges that are good, useless or lie.
//!
//! `cargo run --release -p isomer-stats --example lying_judge [CASES]`

use std::collections::HashMap;

use isomer_stats::{
    StatsError, clopper_pearson_lower,
    prediction_powered::{
        LabelledStratum, PredictedSample, StratifiedShare, Tuning, allocation, prediction_powered_mean,
    },
    random,
};
use rand_chacha::ChaCha8Rng;

const ALPHA: f64 = 0.05;
const SEED: u64 = 1337;
const LABELS: u64 = 30;

/// How often a judge accepts faithful and unfaithful rewrites.
struct Judge {
    name: &'static str,
    faithful: f64,
    unfaithful: f64,
}

const JUDGES: [Judge; 8] = [
    judge("good", 0.98, 0.1),
    judge("fair", 0.9, 0.25),
    judge("strict", 0.6, 0.02),
    judge("accepts everything", 1.0, 1.0),
    judge("rejects everything", 0.0, 0.0),
    judge("tosses a coin", 0.5, 0.5),
    judge("flatters the unfaithful", 0.7, 1.0),
    judge("says the opposite", 0.05, 0.95),
];

const fn judge(name: &'static str, faithful: f64, unfaithful: f64) -> Judge {
    Judge {
        name,
        faithful,
        unfaithful,
    }
}

/// Rewrites by verdict: accepted, rejected.
#[derive(Clone, Copy)]
struct Population {
    units: [u64; 2],
    faithful: [u64; 2],
}

impl Population {
    fn new(rewrites: u64, share: f64, judge: &Judge) -> Self {
        let part = |of: u64, share: f64| (of as f64 * share).round() as u64;
        let faithful = part(rewrites, share);
        let accepted = part(faithful, judge.faithful);
        let wrongly = part(rewrites - faithful, judge.unfaithful);
        Self {
            units: [accepted + wrongly, rewrites - accepted - wrongly],
            faithful: [accepted, faithful - accepted],
        }
    }

    fn share(&self) -> f64 {
        (self.faithful[0] + self.faithful[1]) as f64 / (self.units[0] + self.units[1]) as f64
    }

    /// Draws the given number from each stratum without replacement; returns the number of faithful
    /// ones.
    fn labelled(&self, rng: &mut ChaCha8Rng, labels: [u64; 2]) -> [LabelledStratum; 2] {
        [0, 1].map(|s| {
            let (mut left, mut faithful) = (self.units[s], self.faithful[s]);
            for _ in 0..labels[s] {
                faithful -= u64::from((random::below(rng, left as usize) as u64) < faithful);
                left -= 1;
            }
            LabelledStratum {
                units: self.units[s],
                labelled: labels[s],
                positive: self.faithful[s] - faithful,
            }
        })
    }

    /// How many of `labels` rewrites, drawn from all, are accepted and rejected.
    fn drawn(&self, rng: &mut ChaCha8Rng, labels: u64) -> [u64; 2] {
        let (mut left, mut accepted) = (self.units[0] + self.units[1], self.units[0]);
        for _ in 0..labels {
            accepted -= u64::from((random::below(rng, left as usize) as u64) < accepted);
            left -= 1;
        }
        let first = self.units[0] - accepted;
        [first, labels - first]
    }
}

/// How a bound fared.
#[derive(Default)]
struct Tally {
    missed: u64,
    distance: f64,
}

impl Tally {
    fn add(&mut self, low: f64, share: f64) {
        self.missed += u64::from(low > share + 1e-12);
        self.distance += share - low;
    }

    /// Percent of cases with a bound above the share.
    fn errors(&self, cases: usize) -> f64 {
        100.0 * self.missed as f64 / cases as f64
    }
}

/// The normal lower bound with power tuning.
fn normal(strata: [LabelledStratum; 2]) -> Result<f64, StatsError> {
    let (mut labels, mut predictions, mut unlabelled) = (Vec::new(), Vec::new(), Vec::new());
    for (own, verdict) in strata.into_iter().zip([1.0, 0.0]) {
        labels.extend((0..own.labelled).map(|i| f64::from(u8::from(i < own.positive))));
        predictions.extend((0..own.labelled).map(|_| verdict));
        unlabelled.extend((own.labelled..own.units).map(|_| verdict));
    }
    let sample = PredictedSample {
        labels: &labels,
        predictions: &predictions,
        unlabelled: &unlabelled,
    };
    prediction_powered_mean(sample, Tuning::Power)?.lower(ALPHA)
}

fn alone(strata: [LabelledStratum; 2]) -> Result<f64, StatsError> {
    let [first, second] = strata;
    let all = LabelledStratum {
        units: first.units + second.units,
        labelled: first.labelled + second.labelled,
        positive: first.positive + second.positive,
    };
    let none = LabelledStratum {
        units: 0,
        labelled: 0,
        positive: 0,
    };
    Ok(StratifiedShare::of([all, none], ALPHA)?.low)
}

/// Bounds by sample, so that each is computed once.
#[derive(Default)]
struct Bounds(HashMap<[LabelledStratum; 2], f64>);

impl Bounds {
    fn of(
        &mut self,
        strata: [LabelledStratum; 2],
        bound: impl Fn([LabelledStratum; 2]) -> Result<f64, StatsError>,
    ) -> Result<f64, StatsError> {
        if let Some(low) = self.0.get(&strata) {
            return Ok(*low);
        }
        let low = bound(strata)?;
        self.0.insert(strata, low);
        Ok(low)
    }
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), StatsError> {
    let cases: usize = std::env::args()
        .nth(1)
        .and_then(|arg| arg.parse().ok())
        .unwrap_or(20_000);
    println!("{cases} cases a cell, {LABELS} ratings, alpha {ALPHA}, seed {SEED}\n");
    println!(
        "| rewrites | faithful | judge | PPI++, normal | ratings alone, exact | exact with judge | distance, alone | with judge | ratio |"
    );
    println!("|--:|--:|---|--:|--:|--:|--:|--:|--:|");
    let (mut cell, mut worst) = (0, [0.0_f64; 3]);
    for rewrites in [100, 400, 2_000] {
        for share in [0.5, 0.8, 0.9, 0.95, 0.99] {
            for judge in &JUDGES {
                let population = Population::new(rewrites, share, judge);
                let mut tallies: [Tally; 3] = Default::default();
                let mut bounds: [Bounds; 3] = Default::default();
                let mut rng = random::stream(SEED, cell);
                for _ in 0..cases {
                    let drawn = population.drawn(&mut rng, LABELS);
                    let random = population.labelled(&mut rng, drawn);
                    let sheet = population.labelled(&mut rng, allocation(population.units, LABELS));
                    let exact = |strata| Ok(StratifiedShare::of(strata, ALPHA)?.low);
                    tallies[0].add(bounds[0].of(random, normal)?, population.share());
                    tallies[1].add(bounds[1].of(random, alone)?, population.share());
                    tallies[2].add(bounds[2].of(sheet, exact)?, population.share());
                }
                for (worst, tally) in worst.iter_mut().zip(&tallies) {
                    *worst = worst.max(clopper_pearson_lower(tally.missed, cases as u64, 0.01));
                }
                let [normal, alone, exact] = &tallies;
                let distance = |tally: &Tally| 100.0 * tally.distance / cases as f64;
                println!(
                    "| {rewrites} | {:.1} % | {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.2} |",
                    100.0 * population.share(),
                    judge.name,
                    normal.errors(cases),
                    alone.errors(cases),
                    exact.errors(cases),
                    distance(alone),
                    distance(exact),
                    distance(exact) / distance(alone)
                );
                cell += 1;
            }
        }
    }
    println!(
        "\n{cell} cells; largest lower 99 % bound of the error rate: normal {:.2} %, alone {:.2} %, exact with judge {:.2} %",
        100.0 * worst[0],
        100.0 * worst[1],
        100.0 * worst[2]
    );
    Ok(())
}
