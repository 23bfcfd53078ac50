//! Limits of a provider: rate, concurrency, and size of one request.

mod batches;

pub(crate) use batches::{BatchLimit, Batches};

use std::{future::Future, time::Duration};

use isomer_outbound::rate_limiter::{RateLimiter, Rates, TurnError};
use isomer_proto::gateway::v1::ProviderLimits;
use isomer_service_kit::Fault;
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout_at},
};
use tonic::Code;

/// The end of a caller's wait; `None`: no end.
pub(crate) type Deadline = Option<Instant>;

/// Limit on the bytes of an answer. A provider that exceeds the maximum that its answer can need is
/// cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnswerLimit(pub(crate) usize);

impl AnswerLimit {
    /// Facts about a server or its models.
    pub(crate) const FACTS: Self = Self(16 << 20);
    /// Everything in an answer except its items.
    const MARGIN: usize = 1 << 20;
    /// Columns assumed for a model that does not report their number.
    const COLUMNS: u32 = 65_536;
    /// A number in JSON, including the white space of a server that indents.
    const NUMBER: usize = 40;
    /// The score of a document.
    const SCORE: usize = 1024;
    /// A token with its text and position.
    const TOKEN: usize = 256;

    /// Limit for the vectors of this many texts, with the model's number of columns; 0: unknown.
    pub(crate) fn vectors(texts: usize, columns: u32) -> Self {
        let columns = if columns == 0 { Self::COLUMNS } else { columns };
        Self::items(texts, (columns as usize).saturating_mul(Self::NUMBER))
    }

    pub(crate) fn scores(documents: usize) -> Self {
        Self::items(documents, Self::SCORE)
    }

    /// Limit for the tokens of texts. A text has at most one token per byte, plus special tokens.
    pub(crate) fn tokens(texts: &[String]) -> Self {
        let bytes = texts.iter().map(|text| text.len().saturating_add(16)).sum();
        Self::items(bytes, Self::TOKEN)
    }

    fn items(count: usize, size: usize) -> Self {
        Self(count.saturating_mul(size).saturating_add(Self::MARGIN))
    }
}

/// The rate limiter of one provider, shared by all callers.
#[derive(Debug)]
pub(crate) struct ProviderLimiter {
    id: String,
    limiter: RateLimiter,
}

impl ProviderLimiter {
    /// `patience` is the maximum wait of a caller without a deadline.
    pub(crate) fn new(id: &str, limits: Option<&ProviderLimits>, patience: Duration) -> Result<Self, Fault> {
        let limits = limits.cloned().unwrap_or_default();
        let rates = Rates {
            requests_per_second: limits.requests_per_second,
            tokens_per_second: limits.tokens_per_second,
            max_concurrency: usize::try_from(limits.max_concurrency).unwrap_or(0),
        };
        let limiter = RateLimiter::new(rates, patience).map_err(|bad| {
            Fault::invalid(format!("provider.limits.{}", bad.field), "is not a rate")
                .hint("give a number above 0, or 0 for no limit")
        })?;
        Ok(Self {
            id: id.to_owned(),
            limiter,
        })
    }

    /// Waits until a request of `tokens` tokens may be sent. The caller holds the returned permit
    /// until the answer has arrived.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` with a hint, at once, if the request could be sent only after the
    /// deadline; nothing was consumed in that case. `DEADLINE_EXCEEDED` if no permit became free in
    /// time.
    pub(crate) async fn turn(&self, tokens: u64, deadline: Deadline) -> Result<Option<OwnedSemaphorePermit>, Fault> {
        self.limiter
            .turn(tokens, deadline)
            .await
            .map_err(|no_turn| match no_turn {
                TurnError::Deadline => late(&self.id),
                TurnError::TooLate { wait } => Fault::overloaded(
                    format!("provider `{}` is used as fast as its limits allow", self.id),
                    wait,
                )
                .hint("send less, or raise the provider's limits")
                .with("provider", &self.id),
            })
    }
}

/// Waits for a call until the caller's deadline or the provider's timeout, whichever is earlier.
///
/// # Errors
/// `DEADLINE_EXCEEDED` at the caller's deadline; `UNAVAILABLE` (`PROVIDER_TIMEOUT`) at the
/// provider's timeout, because another provider may still answer in time.
pub(crate) async fn within<T>(
    id: &str,
    timeout: Duration,
    deadline: Deadline,
    call: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let own = Instant::now() + timeout;
    let until = deadline.map_or(own, |deadline| deadline.min(own));
    let Ok(answer) = timeout_at(until, call).await else {
        return Err(match deadline {
            Some(deadline) if deadline <= own => late(id),
            _ => Fault::unavailable(
                "PROVIDER_TIMEOUT",
                format!("provider `{id}` did not answer within {timeout:?}"),
            )
            .hint("try again, or raise the provider's limits.timeout")
            .with("provider", id),
        });
    };
    answer
}

/// The fault for the caller's deadline.
pub(crate) fn late(id: &str) -> Fault {
    let message = format!("provider `{id}` did not answer before the caller's deadline");
    Fault::new(Code::DeadlineExceeded, "DEADLINE_EXCEEDED", message).with("provider", id)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn limiter(limits: &ProviderLimits) -> Result<ProviderLimiter, Fault> {
        ProviderLimiter::new("p", Some(limits), Duration::from_secs(60))
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_without_a_turn_in_time_is_told_when_to_come_again() {
        let limits = ProviderLimits {
            requests_per_second: 1.0,
            max_concurrency: 2,
            ..ProviderLimits::default()
        };
        let limiter = limiter(&limits).unwrap();
        let soon = || Some(Instant::now() + Duration::from_millis(20));
        let first = limiter.turn(1, soon()).await.unwrap();
        let fault = limiter.turn(1, soon()).await.unwrap_err();
        assert_eq!(fault.code, Code::ResourceExhausted);
        assert!(fault.retry_after.is_some() && fault.message.contains("`p`"), "{fault}");
        drop(first);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_whose_deadline_comes_while_others_are_under_way_is_late() {
        let limits = ProviderLimits {
            max_concurrency: 1,
            ..ProviderLimits::default()
        };
        let limiter = limiter(&limits).unwrap();
        let held = limiter.turn(1, None).await.unwrap();
        let fault = limiter.turn(1, Some(Instant::now() + Duration::from_millis(20))).await;
        assert_eq!(fault.unwrap_err().code, Code::DeadlineExceeded);
        drop(held);
        limiter.turn(1, None).await.unwrap();
    }

    #[test]
    fn a_rate_that_is_none_is_refused_by_its_field() {
        let limits = ProviderLimits {
            tokens_per_second: -1.0,
            ..ProviderLimits::default()
        };
        let fault = limiter(&limits).unwrap_err();
        assert_eq!(fault.field.as_deref(), Some("provider.limits.tokens_per_second"));
    }
}
