//! `isomer probe`: whether a server is live or ready.

use std::{process::ExitCode, time::Duration};

use isomer_service_kit::probe;

use crate::{
    args::deploy::ProbeArgs,
    connect::{self, Session},
    exit::Failure,
};

pub(super) async fn run(session: &Session, args: ProbeArgs) -> Result<ExitCode, Failure> {
    let server = match &session.global.server {
        Some(address) => connect::client(&session.global, address)?,
        None => probe::this_server(&session.config.server),
    };
    probe::ask(&server, args.question, Duration::from_secs(args.timeout)).await?;
    Ok(ExitCode::SUCCESS)
}
