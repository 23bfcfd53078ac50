//! Tasks and statistics over gRPC, and runs from their start to their report.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub
)]

mod augmented;
mod clsd;
mod comparisons;
mod harness;
mod hub;
mod languages;
mod mteb;
mod mutation_table;
mod mutations;
mod prompts;
mod run_attempts;
mod run_bets;
mod run_corpus;
mod run_diff;

mod run_gate;
mod run_gate_killed;
mod run_history;
mod run_judge;
mod run_languages;
mod run_ledger;
mod run_numbers;
mod run_owners;
mod run_paired_rules;
mod run_pipeline;
mod run_plan;
mod run_power;
mod run_prompts;
mod run_report;
mod run_search_forms;
mod run_second_level;
mod run_separation;
mod run_stubs;
mod run_thresholds;
mod run_variants;
mod run_versions;
mod score_keys;
mod search;
mod services;
mod sts_benchmark;

#[allow(dead_code, reason = "shared with the tests of data sets")]
#[path = "../../../crates/datasets/tests/it/list_datasets.rs"]
mod list_datasets;
#[path = "../../../crates/datasets/tests/it/published.rs"]
mod published;
#[path = "../../../crates/report/tests/it/schema_check.rs"]
mod schema_check;
#[allow(dead_code, reason = "shared with the tests of scoring")]
#[path = "../../../crates/scoring/tests/it/support.rs"]
mod support;
