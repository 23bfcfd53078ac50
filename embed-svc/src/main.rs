//! `isomer-embed-svc`: the encoder service as a process of its own.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::Parser;
use isomer_embed::{ServeConfig, run};
use isomer_service_kit::{Fault, config, server, shutdown, telemetry};
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

#[tokio::main]
async fn main() -> ExitCode {
    match serve(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            eprintln!("isomer-embed-svc: {message}");
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
    if !args.models.is_empty() {
        flags["embed"] = json!({ "warm_up": args.models });
    }
    let mut config: ServeConfig =
        config::load(args.config.as_deref(), &flags).map_err(|error| (2, error.to_string()))?;
    config.models = config.models.with_env();
    let _telemetry = telemetry::init("isomer-embed", &config.telemetry).map_err(failed)?;
    let listener = server::bind(&config.server).map_err(failed)?;
    run(config, listener, shutdown::signal()).await.map_err(failed)
}
