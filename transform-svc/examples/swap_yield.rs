//! The yield of multi_swap: the share of a data set's positive pairs whose second sentence can be
//! swapped three times, next to PARTIAL's table 3 (PAWS-Wiki 1382 of 3536, 39.1 %; PAWS-QQP 63 of
//! 191, 33.0 %).
//!
//! ```text
//! cargo run --release -p isomer-transform --example swap_yield -- PawsXPairClassification/validation.en.jsonl
//! ```
//! Rows are JSONL with `sentence1`, `sentence2` and `label`; those with label 1 are positive.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use std::{fs, process::ExitCode, time::Instant};

use isomer_transform::rules::multi_swap::{GROUPS, SwapError, multi_swap, tagger_for};
use serde_json::Value;

fn run(path: &str) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|e| format!("cannot read {path}: {e}"))?;
    let tagger = tagger_for(None)?;
    let (mut positive, mut survived, mut by_groups) = (0_u32, 0_u32, [0_u32; 4]);
    let began = Instant::now();
    for (number, line) in text.lines().enumerate() {
        let row: Value = serde_json::from_str(line).map_err(|e| format!("{path}: line {}: {e}", number + 1))?;
        if row["label"].as_i64() != Some(1) {
            continue;
        }
        let sentence = row["sentence2"]
            .as_str()
            .ok_or_else(|| format!("{path}: line {}: no sentence2", number + 1))?;
        positive += 1;
        match multi_swap(&tagger, sentence, GROUPS, 1337, "", &number.to_string()) {
            Ok(variants) => {
                survived += 1;
                by_groups[3] += 1;
                if survived <= 3 {
                    println!(
                        "{sentence}\n  1: {}\n  2: {}\n  3: {}",
                        variants[0], variants[1], variants[2]
                    );
                }
            }
            Err(SwapError::TooFewGroups { found }) => by_groups[found.min(2)] += 1,
            Err(SwapError::NothingChanges) => {}
        }
    }
    let share = 100.0 * f64::from(survived) / f64::from(positive.max(1));
    println!("{path}: {survived} of {positive} positive pairs survive three swaps: {share:.1} %");
    println!(
        "without: {} with no group, {} with one, {} with two; {:.0} sentences/s",
        by_groups[0],
        by_groups[1],
        by_groups[2],
        f64::from(positive) / began.elapsed().as_secs_f64()
    );
    println!("PARTIAL: 39.1 % of PAWS-Wiki (1382 of 3536), 33.0 % of PAWS-QQP (63 of 191)");
    Ok(())
}

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("give a file of pairs with labels");
        return ExitCode::FAILURE;
    };
    match run(&path) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
