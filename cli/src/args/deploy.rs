//! `isomer database`, `isomer probe`, `isomer wait`: what deployments need of a command without a
//! shell around it.

use clap::{Args, Subcommand};
use isomer_service_kit::probe::Question;

/// `isomer database …`
#[derive(Subcommand, Debug)]
pub(crate) enum DatabaseCommand {
    /// Bring all tables up to date, before gateways start. A gateway does the same when it starts.
    #[command(after_help = "\
The database is the configuration's database.url (ISOMER_DATABASE__URL), else gateway.sqlite in the home folder.
Example: isomer database migrate --wait 60")]
    Migrate(MigrateArgs),
}

/// `isomer database migrate`
#[derive(Args, Debug)]
pub(crate) struct MigrateArgs {
    /// Seconds for which a database that does not answer is tried again.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) wait: u64,
}

/// `isomer probe`
#[derive(Args, Debug)]
#[command(after_help = "\
Without --server the probe calls `isomer serve` on this machine, at the port of the configuration. With TLS that server's
certificate must be for localhost.
Examples:
  isomer probe --server 127.0.0.1:50051
  isomer --config isomer.toml probe --probe live
Exit codes: 0 yes, 3 no.")]
pub(crate) struct ProbeArgs {
    /// Probe to run: `live` checks that the server responds at all, `ready` that it accepts
    /// requests.
    #[arg(long = "probe", value_name = "live|ready", default_value_t = Question::Ready)]
    pub(crate) question: Question,
    /// Seconds within which it must answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    pub(crate) timeout: u64,
}

/// `isomer wait`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  isomer wait http://transform:50051 https://gateway:50051 --ca-file ca.crt
  isomer wait database tcp://nats:4222 --timeout 60
Exit codes: 0 all can be used, 3 the time was over.")]
pub(crate) struct WaitArgs {
    /// Targets to wait for: a server that accepts requests (`host:port` or a URL), an open port
    /// (`tcp://host:port`), or `database`: the gateway's database answers and, where access
    /// requires keys, holds a working one.
    #[arg(required = true, value_name = "TARGET")]
    pub(crate) targets: Vec<String>,
    /// Seconds after which it gives up.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub(crate) timeout: u64,
}
