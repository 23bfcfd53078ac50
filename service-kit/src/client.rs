//! The channel every generated client runs over.

use std::task::{Context, Poll};

use futures::future::BoxFuture;
use tonic::{body::Body, transport::Channel};
use tower::Service;

/// A cheaply cloned channel to a gRPC server, across a network or inside this process. It carries the W3C trace context
/// of the current span in each call. Use it with any generated client: `EncoderServiceClient::new(channel)`.
#[derive(Clone, Debug)]
pub struct GrpcChannel {
    inner: Channel,
}

impl GrpcChannel {
    /// Wraps a tonic channel.
    pub fn new(inner: Channel) -> Self {
        Self { inner }
    }
}

impl Service<http::Request<Body>> for GrpcChannel {
    type Response = http::Response<Body>;
    type Error = tonic::transport::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::poll_ready(&mut self.inner, cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(Service::call(&mut self.inner, request))
    }
}
