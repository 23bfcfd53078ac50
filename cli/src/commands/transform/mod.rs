//! `isomer transform`: transforms texts, in the same order.

mod cache;
pub(super) mod catalogue;
mod groups;
mod output;

use std::{io::Write, process::ExitCode};

use catalogue::{catalogue, client, named};
use isomer_models::ModelKind;
use isomer_proto::{
    encoder::v1::Priority,
    transform::v1::{
        OnFingerprintChange, ParameterInfo, Sampling, TextItem, TransformSpec, TransformStreamRequest,
        transform_stream_response::Event,
    },
};
use isomer_transformations::{
    CATALOGUE, Transformation, Value,
    wire::{self, from_proto},
};
use output::{Errors, OrderedWriter, StoredTexts, line, summary};
use serde_json::{Value as Json, json};

use crate::{
    args::{Format, Global, TransformArgs, TransformCommand},
    connect::{Connection, Session},
    exit::Failure,
    input,
    progress::{Display, Step},
};

pub(super) async fn run(session: &Session, mut args: TransformArgs) -> Result<ExitCode, Failure> {
    match args.command.take() {
        Some(TransformCommand::Judge(args)) => return Box::pin(super::judge::run(session, args)).await,
        Some(TransformCommand::JudgeSelect(args)) => return Box::pin(super::judge_select::run(session, args)).await,
        Some(TransformCommand::Cache(command)) => return cache::run(session, command),
        None => {}
    }
    let display = Display::new(session.global.quiet);
    if args.name() == "list" {
        let connection = session.connect_with_prompts(args.prompts_dir.as_deref()).await?;
        return list(&session.global, &connection).await;
    }
    let chosen = transformation(&args)?;
    let (records, frames) = if args.groups {
        groups::read(&args)?.unzip()
    } else {
        (input::read(args.input.as_deref())?, Vec::new())
    };
    let connection = session.connect_with_prompts(args.prompts_dir.as_deref()).await?;
    prefetch(&connection, &args, &display).await?;

    let items = records
        .iter()
        .zip(0..)
        .map(|(record, index): (_, usize)| TextItem {
            id: record.id.clone().unwrap_or_else(|| index.to_string()),
            text: record.text.clone(),
            language: record.language.clone().or_else(|| args.language.clone()),
        })
        .collect();
    let request = TransformStreamRequest {
        spec: Some(spec(&args, &chosen)),
        items,
        priority: Priority::Batch.into(),
    };
    let mut stream = client(&connection).transform_stream(request).await?.into_inner();
    let mut sink = OrderedWriter::open(args.output.as_deref())?;
    let (mut done, mut cached, mut without) = (0, 0, 0_u64);
    let (mut errors, mut stored) = (Errors::default(), StoredTexts::default());
    let mut end = None;
    while let Some(message) = stream.message().await? {
        match message.event {
            Some(Event::Result(result)) => {
                done += 1;
                cached += u64::from(result.provenance.as_ref().is_some_and(|made| made.cache_hit));
                errors.count(&result);
                stored.count(&result);
                let original = records.get(result.index as usize).map_or("", |r| r.text.as_str());
                let line = match frames.get(result.index as usize) {
                    Some(frame) => groups::line(frame, &result),
                    None => Some(line(original, &result)),
                };
                without += u64::from(line.is_none());
                sink.put(result.index, line)?;
                display.step(
                    args.name(),
                    &Step {
                        done,
                        total: Some(records.len() as u64),
                        cached,
                        ..Step::default()
                    },
                );
            }
            Some(Event::End(totals)) => end = Some(totals),
            None => {}
        }
    }
    sink.finish()?;
    match end {
        Some(end) if done == records.len() as u64 => {
            display.message(&summary(&end));
            errors.reasons.show(&display);
            let reports = args.on_fingerprint_change == OnFingerprintChange::Report;
            if let Some(note) = stored.note(&end, reports) {
                display.note(&note);
            }
            if args.groups {
                display.message(&format!("{} groups written, {without} pairs left out", done - without));
            }
            // If a generator fails on every text, the results are the originals, which must not be
            // mistaken for its output.
            errors.refuse_silence(records.len())?;
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(Failure::dependency(format!(
            "the service answered {done} of {} texts; run it again to resume from the cache",
            records.len()
        ))),
    }
}

impl TransformArgs {
    fn name(&self) -> &str {
        self.transformation.as_deref().unwrap_or_default()
    }
}

/// Fetches a local generator, with progress, before the service requests it.
async fn prefetch(connection: &Connection, args: &TransformArgs, display: &Display) -> Result<(), Failure> {
    let catalogue = catalogue(connection).await?;
    let needs_generator = catalogue.iter().any(|t| t.name == args.name() && t.needs_generator);
    let spec = args
        .generator
        .clone()
        .unwrap_or_else(|| connection.config.transform.default_generator.clone());
    match spec.strip_prefix("local:").filter(|_| needs_generator) {
        Some(id) => connection.prefetch(id, ModelKind::Generator, display).await,
        None => Ok(()),
    }
}

fn spec(args: &TransformArgs, chosen: &Transformation) -> TransformSpec {
    TransformSpec {
        transformation: Some(wire::message(chosen)),
        generator_id: args.generator.clone().unwrap_or_default(),
        seed: Some(args.seed),
        max_attempts: Some(args.attempts),
        on_failure: args.on_failure.into(),
        sampling: Some(Sampling {
            temperature: args.temperature,
            top_p: Some(args.top_p),
            max_tokens: None,
            top_k: args.top_k,
        }),
        guards: args.guards.into(),
        retry_identical: Some(args.retry_identical),
        retry_temperature: args.retry_temperature,
        on_fingerprint_change: args.on_fingerprint_change.into(),
        bypass_cache: args.no_cache,
        run: args.run.clone(),
        prompts: args.prompts.clone(),
    }
}

/// The transformation with the parameters given by flags.
fn transformation(args: &TransformArgs) -> Result<Transformation, Failure> {
    let mut chosen = named("--transformation", args.name())?;
    let row = chosen.declaration();
    let targets = args.target_languages.as_slice();
    if targets.len() > 1 && row.parameter("target_language").is_some() {
        return Err(Failure::usage(
            "--target-language: translation has one target for the whole run; cross_translation draws from several",
        ));
    }
    let several = row.parameter("target_languages").is_some();
    let target = match targets {
        [target] if !several => ("target_language", Some(Json::from(target.as_str()))),
        [] => ("target_language", None),
        targets => ("target_languages", Some(Json::from(targets))),
    };
    let given = [
        target,
        ("pivot_language", args.pivot_language.as_deref().map(Json::from)),
        ("count", args.count.map(Json::from)),
        ("swaps", args.swaps.map(Json::from)),
        ("stride", args.stride.map(Json::from)),
        ("cuts", args.cuts.map(Json::from)),
        ("channel", args.channel.as_deref().map(Json::from)),
        ("dose", args.dose.map(Json::from)),
    ];
    for (name, value) in given {
        let Some(value) = value else { continue };
        let flag = match name {
            "target_languages" => "--target-language".to_owned(),
            name => format!("--{}", name.replace('_', "-")),
        };
        let parameter = row.parameter(name).ok_or_else(|| misplaced(&flag, name))?;
        parameter
            .check(&value)
            .map_err(|error| Failure::usage(format!("{flag} {}; {}", error.problem, error.hint)))?;
        chosen = chosen.with(name, value);
    }
    for given in &args.parameters {
        let (name, text) = given
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("--parameter {given}: write NAME=VALUE, e.g. dose=0.05")))?;
        let parameter = row.parameter(name).filter(|parameter| parameter.in_requests());
        let parameter = parameter.ok_or_else(|| misplaced("--parameter", name))?;
        let value = parameter.parse(text);
        let value =
            value.map_err(|error| Failure::usage(format!("--parameter {name} {}; {}", error.problem, error.hint)))?;
        chosen = chosen.with(name, value);
    }
    let must = row
        .parameters
        .iter()
        .find(|one| one.value == Value::Name && chosen.parameters().text(one.name).is_none());
    if let Some(missing) = must {
        return Err(Failure::usage(format!(
            "--{} is missing: `{}` has no default for it; --transformation list prints the accepted values",
            missing.name, row.name
        )));
    }
    Ok(chosen)
}

/// A flag for a parameter that the transformation does not have.
fn misplaced(flag: &str, parameter: &str) -> Failure {
    let with: Vec<&str> = CATALOGUE
        .iter()
        .filter(|row| row.parameter(parameter).is_some())
        .map(|row| row.name)
        .collect();
    if with.is_empty() {
        return Failure::usage(format!("{flag}: no transformation has a parameter `{parameter}`"));
    }
    Failure::usage(format!("{flag} goes with {} only", with.join(" and ")))
}

async fn list(global: &Global, connection: &Connection) -> Result<ExitCode, Failure> {
    let catalogue = catalogue(connection).await?;
    let mut out = std::io::stdout().lock();
    let failed = |e: std::io::Error| super::stdout_failure(&e);
    for info in &catalogue {
        let axis = info.axis().as_str_name().trim_start_matches("AXIS_").to_lowercase();
        if global.format == Format::Json {
            let line = json!({"name": info.name, "axis": axis, "description": info.description, "needs_generator": info.needs_generator,
                "prompt": info.prompt_version, "served": info.served,
                "parameters": info.parameters.iter().map(parameter).collect::<Vec<_>>(),
                "prompts": info.prompts.iter().map(|p| json!({"id": p.id, "version": p.version, "digest": p.digest,
                    "generators": p.generators})).collect::<Vec<_>>()});
            writeln!(out, "{line}").map_err(failed)?;
        } else {
            let served = if info.served { "" } else { " (not served yet)" };
            writeln!(out, "{:<22} {:<13} {}{served}", info.name, axis, info.description).map_err(failed)?;
            let others: Vec<_> = info.prompts.iter().map(|prompt| prompt.id.as_str()).collect();
            if !others.is_empty() {
                writeln!(out, "{:<36} prompts: {}", "", others.join(", ")).map_err(failed)?;
            }
            for parameter in &info.parameters {
                let values: Vec<String> = parameter.values.iter().map(|value| plain(&from_proto(value))).collect();
                let accepted = if values.is_empty() {
                    parameter.accepts.clone()
                } else {
                    values.join(", ")
                };
                writeln!(out, "{:<36} {}: {accepted}", "", parameter.name).map_err(failed)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn parameter(info: &ParameterInfo) -> Json {
    let values: Vec<Json> = info.values.iter().map(from_proto).collect();
    json!({"name": info.name, "description": info.description, "accepts": info.accepts, "values": values})
}

/// A value without quotation marks.
fn plain(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
