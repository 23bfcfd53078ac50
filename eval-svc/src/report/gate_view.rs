//! The gate's section of `report.html`: one line a rule, words beside colours.

use minijinja::{Value, context};

use super::{GateReport, GateVerdict};

/// The template, included by the page.
pub(super) const TEMPLATE: &str = include_str!("page/gate.html");

/// What the template shows.
pub(super) fn view(gate: &GateReport) -> Value {
    let encoders: Vec<Value> = gate
        .encoders
        .iter()
        .map(|one| {
            let rules: Vec<Value> = gate
                .rules
                .iter()
                .zip(&one.rules)
                .map(|(rule, said)| {
                    context! {
                        title => rule.title.clone(),
                        measured => rule.measured(),
                        limit => rule.limit_text(),
                        basis => rule.basis.name(),
                        verdict => said.verdict.name(),
                        estimate => said.estimate_text(),
                        bounds => said.bounds_text(),
                        units => said.units,
                        seeds => said.seeds,
                        remark => said.remark(),
                    }
                })
                .collect();
            context! { encoder => one.encoder.clone(), verdict => one.verdict.name(), rules }
        })
        .collect();
    context! {
        verdict => gate.verdict.name(),
        mark => mark(gate.verdict),
        sentence => gate.sentence(),
        rounds => gate.rounds(),
        alpha => gate.alpha,
        unit => gate.unit.clone(),
        encoders,
    }
}

fn mark(verdict: GateVerdict) -> &'static str {
    match verdict {
        GateVerdict::Pass => "✓",
        GateVerdict::Undecided => "?",
        GateVerdict::Invalid => "!",
        GateVerdict::Fail => "✗",
    }
}
