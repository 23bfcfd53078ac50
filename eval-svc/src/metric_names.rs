//! The metrics of this service.

use isomer_service_kit::{metric_name, metric_names::Metric};

/// Scores computed, by `task`.
pub(crate) const SCORES: &str = metric_name!("eval", "scores", "total");
/// Time that a score took, by `task`.
pub(crate) const SCORE: &str = metric_name!("eval", "score", "seconds");
/// Runs begun.
pub(crate) const RUNS: &str = metric_name!("eval", "runs", "total");
/// Runs of other replicas that this process took over.
pub(crate) const TAKEOVERS: &str = metric_name!("eval", "takeovers", "total");

/// Failures of the store that machines share.
pub(crate) const STORE_FAILURES: &str = metric_name!("eval", "store_failures", "total");

/// Every metric of this crate.
pub(crate) const ALL: &[Metric] = &[
    Metric::counter(SCORES, "Scores computed, by task."),
    Metric::histogram(SCORE, metrics::Unit::Seconds, "Time that a score took, by task."),
    Metric::counter(RUNS, "Runs begun."),
    Metric::counter(TAKEOVERS, "Runs of other replicas that this process took over."),
    Metric::counter(
        STORE_FAILURES,
        "Failures of the store that machines share, for scores; after each, it is left alone for a minute.",
    ),
];

#[cfg(test)]
mod tests {
    #[test]
    fn every_name_follows_the_template() {
        let well_named = |metric: &super::Metric| isomer_service_kit::metric_names::is_well_named(metric.name);
        assert!(super::ALL.iter().all(well_named));
    }
}
