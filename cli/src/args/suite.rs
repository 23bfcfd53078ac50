//! `isomer suite`

use clap::Subcommand;

/// `isomer suite`
#[derive(Subcommand, Debug)]
#[command(after_help = "Examples:
  isomer suite list
  isomer suite show quick > suite.toml
  isomer suite keys
  isomer check --suite suite.toml")]
pub(crate) enum SuiteCommand {
    /// List the shipped suites.
    List,
    /// Print a shipped suite, as a start for your own.
    Show {
        /// Its name, as in `isomer suite list`.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Print every key of a suite file, with its meaning and default.
    Keys,
}
