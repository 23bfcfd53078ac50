//! A load and an upstream to measure servers of embeddings with: `tests/bench/gateway_overhead.py`
//! puts them around Isomer's gateway and its peers.
//!
//! ```text
//! cargo run --release -p isomer-gateway --example gateway_load -- upstream --listen 127.0.0.1:0
//! cargo run --release -p isomer-gateway --example gateway_load -- drive --http http://127.0.0.1:8080/v1/embeddings --model m --seconds 10
//! cargo run --release -p isomer-gateway --example gateway_load -- drive --grpc http://127.0.0.1:50051 --model m --rate 2000
//! ```
//!
//! `upstream` answers at once, with vectors that follow from the text. `drive` opens connections,
//! asks for one text at a time over each, checks every vector, and prints requests a second and
//! latencies as JSON. Without `--rate` each connection asks again as soon as it has its answer;
//! with it requests start when they are due, and a latency counts from there, so that a stall is
//! seen by all whom it would have hit.
#![allow(clippy::print_stdout, clippy::expect_used, clippy::panic)]

mod drive;
mod upstream;
mod vectors;

use std::net::SocketAddr;

use clap::Parser;

#[derive(Debug, Parser)]
enum Command {
    /// An instant server of embeddings: `POST /v1/embeddings` and `EncoderService` on one port.
    Upstream {
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
    },
    /// A load.
    Drive(Box<drive::Options>),
}

#[tokio::main]
async fn main() {
    match Command::parse() {
        Command::Upstream { listen } => upstream::serve(listen).await,
        Command::Drive(options) => println!("{}", drive::run(options).await),
    }
}
