//! `isomer-eval-svc`: the evaluation service as a process of its own.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::Parser;
use isomer_eval::{ServeConfig, run};
use isomer_service_kit::{Fault, config, server, shutdown, telemetry};
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
    /// Address of an encoder service.
    #[arg(long)]
    encoder: Option<String>,
    /// Address of a transform service.
    #[arg(long)]
    transform: Option<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match serve(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            eprintln!("isomer-eval-svc: {message}");
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
    for (section, address) in [("encoder", args.encoder), ("transform", args.transform)] {
        if let Some(address) = address {
            flags[section] = json!({ "address": address });
        }
    }
    let mut config: ServeConfig =
        config::load(args.config.as_deref(), &flags).map_err(|error| (2, error.to_string()))?;
    config.models = config.models.with_env();
    let _telemetry = telemetry::init("isomer-eval", &config.telemetry).map_err(failed)?;
    let listener = server::bind(&config.server).map_err(failed)?;
    run(config, listener, shutdown::signal()).await.map_err(failed)
}
