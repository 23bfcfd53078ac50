//! Metrics of this crate.

use isomer_service_kit::{metric_name, metric_names::Metric};

/// Requests refused by the auth layer, by `reason`.
pub(crate) const REFUSED: &str = metric_name!("access", "refused", "total");
/// Requests of a known caller that its scopes or limits refused, by `key` and `reason`.
pub(crate) const KEY_REFUSED: &str = metric_name!("access", "key_refused", "total");
/// Requests admitted, by `key`.
pub(crate) const KEY_REQUESTS: &str = metric_name!("access", "key_requests", "total");
/// Tokens charged, by `key`.
pub(crate) const KEY_TOKENS: &str = metric_name!("access", "key_tokens", "total");
/// Billionths of a US dollar charged, by `key`.
pub(crate) const KEY_COST: &str = metric_name!("access", "key_cost_nano_usd", "total");

/// Every metric of this crate. The label `key` is the id of an API key. Callers with tokens of an
/// identity provider share the label `token`, because there may be any number of them.
pub(crate) const ALL: &[Metric] = &[
    Metric::counter(REFUSED, "Requests refused by the auth layer."),
    Metric::counter(
        KEY_REFUSED,
        "Requests of a known caller that its scopes or limits refused, by key and reason.",
    ),
    Metric::counter(KEY_REQUESTS, "Requests admitted, by key."),
    Metric::counter(KEY_TOKENS, "Tokens charged, by key."),
    Metric::counter(KEY_COST, "Billionths of a US dollar charged, by key."),
];

#[cfg(test)]
mod tests {
    #[test]
    fn every_name_follows_the_template() {
        let well_named = |metric: &super::Metric| isomer_service_kit::metric_names::is_well_named(metric.name);
        assert!(super::ALL.iter().all(well_named));
    }
}
