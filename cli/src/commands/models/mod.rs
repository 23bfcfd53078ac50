//! `isomer models`: fetch, list, describe and verify model files.

mod show;

use std::{fmt::Display as Show, io::Write, process::ExitCode};

use comfy_table::{Cell, CellAlignment};
use indicatif::HumanBytes;
use isomer_models::{ModelError, Resolver, VerifyState};
use isomer_service_kit::Fault;
use serde::Serialize;
use serde_json::json;

use super::stdout_failure;
use crate::{
    args::{Format, Global, ModelsCommand},
    connect::Session,
    exit::Failure,
    progress::Display,
};

const DEPENDENCY: u8 = 3;

pub(super) async fn run(session: &Session, command: ModelsCommand) -> Result<ExitCode, Failure> {
    let resolver = session.resolver()?;
    match command {
        ModelsCommand::Pull { ids } => pull(&session.global, &resolver, &ids).await,
        ModelsCommand::List => list(&session.global, &resolver),
        ModelsCommand::Show { id, .. } => {
            let card = show::card(&id, &resolver, &session.config.embed).await?;
            match session.global.format {
                Format::Json => print_json(&card)?,
                Format::Text => print(card.text())?,
            }
            Ok(ExitCode::SUCCESS)
        }
        ModelsCommand::Verify { ids } => verify(&session.global, &resolver, &ids).await,
    }
}

fn failure(error: ModelError) -> Failure {
    Fault::from(error).into()
}

fn print(line: impl Show) -> Result<(), Failure> {
    writeln!(std::io::stdout(), "{line}").map_err(|e| stdout_failure(&e))
}

fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print(serde_json::to_string(value).map_err(|e| Failure::dependency(format!("cannot write the answer: {e}")))?)
}

async fn pull(global: &Global, resolver: &Resolver, ids: &[String]) -> Result<ExitCode, Failure> {
    let display = Display::new(global.quiet);
    for id in ids {
        let model = resolver.pull(id, None, &display).await.map_err(failure)?;
        match global.format {
            Format::Json => print_json(&json!({
                "id": model.id, "path": model.path, "revision": model.revision, "weights_sha256": model.weights_digest,
                "source": model.source,
            }))?,
            Format::Text => print(format_args!(
                "{}  {}  sha256 {}",
                model.id,
                model.path.display(),
                model.weights_digest
            ))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(global: &Global, resolver: &Resolver) -> Result<ExitCode, Failure> {
    let models = resolver.list();
    if global.format == Format::Json {
        models.iter().try_for_each(print_json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = crate::table::new();
    table.set_header(["id", "kind", "size", "licence", "state", "source"]);
    for model in &models {
        table.add_row([
            Cell::new(&model.id),
            Cell::new(model.kind),
            Cell::new(HumanBytes(model.bytes)).set_alignment(CellAlignment::Right),
            Cell::new(&model.licence),
            Cell::new(&model.state),
            Cell::new(&model.source),
        ]);
    }
    print(table)?;
    Ok(ExitCode::SUCCESS)
}

/// Damage, or a named model that is not in the cache, causes exit code 3.
async fn verify(global: &Global, resolver: &Resolver, ids: &[String]) -> Result<ExitCode, Failure> {
    let mut reports = Vec::new();
    if ids.is_empty() {
        reports = resolver.verify(None).await;
    }
    for id in ids {
        reports.extend(resolver.verify(Some(id)).await);
    }
    let mut sound = true;
    for report in &reports {
        // A model that was never fetched is not damaged, unless it was requested by name.
        sound &= report.is_sound() || (ids.is_empty() && report.state == VerifyState::Absent);
        if global.format == Format::Json {
            print_json(report)?;
            continue;
        }
        let state = match &report.state {
            VerifyState::Sound { files, bytes } => format!("sound ({files} files, {})", HumanBytes(*bytes)),
            VerifyState::Absent => "absent".to_owned(),
            VerifyState::Damaged { problems } => {
                format!("damaged: {}; the next use fetches it again", problems.join("; "))
            }
            VerifyState::Unknown { nearest } => format!("unknown; similar: {}", nearest.join(", ")),
        };
        print(format_args!("{}  {state}", report.id))?;
    }
    Ok(if sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(DEPENDENCY)
    })
}
