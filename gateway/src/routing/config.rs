//! Configuration of routing.

use std::time::Duration;

use isomer_service_kit::config::{ConfigError, Validate};
use serde::{Deserialize, Serialize};

use super::breaker::BreakerRules;

/// Routing over providers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RoutingConfig {
    /// Maximum number of times a request is sent, the first included; encoding the same text twice
    /// does no harm.
    pub attempts: u32,
    /// Longest duration of one attempt before another provider is tried, in milliseconds; 0: no
    /// limit.
    pub attempt_timeout_ms: u64,
    /// Requests of more than this many tokens (estimated) are sent to providers in parts, each with
    /// its own attempts; 0: never. Work in this process is not split.
    pub part_tokens: u64,
    /// Retries allowed, as a share of requests…
    pub retry_ratio: f64,
    /// …and in any case this many per second.
    pub retries_per_second: f64,
    /// After this many milliseconds without an answer a second provider is called as well; absent:
    /// never.
    pub hedge_after_ms: Option<u64>,
    /// Interval of each provider's health checks, in milliseconds.
    pub health_interval_ms: u64,
    /// Timeout of a health check, in milliseconds. Two failures in a row eject a provider, one
    /// success brings it back.
    pub health_timeout_ms: u64,
    /// Failures in a row that stop requests to a provider for a time (circuit breaker).
    pub breaker_failures: u32,
    /// That time at first, in milliseconds; it doubles with each failed trial.
    pub breaker_first_ms: u64,
    /// The longest such time, in milliseconds.
    pub breaker_longest_ms: u64,
    /// A provider slower than `slow_factor` × the fastest of the same encoder is used only when no
    /// other is healthy; 0: speed does not matter.
    pub slow_factor: f64,
    /// Seconds over which a provider that was added or came back reaches its full share.
    pub warmup_seconds: u64,
    /// Memory for cached answers, in bytes; 0: no cache. Encoders of this process have their own
    /// cache.
    pub cache_bytes: u64,
    /// Interval in seconds at which each remote encoder's vectors are compared with its first ones;
    /// 0: never. Each comparison encodes three short texts.
    pub probe_interval_seconds: u64,
    /// Encoder of requests that name none, as those of text-embeddings-inference's clients; absent:
    /// the only one.
    pub default_encoder: Option<String>,
    /// Cross-encoder of requests that name none; absent: the only one.
    pub default_reranker: Option<String>,
}

impl Default for RoutingConfig {
    fn default() -> Self {
        Self {
            attempts: 3,
            attempt_timeout_ms: 60_000,
            part_tokens: 32_768,
            retry_ratio: 0.2,
            retries_per_second: 10.0,
            hedge_after_ms: None,
            health_interval_ms: 1_000,
            health_timeout_ms: 1_000,
            breaker_failures: 5,
            breaker_first_ms: 1_000,
            breaker_longest_ms: 30_000,
            slow_factor: 5.0,
            warmup_seconds: 10,
            cache_bytes: 64 << 20,
            probe_interval_seconds: 300,
            default_encoder: None,
            default_reranker: None,
        }
    }
}

impl RoutingConfig {
    pub(crate) fn breaker(&self) -> BreakerRules {
        BreakerRules {
            consecutive: self.breaker_failures,
            first: Duration::from_millis(self.breaker_first_ms),
            longest: Duration::from_millis(self.breaker_longest_ms),
        }
    }
}

impl Validate for RoutingConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        let bad = |key: &str, what: &str, hint: &str| Err(ConfigError::new(format!("routing.{key}"), what, hint));
        if self.attempts == 0 {
            return bad("attempts", "is 0: nothing would be sent", "give at least 1");
        }
        if !self.retry_ratio.is_finite() || !(0.0..=1.0).contains(&self.retry_ratio) {
            return bad("retry_ratio", "is not a share", "give a number from 0 to 1");
        }
        if !self.retries_per_second.is_finite() || self.retries_per_second < 0.0 {
            return bad("retries_per_second", "is not a rate", "give 0 or more");
        }
        if self.hedge_after_ms == Some(0) {
            return bad(
                "hedge_after_ms",
                "is 0: every request would be sent twice",
                "give at least 1, or leave it out",
            );
        }
        if self.health_interval_ms == 0 || self.health_timeout_ms == 0 {
            return bad(
                "health_interval_ms",
                "or health_timeout_ms is 0",
                "give at least 1 for both",
            );
        }
        if self.breaker_failures == 0 {
            return bad("breaker_failures", "is 0: nothing would be sent", "give at least 1");
        }
        if self.breaker_first_ms == 0 || self.breaker_longest_ms < self.breaker_first_ms {
            return bad(
                "breaker_longest_ms",
                "is shorter than breaker_first_ms, or that is 0",
                "give breaker_first_ms ≥ 1 and breaker_longest_ms ≥ breaker_first_ms",
            );
        }
        if self.slow_factor != 0.0 && (!self.slow_factor.is_finite() || self.slow_factor <= 1.0) {
            return bad("slow_factor", "is not above 1", "give e.g. 5, or 0 for never");
        }
        for (key, id) in [
            ("default_encoder", &self.default_encoder),
            ("default_reranker", &self.default_reranker),
        ] {
            if id.as_deref() == Some("") {
                return bad(key, "is empty", "name an encoder, or leave it out");
            }
        }
        Ok(())
    }
}
