//! Calls a service of this process through its Rust methods.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt;
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Status};
use tracing::Instrument;

use super::{Deadline, Via, answer::Record, labels::Label, span::RequestSpan};
use crate::{Fault, limits::LimitsConfig};

/// Calls one service through its methods, without encoding messages. As over
/// [`crate::memory::channel`], each call has a span, metrics and a deadline, and panics are caught.
#[derive(Debug, Clone)]
pub struct DirectCalls {
    service: &'static str,
    timeout: Option<Duration>,
}

impl DirectCalls {
    /// Calls to the service with this full name.
    pub fn new(service: &'static str, limits: &LimitsConfig) -> Self {
        Self {
            service,
            timeout: limits.request_timeout(),
        }
    }

    /// Makes a unary call. A call without an answer at `until`, or after the request timeout of the
    /// limits, fails with `DEADLINE_EXCEEDED`. Dropping the future drops the call, which then
    /// counts as cancelled.
    ///
    /// # Errors
    /// The status of the service; `INTERNAL` if it panics.
    pub async fn call<T>(
        &self,
        method: &'static str,
        until: Option<Instant>,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Fault> {
        let label = Label::unary(self.service, method);
        let traced = RequestSpan::direct(&label);
        let span = traced.span().clone();
        let mut record = Record::start(label, Via::Memory.name(), traced);
        let theirs = until.map(|until| until.saturating_duration_since(Instant::now()));
        let limit = [self.timeout, theirs].into_iter().flatten().min();
        let call = AssertUnwindSafe(call).catch_unwind().instrument(span);
        // A limit beyond the clock's range is ignored.
        let end = limit.and_then(|limit| {
            Some(Deadline {
                at: Instant::now().checked_add(limit)?,
                limit,
            })
        });
        let outcome = match &end {
            Some(end) => timeout_at(end.at, call).await.map_err(|_| end.fault()),
            None => Ok(call.await),
        };
        let answer = match outcome {
            Ok(Ok(answer)) => answer.map_err(|status| Fault::from_status(&status)),
            Ok(Err(panic)) => Err(record.panicked(&*panic)),
            Err(late) => Err(late),
        };
        record.grpc(answer.as_ref().map_or_else(|fault| fault.code, |_| Code::Ok));
        answer
    }
}
