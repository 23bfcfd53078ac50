//! `isomer eval --augment`: scores with plain vectors and with augmented ones.
//!
//! One encoder on one data set in one setting prints both scores here. `gains` runs several,
//! `settings` lists the settings and `cell_folder` stores the scores.

mod cell_folder;
pub(super) mod gains;
mod settings;

use std::{collections::BTreeMap, io::Write};

use isomer_proto::eval::v1::{DatasetAugmentation, DeltaInterval, ItemEvidence, ScoreResponse};
use serde_json::json;

use super::{
    eval::{
        json as document,
        output::{Outcome, prompts},
    },
    stdout_failure,
};
use crate::{
    args::{EvalArgs, Format},
    connect::Connection,
    exit::Failure,
    progress::Display,
};

/// Whether more than one encoder, data set or setting is requested, or an option that requires
/// several.
pub(super) fn several(args: &EvalArgs, targets: usize) -> Result<bool, Failure> {
    let gains = &args.gains;
    let several = args.models.len() * targets > 1
        || !gains.settings.is_empty()
        || gains.out.is_some()
        || gains.timed_runs.is_some();
    if !args.augmentation.wanted() || !several {
        return Ok(false);
    }
    if args.pivot.is_some() {
        return Err(Failure::usage(
            "--pivot: translated texts are not augmented; leave it out",
        ));
    }
    Ok(true)
}

/// The augmentation requested by the flags; `plain` is the evidence of the score without
/// augmentation.
pub(super) async fn augmentation(
    connection: &Connection,
    args: &EvalArgs,
    display: &Display,
    plain: Option<ItemEvidence>,
) -> Result<DatasetAugmentation, Failure> {
    let wanted = &args.augmentation;
    Ok(DatasetAugmentation {
        spec: Some(wanted.spec(connection, display).await?),
        pooling: wanted.pooling().into(),
        original_weight: wanted.original_weight,
        normalise_before: Some(wanted.normalise_before),
        normalise_after: None,
        queries_only: args.queries_only,
        plain,
    })
}

/// Prints both scores and the difference.
pub(super) fn print(
    format: Format,
    args: &EvalArgs,
    outcome: &Outcome,
    augmented: &ScoreResponse,
) -> Result<(), Failure> {
    let Outcome {
        model,
        data,
        response: plain,
    } = outcome;
    let mut out = std::io::stdout().lock();
    let io_failure = |error: std::io::Error| stdout_failure(&error);
    let report = augmented.augmentation.clone().unwrap_or_default();
    let space = augmented.vector_space.clone().unwrap_or_default();
    let reasons: BTreeMap<_, _> = report.missing_reasons.iter().collect();
    if format == Format::Json {
        let result = |response: &ScoreResponse| response.mteb_result.as_ref().map(document::from_struct);
        let deltas: BTreeMap<_, _> = deltas(plain, augmented);
        let whole = json!({
            "plain": result(plain),
            "augmented": result(augmented),
            "main_score": plain.main_score_key,
            "delta": augmented.main_score - plain.main_score,
            "delta_interval": report.delta.as_ref().map(|own| json!({
                "low": own.low,
                "high": own.high,
                "level": own.level,
                "standard_error": own.standard_error,
                "clusters": own.clusters,
                "method": own.method,
                "note": own.note,
            })),
            "deltas": deltas,
            "augmentation": {
                "space": space.augmentation,
                "queries_only": args.queries_only,
                "augmented_texts": report.augmented_texts,
                "plain_texts": report.plain_texts,
                "variants": report.variants,
                "missing": report.missing,
                "missing_reasons": reasons,
            },
        });
        let text = serde_json::to_string_pretty(&whole)
            .map_err(|error| Failure::dependency(format!("cannot write the result: {error}")))?;
        return writeln!(out, "{text}").map_err(io_failure);
    }
    writeln!(
        out,
        "{model} on {data}, {} items, profile {}\n{}",
        plain.items, plain.profile_stamp, space.augmentation
    )
    .map_err(io_failure)?;
    writeln!(out, "  {:<28} {:>9} {:>9} {:>9}", "", "plain", "augmented", "delta").map_err(io_failure)?;
    let mut row = |key: &str, note: &str| {
        let (Some(before), Some(after)) = (plain.scores.get(key), augmented.scores.get(key)) else {
            return Ok(());
        };
        let delta = after - before;
        writeln!(out, "  {key:<28} {before:>9.4} {after:>9.4} {delta:>+9.4}{note}").map_err(io_failure)
    };
    row(&plain.main_score_key, &interval(report.delta.as_ref()))?;
    for key in deltas(plain, augmented).keys() {
        if *key != plain.main_score_key && key != "main_score" {
            row(key, "")?;
        }
    }
    let (used, missing): (u64, u64) = (report.variants.iter().sum(), report.missing.iter().sum());
    let mut note = format!("{} texts augmented with {used} variants", report.augmented_texts);
    if report.plain_texts > 0 {
        note.push_str(&format!(", {} texts left plain", report.plain_texts));
    }
    if missing > 0 {
        let reasons: Vec<_> = reasons
            .iter()
            .map(|(reason, count)| format!("{reason} {count}"))
            .collect();
        note.push_str(&format!("; {missing} variants missing ({})", reasons.join(", ")));
    }
    writeln!(out, "{note}").map_err(io_failure)?;
    write!(out, "{}", prompts(augmented)).map_err(io_failure)
}

/// The interval shown with the main score's delta, for a different draw of items.
fn interval(delta: Option<&DeltaInterval>) -> String {
    match delta {
        Some(own) => format!(
            "  (main score; {:.0} % interval over items {:+.4} to {:+.4})",
            100.0 * own.level,
            own.low,
            own.high
        ),
        None => "  (main score)".to_owned(),
    }
}

/// Differences of every score that both results have, by mteb's key.
fn deltas(plain: &ScoreResponse, augmented: &ScoreResponse) -> BTreeMap<String, f64> {
    plain
        .scores
        .iter()
        .filter_map(|(key, before)| Some((key.clone(), augmented.scores.get(key)? - before)))
        .collect()
}
