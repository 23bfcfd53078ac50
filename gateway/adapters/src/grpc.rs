//! Calls over gRPC: the channel behind the guard, what goes with each call, what becomes of its
//! failures.

use std::time::Duration;

use http::uri::PathAndQuery;
use isomer_outbound::{
    guard::{Connector, Refused},
    said::presentable,
};
use isomer_service_kit::{Fault, GrpcChannel, client, config::Secret};
use tokio::time::Instant;
use tonic::{Code, Request, Status, metadata::MetadataMap};
use tonic_prost::ProstCodec;

use crate::{
    limits::{Deadline, within},
    target::{Target, authorization, read_secret},
};

/// A server that speaks gRPC.
#[derive(Debug)]
pub(crate) struct Grpc {
    pub(crate) target: Target,
    pub(crate) channel: GrpcChannel,
}

impl Grpc {
    /// Connects at the first call.
    pub(crate) fn new(target: Target) -> Result<Self, Fault> {
        let channel = client::connect_lazy_through(&target.client_config(), Connector(target.guard.clone())).map_err(
            |fault| Fault {
                field: fault.field.as_ref().map(|field| format!("provider.{field}")),
                ..fault
            },
        )?;
        Ok(Self { target, channel })
    }

    /// Makes one call: the provider's headers and secret go with it, the time left too.
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

    /// A call of a method by its path, for protocols whose messages are described where they are
    /// used.
    pub(crate) async fn unary<M, A>(&self, path: &'static str, message: M, deadline: Deadline) -> Result<A, Fault>
    where
        M: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut client = tonic::client::Grpc::new(self.channel.clone())
            .max_decoding_message_size(self.target.max_message_bytes)
            .max_encoding_message_size(self.target.max_message_bytes);
        let path = PathAndQuery::from_static(path);
        let call = async |request| {
            client.ready().await.map_err(|error| Status::from_error(error.into()))?;
            client.unary(request, path, ProstCodec::default()).await
        };
        self.call(message, deadline, call).await
    }
}

/// How near to the end of its time a call may say that its time is over.
const AT_THE_END: Duration = Duration::from_millis(100);

/// Never comes back where a call failed because its time is over: its own clocks (the client's, the
/// server's) and whoever waits for it go by the same instant, and the latter knows whose time it
/// was.
pub async fn out_of_time(status: &Status, until: Instant) {
    let over = matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded);
    if over && Instant::now() + AT_THE_END >= until {
        std::future::pending::<()>().await;
    }
}

/// What a failed call is to the caller.
fn failed(id: &str, secret: &Secret, status: &Status) -> Fault {
    if let Some(refused) = Refused::behind(status) {
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
    let unavailable = |reason: &str| {
        Fault::unavailable(
            reason,
            format!(
                "provider `{id}` cannot be reached: {}",
                presentable(&root(status), secret)
            ),
        )
    };
    match fault.code {
        Code::Unauthenticated | Code::PermissionDenied => Fault::precondition(
            "PROVIDER_REFUSED_SECRET",
            format!("provider `{id}` refused the gateway: {said}"),
        )
        .field("provider.secret")
        .hint("correct the secret that provider.secret names"),
        // The connection's own failures have no better code: nothing says whether the provider has
        // seen the call.
        Code::Unknown | Code::Cancelled if std::error::Error::source(status).is_some() => {
            unavailable("PROVIDER_UNAVAILABLE")
        }
        Code::Unavailable if std::error::Error::source(status).is_some() => unavailable("PROVIDER_UNAVAILABLE"),
        Code::Unavailable | Code::Cancelled => {
            let after = fault.retry_after;
            let fault = Fault::unavailable(
                "PROVIDER_UNAVAILABLE",
                format!("provider `{id}` is not available: {said}"),
            );
            after.map_or(fault.clone(), |after| fault.retry_after(after))
        }
        _ => fault,
    }
    .with("provider", id)
}

/// The innermost cause: "connection refused" instead of "transport error".
fn root(status: &Status) -> String {
    let mut cause: &dyn std::error::Error = status;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
