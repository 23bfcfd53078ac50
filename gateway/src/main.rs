//! `isomer-gateway`: one port in front of services that run elsewhere.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::Parser;
use isomer_gateway::{GatewayConfig, upstreams};
use isomer_service_kit::{Fault, config, server, shutdown, telemetry};
use serde_json::json;

/// A gateway moves many small and middling pieces between threads, which contend for the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Routes gRPC calls to embed-svc, transform-svc and eval-svc.
#[derive(Debug, Parser)]
#[command(name = "isomer-gateway", version)]
struct Args {
    /// Configuration file (TOML): sections server, embed, transform, eval (each with `address`, or `addresses` of several) and others.
    #[arg(long, env = "ISOMER_CONFIG")]
    config: Option<PathBuf>,
    /// Address to listen on.
    #[arg(long)]
    listen: Option<SocketAddr>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match serve(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            eprintln!("isomer-gateway: {message}");
            ExitCode::from(code)
        }
    }
}

/// Exit codes: 2 configuration, 3 anything that the gateway depends on.
async fn serve(args: Args) -> Result<(), (u8, String)> {
    let failed = |fault: Fault| (3, fault.to_string());
    let flags = args
        .listen
        .map_or_else(|| json!({}), |listen| json!({ "server": { "listen": listen } }));
    let config: GatewayConfig = config::load(args.config.as_deref(), &flags).map_err(|error| (2, error.to_string()))?;
    let _telemetry = telemetry::init("isomer-gateway", &config.telemetry).map_err(failed)?;
    let listener = server::bind(&config.server).map_err(failed)?;
    upstreams::run(config, listener, shutdown::signal())
        .await
        .map_err(failed)
}
