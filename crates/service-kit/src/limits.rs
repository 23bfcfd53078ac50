//! The limits of a server, and the refusal of overload.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    Fault,
    config::{ConfigError, Validate},
    versions::ClientVersion,
};

/// Largest message whose length fits a gRPC frame, minus the overhead around it.
const MOST_MESSAGE: usize = (u32::MAX - 1024) as usize;

/// Largest message between Isomer's own processes, in bytes, unless a service is configured
/// otherwise: a matrix of vectors, or a report. Also the minimum of
/// [`LimitsConfig::max_inner_message_bytes`].
pub const INNER_MESSAGE: usize = 256 << 20;

/// Limits on a server's load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// Largest request body or message of a request that comes over the network, in bytes, before
    /// and after decompression.
    pub max_message_bytes: usize,
    /// Memory that requests in flight may reserve, all together, in bytes; more are answered
    /// `RESOURCE_EXHAUSTED` with a retry hint. A request reserves four times its size, or what its
    /// items take once decoded where that is more. An answer reserves its size until it is written.
    /// 0: a quarter of the memory of this machine or control group. One request of the largest size
    /// always fits.
    pub max_bytes_in_flight: usize,
    /// Share of `max_bytes_in_flight` that one caller may reserve, in percent: an account, a tenant
    /// that a gateway names, or else an address. More is answered `RESOURCE_EXHAUSTED` with a retry
    /// hint. One request of the largest size always fits.
    pub max_caller_percent: u8,
    /// Health watches and reflection streams open at once (they need no key); 4 of them on one
    /// connection. More are answered `RESOURCE_EXHAUSTED` with a retry hint.
    pub max_watches: usize,
    /// Requests in flight, streams until they end included (health, reflection and metrics are not
    /// counted); more are answered `RESOURCE_EXHAUSTED` with a retry hint.
    pub max_concurrent_requests: usize,
    /// Connections open at once; more are closed as soon as they are made. 0: as many as the limit
    /// on open files leaves room for, at most 16384.
    pub max_connections: usize,
    /// How long a connection may take to send the head of its first request, handshakes included,
    /// in seconds.
    pub first_request_seconds: u64,
    /// How long a connection may be idle between requests, in seconds (over HTTP/1.1 never longer
    /// than 30); while three quarters of `max_connections` are open, 10 at most.
    pub idle_seconds: u64,
    /// Longest a unary call may take, or an HTTP request until its answer begins, in seconds; a
    /// stream obeys only its caller's deadline (`grpc-timeout`), and the shorter of both wins. 0:
    /// no limit of ours.
    pub request_timeout_seconds: u64,
    /// Oldest version of Isomer's client libraries that is served; calls of older ones are answered
    /// `FAILED_PRECONDITION`, `CLIENT_TOO_OLD`. Not below the default, which is the oldest that
    /// this version is compatible with.
    pub oldest_client: ClientVersion,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            max_message_bytes: 32 << 20,
            max_bytes_in_flight: 0,
            max_caller_percent: 50,
            max_watches: 1024,
            max_concurrent_requests: 1024,
            max_connections: 0,
            first_request_seconds: 15,
            // Clients reuse a connection for the next call. If the server closes it at that moment,
            // the call fails.
            idle_seconds: 900,
            request_timeout_seconds: 0,
            oldest_client: ClientVersion::COMPATIBLE,
        }
    }
}

impl Validate for LimitsConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        if self.max_message_bytes < 4096 {
            return Err(ConfigError::new(
                "max_message_bytes",
                "is under 4096",
                "give a size in bytes, e.g. 33554432",
            ));
        }
        if self.max_message_bytes > MOST_MESSAGE {
            let hint = format!("give at most {MOST_MESSAGE}");
            return Err(ConfigError::new(
                "max_message_bytes",
                "is more than gRPC can frame",
                hint,
            ));
        }
        if !(1..=100).contains(&self.max_caller_percent) {
            let message = format!("is {}", self.max_caller_percent);
            return Err(ConfigError::new("max_caller_percent", message, "give 1 to 100"));
        }
        if self.max_watches == 0 || self.max_watches > Semaphore::MAX_PERMITS {
            let hint = format!("give 1 to {}", Semaphore::MAX_PERMITS);
            return Err(ConfigError::new(
                "max_watches",
                format!("is {}", self.max_watches),
                hint,
            ));
        }
        if self.max_concurrent_requests == 0 {
            return Err(ConfigError::new(
                "max_concurrent_requests",
                "is 0: nothing would be served",
                "give at least 1",
            ));
        }
        if self.max_concurrent_requests > Semaphore::MAX_PERMITS {
            let hint = format!("give at most {}", Semaphore::MAX_PERMITS);
            return Err(ConfigError::new(
                "max_concurrent_requests",
                "is more than can be counted",
                hint,
            ));
        }
        for (field, seconds) in [
            ("first_request_seconds", self.first_request_seconds),
            ("idle_seconds", self.idle_seconds),
        ] {
            if !(1..=86_400).contains(&seconds) {
                return Err(ConfigError::new(field, format!("is {seconds}"), "give 1 to 86400"));
            }
        }
        if self.oldest_client < ClientVersion::COMPATIBLE {
            return Err(ConfigError::new(
                "oldest_client",
                format!("is {}, with which this version is not compatible", self.oldest_client),
                format!("give {} or later", ClientVersion::COMPATIBLE),
            ));
        }
        Ok(())
    }
}

impl LimitsConfig {
    /// Largest message between the services of one process and from a server behind this one, in
    /// bytes. Answers, vectors in particular, may be larger than requests from the network.
    pub fn max_inner_message_bytes(&self) -> usize {
        self.max_message_bytes.max(INNER_MESSAGE)
    }

    /// The request timeout, if there is one.
    pub fn request_timeout(&self) -> Option<Duration> {
        (self.request_timeout_seconds > 0).then(|| Duration::from_secs(self.request_timeout_seconds))
    }
}

/// Hands out permits for requests.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    permits: Arc<Semaphore>,
    bound: usize,
}

impl Gate {
    pub(crate) fn new(limits: &LimitsConfig) -> Self {
        // Validation refuses more permits than a semaphore can count. A configuration that was not
        // validated must not cause a panic.
        Self {
            permits: Arc::new(Semaphore::new(
                limits.max_concurrent_requests.min(Semaphore::MAX_PERMITS),
            )),
            bound: limits.max_concurrent_requests,
        }
    }

    /// Returns a permit or the refusal.
    pub(crate) fn enter(&self) -> Result<OwnedSemaphorePermit, Fault> {
        Arc::clone(&self.permits).try_acquire_owned().map_err(|_| {
            Fault::overloaded(
                format!("{} requests are in flight, which is the limit", self.bound),
                Duration::from_millis(200),
            )
        })
    }
}
