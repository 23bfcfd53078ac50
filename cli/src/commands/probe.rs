//! `isomer probe`: whether a server lives, or takes requests.

use std::{process::ExitCode, time::Duration};

use isomer_service_kit::probe;

use crate::{
    args::{Global, deploy::ProbeArgs},
    connect,
    exit::Failure,
};

pub(super) async fn run(global: &Global, args: ProbeArgs) -> Result<ExitCode, Failure> {
    let server = match &global.server {
        Some(address) => connect::client(global, address)?,
        None => probe::this_server(&connect::configuration(global)?.server),
    };
    probe::ask(&server, args.question, Duration::from_secs(args.timeout)).await?;
    Ok(ExitCode::SUCCESS)
}
