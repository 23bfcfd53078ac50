//! `isomer-embed-svc`: the encoder service as a process of its own.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::Parser;
use isomer_embed::run;
use isomer_service_kit::{Process, shutdown};
use serde_json::json;

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
    /// Encoder to load before serving; may be given several times.
    #[arg(long = "model")]
    models: Vec<String>,
}

fn main() -> ExitCode {
    let Args { config, listen, models } = Args::parse();
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
    };
    process.main(|config, listener| run(config, listener, shutdown::signal()))
}
