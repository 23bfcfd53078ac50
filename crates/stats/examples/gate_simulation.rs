//! Simulates sequential gates: their error rates at the boundary, and their savings on clear cases.
//!
//! `cargo run --release -p isomer-stats --example gate_simulation [GATES]`

mod lab;

use isomer_stats::{
    StatsError,
    gate::{rule::Basis, spending::Spending},
};
use lab::simulate::{
    GateShares, ItemLaw, RoundsLaw, ScheduleLaw, simulate_betting, simulate_margins, simulate_rounds, simulate_schedule,
};

const ALPHA: f64 = 0.05;
const SEED: u64 = 1337;
/// Largest allowed drop of the per-item gates, in their unit, and the full run's items.
const FLOOR: f64 = -0.02;
const ITEMS: usize = 3_000;

#[allow(clippy::print_stdout)]
fn line(name: &str, found: &GateShares) {
    println!(
        "{name:<58} passed {:6.2} %  failed {:6.2} %  undecided {:6.2} %  drawn {:5.1} %  saved {:5.1} %",
        100.0 * found.passed,
        100.0 * found.failed,
        100.0 * found.undecided,
        100.0 * found.drawn,
        100.0 * (1.0 - found.drawn)
    );
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), StatsError> {
    let gates = std::env::args()
        .nth(1)
        .and_then(|arg| arg.parse().ok())
        .unwrap_or(4_000);
    println!("{gates} gates each, alpha {ALPHA}, seed {SEED}\n");
    println!("items: betting, floor {FLOOR} on differences in [-1, 1], up to {ITEMS} items");
    let answers = |mean: f64| ItemLaw::Answers {
        lost: 0.06 - mean / 2.0,
        won: 0.06 + mean / 2.0,
    };
    let uniform = |mean: f64| ItemLaw::Uniform {
        from: mean - 0.15,
        to: mean + 0.15,
    };
    for (name, law) in [
        ("answers lost or won, at the boundary (-0.02)", answers(-0.02)),
        ("answers, clear pass (+0.02)", answers(0.02)),
        ("answers, clear fail (-0.08)", answers(-0.08)),
        ("scores, at the boundary (-0.02)", uniform(-0.02)),
        ("scores, clear pass (0)", uniform(0.0)),
        ("scores, clear fail (-0.05)", uniform(-0.05)),
    ] {
        line(name, &simulate_betting(law, FLOOR, ALPHA, ITEMS, gates, SEED)?);
    }
    println!(
        "\nrounds: looks after each of 4 rounds of 6 data sets, 3 seeds, floor -2 points, SD 1.5 between, 0.5 over seeds"
    );
    for basis in [Basis::StudentMean, Basis::SignedRank] {
        for spending in [Spending::OBrienFleming, Spending::Pocock] {
            for (name, mean) in [
                ("boundary (-2)", -2.0),
                ("clear pass (0)", 0.0),
                ("clear fail (-4)", -4.0),
            ] {
                let law = RoundsLaw {
                    mean,
                    sd_between: 1.5,
                    sd_seeds: 0.5,
                    seeds: 3,
                    units_a_round: 6,
                    rounds: 4,
                };
                let found = simulate_rounds(law, -2.0, basis, ALPHA, spending, gates, SEED)?;
                line(&format!("{basis:?}, {spending:?}, {name}"), &found);
            }
        }
    }
    own_rounds(gates)
}

/// The rounds of `isomer check --sequential`: data sets doubled under one seed, then seeds.
#[allow(clippy::print_stdout)]
fn own_rounds(gates: usize) -> Result<(), StatsError> {
    println!("\nisomer check --sequential: 3 seeds, floor -2 points, SD 1.5 between data sets, 0.5 over seeds");
    let cases = [
        ("boundary (-2)", -2.0),
        ("clear pass (+1)", 1.0),
        ("clear fail (-5)", -5.0),
    ];
    let law = |mean, units| ScheduleLaw {
        mean,
        sd_between: 1.5,
        sd_seeds: 0.5,
        units,
        seeds: 3,
    };
    for units in [8, 16, 32] {
        for spending in [Spending::Pocock, Spending::OBrienFleming] {
            for (name, mean) in cases {
                let found = simulate_schedule(law(mean, units), -2.0, Basis::SignedRank, ALPHA, spending, gates, SEED)?;
                line(&format!("{units} data sets, {spending:?}, {name}"), &found);
            }
        }
    }
    for (name, mean) in cases {
        let found = simulate_margins(law(mean, 16), 2.0, 4, ALPHA, Spending::Pocock, gates, SEED)?;
        line(&format!("16 data sets, Pocock, any of 4 margins, {name}"), &found);
    }
    Ok(())
}
