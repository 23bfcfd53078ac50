//! The metrics every server records, in one list. Names follow one template:
//! `isomer_<component>_<what>_<unit>`.

use metrics::Unit;

/// A metric's name by the template, at compile time: `metric_name!("server", "latency",
/// "seconds")`.
#[macro_export]
macro_rules! metric_name {
    ($who:literal, $what:literal, $unit:literal) => {
        concat!("isomer_", $who, "_", $what, "_", $unit)
    };
}

/// Requests answered, by `service`, `method`, `code` and `via` (`network` or `memory`).
pub const REQUESTS: &str = metric_name!("server", "requests", "total");
/// Time from the request's head to the end of the answer, by the same labels.
pub const LATENCY: &str = metric_name!("server", "latency", "seconds");
/// Requests begun and not ended yet, by `via`.
pub const IN_FLIGHT: &str = metric_name!("server", "in_flight", "requests");
/// Requests refused because as many as the limit allows were in flight, by `via`.
pub const REFUSED: &str = metric_name!("server", "refused", "total");
/// Memory that requests in flight and their unwritten answers have reserved.
pub const RESERVED: &str = metric_name!("server", "reserved", "bytes");
/// Handlers and answers that panicked, by `service`.
pub const PANICS: &str = metric_name!("server", "panics", "total");

/// Connections open on the network.
pub const CONNECTIONS: &str = metric_name!("server", "open", "connections");
/// Connections closed at once because as many as the limit allows were open.
pub const REFUSED_CONNECTIONS: &str = metric_name!("server", "refused_connections", "total");

/// 1 while TLS files have changed and cannot be used, so that the previous ones stay in force, by
/// `role` (`server` or `client`) and, for a client, the `address` of the server.
pub const TLS_FILES_BROKEN: &str = metric_name!("tls", "files_broken", "flag");
/// Changed TLS files that came into force, by the same labels.
pub const TLS_RENEWALS: &str = metric_name!("tls", "renewals", "total");

/// Kind of metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

/// One metric, as it appears in `/metrics`.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name by the template.
    pub name: &'static str,
    /// Counter, gauge or histogram.
    pub kind: Kind,
    /// Unit of the values.
    pub unit: Unit,
    /// One sentence for `# HELP`.
    pub help: &'static str,
}

impl Metric {
    /// A counter, which only grows.
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            kind: Kind::Counter,
            unit: Unit::Count,
            help,
        }
    }

    /// A gauge, which goes up and down.
    pub const fn gauge(name: &'static str, unit: Unit, help: &'static str) -> Self {
        Self {
            name,
            kind: Kind::Gauge,
            unit,
            help,
        }
    }

    /// A histogram of a distribution.
    pub const fn histogram(name: &'static str, unit: Unit, help: &'static str) -> Self {
        Self {
            name,
            kind: Kind::Histogram,
            unit,
            help,
        }
    }
}

/// Every metric of this crate.
pub const ALL: &[Metric] = &[
    Metric::counter(REQUESTS, "Requests answered."),
    Metric::histogram(
        LATENCY,
        Unit::Seconds,
        "Time from the request's head to the end of the answer.",
    ),
    Metric::gauge(IN_FLIGHT, Unit::Count, "Requests begun and not ended yet."),
    Metric::counter(REFUSED, "Requests refused for lack of a place."),
    Metric::gauge(
        RESERVED,
        Unit::Bytes,
        "Memory that requests in flight and their unwritten answers have reserved.",
    ),
    Metric::counter(PANICS, "Handlers and answers that panicked."),
    Metric::gauge(CONNECTIONS, Unit::Count, "Connections open on the network."),
    Metric::counter(REFUSED_CONNECTIONS, "Connections closed for lack of a place."),
    Metric::gauge(
        TLS_FILES_BROKEN,
        Unit::Count,
        "1 while changed TLS files cannot be used and the previous ones stay in force.",
    ),
    Metric::counter(TLS_RENEWALS, "Changed TLS files that came into force."),
];

/// Tells the recorder what each metric means. Services call it with their own list.
pub fn describe(list: &[Metric]) {
    for metric in list {
        match metric.kind {
            Kind::Counter => metrics::describe_counter!(metric.name, metric.unit, metric.help),
            Kind::Gauge => metrics::describe_gauge!(metric.name, metric.unit, metric.help),
            Kind::Histogram => metrics::describe_histogram!(metric.name, metric.unit, metric.help),
        }
    }
}

/// Whether a name follows the template: `isomer`, then at least component, what and unit, in lower
/// case.
pub fn is_well_named(name: &str) -> bool {
    let parts: Vec<&str> = name.split('_').collect();
    let lower = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    // Prometheus reserves these for the parts of a distribution.
    let kept = ["count", "sum", "bucket", "info"];
    let free = parts.last().is_some_and(|last| !kept.contains(last));
    parts.len() >= 4 && parts[0] == "isomer" && parts.iter().all(lower) && free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_follows_the_template() {
        for metric in ALL {
            assert!(is_well_named(metric.name), "{}", metric.name);
            assert_eq!(
                metric.kind == Kind::Counter,
                metric.name.ends_with("_total"),
                "{}",
                metric.name
            );
        }
        assert!(!is_well_named("isomer_gateway_providers_count"));
        assert!(!is_well_named("isomer_requests") && !is_well_named("isomer_Server_x_total"));
    }
}
