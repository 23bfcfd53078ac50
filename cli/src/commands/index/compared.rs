//! Output of comparisons of indexes.

use isomer_eval::stats::gate::Verdict;
use isomer_index::compare::{
    Comparison, Estimate, Measure,
    interleave::Preference,
    rated::RelevanceRatings,
    rules::{GateResult, RuleResult},
};
use serde_json::{Value, json};

use super::show::{lines, print, vectors};
use crate::{
    args::Format,
    exit::Failure,
    table::{Table, TextTable},
};

/// A comparison of a collection with itself on rephrased queries.
pub(super) struct RephrasedComparison {
    pub(super) transformation: String,
    /// Queries that stayed unchanged.
    pub(super) unchanged: usize,
    /// Whether these are too many for a verdict.
    pub(super) invalid: bool,
    pub(super) found: Comparison,
    pub(super) gate: Option<GateResult>,
}

pub(super) fn compared(
    format: Format,
    found: &Comparison,
    gate: Option<&GateResult>,
    ratings: Option<&RelevanceRatings>,
    level: f64,
) -> Result<(), Failure> {
    let text = || {
        let mut text = sides_text(found, &["A", "B"]);
        text.push_str(&format!(
            "\n{} queries, {} with judgements\n",
            found.queries, found.judged
        ));
        text.push_str(&measures_text(&found.measures, ["A", "B"], level));
        text.push_str(&lists_text(found));
        if let Some(ratings) = ratings {
            text.push_str(&rated_text(ratings, level));
        }
        text.push_str(&gate_text(gate, false));
        text
    };
    print(format, text, || {
        let mut all = compared_json(found, level);
        all["gate"] = gate.map(gate_json).unwrap_or_default();
        all["rated"] = ratings.map(rated_json).unwrap_or_default();
        all
    })
}

pub(super) fn robustness(format: Format, all: &[RephrasedComparison], level: f64) -> Result<(), Failure> {
    let text = || {
        let mut text = String::new();
        for own in all {
            if text.is_empty() {
                text.push_str(&sides_text(&own.found, &["collection"]));
            }
            text.push_str(&format!(
                "\n{}: {} queries, {} with judgements, {} stayed as they were\n",
                own.transformation, own.found.queries, own.found.judged, own.unchanged
            ));
            text.push_str(&measures_text(
                &own.found.measures,
                ["original", "in other words"],
                level,
            ));
            text.push_str(&lists_text(&own.found));
            text.push_str(&gate_text(own.gate.as_ref(), own.invalid));
            text.push('\n');
        }
        text.trim_end().to_owned()
    };
    print(format, text, || {
        let of = |own: &RephrasedComparison| {
            let mut found = compared_json(&own.found, level);
            found["transformation"] = json!(own.transformation);
            found["unchanged"] = json!(own.unchanged);
            found["gate"] = own.gate.as_ref().map(gate_json).unwrap_or_default();
            if own.invalid && own.gate.is_some() {
                found["gate"]["verdict"] = json!("invalid");
            }
            found
        };
        json!({ "transformations": all.iter().map(of).collect::<Vec<Value>>() })
    })
}

pub(super) fn preference(format: Format, names: [&str; 2], found: &Preference, level: f64) -> Result<(), Failure> {
    let [a, b, ties] = found.wins;
    let text = || {
        let change = match found.delta.interval {
            Some((low, _)) if low > 0.0 => "people prefer B",
            Some((_, high)) if high < 0.0 => "people prefer A",
            Some(_) => "no preference is shown",
            None => "one query allows no interval",
        };
        let percent = level * 100.0;
        lines(&[
            ("A", names[0].to_owned()),
            ("B", names[1].to_owned()),
            (
                "lists shown",
                format!("{}, {} not in the log", found.shown, found.unseen),
            ),
            ("more clicks for A", a.to_string()),
            ("more clicks for B", b.to_string()),
            ("as many for both", ties.to_string()),
            (
                "B's share less a half",
                format!("{} ({percent}% interval): {change}", signed(&found.delta)),
            ),
        ])
    };
    print(format, text, || {
        json!({
            "a": names[0],
            "b": names[1],
            "shown": found.shown,
            "unseen": found.unseen,
            "wins_a": a,
            "wins_b": b,
            "ties": ties,
            "level": level,
            "delta": estimate_json(&found.delta),
        })
    })
}

fn signed(estimate: &Estimate) -> String {
    match estimate.interval {
        Some((low, high)) => format!("{:+.4} ({low:+.4} to {high:+.4})", estimate.mean),
        None => format!("{:+.4}", estimate.mean),
    }
}

fn share(estimate: &Estimate) -> String {
    match estimate.interval {
        Some((low, high)) => format!("{:.4} ({low:.4} to {high:.4})", estimate.mean),
        None => format!("{:.4}", estimate.mean),
    }
}

fn sides_text(found: &Comparison, names: &[&str]) -> String {
    let mut text = String::new();
    for (name, side) in names.iter().zip(&found.sides) {
        let [median, tail] = side.times.map(|time| time.as_secs_f64() * 1e3);
        let how = if side.exact {
            "exact search"
        } else {
            "search through the index"
        };
        text.push_str(&format!(
            "{name}: {}\n   {}\n   {how}, p50 {median:.2} ms, p99 {tail:.2} ms\n",
            side.name,
            vectors(&side.mark)
        ));
        if let Some(depth) = &side.depth {
            text.push_str(&format!("   {depth}\n"));
        }
        if let Some(recall) = &side.index_recall {
            text.push_str(&format!(
                "   of the {} documents of an exact search the index finds {}\n",
                found.k,
                share(recall)
            ));
        }
        if side.short > 0 {
            text.push_str(&format!(
                "   {} queries got fewer documents than requested\n",
                side.short
            ));
        }
    }
    text
}

fn measures_text(measures: &[Measure], names: [&str; 2], level: f64) -> String {
    if measures.is_empty() {
        return String::new();
    }
    let [a, b] = names;
    let table: Table = TextTable::of(measures)
        .words("", |measure| measure.name.clone())
        .number(a, |measure| format!("{:.4}", measure.means[0]))
        .number(b, |measure| format!("{:.4}", measure.means[1]))
        .number(format!("{b} − {a} ({}% interval)", level * 100.0), |measure| {
            signed(&measure.difference)
        })
        .into();
    format!("{table}\n")
}

fn lists_text(found: &Comparison) -> String {
    lines(&[
        ("overlap of the lists", share(&found.overlap)),
        ("rank-biased overlap", share(&found.rank_biased_overlap)),
    ])
}

fn rated_text(ratings: &RelevanceRatings, level: f64) -> String {
    let mut text = format!(
        "\n\nRated by a language model ({}), 0 to 5 for likeness of query and document; this is not relevance, and no rule \
         applies to it.\n{} pairs rated, {} without a rating; {} queries\n{}",
        ratings.judge,
        ratings.pairs,
        ratings.unrated,
        ratings.queries,
        measures_text(&ratings.measures, ["A", "B"], level)
    );
    text.push_str(&match &ratings.agreement {
        Some(agreement) => format!(
            "the judge rates a relevant document above another one in {} of the pairs (0.5 is chance)",
            share(agreement)
        ),
        None => "how far the judge errs is not known: there are no judgements of these documents".to_owned(),
    });
    text
}

fn gate_text(gate: Option<&GateResult>, invalid: bool) -> String {
    let Some(gate) = gate else { return String::new() };
    if invalid {
        return "\n\nGate invalid: too many queries stayed as they were (--max-unchanged)".to_owned();
    }
    let rule = |rule: &RuleResult| {
        let word = word(rule.verdict);
        let bounds = rule
            .bounds
            .map_or_else(String::new, |(low, high)| format!(", bounds {low:.2} to {high:.2}"));
        let needed = rule.needed.map_or_else(String::new, |needed| {
            format!("; about {needed} queries would decide it")
        });
        format!("\n  {word}: {} ({:.2}{bounds}{needed})", rule.title, rule.estimate)
    };
    let rules: String = gate.rules.iter().map(rule).collect();
    format!(
        "\n\nGate {}, each rule with a chance of error of {} on each side{rules}",
        verdict(gate),
        gate.alpha
    )
}

/// A gate's verdict as a word.
fn verdict(gate: &GateResult) -> &'static str {
    match gate.verdict {
        Verdict::Pass => "passed",
        Verdict::Fail => "failed",
        Verdict::Undecided => "undecided",
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "fail",
        Verdict::Undecided => "undecided",
    }
}

fn estimate_json(estimate: &Estimate) -> Value {
    json!({
        "mean": estimate.mean,
        "low": estimate.interval.map(|(low, _)| low),
        "high": estimate.interval.map(|(_, high)| high),
    })
}

fn measures_json(measures: &[Measure]) -> Vec<Value> {
    let of = |measure: &Measure| {
        json!({
            "name": measure.name,
            "a": measure.means[0],
            "b": measure.means[1],
            "difference": estimate_json(&measure.difference),
        })
    };
    measures.iter().map(of).collect()
}

fn gate_json(gate: &GateResult) -> Value {
    let rule = |rule: &RuleResult| {
        json!({
            "rule": rule.title,
            "verdict": word(rule.verdict),
            "limit": rule.limit,
            "estimate": rule.estimate,
            "low": rule.bounds.map(|(low, _)| low),
            "high": rule.bounds.map(|(_, high)| high),
            "queries": rule.units,
            "needed": rule.needed,
        })
    };
    json!({
        "verdict": verdict(gate),
        "alpha": gate.alpha,
        "rules": gate.rules.iter().map(rule).collect::<Vec<Value>>(),
    })
}

fn rated_json(ratings: &RelevanceRatings) -> Value {
    json!({
        "judge": ratings.judge,
        "scale": "similarity of query and document by a language model, 0 to 5; not relevance",
        "pairs": ratings.pairs,
        "unrated": ratings.unrated,
        "queries": ratings.queries,
        "measures": measures_json(&ratings.measures),
        "agreement_with_judgements": ratings.agreement.as_ref().map(estimate_json),
    })
}

fn compared_json(found: &Comparison, level: f64) -> Value {
    let sides: Vec<Value> = found
        .sides
        .iter()
        .map(|side| {
            json!({
                "collection": side.name,
                "mark": side.mark,
                "exact": side.exact,
                "search_p50_seconds": side.times[0].as_secs_f64(),
                "search_p99_seconds": side.times[1].as_secs_f64(),
                "short_lists": side.short,
                "depth": side.depth,
                "index_recall": side.index_recall.as_ref().map(estimate_json),
            })
        })
        .collect();
    json!({
        "sides": sides,
        "k": found.k,
        "queries": found.queries,
        "judged": found.judged,
        "level": level,
        "measures": measures_json(&found.measures),
        "overlap": estimate_json(&found.overlap),
        "rank_biased_overlap": estimate_json(&found.rank_biased_overlap),
    })
}
