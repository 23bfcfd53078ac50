//! `isomer-embed-svc`: the encoder service as its own process.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::Parser;
use isomer_embed::run;
use isomer_service_kit::{Process, probe::Question, shutdown};
use serde_json::json;

/// Vectors and states move between threads. The system's allocator returns large blocks to the
/// system at once, only to request them again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Serves sentence-embedding models over gRPC (isomer.encoder.v1).
#[derive(Debug, Parser)]
#[command(name = "isomer-embed-svc", version)]
struct Args {
    /// Configuration file (TOML); the environment (ISOMER_EMBED__…) and flags win over it.
    #[arg(long, env = "ISOMER_CONFIG")]
    config: Option<PathBuf>,
    /// Address to listen on.
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Ask the server of this configuration that is running whether it is `live` or `ready`, and
    /// stop: exit code 0 if it is.
    #[arg(long, value_name = "live|ready")]
    probe: Option<Question>,
    /// Encoder to load before serving; may be given several times.
    #[arg(long = "model")]
    models: Vec<String>,
}

fn main() -> ExitCode {
    let Args {
        config,
        listen,
        probe,
        models,
    } = Args::parse();
    let mut flags = json!({});
    if !models.is_empty() {
        flags["embed"] = json!({ "warm_up": models });
    }
    let process = Process {
        command: "isomer-embed-svc",
        service: "isomer-embed",
        config,
        listen,
        flags,
        probe,
    };
    process.main(|config, listener| run(config, listener, shutdown::signal()))
}
