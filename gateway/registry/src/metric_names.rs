//! Metrics of the registry.

use isomer_service_kit::{metric_name, metric_names::Metric};
use metrics::Unit;

/// Live providers, by `source` (`stored`, `declared`, `leased`).
pub const PROVIDERS: &str = metric_name!("gateway", "registered", "providers");
/// Contents of the providers file that could not be applied.
pub const FILE_ERRORS: &str = metric_name!("gateway", "providers_file_errors", "total");
/// 1 while the current content of the providers file is not in force, else 0.
pub const FILE_BROKEN: &str = metric_name!("gateway", "providers_file_broken", "flag");
/// Leases that ran out without a renewal.
pub const LEASES_EXPIRED: &str = metric_name!("gateway", "leases_expired", "total");
/// Reads of the database that failed.
pub const DATABASE_ERRORS: &str = metric_name!("gateway", "providers_database_errors", "total");

/// Every metric of this crate.
pub const ALL: &[Metric] = &[
    Metric::gauge(PROVIDERS, Unit::Count, "Live providers."),
    Metric::counter(FILE_ERRORS, "Contents of the providers file that could not be applied."),
    Metric::gauge(
        FILE_BROKEN,
        Unit::Count,
        "1 while the current content of the providers file is not in force.",
    ),
    Metric::counter(LEASES_EXPIRED, "Leases of providers that expired."),
    Metric::counter(DATABASE_ERRORS, "Reads of the database of providers that failed."),
];

#[cfg(test)]
mod tests {
    use isomer_service_kit::metric_names::is_well_named;

    #[test]
    fn every_name_follows_the_template() {
        for metric in super::ALL {
            assert!(is_well_named(metric.name), "{}", metric.name);
        }
    }
}
