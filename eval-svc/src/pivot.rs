//! Translates texts into one language through the transform service before they are encoded: the
//! pivot of the CLSD paper (§3.2).

use std::collections::HashMap;

use futures::{StreamExt, TryStreamExt, stream};
use isomer_encoder_client::{batches, retry};
use isomer_proto::{
    common::v1::Provenance,
    encoder::v1::Priority,
    eval::v1::{DatasetPivot, PivotReport, pivot_report::Kept},
    transform::v1::{
        OnFailure, Outcome, TextItem, TransformRequest, TransformResult, TransformSpec, Transformation, Translation,
        transform_service_client::TransformServiceClient, transformation::Kind,
    },
};
use isomer_service_kit::{Fault, GrpcChannel};
use isomer_usage::report::ReportingChannel;
use serde_json::{Value, json};

use crate::{config::EvalConfig, dataset::Dataset};

/// Texts per request: a generator is slow, and a failed request is repeated as a whole.
const TEXTS: usize = 32;
/// Maximum number of requests in flight: while the last texts of one are slow, the next is already
/// queued.
const IN_FLIGHT: usize = 2;
/// Maximum number of untranslated texts that the report names.
const MOST_NAMED: usize = 20;
/// Maximum size of a response, in bytes.
const MOST_ANSWER_BYTES: usize = 64 << 20;

/// A text and its language, if the data names it.
type Original<'a> = (&'a str, Option<&'a str>);

/// Whether a BCP-47 tag (or mteb's ISO 639-3 with script) names a language, given by its two-letter
/// code.
pub(crate) fn is_in(tag: &str, language: &str) -> bool {
    let primary = |tag: &str| {
        let first = tag.split(['-', '_']).next().unwrap_or_default().to_lowercase();
        if first == "eng" { "en".to_owned() } else { first }
    };
    primary(tag) == primary(language)
}

/// Translates the texts of a dataset, equal ones once. Returns one text for each text of the
/// dataset, and a report. A text that could not be translated stays unchanged and is counted.
///
/// # Errors
/// If the transform service refuses, or if the generator translated nothing at all.
pub(crate) async fn translate(
    transform: &GrpcChannel,
    config: &EvalConfig,
    wanted: &DatasetPivot,
    dataset: &Dataset,
) -> Result<(Vec<String>, PivotReport), Fault> {
    let language = wanted.language.as_str();
    let mut report = PivotReport {
        language: language.to_owned(),
        ..PivotReport::default()
    };
    let mut numbers: HashMap<Original<'_>, usize> = HashMap::new();
    let (mut originals, mut firsts): (Vec<Original<'_>>, Vec<usize>) = Default::default();
    // For each text of the dataset the number of its translation; `None` if it is already in the
    // language.
    let mut rows: Vec<Option<usize>> = Vec::with_capacity(dataset.texts().len());
    for (index, text) in dataset.texts().iter().enumerate() {
        let own = dataset.language_of(text.role);
        if own.is_some_and(|own| is_in(own, language)) {
            report.already += 1;
            rows.push(None);
            continue;
        }
        let original = (text.text.as_str(), own);
        rows.push(Some(*numbers.entry(original).or_insert_with(|| {
            originals.push(original);
            firsts.push(index);
            originals.len() - 1
        })));
    }
    let results = ask(transform, config, wanted, &originals).await?;
    let mut complaint = String::new();
    let translations: Vec<&str> = results
        .iter()
        .zip(originals.iter().zip(&firsts))
        .map(|(result, ((original, _), first))| {
            let name = || dataset.texts()[*first].id.to_string();
            take(&mut report, result, name, &mut complaint).unwrap_or(original)
        })
        .collect();
    if !originals.is_empty() && report.translated == 0 {
        let message = format!(
            "none of {} texts was translated into {language}: {complaint}",
            originals.len()
        );
        return Err(Fault::precondition("NO_TRANSLATIONS", message)
            .field("dataset.pivot.generator_id")
            .hint("check the generator's address, model and key, or name another"));
    }
    let texts = rows.iter().zip(dataset.texts()).map(|(number, text)| match number {
        Some(number) => translations[*number].to_owned(),
        None => text.text.to_string(),
    });
    Ok((texts.collect(), report))
}

/// Counts a result. Returns the translation, if there is one.
fn take<'a>(
    report: &mut PivotReport,
    result: &'a TransformResult,
    name: impl Fn() -> String,
    complaint: &mut String,
) -> Option<&'a str> {
    let provenance = result.provenance.clone().unwrap_or_default();
    report.cached += u64::from(provenance.cache_hit);
    if report.provenance.is_none() && !provenance.generator_id.is_empty() {
        // The provenance is the same for all texts: generator and prompt.
        report.provenance = Some(Provenance {
            generator_id: provenance.generator_id,
            generator_digest: provenance.generator_digest,
            prompt_version: provenance.prompt_version,
            prompt_digest: provenance.prompt_digest,
            generator_key: provenance.generator_key,
            ..Provenance::default()
        });
    }
    if matches!(result.outcome(), Outcome::Ok | Outcome::Recovered) {
        report.translated += 1;
        report.recovered += u64::from(result.outcome() == Outcome::Recovered);
        return Some(&result.text);
    }
    report.kept += 1;
    let checks: Vec<String> = result
        .failed_checks()
        .map(|check| check.as_str_name().trim_start_matches("CHECK_").to_lowercase())
        .collect();
    for check in &checks {
        *report.failed_checks.entry(check.clone()).or_default() += 1;
    }
    let reason = match result.error.as_str() {
        "" => checks.join(", "),
        error => error.to_owned(),
    };
    if complaint.is_empty() {
        complaint.clone_from(&reason);
    }
    if report.kept_texts.len() < MOST_NAMED {
        report.kept_texts.push(Kept {
            text_id: name(),
            reason,
        });
    }
    None
}

/// Returns one result for each text, with several requests in flight.
async fn ask(
    transform: &GrpcChannel,
    config: &EvalConfig,
    wanted: &DatasetPivot,
    originals: &[Original<'_>],
) -> Result<Vec<TransformResult>, Fault> {
    let texts: Vec<&str> = originals.iter().map(|(text, _)| *text).collect();
    let spec = TransformSpec {
        transformation: Some(Transformation::from(Kind::Translation(Translation {
            target_language: Some(wanted.language.clone()),
            seed_rank: None,
        }))),
        generator_id: wanted.generator_id.clone(),
        seed: wanted.seed,
        max_attempts: wanted.max_attempts,
        on_failure: OnFailure::KeepOriginal.into(),
        ..TransformSpec::default()
    };
    let one = |batch: Vec<usize>| {
        let items = batch.iter().map(|number| TextItem {
            // The text has no id, because nothing is drawn for it.
            id: String::new(),
            text: originals[*number].0.to_owned(),
            language: originals[*number].1.map(str::to_owned),
        });
        let request = TransformRequest {
            spec: Some(spec.clone()),
            items: items.collect(),
            priority: Priority::Batch.into(),
        };
        async move {
            let answer = retry::calls(|| {
                let mut client = TransformServiceClient::new(ReportingChannel(transform.clone()))
                    .max_decoding_message_size(MOST_ANSWER_BYTES);
                let request = request.clone();
                async move { client.transform(request).await }
            });
            let answer = answer.await.map_err(|status| fault(Fault::from_status(&status)))?;
            Ok::<_, Fault>((batch, answer.into_inner()))
        }
    };
    let most = config.transform_batch_items.min(TEXTS);
    let mut answers = stream::iter(batches::batches(&texts, most))
        .map(one)
        .buffered(IN_FLIGHT);
    let mut results: Vec<Option<TransformResult>> = vec![None; originals.len()];
    let mut done = 0;
    while let Some((batch, answer)) = answers.try_next().await? {
        done += batch.len();
        tracing::info!(language = wanted.language, done, total = originals.len(), "translating");
        for result in answer.results {
            if let Some(number) = batch.get(result.index as usize) {
                results[*number] = Some(result);
            }
        }
    }
    let missing = || Fault::internal("the transform service ended its answer before every text had an outcome");
    results.into_iter().map(|result| result.ok_or_else(missing)).collect()
}

/// A refusal of the transform service, with its fields mapped to the caller's request.
fn fault(fault: Fault) -> Fault {
    let ours = match fault.field.as_deref() {
        Some("spec.transformation.translation.target_language" | "transformation.translation.target_language") => {
            "dataset.pivot.language".to_owned()
        }
        Some(field) => format!("dataset.pivot.{}", field.trim_start_matches("spec.")),
        None => "dataset.pivot".to_owned(),
    };
    Fault {
        message: format!("the transform service answered: {}", fault.message),
        field: Some(ours),
        ..fault
    }
}

/// A sentence about the pivot for a human reader.
pub(crate) fn sentence(report: &PivotReport) -> String {
    let provenance = report.provenance.clone().unwrap_or_default();
    let mut text = format!(
        "every text was put into {} first, by {} ({}): {} distinct texts translated, {} of them after retries",
        report.language, provenance.generator_id, provenance.prompt_version, report.translated, report.recovered
    );
    if report.kept > 0 {
        let mut checks: Vec<String> = report
            .failed_checks
            .iter()
            .map(|(check, n)| format!("{check} {n}"))
            .collect();
        checks.sort();
        text.push_str(&format!(
            "; {} stayed as they were ({})",
            report.kept,
            checks.join(", ")
        ));
    }
    if report.already > 0 {
        text.push_str(&format!("; {} texts were in it", report.already));
    }
    text
}

/// The entry about the pivot in mteb's document.
pub(crate) fn entry(report: &PivotReport) -> Value {
    let provenance = report.provenance.clone().unwrap_or_default();
    let checks: std::collections::BTreeMap<_, _> = report.failed_checks.iter().collect();
    json!({
        "language": report.language,
        "generator": provenance.generator_id,
        "generator_digest": provenance.generator_digest,
        "prompt": provenance.prompt_version,
        "prompt_digest": provenance.prompt_digest,
        "translated": report.translated,
        "recovered": report.recovered,
        "kept": report.kept,
        "already": report.already,
        "failed_checks": checks,
    })
}
