//! Calls over gRPC: the guarded channel, the metadata of each call, and the mapping of failures.

use std::time::Duration;

use http::uri::PathAndQuery;
use isomer_outbound::{guard::AddressRefusal, said::presentable};
use isomer_service_kit::{Fault, GrpcChannel, client, config::Secret};
use tokio::time::Instant;
use tonic::{Code, ConnectError, Request, Status, metadata::MetadataMap};
use tonic_prost::ProstCodec;

use crate::{
    answered::{marked, unread, unsent},
    limits::{AnswerLimit, Deadline, within},
    target::{Target, authorization, read_secret},
};

/// A gRPC server.
#[derive(Debug)]
pub(crate) struct Grpc {
    pub(crate) target: Target,
    pub(crate) channel: GrpcChannel,
}

impl Grpc {
    /// Connects at the first call.
    pub(crate) fn new(target: Target) -> Result<Self, Fault> {
        let guard = Box::new(target.guard.clone());
        let channel = client::connect_lazy_to(&target.client_config(), guard).map_err(|fault| Fault {
            field: fault.field.as_ref().map(|field| format!("provider.{field}")),
            ..fault
        })?;
        Ok(Self { target, channel })
    }

    /// Makes one call with the provider's headers, the secret and the time left.
    pub(crate) async fn call<M, A, F>(
        &self,
        message: M,
        deadline: Deadline,
        call: impl FnOnce(Request<M>) -> F,
    ) -> Result<A, Fault>
    where
        F: Future<Output = Result<tonic::Response<A>, Status>>,
    {
        let target = &self.target;
        let secret = read_secret(&target.secret)?;
        let mut headers = target.headers.clone();
        if let Some(value) = authorization(&secret)? {
            headers.insert(http::header::AUTHORIZATION, value);
        }
        let mut request = Request::new(message);
        *request.metadata_mut() = MetadataMap::from_headers(headers);
        let left = deadline.map_or(target.timeout, |deadline| {
            deadline.saturating_duration_since(Instant::now()).min(target.timeout)
        });
        request.set_timeout(left);
        let until = Instant::now() + left;
        let answer = async {
            match call(request).await {
                Ok(answer) => Ok(answer.into_inner()),
                Err(status) => {
                    out_of_time(&status, until).await;
                    Err(failed(&target.id, &secret, &status))
                }
            }
        };
        within(&target.id, target.timeout, deadline, answer).await
    }

    /// Calls a method by its path, for protocols whose messages are declared next to their use.
    pub(crate) async fn unary<M, A>(
        &self,
        path: &'static str,
        message: M,
        limit: AnswerLimit,
        deadline: Deadline,
    ) -> Result<A, Fault>
    where
        M: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut client = tonic::client::Grpc::new(self.channel.clone())
            .max_decoding_message_size(limit.0.min(self.target.max_message_bytes))
            .max_encoding_message_size(self.target.max_message_bytes);
        let path = PathAndQuery::from_static(path);
        let call = async |request| {
            client.ready().await.map_err(|error| Status::from_error(error.into()))?;
            client.unary(request, path, ProstCodec::default()).await
        };
        self.call(message, deadline, call).await
    }
}

/// Tolerance within which DEADLINE_EXCEEDED counts as the caller's own deadline.
const AT_THE_END: Duration = Duration::from_millis(100);

/// Never returns if a call failed because of the deadline. The call's own clocks (the client's and
/// the server's) and the caller's timeout expire at the same instant. Only the caller's timeout
/// shows whose deadline it was.
pub async fn out_of_time(status: &Status, until: Instant) {
    if over(status.code(), until) {
        std::future::pending::<()>().await;
    }
}

/// Whether a call that ended with this code ended because of the deadline.
pub(crate) fn over(code: Code, until: Instant) -> bool {
    matches!(code, Code::Cancelled | Code::DeadlineExceeded) && Instant::now() + AT_THE_END >= until
}

/// The caller's fault for a failed call.
fn failed(id: &str, secret: &Secret, status: &Status) -> Fault {
    if let Some(refused) = AddressRefusal::behind(status) {
        return Fault::from(refused.clone()).with("provider", id);
    }
    let said = presentable(status.message(), secret);
    let mut fault = Fault::from_status(status);
    fault.hint = fault.hint.map(|hint| presentable(&hint, secret));
    fault.metadata.retain(|_, value| value.len() <= 200);
    for value in fault.metadata.values_mut() {
        *value = presentable(value, secret);
    }
    fault.message.clone_from(&said);
    let unavailable = || {
        let cause = presentable(&root(status), secret);
        let fault = Fault::unavailable(
            "PROVIDER_UNAVAILABLE",
            format!("provider `{id}` cannot be reached: {cause}"),
        );
        let mut causes = causes(status);
        if causes.any(|cause| cause.is::<ConnectError>()) {
            return unsent(fault);
        }
        fault
    };
    let fault = match fault.code {
        Code::Unauthenticated | Code::PermissionDenied => Fault::precondition(
            "PROVIDER_REFUSED_SECRET",
            format!("provider `{id}` refused the gateway: {said}"),
        )
        .field("provider.secret")
        .hint("correct the secret that provider.secret names"),
        // A failed connection has no better code: it is unknown whether the provider received the
        // call.
        Code::Unknown | Code::Cancelled | Code::Unavailable if std::error::Error::source(status).is_some() => {
            unavailable()
        }
        Code::Unavailable | Code::Cancelled => {
            let after = fault.retry_after;
            let fault = Fault::unavailable(
                "PROVIDER_UNAVAILABLE",
                format!("provider `{id}` is not available: {said}"),
            );
            after.map_or(fault.clone(), |after| fault.retry_after(after))
        }
        _ => fault,
    };
    let fault = fault.with("provider", id);
    match is_too_long(status) {
        true => unread(fault),
        false => marked(fault, status),
    }
}

/// Whether this client refused an answer for its length. tonic gives no other indication of it.
fn is_too_long(status: &Status) -> bool {
    status.code() == Code::OutOfRange && status.message().starts_with("Error, decoded message length too large")
}

/// The innermost cause: "connection refused" instead of "transport error".
fn root(status: &Status) -> String {
    causes(status).last().unwrap_or(status).to_string()
}

fn causes(status: &Status) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(std::error::Error::source(status), |cause| cause.source())
}
