//! `isomer-eval-svc`: the evaluation service as a process of its own.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::Parser;
use isomer_eval::run;
use isomer_service_kit::{Process, probe::Question, shutdown};
use serde_json::json;

/// Serves scores, statistics and robustness runs over gRPC (isomer.eval.v1).
#[derive(Debug, Parser)]
#[command(name = "isomer-eval-svc", version)]
struct Args {
    /// Configuration file (TOML); the environment (ISOMER_EVAL__…) and flags win over it.
    #[arg(long, env = "ISOMER_CONFIG")]
    config: Option<PathBuf>,
    /// Address to listen on.
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Ask the server of this configuration that is running whether it is `live` or `ready`, and
    /// stop: exit code 0 if it is.
    #[arg(long, value_name = "live|ready")]
    probe: Option<Question>,
    /// Address of an encoder service.
    #[arg(long)]
    encoder: Option<String>,
    /// Address of a transform service.
    #[arg(long)]
    transform: Option<String>,
}

fn main() -> ExitCode {
    let Args {
        config,
        listen,
        probe,
        encoder,
        transform,
    } = Args::parse();
    let mut flags = json!({});
    for (section, address) in [("encoder", encoder), ("transform", transform)] {
        if let Some(address) = address {
            flags[section] = json!({ "address": address });
        }
    }
    let process = Process {
        command: "isomer-eval-svc",
        service: "isomer-eval",
        config,
        listen,
        flags,
        probe,
    };
    process.main(|config, listener| run(config, listener, shutdown::signal()))
}
