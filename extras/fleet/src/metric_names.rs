//! Metrics of workers and shared limits.

use isomer_service_kit::{metric_name, metric_names::Metric};

/// Pauses that a generator asked for, by `generator`.
pub(crate) const PAUSES: &str = metric_name!("fleet", "pauses", "total");
/// Calls in flight that this process may have of those of the whole fleet, by `generator`.
pub(crate) const LEASED: &str = metric_name!("fleet", "leased", "calls");
/// Amount of a budget that the whole fleet has used, by `generator` and `kind`.
pub(crate) const SPENT: &str = metric_name!("fleet", "generator", "spent");
/// Units that this worker ended, by `kind`, `of` and `end`.
pub(crate) const UNITS: &str = metric_name!("fleet", "units", "total");
/// Time from a unit's delivery to its end, by `kind` and `of`.
pub(crate) const UNIT_SECONDS: &str = metric_name!("fleet", "unit", "seconds");
/// Units of a lane that wait, by `kind` and `of`.
pub(crate) const QUEUED: &str = metric_name!("fleet", "queued", "units");
/// Units of a lane that workers have begun, by `kind` and `of`.
pub(crate) const IN_WORK: &str = metric_name!("fleet", "in_work", "units");
/// Units in work that were delivered before, by `kind` and `of`.
pub(crate) const REDELIVERED: &str = metric_name!("fleet", "redelivered", "units");
/// Whether a lane is paused, by `kind` and `of`.
pub(crate) const PAUSED: &str = metric_name!("fleet", "paused", "lanes");

/// Every metric of this crate.
pub(crate) const ALL: &[Metric] = &[
    Metric::counter(
        UNITS,
        "Units that this worker ended, by kind, by the generator or encoder that they are of, and by end.",
    ),
    Metric::histogram(
        UNIT_SECONDS,
        metrics::Unit::Seconds,
        "Time from a unit's delivery to its end, by the labels kind and of.",
    ),
    Metric::gauge(
        QUEUED,
        metrics::Unit::Count,
        "Waiting units of a lane, as the broker reports, by the labels kind and of.",
    ),
    Metric::gauge(
        IN_WORK,
        metrics::Unit::Count,
        "Units of a lane that workers have started, as the broker reports, by the labels kind and of.",
    ),
    Metric::gauge(
        REDELIVERED,
        metrics::Unit::Count,
        "Units in work that were delivered before, as the broker reports, by the labels kind and of.",
    ),
    Metric::gauge(
        PAUSED,
        metrics::Unit::Count,
        "1 while a lane is paused, by the labels kind and of.",
    ),
    Metric::counter(PAUSES, "Pauses that a generator asked this process for, by generator."),
    Metric::gauge(
        LEASED,
        metrics::Unit::Count,
        "Calls in flight that this process may have of those of the whole fleet, by generator.",
    ),
    Metric::gauge(
        SPENT,
        metrics::Unit::Count,
        "Amount of a generator's budget that all processes have used, by generator and kind.",
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
