//! `junit.xml`: one suite per encoder, one case per rule of the gate. Without rules there is one
//! case per axis, which cannot fail.

use std::time::Duration;

use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};

use super::{
    GateReport, GateRule, GateVerdict, Report, RuleVerdict,
    format::{counted, points, signed},
};
use crate::{profile::EncoderProfile, terms::OnUndecided};

/// Renders the report.
///
/// # Errors
/// If the XML writer fails.
pub(super) fn render(report: &Report) -> Result<Vec<u8>, String> {
    let mut document = quick_junit::Report::new(format!("isomer check: {}", report.suite.name));
    document.set_time(Duration::from_secs_f64(report.run.seconds.max(0.0)));
    for encoder in &report.profile.encoders {
        let mut suite = TestSuite::new(encoder.encoder.as_str());
        suite.add_property(("suite", report.suite.name.as_str()));
        suite.add_property(("run", report.run.id.as_str()));
        suite.add_property(("original", points(encoder.original).as_str()));
        match &report.gate {
            // The baseline is the encoder that others are compared with; no rule applies to it.
            Some(gate) => gate_cases(&mut suite, gate, &encoder.encoder),
            None => axis_cases(&mut suite, report, encoder),
        }
        document.add_test_suite(suite);
    }
    let mut xml = Vec::new();
    document
        .serialize(&mut xml)
        .map_err(|error| format!("junit.xml: {error}"))?;
    Ok(xml)
}

fn gate_cases(suite: &mut TestSuite, gate: &GateReport, encoder: &str) {
    for own in gate.encoders.iter().filter(|own| own.encoder == encoder) {
        for (rule, said) in gate.rules_of(own) {
            let text = rule_text(rule, said);
            let mut status = match (said.verdict, gate.undecided) {
                (GateVerdict::Pass, _) => TestCaseStatus::success(),
                (GateVerdict::Undecided, OnUndecided::Warn) => TestCaseStatus::skipped(),
                (GateVerdict::Fail, _) | (GateVerdict::Undecided, OnUndecided::Block | OnUndecided::Fail) => {
                    TestCaseStatus::non_success(NonSuccessKind::Failure)
                }
                (GateVerdict::Invalid, _) => TestCaseStatus::non_success(NonSuccessKind::Error),
            };
            if said.verdict != GateVerdict::Pass {
                status.set_message(text.clone());
                status.set_type(said.verdict.name());
            }
            let mut case = TestCase::new(rule.title.as_str(), status);
            case.set_classname(encoder);
            case.set_system_out(text);
            suite.add_test_case(case);
        }
    }
}

/// A rule's verdict in one line.
fn rule_text(rule: &GateRule, said: &RuleVerdict) -> String {
    format!(
        "{}: {} ({}, {})",
        said.verdict.name(),
        rule.sentence(said),
        rule.basis.name(),
        counted(said.seeds, "seed")
    )
}

fn axis_cases(suite: &mut TestSuite, report: &Report, encoder: &EncoderProfile) {
    for axis in &encoder.axes {
        let mut case = TestCase::new(axis.axis.name(), TestCaseStatus::success());
        case.set_classname(encoder.encoder.as_str());
        case.set_system_out(format!(
            "{} points, {} against the original {} ({}); n = {}, {}; no rule to pass or fail",
            points(axis.moved.mean),
            signed(axis.moved.delta),
            points(encoder.original),
            axis.transformations.join(", "),
            report.profile.counted(),
            counted(report.suite.seeds.len(), "seed"),
        ));
        suite.add_test_case(case);
    }
}
