//! The top of a report: the verdict on each encoder, its consequences, and what to do, in words
//! that require no knowledge of statistics.

use minijinja::{Value, context};

use super::{GateReport, GateRule, GateVerdict, JudgeReport, Report, VerdictSummary, cards, format::percent};
use crate::terms::{Measure, OnUndecided};

/// The consequence of the gate's verdict for a decision, in one or two sentences.
pub(super) fn meaning(gate: &GateReport) -> &'static str {
    match (gate.verdict, gate.undecided) {
        (GateVerdict::Pass, _) => "Every encoder that was judged stays within every limit that was set.",
        (GateVerdict::Fail, _) => "At least one encoder breaks a limit that was set.",
        (GateVerdict::Invalid, _) => {
            "These numbers cannot answer the question, so nothing follows from them about the encoders. Correct what is named here and run \
             again."
        }
        (GateVerdict::Undecided, OnUndecided::Warn) => {
            "There is not enough data to say whether the limits are kept. That is not a pass; this suite lets it through with a warning."
        }
        (GateVerdict::Undecided, OnUndecided::Block | OnUndecided::Fail) => {
            "There is not enough data to say whether the limits are kept. That is not a pass. The table of the rules says how much more \
             it takes."
        }
    }
}

/// The content of the first sections of the page.
pub(super) fn view(report: &Report) -> Value {
    let gate = report.gate.as_ref().map(|gate| {
        context! {
            verdict => gate.verdict.name(),
            mark => gate.verdict.mark(),
            answers => gate.answers().iter().map(answer).collect::<Vec<_>>(),
            meaning => meaning(gate),
            caveats => gate.caveats(),
            rounds => gate.rounds(),
        }
    });
    let judge = report.judge.as_ref().and_then(judged);
    context! { gate, judge, subject => subject(report), cards => cards::view(report), actions => actions(report) }
}

fn answer(answer: &VerdictSummary<'_>) -> Value {
    context! {
        encoder => answer.own.encoder.clone(),
        verdict => answer.own.verdict.name(),
        verb => answer.own.verdict.verb(),
        reasons => answer.reasons.clone(),
    }
}

/// The encoders that the report is about.
fn subject(report: &Report) -> String {
    const NAMED: usize = 3;
    let plain = report.encoders.iter().filter(|one| one.variant.is_none());
    let (baseline, own): (Vec<_>, Vec<_>) = plain.map(|one| (one.baseline, one.id.as_str())).partition(|one| one.0);
    // A baseline alone is the subject itself.
    let (own, baseline) = if own.is_empty() {
        (baseline, Vec::new())
    } else {
        (own, baseline)
    };
    let more = own.len().saturating_sub(NAMED);
    let mut names: Vec<String> = own.iter().take(NAMED).map(|one| one.1.to_owned()).collect();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    let against = baseline.first().map(|one| format!(" against {}", one.1));
    format!("{}{}", names.join(", "), against.unwrap_or_default())
}

/// The next steps, most urgent first.
fn actions(report: &Report) -> Vec<String> {
    let Some(gate) = &report.gate else {
        return vec!["Set limits, as in --rule max_drop=10, and name the encoder in use with --baseline: the report then gives a verdict.".to_owned()];
    };
    let answers = gate.answers();
    let named = |verdict: GateVerdict| {
        let own = answers.iter().filter(|one| one.own.verdict == verdict);
        own.map(|one| one.own.encoder.as_str()).collect::<Vec<_>>().join(", ")
    };
    let mut actions: Vec<String> = Vec::new();
    let failed = named(GateVerdict::Fail);
    if !failed.is_empty() {
        let instead = gate
            .baseline
            .as_ref()
            .map_or(String::new(), |other| format!("; keep {other}"));
        let said = gate.encoders.iter().flat_map(|own| gate.rules_of(own));
        let is_level = |rule: &GateRule| {
            rule.of == "original" && matches!(rule.kind.measure(), Measure::Difference | Measure::Score)
        };
        let mut broken = said.filter(|(_, said)| said.verdict == GateVerdict::Fail);
        let check = match broken.any(|(rule, _)| is_level(rule)) {
            true => {
                " The original texts score worse too: compare pooling, prompts, tokenizer and length with the baseline’s."
            }
            false => " The cards name the texts that they lose most on.",
        };
        actions.push(format!("Do not release {failed}{instead}.{check}"));
    }
    let invalid = answers.iter().filter(|one| one.own.verdict == GateVerdict::Invalid);
    actions.extend(invalid.map(|one| format!("Correct this and run again: {}.", one.reasons)));
    actions.extend(undecided(gate));
    let passed = named(GateVerdict::Pass);
    if !passed.is_empty() {
        actions.push(format!("{passed} can be released under these limits."));
    }
    if gate.baseline.is_none() {
        actions.push("Name the encoder in use with --baseline: the report then compares with it.".to_owned());
    }
    actions.dedup();
    actions
}

/// The data that would decide each encoder that is undecided.
fn undecided(gate: &GateReport) -> impl Iterator<Item = String> {
    let open = gate.encoders.iter().filter(|own| own.verdict == GateVerdict::Undecided);
    open.map(|own| {
        let said = gate.rules_of(own);
        let needed: Vec<String> = said
            .filter_map(|(rule, said)| Some(format!("“{}”: {}", rule.title, said.needed()?)))
            .collect();
        let needed = match needed.is_empty() {
            true => "more data sets or items, or limits further away".to_owned(),
            false => needed.join("; "),
        };
        format!("Get more data for {}. {needed}.", own.encoder)
    })
}

/// The number of rewrites that the judge accepts, for a tile. `None` if it rated no similarity.
fn judged(judge: &JudgeReport) -> Option<Value> {
    let threshold = judge.threshold_text()?;
    if judge.inseparable.is_some() {
        return Some(context! {
            share => "–",
            sentence => format!("not known: {} does not distinguish pairs of known rating", judge.id),
        });
    }
    let (accepted, rated) = judge.accepted()?;
    let share = (rated > 0).then(|| percent(accepted as f64 / rated as f64));
    Some(context! {
        share => share.unwrap_or_else(|| "–".to_owned()),
        sentence => format!("{accepted} of {rated} rated rewrites have a similarity of at least {threshold}, according to {}", judge.id),
    })
}
