//! The usage of the requests that a provider bills.
//!
//! Each billed request of a backend runs in [`billed`]. It counts the provider's own number. If the
//! answer was truncated or is unusable, it counts an estimate from the texts, because the provider
//! has done the work. A request that was refused or not sent counts nothing. So a call that fails,
//! or whose caller disconnects, still costs the provider's work.

use std::future::Future;

use isomer_proto::{
    common::v1::Usage,
    encoder::v1::{EncodeResponse, RerankResponse},
};
use isomer_service_kit::Fault;
use isomer_usage::Count;
use tonic::Code;

use crate::answered::{answered, is_unread, is_unsent};

tokio::task_local! {
    static CALL: Count;
}

/// Maximum accepted usage per text and per estimated token. An estimate counts one token for three
/// or four bytes, and no tokenizer makes more than one token of a byte. The provider's own prompt
/// adds to that.
const MOST_PER_TEXT: u64 = 512;
const MOST_PER_ESTIMATED: u64 = 4;

/// Runs a call of a backend and counts its usage. Calls outside this function, such as checks of a
/// provider, are not counted.
pub fn metered<F: Future>(count: &Count, call: F) -> impl Future<Output = F::Output> {
    CALL.scope(count.clone(), call)
}

/// An answer with a field for its usage.
pub trait HasUsage {
    /// The field.
    fn usage(&mut self) -> &mut Option<Usage>;
}

impl HasUsage for EncodeResponse {
    fn usage(&mut self) -> &mut Option<Usage> {
        &mut self.usage
    }
}

impl HasUsage for RerankResponse {
    fn usage(&mut self) -> &mut Option<Usage> {
        &mut self.usage
    }
}

/// Runs one billed request whose answer reports its usage itself. The counted usage is put into the
/// answer.
///
/// # Errors
/// Those of the request.
pub async fn billed_answer<T: HasUsage>(
    provider: &str,
    estimate: Usage,
    request: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let taken = async {
        let mut answer = request.await?;
        let reported = answer.usage().take();
        Ok((answer, reported))
    };
    let ((mut answer, _), usage) = billed(provider, estimate, taken, |(_, reported)| *reported).await?;
    *answer.usage() = Some(usage);
    Ok(answer)
}

/// Runs one billed request, and returns its answer with its usage. `estimate` is the usage
/// estimated from the request's texts; `reported` is the provider's own number.
///
/// # Errors
/// Those of the request.
pub(crate) async fn billed<T>(
    provider: &str,
    estimate: Usage,
    request: impl Future<Output = Result<T, Fault>>,
    reported: impl FnOnce(&T) -> Option<Usage>,
) -> Result<(T, Usage), Fault> {
    let open = CALL.try_with(|count| count.begin(estimate)).ok();
    let end = |usage: Usage| open.into_iter().for_each(|open| open.end(&usage));
    match request.await {
        Ok(answer) => {
            let usage = reported(&answer).map_or(estimate, |usage| believed(provider, &estimate, usage));
            end(usage);
            Ok((answer, usage))
        }
        Err(fault) => {
            end(if may_be_billed(&fault) {
                estimate
            } else {
                Usage::default()
            });
            Err(fault)
        }
    }
}

/// Whether a provider may have encoded the texts of a request that failed.
fn may_be_billed(fault: &Fault) -> bool {
    match fault.code {
        _ if is_unread(fault) => true,
        Code::DeadlineExceeded | Code::Cancelled | Code::DataLoss => true,
        Code::Unavailable => !answered(fault) && !is_unsent(fault),
        _ => false,
    }
}

/// The usage that a provider reports, bounded by the size of its request, because its number enters
/// budgets.
fn believed(provider: &str, sent: &Usage, reported: Usage) -> Usage {
    let per_text = sent.texts.saturating_mul(MOST_PER_TEXT);
    let most = sent.tokens.saturating_mul(MOST_PER_ESTIMATED).saturating_add(per_text);
    if reported.tokens <= most {
        return reported;
    }
    tracing::warn!(
        provider,
        reported = reported.tokens,
        most,
        "the provider reports more tokens than it was sent"
    );
    Usage {
        tokens: most,
        tokens_estimated: true,
        ..reported
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures::FutureExt;

    use super::*;
    use crate::answered::{unread, unsent};

    fn tokens(tokens: u64) -> Usage {
        Usage {
            texts: 2,
            tokens,
            ..Usage::default()
        }
    }

    async fn counted(request: impl Future<Output = Result<(), Fault>>, reported: Option<u64>) -> u64 {
        let count = Count::default();
        let call = billed("p", tokens(10), request, |()| reported.map(tokens));
        let _ = metered(&count, call).await;
        count.used().tokens
    }

    #[tokio::test]
    async fn a_request_counts_by_its_ending() {
        let fault = |code| ready(Err(Fault::new(code, "ANY", "failed")));
        let broken = Fault::unavailable("PROVIDER_UNAVAILABLE", "the connection broke");
        let refused = broken.clone().with("http_status", "503");
        for (request, expected) in [
            (ready(Ok(())), 7),
            (fault(Code::DeadlineExceeded), 10),
            (fault(Code::Cancelled), 10),
            (fault(Code::DataLoss), 10),
            (ready(Err(broken.clone())), 10),
            (ready(Err(refused)), 0),
            (ready(Err(unsent(broken))), 0),
            (fault(Code::InvalidArgument), 0),
            (fault(Code::ResourceExhausted), 0),
            (
                ready(Err(unread(Fault::new(
                    Code::ResourceExhausted,
                    "OVERLOADED",
                    "no memory",
                )))),
                10,
            ),
            (
                ready(Err(unread(Fault::new(Code::OutOfRange, "OUT_OF_RANGE", "too long")))),
                10,
            ),
            (fault(Code::Unimplemented), 0),
        ] {
            let ending = format!("{request:?}");
            assert_eq!(counted(request, Some(7)).await, expected, "{ending}");
        }
    }

    #[tokio::test]
    async fn a_request_that_is_cut_off_counts_its_estimate() {
        let count = Count::default();
        let call = billed("p", tokens(10), pending::<Result<(), _>>(), |()| None);
        assert!(metered(&count, call).now_or_never().is_none());
        assert_eq!(count.used().tokens, 10);
    }

    #[tokio::test]
    async fn a_provider_is_believed_up_to_a_bound_of_what_it_was_sent() {
        for (reported, expected) in [
            (None, 10),
            (Some(30), 30),
            (Some(u64::MAX), 2 * MOST_PER_TEXT + 10 * MOST_PER_ESTIMATED),
        ] {
            assert_eq!(counted(ready(Ok(())), reported).await, expected);
        }
    }
}
