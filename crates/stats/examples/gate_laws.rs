//! Error rates of a gate's bounds if the truth lies exactly at the limit, under laws that are
//! skewed, collapsed or clustered, and how often the shipped suites decide. Prints markdown tables.
//!
//! `cargo run --release -p isomer-stats --example gate_laws [GATES]
//! [units|many|items|shared|strata|power] [LAW]`; with LAW (a part of a law's name) only the rows
//! of such laws.

mod lab;

use isomer_stats::{StatsError, mean, proportion::clopper_pearson_lower};
use lab::{
    boundary::{Candidate, Count, Settings, simulate, simulate_clusters},
    laws::{self, Clustered, Law, Shape, SharedTexts},
    layouts::{HTEB_ENGLISH, HTEB_MULTILINGUAL, Layout, MINIMAL, PTEB, QUICK, Spread},
};

const ALPHA: f64 = 0.05;
const SEED: u64 = 1337;
/// Resamples of a simulated bootstrap; a rule uses more.
const RESAMPLES: usize = 499;
const UNITS: [usize; 13] = [3, 4, 5, 6, 7, 8, 10, 13, 15, 19, 20, 25, 30];
/// More units than the shipped suites have: where the default decides.
const MANY: [usize; 3] = [80, 150, 300];
const ITEMS: [usize; 3] = [80, 200, 500];
/// Entries of each group of `hteb-multilingual` (suites/hteb-multilingual.toml).
const MULTILINGUAL: [usize; 13] = [16, 12, 12, 11, 4, 1, 1, 1, 1, 1, 1, 1, 1];

#[allow(clippy::print_stdout)]
fn header(gates: usize, what: &str) {
    println!("\n{what}, {gates} gates a cell, alpha {ALPHA}, seed {SEED}\n");
    let names: Vec<&str> = Candidate::ALL.iter().map(|one| one.name()).collect();
    println!("| law | n | {} |", names.join(" | "));
    println!("|---|---|{}", "---|".repeat(names.len()));
}

/// False passes / false failures in percent; `!` where the lower 99 % Clopper–Pearson bound of the
/// false passes exceeds alpha, `*` where that of the false failures does.
#[allow(clippy::print_stdout)]
fn row(law: &str, n: usize, gates: usize, counts: &[Count]) {
    let cells: Vec<String> = counts
        .iter()
        .map(|one| {
            let share = |count: usize| 100.0 * count as f64 / gates as f64;
            let beyond = |count: usize| clopper_pearson_lower(count as u64, gates as u64, 0.01) > ALPHA;
            format!(
                "{:.1}{} / {:.1}{}",
                share(one.passed),
                if beyond(one.passed) { "!" } else { "" },
                share(one.failed),
                if beyond(one.failed) { "*" } else { "" }
            )
        })
        .collect();
    println!("| {law} | {n} | {} |", cells.join(" | "));
}

fn settings(law: &Law, gates: usize) -> Settings {
    Settings {
        limit: law.mean(),
        range: law.range,
        alpha: ALPHA,
        gates,
        resamples: RESAMPLES,
        seed: SEED,
    }
}

fn table(gates: usize, what: &str, all: Vec<Law>, sizes: &[usize]) -> Result<(), StatsError> {
    header(gates, what);
    for law in all {
        let settings = settings(&law, gates);
        for &n in sizes {
            let found = simulate(&Candidate::ALL, &settings, |rng| {
                (0..n).map(|_| law.draw(rng)).collect()
            })?;
            row(law.name, n, gates, &found);
        }
    }
    Ok(())
}

/// Languages of one data set as units of their own, and averaged by data set first.
fn clustered(gates: usize) -> Result<(), StatsError> {
    header(gates, "languages of 13 data sets as in hteb-multilingual");
    for shared in [0.3, 0.5, 0.7] {
        let law = Clustered {
            sizes: &MULTILINGUAL,
            shared,
        };
        let settings = Settings {
            limit: Clustered::MEAN,
            ..settings(&laws::of_units()[0], gates)
        };
        let found = simulate(&Candidate::ALL, &settings, |rng| law.draw(rng).concat())?;
        row(&format!("63 languages as units, {shared} shared"), 63, gates, &found);
        let found = simulate(&Candidate::ALL, &settings, |rng| {
            law.draw(rng).iter().filter_map(|entries| mean(entries)).collect()
        })?;
        row(&format!("averaged by data set, {shared} shared"), 13, gates, &found);
    }
    Ok(())
}

/// Rows that share a text, as rows and as clusters.
#[allow(clippy::print_stdout)]
fn shared_texts(gates: usize) -> Result<(), StatsError> {
    println!("\nrows that share a text (1 to 5 a text, 3 % of the texts lost), basis bounded, {gates} gates a cell\n");
    println!("| texts | rows as units | texts as clusters |\n|---|---|---|");
    for texts in ITEMS {
        let law = SharedTexts { texts, lost: 0.03 };
        let settings = Settings {
            limit: 100.0 * law.lost,
            range: laws::ITEMS,
            ..settings(&laws::of_items()[0], gates)
        };
        let rows = simulate(&[Candidate::Bounded], &settings, |rng| law.rows(rng))?;
        let (passed, failed) = simulate_clusters(&settings, |rng| law.draw(rng))?;
        let share = |count: usize| 100.0 * count as f64 / gates as f64;
        println!(
            "| {texts} | {:.1} / {:.1} | {:.1} / {:.1} |",
            share(rows[0].passed),
            share(rows[0].failed),
            share(passed),
            share(failed)
        );
    }
    Ok(())
}

/// The default on items, over the data sets of the shipped suites.
#[allow(clippy::print_stdout)]
fn strata(gates: usize, fewer: usize) -> Result<(), StatsError> {
    println!(
        "\nunit item, the limits of the shipped suites, passed / failed in percent; {gates} gates at the limit, {fewer} elsewhere\n"
    );
    println!(
        "| suite | limit | spread of the drop | drop 0 | half the limit | the limit | twice the limit |\n|---|---|---|---|---|---|---|"
    );
    for layout in [QUICK, MINIMAL, HTEB_ENGLISH, HTEB_MULTILINGUAL, PTEB] {
        let limit = layout.limit;
        for spread in [Spread::Even, Spread::Rare, Spread::OneDataset] {
            let cell = |layout: &Layout, drop: f64, gates: usize| {
                if spread == Spread::OneDataset && drop * layout.groups() > 100.0 {
                    return Ok("–".to_owned());
                }
                let (passed, failed) = layout.simulate(drop, spread, limit, ALPHA, gates, SEED)?;
                let share = |count: usize| 100.0 * count as f64 / gates as f64;
                let wrong = clopper_pearson_lower(passed as u64, gates as u64, 0.01) > ALPHA;
                let mark = if drop >= limit && wrong { "!" } else { "" };
                Ok::<String, StatsError>(format!("{:.1}{mark} / {:.1}", share(passed), share(failed)))
            };
            println!(
                "| {} | {limit} | {spread:?} | {} | {} | {} | {} |",
                layout.name,
                cell(&layout, 0.0, fewer)?,
                cell(&layout, limit / 2.0, fewer)?,
                cell(&layout, limit, gates)?,
                cell(&layout, 2.0 * limit, fewer)?
            );
        }
    }
    Ok(())
}

/// Groups as units: share decided at drop 0, half and twice the limit, with the suites' numbers of
/// groups.
#[allow(clippy::print_stdout)]
fn power(gates: usize) -> Result<(), StatsError> {
    let candidates = [
        Candidate::Bounded,
        Candidate::Studentised,
        Candidate::Student,
        Candidate::SignedRank,
    ];
    println!("\nunit group, normal drops with a standard deviation of 2.5 points between groups, limit 3 points:");
    println!("passed / failed in percent, {gates} gates a cell\n");
    let names: Vec<&str> = candidates.iter().map(|one| one.name()).collect();
    println!(
        "| groups | drop | {} |\n|---|---|{}",
        names.join(" | "),
        "---|".repeat(names.len())
    );
    for (suite, n) in [
        ("3 (quick)", 3),
        ("7 (minimal)", 7),
        ("13 (hteb-multilingual)", 13),
        ("19 (hteb-english)", 19),
        ("20 (pteb)", 20),
        ("80", 80),
        ("150", 150),
    ] {
        for drop in [0.0, 1.5, 6.0] {
            let law = Law::of_units("normal", Shape::Normal { mean: drop, sd: 2.5 });
            let settings = Settings {
                limit: 3.0,
                ..settings(&law, gates)
            };
            let found = simulate(&candidates, &settings, |rng| (0..n).map(|_| law.draw(rng)).collect())?;
            let cells: Vec<String> = found
                .iter()
                .map(|one| {
                    let share = |count: usize| 100.0 * count as f64 / gates as f64;
                    format!("{:.0} / {:.0}", share(one.passed), share(one.failed))
                })
                .collect();
            println!("| {suite} | {drop} | {} |", cells.join(" | "));
        }
    }
    Ok(())
}

fn main() -> Result<(), StatsError> {
    let mut args = std::env::args().skip(1);
    let gates = args.next().and_then(|arg| arg.parse().ok()).unwrap_or(4_000);
    let only = args.next();
    let law = args.next();
    let chosen = |all: Vec<Law>| -> Vec<Law> {
        let named = |one: &Law| law.as_deref().is_none_or(|law| one.name.contains(law));
        all.into_iter().filter(named).collect()
    };
    let asked = |part: &str| only.as_deref().is_none_or(|only| only == part);
    if asked("units") {
        table(gates, "units: data sets or groups", chosen(laws::of_units()), &UNITS)?;
        if law.is_none() {
            clustered(gates)?;
        }
    }
    if asked("many") {
        table(gates, "many units", chosen(laws::of_units()), &MANY)?;
    }
    if asked("power") {
        power(gates / 2)?;
    }
    if asked("items") {
        table(gates, "items of one data set", chosen(laws::of_items()), &ITEMS)?;
    }
    if asked("shared") {
        shared_texts(gates)?;
    }
    if asked("strata") {
        strata(gates, gates / 10)?;
    }
    Ok(())
}
