//! `isomer-gateway`: one port in front of services that run elsewhere.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::Parser;
use isomer_gateway::upstreams;
use isomer_service_kit::{Process, probe::Question, shutdown};
use serde_json::json;

/// A gateway passes many small and medium allocations between threads, which contend for the
/// system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Routes gRPC calls to embed-svc, transform-svc and eval-svc.
#[derive(Debug, Parser)]
#[command(name = "isomer-gateway", version)]
struct Args {
    /// Configuration file (TOML): sections server, embed, transform, eval (each with `address`, or
    /// `addresses` of several) and others.
    #[arg(long, env = "ISOMER_CONFIG")]
    config: Option<PathBuf>,
    /// Address to listen on.
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Ask the server of this configuration that is running whether it is `live` or `ready`, and
    /// stop: exit code 0 if it is.
    #[arg(long, value_name = "live|ready")]
    probe: Option<Question>,
}

fn main() -> ExitCode {
    let Args { config, listen, probe } = Args::parse();
    let flags = json!({});
    let process = Process {
        command: "isomer-gateway",
        service: "isomer-gateway",
        config,
        listen,
        flags,
        probe,
    };
    process.main(|config, listener| upstreams::run(config, listener, shutdown::signal()))
}
