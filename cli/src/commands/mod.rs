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
mod init;
mod judge;
mod judge_select;
mod kept_runs;
mod keys;
#[cfg(feature = "man")]
mod manual;
mod models;
mod probe;
mod providers;
mod ratings;
#[cfg(feature = "registry")]
mod registry;
mod report;
mod rerank;
mod serve;
mod stats;
#[cfg(feature = "fleet")]
mod store;
mod suite;
mod thresholds;
mod transform;
mod wait;
mod warm_up;
#[cfg(feature = "fleet")]
mod worker;

use std::{io::Write, path::Path, process::ExitCode};

use clap::CommandFactory;
use isomer_service_kit::telemetry;

use crate::{
    args::{Cli, Command, requests::requests},
    connect::Session,
    exit::Failure,
};

pub(crate) async fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let (global, mut command) = (cli.global, cli.command);
    if let Command::Completions { shell } = command {
        // clap_complete panics where it cannot write, for example to a closed pipe.
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "isomer", &mut script);
        std::io::stdout()
            .lock()
            .write_all(&script)
            .map_err(|error| stdout_failure(&error))?;
        return Ok(ExitCode::SUCCESS);
    }
    #[cfg(feature = "man")]
    if let Command::Man { out } = &command {
        manual::write(out.as_deref())?;
        return Ok(ExitCode::SUCCESS);
    }
    let session = Session::new(global, &mut command)?;
    // A server logs at the level of its configuration; a command logs only problems.
    let serves = match &command {
        Command::Serve(_) => true,
        #[cfg(feature = "fleet")]
        Command::Worker(_) => true,
        #[cfg(feature = "registry")]
        Command::Registry(command) => command.serves(),
        _ => false,
    };
    let quiet = (!serves).then(|| "warn".to_owned());
    let mut telemetry = session.config.telemetry.clone();
    if let Some(filter) = session.global.log.clone().or(quiet) {
        telemetry.filter = filter;
    }
    let _telemetry = telemetry::init("isomer", &telemetry)?;
    let flags = requests(&command);
    Box::pin(execute(&session, command))
        .await
        .map_err(|failure| failure.with_flags(flags))
}

async fn execute(session: &Session, command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Models(command) => models::run(session, command).await,
        Command::Embed(args) => embed::run(session, args).await,
        Command::Rerank(args) => rerank::run(session, args).await,
        Command::Transform(args) => Box::pin(transform::run(session, args)).await,
        Command::Datasets(args) => datasets::run(session, args).await,
        Command::Eval(args) => Box::pin(eval::run(session, args)).await,
        Command::Check(args) => Box::pin(check::run(session, args)).await,
        Command::Init(args) => init::run(session, &args),
        Command::Suite(command) => suite::run(session, &command),
        Command::Stats(command) => stats::run(session, command).await,
        Command::Report(args) => report::run(session, &args).await,
        Command::Diff(args) => Box::pin(diff::run(session, args)).await,
        #[cfg(feature = "index")]
        Command::Index(command) => Box::pin(index::run(session, command)).await,
        Command::Thresholds(args) => Box::pin(thresholds::run(session, args)).await,
        Command::Ratings(command) => Box::pin(ratings::run(session, command)).await,
        Command::History(args) => Box::pin(history::run(session, args)).await,
        #[cfg(feature = "registry")]
        Command::Registry(command) => Box::pin(registry::run(session, command)).await,
        Command::Providers(command) => providers::run(session, command).await,
        Command::Serve(args) => serve::run(session, args).await,
        #[cfg(feature = "fleet")]
        Command::Worker(args) => Box::pin(worker::run(session, args)).await,
        #[cfg(feature = "fleet")]
        Command::Fleet(args) => Box::pin(fleet::run(session, args)).await,
        #[cfg(feature = "fleet")]
        Command::Store(args) => store::run(session, args).await,
        Command::Forget(args) => Box::pin(forget::run(session, args)).await,
        Command::Keys(args) => keys::run(session, args).await,
        Command::Database(command) => database::run(session, command).await,
        Command::Probe(args) => probe::run(session, args).await,
        Command::Wait(args) => wait::run(session, args).await,
        Command::Completions { .. } => Ok(ExitCode::SUCCESS),
        #[cfg(feature = "man")]
        Command::Man { .. } => Ok(ExitCode::SUCCESS),
    }
}

/// Prints on stdout the address on which a server listens. A server continues even if its stdout
/// cannot be written, for example on a full disk.
pub(crate) fn announce(line: &str) {
    let mut stdout = std::io::stdout();
    if let Err(error) = writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
        tracing::warn!(%error, "stdout cannot be written: {line}");
    }
}

/// Makes the folder of `--out` before the work, so that a folder that cannot be written costs
/// nothing.
pub(crate) fn writable_folder(out: &Path) -> Result<(), Failure> {
    let tried = std::fs::create_dir_all(out).and_then(|()| tempfile::tempfile_in(out));
    tried.map(drop).map_err(|error| {
        Failure::usage(format!(
            "--out: cannot write into {}: {error}; name a folder that can be written",
            out.display()
        ))
    })
}

/// The failure of a command that cannot write to stdout.
pub(crate) fn stdout_failure(error: &std::io::Error) -> Failure {
    write_failure("to stdout", error)
}

/// The failure of a command that cannot write its output. A pipe whose reader has closed (`| head`)
/// ends the work and is not an error.
pub(crate) fn write_failure(name: &str, error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => Failure::closed_pipe(),
        _ => Failure::dependency(format!("cannot write {name}: {error}")),
    }
}
