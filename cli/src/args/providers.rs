//! `isomer providers …`: flags.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use isomer_proto::gateway::v1::ProviderKind;

use crate::heading;

const FILE_HELP: &str = "\
The file has one [[provider]] table each, e.g.

  [[provider]]
  id = \"openai\"
  kind = \"openai\"
  address = \"https://api.openai.com/v1\"
  secret = { environment = \"OPENAI_API_KEY\" }
  encoders = { \"text-embedding-3-small\" = \"text-embedding-3-small\" }
  limits = { max_batch_items = 2048, timeout = 20 }

Secrets are named, never written there: they are variables and files of the gateway's machine. The gateway lends only those that
providers.secret_environment and providers.file_dirs of its configuration name; by default none.";

/// `isomer providers …`
#[derive(Subcommand, Debug)]
pub(crate) enum ProvidersCommand {
    /// List the providers: what they offer, where they come from, how they do.
    #[command(after_help = "Example: isomer providers list --server 127.0.0.1:50051")]
    List,
    /// Show one provider, as a table for `apply` (or as JSON with --format json).
    Get {
        /// Id of the provider.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Register one provider.
    Create(Box<CreateArgs>),
    /// Register or change the providers of a file, so that they are as it says; others stay as they
    /// are.
    #[command(after_help = FILE_HELP)]
    Apply {
        /// TOML file; `-`: stdin.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Begin the lease of a provider anew.
    Renew {
        /// Id of the provider.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Take a provider away.
    Delete {
        /// Id of the provider.
        #[arg(value_name = "ID")]
        id: String,
        /// Only if its etag is still this one.
        #[arg(long, default_value = "", hide_default_value = true, value_name = "ETAG")]
        etag: String,
    },
    /// Probe a provider for real and say what was found; exit code 3 when it cannot be given to
    /// clients.
    #[command(
        after_help = "Examples:\n  isomer providers check openai\n  isomer providers check --file providers.toml"
    )]
    Check {
        /// A registered provider.
        #[arg(value_name = "ID", required_unless_present = "file")]
        id: Option<String>,
        /// Providers that need not be registered, from a file (`isomer providers apply --help`
        /// shows one); `-`: stdin.
        #[arg(long, conflicts_with = "id", value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

/// `isomer providers create`
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  isomer providers create tei-1 --kind tei-http --address http://10.0.0.20:8080 --encoder bge-small=BAAI/bge-small-en-v1.5\n  isomer providers create mine --kind isomer --address grpc://10.0.0.5:50051 --lease 60"
)]
pub(crate) struct CreateArgs {
    /// Its id: lower-case letters, digits and dashes.
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Protocol of the provider.
    #[arg(long, value_enum)]
    pub(crate) kind: ProviderKind,
    /// `grpc://host:port`, `grpcs://host:port`, `http://…` or `https://…`.
    #[arg(long, value_name = "URL")]
    pub(crate) address: String,
    /// Encoder id offered to clients and the provider's name for the model; repeat for several.
    #[arg(long = "encoder", value_name = "ID=MODEL", value_parser = pair)]
    pub(crate) encoders: Vec<(String, String)>,
    /// Prompt name (empty: for requests that name none) and the provider's word for it; repeat for
    /// several.
    #[arg(long = "input-type", value_name = "PROMPT=TYPE", value_parser = pair)]
    pub(crate) input_types: Vec<(String, String)>,
    /// Extra header, not a secret; repeat for several.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) headers: Vec<(String, String)>,
    /// Environment variable of the gateway that holds the key.
    #[arg(long, value_name = "VARIABLE", conflicts_with = "secret_file")]
    pub(crate) secret_environment: Option<String>,
    /// File of the gateway's machine that holds the key.
    #[arg(long, value_name = "PATH")]
    pub(crate) secret_file: Option<String>,
    /// Price per million tokens in US dollars.
    #[arg(long, value_name = "DOLLARS", default_value_t = 0.0, hide_default_value = true)]
    pub(crate) price: f64,
    /// Maximum number of texts per request to it.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, help_heading = heading::LIMITS)]
    pub(crate) max_batch_items: u32,
    /// Maximum number of tokens per request to it.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, help_heading = heading::LIMITS)]
    pub(crate) max_batch_tokens: u32,
    /// Maximum number of concurrent requests to it.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, help_heading = heading::LIMITS)]
    pub(crate) max_concurrency: u32,
    /// Maximum number of requests to it per second.
    #[arg(long, value_name = "RATE", default_value_t = 0.0, hide_default_value = true, help_heading = heading::LIMITS)]
    pub(crate) requests_per_second: f64,
    /// Maximum number of tokens sent to it per second.
    #[arg(long, value_name = "RATE", default_value_t = 0.0, hide_default_value = true, help_heading = heading::LIMITS)]
    pub(crate) tokens_per_second: f64,
    /// Longest wait for one answer of it.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = heading::LIMITS)]
    pub(crate) timeout: Option<std::time::Duration>,
    /// Register for so long, unless it is renewed; nothing: for good.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) lease: Option<std::time::Duration>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').ok_or("there is no `=` in it")?;
    Ok((parts.0.to_owned(), parts.1.to_owned()))
}

fn seconds(text: &str) -> Result<std::time::Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is not a number")?;
    std::time::Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
