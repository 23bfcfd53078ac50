//! The promises of the README, tested with the command and its servers as started by users.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod arrows;
mod bad_input;
mod check;
mod check_rounds;
mod diff;
mod fleet;
mod fleet_corpus;
mod fleet_index;
mod fleet_limits;
mod fleet_trace;
mod fleet_units;
mod fleet_view;
mod full_disk;
mod gains;
mod gateway;
mod identity;
mod index_compare;
mod judge;
mod level;
mod monitoring;
mod noise;
mod pairs_and_tokens;
mod profiles;
mod provider;
mod providers;
mod ratings;
mod released;
mod replicas;
mod separation;
mod serve;
mod stats;
mod store;
mod thresholds;
mod transform;
