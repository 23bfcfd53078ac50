//! `isomer registry …`

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use isomer_access::read_span;

use super::{EngineArgs, FleetArgs, RunArgs, listen_address};
use crate::heading;

/// `isomer registry …`
#[derive(Subcommand, Debug)]
pub(crate) enum RegistryCommand {
    /// Check one version of a model, and write the verdict into the registry.
    #[command(after_help = "\
Exit codes: 0 passed, 1 failed, 2 usage or configuration, 3 the version cannot be checked or the registry failed, 4 undecided or
invalid.
Examples:
  isomer registry check --tracking-uri http://127.0.0.1:5000 --model enc --version 3
  isomer registry check --model enc --version 3 --suite minimal --rule max_drop=5,unit=item --promote
  AWS_REGION=eu-central-1 isomer registry check --registry sagemaker --model GROUP --version 3
MLflow: the address may stand in MLFLOW_TRACKING_URI, and what logs in there in MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and
MLFLOW_TRACKING_PASSWORD. SageMaker: the model is a model package group; credentials are those of the environment.")]
    Check(Box<RegistryCheckArgs>),
    /// Look through the registry at intervals, and check each version that has no verdict.
    #[command(after_help = "\
Examples:
  isomer registry watch --tracking-uri http://127.0.0.1:5000 --model 'encoder-*' --interval 5m
  isomer registry watch --tracking-uri http://127.0.0.1:5000 --once")]
    Watch(Box<RegistryWatchArgs>),
    /// Receive the registry's webhooks, and watch as well: a version is checked when it is made,
    /// and what a webhook missed is found.
    #[command(after_help = "\
The webhook goes to http://THIS_HOST:PORT/hooks/mlflow; its events are model_version.created, model_version_alias.created,
model_version_alias.deleted and model_version_tag.deleted. Its secret is in ISOMER_WEBHOOK_SECRET, or in a file
(--webhook-secret-file). docs/how-to/registry.md says what MLflow needs to send it.
Example:
  isomer registry serve --tracking-uri http://mlflow:5000 --listen 0.0.0.0:8080 --model 'encoder-*'")]
    Serve(Box<RegistryServeArgs>),
}

impl RegistryCommand {
    /// Whether it runs until it is stopped.
    pub(crate) fn serves(&self) -> bool {
        match self {
            Self::Check(_) => false,
            Self::Watch(args) => !args.once,
            Self::Serve(_) => true,
        }
    }

    /// Options that all these commands share.
    pub(crate) fn common(&self) -> &RegistryCommonArgs {
        match self {
            Self::Check(args) => &args.common,
            Self::Watch(args) => &args.common,
            Self::Serve(args) => &args.watching.common,
        }
    }
}

/// Software of the registry.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RegistryKind {
    /// MLflow 3, with a tracking server.
    Mlflow,
    /// SageMaker's model registry, in the region of AWS_REGION; for `isomer registry check` alone.
    Sagemaker,
}

/// Options of every command of a registry.
#[derive(Args, Debug)]
pub(crate) struct RegistryCommonArgs {
    /// Kind of registry.
    #[arg(long, value_enum, default_value_t = RegistryKind::Mlflow)]
    pub(crate) registry: RegistryKind,
    /// MLflow: address of the tracking server.
    #[arg(long, env = "MLFLOW_TRACKING_URI", value_name = "URL")]
    pub(crate) tracking_uri: Option<String>,
    /// MLflow: experiment in which checks are recorded; it is made if it is not there.
    #[arg(
        long,
        env = "ISOMER_REGISTRY_EXPERIMENT",
        value_name = "NAME",
        default_value = "isomer",
        help_heading = heading::REGISTRY,
    )]
    pub(crate) experiment: String,
    /// MLflow: alias of the version that others are compared with, if one has it. In SageMaker they
    /// are compared with the newest approved version.
    #[arg(
        long,
        env = "ISOMER_REGISTRY_CHAMPION",
        value_name = "ALIAS",
        default_value = "champion",
        help_heading = heading::REGISTRY,
    )]
    pub(crate) champion: String,
    /// MLflow: alias that a version gets that passed. SageMaker approves it.
    #[arg(
        long,
        env = "ISOMER_REGISTRY_ALIAS",
        value_name = "ALIAS",
        default_value = "isomer-passed",
        help_heading = heading::REGISTRY,
    )]
    pub(crate) alias: String,
    /// MLflow: make a version that passed the champion. Without this option that alias is never
    /// moved.
    #[arg(long, env = "ISOMER_REGISTRY_PROMOTE", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) promote: bool,
    /// Sign the result of each check with this key (PEM, PKCS#8; ECDSA on P-256 or Ed25519), and
    /// store attestation.dsse.json with the report; see `isomer report attest`.
    #[arg(long, env = "ISOMER_ATTEST", value_name = "KEY_FILE")]
    pub(crate) attest: Option<PathBuf>,
    /// Maximum total size of an encoder's files in bytes; a larger version is refused.
    #[arg(long, env = "ISOMER_REGISTRY_MAX_BYTES", value_name = "BYTES", default_value_t = 4 << 30, help_heading = heading::REGISTRY)]
    pub(crate) max_bytes: u64,
    /// Maximum number of files of a version; one with more is refused.
    #[arg(long, env = "ISOMER_REGISTRY_MAX_FILES", value_name = "N", default_value_t = 2_000, help_heading = heading::REGISTRY)]
    pub(crate) max_files: usize,
    /// Folder for files that are being checked, and for the ledger. With --server, the gateway has
    /// to have the same folder under the same path, and embed.allow_paths [default: `registry` in
    /// the home folder].
    #[arg(long, env = "ISOMER_REGISTRY_FOLDER", value_name = "DIR", help_heading = heading::REGISTRY)]
    pub(crate) folder: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
}

/// `isomer registry check`
#[derive(Args, Debug)]
pub(crate) struct RegistryCheckArgs {
    /// Registered name of the model.
    #[arg(long, value_name = "NAME")]
    pub(crate) model: String,
    /// Version to check.
    #[arg(long, value_name = "N")]
    pub(crate) version: String,
    #[command(flatten)]
    pub(crate) common: RegistryCommonArgs,
}

/// `isomer registry watch`
#[derive(Args, Debug)]
pub(crate) struct RegistryWatchArgs {
    /// Models to check: names, or patterns with `*`; repeat for several [default: all].
    #[arg(long = "model", value_name = "PATTERN", value_delimiter = ',')]
    pub(crate) models: Vec<String>,
    /// Time between two looks through the registry, e.g. 30s, 5m.
    #[arg(long, env = "ISOMER_REGISTRY_INTERVAL", value_name = "TIME", default_value = "60s", value_parser = span)]
    pub(crate) interval: Duration,
    /// Time after which the files of the version at the alias of those that passed are read again,
    /// whole, and compared with what passed: a change that keeps their sizes is not seen otherwise,
    /// but in S3.
    #[arg(long, env = "ISOMER_REGISTRY_REREAD", value_name = "TIME", default_value = "24h", value_parser = span, help_heading = heading::REGISTRY)]
    pub(crate) reread: Duration,
    /// Look once, make the checks that are due, and stop.
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) common: RegistryCommonArgs,
}

/// `isomer registry serve`
#[derive(Args, Debug)]
pub(crate) struct RegistryServeArgs {
    /// Address to receive webhooks on; /healthz and /metrics are there too.
    #[arg(
        long,
        env = "ISOMER_REGISTRY_LISTEN",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:8080",
        value_parser = listen_address
    )]
    pub(crate) listen: SocketAddr,
    /// File that holds the webhook's secret alone; it is read again when it changes [default:
    /// ISOMER_WEBHOOK_SECRET].
    #[arg(long, env = "ISOMER_WEBHOOK_SECRET_FILE", value_name = "FILE", help_heading = heading::REGISTRY)]
    pub(crate) webhook_secret_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) watching: RegistryWatchArgs,
}

fn span(text: &str) -> Result<Duration, String> {
    read_span(text)
        .filter(|span| !span.is_zero())
        .ok_or_else(|| format!("`{text}` is not a while; write a number with its unit, e.g. 30s or 5m"))
}
