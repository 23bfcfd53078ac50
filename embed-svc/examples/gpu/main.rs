//! Checks and measurements of one device, in one process: `cargo run --release -p isomer-embed
//! --example gpu -- --device candle-cpu parity FOLDER...`. Each result is a line of JSON on
//! standard output. A failure is a line with the field `error`, and ends in exit code 1.
//! `tests/gpu/lease.sh` runs all of them.
#![allow(clippy::print_stdout)]

mod checks;
mod inputs;
mod service;
mod session;
mod speed;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use isomer_embed::device::Precision;
use session::Session;

/// The service's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Checks and measures model folders on one device.
#[derive(Parser)]
struct Options {
    /// `cuda:N`, `cpu` (our CPU engine), or `candle-cpu` (the code of a GPU on Candle's CPU
    /// device).
    #[arg(long, global = true, default_value = "cuda:0")]
    device: String,
    /// Precisions, separated by commas: `f32`, `f16`, `bf16`.
    #[arg(long, global = true, value_delimiter = ',', value_parser = precision, default_value = "bf16")]
    precisions: Vec<Precision>,
    /// Field `note` of each line.
    #[arg(long, global = true)]
    note: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compares vectors with those of the CPU engine, and a text alone with the text in a batch.
    Parity(Folders),
    /// Counts texts whose bits depend on the batch.
    Bits(checks::Bits),
    /// Encodes more texts in one batch than a launch has blocks in one dimension.
    Many(checks::BatchArgs),
    /// Checks that NaN in one text does not reach the other texts of its batch.
    Poison(Folders),
    /// Texts a second, from token ids to vectors in host memory.
    Speed(speed::Speed),
    /// Milliseconds of one text of 15 tokens.
    Latency(speed::Latency),
    /// Device memory before, during and after the life of a model.
    Memory(speed::Memory),
    /// Texts a second through the service, from text to vector.
    Service(service::Throughput),
    /// Drops requests in flight, then checks and times the next one.
    Cancel(service::Cancel),
}

/// The models of a command.
#[derive(clap::Args)]
struct Folders {
    /// Model folders.
    #[arg(required = true)]
    folders: Vec<PathBuf>,
}

fn precision(name: &str) -> Result<Precision, String> {
    serde_json::from_value(name.into()).map_err(|_| "give f32, f16 or bf16".into())
}

fn main() -> ExitCode {
    let Options {
        device,
        precisions,
        note,
        command,
    } = Options::parse();
    let session = |what| Session::new(what, device, precisions, note);
    let passed = match command {
        Command::Parity(args) => checks::parity(&session("parity"), &args.folders),
        Command::Bits(args) => args.run(&session("bits")),
        Command::Many(args) => args.run(&session("many")),
        Command::Poison(args) => checks::poison(&session("poison"), &args.folders),
        Command::Speed(args) => args.run(&session("speed")),
        Command::Latency(args) => args.run(&session("latency")),
        Command::Memory(args) => args.run(&session("memory")),
        Command::Service(args) => args.run(&session("service")),
        Command::Cancel(args) => args.run(&session("cancel")),
    };
    ExitCode::from(u8::from(!passed))
}
