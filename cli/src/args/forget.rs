//! `isomer forget`

use std::path::PathBuf;

use clap::Args;

use super::FleetArgs;

/// `isomer forget`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  isomer forget --text-file letter.txt --plan          says what would be removed, and removes nothing
  isomer forget --text-file letter.txt --store s3://bucket/isomer --engine nats://queue:4222

The stores of the configuration are used directly, while servers and workers may go on. They keep vectors of recent
answers, and texts that wait to be made into variants, in memory until they end: restart them afterwards.")]
pub(crate) struct ForgetArgs {
    /// File with one text (UTF-8), as it was sent; may be given several times. White space around
    /// it does not count.
    #[arg(long, required = true, value_name = "FILE")]
    pub(crate) text_file: Vec<PathBuf>,
    /// Say what would be removed, and remove nothing.
    #[arg(long)]
    pub(crate) plan: bool,
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
}
