//! A connection's service, which counts requests from their head to the end of their answers.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use tower::Service;

use super::Activity;
use crate::layers::OnConnection;

#[derive(Debug, Clone)]
pub(crate) struct CountingService<S> {
    service: S,
    activity: Arc<Activity>,
    /// The probes of this connection; each request carries a reference.
    probes: OnConnection,
}

impl<S> CountingService<S> {
    pub(super) fn new(service: S, activity: Arc<Activity>) -> Self {
        Self {
            service,
            activity,
            probes: OnConnection::default(),
        }
    }
}

impl<S, B, R> Service<Request<R>> for CountingService<S>
where
    S: Service<Request<R>, Response = Response<B>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<CountedBody<B>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<R>) -> Self::Future {
        request.extensions_mut().insert(self.probes.clone());
        request.extensions_mut().insert(self.activity.client.clone());
        let under_way = InFlightRequest::begin(Arc::clone(&self.activity));
        let answer = self.service.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            Ok(answer.map(|body| CountedBody {
                body,
                _under_way: under_way,
            }))
        })
    }
}

/// A request that is being answered.
#[derive(Debug)]
struct InFlightRequest(Arc<Activity>);

impl InFlightRequest {
    fn begin(activity: Arc<Activity>) -> Self {
        activity.in_flight.fetch_add(1, Ordering::AcqRel);
        activity.touch();
        Self(activity)
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.0.touch();
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The body of an answer. Its request counts as in flight until the body is dropped.
#[derive(Debug)]
pub(crate) struct CountedBody<B> {
    body: B,
    _under_way: InFlightRequest,
}

impl<B: http_body::Body + Unpin> http_body::Body for CountedBody<B> {
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
