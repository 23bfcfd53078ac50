//! `isomer stats …`

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use isomer_proto::eval::v1::{Alternative, BootstrapMethod, BootstrapStatistic, PairedTest, ZeroMethod};

/// `isomer stats …`
#[derive(Subcommand, Debug)]
pub(crate) enum StatsCommand {
    /// Systems against a reference: shift with intervals, signed-rank, sign-flip and bootstrap
    /// tests, Holm.
    #[command(after_help = "Examples:
  isomer stats compare --input scores.csv --reference all-mpnet-base-v2
  isomer stats compare --input scores.csv --alternative less --zeros pratt --format json")]
    Compare(CompareArgs),
    /// Every system against every other: means with intervals, tests adjusted over all pairs,
    /// significance letters.
    #[command(after_help = "Example: isomer stats pairs --input ratings.csv --test paired-bootstrap")]
    Pairs(PairsArgs),
    /// Ranks over data sets: Friedman's test and Nemenyi's critical difference.
    #[command(after_help = "Example: isomer stats ranks --input scores.csv --alpha 0.05")]
    Ranks(RanksArgs),
    /// How stable a ranking of systems is: Kendall's tau-b, data set by data set, between two
    /// tables of the same systems.
    #[command(after_help = "Example: isomer stats stability --input original.csv --transformed paraphrased.csv")]
    Stability(StabilityArgs),
    /// Split-half reliability of a ranking of systems.
    #[command(after_help = "Example: isomer stats reliability --input scores.csv --strata task")]
    Reliability(ReliabilityArgs),
    /// Adjust p-values for several tests: Holm, and Benjamini and Hochberg.
    #[command(after_help = "Examples:
  isomer stats holm 0.01 0.04 0.03
  isomer stats holm --input tests.csv --column p")]
    Holm(HolmArgs),
    /// Bootstrap interval of a mean, median, Hodges-Lehmann estimate or correlation.
    #[command(after_help = "Examples:
  isomer stats bootstrap --input deltas.csv --statistic hodges-lehmann
  isomer stats bootstrap --input ratings.csv --statistic spearman --column judge,gold --interval bca")]
    Bootstrap(BootstrapArgs),
    /// Pearson's, Spearman's and Kendall's correlation of two columns.
    #[command(after_help = "Example: isomer stats correlation --input ratings.csv --column judge,gold")]
    Correlation(CorrelationArgs),
    /// Agreement of raters, one column each: Gwet's AC1 or AC2 and Krippendorff's alpha. Empty
    /// cells are missing ratings.
    #[command(after_help = "Example: isomer stats agreement --input ratings.csv --weights ordinal --scale 1,2,3,4,5")]
    Agreement(AgreementArgs),
    /// Compute the effect that a design with given numbers of data sets and seeds can detect.
    #[command(after_help = "Examples:
  isomer stats design --input pilot.csv --effect 2          rows: data sets, columns: seeds, cells: differences
  isomer stats design --sd-between 1.5 --sd-seeds 0.4 --datasets 6 --seeds 3")]
    Design(DesignArgs),
}

/// A table of numbers.
#[derive(Args, Debug)]
pub(crate) struct TableArgs {
    /// Table with a header: .csv, .tsv, .json (`{"a": [1, 2]}` or `[{"a": 1}, …]`) or .jsonl; `-`
    /// or nothing: stdin. A column is a system and a row an item or data set; columns without
    /// numbers are labels.
    #[arg(long, env = "ISOMER_STATS_INPUT", value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Only these columns, in this order [default: all that hold numbers].
    #[arg(
        long = "column",
        visible_alias = "columns",
        env = "ISOMER_COLUMNS",
        value_name = "NAME,…",
        value_delimiter = ','
    )]
    pub(crate) columns: Vec<String>,
}

/// How resamples are drawn.
#[derive(Args, Debug)]
pub(crate) struct DrawArgs {
    /// Bootstrap resamples.
    #[arg(long, env = "ISOMER_RESAMPLES", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) resamples: u32,
    /// Confidence level of intervals.
    #[arg(long, env = "ISOMER_CONFIDENCE", default_value_t = 0.95)]
    pub(crate) confidence: f64,
    /// Seed of the draws.
    #[arg(long, env = "ISOMER_STATS_SEED", default_value_t = 1337)]
    pub(crate) seed: u64,
}

/// `isomer stats compare`
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    /// The column that the others are compared with [default: the first].
    #[arg(long, env = "ISOMER_REFERENCE", value_name = "NAME")]
    pub(crate) reference: Option<String>,
    /// Direction in which the others are expected to differ from the reference.
    #[arg(long, env = "ISOMER_ALTERNATIVE", value_enum, default_value_t = Alternative::TwoSided)]
    pub(crate) alternative: Alternative,
    /// How the p-value of the signed-rank test is computed.
    #[arg(long, env = "ISOMER_METHOD", value_enum, default_value_t = MethodArg::Auto)]
    pub(crate) method: MethodArg,
    /// Handling of zero differences in the signed-rank test.
    #[arg(long, env = "ISOMER_ZEROS", value_enum, default_value_t = ZeroMethod::Wilcox)]
    pub(crate) zeros: ZeroMethod,
    /// Correct the normal approximation for continuity.
    #[arg(long, env = "ISOMER_CONTINUITY_CORRECTION", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) continuity_correction: bool,
    #[command(flatten)]
    pub(crate) draws: DrawArgs,
}

/// `isomer stats pairs`
#[derive(Args, Debug)]
pub(crate) struct PairsArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    /// Paired test to run.
    #[arg(long, env = "ISOMER_TEST", value_enum, default_value_t = PairedTest::PairedBootstrap)]
    pub(crate) test: PairedTest,
    /// Pairs whose adjusted p-value lies at or below it differ.
    #[arg(long, env = "ISOMER_STATS_ALPHA", default_value_t = 0.05)]
    pub(crate) alpha: f64,
    #[command(flatten)]
    pub(crate) draws: DrawArgs,
}

/// `isomer stats ranks`
#[derive(Args, Debug)]
pub(crate) struct RanksArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    /// Level of the critical difference.
    #[arg(long, env = "ISOMER_STATS_ALPHA", default_value_t = 0.05)]
    pub(crate) alpha: f64,
}

/// `isomer stats stability`
#[derive(Args, Debug)]
pub(crate) struct StabilityArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    /// The same systems and data sets, transformed.
    #[arg(long, env = "ISOMER_TRANSFORMED", value_name = "FILE")]
    pub(crate) transformed: PathBuf,
}

/// `isomer stats reliability`
#[derive(Args, Debug)]
pub(crate) struct ReliabilityArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    /// Column that names the stratum of a data set, e.g. its task; every half has its share of each
    /// [default: none].
    #[arg(long, env = "ISOMER_STRATA", value_name = "NAME")]
    pub(crate) strata: Option<String>,
    /// Number of random splits.
    #[arg(long, env = "ISOMER_SPLITS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) splits: u32,
    /// Seed of the splits.
    #[arg(long, env = "ISOMER_STATS_SEED", default_value_t = 1337)]
    pub(crate) seed: u64,
}

/// `isomer stats holm`
#[derive(Args, Debug)]
pub(crate) struct HolmArgs {
    /// P-values to adjust.
    #[arg(value_name = "P", conflicts_with_all = ["input", "columns"])]
    pub(crate) p_values: Vec<f64>,
    #[command(flatten)]
    pub(crate) table: TableArgs,
}

/// `isomer stats bootstrap`
#[derive(Args, Debug)]
pub(crate) struct BootstrapArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    /// Of each column; a correlation is one of two columns.
    #[arg(long, env = "ISOMER_STATISTIC", value_enum, default_value_t = BootstrapStatistic::Mean)]
    pub(crate) statistic: BootstrapStatistic,
    /// How the ends of the interval are read off the resamples.
    #[arg(long, env = "ISOMER_INTERVAL", value_enum, default_value_t = BootstrapMethod::Percentile)]
    pub(crate) interval: BootstrapMethod,
    #[command(flatten)]
    pub(crate) draws: DrawArgs,
}

/// `isomer stats correlation`
#[derive(Args, Debug)]
pub(crate) struct CorrelationArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    /// Expected sign.
    #[arg(long, env = "ISOMER_ALTERNATIVE", value_enum, default_value_t = Alternative::TwoSided)]
    pub(crate) alternative: Alternative,
    #[command(flatten)]
    pub(crate) draws: DrawArgs,
}

/// `isomer stats agreement`
#[derive(Args, Debug)]
pub(crate) struct AgreementArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    /// How far apart two ratings are: identity gives AC1, the others AC2.
    #[arg(long, env = "ISOMER_WEIGHTS", value_enum, default_value_t = WeightsArg::Ordinal)]
    pub(crate) weights: WeightsArg,
    /// Every rating that could have been given [default: those that were].
    #[arg(long, env = "ISOMER_STATS_SCALE", value_name = "VALUE,…", value_delimiter = ',')]
    pub(crate) scale: Vec<f64>,
    /// Confidence level of the interval.
    #[arg(long, env = "ISOMER_CONFIDENCE", default_value_t = 0.95)]
    pub(crate) confidence: f64,
}

/// `isomer stats design`
#[derive(Args, Debug)]
pub(crate) struct DesignArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    /// Standard deviation of true differences between data sets [default: the pilot's].
    #[arg(long, env = "ISOMER_SD_BETWEEN", value_name = "SD")]
    pub(crate) sd_between: Option<f64>,
    /// Standard deviation over seeds within a data set [default: the pilot's].
    #[arg(long, env = "ISOMER_SD_SEEDS", value_name = "SD")]
    pub(crate) sd_seeds: Option<f64>,
    /// Data sets [default: the pilot's].
    #[arg(long, env = "ISOMER_DATASETS", value_name = "N")]
    pub(crate) datasets: Option<u32>,
    /// Seeds [default: the pilot's].
    #[arg(long, env = "ISOMER_STATS_SEEDS", value_name = "N")]
    pub(crate) seeds: Option<u32>,
    /// An effect to detect; the result has its probability, and the design that it needs.
    #[arg(long, env = "ISOMER_EFFECT")]
    pub(crate) effect: Option<f64>,
    /// Chance of a false alarm.
    #[arg(long, env = "ISOMER_STATS_ALPHA", default_value_t = 0.05)]
    pub(crate) alpha: f64,
    /// Chance of detection.
    #[arg(long, env = "ISOMER_POWER", default_value_t = 0.8)]
    pub(crate) power: f64,
    /// One-sided or two-sided.
    #[arg(long, env = "ISOMER_ALTERNATIVE", value_enum, default_value_t = Alternative::TwoSided)]
    pub(crate) alternative: Alternative,
    /// Plan for Student's t instead of the signed-rank test.
    #[arg(long, env = "ISOMER_STUDENT", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) student: bool,
}

/// How a signed-rank p-value is computed.
#[derive(ValueEnum, Debug, Clone, Copy)]
pub(crate) enum MethodArg {
    /// As scipy chooses.
    Auto,
    /// The distribution of untied ranks.
    Exact,
    /// Exact given ties and zeros.
    Conditional,
    /// Normal approximation.
    Normal,
}

/// How far apart two ratings are.
#[derive(ValueEnum, Debug, Clone, Copy)]
pub(crate) enum WeightsArg {
    /// The same or not.
    Identity,
    /// By the scale's steps, as Gwet's ordinal weights.
    Ordinal,
    /// By their difference.
    Linear,
    /// By its square.
    Quadratic,
}
