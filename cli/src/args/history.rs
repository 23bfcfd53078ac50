//! `isomer history`

use std::path::PathBuf;

use clap::Args;
use isomer_proto::eval::v1::{HistoryQuantity, HistoryReference};

/// `isomer history`
#[derive(Args, Debug)]
#[command(
    after_help = "Without RUN, every run that is kept counts: on this machine, or at --server. A RUN is a report's folder, its\nreport.json, or the id of a run. Checks of another suite, metric profile, baseline or other texts are left out, and\nlisted with the reason. Examples:\n  isomer history my-encoder --server 127.0.0.1:50051\n  isomer history my-encoder --margin 0.5 --of original --against first\n  isomer history my-encoder reports/2026-09 reports/2026-10 reports/2026-11"
)]
pub(crate) struct HistoryArgs {
    /// Encoder id.
    #[arg(value_name = "ENCODER")]
    pub(crate) encoder: String,
    /// The checks [default: every run that is kept].
    #[arg(value_name = "RUN")]
    pub(crate) checks: Vec<String>,
    /// Beginning of the digest of the suite [default: that of the newest check].
    #[arg(long, env = "ISOMER_SUITE_DIGEST", value_name = "DIGEST")]
    pub(crate) suite_digest: Option<String>,
    /// The score that releases are compared by.
    #[arg(long, env = "ISOMER_OF", value_enum, default_value_t = HistoryQuantity::Total)]
    pub(crate) of: HistoryQuantity,
    /// Reference that each release is compared with.
    #[arg(long, env = "ISOMER_AGAINST", value_enum, default_value_t = HistoryReference::Baseline)]
    pub(crate) against: HistoryReference,
    /// How much worse a release may be, in points.
    #[arg(long, env = "ISOMER_MARGIN", value_name = "POINTS", default_value_t = 1.0)]
    pub(crate) margin: f64,
    /// Chance that any release that is worse by the margin is ever called non-inferior, over all
    /// releases: look k spends alpha / (k (k + 1)).
    #[arg(long, env = "ISOMER_HISTORY_ALPHA", value_name = "A", default_value_t = 0.05)]
    pub(crate) alpha: f64,
    /// Releases that were tested before the first of these checks, and whose checks are no longer
    /// kept: their looks have spent their share of alpha.
    #[arg(long, env = "ISOMER_EARLIER", value_name = "N", default_value_t = 0)]
    pub(crate) earlier: u64,
    /// Folder for history.json, history.html and history.md.
    #[arg(
        long,
        env = "ISOMER_HISTORY_OUT",
        default_value = "isomer-history",
        value_name = "DIR"
    )]
    pub(crate) out: PathBuf,
}
