//! `junit.xml`: one suite per encoder, one case per axis. Rules that pass or fail come with the gate.

use std::time::Duration;

use quick_junit::{TestCase, TestCaseStatus, TestSuite};

use super::{
    Report,
    format::{points, signed},
};

/// Renders the report.
///
/// # Errors
/// When the XML writer refuses.
pub(super) fn render(report: &Report) -> Result<Vec<u8>, String> {
    let mut document = quick_junit::Report::new(format!("isomer check: {}", report.suite.name));
    document.set_time(Duration::from_secs_f64(report.run.seconds.max(0.0)));
    for encoder in &report.profile.encoders {
        let mut suite = TestSuite::new(encoder.encoder.as_str());
        suite.add_property(("suite", report.suite.name.as_str()));
        suite.add_property(("run", report.run.id.as_str()));
        suite.add_property(("original", points(encoder.original).as_str()));
        for axis in &encoder.axes {
            let mut case = TestCase::new(axis.axis.name(), TestCaseStatus::success());
            case.set_classname(encoder.encoder.as_str());
            case.set_system_out(format!(
                "{} points, {} against the original {} ({}); n = {} datasets, {} seeds; no rule to pass or fail",
                points(axis.moved.mean),
                signed(axis.moved.delta),
                points(encoder.original),
                axis.transformations.join(", "),
                report.profile.n_datasets,
                report.suite.seeds.len(),
            ));
            suite.add_test_case(case);
        }
        document.add_test_suite(suite);
    }
    let mut xml = Vec::new();
    document
        .serialize(&mut xml)
        .map_err(|error| format!("junit.xml: {error}"))?;
    Ok(xml)
}
