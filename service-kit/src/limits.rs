//! Limits of a server, and the place where overload is answered instead of suffered.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http_body::{Body, Frame, SizeHint};
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    config::{ConfigError, Validate},
    error::Fault,
};

/// What a server takes on at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// Largest message, received or sent, in bytes. A service hands it to its generated server
    /// (`max_decoding_message_size`, `max_encoding_message_size`), since tonic keeps it there.
    pub max_message_bytes: usize,
    /// Requests in flight, streams included; more are answered `RESOURCE_EXHAUSTED` with a retry hint.
    pub max_concurrent_requests: usize,
    /// Longest a request may take before its answer begins, in seconds; 0: no limit but the caller's own deadline.
    pub request_timeout_seconds: u64,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self { max_message_bytes: 256 << 20, max_concurrent_requests: 1024, request_timeout_seconds: 0 }
    }
}

impl Validate for LimitsConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        if self.max_message_bytes < 4096 {
            return Err(ConfigError::new("max_message_bytes", "is under 4096", "give a size in bytes, e.g. 268435456"));
        }
        if self.max_concurrent_requests == 0 {
            return Err(ConfigError::new("max_concurrent_requests", "is 0: nothing would be served", "give at least 1"));
        }
        Ok(())
    }
}

impl LimitsConfig {
    /// The request timeout, where there is one.
    pub fn request_timeout(&self) -> Option<Duration> {
        (self.request_timeout_seconds > 0).then(|| Duration::from_secs(self.request_timeout_seconds))
    }
}

/// Hands out places for requests.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    places: Arc<Semaphore>,
    bound: usize,
}

impl Gate {
    pub(crate) fn new(limits: &LimitsConfig) -> Self {
        Self { places: Arc::new(Semaphore::new(limits.max_concurrent_requests)), bound: limits.max_concurrent_requests }
    }

    /// A place, or the refusal to send.
    pub(crate) fn enter(&self) -> Result<OwnedSemaphorePermit, Fault> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            Fault::overloaded(format!("{} requests are in flight, which is the limit", self.bound), Duration::from_millis(200))
        })
    }
}

/// A response body that keeps its request's place until it ends or is dropped.
#[derive(Debug)]
pub(crate) struct Held<B> {
    body: B,
    _place: OwnedSemaphorePermit,
}

impl<B> Held<B> {
    pub(crate) fn new(body: B, place: OwnedSemaphorePermit) -> Self {
        Self { body, _place: place }
    }
}

impl<B: Body + Unpin> Body for Held<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
