//! `isomer eval --augment`: several settings in one run.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::heading;

/// Settings of augmentation that are compared, and where the result goes.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = heading::SETTINGS)]
pub(crate) struct GainArgs {
    /// Settings to compare with plain vectors; repeat or separate by commas for several [default:
    /// together].
    #[arg(
        long,
        env = "ISOMER_AUGMENT_SETTINGS",
        value_enum,
        value_delimiter = ',',
        requires = "augment",
        value_name = "WHICH,…",
        help_heading = heading::FIRST,
    )]
    pub(crate) settings: Vec<SettingsArg>,
    /// Write gains.json, gains.md and gains.html there, and keep each score, so that the same
    /// command resumes.
    #[arg(long, env = "ISOMER_GAINS_OUT", value_name = "DIR", requires = "augment", help_heading = heading::FIRST)]
    pub(crate) out: Option<PathBuf>,
    /// Compute every score again, whatever --out keeps. Generated texts still come from the cache.
    #[arg(long, requires = "out")]
    pub(crate) fresh: bool,
    /// Measure times too, with this many runs of each setting, every text generated anew.
    #[arg(long, env = "ISOMER_TIMED_RUNS", value_name = "N", requires = "augment", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) timed_runs: Option<u32>,
    /// Rows of each timed run, drawn anew for each [default: 16].
    #[arg(long, env = "ISOMER_TIMED_ROWS", value_name = "N", requires = "timed_runs", value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) timed_rows: Option<u32>,
}

/// A family of settings.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettingsArg {
    /// All transformations by all generators at once.
    Together,
    /// Each transformation by itself, by the first generator.
    Each,
    /// Every two or more of the transformations, by the first generator.
    Combinations,
    /// Each transformation by each generator alone, and by the first two, three and so on.
    Generators,
    /// All at once with the original at 0, 0.25, 0.5 and 0.75 of the weight.
    Weights,
    /// Retrieval and reranking: every other setting with the queries alone augmented too.
    QueriesOnly,
}
