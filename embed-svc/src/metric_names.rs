//! Metrics of this service.

use isomer_service_kit::{metric_name, metric_names::Metric};

/// Texts encoded, by `encoder`.
pub(crate) const TEXTS: &str = metric_name!("embed", "texts", "total");
/// Tokens run through the model, padding excluded, by `encoder`.
pub(crate) const TOKENS: &str = metric_name!("embed", "tokens", "total");
/// Tokens of a batch, by `encoder`.
pub(crate) const BATCH_TOKENS: &str = metric_name!("embed", "batch", "tokens");
/// Time that a batch took in the model, by `encoder`.
pub(crate) const BATCH_SECONDS: &str = metric_name!("embed", "batch", "seconds");
/// Requests refused because the queue was full, by `encoder`.
pub(crate) const OVERLOADED: &str = metric_name!("embed", "overloaded", "total");
/// Tokens that wait in the queue, by `encoder`.
pub(crate) const QUEUE: &str = metric_name!("embed", "queue", "tokens");
/// Time that loading an encoder took, by `encoder`.
pub(crate) const LOAD: &str = metric_name!("embed", "load", "seconds");
/// Encoders unloaded to make room for others, by `encoder`.
pub(crate) const EVICTIONS: &str = metric_name!("embed", "evictions", "total");

/// Bytes that a GPU's memory pool holds, in use or free, by `device`.
pub(crate) const RESERVED: &str = metric_name!("embed", "device_reserved", "bytes");

/// Vectors found in the store that machines share.
pub(crate) const STORE_FOUND: &str = metric_name!("embed", "store_found", "total");
/// Vectors that were not written to the store, because it failed or was too slow.
pub(crate) const STORE_DROPPED: &str = metric_name!("embed", "store_dropped", "total");
/// Failed reads and writes of the shared store.
pub(crate) const STORE_FAILURES: &str = metric_name!("embed", "store_failures", "total");

/// Every metric of this crate.
pub(crate) const ALL: &[Metric] = &[
    Metric::counter(TEXTS, "Texts encoded, by encoder."),
    Metric::counter(TOKENS, "Tokens run through the model, padding excluded, by encoder."),
    Metric::histogram(BATCH_TOKENS, metrics::Unit::Count, "Tokens of a batch, by encoder."),
    Metric::histogram(
        BATCH_SECONDS,
        metrics::Unit::Seconds,
        "Time that a batch took in the model, by encoder.",
    ),
    Metric::counter(OVERLOADED, "Requests refused because the queue was full, by encoder."),
    Metric::gauge(
        QUEUE,
        metrics::Unit::Count,
        "Tokens that wait in the queue, by encoder.",
    ),
    Metric::histogram(
        LOAD,
        metrics::Unit::Seconds,
        "Time that loading an encoder took, by encoder.",
    ),
    Metric::counter(EVICTIONS, "Encoders unloaded to make room for others, by encoder."),
    Metric::gauge(
        RESERVED,
        metrics::Unit::Bytes,
        "Bytes that a GPU's memory pool holds, in use or free, by device.",
    ),
    Metric::counter(STORE_FOUND, "Vectors found in the store that machines share."),
    Metric::counter(
        STORE_DROPPED,
        "Vectors that were not written to the store, because it failed or was too slow.",
    ),
    Metric::counter(
        STORE_FAILURES,
        "Failures of the store that machines share; after each, it is left alone for a minute.",
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
