//! The gRPC services and HTTP routes of a process.

use std::{convert::Infallible, sync::Arc};

use axum::{Router, extract::Request, response::Response};
use tonic::{Status, body::Body, codec::CompressionEncoding, server::NamedService};
use tonic_health::server::HealthReporter;
use tower::{Service, ServiceExt};

use crate::{
    error::Fault,
    layers::{self, Around},
    limits::{Gate, LimitsConfig},
    telemetry,
};

/// Collects what a process serves. Each service crate builds one; `isomer serve` merges them behind one port.
#[derive(Debug, Clone, Default)]
pub struct Services {
    router: Router,
    names: Vec<&'static str>,
}

impl Services {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a generated gRPC server, e.g. `EncoderServiceServer::new(...)`.
    #[must_use]
    pub fn add<S>(self, service: S) -> Self
    where
        S: Service<http::Request<Body>, Error = Infallible> + NamedService + Clone + Send + Sync + 'static,
        S::Response: axum::response::IntoResponse,
        S::Future: Send + 'static,
    {
        let path = format!("/{}/{{*method}}", S::NAME);
        let routes = Router::new().route_service(&path, service.map_request(|request: Request| request.map(Body::new)));
        self.add_routes(S::NAME, routes)
    }

    /// Adds a gRPC service that is already a router, e.g. a proxy to where it really runs.
    #[must_use]
    pub fn add_routes(mut self, name: &'static str, routes: Router) -> Self {
        self.router = self.router.merge(routes);
        self.names.push(name);
        self
    }

    /// Adds plain HTTP routes on the same port.
    #[must_use]
    pub fn http(mut self, routes: Router) -> Self {
        self.router = self.router.merge(routes);
        self
    }

    /// Everything of both.
    #[must_use]
    pub fn merge(mut self, other: Services) -> Self {
        self.router = self.router.merge(other.router);
        self.names.extend(other.names);
        self
    }

    /// Full names of the gRPC services added so far.
    pub fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// The whole face of a server: the services, health, reflection, `/healthz`, `/readyz`, `/metrics`, and the layers
    /// around each request.
    pub(crate) async fn into_face(self, limits: &LimitsConfig) -> Result<Face, Fault> {
        let (health, health_server) = tonic_health::server::health_reporter();
        for name in self.names.iter().copied().chain([""]) {
            health.set_service_status(name, tonic_health::ServingStatus::Serving).await;
        }
        let told = |e: tonic_reflection::server::Error| Fault::internal(format!("reflection cannot be built: {e}"));
        let mut reflection = || {
            let builder = tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(isomer_proto::FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
                .with_service_name("grpc.health.v1.Health");
            self.names.iter().fold(builder, |builder, name| builder.with_service_name(*name))
        };
        let v1 = reflection().build_v1().map_err(told)?;
        let v1alpha = reflection().build_v1alpha().map_err(told)?;
        let mut all = self.clone();
        all = all.add(health_server.accept_compressed(CompressionEncoding::Gzip).send_compressed(CompressionEncoding::Gzip));
        all = all.add(v1.accept_compressed(CompressionEncoding::Gzip));
        all = all.add(v1alpha.accept_compressed(CompressionEncoding::Gzip));

        let ready = health.clone();
        let probes = Router::new()
            .route("/healthz", axum::routing::get(|| async { "ok\n" }))
            .route("/readyz", axum::routing::get(move || readiness(ready.clone())))
            .route("/metrics", axum::routing::get(|| async { telemetry::metrics_text() }));
        let around = Around { gate: Gate::new(limits), timeout: limits.request_timeout(), services: Arc::from(all.names.as_slice()) };
        let router = all
            .router
            .merge(probes)
            .fallback(unknown)
            .layer(axum::middleware::from_fn_with_state(around, layers::around));
        Ok(Face { router, health: HealthControl { reporter: health, names: self.names } })
    }
}

/// What a server binds: the router and the way to change what health says.
#[derive(Clone, Debug)]
pub(crate) struct Face {
    pub(crate) router: Router,
    pub(crate) health: HealthControl,
}

/// Changes what the health service says.
#[derive(Clone, Debug)]
pub(crate) struct HealthControl {
    reporter: HealthReporter,
    names: Vec<&'static str>,
}

impl HealthControl {
    /// Tells balancers to send nothing new.
    pub(crate) async fn drain(&self) {
        for name in self.names.iter().copied().chain([""]) {
            self.reporter.set_service_status(name, tonic_health::ServingStatus::NotServing).await;
        }
    }
}

async fn readiness(health: HealthReporter) -> Response {
    use tonic_health::pb::{HealthCheckRequest, health_server::Health};
    let service = tonic_health::server::HealthService::from_health_reporter(health);
    let serving = service.check(tonic::Request::new(HealthCheckRequest { service: String::new() })).await;
    let serving = serving.is_ok_and(|r| r.into_inner().status == tonic_health::pb::health_check_response::ServingStatus::Serving as i32);
    if serving { Response::new("ready\n".into()) } else { layers::refuse(Fault::unavailable("DRAINING", "draining"), false) }
}

async fn unknown(request: Request) -> Response {
    let is_grpc = request.headers().get(http::header::CONTENT_TYPE).is_some_and(|v| v.as_bytes().starts_with(b"application/grpc"));
    if is_grpc {
        let message = format!("no such method here: {}; server reflection lists the services", request.uri().path());
        return Status::unimplemented(message).into_http();
    }
    layers::refuse(Fault::not_found("NO_SUCH_PATH", format!("no such path: {}", request.uri().path())), false)
}
