//! The `isomer` command: the command-line interface to the services.
//!
//! Machine output goes to stdout, everything else to stderr. Without `--server` the services run in
//! this process behind in-memory channels, so a command uses the same code path either way.

mod args;
mod commands;
mod connect;
mod exit;
mod features;
mod flags;
mod gate_args;
mod heading;
mod input;
mod npy;
mod progress;
mod reasons;
mod table;

use std::process::ExitCode;

use crate::exit::Failure;

/// The same allocator as in the servers, which this command runs in its process.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match features::parse() {
        Ok(cli) => cli,
        Err(failure) => return exit::report(&failure),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::report(&Failure::dependency(format!("cannot start the runtime: {error}"))),
    };
    let outcome = runtime.block_on(commands::run(cli));
    // Model threads may be in the middle of a batch whose result is unused.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    match outcome {
        Ok(code) => code,
        Err(failure) => exit::report(&failure),
    }
}
