//! A load and an upstream for measuring servers of embeddings: `tests/bench/gateway_overhead.py`
//! runs them around Isomer's gateway and its peers.
//!
//! ```text
//! cargo run --release -p isomer-gateway --example gateway_load -- upstream --listen 127.0.0.1:0
//! cargo run --release -p isomer-gateway --example gateway_load -- drive --http http://127.0.0.1:8080/v1/embeddings --model m --seconds 10
//! cargo run --release -p isomer-gateway --example gateway_load -- drive --grpc http://127.0.0.1:50051 --model m --rate 2000
//! ```
//!
//! `upstream` answers at once, with vectors that are computed from the text. `drive` opens
//! connections, sends one text at a time over each, checks every vector, and prints requests per
//! second and latencies as JSON. Without `--rate` each connection sends its next request as soon as
//! it has its answer. With `--rate` requests have due times and a latency counts from the due time,
//! so that a stall counts for every request that it would have delayed.
#![allow(clippy::print_stdout, clippy::expect_used, clippy::panic)]

mod drive;
mod upstream;
mod vectors;

use std::net::SocketAddr;

use clap::Parser;

#[derive(Debug, Parser)]
enum Command {
    /// A server of embeddings that answers at once: `POST /v1/embeddings` and `EncoderService` on
    /// one port.
    Upstream {
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
    },
    /// Puts a load on a server.
    Drive(Box<drive::Options>),
}

#[tokio::main]
async fn main() {
    match Command::parse() {
        Command::Upstream { listen } => upstream::serve(listen).await,
        Command::Drive(options) => println!("{}", drive::run(options).await),
    }
}
