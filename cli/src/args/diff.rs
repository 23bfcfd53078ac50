//! `isomer diff`

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// `isomer diff`
#[derive(Args, Debug)]
#[command(
    after_help = "OLD and NEW are each a report's folder, its report.json, or the id of a run. The items behind a run's scores are\nread from items.json beside the report (`isomer check --items`), else from where the run is kept: this machine,\nor --server. Examples:\n  isomer diff released/report.json isomer-report\n  isomer diff 01JD3K2M8XW5 01JD9QF0ZC7T --server 127.0.0.1:50051\n  isomer check --model new --model old --items && isomer diff isomer-report isomer-report --old-encoder old --new-encoder new"
)]
pub(crate) struct DiffArgs {
    /// The earlier check: a report's folder or report.json, or the id of a run.
    #[arg(value_name = "OLD")]
    pub(crate) old: String,
    /// The later check. It may be the same one, for two of its encoders.
    #[arg(value_name = "NEW")]
    pub(crate) new: String,
    /// Encoder of OLD [default: the only one].
    #[arg(long, env = "ISOMER_OLD_ENCODER", value_name = "ID")]
    pub(crate) old_encoder: Option<String>,
    /// Encoder of NEW [default: the only one].
    #[arg(long, env = "ISOMER_NEW_ENCODER", value_name = "ID")]
    pub(crate) new_encoder: Option<String>,
    /// A query is right if a relevant document is among its first K; overlap is that of the first
    /// K. At most 20.
    #[arg(long, env = "ISOMER_DIFF_K", value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub(crate) k: u32,
    /// Persistence of rank-biased overlap, between 0 and 1: how much deeper ranks count.
    #[arg(long, env = "ISOMER_PERSISTENCE", value_name = "P", default_value_t = 0.9)]
    pub(crate) persistence: f64,
    /// On whose original texts the thresholds of pairs are chosen.
    #[arg(long, env = "ISOMER_THRESHOLD", value_enum, default_value_t = ThresholdArg::Old)]
    pub(crate) threshold: ThresholdArg,
    /// How many items that lose most to show of each data set.
    #[arg(long, env = "ISOMER_WORST", value_name = "N", default_value_t = 10)]
    pub(crate) worst: usize,
    /// Where the two checks have other data sets, texts, transformations or seeds, compare what
    /// they share, and list the rest as left out.
    #[arg(long, env = "ISOMER_DIFF_SHARED_ONLY", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) shared: bool,
    /// Compare other rewrites of the same texts, e.g. of two generators with one encoder.
    #[arg(long, env = "ISOMER_OTHER_REWRITES", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) other_rewrites: bool,
    /// Folder for diff.json, diff.html and diff.md.
    #[arg(long, env = "ISOMER_DIFF_OUT", default_value = "isomer-diff", value_name = "DIR")]
    pub(crate) out: PathBuf,
}

/// The encoder whose original texts give the thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ThresholdArg {
    /// The old encoder, for both, as in a service that keeps its threshold.
    Old,
    /// Each encoder for itself, as in a service that chooses its threshold again.
    Each,
}
