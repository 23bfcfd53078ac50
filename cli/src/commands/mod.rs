//! One file per command.

mod augment;
mod check;
mod database;
mod datasets;
mod diff;
mod embed;
mod embed_augmented;
mod eval;
mod eval_augmented;
#[cfg(feature = "fleet")]
mod fleet;
mod forget;
mod history;
#[cfg(feature = "index")]
mod index;
mod judge;
mod judge_select;
mod kept_runs;
mod keys;
mod manual;
mod models;
mod probe;
mod providers;
#[cfg(feature = "registry")]
mod registry;
mod report;
mod rerank;
mod serve;
mod stats;
#[cfg(feature = "fleet")]
mod store;
mod thresholds;
mod transform;
mod wait;
mod warm_up;
#[cfg(feature = "fleet")]
mod worker;

use std::process::ExitCode;

use clap::CommandFactory;
use isomer_service_kit::telemetry;

use crate::{
    args::{Cli, Command, EngineArgs},
    connect,
    exit::Failure,
};

/// Runs the command.
pub(crate) async fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let global = cli.global;
    if let Command::Completions { shell } = cli.command {
        clap_complete::generate(shell, &mut Cli::command(), "isomer", &mut std::io::stdout());
        return Ok(ExitCode::SUCCESS);
    }
    if let Command::Man { out } = &cli.command {
        manual::write(out.as_deref())?;
        return Ok(ExitCode::SUCCESS);
    }
    let config = connect::configuration_with(&global, &EngineArgs::default(), &cli.command.fleet())?;
    // A server logs at the level of its configuration; a command logs only problems.
    let serves = match &cli.command {
        Command::Serve(_) => true,
        #[cfg(feature = "fleet")]
        Command::Worker(_) => true,
        #[cfg(feature = "registry")]
        Command::Registry(command) => command.serves(),
        _ => false,
    };
    let quiet = (!serves).then(|| "warn".to_owned());
    let filter = global.log.clone().or(quiet).unwrap_or(config.telemetry.filter);
    let _telemetry = telemetry::init(
        "isomer",
        &telemetry::TelemetryConfig {
            filter,
            ..config.telemetry
        },
    )?;
    match cli.command {
        Command::Models(command) => models::run(&global, command).await,
        Command::Embed(args) => embed::run(&global, args).await,
        Command::Rerank(args) => rerank::run(&global, args).await,
        Command::Transform(args) => Box::pin(transform::run(&global, args)).await,
        Command::Datasets(args) => datasets::run(&global, args).await,
        Command::Eval(args) => Box::pin(eval::run(&global, args)).await,
        Command::Check(args) => Box::pin(check::run(&global, args)).await,
        Command::Stats(command) => stats::run(&global, command).await,
        Command::Report(args) => report::run(&global, &args).await,
        Command::Diff(args) => Box::pin(diff::run(&global, args)).await,
        #[cfg(feature = "index")]
        Command::Index(command) => Box::pin(index::run(&global, command)).await,
        Command::Thresholds(args) => Box::pin(thresholds::run(&global, args)).await,
        Command::History(args) => Box::pin(history::run(&global, args)).await,
        #[cfg(feature = "registry")]
        Command::Registry(command) => Box::pin(registry::run(&global, command)).await,
        Command::Providers(command) => providers::run(&global, command).await,
        Command::Serve(args) => serve::run(&global, args).await,
        #[cfg(feature = "fleet")]
        Command::Worker(args) => Box::pin(worker::run(&global, args)).await,
        #[cfg(feature = "fleet")]
        Command::Fleet(args) => Box::pin(fleet::run(&global, args)).await,
        #[cfg(feature = "fleet")]
        Command::Store(args) => store::run(&global, args).await,
        Command::Forget(args) => Box::pin(forget::run(&global, args)).await,
        Command::Keys(args) => keys::run(&global, args).await,
        Command::Database(command) => database::run(&global, command).await,
        Command::Probe(args) => probe::run(&global, args).await,
        Command::Wait(args) => wait::run(&global, args).await,
        Command::Completions { .. } | Command::Man { .. } => Ok(ExitCode::SUCCESS),
    }
}

/// The failure of a command that cannot write to stdout.
pub(crate) fn stdout_failure(error: &std::io::Error) -> Failure {
    write_failure("to stdout", error)
}

/// The failure of a command that cannot write its output. A pipe whose reader is gone (`| head`)
/// ends the work and is not an error.
pub(crate) fn write_failure(name: &str, error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => Failure::closed_pipe(),
        _ => Failure::dependency(format!("cannot write {name}: {error}")),
    }
}
