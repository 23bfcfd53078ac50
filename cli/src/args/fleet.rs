//! `isomer fleet`

use clap::Args;

/// `isomer fleet`
#[derive(Args, Debug)]
#[command(after_help = "\
With --server a running gateway is asked, which needs a key with the scope evaluate; with the scope admin it shows all runs.
Without it the queue itself is asked (--engine).
Examples:
  isomer fleet --server 127.0.0.1:50051
  isomer fleet --engine nats://127.0.0.1:4222 --format json")]
pub(crate) struct FleetViewArgs {
    /// Queue of the workers, e.g. nats://127.0.0.1:4222 [default: the configuration's
    /// fleet.engine].
    #[arg(long, env = "ISOMER_ENGINE", value_name = "URL")]
    pub(crate) engine: Option<String>,
}
