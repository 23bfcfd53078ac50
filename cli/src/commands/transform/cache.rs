//! `isomer transform cache`: the cache of generated texts on this machine.

use std::{fmt::Display, io::Write, process::ExitCode};

use indicatif::{HumanBytes, HumanCount};
use isomer_models::Resolver;
use isomer_service_kit::Fault;
use isomer_transform::cache::{Cache, exchange::ExchangeError};
use serde_json::{Value, json};

use crate::{
    args::{CacheCommand, Format, Global},
    commands::stdout_failure,
    connect::Session,
    exit::Failure,
};

pub(super) fn run(session: &Session, command: CacheCommand) -> Result<ExitCode, Failure> {
    if session.global.server.is_some() {
        return Err(Failure::usage(
            "--server: the cache is a folder of the machine that serves; run this command there, without --server",
        ));
    }
    let config = &session.config;
    let resolver = Resolver::new(config.models.clone()).map_err(Fault::from)?;
    let directory = config.transform.cache_directory(&resolver.config().home);
    // Opened without its bound, because only the command decides about removal.
    let cache = Cache::open(&directory).map_err(|error| cache_failure(error.into()))?;
    let (text, value) = match command {
        CacheCommand::Stats => {
            let stats = cache.stats();
            let bound = match config.transform.cache_max_bytes {
                0 => "no bound".to_owned(),
                bound => format!("bound {}", HumanBytes(bound)),
            };
            (
                format!(
                    "{}: {} entries in {} segments, {} ({bound}), {} corrupt lines",
                    directory.display(),
                    HumanCount(stats.entries as u64),
                    stats.segments,
                    HumanBytes(stats.bytes),
                    stats.corrupt_lines
                ),
                json!({"directory": directory, "entries": stats.entries, "segments": stats.segments, "bytes": stats.bytes,
                    "max_bytes": config.transform.cache_max_bytes, "corrupt_lines": stats.corrupt_lines}),
            )
        }
        CacheCommand::Export { output } => {
            let exported = cache.export(&output).map_err(cache_failure)?;
            let left_out = match exported.left_out {
                0 => String::new(),
                count => {
                    format!(
                        "; {count} left out: those of tenants, and of an older version, which do not say what their key is made of"
                    )
                }
            };
            (
                format!("{} entries in {}{left_out}", exported.records, output.display()),
                json!({"records": exported.records, "left_out": exported.left_out, "output": output}),
            )
        }
        CacheCommand::Import { input } => {
            let imported = cache.import(&input).map_err(cache_failure)?;
            (
                format!(
                    "{} entries added, {} were there already",
                    imported.added, imported.known
                ),
                json!({"added": imported.added, "known": imported.known}),
            )
        }
        CacheCommand::Prune { max_bytes } => {
            let pruned = cache.prune(max_bytes).map_err(|error| cache_failure(error.into()))?;
            let left = cache.stats();
            (
                format!(
                    "{} segments removed, {}; {} entries left, {}",
                    pruned.segments,
                    HumanBytes(pruned.bytes),
                    HumanCount(left.entries as u64),
                    HumanBytes(left.bytes)
                ),
                json!({"removed_segments": pruned.segments, "removed_bytes": pruned.bytes, "entries": left.entries,
                    "bytes": left.bytes}),
            )
        }
    };
    print(&session.global, &text, &value)
}

fn print(global: &Global, text: &dyn Display, value: &Value) -> Result<ExitCode, Failure> {
    let line: &dyn Display = match global.format {
        Format::Json => value,
        Format::Text => text,
    };
    writeln!(std::io::stdout(), "{line}").map_err(|error| stdout_failure(&error))?;
    Ok(ExitCode::SUCCESS)
}

fn cache_failure(error: ExchangeError) -> Failure {
    match error {
        ExchangeError::Form { .. } => Failure::usage(error.to_string()),
        ExchangeError::Cache(_) | ExchangeError::File { .. } | ExchangeError::Foreign { .. } => {
            Failure::dependency(error.to_string())
        }
    }
}
