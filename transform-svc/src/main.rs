//! `isomer-transform-svc`: the transformation service as a process of its own.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::Parser;
use isomer_service_kit::{Process, probe::Question, shutdown};
use isomer_transform::run;
use serde_json::json;

/// Serves transformations of texts over gRPC (isomer.transform.v1).
#[derive(Debug, Parser)]
#[command(name = "isomer-transform-svc", version)]
struct Args {
    /// Configuration file (TOML); the environment (ISOMER_TRANSFORM__…) and flags win over it.
    #[arg(long, env = "ISOMER_CONFIG")]
    config: Option<PathBuf>,
    /// Address to listen on.
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Ask the server of this configuration that is running whether it is `live` or `ready`, and
    /// stop: exit code 0 if it is.
    #[arg(long, value_name = "live|ready")]
    probe: Option<Question>,
    /// Generator of requests that name none: an id of the configuration, `local:ID`, or
    /// `openai:MODEL@URL`.
    #[arg(long)]
    generator: Option<String>,
}

fn main() -> ExitCode {
    let Args {
        config,
        listen,
        probe,
        generator,
    } = Args::parse();
    let mut flags = json!({});
    if let Some(generator) = generator {
        flags["transform"] = json!({ "default_generator": generator });
    }
    let process = Process {
        command: "isomer-transform-svc",
        service: "isomer-transform",
        config,
        listen,
        flags,
        probe,
    };
    process.main(|config, listener| run(config, listener, shutdown::signal()))
}
