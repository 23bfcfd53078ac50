//! `isomer database`: the tables of the gateway's database.

use std::{
    io::Write,
    process::ExitCode,
    time::{Duration, Instant},
};

use isomer_database::Database;
use isomer_service_kit::Fault;

use super::stdout_failure;
use crate::{
    args::deploy::{DatabaseCommand, MigrateArgs},
    connect::Session,
    exit::Failure,
};

/// Time between two attempts.
const BETWEEN: Duration = Duration::from_secs(1);

pub(super) async fn run(session: &Session, command: DatabaseCommand) -> Result<ExitCode, Failure> {
    let DatabaseCommand::Migrate(MigrateArgs { wait }) = command;
    if session.global.server.is_some() {
        return Err(Failure::usage(
            "--server names a running gateway; the database is named in the configuration (database.url). Leave --server out",
        ));
    }
    let config = &session.config;
    let address = config.database.address(&config.models.home);
    let until = Instant::now() + Duration::from_secs(wait);
    loop {
        match migrate(&address).await {
            Ok(()) => break,
            Err(fault) if Instant::now() + BETWEEN >= until => return Err(fault.into()),
            Err(fault) => {
                tracing::warn!(%fault, "tried again");
                tokio::time::sleep(BETWEEN).await;
            }
        }
    }
    writeln!(std::io::stdout(), "the tables are up to date").map_err(|error| stdout_failure(&error))?;
    Ok(ExitCode::SUCCESS)
}

async fn migrate(address: &str) -> Result<(), Fault> {
    isomer_all_in_one::migrate(&Database::open(address).await?).await
}
