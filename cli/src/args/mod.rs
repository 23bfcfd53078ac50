//! The command line, as data.

pub(crate) mod deploy;
pub(crate) mod diff;
mod encoders;
#[cfg(feature = "evidence")]
pub(crate) mod evidence;
#[cfg(feature = "fleet")]
pub(crate) mod fleet;
pub(crate) mod forget;
pub(crate) mod gains;
pub(crate) mod help;
pub(crate) mod history;
#[cfg(feature = "index")]
pub(crate) mod index;
#[cfg(feature = "index")]
pub(crate) mod index_compare;
#[cfg(feature = "index")]
pub(crate) mod index_older;
pub(crate) mod init;
pub(crate) mod keys;
pub(crate) mod prompts;
pub(crate) mod providers;
pub(crate) mod ratings;
#[cfg(feature = "registry")]
pub(crate) mod registry;
pub(crate) mod report;
pub(crate) mod requests;
pub(crate) mod stats;
#[cfg(feature = "fleet")]
pub(crate) mod store;
pub(crate) mod suite;
pub(crate) mod thresholds;
pub(crate) mod usage;

use std::{
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
};

use clap::{Args, Parser, Subcommand, ValueEnum};
use isomer_all_in_one::{CpuBackend, Precision};
use isomer_proto::{
    common::v1::Dtype,
    encoder::v1::{Output, Truncation},
    transform::v1::{AugmentationPooling, GuardMode, JudgeScale, OnFailure, OnFingerprintChange, PartialFailurePolicy},
};

use crate::{gate_args::GateArgs, heading};
use prompts::PromptArgs;

const AFTER_HELP: &str = "\
Examples:
  isomer check                                        the robustness check on the defaults
  isomer check --model all-MiniLM-L6-v2 --model paraphrase-MiniLM-L3-v2 --out report
  isomer embed --model all-MiniLM-L6-v2 --input texts.jsonl --output vectors.npy
  isomer transform --transformation paraphrase --input texts.txt
  isomer eval --model all-MiniLM-L6-v2 --data STSBenchmark --format json
  isomer diff released/report.json isomer-report      a new encoder against an earlier one, item by item
  isomer thresholds isomer-report --target precision=0.95   a threshold of scores, and what it does where words change
  isomer ratings report isomer-report --ratings sheet.csv   the share of faithful rewrites, from thirty ratings by people
  isomer history enc --margin 1                       the releases of an encoder over the checks that are kept
  isomer datasets --family hteb-english               data sets that have a name
  isomer index run --source docs.jsonl --sink postgres://me@127.0.0.1/search#docs
  isomer stats compare --input scores.csv --reference all-mpnet-base-v2
  isomer serve --listen 127.0.0.1:50051
  isomer registry check --tracking-uri http://127.0.0.1:5000 --model enc --version 3
  isomer providers list --server 127.0.0.1:50051
  isomer keys create --name me --scope encode          a key for a gateway that others reach

Exit codes: 0 done, 1 the gate failed, 2 usage or configuration, 3 a model, provider, generator or file failed, 4 the gate is\nundecided or invalid, 130 interrupted.";

/// Measures how text encoders hold up when the words change and the meaning does not.
#[derive(Parser, Debug)]
#[command(name = "isomer", version, long_version = crate::features::version(), after_help = AFTER_HELP, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = heading::GLOBAL)]
pub(crate) struct Global {
    /// Gateway to use (`host:port` or a URL) in place of services in this process. It is sent the
    /// key in ISOMER_API_KEY, if that is set.
    #[arg(long, global = true, env = "ISOMER_SERVER", value_name = "ADDR")]
    pub(crate) server: Option<String>,
    /// Send the key in ISOMER_API_KEY to --server although it is another machine and the address is
    /// not https: anyone on the way can read it.
    #[arg(long, global = true, env = "ISOMER_API_KEY_OVER_PLAIN_TEXT", value_parser = clap::builder::FalseyValueParser::new(), hide_short_help = true)]
    pub(crate) api_key_over_plain_text: bool,
    /// PEM file with the authorities to trust at --server [default: the platform's].
    #[arg(
        long,
        global = true,
        env = "ISOMER_CA_FILE",
        value_name = "FILE",
        hide_short_help = true
    )]
    pub(crate) ca_file: Option<PathBuf>,
    /// PEM file with the certificate to show to --server (mTLS).
    #[arg(
        long,
        global = true,
        env = "ISOMER_CERTIFICATE_FILE",
        value_name = "FILE",
        requires = "client_key_file",
        hide_short_help = true
    )]
    pub(crate) certificate_file: Option<PathBuf>,
    /// PEM file with the key of that certificate.
    #[arg(
        long = "certificate-key-file",
        id = "client_key_file",
        global = true,
        env = "ISOMER_CERTIFICATE_KEY_FILE",
        value_name = "FILE",
        requires = "certificate_file",
        hide_short_help = true
    )]
    pub(crate) certificate_key_file: Option<PathBuf>,
    /// Configuration file (TOML).
    #[arg(
        long,
        global = true,
        env = "ISOMER_CONFIG",
        value_name = "FILE",
        hide_short_help = true
    )]
    pub(crate) config: Option<PathBuf>,
    /// Form of the output on stdout.
    #[arg(long, global = true, env = "ISOMER_FORMAT", value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Where models, caches and runs are kept [default: the user's cache folder].
    #[arg(long, global = true, env = "ISOMER_HOME", value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Never touch the network: use only what is in the local cache.
    #[arg(long, global = true, env = "ISOMER_OFFLINE", value_parser = clap::builder::FalseyValueParser::new(), hide_short_help = true)]
    pub(crate) offline: bool,
    /// Folders that hold data sets under their names (`DIR/STSBenchmark`), looked through before
    /// the hub; repeat or separate by commas. For services in this process: a server has its own.
    #[arg(
        long = "data-root",
        global = true,
        env = "ISOMER_DATA_ROOTS",
        value_name = "DIR,…",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub(crate) data_roots: Vec<PathBuf>,
    /// Log filter for stderr, e.g. `info` or `isomer_transform=debug` [default: warn; `isomer
    /// serve`: the configuration's telemetry.filter, else info].
    #[arg(
        long,
        global = true,
        env = "ISOMER_LOG",
        value_name = "FILTER",
        hide_short_help = true
    )]
    pub(crate) log: Option<String>,
    /// No progress on stderr.
    #[arg(long, short, global = true, env = "ISOMER_QUIET", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) quiet: bool,
}

/// Form of the output.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Command to run.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Fetch, list and verify model files.
    #[command(subcommand)]
    Models(ModelsCommand),
    /// Encode texts into vectors.
    Embed(EmbedArgs),
    /// Sort documents by their relevance to a query, with a cross-encoder.
    Rerank(RerankArgs),
    /// Transform texts: paraphrase, summarise, translate and so on.
    Transform(TransformArgs),
    /// Score an encoder on one data set.
    Eval(EvalArgs),
    /// List the data sets that have a name: those of the papers HTEB, PTEB and GASE.
    Datasets(DatasetsArgs),
    /// The robustness check: transform, encode, score, compare, report.
    Check(CheckArgs),
    /// Write a suite for your own data.
    Init(init::InitArgs),
    /// The shipped suites of a check, and the keys of a suite file.
    #[command(subcommand)]
    Suite(suite::SuiteCommand),
    /// Statistical tests on a table of your own scores or ratings.
    #[command(subcommand)]
    Stats(stats::StatsCommand),
    /// Write a report's files again, from its report.json.
    Report(report::ReportArgs),
    /// Compare two encoders item by item: items that turned wrong, and which loses more.
    Diff(diff::DiffArgs),
    /// Fill a search index with vectors, keep it up to date, check it, compare two.
    #[cfg(feature = "index")]
    #[command(subcommand)]
    Index(index::IndexCommand),
    /// A threshold of an encoder's scores, and what it does where words change. With --from, also
    /// map an earlier encoder's threshold.
    Thresholds(thresholds::ThresholdsArgs),
    /// People's ratings of rewrites: a sheet, and the share of faithful rewrites.
    #[command(subcommand)]
    Ratings(ratings::RatingsCommand),
    /// The releases of an encoder over kept checks, each tested for non-inferiority.
    History(history::HistoryArgs),
    /// Run all services behind one port.
    Serve(ServeArgs),
    /// Do pieces of other machines' checks, from a queue.
    #[cfg(feature = "fleet")]
    Worker(WorkerArgs),
    /// The workers of a fleet, their lanes, and what runs wait for.
    #[cfg(feature = "fleet")]
    Fleet(fleet::FleetViewArgs),
    /// List what the store that machines share holds, and remove what no run relies on.
    #[cfg(feature = "fleet")]
    Store(store::StoreArgs),
    /// Remove a text, and all that was made of it, from caches, stores, runs and reports.
    Forget(forget::ForgetArgs),
    /// Check the encoders of a model registry as their versions come, and tag them there.
    #[cfg(feature = "registry")]
    #[command(subcommand)]
    Registry(registry::RegistryCommand),
    /// The encoder providers of a running gateway (--server): list, register, change, probe.
    #[command(subcommand)]
    Providers(providers::ProvidersCommand),
    /// Make, list, change and revoke the gateway's API keys, and read its audit log.
    Keys(keys::KeysArgs),
    /// The gateway's database: bring its tables up to date.
    #[command(subcommand)]
    Database(deploy::DatabaseCommand),
    /// Ask a server whether it lives, or takes requests.
    Probe(deploy::ProbeArgs),
    /// Wait until servers and the gateway's database can be used.
    Wait(deploy::WaitArgs),
    /// Print a shell completion script.
    Completions {
        /// Shell to write completions for.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write those of all commands into a folder.
    #[cfg(feature = "man")]
    Man {
        /// Folder for `isomer.1`, `isomer-check.1` and so on; it is made where it does not exist.
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

impl Command {
    /// The arithmetic and device that the command names for its encoders.
    pub(crate) fn engine(&self) -> EngineArgs {
        match self {
            Self::Embed(args) => args.engine.clone(),
            Self::Rerank(args) => args.engine.clone(),
            Self::Eval(args) => args.engine.clone(),
            Self::Check(args) => args.engine.clone(),
            Self::Models(ModelsCommand::Show { engine, .. }) => engine.clone(),
            #[cfg(feature = "index")]
            Self::Index(command) => command.engine(),
            #[cfg(feature = "registry")]
            Self::Registry(command) => command.common().engine.clone(),
            Self::Serve(args) => args.engine.clone(),
            #[cfg(feature = "fleet")]
            Self::Worker(args) => args.encoders.clone(),
            _ => EngineArgs::default(),
        }
    }

    /// The queue and store that the command names.
    pub(crate) fn fleet(&self) -> FleetArgs {
        match self {
            Self::Check(args) => args.fleet.clone(),
            #[cfg(feature = "index")]
            Self::Index(command) => command.fleet(),
            #[cfg(feature = "fleet")]
            Self::Worker(args) => args.fleet.clone(),
            #[cfg(feature = "registry")]
            Self::Registry(command) => command.common().fleet.clone(),
            Self::Forget(args) => args.fleet.clone(),
            #[cfg(feature = "fleet")]
            Self::Store(args) => FleetArgs {
                store: args.store.clone(),
                ..FleetArgs::default()
            },
            _ => FleetArgs::default(),
        }
    }
}

/// `isomer models …`
#[derive(Subcommand, Debug)]
pub(crate) enum ModelsCommand {
    /// Fetch models into the local cache.
    #[command(after_help = "Example: isomer models pull all-MiniLM-L6-v2 qwen2.5-coder-0.5b-instruct")]
    Pull {
        /// Catalogue ids, or Hugging Face ids (`org/name`).
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// List the catalogue and what is in the cache.
    List,
    /// Describe a model: where it comes from, its family and sizes, and what computes it here.
    /// Nothing is fetched; a model that is not in the cache has fields that are unknown.
    #[command(after_help = "Example: isomer models show ./my-model --precision int8")]
    Show {
        /// Catalogue id, Hugging Face id (`org/name`) or folder.
        #[arg(value_name = "ID_OR_DIR")]
        id: String,
        #[command(flatten)]
        engine: EngineArgs,
    },
    /// Check the cached files against their digests.
    Verify {
        /// Models to verify; all cached ones if none is named.
        #[arg(value_name = "ID")]
        ids: Vec<String>,
    },
}

/// How encoders are computed.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = heading::ENCODERS)]
pub(crate) struct EngineArgs {
    /// Arithmetic of the encoders: int8 (CPU), f16 and bf16 (GPU) are faster and give vectors of
    /// spaces of their own [default: the configuration's embed.precision, else f32].
    #[arg(long, env = "ISOMER_PRECISION", value_enum)]
    pub(crate) precision: Option<Precision>,
    /// Where encoders run: auto, cpu, cuda:0 (several: cuda:0,cuda:1) or metal, in builds that have
    /// them [default: the configuration's embed.device, else auto].
    #[arg(long, env = "ISOMER_DEVICE", value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    /// Code that computes encoders on the CPU: our kernels, or Candle, which is slower and differs
    /// by rounding [default: the configuration's embed.backend, else kernels].
    #[arg(long, env = "ISOMER_BACKEND", value_enum)]
    pub(crate) backend: Option<CpuBackend>,
}

/// The workers of a fleet.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = heading::FLEET)]
pub(crate) struct FleetArgs {
    /// Queue of the workers, e.g. nats://127.0.0.1:4222 [default: the configuration's
    /// fleet.engine].
    #[arg(long, env = "ISOMER_ENGINE", value_name = "URL")]
    pub(crate) engine: Option<String>,
    /// Store that all machines share: a folder, or s3://BUCKET/PREFIX, gs://… or az://… [default:
    /// the configuration's store.url].
    #[arg(long, env = "ISOMER_STORE", value_name = "URL")]
    pub(crate) store: Option<String>,
}

/// `isomer embed`
#[derive(Args, Debug)]
#[command(
    after_help = "Input: JSON lines, CSV, TSV or Parquet with a column `text`, or plain lines. Examples:\n  isomer embed --model all-MiniLM-L6-v2 --input texts.txt --output vectors.npy\n  isomer embed --model ./bge-m3 --outputs text-vector,sparse --input texts.txt\n  isomer embed --augment paraphrase,summarisation --generator local:qwen2.5-coder-1.5b-instruct --input texts.txt\n  isomer embed --augment paraphrase --warm-up --most-queries 10000 --input queries.log --server 127.0.0.1:50051"
)]
pub(crate) struct EmbedArgs {
    /// Encoder: a catalogue id or a sentence-transformers folder; NAME=DIR gives a folder a name.
    #[arg(long, env = "ISOMER_EMBED_MODEL", default_value = isomer_models::DEFAULT_ENCODER, value_name = "ID_OR_DIR")]
    pub(crate) model: String,
    /// Texts; `-` or nothing: stdin.
    #[arg(long, env = "ISOMER_EMBED_INPUT", value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Matrix file (.npy); nothing: JSONL on stdout.
    #[arg(long, env = "ISOMER_EMBED_OUTPUT", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// One vector per token instead of one per text, special tokens and prompt included (late
    /// interaction). With --output the matrix holds the rows of all texts, and stdout says which
    /// are whose.
    #[arg(long, env = "ISOMER_TOKEN_VECTORS", conflicts_with = "augment", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) token_vectors: bool,
    /// Results of one pass, as JSON lines that name the vector space of each.
    #[arg(
        long,
        env = "ISOMER_OUTPUTS",
        value_enum,
        value_delimiter = ',',
        conflicts_with_all = ["augment", "token_vectors", "output"]
    )]
    pub(crate) outputs: Vec<Output>,
    /// With --outputs sparse: number of entries to keep of each sparse vector, the largest.
    #[arg(long, env = "ISOMER_MAX_ACTIVE_DIMENSIONS", value_name = "N", requires = "outputs", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_active_dimensions: Option<u32>,
    /// Named prompt of the encoder.
    #[arg(long, env = "ISOMER_EMBED_PROMPT_NAME", conflicts_with = "prompt", help_heading = heading::ENCODERS)]
    pub(crate) prompt_name: Option<String>,
    /// Text put before each input.
    #[arg(long, env = "ISOMER_EMBED_PROMPT", help_heading = heading::ENCODERS)]
    pub(crate) prompt: Option<String>,
    /// Handling of a text that is too long.
    #[arg(long, env = "ISOMER_TRUNCATION", value_enum, default_value_t = Truncation::Tail, help_heading = heading::ENCODERS)]
    pub(crate) truncation: Truncation,
    /// Number of dimensions to keep (Matryoshka) [default: all].
    #[arg(long, env = "ISOMER_DIMENSIONS", help_heading = heading::ENCODERS)]
    pub(crate) dimensions: Option<u32>,
    /// Scale to unit length, or not [default: as the encoder does].
    #[arg(long, env = "ISOMER_NORMALISE", value_name = "BOOL", help_heading = heading::ENCODERS)]
    pub(crate) normalise: Option<bool>,
    /// Element type of the vectors. int8 needs a calibration set (`calibration.txt` in the model's
    /// folder), or all texts in one request of at least 100 (--batch).
    #[arg(long, env = "ISOMER_DTYPE", value_enum, default_value_t = Dtype::F32, help_heading = heading::ENCODERS)]
    pub(crate) dtype: Dtype,
    /// Texts per request.
    #[arg(long, env = "ISOMER_EMBED_BATCH", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096), help_heading = heading::REQUESTS)]
    pub(crate) batch: u32,
    /// Read the texts as a log of queries, one per line, and make the variants of each distinct
    /// one, the most frequent first, so that caches hold them for --augment-mode cached. No vectors
    /// are written. Variants that the caches hold cost nothing, so the same command resumes a
    /// stopped run.
    #[arg(
        long,
        env = "ISOMER_WARM_UP",
        requires = "augment",
        conflicts_with_all = ["output", "outputs", "token_vectors", "augment_mode", "generation_budget", "missing_variants"],
        value_parser = clap::builder::FalseyValueParser::new()
    )]
    pub(crate) warm_up: bool,
    /// With --warm-up: maximum number of distinct queries.
    #[arg(long, env = "ISOMER_MOST_QUERIES", value_name = "N", requires = "warm_up", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) most_queries: Option<u64>,
    /// With --warm-up: say what it would take, and make nothing.
    #[arg(long, requires = "warm_up")]
    pub(crate) plan: bool,
    #[command(flatten)]
    pub(crate) augmentation: AugmentArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

/// `isomer rerank`
#[derive(Args, Debug)]
#[command(
    after_help = "Input: JSON lines, CSV, TSV or Parquet with a column `text`, or plain lines. Output: JSONL, best first: index (from 0), id where the document has one,\nscore, tokens, truncated, text. Examples:\n  isomer rerank --model ./ms-marco-MiniLM-L6-v2 --query 'how to bake bread' --input passages.txt --top 10\n  isomer rerank --model ./nli-classifier --label entailment --query 'A man eats.' --input hypotheses.jsonl"
)]
pub(crate) struct RerankArgs {
    /// Cross-encoder: a sequence-classification folder, or an id on the hub.
    #[arg(long, env = "ISOMER_RERANK_MODEL", value_name = "ID_OR_DIR")]
    pub(crate) model: String,
    /// Text that the documents are ranked for.
    #[arg(long, env = "ISOMER_QUERY")]
    pub(crate) query: String,
    /// Documents; `-` or nothing: stdin.
    #[arg(long, env = "ISOMER_RERANK_INPUT", value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Maximum number of results, the best.
    #[arg(long, env = "ISOMER_TOP", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) top: Option<u32>,
    /// The label to rank by, where the model has several.
    #[arg(long, env = "ISOMER_LABEL")]
    pub(crate) label: Option<String>,
    /// Documents per request.
    #[arg(long, env = "ISOMER_RERANK_BATCH", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) batch: u32,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

/// Augmented vectors (GASE): each text is encoded with generated variants of it, and the vectors
/// are pooled.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = heading::AUGMENTATION)]
pub(crate) struct AugmentArgs {
    /// Transformations that make the variants; each goes to each --generator.
    #[arg(long, env = "ISOMER_AUGMENT", value_name = "NAME,…", value_delimiter = ',', help_heading = heading::FIRST)]
    pub(crate) augment: Vec<String>,
    /// Generator of the variants (eval: or of the translations of --pivot): `local:ID` or
    /// `openai:MODEL@URL`; repeat for several [default: the server's].
    #[arg(long = "generator", env = "ISOMER_AUGMENT_GENERATOR", value_name = "SPEC", help_heading = heading::FIRST)]
    pub(crate) generators: Vec<String>,
    /// How the vectors of a text and its variants become one [default: mean].
    #[arg(long, env = "ISOMER_POOLING", value_enum, requires = "augment")]
    pub(crate) pooling: Option<AugmentationPooling>,
    /// Weight of the original, 0 to 1, with --pooling weighted [default: 0.75].
    #[arg(long, env = "ISOMER_ORIGINAL_WEIGHT", value_name = "WEIGHT", requires = "augment")]
    pub(crate) original_weight: Option<f64>,
    /// Scale each vector to unit length before pooling.
    #[arg(long, env = "ISOMER_NORMALISE_BEFORE", requires = "augment")]
    pub(crate) normalise_before: bool,
    /// When variants are used [default: budget with --generation-budget, else always].
    #[arg(long, env = "ISOMER_AUGMENT_MODE", value_enum, requires = "augment")]
    pub(crate) augment_mode: Option<AugmentModeArg>,
    /// Maximum time for the variants of a request in seconds; later ones are left out.
    #[arg(long, env = "ISOMER_GENERATION_BUDGET", value_name = "SECONDS", requires = "augment")]
    pub(crate) generation_budget: Option<f64>,
    /// Handling of a missing variant [default: use-arrived].
    #[arg(long, env = "ISOMER_MISSING_VARIANTS", value_enum, requires = "augment")]
    pub(crate) missing_variants: Option<PartialFailurePolicy>,
    /// Seed of the variants [default: 1337].
    #[arg(long, env = "ISOMER_AUGMENT_SEED", requires = "augment")]
    pub(crate) seed: Option<u64>,
}

/// When variants are used.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AugmentModeArg {
    /// Wait for every variant.
    Always,
    /// Variants that arrive within --generation-budget.
    Budget,
    /// Variants that the caches hold; a server makes the rest for the next time.
    Cached,
}

/// `isomer transform …`
#[derive(Subcommand, Debug)]
pub(crate) enum TransformCommand {
    /// Rate pairs of texts with a language model.
    Judge(JudgeArgs),
    /// Choose a judge and a paraphraser by measurement (PTEB, steps 1 and 2).
    JudgeSelect(JudgeSelectArgs),
    /// The cache of generated texts on this machine: what it holds, sharing it, keeping it small.
    #[command(subcommand)]
    Cache(CacheCommand),
}

/// `isomer transform judge`
#[derive(Args, Debug)]
#[command(
    after_help = "Input: JSONL with `original` and `transformed` (or `text`, as `isomer transform` writes it; or `sentence1` and `sentence2`), and optionally `id`; output: JSONL, same order. Example:\n  isomer transform --transformation paraphrase --input texts.txt | isomer transform judge --scale similarity"
)]
pub(crate) struct JudgeArgs {
    /// Scale of the ratings.
    #[arg(long, env = "ISOMER_TRANSFORM_SCALE", value_enum)]
    pub(crate) scale: JudgeScale,
    /// The judge: `local:ID` or `openai:MODEL@URL` [default: the server's generator].
    #[arg(long, env = "ISOMER_TRANSFORM_GENERATOR", value_name = "SPEC")]
    pub(crate) generator: Option<String>,
    /// Pairs; `-` or nothing: stdin.
    #[arg(long, env = "ISOMER_TRANSFORM_INPUT", value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Ratings (JSONL); nothing: stdout.
    #[arg(long, env = "ISOMER_TRANSFORM_OUTPUT", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Folder with prompts of your own, e.g. `judge_similarity.txt` [default: transform.prompts_dir
    /// of the configuration].
    #[arg(long = "prompts", env = "ISOMER_PROMPTS_DIR", value_name = "DIR")]
    pub(crate) prompts_dir: Option<PathBuf>,
    /// Transformation that the pairs claim to be, e.g. `summarisation`: quality is rated against it
    /// [default: any rewriting].
    #[arg(long, env = "ISOMER_JUDGED_TRANSFORMATION", value_name = "NAME")]
    pub(crate) of: Option<String>,
    /// Seed of the sampling.
    #[arg(long, env = "ISOMER_TRANSFORM_SEED", default_value_t = 1337, help_heading = heading::GENERATION)]
    pub(crate) seed: u64,
    /// Maximum number of attempts per pair.
    #[arg(long, env = "ISOMER_ATTEMPTS", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10), help_heading = heading::GENERATION)]
    pub(crate) attempts: u32,
    /// Use of stored ratings of another version of the judge's model, as its server names it.
    #[arg(long, env = "ISOMER_ON_FINGERPRINT_CHANGE", value_enum, default_value_t = OnFingerprintChange::Report, help_heading = heading::GENERATION)]
    pub(crate) on_fingerprint_change: OnFingerprintChange,
    /// Neither read nor write the cache.
    #[arg(long, env = "ISOMER_NO_CACHE", value_parser = clap::builder::FalseyValueParser::new(), help_heading = heading::GENERATION)]
    pub(crate) no_cache: bool,
}

/// `isomer transform judge-select`
#[derive(Args, Debug)]
#[command(
    after_help = "Cached ratings and texts are used again, so the same command resumes a stopped run. Example:\n  isomer transform judge-select --judge local:qwen2.5-coder-1.5b-instruct --judge local:qwen2.5-coder-0.5b-instruct --generator local:qwen2.5-coder-1.5b-instruct --data STSBenchmark --data SICK-R@1:5 --limit 100"
)]
pub(crate) struct JudgeSelectArgs {
    /// Judges to compare; repeat for several.
    #[arg(long = "judge", env = "ISOMER_JUDGES", value_name = "SPEC", required = true)]
    pub(crate) judges: Vec<String>,
    /// Paraphrasers to compare; repeat for several [default: none, step 1 only].
    #[arg(long = "generator", env = "ISOMER_GENERATORS", value_name = "SPEC")]
    pub(crate) generators: Vec<String>,
    /// STS data, as `isomer eval --data` takes it: a folder or file, a name, an id on the hub;
    /// `@LOW:HIGH` after it is the range of its gold scores [default: 0:5]. Repeat for several.
    #[arg(
        long = "data",
        env = "ISOMER_TRANSFORM_DATA",
        value_name = "DATA[@LOW:HIGH]",
        required = true
    )]
    pub(crate) data: Vec<String>,
    /// Split [default: the catalogue's for a data set with a name, else test].
    #[arg(long, env = "ISOMER_SPLIT")]
    pub(crate) split: Option<String>,
    /// Language subset (BCP-47).
    #[arg(long, env = "ISOMER_TRANSFORM_LANGUAGE")]
    pub(crate) language: Option<String>,
    /// Maximum number of pairs per data set, drawn by the seed.
    #[arg(long, env = "ISOMER_TRANSFORM_LIMIT", value_name = "N")]
    pub(crate) limit: Option<u32>,
    /// Transformation of step 2.
    #[arg(
        long,
        env = "ISOMER_TRANSFORMATION",
        default_value = "paraphrase",
        value_name = "NAME"
    )]
    pub(crate) transformation: String,
    /// Folder with prompts of your own, e.g. `judge_similarity.txt` or `paraphrase.txt` [default:
    /// transform.prompts_dir of the configuration].
    #[arg(long = "prompts", env = "ISOMER_PROMPTS_DIR", value_name = "DIR")]
    pub(crate) prompts_dir: Option<PathBuf>,
    /// Upper edges of the word-count bins.
    #[arg(long, env = "ISOMER_WORD_BINS", value_delimiter = ',', default_values_t = [10, 20, 50, 100])]
    pub(crate) word_bins: Vec<u32>,
    /// Seed of the sample, the sampling and the intervals.
    #[arg(long, env = "ISOMER_TRANSFORM_SEED", default_value_t = 1337, help_heading = heading::GENERATION)]
    pub(crate) seed: u64,
    /// Maximum number of attempts per rating and text.
    #[arg(long, env = "ISOMER_ATTEMPTS", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10), help_heading = heading::GENERATION)]
    pub(crate) attempts: u32,
}

/// `isomer transform cache …`
#[derive(Subcommand, Debug)]
pub(crate) enum CacheCommand {
    /// Show the size and the contents of the cache.
    Stats,
    /// Write all entries to a file that others can import.
    #[command(after_help = "Example: isomer transform cache export --output shared.parquet")]
    Export {
        /// File to write, .jsonl or .parquet.
        #[arg(long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Read entries from such a file. Each is checked against its key; one that does not fit
    /// refuses the file.
    #[command(after_help = "Example: isomer transform cache import --input shared.parquet")]
    Import {
        /// File to read, .jsonl or .parquet.
        #[arg(long, value_name = "FILE")]
        input: PathBuf,
    },
    /// Remove the least recently used segments until the cache takes at most this many bytes.
    #[command(after_help = "Example: isomer transform cache prune --max-bytes 1000000000")]
    Prune {
        /// Bytes on disk; 0 removes everything that no process is writing to.
        #[arg(long, value_name = "BYTES")]
        max_bytes: u64,
    },
}

/// `isomer transform`
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Input: JSON lines, CSV, TSV or Parquet with `text` and optionally `id` and `language`, or plain lines; output: JSONL, same order. Draws of languages depend on --seed, --run and `id` only. Examples:
  isomer transform --transformation paraphrase --input texts.txt
  isomer transform --transformation paraphrase --prompt paraphrase-b --input texts.txt
  isomer transform --transformation translation --target-language de --generator openai:gemma3:27b@http://localhost:11434/v1 --input texts.jsonl
  isomer transform --transformation cross_translation --target-language fr,de,tr --language en --input texts.txt
  isomer transform --transformation backtranslation --language en --input texts.txt
  isomer transform --transformation noise --channel keyboard --dose 0.05 --generator none --input texts.txt
  isomer transform --transformation distractors --count 4 --on-failure drop --input texts.jsonl
  isomer transform --transformation list --format json
  isomer transform cache export --output shared.parquet
  isomer transform --transformation paraphrase --prompts my-prompts --input texts.txt"
)]
pub(crate) struct TransformArgs {
    #[command(subcommand)]
    pub(crate) command: Option<TransformCommand>,
    /// Name, e.g. `paraphrase`; `list` prints the catalogue.
    #[arg(long, env = "ISOMER_TRANSFORMATION", value_name = "NAME", required = true)]
    pub(crate) transformation: Option<String>,
    /// `local:ID`, `openai:MODEL@URL`, or `none` [default: the server's, for transformations that
    /// need one].
    #[arg(long, env = "ISOMER_TRANSFORM_GENERATOR", value_name = "SPEC")]
    pub(crate) generator: Option<String>,
    /// Texts; `-` or nothing: stdin.
    #[arg(long, env = "ISOMER_TRANSFORM_INPUT", value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Results (JSONL); nothing: stdout.
    #[arg(long, env = "ISOMER_TRANSFORM_OUTPUT", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Seed of draws and sampling.
    #[arg(long, env = "ISOMER_TRANSFORM_SEED", default_value_t = 1337)]
    pub(crate) seed: u64,
    /// Maximum number of attempts per text.
    #[arg(long, env = "ISOMER_ATTEMPTS", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10), help_heading = heading::GENERATION)]
    pub(crate) attempts: u32,
    /// Result for a text whose attempts all failed a check.
    #[arg(long, env = "ISOMER_ON_FAILURE", value_enum, default_value_t = OnFailure::KeepOriginal, help_heading = heading::GENERATION)]
    pub(crate) on_failure: OnFailure,
    /// Sampling temperature; 0 is greedy [default: 0, and 1 for distractors, as in CLSD].
    #[arg(long, env = "ISOMER_TRANSFORM_TEMPERATURE")]
    pub(crate) temperature: Option<f64>,
    /// Nucleus sampling.
    #[arg(long, env = "ISOMER_TOP_P", default_value_t = 1.0, help_heading = heading::GENERATION)]
    pub(crate) top_p: f64,
    /// Number of the likeliest tokens to sample from [default: the generator's].
    #[arg(long, env = "ISOMER_TOP_K", value_name = "N", help_heading = heading::GENERATION)]
    pub(crate) top_k: Option<u32>,
    /// Whether another attempt is made when the generator returns a text unchanged.
    #[arg(long, env = "ISOMER_RETRY_IDENTICAL", default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL", help_heading = heading::GENERATION)]
    pub(crate) retry_identical: bool,
    /// Least temperature of attempts after the first [default: 0.7].
    #[arg(long, env = "ISOMER_RETRY_TEMPERATURE", value_name = "T", help_heading = heading::GENERATION)]
    pub(crate) retry_temperature: Option<f64>,
    /// Use of stored texts of another version of the generator's model, as the server names it.
    #[arg(long, env = "ISOMER_ON_FINGERPRINT_CHANGE", value_enum, default_value_t = OnFingerprintChange::Report, help_heading = heading::GENERATION)]
    pub(crate) on_fingerprint_change: OnFingerprintChange,
    /// Effect of a meaning guard (numbers, negations and names lost or changed) that fires.
    #[arg(long, env = "ISOMER_GUARDS", value_enum, default_value_t = GuardMode::Warn, help_heading = heading::GENERATION)]
    pub(crate) guards: GuardMode,
    /// Target language of `translation`, or the permitted ones of `cross_translation` (BCP-47)
    /// [default: drawn from es fr de tr ar, once for `translation`, for each text for
    /// `cross_translation`].
    #[arg(
        long = "target-language",
        env = "ISOMER_TARGET_LANGUAGE",
        value_name = "LANG,…",
        value_delimiter = ','
    )]
    pub(crate) target_languages: Vec<String>,
    /// Pivot of `backtranslation` (BCP-47) [default: drawn for each text from en es fr de tr ar].
    #[arg(long, env = "ISOMER_PIVOT_LANGUAGE", value_name = "LANG", help_heading = heading::PARAMETERS)]
    pub(crate) pivot_language: Option<String>,
    /// How many `distractors` a text gets, 1 to 10 [default: 4].
    #[arg(long, env = "ISOMER_COUNT", value_name = "N", help_heading = heading::PARAMETERS)]
    pub(crate) count: Option<u32>,
    /// Prompt to use instead of the default, e.g. `paraphrase-b`; repeat where the transformation
    /// makes two kinds of calls. `--transformation list` prints the ids.
    #[arg(long = "prompt", env = "ISOMER_PROMPTS", value_name = "ID,…", value_delimiter = ',', help_heading = heading::PROMPTS)]
    pub(crate) prompts: Vec<String>,
    /// Folder with prompts of your own, `paraphrase.txt`, `keywords-mine.txt` and so on: they
    /// replace the built-in ones of the same id and add wordings [default: transform.prompts_dir of
    /// the configuration].
    #[arg(long = "prompts", env = "ISOMER_PROMPTS_DIR", value_name = "DIR", help_heading = heading::PROMPTS)]
    pub(crate) prompts_dir: Option<PathBuf>,
    /// Maximum number of swaps of `multi_swap`, 1 to 3 [default: 3].
    #[arg(long, env = "ISOMER_SWAPS", value_name = "N", help_heading = heading::PARAMETERS)]
    pub(crate) swaps: Option<u32>,
    /// Tokens between the cuts of `continuation` [default: 5].
    #[arg(long, env = "ISOMER_STRIDE", value_name = "N", help_heading = heading::PARAMETERS)]
    pub(crate) stride: Option<u32>,
    /// How many cuts `continuation` makes [default: 4].
    #[arg(long, env = "ISOMER_CUTS", value_name = "N", help_heading = heading::PARAMETERS)]
    pub(crate) cuts: Option<u32>,
    /// Kind of error of `noise`, e.g. `keyboard`; `--transformation list` prints them.
    #[arg(long, env = "ISOMER_CHANNEL", value_name = "NAME", help_heading = heading::PARAMETERS)]
    pub(crate) channel: Option<String>,
    /// Share of the letters, words or gaps that `noise` changes: 0.01, 0.02, 0.05, 0.1, 0.2 or 0.4
    /// [default: 0.1].
    #[arg(long, env = "ISOMER_DOSE", value_name = "SHARE", help_heading = heading::PARAMETERS)]
    pub(crate) dose: Option<f64>,
    /// A parameter that has no flag, e.g. `keep_ratio=0.3`; repeat for several. `--transformation
    /// list` prints the parameters. Lists are separated by commas.
    #[arg(long = "parameter", value_name = "NAME=VALUE")]
    pub(crate) parameters: Vec<String>,
    /// Rows are pairs (`sentence1`, `sentence2`); write a group for graded-ranking for each:
    /// `anchor` and `candidates`, best first. multi_swap swaps words of `sentence2`; continuation
    /// continues `sentence1`. --anchor says what they are compared with. Rows whose `label` is 0
    /// are left out, and so are pairs that give no texts; both are counted on stderr.
    #[arg(long, env = "ISOMER_GROUPS", value_parser = clap::builder::FalseyValueParser::new(), help_heading = heading::PARAMETERS)]
    pub(crate) groups: bool,
    /// With --groups: the sentence that the candidates are compared with. The other one is the best
    /// candidate. `sentence2` is PARTIAL's form of both transformations: swapped texts are compared
    /// with the text they were made from.
    #[arg(long, env = "ISOMER_ANCHOR", value_enum, default_value_t = AnchorArg::Sentence2, help_heading = heading::PARAMETERS)]
    pub(crate) anchor: AnchorArg,
    /// Language of texts that do not say theirs (BCP-47) [default: detected].
    #[arg(long, env = "ISOMER_TRANSFORM_LANGUAGE", value_name = "LANG")]
    pub(crate) language: Option<String>,
    /// Name of the run: with --seed it fixes the draws of languages.
    #[arg(long, env = "ISOMER_RUN", default_value = "", value_name = "NAME", help_heading = heading::GENERATION)]
    pub(crate) run: String,
    /// Neither read nor write the cache.
    #[arg(long, env = "ISOMER_NO_CACHE", value_parser = clap::builder::FalseyValueParser::new(), help_heading = heading::GENERATION)]
    pub(crate) no_cache: bool,
}

/// The sentence of a pair that a group's candidates are compared with.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnchorArg {
    /// The first sentence.
    Sentence1,
    /// The second sentence.
    Sentence2,
}

/// `isomer datasets`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  isomer datasets
  isomer datasets --family pteb --data-root ./data
  isomer datasets --task reranking --format json
The column `where` names the folder that holds it; without one it comes from the Hugging Face hub or its cache.")]
pub(crate) struct DatasetsArgs {
    /// Only those of a paper's collection: hteb-english, hteb-multilingual, pteb or gase.
    #[arg(long, env = "ISOMER_FAMILY", value_name = "NAME")]
    pub(crate) family: Option<String>,
    /// Only those of this kind of task.
    #[arg(long, env = "ISOMER_DATASETS_TASK", value_name = "TYPE")]
    pub(crate) task: Option<String>,
}

/// `isomer eval`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  isomer eval --model all-MiniLM-L6-v2 --data STSBenchmark --format json
  isomer eval --task sts --data pairs.csv --field sentence1=text_a --field sentence2=text_b --field score=gold
  isomer eval --task pair-classification --data ./my-folder --split dev --limit 500
  isomer eval --task sts --data org/name:config@revision --offline
  isomer eval --data Banking77Classification --data STSBenchmark --data-root ./data
  isomer eval --model multilingual-e5-small-q4 --data NFCorpus --prompt 'query=query: ' --prompt 'passage=passage: '
  isomer eval --model glove-6b-50d --task sts --data STSBenchmark --augment keywords,paraphrase
  isomer eval --model glove-6b-50d,all-MiniLM-L6-v2 --data STSBenchmark SICK-R --augment paraphrase,keywords --settings each,combinations --out gains
With --format json the document is mteb's task result; with --augment one object with both and the difference, or gains.json where
there are several encoders, data sets, languages or --settings.")]
pub(crate) struct EvalArgs {
    /// Encoders: catalogue ids or sentence-transformers folders; NAME=DIR gives a folder a name.
    /// Repeat or separate by commas for several.
    #[arg(
        long = "model",
        visible_alias = "models",
        env = "ISOMER_EVAL_MODEL",
        default_value = isomer_models::DEFAULT_ENCODER,
        value_name = "ID_OR_DIR",
        value_delimiter = ','
    )]
    pub(crate) models: Vec<String>,
    /// sts (or str), pair-classification, classification, clustering, reranking, retrieval,
    /// summarisation, bitext, clsd or graded-ranking [default: what the data set is for, where it
    /// has a name].
    #[arg(long, env = "ISOMER_EVAL_TASK", value_name = "TYPE")]
    pub(crate) task: Option<String>,
    /// Folders or files laid out as docs/reference/data.md says (.jsonl, .csv, .tsv, each also .gz,
    /// .parquet), names that `isomer datasets` lists, ids on the Hugging Face hub (`org/name`,
    /// `org/name:configuration@revision`), or built-in sets such as `quick/sts`; repeat for
    /// several.
    #[arg(long, env = "ISOMER_EVAL_DATA", value_name = "PATH_NAME_OR_ID", required = true, num_args = 1..)]
    pub(crate) data: Vec<String>,
    /// A column whose name differs from ours, e.g. `sentence1=text_a`; repeat for several.
    #[arg(
        long = "field",
        env = "ISOMER_FIELDS",
        value_name = "OURS=THEIRS",
        value_delimiter = ','
    )]
    pub(crate) fields: Vec<String>,
    /// Metric definitions: mteb-v2, mteb-v1 or hteb.
    #[arg(long, env = "ISOMER_PROFILE", default_value = "mteb-v2")]
    pub(crate) profile: String,
    /// Split [default: the catalogue's for a data set with a name, else test].
    #[arg(long, env = "ISOMER_SPLIT", help_heading = heading::DATA)]
    pub(crate) split: Option<String>,
    /// Language subset (BCP-47); repeat or separate by commas for several, each of which is scored
    /// by itself.
    #[arg(
        long = "language",
        env = "ISOMER_EVAL_LANGUAGE",
        value_name = "LANGUAGE",
        value_delimiter = ','
    )]
    pub(crate) subsets: Vec<String>,
    /// Language of the texts (BCP-47), or those of the first and of the second side, e.g. en,ar
    /// [default: the catalogue's, else what --language names].
    #[arg(long, env = "ISOMER_LANGUAGES", value_name = "TAG,TAG", value_delimiter = ',', help_heading = heading::DATA)]
    pub(crate) languages: Vec<String>,
    /// Maximum number of rows (pairs, queries, texts, groups), drawn in proportion to labels or
    /// gold scores where rows have them.
    #[arg(long, env = "ISOMER_EVAL_LIMIT")]
    pub(crate) limit: Option<u32>,
    /// Classification: maximum number of train rows, drawn by the seed [default: all].
    #[arg(long, env = "ISOMER_TRAIN_LIMIT", value_name = "N", help_heading = heading::DATA)]
    pub(crate) train_limit: Option<u32>,
    /// Seed of the samples [default: 42].
    #[arg(long, env = "ISOMER_EVAL_SAMPLE_SEED", help_heading = heading::DATA)]
    pub(crate) sample_seed: Option<u64>,
    /// Classification: train rows of each label in each of the ten fits [default: 8].
    #[arg(long, env = "ISOMER_SAMPLES_PER_LABEL", value_name = "N", help_heading = heading::TASKS)]
    pub(crate) samples_per_label: Option<u32>,
    /// Classification: fits [default: 10].
    #[arg(long, env = "ISOMER_EXPERIMENTS", value_name = "N", help_heading = heading::TASKS)]
    pub(crate) experiments: Option<u32>,
    /// Clsd: put every text into this language first (BCP-47, e.g. en), by --generator.
    #[arg(long, env = "ISOMER_PIVOT", value_name = "LANGUAGE", conflicts_with = "augment", help_heading = heading::TASKS)]
    pub(crate) pivot: Option<String>,
    /// Clsd: parts of speech of words that differ, from a tagger of English, where the data does
    /// not give them (`distractor_pos`).
    #[arg(long, env = "ISOMER_TAG_POS", help_heading = heading::TASKS)]
    pub(crate) tag_pos: bool,
    /// Clustering: the older form, one k-means a set, under mteb-v2 too.
    #[arg(long, env = "ISOMER_LEGACY_CLUSTERING", help_heading = heading::TASKS)]
    pub(crate) legacy_clustering: bool,
    /// Retrieval: look for documents through an approximate index instead of scoring all of them,
    /// and say what share of the exact search's documents it finds: hnsw.
    #[arg(long, env = "ISOMER_INDEX", value_name = "KIND", value_parser = ["hnsw"], help_heading = heading::TASKS)]
    pub(crate) index: Option<String>,
    /// Retrieval: find documents by their terms (bm25) or by vectors and terms (hybrid:rrf,
    /// hybrid:dbsf, hybrid:rsf, hybrid:rrf:0.7) instead of vectors alone.
    #[arg(long, env = "ISOMER_FORM", value_name = "FORM", conflicts_with = "index", help_heading = heading::TASKS)]
    pub(crate) form: Option<String>,
    /// hnsw: candidates held while a query is answered, never fewer than the documents wanted
    /// [default: 100].
    #[arg(long, env = "ISOMER_EF_SEARCH", value_name = "N", requires = "index", help_heading = heading::TASKS)]
    pub(crate) ef_search: Option<u32>,
    /// hnsw: candidates weighed for each document's links [default: 100].
    #[arg(long, env = "ISOMER_EF_CONSTRUCTION", value_name = "N", requires = "index", help_heading = heading::TASKS)]
    pub(crate) ef_construction: Option<u32>,
    /// Writes the values of single queries, pairs, texts or groups there, one JSON object a line.
    #[arg(long, env = "ISOMER_PER_ITEM", value_name = "FILE.jsonl")]
    pub(crate) per_item: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) prompts: PromptArgs,
    #[command(flatten)]
    pub(crate) augmentation: AugmentArgs,
    /// Retrieval, reranking: augment the queries only, not the documents.
    #[arg(long, env = "ISOMER_QUERIES_ONLY", requires = "augment", help_heading = heading::AUGMENTATION)]
    pub(crate) queries_only: bool,
    #[command(flatten)]
    pub(crate) gains: gains::GainArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

/// `isomer check`
#[derive(Args, Debug)]
#[command(
    after_help = "Suites that ship: quick and noise (their data is built in; noise needs no language model), minimal, pteb, hteb-english, hteb-multilingual (their data is found by name:\n`isomer datasets`). Examples:\n  isomer check\n  isomer check --suite noise --model ./my-encoder\n  isomer check --suite minimal --data-root ./data --limit 200\n  isomer check --suite suite.toml --transformation stopword_removal --generator none\n  isomer check --suite hteb-english --generator openai:gemma3:27b@http://localhost:11434/v1 --plan\n  isomer check --suite minimal --rule max_drop=5,unit=item --rule max_drop=6,of=length,basis=point --rule min_score=70,of=original\n  isomer check --model new --baseline old --suite hteb-english --rule margin=1 --sequential\n  isomer check --model my-encoder --baseline my-encoder --form int8 --form binary:256\n  isomer check --suite minimal --judge openai:gemma3:27b@http://localhost:11434/v1 --judge-sample 100 --judge-scale similarity,quality\n  isomer check --model all-MiniLM-L6-v2 --model paraphrase-MiniLM-L3-v2 --suite suite.toml --generator local:qwen2.5-coder-1.5b-instruct --out report"
)]
pub(crate) struct CheckArgs {
    /// Encoders to check: catalogue ids or sentence-transformers folders; repeat for several.
    /// NAME=DIR gives a folder the name that all output shows [default: all-MiniLM-L6-v2].
    #[arg(
        long = "model",
        env = "ISOMER_CHECK_MODEL",
        value_name = "ID_OR_DIR",
        value_delimiter = ','
    )]
    pub(crate) models: Vec<String>,
    /// Encoder to compare the others with; also the NAME of one of them.
    #[arg(long, env = "ISOMER_BASELINE", value_name = "ID_OR_DIR")]
    pub(crate) baseline: Option<String>,
    // Its last group has a heading, which clap keeps for what follows.
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Folder for report.json, report.html, report.md and junit.xml.
    #[arg(long, env = "ISOMER_CHECK_OUT", default_value = "isomer-report", value_name = "DIR", help_heading = heading::FIRST)]
    pub(crate) out: PathBuf,
    /// Sign the result of the check with this key (PEM, PKCS#8; ECDSA on P-256 or Ed25519), into
    /// attestation.dsse.json in the same folder; see `isomer report attest`.
    #[arg(long, env = "ISOMER_ATTEST", value_name = "KEY_FILE", help_heading = heading::FIRST)]
    pub(crate) attest: Option<PathBuf>,
    /// Write items.json too: what the scores are made of item by item, for `isomer diff`. It is
    /// kept with the run in any case.
    #[arg(long, env = "ISOMER_ITEMS", value_parser = clap::builder::FalseyValueParser::new(), help_heading = heading::FIRST)]
    pub(crate) items: bool,
    /// Print what the check would take, and stop: texts, calls, tokens, price and time, what the
    /// caches hold already, and how probably each rule decides. Nothing is generated, encoded or
    /// rated.
    #[arg(long, help_heading = heading::FIRST)]
    pub(crate) plan: bool,
    /// With --plan: the rows with which each rule max_drop (unit=item) passes an encoder that does
    /// not drop, with this probability: from 0.05 to below 1, e.g. 0.8.
    #[arg(long, help_heading = heading::COST, value_name = "P", requires = "plan")]
    pub(crate) power: Option<f64>,
    #[command(flatten)]
    pub(crate) prompts: PromptArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
}

/// The suite of a check with its overrides, whatever the encoders.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// A built-in suite's name or a suite file (TOML).
    #[arg(long, env = "ISOMER_SUITE", default_value = "quick", value_name = "NAME_OR_FILE")]
    pub(crate) suite: String,
    /// `local:ID` or `openai:MODEL@URL` [default: the suite's, else the server's].
    #[arg(long, env = "ISOMER_CHECK_GENERATOR", value_name = "SPEC")]
    pub(crate) generator: Option<String>,
    /// Seeds of the transformations: each text is transformed once for each seed [default: the
    /// suite's].
    #[arg(long, env = "ISOMER_CHECK_SEEDS", value_delimiter = ',', help_heading = heading::GENERATION)]
    pub(crate) seeds: Vec<u64>,
    /// Sampling temperature of the generator, 0 to 2; 0 is greedy [default: the suite's].
    #[arg(long, env = "ISOMER_CHECK_TEMPERATURE", value_name = "T", help_heading = heading::GENERATION)]
    pub(crate) temperature: Option<f64>,
    /// Use of stored texts and ratings of another version of a model, as its server names it
    /// [default: the suite's].
    #[arg(long, env = "ISOMER_CHECK_ON_FINGERPRINT_CHANGE", value_enum, help_heading = heading::GENERATION)]
    pub(crate) on_fingerprint_change: Option<OnFingerprintChange>,
    /// Maximum number of rows per data set, drawn by the seed [default: the suite's].
    #[arg(long, env = "ISOMER_CHECK_LIMIT", value_name = "N")]
    pub(crate) limit: Option<u32>,
    /// Rows of all data sets together, in place of --limit: a data set whose score varies more gets
    /// more of them [default: the suite's].
    #[arg(long, env = "ISOMER_TOTAL_ITEMS", value_name = "N", help_heading = heading::DATA)]
    pub(crate) total_items: Option<u32>,
    /// Seed of the samples [default: the suite's].
    #[arg(long, env = "ISOMER_CHECK_SAMPLE_SEED", help_heading = heading::DATA)]
    pub(crate) sample_seed: Option<u64>,
    /// Transformations, e.g. paraphrase; repeat or separate by commas [default: the suite's].
    /// `isomer transform --transformation list` prints all.
    #[arg(
        long = "transformation",
        env = "ISOMER_TRANSFORMATIONS",
        value_delimiter = ',',
        value_name = "NAME"
    )]
    pub(crate) transformations: Vec<String>,
    /// Score each encoder in another form too: stored as f16, int8, binary or hamming, a number of
    /// leading dimensions (256), or both (binary:256); retrieval by terms (bm25) or by vectors and
    /// terms (hybrid:rrf, hybrid:dbsf, hybrid:rsf, hybrid:rrf:0.7). `off`: none of the suite's
    /// [default: the suite's].
    #[arg(long = "form", env = "ISOMER_FORMS", value_name = "FORM", value_delimiter = ',', help_heading = heading::ENCODERS)]
    pub(crate) forms: Vec<String>,
    /// Score each encoder with its prompts in other words too: none, synonyms, lower_case,
    /// upper_case, no_punctuation, typos, or all. `off`: none of the suite's [default: the
    /// suite's].
    #[arg(
        long = "prompt-variant",
        env = "ISOMER_PROMPT_VARIANTS",
        value_name = "NAME",
        value_delimiter = ',',
        help_heading = heading::ENCODERS,
    )]
    pub(crate) prompt_variants: Vec<String>,
    #[command(flatten)]
    pub(crate) judge: CheckJudgeArgs,
    #[command(flatten)]
    pub(crate) separation: CheckSeparationArgs,
    #[command(flatten)]
    pub(crate) limits: CheckLimitArgs,
    #[command(flatten)]
    pub(crate) gate: GateArgs,
}

/// The judge that rates the transformed texts of a check.
#[derive(Args, Debug)]
#[command(next_help_heading = heading::JUDGE)]
pub(crate) struct CheckJudgeArgs {
    /// Language model that rates the transformed texts, named as for --generator; `none`: no judge.
    /// The report then shows how drift goes with the ratings. Use a model other than the
    /// generator to avoid that it rates its own texts [default: the suite's judge, else none].
    #[arg(long, env = "ISOMER_JUDGE", value_name = "SPEC", help_heading = heading::FIRST)]
    pub(crate) judge: Option<String>,
    /// Maximum number of texts rated per data set, transformation and seed; 0: all [default: the
    /// suite's, else 50].
    #[arg(long, env = "ISOMER_JUDGE_SAMPLE", value_name = "N")]
    pub(crate) judge_sample: Option<u32>,
    /// Scales of the ratings; each scale costs a call per pair [default: the suite's, else
    /// similarity].
    #[arg(long = "judge-scale", env = "ISOMER_JUDGE_SCALES", value_enum, value_delimiter = ',')]
    pub(crate) judge_scales: Vec<JudgeScale>,
    /// Least similarity, above 0 and at most 5, of a rewrite that is accepted [default: the
    /// suite's, else 3].
    #[arg(long, env = "ISOMER_JUDGE_ACCEPT", value_name = "RATING")]
    pub(crate) judge_accept: Option<f64>,
}

/// Maximum work of the check.
#[derive(Args, Debug)]
#[command(next_help_heading = heading::COST)]
pub(crate) struct CheckLimitArgs {
    /// Maximum number of calls to the generator: a check that would need more is not started, one
    /// that has made more is stopped [default: the suite's, else no limit].
    #[arg(long, env = "ISOMER_MAX_CALLS", value_name = "N")]
    pub(crate) max_calls: Option<u64>,
    /// The same in money, in the unit of the generator's prices, which its configuration must have
    /// [default: the suite's, else no limit].
    #[arg(long, env = "ISOMER_MAX_COST", value_name = "AMOUNT")]
    pub(crate) max_cost: Option<f64>,
}

/// Whether encoders distinguish rewrites from changes of meaning.
#[derive(Args, Debug)]
#[command(next_help_heading = heading::SEPARATION)]
pub(crate) struct CheckSeparationArgs {
    /// Leave out the control of sensitivity: no text is changed in meaning and compared with its
    /// rewrite.
    #[arg(long, env = "ISOMER_NO_SEPARATION")]
    pub(crate) no_separation: bool,
    /// How meaning is changed [default: the suite's, else negation, number, antonym and entity,
    /// which need no generator].
    #[arg(
        long = "separation-kind",
        env = "ISOMER_SEPARATION_KINDS",
        value_enum,
        value_delimiter = ',',
        conflicts_with = "no_separation"
    )]
    pub(crate) separation_kinds: Vec<ChangeArg>,
    /// Maximum number of texts changed per data set [default: the suite's, else 200].
    #[arg(
        long,
        env = "ISOMER_SEPARATION_TEXTS",
        value_name = "N",
        conflicts_with = "no_separation"
    )]
    pub(crate) separation_texts: Option<u32>,
}

/// A kind of change of meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChangeArg {
    /// A negation put in or taken out.
    Negation,
    /// A number changed to another of like size.
    Number,
    /// A word exchanged for its opposite.
    Antonym,
    /// A name exchanged for another of the data set.
    Entity,
    /// Words and names of one kind change places; English, without a generator.
    #[value(name = "multi_swap")]
    MultiSwap,
    /// Look-alikes with another meaning, written by the generator at temperature 1; one call per
    /// text.
    Distractors,
}

impl ChangeArg {
    /// As a suite and the proto spell it, and so the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// `isomer serve`
#[derive(Args, Debug)]
#[command(after_help = "Example: isomer serve --listen 127.0.0.1:50051")]
pub(crate) struct ServeArgs {
    /// Address to listen on [default: 127.0.0.1:50051, or the configuration's].
    #[arg(long, env = "ISOMER_LISTEN", value_name = "HOST:PORT", value_parser = listen_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Encoders to load before the first request; NAME=DIR offers a folder under a name. Repeat for
    /// several.
    #[arg(
        long = "model",
        env = "ISOMER_SERVE_MODEL",
        value_name = "ID_OR_DIR",
        value_delimiter = ','
    )]
    pub(crate) models: Vec<String>,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

/// `isomer worker`
#[derive(Args, Debug)]
#[command(
    after_help = "Example: isomer worker --engine nats://10.0.0.5:4222 --store s3://isomer/shared --lanes transform=4,encode=2"
)]
pub(crate) struct WorkerArgs {
    /// Kinds of work that it takes, each with how many units at once: transform (texts to other
    /// texts), encode (texts to vectors), judge (ratings by a language model), score (vectors to
    /// scores, and shards of large corpora, which it encodes and searches).
    #[arg(
        long,
        env = "ISOMER_LANES",
        value_name = "KIND=N",
        value_delimiter = ',',
        default_value = "transform=4,encode=1,judge=2,score=1"
    )]
    pub(crate) lanes: Vec<String>,
    /// Seconds that begun units have to end after a signal; what has not ended is handed back.
    #[arg(long, env = "ISOMER_GRACE", value_name = "SECONDS", default_value_t = 30)]
    pub(crate) grace: u64,
    /// Address to serve /metrics and /healthz on [default: none].
    #[arg(long, env = "ISOMER_METRICS_LISTEN", value_name = "HOST:PORT", value_parser = listen_address)]
    pub(crate) metrics_listen: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
    #[command(flatten)]
    pub(crate) encoders: EngineArgs,
}

/// An address to listen on. Of the addresses of a name the first IPv4 one is taken, because clients
/// of `localhost` try both families.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let refused = || format!("`{text}` is not an address; write HOST:PORT, e.g. 127.0.0.1:50051 or localhost:50051");
    let (host, _) = text.rsplit_once(':').ok_or_else(refused)?;
    if host.is_empty() {
        return Err(refused());
    }
    let found: Vec<_> = text.to_socket_addrs().map_err(|_| refused())?.collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use std::iter;

    use clap::CommandFactory;

    use super::*;

    /// The words of each command that has a flag, with the arguments that it requires.
    fn lines_with(flag: &str) -> Vec<Vec<String>> {
        fn walk(command: &clap::Command, line: &[String], flag: &str, lines: &mut Vec<Vec<String>>) {
            let has = command.get_arguments().any(|arg| arg.get_long() == Some(flag));
            if has && !command.is_subcommand_required_set() {
                let required = command
                    .get_arguments()
                    .filter(|arg| arg.is_required_set() && arg.get_long() != Some(flag));
                let required = required.flat_map(|arg| {
                    let long = arg.get_long().map(|long| format!("--{long}"));
                    let value = arg
                        .get_possible_values()
                        .first()
                        .map_or("1", |value| value.get_name())
                        .to_owned();
                    long.into_iter().chain(iter::once(value))
                });
                lines.push(line.iter().cloned().chain(required).collect());
            }
            for sub in command.get_subcommands() {
                let name = iter::once(sub.get_name().to_owned());
                walk(sub, &line.iter().cloned().chain(name).collect::<Vec<_>>(), flag, lines);
            }
        }
        let mut lines = Vec::new();
        let mut cli = Cli::command();
        // Gives the flags of a command to those below it.
        cli.build();
        walk(&cli, &["isomer".to_owned()], flag, &mut lines);
        lines
    }

    /// Checks that each command that has a flag reads it.
    fn read_of_each(flag: &str, given: &str, read: fn(&Command) -> Option<String>) {
        let lines = lines_with(flag);
        assert!(lines.len() > 1, "{lines:?}");
        for mut line in lines {
            line.extend([format!("--{flag}"), given.to_owned()]);
            let cli = Cli::try_parse_from(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
            assert_eq!(read(&cli.command).as_deref(), Some(given), "{line:?}");
        }
    }

    #[test]
    fn an_address_to_listen_on_may_have_a_name() {
        assert_eq!(listen_address("localhost:9555").unwrap().port(), 9555);
        assert_eq!(listen_address("127.0.0.1:0").unwrap().to_string(), "127.0.0.1:0");
        assert_eq!(listen_address("[::1]:80").unwrap().to_string(), "[::1]:80");
        for wrong in ["9555", ":9555", "localhost", "127.0.0.1:99999", "127.0.0.1:x"] {
            let message = listen_address(wrong).unwrap_err();
            assert!(message.contains("127.0.0.1:50051"), "{wrong}: {message}");
        }
    }

    #[test]
    fn the_device_of_every_command_is_used() {
        read_of_each("device", "cuda:7", |command| command.engine().device);
    }

    #[test]
    fn the_queue_of_every_command_is_used() {
        read_of_each("engine", "nats://h:4222", |command| match command {
            #[cfg(feature = "fleet")]
            Command::Fleet(args) => args.engine.clone(),
            command => command.fleet().engine,
        });
    }

    #[test]
    fn the_store_of_every_command_is_used() {
        read_of_each("store", "s3://b/p", |command| command.fleet().store);
    }

    #[test]
    fn the_encoders_of_every_command_may_have_names() {
        for flag in ["model", "baseline"] {
            // There, --model is the name of a registry's model.
            let lines = lines_with(flag).into_iter().filter(|line| line[1] != "registry");
            for mut line in lines {
                line.extend([format!("--{flag}"), "given".to_owned()]);
                let mut command = Cli::try_parse_from(&line).unwrap().command;
                let encoders = command.encoders();
                assert!(encoders.iter().any(|(_, encoder)| *encoder == "given"), "{line:?}");
            }
        }
    }
}
