//! `isomer models`: fetch, list and verify model files.

use std::process::ExitCode;

use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use isomer_models::{ModelError, Resolver};
use isomer_service_kit::Fault;

use crate::{
    args::{Format, Global, ModelsCommand},
    connect,
    exit::Failure,
    progress::Display,
};

pub(super) async fn run(global: &Global, command: ModelsCommand) -> Result<ExitCode, Failure> {
    let resolver = Resolver::new(connect::configuration(global)?.models).map_err(told)?;
    match command {
        ModelsCommand::Pull { ids } => pull(global, &resolver, &ids).await,
        ModelsCommand::List => list(global, &resolver),
        ModelsCommand::Verify { ids } => verify(global, &resolver, &ids).await,
    }
}

fn told(error: ModelError) -> Failure {
    Fault::from(error).into()
}

async fn pull(global: &Global, resolver: &Resolver, ids: &[String]) -> Result<ExitCode, Failure> {
    let display = Display::new(global.quiet);
    for id in ids {
        // An id outside the catalogue is a hub id, and those are encoders.
        let kind = resolver.entry(id).map_or(ModelKind::Encoder, |entry| entry.kind);
        let model = resolver.resolve(id, kind, &display).await.map_err(told)?;
        match global.format {
            Format::Json => print_line(&json!({
                "id": model.id, "path": model.path, "revision": model.revision, "weights_sha256": model.weights_digest, "source": model.source,
            }))?,
            Format::Text => print_line(&format_args!("{}  {}  sha256 {}", model.id, model.path.display(), model.weights_digest))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}
