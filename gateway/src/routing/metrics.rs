//! Metrics of routing.

use isomer_service_kit::{metric_name, metric_names::Metric};

/// Attempts that failed, by `provider` and `reason`.
pub(crate) const FAILURES: &str = metric_name!("gateway", "provider_failures", "total");
/// Requests retried, by the `provider` that had failed.
pub(crate) const RETRIES: &str = metric_name!("gateway", "retries", "total");
/// Requests also sent to a second provider because the first was slow.
pub(crate) const HEDGES: &str = metric_name!("gateway", "hedges", "total");
/// Texts answered from the cache.
pub(crate) const CACHED: &str = metric_name!("gateway", "cached_texts", "total");
/// Texts that a concurrent request was already encoding.
pub(crate) const SHARED: &str = metric_name!("gateway", "shared_texts", "total");
/// Providers refused for an encoder because their vectors are of another space, by `provider`.
pub(crate) const OTHER_SPACE: &str = metric_name!("gateway", "space_refusals", "total");

/// Calls for which no server of a service behind the gateway could be reached, by `service`.
pub(crate) const UPSTREAM: &str = metric_name!("gateway", "upstream_errors", "total");

/// All metrics of the gateway. Their labels are names of providers in the registry and reasons of
/// faults: both bounded.
pub(crate) const ALL: &[Metric] = &[
    Metric::counter(
        UPSTREAM,
        "Calls that failed because the service behind the gateway could not be reached.",
    ),
    Metric::counter(FAILURES, "Attempts that a provider failed."),
    Metric::counter(RETRIES, "Requests retried after a failure."),
    Metric::counter(
        HEDGES,
        "Requests also sent to a second provider because the first was slow.",
    ),
    Metric::counter(CACHED, "Texts answered from the cache."),
    Metric::counter(SHARED, "Texts answered by the encoding of a concurrent request."),
    Metric::counter(
        OTHER_SPACE,
        "Times that a provider's vectors were found to be of another space.",
    ),
];
