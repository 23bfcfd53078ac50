//! `isomer keys …`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use isomer_proto::gateway::v1::AccessScope;

/// `isomer keys`
#[derive(Args, Debug)]
#[command(after_help = "\
Keys work on the gateway's database directly, with no gateway running or beside a running one, which sees every change within a
second; or over --server, with a key in ISOMER_API_KEY that has the scope admin.

Examples:
  isomer keys create --name me --scope encode --scope admin       the first key; stdout holds the key alone
  isomer keys create --name search-team --scope encode --requests-per-second 20 --dollars-per-month 50 --expires 90d
  isomer keys list
  isomer keys show iso_0123456789ab
  isomer keys update iso_0123456789ab --tokens-per-day 2000000
  isomer keys revoke iso_0123456789ab
  isomer keys audit --verify")]
pub(crate) struct KeysArgs {
    /// The gateway's database: a path, sqlite:PATH or postgres://… (its password is better kept in
    /// the configuration) [default: the configuration's database.url, else gateway.sqlite in the
    /// home folder].
    #[arg(
        long,
        global = true,
        env = "ISOMER_DATABASE",
        value_name = "ADDRESS",
        hide_env_values = true
    )]
    pub(crate) database: Option<String>,
    #[command(subcommand)]
    pub(crate) command: KeysCommand,
}

/// `isomer keys …`
#[derive(Subcommand, Debug)]
pub(crate) enum KeysCommand {
    /// Make a key. It is printed once and kept nowhere: only its SHA-256 is stored.
    #[command(after_help = "Example: export ISOMER_API_KEY=$(isomer keys create --name me --scope encode)")]
    Create(CreateKeyArgs),
    /// Register a key that was made elsewhere, for example by the Helm chart. Only its SHA-256 is
    /// stored.
    #[command(after_help = "\
A key that is registered already gets the name and the scopes given and keeps the rest: the same import may be repeated.
Example: isomer keys import --name deployed --scope encode --key-file /etc/isomer/keys/deployed")]
    Import(ImportKeyArgs),
    /// List all keys, revoked ones too, with what they used.
    List,
    /// Show a key.
    Show {
        /// Its id, with or without `iso_`.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Change a key's name, scopes, expiry or limits.
    #[command(after_help = "Limits that are given replace all that the key has.
Examples:
  isomer keys update iso_0123456789ab --scope encode --scope evaluate
  isomer keys update iso_0123456789ab --dollars-per-month 80 --requests-per-second 20
  isomer keys update iso_0123456789ab --no-limits --expires never")]
    Update(UpdateKeyArgs),
    /// End a key for good.
    Revoke {
        /// Its id, with or without `iso_`.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// List the actions of administrators, or verify that the list was not changed.
    #[command(after_help = "Examples:
  isomer keys audit --format json
  isomer keys audit --verify
  isomer keys audit --verify --expect 9f86d081…     a hash that was noted earlier must be in the chain")]
    Audit(AuditArgs),
}

/// `isomer keys create`
#[derive(Args, Debug)]
pub(crate) struct CreateKeyArgs {
    /// Name of the person or service that uses the key.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,
    /// Scopes of the key; repeat or separate by commas.
    #[arg(
        long = "scope",
        value_enum,
        required = true,
        value_delimiter = ',',
        value_name = "SCOPE"
    )]
    pub(crate) scopes: Vec<AccessScope>,
    /// When it ends: a while (90d, 12h), a date or a time (2027-01-31T12:00:00Z) [default: never].
    #[arg(long, value_name = "WHEN")]
    pub(crate) expires: Option<String>,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// `isomer keys import`
#[derive(Args, Debug)]
pub(crate) struct ImportKeyArgs {
    /// Name of the person or service that uses the key.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,
    /// Scopes of the key; repeat or separate by commas.
    #[arg(
        long = "scope",
        value_enum,
        required = true,
        value_delimiter = ',',
        value_name = "SCOPE"
    )]
    pub(crate) scopes: Vec<AccessScope>,
    /// File that holds the key alone.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: PathBuf,
}

/// `isomer keys update`
#[derive(Args, Debug)]
pub(crate) struct UpdateKeyArgs {
    /// Its id, with or without `iso_`.
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Another name.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Other scopes, in place of those it has; repeat or separate by commas.
    #[arg(long = "scope", value_enum, value_delimiter = ',', value_name = "SCOPE")]
    pub(crate) scopes: Vec<AccessScope>,
    /// When it ends, or `never`.
    #[arg(long, value_name = "WHEN")]
    pub(crate) expires: Option<String>,
    /// Take all limits away.
    #[arg(long, conflicts_with = "LimitArgs")]
    pub(crate) no_limits: bool,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// How much a key may have; absent: no limit.
#[derive(Args, Debug, Clone, PartialEq, Default)]
pub(crate) struct LimitArgs {
    /// Requests a second on average, for each gateway process.
    #[arg(long, value_name = "N")]
    pub(crate) requests_per_second: Option<f64>,
    /// Requests in flight at once, for each gateway process.
    #[arg(long, value_name = "N")]
    pub(crate) max_concurrency: Option<u32>,
    /// Tokens a day (UTC).
    #[arg(long, value_name = "N")]
    pub(crate) tokens_per_day: Option<u64>,
    /// Tokens a month (UTC).
    #[arg(long, value_name = "N")]
    pub(crate) tokens_per_month: Option<u64>,
    /// Tokens in the key's whole life.
    #[arg(long, value_name = "N")]
    pub(crate) tokens_total: Option<u64>,
    /// US dollars a day (UTC), by the providers' prices.
    #[arg(long, value_name = "USD")]
    pub(crate) dollars_per_day: Option<f64>,
    /// US dollars a month (UTC).
    #[arg(long, value_name = "USD")]
    pub(crate) dollars_per_month: Option<f64>,
    /// US dollars in the key's whole life.
    #[arg(long, value_name = "USD")]
    pub(crate) dollars_total: Option<f64>,
}

/// `isomer keys audit`
#[derive(Args, Debug)]
pub(crate) struct AuditArgs {
    /// Compute every hash again and say whether the chain holds.
    #[arg(long)]
    pub(crate) verify: bool,
    /// A hash that the chain must hold, noted at an earlier verification or from the gateway's log.
    #[arg(long, requires = "verify", value_name = "HASH")]
    pub(crate) expect: Option<String>,
    /// Only events after this number.
    #[arg(long, default_value_t = 0, conflicts_with = "verify", value_name = "SEQ")]
    pub(crate) after: i64,
}
