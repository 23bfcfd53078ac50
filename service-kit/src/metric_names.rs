//! Names of the metrics every server records: `isomer_<who>_<what>_<unit>`.

/// Requests answered, by service, method and code.
pub const REQUESTS: &str = "isomer_server_requests_total";
/// Time to the head of the answer, by service, method and code.
pub const LATENCY: &str = "isomer_server_latency_seconds";
/// Handlers that panicked.
pub const PANICS: &str = "isomer_server_panics_total";
