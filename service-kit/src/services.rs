//! The gRPC services and HTTP routes of a process.

use std::convert::Infallible;

use tonic::{body::Body, server::NamedService, service::RoutesBuilder};
use tower::Service;

/// Collects what a process serves. Each service crate builds one; `isomer serve` merges them behind one port.
#[derive(Debug, Clone, Default)]
pub struct Services {
    routes: RoutesBuilder,
    names: Vec<&'static str>,
}

impl Services {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a generated gRPC server, e.g. `EncoderServiceServer::new(...)`.
    #[must_use]
    pub fn add<S>(mut self, service: S) -> Self
    where
        S: Service<http::Request<Body>, Error = Infallible> + NamedService + Clone + Send + Sync + 'static,
        S::Response: axum::response::IntoResponse,
        S::Future: Send + 'static,
    {
        self.routes.add_service(service);
        self.names.push(S::NAME);
        self
    }

    /// Full names of the gRPC services added so far.
    pub fn names(&self) -> &[&'static str] {
        &self.names
    }
}
