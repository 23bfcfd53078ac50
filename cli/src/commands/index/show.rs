//! Output of `isomer index`.

use std::io::Write;

use isomer_index::{
    mark::Mark,
    migrate::Outcomes,
    plan::Plan,
    run::{Counts, Outcome},
    verify::{IndexReport, ProblemRows},
};
use serde_json::{Value, json};

use super::super::{check::hours, stdout_failure};
use crate::{args::Format, exit::Failure};

pub(super) fn print(
    format: Format,
    text: impl FnOnce() -> String,
    json: impl FnOnce() -> Value,
) -> Result<(), Failure> {
    let text = match format {
        Format::Text => text(),
        Format::Json => json().to_string(),
    };
    writeln!(std::io::stdout(), "{text}").map_err(|error| stdout_failure(&error))
}

/// Names in a column, followed by their values.
pub(super) fn lines(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default() + 2;
    let rows: Vec<String> = rows
        .iter()
        .map(|(name, value)| format!("{:width$}{value}", format!("{name}:")))
        .collect();
    rows.join("\n")
}

pub(super) fn vectors(mark: &Mark) -> String {
    let space = &mark.space;
    let mut text = format!("{}, {} dimensions, {}", space.model, space.dimensions, mark.similarity);
    if !space.prompt.is_empty() {
        text.push_str(&format!(", prompt `{}`", space.prompt));
    }
    if !space.augmentation.is_empty() {
        text.push_str(&format!(", augmented: {}", space.augmentation));
    }
    if mark.chunking != "none" {
        text.push_str(&format!(", chunks of {}", mark.chunking));
    }
    text
}

pub(super) fn outcome(format: Format, store: &str, outcome: &Outcome) -> Result<(), Failure> {
    print(format, || outcome_text(store, outcome), || outcome_json(store, outcome))
}

/// The collections behind a name: the serving one and the other one.
pub(super) fn both(
    format: Format,
    name: &str,
    serving: &str,
    other: Option<&str>,
    both: &Outcomes,
) -> Result<(), Failure> {
    let text = || {
        let mut text = format!("{name} leads to\n\n{}", outcome_text(serving, &both.serving));
        match (other, &both.other) {
            (Some(other), Some(Ok(outcome))) => {
                text.push_str(&format!("\n\nand beside it\n\n{}", outcome_text(other, outcome)));
            }
            (Some(other), Some(Err(_))) => {
                text.push_str(&format!("\n\n{other} beside it was not brought up to date"));
            }
            _ => {}
        }
        text
    };
    let json = || {
        let mut json = json!({ "name": name, "serving": outcome_json(serving, &both.serving) });
        if let (Some(other), Some(outcome)) = (other, &both.other) {
            json["other"] = match outcome {
                Ok(outcome) => outcome_json(other, outcome),
                Err(error) => json!({ "collection": other, "error": error.to_string() }),
            };
        }
        json
    };
    print(format, text, json)
}

/// A rate, with a decimal below ten.
fn whole_or_tenths(rate: f64) -> String {
    let decimals = usize::from(rate < 10.0);
    format!("{rate:.decimals$}")
}

fn rate(outcome: &Outcome) -> f64 {
    #[allow(clippy::cast_precision_loss)]
    let written = outcome.counts.written as f64;
    written / outcome.load.as_secs_f64().max(1e-9)
}

fn outcome_text(store: &str, outcome: &Outcome) -> String {
    let counts = &outcome.counts;
    let mut rows = vec![
        ("collection", store.to_owned()),
        ("vectors", vectors(&outcome.mark)),
        (
            "documents",
            format!("{}, of which {} without a text", counts.documents, counts.empty),
        ),
        (
            "rows",
            format!("{} written, {} unchanged", counts.written, counts.unchanged),
        ),
        (
            "removed",
            format!(
                "{} of changed documents, {} of documents that are gone",
                counts.replaced, counts.deleted
            ),
        ),
    ];
    if counts.partial > 0 {
        rows.push((
            "lack variants",
            format!("{} rows; the next run makes them again", counts.partial),
        ));
    }
    if counts.truncated > 0 {
        rows.push((
            "cut",
            format!(
                "{} texts were longer than the encoder takes; --chunk divides texts",
                counts.truncated
            ),
        ));
    }
    if counts.unknown > 0 {
        rows.push((
            "left out",
            format!(
                "{} texts of which the encoder knows no word: their vectors have length 0",
                counts.unknown
            ),
        ));
    }
    if counts.failed > 0 {
        rows.push(("not encoded", failures(counts)));
    }
    rows.push((
        "time",
        format!(
            "{:.1} s, {} rows/s written",
            outcome.load.as_secs_f64(),
            whole_or_tenths(rate(outcome))
        ),
    ));
    if let Some(index) = outcome.index {
        rows.push(("index", format!("built in {:.1} s", index.as_secs_f64())));
    }
    lines(&rows)
}

/// The documents that could not be encoded, in words.
pub(super) fn failures(counts: &Counts) -> String {
    let named: Vec<String> = counts
        .failures
        .iter()
        .map(|one| format!("`{}` ({})", one.key, one.reason))
        .collect();
    let more = match counts.failed - named.len() as u64 {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!(
        "{} of {} documents: {}{more}",
        counts.failed,
        counts.documents,
        named.join(", ")
    )
}

fn outcome_json(store: &str, outcome: &Outcome) -> Value {
    let counts = &outcome.counts;
    let failures = counts.failures.iter();
    let failures: Vec<Value> = failures
        .map(|one| json!({ "document": one.key, "reason": one.reason }))
        .collect();
    json!({
        "collection": store,
        "mark": outcome.mark,
        "documents": counts.documents,
        "empty": counts.empty,
        "written": counts.written,
        "unchanged": counts.unchanged,
        "partial": counts.partial,
        "truncated": counts.truncated,
        "unknown": counts.unknown,
        "failed": counts.failed,
        "failures": failures,
        "replaced": counts.replaced,
        "deleted": counts.deleted,
        "tokens": counts.usage.tokens,
        "generated_tokens": counts.usage.generated_tokens,
        "generator_calls": counts.usage.generator_calls,
        "cost_nano_usd": counts.usage.cost_nano_usd,
        "seconds": outcome.load.as_secs_f64(),
        "rows_per_second": rate(outcome),
        "index_seconds": outcome.index.map(|index| index.as_secs_f64()),
    })
}

/// The estimated usage for all texts, extrapolated from the sample.
#[derive(Debug, Clone, Copy, PartialEq)]
struct UsageEstimate {
    tokens: Option<f64>,
    generated: Option<f64>,
    calls: Option<f64>,
    seconds: Option<f64>,
    dollars: Option<f64>,
}

#[allow(clippy::cast_precision_loss)]
fn reckoned(plan: &Plan) -> UsageEstimate {
    let usage = &plan.sample.usage;
    UsageEstimate {
        tokens: plan.by_bytes(usage.tokens as f64),
        generated: plan.by_bytes(usage.generated_tokens as f64),
        calls: plan.by_bytes(usage.generator_calls as f64),
        seconds: plan.by_bytes(plan.sample.seconds),
        // 0 means that no price is known.
        dollars: plan
            .by_bytes(usage.cost_nano_usd as f64 / 1e9)
            .filter(|dollars| *dollars > 0.0),
    }
}

pub(super) fn plan(format: Format, plan: &Plan, augmented: bool) -> Result<(), Failure> {
    print(format, || plan_text(plan, augmented), || plan_json(plan))
}

fn plan_text(plan: &Plan, augmented: bool) -> String {
    let all = reckoned(plan);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = |number: Option<f64>| number.map_or_else(|| "0".to_owned(), |number| format!("{:.0}", number.round()));
    let mut rows = vec![
        (
            "documents",
            format!("{}, of which {} without a text", plan.documents, plan.empty),
        ),
        (
            "rows",
            format!(
                "{} to write, {} unchanged, {} to remove",
                plan.rows, plan.unchanged, plan.replaced
            ),
        ),
    ];
    if let Some(gone) = plan.deletable {
        rows.push((
            "gone",
            format!("{gone} rows of documents that the source no longer has (--delete)"),
        ));
    }
    rows.push((
        "texts",
        format!(
            "{}, {} bytes, about {} tokens",
            plan.rows,
            plan.bytes,
            whole(all.tokens)
        ),
    ));
    if augmented {
        let sampled = &plan.sample.usage;
        rows.push((
            "generation",
            match sampled.generator_calls {
                0 => "the sample needed no call to a generator (rules or caches)".to_owned(),
                _ => format!("about {} calls, {} tokens", whole(all.calls), whole(all.generated)),
            },
        ));
    }
    rows.push((
        "price",
        match all.dollars {
            Some(dollars) => format!("about ${dollars:.4} for encoding, by the gateway's prices"),
            None if plan.rows == 0 => "nothing is encoded".to_owned(),
            None => "unknown: no price is named for this encoder; what runs here costs none".to_owned(),
        },
    ));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    rows.push((
        "time",
        all.seconds.map_or_else(
            || "nothing to encode".to_owned(),
            |seconds| {
                let sample = &plan.sample;
                format!(
                    "about {} of encoding, one request after the other, at the rate of {} sampled texts ({:.2} s)",
                    hours(seconds.ceil() as u64),
                    sample.texts,
                    sample.seconds
                )
            },
        ),
    ));
    format!(
        "{}\n\nNothing was written. {} texts were encoded to measure.",
        lines(&rows),
        plan.sample.texts
    )
}

fn plan_json(plan: &Plan) -> Value {
    let all = reckoned(plan);
    json!({
        "documents": plan.documents,
        "empty": plan.empty,
        "rows": plan.rows,
        "unchanged": plan.unchanged,
        "replaced": plan.replaced,
        "deletable": plan.deletable,
        "bytes": plan.bytes,
        "tokens": all.tokens,
        "generated_tokens": all.generated,
        "generator_calls": all.calls,
        "seconds": all.seconds,
        "dollars": all.dollars,
        "sampled_texts": plan.sample.texts,
        "sampled_tokens": plan.sample.usage.tokens,
        "sampled_seconds": plan.sample.seconds,
    })
}

pub(super) fn verified(format: Format, store: &str, found: &IndexReport) -> Result<(), Failure> {
    print(format, || verified_text(store, found), || verified_json(store, found))
}

fn rows_text(found: &ProblemRows) -> String {
    match found.rows {
        0 => "0".to_owned(),
        rows => format!("{rows}, e.g. {}", found.keys.join(", ")),
    }
}

fn verified_text(store: &str, found: &IndexReport) -> String {
    let mut rows = vec![
        ("collection", store.to_owned()),
        ("vectors", vectors(&found.mark)),
        ("rows", found.rows.to_string()),
        ("twice", rows_text(&found.twice)),
        ("other space", rows_text(&found.other_space)),
        ("no digest", rows_text(&found.no_digest)),
        ("lack variants", rows_text(&found.partial)),
    ];
    if let Some(source) = &found.source {
        rows.extend([
            ("documents", source.documents.to_string()),
            ("missing", rows_text(&source.missing)),
            ("outdated", rows_text(&source.outdated)),
            ("extra", rows_text(&source.extra)),
        ]);
    }
    rows.push(("computed again", format!("{} vectors", found.sampled)));
    rows.push(("differ", rows_text(&found.differing)));
    rows.push((
        "largest difference",
        format!("{:.1e} among the vectors that count as equal", found.largest_difference),
    ));
    let verdict = if found.is_sound() { "sound" } else { "not sound" };
    format!("{}\n\n{verdict}", lines(&rows))
}

fn verified_json(store: &str, found: &IndexReport) -> Value {
    let rows = |found: &ProblemRows| json!({ "rows": found.rows, "keys": found.keys });
    json!({
        "collection": store,
        "mark": found.mark,
        "sound": found.is_sound(),
        "rows": found.rows,
        "twice": rows(&found.twice),
        "other_space": rows(&found.other_space),
        "no_digest": rows(&found.no_digest),
        "partial": rows(&found.partial),
        "source": found.source.as_ref().map(|source| json!({
            "documents": source.documents,
            "missing": rows(&source.missing),
            "outdated": rows(&source.outdated),
            "extra": rows(&source.extra),
        })),
        "sampled": found.sampled,
        "differing": rows(&found.differing),
        "largest_difference": found.largest_difference,
    })
}

#[cfg(test)]
mod tests {
    use isomer_index::plan::SampleOfTexts;
    use isomer_proto::common::v1::Usage;

    use super::*;

    #[test]
    fn a_plan_reckons_tokens_money_and_hours_from_its_sample() {
        let plan = Plan {
            documents: 1_000_000,
            rows: 900_000,
            unchanged: 100_000,
            bytes: 360_000_000,
            deletable: Some(7),
            sample: SampleOfTexts {
                texts: 256,
                bytes: 100_000,
                usage: Usage {
                    tokens: 25_000,
                    cost_nano_usd: 500_000,
                    ..Usage::default()
                },
                seconds: 4.0,
            },
            ..Plan::default()
        };
        let text = plan_text(&plan, false);
        for part in [
            "900000 to write, 100000 unchanged",
            "about 90000000 tokens",
            "$1.8000",
            "4 h 0 min",
            "7 rows",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        let json = plan_json(&plan);
        assert_eq!(json["seconds"], 14_400.0);
        let nothing = Plan::default();
        assert!(plan_text(&nothing, false).contains("nothing to encode"));
        assert_eq!(plan_json(&nothing)["tokens"], Value::Null);
    }
}
