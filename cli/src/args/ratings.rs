//! `isomer ratings …`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use isomer_proto::transform::v1::JudgeScale;

/// `isomer ratings …`
#[derive(Subcommand, Debug)]
pub(crate) enum RatingsCommand {
    /// Draw rewrites at random and write them as CSV, for people to rate.
    #[command(
        after_help = "RUN is a report's folder, its report.json, or the id of a run with a judge. Raters fill in one column each and do not\nsee the judge's ratings. Keep column `id` and the order of rows; a sheet that is rated from the top down to some\nrow is a random draw too. Examples:\n  isomer check --judge openai:gemma3:27b@http://localhost:11434/v1 --judge-sample 0 --items\n  isomer ratings sheet isomer-report --raters 2 --out sheet.csv"
    )]
    Sheet(SheetArgs),
    /// Read the ratings: the share of faithful rewrites with an exact bound, raters and judge side
    /// by side, drift against ratings.
    #[command(
        after_help = "FILE is the sheet with its ratings, or any CSV with a column `id` as in the sheet and a column of numbers for each\nrater; empty cells are missing ratings. Examples:\n  isomer ratings report isomer-report --ratings sheet.csv\n  isomer ratings report 01JD9QF0ZC7T --server 127.0.0.1:50051 --ratings fluency.csv --scale fluency --accept 3"
    )]
    Report(RatingsReportArgs),
}

/// The rewrites that are rated.
#[derive(Args, Debug)]
pub(crate) struct RatedRunArgs {
    /// The check: a report's folder or report.json, or the id of a run.
    #[arg(value_name = "RUN")]
    pub(crate) check: String,
    /// Scale of the ratings; the run's judge has rated on it too.
    #[arg(long, env = "ISOMER_RATINGS_SCALE", value_enum, default_value_t = JudgeScale::Similarity)]
    pub(crate) scale: JudgeScale,
    /// Lowest mean rating of a faithful rewrite [default: the run's --judge-accept; 3 for quality
    /// and fluency].
    #[arg(long, env = "ISOMER_RATINGS_ACCEPT", value_name = "RATING")]
    pub(crate) accept: Option<f64>,
}

/// `isomer ratings sheet`
#[derive(Args, Debug)]
pub(crate) struct SheetArgs {
    #[command(flatten)]
    pub(crate) run: RatedRunArgs,
    /// Rewrites to rate.
    #[arg(long, env = "ISOMER_RATINGS_REWRITES", value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) rewrites: u32,
    /// Columns for raters.
    #[arg(long, env = "ISOMER_RATERS", value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) raters: u32,
    /// File to write; `-`: stdout.
    #[arg(long, env = "ISOMER_SHEET", value_name = "FILE", default_value = "sheet.csv")]
    pub(crate) out: PathBuf,
}

/// `isomer ratings report`
#[derive(Args, Debug)]
pub(crate) struct RatingsReportArgs {
    #[command(flatten)]
    pub(crate) run: RatedRunArgs,
    /// CSV with the ratings; `-`: stdin.
    #[arg(long, env = "ISOMER_RATINGS", value_name = "FILE")]
    pub(crate) ratings: PathBuf,
    /// Confidence level of the bound.
    #[arg(long, env = "ISOMER_RATINGS_CONFIDENCE", default_value_t = 0.95)]
    pub(crate) confidence: f64,
    /// The rated rewrites were drawn at random, but not by `isomer ratings sheet`. Without
    /// it, a rewrite that the sheet draws before the last rated one counts as not faithful.
    #[arg(long, env = "ISOMER_DRAWN_ELSEWHERE", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) drawn_elsewhere: bool,
    /// Folder for ratings.json, ratings.html and ratings.md.
    #[arg(
        long,
        env = "ISOMER_RATINGS_OUT",
        default_value = "isomer-ratings",
        value_name = "DIR"
    )]
    pub(crate) out: PathBuf,
}
