//! `isomer store …`

use std::time::Duration;

use clap::{Args, Subcommand};
use isomer_access::read_span;

/// `isomer store`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  isomer store usage --store s3://bucket/isomer
  isomer store gc --store s3://bucket/isomer                    says what would be removed, and removes nothing
  isomer store gc --store s3://bucket/isomer --forget-runs 90d --delete")]
pub(crate) struct StoreArgs {
    /// Store that all machines share: a folder, or s3://BUCKET/PREFIX, gs://… or az://… [default:
    /// the configuration's store.url].
    #[arg(long, global = true, env = "ISOMER_STORE", value_name = "URL")]
    pub(crate) store: Option<String>,
    #[command(subcommand)]
    pub(crate) command: StoreCommand,
}

/// `isomer store …`
#[derive(Subcommand, Debug)]
pub(crate) enum StoreCommand {
    /// Number and size of what the store holds, by kind and by run.
    Usage,
    /// Find what no run relies on, and remove it with --delete. It may be interrupted and run
    /// again, while runs and workers use the store.
    Gc(GcArgs),
}

/// `isomer store gc`
#[derive(Args, Debug)]
pub(crate) struct GcArgs {
    /// Remove what was found. Without this option nothing is written or removed.
    #[arg(long)]
    pub(crate) delete: bool,
    /// Remove only what is older, e.g. 30d, 12h.
    #[arg(long, value_name = "AGE", default_value = "1d", value_parser = age)]
    pub(crate) older_than: Duration,
    /// Runs that have given no sign of life for so long (at least 2d) no longer keep what they
    /// relied on [default: the configuration's store.keep_runs_days, else never].
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) forget_runs: Option<Duration>,
    /// How long a new file may take to be seen by all machines; a removal is announced for so long
    /// [default: 2m for a folder, which a network file system may show late, else 5s].
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(crate) settle: Option<Duration>,
}

fn age(text: &str) -> Result<Duration, String> {
    read_span(text)
        .ok_or_else(|| format!("`{text}` is not a while; write a number with its unit, e.g. 30d, 12h or 90s"))
}
