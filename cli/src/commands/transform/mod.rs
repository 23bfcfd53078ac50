//! `isomer transform`: texts in, transformed texts out, in the same order.

mod cache;
pub(super) mod catalogue;
mod groups;
mod output;

use std::{io::Write, process::ExitCode};

use catalogue::{catalogue, client, kind_named};
use isomer_models::ModelKind;
use isomer_proto::{
    encoder::v1::Priority,
    transform::v1::{
        OnFingerprintChange, Sampling, TextItem, TransformSpec, TransformStreamRequest, Transformation,
        transform_stream_response::Event, transformation::Kind,
    },
};
use output::{Errors, Ordered, StoredTexts, line, summary};
use serde_json::json;

use crate::{
    args::{Format, Global, TransformArgs, TransformCommand},
    connect::{Connection, Session},
    exit::Failure,
    input,
    progress::{Display, Step},
};

pub(super) async fn run(session: &Session, mut args: TransformArgs) -> Result<ExitCode, Failure> {
    match args.command.take() {
        Some(TransformCommand::Judge(args)) => return super::judge::run(session, args).await,
        Some(TransformCommand::JudgeSelect(args)) => return super::judge_select::run(session, args).await,
        Some(TransformCommand::Cache(command)) => return cache::run(session, command),
        None => {}
    }
    let display = Display::new(session.global.quiet);
    if args.name() == "list" {
        let connection = session.connect_with_prompts(args.prompts_dir.as_deref()).await?;
        return list(&session.global, &connection).await;
    }
    let kind = kind(&args)?;
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
        spec: Some(spec(&args, kind)),
        items,
        priority: Priority::Batch.into(),
    };
    let mut stream = client(&connection).transform_stream(request).await?.into_inner();
    let mut sink = Ordered::open(args.output.as_deref())?;
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
            errors.reasons.tell(&display);
            let regenerates = args.on_fingerprint_change == OnFingerprintChange::Regenerate;
            if let Some(note) = stored.note(&end, regenerates) {
                display.note(&note);
            }
            if args.groups {
                display.message(&format!("{} groups written, {without} pairs left out", done - without));
            }
            // A generator that fails on every text leaves the originals, which must not be taken
            // for its output.
            errors.refuse_silence(records.len())?;
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(Failure::dependency(format!(
            "the service answered {done} of {} texts; run again to go on from the cache",
            records.len()
        ))),
    }
}

impl TransformArgs {
    /// The transformation's name.
    fn name(&self) -> &str {
        self.transformation.as_deref().unwrap_or_default()
    }
}

/// Fetches a local generator, with progress, before the service asks for it.
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

fn spec(args: &TransformArgs, kind: Kind) -> TransformSpec {
    TransformSpec {
        transformation: Some(Transformation { kind: Some(kind) }),
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

fn kind(args: &TransformArgs) -> Result<Kind, Failure> {
    let mut kind = kind_named("--transformation", args.name())?;
    let misplaced = |flag: &str, with: &str| Failure::usage(format!("{flag} goes with {with} only"));
    match (args.target_languages.as_slice(), &mut kind) {
        ([], _) => {}
        ([target], Kind::Translation(translation)) => translation.target_language = Some(target.clone()),
        (_, Kind::Translation(_)) => {
            return Err(Failure::usage(
                "--target-language: translation has one target for the whole run; cross_translation draws from several",
            ));
        }
        (targets, Kind::CrossTranslation(cross)) => cross.target_languages = targets.to_vec(),
        _ => return Err(misplaced("--target-language", "translation and cross_translation")),
    }
    match (&args.pivot_language, &mut kind) {
        (None, _) => {}
        (Some(pivot), Kind::Backtranslation(back)) => back.pivot_language = Some(pivot.clone()),
        _ => return Err(misplaced("--pivot-language", "backtranslation")),
    }
    match (args.count, &mut kind) {
        (None, _) => {}
        (count, Kind::Distractors(distractors)) => distractors.count = count,
        _ => return Err(misplaced("--count", "distractors")),
    }
    match (args.swaps, &mut kind) {
        (None, _) => {}
        (swaps, Kind::MultiSwap(swap)) => swap.swaps = swaps,
        _ => return Err(misplaced("--swaps", "multi_swap")),
    }
    match ((args.stride, args.cuts), &mut kind) {
        ((None, None), _) => {}
        ((stride, cuts), Kind::Continuation(wanted)) => (wanted.stride, wanted.cuts) = (stride, cuts),
        _ => return Err(misplaced("--stride and --cuts", "continuation")),
    }
    match ((&args.channel, args.dose), &mut kind) {
        ((Some(channel), dose), Kind::Noise(noise)) => (noise.channel, noise.dose) = (channel.clone(), dose),
        ((None, _), Kind::Noise(_)) => {
            return Err(Failure::usage(
                "--channel is missing: say which noise, e.g. --channel keyboard; --transformation list prints the channels",
            ));
        }
        ((None, None), _) => {}
        _ => return Err(misplaced("--channel and --dose", "noise")),
    }
    Ok(kind)
}

async fn list(global: &Global, connection: &Connection) -> Result<ExitCode, Failure> {
    let catalogue = catalogue(connection).await?;
    let mut out = std::io::stdout().lock();
    let failed = |e: std::io::Error| super::stdout_failure(&e);
    for info in &catalogue {
        let axis = info.axis().as_str_name().trim_start_matches("AXIS_").to_lowercase();
        if global.format == Format::Json {
            let line = json!({"name": info.name, "axis": axis, "description": info.description, "needs_generator": info.needs_generator,
                "prompt": info.prompt_version, "served": info.served, "channels": info.channels, "doses": info.doses,
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
            if !info.channels.is_empty() {
                writeln!(out, "{:<36} channels: {}", "", info.channels.join(", ")).map_err(failed)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
