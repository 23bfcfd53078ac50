//! `isomer report …`

use std::path::PathBuf;

use clap::Args;

#[cfg(feature = "evidence")]
use super::evidence::ReportCommand;

/// `isomer report`
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  isomer report --input isomer-report/report.json --out again
  isomer report export --report isomer-report/report.json --form cyclonedx --form model-card
  isomer report attest --report isomer-report/report.json --key key.pem --out isomer-report
  isomer report verify isomer-report/attestation.dsse.json --report isomer-report/report.json --key key.pub --model ./encoder
The schema of report.json: eval-svc/schema/report-1.json"
)]
pub(crate) struct ReportArgs {
    /// The report.json of a check.
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) input: Option<PathBuf>,
    /// Folder for report.json, report.html, report.md and junit.xml.
    #[arg(long, default_value = "isomer-report", value_name = "DIR")]
    pub(crate) out: PathBuf,
    #[cfg(feature = "evidence")]
    #[command(subcommand)]
    pub(crate) command: Option<ReportCommand>,
}
