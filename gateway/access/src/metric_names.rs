//! Metrics of this crate.

use isomer_service_kit::{metric_name, metric_names::Metric};

/// Requests refused by the auth layer, by `reason`.
pub(crate) const REFUSED: &str = metric_name!("access", "refused", "total");

/// Every metric of this crate.
pub(crate) const ALL: &[Metric] = &[Metric::counter(REFUSED, "Requests refused by the auth layer.")];

#[cfg(test)]
mod tests {
    #[test]
    fn every_name_follows_the_template() {
        let well_named = |metric: &super::Metric| isomer_service_kit::metric_names::is_well_named(metric.name);
        assert!(super::ALL.iter().all(well_named));
    }
}
