//! `isomer transform judge`: rates pairs, in the same order.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufWriter, Read, Write},
    path::Path,
    process::ExitCode,
};

use futures::{StreamExt, TryStreamExt, stream};
use isomer_proto::{
    encoder::v1::Priority,
    transform::v1::{JudgeRequest, JudgeSummary, judge_request::Pair, judge_response::Rating},
};
use serde_json::{Value, json};

use super::{augment::prefetch_generator, transform::catalogue, write_failure};
use isomer_transformations::wire;

use crate::{
    args::JudgeArgs,
    connect::{Connection, Session},
    exit::Failure,
    progress::{Display, Step},
    reasons::Reasons,
};

/// Pairs per request; ratings are shown as they arrive.
const BATCH: usize = 32;
/// Maximum number of requests in flight, so that the judge does not wait between them.
const IN_FLIGHT: usize = 4;

pub(super) async fn run(session: &Session, args: JudgeArgs) -> Result<ExitCode, Failure> {
    let display = Display::new(session.global.quiet);
    let transformation = match &args.of {
        Some(name) => Some(wire::message(&catalogue::named("--of", name)?)),
        None => None,
    };
    let pairs = read(args.input.as_deref())?;
    // The output is opened before the judge is called, so that its answers are not lost.
    let (mut out, name): (Box<dyn Write>, _) = match &args.output {
        Some(path) => {
            let name = path.display().to_string();
            let file = File::create(path)
                .map_err(|error| Failure::dependency(format!("cannot write {name}: {error}; check --output")))?;
            (Box::new(BufWriter::new(file)), name)
        }
        None => (Box::new(std::io::stdout()), "to stdout".to_owned()),
    };
    let connection = session.connect_with_prompts(args.prompts_dir.as_deref()).await?;
    let request = JudgeRequest {
        scale: args.scale.into(),
        generator_id: args.generator.clone().unwrap_or_default(),
        seed: Some(args.seed),
        max_attempts: Some(args.attempts),
        bypass_cache: args.no_cache,
        transformation,
        priority: Priority::Batch.into(),
        on_fingerprint_change: args.on_fingerprint_change.into(),
        ..JudgeRequest::default()
    };
    let rated = rate(&connection, &request, pairs, "judge", &display).await?;
    let io_failure = |error: std::io::Error| write_failure(&name, &error);
    for rating in &rated.ratings {
        writeln!(out, "{}", line(rating)).map_err(io_failure)?;
    }
    out.flush().map_err(io_failure)?;
    let summary = &rated.summary;
    display.message(&format!(
        "{} rated, {} after retries, {} without a readable rating, {} failed; {} from cache{}",
        summary.rated,
        summary.recovered,
        summary.unreadable,
        summary.generator_errors,
        summary.cache_hits,
        rated
            .mean()
            .map_or_else(String::new, |mean| format!("; mean {mean:.3}"))
    ));
    if let Some(note) = versions(summary) {
        display.note(&note);
    }
    let mut reasons = Reasons::default();
    for rating in &rated.ratings {
        reasons.count(&rating.error);
    }
    reasons.show(&display);
    if summary.generator_errors == rated.ratings.len() as u64 {
        return Err(Failure::dependency(format!(
            "none of the {} pairs could be rated: {}",
            rated.ratings.len(),
            reasons.main()
        )));
    }
    Ok(ExitCode::SUCCESS)
}

/// A note on ratings of several versions of the judge's model.
fn versions(summary: &JudgeSummary) -> Option<String> {
    let versions: BTreeMap<_, _> = summary.fingerprints.iter().collect();
    let counts: Vec<String> = versions.iter().map(|(name, count)| format!("{name} {count}")).collect();
    (counts.len() > 1).then(|| {
        format!(
            "ratings by version of the model: {}; --on-fingerprint-change regenerate requests those of other versions again",
            counts.join(", ")
        )
    })
}

/// Ratings of all pairs, in the order of the pairs.
#[derive(Debug, Default)]
pub(super) struct RatedPairs {
    pub(super) ratings: Vec<Rating>,
    pub(super) summary: JudgeSummary,
}

impl RatedPairs {
    fn mean(&self) -> Option<f64> {
        let scores: Vec<f64> = self.ratings.iter().filter_map(|rating| rating.score).collect();
        (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64)
    }
}

/// Rates pairs, several requests at once; fetches a local judge first.
pub(super) async fn rate(
    connection: &Connection,
    request: &JudgeRequest,
    pairs: Vec<Pair>,
    what: &str,
    display: &Display,
) -> Result<RatedPairs, Failure> {
    prefetch_generator(connection, &request.generator_id, display).await?;
    let total = pairs.len();
    let client = catalogue::client(connection);
    let requests: Vec<JudgeRequest> = pairs
        .chunks(BATCH)
        .map(|chunk| JudgeRequest {
            pairs: chunk.to_vec(),
            ..request.clone()
        })
        .collect();
    let mut answers = stream::iter(requests)
        .map(|request| {
            let mut client = client.clone();
            async move { client.judge(request).await }
        })
        .buffered(IN_FLIGHT);
    let mut rated = RatedPairs::default();
    while let Some(answer) = answers.try_next().await? {
        let answer = answer.into_inner();
        let (sum, part) = (&mut rated.summary, answer.summary.unwrap_or_default());
        sum.rated += part.rated;
        sum.recovered += part.recovered;
        sum.unreadable += part.unreadable;
        sum.generator_errors += part.generator_errors;
        sum.cache_hits += part.cache_hits;
        for (version, ratings) in part.fingerprints {
            *sum.fingerprints.entry(version).or_default() += ratings;
        }
        sum.unreadable_answers += part.unreadable_answers;
        rated.ratings.extend(answer.ratings);
        display.step(
            what,
            &Step {
                done: rated.ratings.len() as u64,
                total: Some(total as u64),
                cached: rated.summary.cache_hits,
                ..Step::default()
            },
        );
    }
    if rated.ratings.len() != total {
        let message = format!("the judge answered {} of {total} pairs", rated.ratings.len());
        return Err(Failure::dependency(message));
    }
    Ok(rated)
}

fn line(rating: &Rating) -> Value {
    let mut line = json!({
        "id": rating.id,
        "score": rating.score,
        "unreadable": rating.unreadable,
        "provenance": rating.provenance.as_ref().map(|p| json!({
            "generator": p.generator_id, "prompt": p.prompt_version, "seed": p.seed, "attempts": p.attempts,
            "cache_hit": p.cache_hit, "content_key": p.content_key,
        })),
    });
    if let Some(object) = line.as_object_mut()
        && !rating.error.is_empty()
    {
        object.insert("error".into(), json!(rating.error));
    }
    line
}

fn read(path: Option<&Path>) -> Result<Vec<Pair>, Failure> {
    let (name, text) = match path.filter(|path| path.as_os_str() != "-") {
        Some(path) => (path.display().to_string(), std::fs::read_to_string(path)),
        None => {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text).map(|_| text);
            ("stdin".to_owned(), read)
        }
    };
    let text =
        text.map_err(|error| Failure::unreadable(format!("cannot read {name}: {error}; check --input"), &error))?;
    let mut pairs = Vec::new();
    for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
        let at = |why: String| Failure::dependency(format!("{name}: line {number}: {why}"));
        pairs.push(pair(line, pairs.len()).map_err(at)?);
    }
    if pairs.is_empty() {
        let message = format!("{name} is empty; give JSONL with `original` and `transformed`");
        return Err(Failure::dependency(message));
    }
    Ok(pairs)
}

fn pair(line: &str, index: usize) -> Result<Pair, String> {
    let row: Value = serde_json::from_str(line).map_err(|error| format!("broken JSON: {error}"))?;
    let text = |fields: &[&str]| {
        let found = fields.iter().find_map(|field| row.get(*field)).and_then(Value::as_str);
        found.map(str::to_owned).ok_or_else(|| {
            let names: Vec<_> = fields.iter().map(|field| format!("`{field}`")).collect();
            format!("none of the fields {} is a string", names.join(", "))
        })
    };
    let id = match row.get("id") {
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        _ => index.to_string(),
    };
    Ok(Pair {
        id,
        original: text(&["original", "sentence1"])?,
        transformed: text(&["transformed", "text", "sentence2"])?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_in_every_spelling_and_what_lacks_a_text_says_so() {
        for line in [
            r#"{"id": 7, "original": "a", "transformed": "b"}"#,
            r#"{"id": "7", "original": "a", "text": "b", "outcome": "ok"}"#,
            r#"{"id": 7, "sentence1": "a", "sentence2": "b", "score": 3.2}"#,
        ] {
            let pair = pair(line, 0).unwrap_or_default();
            assert_eq!(
                (pair.id.as_str(), pair.original.as_str(), pair.transformed.as_str()),
                ("7", "a", "b")
            );
        }
        let failed = pair(r#"{"original": "a", "text": null}"#, 0);
        assert!(failed.is_err_and(|why| why.contains("`transformed`") && why.contains("`text`")));
    }
}
