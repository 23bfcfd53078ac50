//! `isomer index migrate …`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use isomer_index::chunk::Chunking;

use super::{EngineArgs, IndexEncoderArgs, IndexPassArgs, IndexSourceArgs, heading};

/// `isomer index migrate …`
#[derive(Subcommand, Debug)]
pub(crate) enum IndexMigrateCommand {
    /// Begin: make the new collection, and have `isomer index run` write to both from now on.
    #[command(after_help = "\
The flags of the encoder, --chunk and --with-text are those of the new collection. With pgvector, a table that has the name is renamed
NAME_1, and a view takes its place; the new table is NAME_2.
Example: isomer index migrate start postgres://me@127.0.0.1/search#docs --model multi-qa-MiniLM-L6-cos-v1")]
    Start(Box<MigrateStartArgs>),
    /// Fill the new collection, and bring the old one up to date.
    #[command(after_help = "\
The source and its columns are those of `isomer index run`. May be killed and repeated: rows that are there are not encoded again.
Example: isomer index migrate backfill postgres://me@127.0.0.1/search#docs --source docs.jsonl --payload title,lang --build-index")]
    Backfill(Box<MigrateBackfillArgs>),
    /// Search both collections for the same queries, and note how far their lists agree.
    #[command(after_help = "\
Exit codes: 0 noted, 1 the lists agree less than --min-overlap, 2 usage, 3 it cannot be compared.
Example: isomer index migrate compare postgres://me@127.0.0.1/search#docs --queries queries.jsonl --min-overlap 0.5")]
    Compare(Box<MigrateCompareArgs>),
    /// Give readers the new collection, at once for all.
    Switch(MigrateSwitchArgs),
    /// Give readers the old collection again.
    RollBack(MigrateNameArgs),
    /// End with the new collection, and drop the old one.
    Finish(MigrateNameArgs),
    /// End with the old collection, and drop the new one.
    Abandon(MigrateNameArgs),
    /// Say what readers get, and which step is due.
    Status(MigrateNameArgs),
}

/// The name alone.
#[derive(Args, Debug)]
pub(crate) struct MigrateNameArgs {
    /// Name that readers search, e.g. postgres://USER@HOST/DATABASE#docs.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// `isomer index migrate start`
#[derive(Args, Debug)]
pub(crate) struct MigrateStartArgs {
    /// Name that readers search, e.g. postgres://USER@HOST/DATABASE#docs.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Collection that a name which does not exist yet is to lead to [default: the one that has the
    /// name].
    #[arg(long, value_name = "COLLECTION")]
    pub(crate) from: Option<String>,
    /// Divide texts, as in `isomer index run`.
    #[arg(long, env = "ISOMER_INDEX_CHUNK", value_name = "HOW", default_value = "none")]
    pub(crate) chunk: Chunking,
    /// Keep the texts in the new collection.
    #[arg(long, env = "ISOMER_INDEX_WITH_TEXT", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) with_text: bool,
    #[command(flatten)]
    pub(crate) encoder: IndexEncoderArgs,
}

/// `isomer index migrate backfill`
#[derive(Args, Debug)]
pub(crate) struct MigrateBackfillArgs {
    /// Name that readers search, e.g. postgres://USER@HOST/DATABASE#docs.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The source, as in `isomer index run`.
    #[arg(
        long,
        env = "ISOMER_INDEX_SOURCE",
        hide_env_values = true,
        value_name = "FILE_OR_URL"
    )]
    pub(crate) source: String,
    #[command(flatten)]
    pub(crate) pass: IndexPassArgs,
    #[command(flatten)]
    pub(crate) columns: IndexSourceArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

/// `isomer index migrate compare`
#[derive(Args, Debug)]
pub(crate) struct MigrateCompareArgs {
    /// Name that readers search, e.g. postgres://USER@HOST/DATABASE#docs.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Queries, as in `isomer index compare`.
    #[arg(long, env = "ISOMER_INDEX_QUERIES", value_name = "FILE")]
    pub(crate) queries: PathBuf,
    /// Judgements, as in `isomer index compare`.
    #[arg(long, env = "ISOMER_INDEX_QRELS", value_name = "FILE")]
    pub(crate) qrels: Option<PathBuf>,
    /// Documents of a list.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) k: u32,
    /// Searches at once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256), help_heading = heading::REQUESTS)]
    pub(crate) in_flight: u32,
    /// Least mean overlap of the lists (0 to 1) with which the comparison is noted [default: any].
    #[arg(long, value_name = "SHARE")]
    pub(crate) min_overlap: Option<f64>,
    /// Seed of the bootstrap.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = heading::INTERVALS)]
    pub(crate) sample_seed: u64,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

/// `isomer index migrate switch`
#[derive(Args, Debug)]
pub(crate) struct MigrateSwitchArgs {
    /// Name that readers search, e.g. postgres://USER@HOST/DATABASE#docs.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Switch although the lists were not compared.
    #[arg(long)]
    pub(crate) uncompared: bool,
}
