//! `isomer index compare`, `robustness`, `interleave` and `preference`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use isomer_index::compare::rules::RuleLimit;

use super::{AugmentArgs, EngineArgs, index_older::OlderCollectionArgs};
use crate::heading;
use isomer_proto::eval::v1::GateUndecided;

/// Queries, and how they are searched for.
#[derive(Args, Debug)]
pub(crate) struct IndexSearchArgs {
    /// File with the queries.
    #[arg(long, env = "ISOMER_INDEX_QUERIES", value_name = "FILE")]
    pub(crate) queries: PathBuf,
    /// Documents of a list.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) k: u32,
    /// Searches at once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256), help_heading = heading::REQUESTS)]
    pub(crate) in_flight: u32,
}

/// Judgements and rules that lists are compared with.
#[derive(Args, Debug)]
pub(crate) struct IndexJudgedArgs {
    /// Judgements [default: none, so that only overlaps are reported].
    #[arg(long, env = "ISOMER_INDEX_QRELS", value_name = "FILE")]
    pub(crate) qrels: Option<PathBuf>,
    /// Search exactly too, where the store can (pgvector, Qdrant, Parquet), and report the share of
    /// its documents that the index finds. It compares every vector for every query.
    #[arg(long)]
    pub(crate) index_recall: bool,
}

/// How intervals are made.
#[derive(Args, Debug)]
#[command(next_help_heading = heading::INTERVALS)]
pub(crate) struct IndexIntervalArgs {
    /// Confidence level of the intervals.
    #[arg(long, default_value_t = 0.95)]
    pub(crate) level: f64,
    /// Samples of the bootstrap.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub(crate) resamples: u32,
    /// Seed of the bootstrap.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) sample_seed: u64,
}

/// Rules, and how they are decided.
#[derive(Args, Debug)]
#[command(next_help_heading = heading::GATE)]
pub(crate) struct IndexGateArgs {
    /// A rule that the comparison must keep; repeat for several. `margin=N` (or `max_drop=N`): of B
    /// against A, or of other words against the original ones, at most N points lower, `of=ndcg`
    /// (default), recall or mrr; it needs --qrels. `min_overlap=N`: at least N percent of the first
    /// k documents are the same. `min_index_recall=N`: each index finds at least N percent of the
    /// documents of an exact search.
    #[arg(long = "rule", env = "ISOMER_INDEX_RULES", value_name = "LIMIT=N[,of=MEASURE]", value_delimiter = ';', value_parser = str::parse::<RuleLimit>, help_heading = heading::FIRST)]
    pub(crate) rules: Vec<RuleLimit>,
    /// Chance of error of each rule on each side, above 0 and below 0.5.
    #[arg(long, env = "ISOMER_INDEX_GATE_ALPHA", value_name = "ALPHA", default_value_t = 0.05)]
    pub(crate) gate_alpha: f64,
    /// Handling of a gate that the queries leave undecided: it blocks with exit code 4, is a
    /// warning, or counts as failed [default: block].
    #[arg(long, env = "ISOMER_INDEX_UNDECIDED", value_enum, help_heading = heading::FIRST)]
    pub(crate) undecided: Option<GateUndecided>,
}

/// `isomer index compare`
#[derive(Args, Debug)]
pub(crate) struct IndexCompareArgs {
    /// The first collection.
    #[arg(value_name = "A")]
    pub(crate) first: String,
    /// The second collection.
    #[arg(value_name = "B")]
    pub(crate) second: String,
    #[command(flatten)]
    pub(crate) search: IndexSearchArgs,
    #[command(flatten)]
    pub(crate) judged: IndexJudgedArgs,
    /// Have this language model rate how alike queries and the documents found are (0 to 5). Such a
    /// rating is not relevance; with --qrels its agreement with the judgements is reported too.
    /// `default`: the server's generator.
    #[arg(long, env = "ISOMER_INDEX_JUDGE", value_name = "SPEC")]
    pub(crate) judge: Option<String>,
    /// Texts of the documents for --judge: rows with `id` and `text` [default: those that the
    /// collections keep].
    #[arg(long, value_name = "FILE", requires = "judge")]
    pub(crate) documents: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) gate: IndexGateArgs,
    #[command(flatten)]
    pub(crate) intervals: IndexIntervalArgs,
    #[command(flatten)]
    pub(crate) sides: IndexSidesArgs,
}

/// How queries become vectors.
#[derive(Args, Debug)]
pub(crate) struct IndexSidesArgs {
    /// For which collections queries are augmented as --augment says.
    #[arg(long, value_enum, default_value_t = AugmentedSide::B, requires = "augment", help_heading = heading::AUGMENTATION)]
    pub(crate) augmented_queries: AugmentedSide,
    #[command(flatten)]
    pub(crate) older: OlderCollectionArgs,
    #[command(flatten)]
    pub(crate) augmentation: AugmentArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

/// The collections whose queries are augmented.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AugmentedSide {
    /// The first.
    A,
    /// The second.
    B,
    /// Both collections.
    Both,
}

/// `isomer index interleave`
#[derive(Args, Debug)]
pub(crate) struct IndexInterleaveArgs {
    /// The first collection.
    #[arg(value_name = "A")]
    pub(crate) first: String,
    /// The second collection.
    #[arg(value_name = "B")]
    pub(crate) second: String,
    #[command(flatten)]
    pub(crate) search: IndexSearchArgs,
    /// Lists of each query: one for each time that it is to be shown.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) impressions: u32,
    /// Seed of the coins [default: drawn].
    #[arg(long, value_name = "N")]
    pub(crate) draft_seed: Option<u64>,
    /// Where the lists go, one JSON object a line.
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) lists: PathBuf,
    #[command(flatten)]
    pub(crate) sides: IndexSidesArgs,
}

/// `isomer index preference`
#[derive(Args, Debug)]
pub(crate) struct IndexPreferenceArgs {
    /// The log: a line for each list that was shown, and one for each click.
    #[arg(value_name = "LOG.jsonl")]
    pub(crate) clicks: PathBuf,
    /// The lists that `isomer index interleave` wrote.
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) lists: PathBuf,
    #[command(flatten)]
    pub(crate) intervals: IndexIntervalArgs,
}

/// `isomer index robustness`
#[derive(Args, Debug)]
pub(crate) struct IndexRobustnessArgs {
    /// URL of the collection.
    #[arg(value_name = "COLLECTION")]
    pub(crate) collection: String,
    /// Transformations of the queries (`isomer transform --transformation list`), each by itself.
    #[arg(
        long = "transformation",
        env = "ISOMER_INDEX_TRANSFORMATIONS",
        value_name = "NAME,…",
        value_delimiter = ',',
        required = true
    )]
    pub(crate) transformations: Vec<String>,
    /// Generator of the transformed queries: `local:ID` or `openai:MODEL@URL` [default: the
    /// server's].
    #[arg(long, env = "ISOMER_INDEX_GENERATOR", value_name = "SPEC")]
    pub(crate) generator: Option<String>,
    /// Seed of the transformed queries.
    #[arg(long, env = "ISOMER_INDEX_SEED", default_value_t = 1337, help_heading = heading::GENERATION)]
    pub(crate) seed: u64,
    /// Language of the queries (BCP-47) [default: detected].
    #[arg(long, env = "ISOMER_INDEX_LANGUAGE", value_name = "LANG", help_heading = heading::GENERATION)]
    pub(crate) language: Option<String>,
    /// Nothing is decided where a larger share of the queries stayed as they were, 0 to 1.
    #[arg(long, env = "ISOMER_INDEX_MAX_UNCHANGED", value_name = "SHARE", default_value_t = 0.1, help_heading = heading::GATE)]
    pub(crate) max_unchanged: f64,
    #[command(flatten)]
    pub(crate) search: IndexSearchArgs,
    #[command(flatten)]
    pub(crate) judged: IndexJudgedArgs,
    #[command(flatten)]
    pub(crate) intervals: IndexIntervalArgs,
    #[command(flatten)]
    pub(crate) gate: IndexGateArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}
