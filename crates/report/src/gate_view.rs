//! The rules of the gate in `report.html`: one line for each rule, with words in addition to
//! colours.

use minijinja::{Value, context};

use super::{GateReport, Report, format::fine};

/// The template, included by the page.
pub(super) const TEMPLATE: &str = include_str!("page/gate.html");

/// The values for the template.
pub(super) fn view(report: &Report, gate: &GateReport) -> Value {
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
                        estimator => rule.estimator(),
                        mean => report.mean_beside(gate, rule, said, &one.encoder).map(fine),
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
        alpha => gate.alpha,
        unit => gate.unit.clone(),
        encoders,
    }
}
