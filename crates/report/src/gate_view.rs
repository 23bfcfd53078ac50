//! The rules of the gate in `report.html`: a sentence for each rule, with words in addition to
//! colours.

use minijinja::{Value, context};

use super::{EncoderVerdict, GateReport, GateRule, Report, RuleVerdict, answer::worst_first, format::fine};

/// The values for the template.
pub(super) fn view(report: &Report, gate: &GateReport) -> Value {
    let rule = |own: &EncoderVerdict, rule: &GateRule, said: &RuleVerdict| {
        context! {
            found => rule.found(said).unwrap_or_else(|| rule.title.clone()),
            name => rule.name(),
            limit => rule.limit_words(),
            basis => rule.basis.name(),
            verdict => said.verdict.name(),
            estimator => rule.estimator(),
            mean => report.mean_beside(gate, rule, said, &own.encoder).map(fine),
            bounds => rule.bounds(said).unwrap_or_else(|| "–".to_owned()),
            units => rule.units_text(said),
            remark => rule.remark(said),
        }
    };
    let encoders = gate.answers().into_iter().map(|answer| {
        let own = answer.own;
        let said = gate.rules_of(own);
        context! {
            encoder => own.encoder.clone(),
            rules => worst_first(said.collect()).into_iter().map(|(of, said)| rule(own, of, said)).collect::<Vec<_>>(),
        }
    });
    context! { level => 1.0 - gate.alpha, encoders => encoders.collect::<Vec<_>>() }
}
