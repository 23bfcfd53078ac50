//! `isomer index …`

pub(crate) mod migrate;

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use isomer_access::read_span;
use isomer_index::chunk::Chunking;
use isomer_proto::encoder::v1::Output;

use migrate::IndexMigrateCommand;

use super::{
    AugmentArgs, EngineArgs, FleetArgs,
    index_compare::{IndexCompareArgs, IndexInterleaveArgs, IndexPreferenceArgs, IndexRobustnessArgs},
    index_older::OlderCollectionArgs,
};
use crate::heading;

/// `isomer index …`
#[derive(Subcommand, Debug)]
pub(crate) enum IndexCommand {
    /// Fill a collection of vectors from a source, or bring it up to date: only rows that changed
    /// are encoded and written. Run the same command again to resume an interrupted run.
    #[command(after_help = format!("\
Sinks: {}.
A key goes into ISOMER_SINK_API_KEY, or a user and password into ISOMER_SINK_USER and ISOMER_SINK_PASSWORD; PostgreSQL's password
into PGPASSWORD. A collection that is the source takes ISOMER_SOURCE_API_KEY, ISOMER_SOURCE_USER and ISOMER_SOURCE_PASSWORD.
Examples:
  isomer index run --source docs.jsonl --sink postgres://me@127.0.0.1/search#docs --payload title,lang --plan
  isomer index run --source docs.jsonl --sink postgres://me@127.0.0.1/search#docs --payload title,lang --build-index
  isomer index run --source postgres://me@127.0.0.1/shop#products --key sku --text name,description --sink chroma+http://127.0.0.1:8000#shop
  isomer index run --source docs.parquet --chunk tokens=256,overlap=32 --sink vectors --delete
  isomer index run --source docs.jsonl --sink qdrant+http://127.0.0.1:6333#hybrid --model ./bge-m3 --outputs sparse,token-vectors
  isomer index run --source docs.jsonl --sink qdrant+http://127.0.0.1:6333#gase --augment paraphrase,summarisation --server 127.0.0.1:50051
  isomer index run --source docs.jsonl --sink postgres://me@127.0.0.1/search#docs --engine nats://127.0.0.1:4222 --store s3://fleet/isomer", isomer_index::store::addresses()))]
    Run(Box<IndexRunArgs>),
    /// Compute a sample of a collection's vectors again, and compare its rows with their digests
    /// and their source.
    #[command(after_help = "\
The flags of the encoder are those of the run that filled it. Without --source, vectors are computed from texts that the collection
keeps (--with-text).
Exit codes: 0 all is well, 1 rows are missing, extra, outdated, there twice, of another space or another vector, 2 usage, 3 it cannot
be checked.
Example: isomer index verify --source docs.jsonl --sink postgres://me@127.0.0.1/search#docs --payload title,lang --share 0.05")]
    Verify(Box<IndexVerifyArgs>),
    /// Search two collections for the same queries, as their indexes answer.
    #[command(after_help = "\
Queries: rows with `id` and `text`. Judgements: rows with `query-id`, `corpus-id` and `score`, as in BEIR's data sets. Both may be
JSON lines, CSV, TSV or Parquet.
With --rule the exit codes are those of `isomer check`: 0 passed, 1 failed, 4 undecided (see --undecided), 2 usage, 3 it cannot be
compared.
Example: isomer index compare postgres://me@127.0.0.1/search#docs postgres://me@127.0.0.1/search#gase --queries queries.jsonl --qrels test.tsv --rule margin=2")]
    Compare(Box<IndexCompareArgs>),
    /// Move a name to vectors of another encoder, prompt or augmentation while it is searched.
    #[command(subcommand)]
    Migrate(IndexMigrateCommand),
    /// Search a collection for queries and for the same queries in other words: what the change of
    /// words costs, in the index as it answers.
    #[command(after_help = "\
Queries and judgements are those of `isomer index compare`. Exit codes: as there, and 4 where more queries than --max-unchanged stayed
as they were.
Example: isomer index robustness postgres://me@127.0.0.1/search#docs --queries queries.jsonl --qrels test.tsv --transformation paraphrase,keywords --rule max_drop=5")]
    Robustness(Box<IndexRobustnessArgs>),
    /// Interleave the lists of two collections, to be shown to people whose clicks `isomer index
    /// preference` reads.
    #[command(after_help = "\
Each line of the result is {\"impression\", \"query\", \"documents\", \"teams\"}; show the documents in this order, each line once, and
never the teams. The log has a line {\"impression\": ID} for each list that was shown and {\"impression\": ID, \"document\": KEY} for each
click.
Example: isomer index interleave postgres://me@127.0.0.1/search#docs postgres://me@127.0.0.1/search#gase --queries queries.jsonl --lists lists.jsonl")]
    Interleave(Box<IndexInterleaveArgs>),
    /// Measure by clicks which of two interleaved collections people prefer.
    #[command(after_help = "Example: isomer index preference clicks.jsonl --lists lists.jsonl")]
    Preference(IndexPreferenceArgs),
}

impl IndexCommand {
    /// The arithmetic and device that the command names for its encoders.
    pub(super) fn engine(&self) -> EngineArgs {
        match self {
            Self::Run(args) => args.encoder.engine.clone(),
            Self::Verify(args) => args.encoder.engine.clone(),
            Self::Compare(args) => args.sides.engine.clone(),
            Self::Migrate(IndexMigrateCommand::Start(args)) => args.encoder.engine.clone(),
            Self::Migrate(IndexMigrateCommand::Backfill(args)) => args.engine.clone(),
            Self::Migrate(IndexMigrateCommand::Compare(args)) => args.engine.clone(),
            Self::Robustness(args) => args.engine.clone(),
            Self::Interleave(args) => args.sides.engine.clone(),
            Self::Migrate(_) | Self::Preference(_) => EngineArgs::default(),
        }
    }

    /// The queue and store that the command names.
    pub(super) fn fleet(&self) -> FleetArgs {
        match self {
            Self::Run(args) => args.pass.fleet.clone(),
            Self::Migrate(IndexMigrateCommand::Backfill(args)) => args.pass.fleet.clone(),
            _ => FleetArgs::default(),
        }
    }
}

/// Where texts come from.
#[derive(Args, Debug)]
#[command(next_help_heading = heading::SOURCE)]
pub(crate) struct IndexSourceArgs {
    /// Column with the key: a value of its own for each row [default: id].
    #[arg(long, env = "ISOMER_INDEX_KEY", value_name = "COLUMN", help_heading = heading::FIRST)]
    pub(crate) key: Option<String>,
    /// Column with the text; several are joined by a line break [default: text].
    #[arg(
        long = "text",
        env = "ISOMER_INDEX_TEXT",
        value_name = "COLUMN,…",
        value_delimiter = ',',
        help_heading = heading::FIRST,
    )]
    pub(crate) texts: Vec<String>,
    /// Columns that are stored beside the vector; `all`: all others.
    #[arg(long, env = "ISOMER_INDEX_PAYLOAD", value_name = "COLUMN,…", value_delimiter = ',', help_heading = heading::FIRST)]
    pub(crate) payload: Vec<String>,
    /// Query in place of the table of a PostgreSQL source.
    #[arg(long, env = "ISOMER_INDEX_SOURCE_QUERY", value_name = "SQL")]
    pub(crate) source_query: Option<String>,
}

/// How texts become vectors.
#[derive(Args, Debug)]
#[command(next_help_heading = heading::ENCODERS)]
pub(crate) struct IndexEncoderArgs {
    /// Encoder: a catalogue id or a sentence-transformers folder; NAME=DIR gives a folder a name
    /// [default: all-MiniLM-L6-v2].
    #[arg(long, env = "ISOMER_INDEX_MODEL", value_name = "ID_OR_DIR", help_heading = heading::FIRST)]
    pub(crate) model: Option<String>,
    /// Role of the encoder's prompt to put before texts, if it has one [default: document].
    #[arg(long, env = "ISOMER_PROMPT_ROLE", value_enum)]
    pub(crate) prompt_role: Option<PromptRole>,
    /// The prompt of this name instead.
    #[arg(long, env = "ISOMER_INDEX_PROMPT_NAME", conflicts_with = "prompt")]
    pub(crate) prompt_name: Option<String>,
    /// This text instead; empty for none.
    #[arg(long, env = "ISOMER_INDEX_PROMPT")]
    pub(crate) prompt: Option<String>,
    /// Number of dimensions to keep (Matryoshka) [default: all].
    #[arg(long, env = "ISOMER_DIMENSIONS")]
    pub(crate) dimensions: Option<u32>,
    /// Scale to unit length, or not [default: as the encoder does].
    #[arg(long, env = "ISOMER_NORMALISE", value_name = "BOOL")]
    pub(crate) normalise: Option<bool>,
    /// Vectors that are stored beside the dense ones, of the same pass: sparse, token-vectors.
    #[arg(
        long = "outputs",
        env = "ISOMER_INDEX_OUTPUTS",
        value_enum,
        value_delimiter = ',',
        value_name = "OUTPUT,…",
        conflicts_with = "augment",
        help_heading = heading::FIRST
    )]
    pub(crate) outputs: Vec<Output>,
    #[command(flatten)]
    pub(crate) older: OlderCollectionArgs,
    #[command(flatten)]
    pub(crate) augmentation: AugmentArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

impl IndexEncoderArgs {
    /// Whether a flag says how texts become vectors.
    pub(crate) fn given(&self) -> bool {
        self.model.is_some()
            || self.prompt_role.is_some()
            || self.prompt_name.is_some()
            || self.prompt.is_some()
            || self.dimensions.is_some()
            || self.normalise.is_some()
            || !self.outputs.is_empty()
            || !self.augmentation.augment.is_empty()
    }
}

/// Role of a text.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromptRole {
    /// `document`, `passage` or `corpus`.
    Document,
    /// A role that encoders write as `query`.
    Query,
}

/// How a source is gone through.
#[derive(Args, Debug)]
#[command(next_help_heading = heading::PASS)]
pub(crate) struct IndexPassArgs {
    /// Remove rows whose documents are gone from the source. More than a tenth of all rows is not
    /// removed.
    #[arg(long, help_heading = heading::FIRST)]
    pub(crate) delete: bool,
    /// As --delete, with this share of all rows as the limit (0 to 1).
    #[arg(long, value_name = "SHARE", conflicts_with = "delete")]
    pub(crate) delete_more: Option<f64>,
    /// Build an index for approximate search at the end (pgvector: hnsw; the others do it by
    /// themselves).
    #[arg(long, help_heading = heading::FIRST)]
    pub(crate) build_index: bool,
    /// Documents of a batch.
    #[arg(long, env = "ISOMER_INDEX_BATCH", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) batch: u32,
    /// Batches at once [default: 4; with workers, the configuration's fleet.units_in_flight].
    #[arg(long, env = "ISOMER_INDEX_IN_FLIGHT", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) in_flight: Option<u32>,
    /// Maximum number of rows per second [default: no limit].
    #[arg(long, env = "ISOMER_INDEX_ROWS_PER_SECOND", value_name = "N")]
    pub(crate) rows_per_second: Option<f64>,
    /// How long a store or an encoder may be away or overloaded.
    #[arg(long, env = "ISOMER_INDEX_PATIENCE", value_name = "TIME", default_value = "5m", value_parser = span)]
    pub(crate) patience: Duration,
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
}

/// `isomer index run`
#[derive(Args, Debug)]
pub(crate) struct IndexRunArgs {
    /// JSON lines, CSV, TSV or Parquet (a file, or a folder of files),
    /// postgres://USER@HOST/DATABASE#TABLE, or another collection that was filled with --with-text,
    /// by its address as a sink.
    #[arg(
        long,
        env = "ISOMER_INDEX_SOURCE",
        hide_env_values = true,
        value_name = "FILE_OR_URL"
    )]
    pub(crate) source: String,
    /// The collection to fill; it is created if it is not there. Under the name of a migration both
    /// collections are filled, as the store says; flags of the encoder are then not needed.
    #[arg(long, env = "ISOMER_INDEX_SINK", hide_env_values = true, value_name = "URL_OR_DIR")]
    pub(crate) sink: String,
    /// Say what would be done and what it would take, by a sample that is encoded; write nothing.
    #[arg(long)]
    pub(crate) plan: bool,
    /// Divide texts: tokens=256,overlap=32 (of the encoder's tokenizer) or sentences=5,overlap=1. A
    /// piece has the key KEY#0, KEY#1 and so on.
    #[arg(long, env = "ISOMER_INDEX_CHUNK", value_name = "HOW", default_value = "none")]
    pub(crate) chunk: Chunking,
    /// Keep the texts in the collection.
    #[arg(long, env = "ISOMER_INDEX_WITH_TEXT", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) with_text: bool,
    #[command(flatten)]
    pub(crate) pass: IndexPassArgs,
    #[command(flatten)]
    pub(crate) columns: IndexSourceArgs,
    #[command(flatten)]
    pub(crate) encoder: IndexEncoderArgs,
}

/// `isomer index verify`
#[derive(Args, Debug)]
pub(crate) struct IndexVerifyArgs {
    /// The source that the collection was filled from [default: texts that the collection keeps].
    #[arg(
        long,
        env = "ISOMER_INDEX_SOURCE",
        hide_env_values = true,
        value_name = "FILE_OR_URL"
    )]
    pub(crate) source: Option<String>,
    /// The collection.
    #[arg(long, env = "ISOMER_INDEX_SINK", hide_env_values = true, value_name = "URL_OR_DIR")]
    pub(crate) sink: String,
    /// Share of the vectors that are computed again (0 to 1).
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    pub(crate) share: f64,
    /// Seed of the draw.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = heading::DATA)]
    pub(crate) sample_seed: u64,
    /// Largest difference of two equal vectors, as a share of their length.
    #[arg(long, value_name = "SHARE", default_value_t = 1e-3, help_heading = heading::DATA)]
    pub(crate) tolerance: f64,
    #[command(flatten)]
    pub(crate) columns: IndexSourceArgs,
    #[command(flatten)]
    pub(crate) encoder: IndexEncoderArgs,
}

fn span(text: &str) -> Result<Duration, String> {
    read_span(text).ok_or_else(|| format!("`{text}` is not a while; write a number with its unit, e.g. 30s or 5m"))
}
