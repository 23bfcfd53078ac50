//! `isomer-transform-svc`: the transformation service as a process of its own.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::Parser;
use isomer_service_kit::{Fault, config, server, shutdown, telemetry};
use isomer_transform::{ServeConfig, run};
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
    /// Generator of requests that name none: an id of the configuration, `local:ID`, or `openai:MODEL@URL`.
    #[arg(long)]
    generator: Option<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match serve(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            eprintln!("isomer-transform-svc: {message}");
            ExitCode::from(code)
        }
    }
}

/// Exit codes: 2 configuration, 3 anything that the service depends on.
async fn serve(args: Args) -> Result<(), (u8, String)> {
    let failed = |fault: Fault| (3, fault.to_string());
    let mut flags = json!({});
    if let Some(listen) = args.listen {
        flags["server"] = json!({ "listen": listen });
    }
    if let Some(generator) = args.generator {
        flags["transform"] = json!({ "default_generator": generator });
    }
    let mut config: ServeConfig =
        config::load(args.config.as_deref(), &flags).map_err(|error| (2, error.to_string()))?;
    config.models = config.models.with_env();
    let _telemetry = telemetry::init("isomer-transform", &config.telemetry).map_err(failed)?;
    let listener = server::bind(&config.server).map_err(failed)?;
    run(config, listener, shutdown::signal()).await.map_err(failed)
}
