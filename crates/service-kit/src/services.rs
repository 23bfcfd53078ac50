//! The gRPC services and HTTP routes of a process.

use std::{collections::BTreeSet, convert::Infallible, sync::Arc};

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request},
    response::{IntoResponse, Response},
    routing::get,
};
use http::{HeaderValue, Method, StatusCode, header};
use http_body::Body as _;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, body::Body, server::NamedService};
use tonic_health::pb::health_server::HealthServer;
use tonic_reflection::server::{Builder, Error as ReflectionError};
use tonic_web::GrpcWebLayer;
use tower::{Layer, Service, ServiceExt, service_fn, util::option_layer};

use crate::{
    Fault,
    auth::{Auth, Authenticator},
    budget::Budget,
    connect,
    health::HealthBoard,
    layers::{
        self, Bounds, Labels, MessageStream, OriginalRequest, OutgoingAnswer, PROBE_MESSAGE, Probes, ServerContext, Via,
    },
    limits::{Gate, LimitsConfig},
    paths::Paths,
    refusals::{Refusals, Shape, plain_refusal},
    telemetry,
    web::Web,
    wrap::{Next, wrap},
};

pub(crate) const DESCRIPTORS: &[&[u8]] = &[
    isomer_proto::FILE_DESCRIPTOR_SET,
    tonic_health::pb::FILE_DESCRIPTOR_SET,
    tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
    tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
];

/// Collects everything that a process serves. Each service crate builds one; `isomer serve` merges
/// them behind one port.
#[derive(Debug, Clone, Default)]
pub struct Services {
    grpc: Vec<(&'static str, Router)>,
    http: Router,
    names: Vec<&'static str>,
    auth: Auth,
    refusals: Refusals,
    paths: Paths,
    web: Option<Web>,
}

impl Services {
    /// An empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a generated gRPC server, e.g. `EncoderServiceServer::new(...)`.
    #[must_use]
    pub fn add<S>(self, service: S) -> Self
    where
        S: Service<http::Request<Body>, Error = Infallible> + NamedService + Clone + Send + Sync + 'static,
        S::Response: IntoResponse,
        S::Future: Send + 'static,
    {
        let path = format!("/{}/{{*method}}", S::NAME);
        let routes = Router::new().route_service(&path, service.map_request(|request: Request| request.map(Body::new)));
        self.add_routes(S::NAME, routes)
    }

    /// Adds a gRPC service that is already a router, for example a proxy to another server. Its
    /// routes lie below `/NAME/` and have no fallback. If two services have the same name, the
    /// later one serves: a gateway merged after the services of its own process takes their calls.
    #[must_use]
    pub fn add_routes(mut self, name: &'static str, routes: Router) -> Self {
        match self.grpc.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = routes,
            None => {
                self.grpc.push((name, routes));
                self.names.push(name);
            }
        }
        self
    }

    /// Adds plain HTTP routes on the same port. `/healthz`, `/readyz` and `/metrics` exist already.
    /// Each path may be added only once (axum panics on a duplicate, at start).
    #[must_use]
    pub fn http(mut self, routes: Router) -> Self {
        self.http = self.http.merge(routes);
        self
    }

    /// Sets the format of failures for HTTP callers of a path (or of everything below it if it ends
    /// in a slash). It applies to failures that no handler answers: an unknown path or method, a
    /// body that is too large, no permit, a deadline exceeded, failed authentication. Other paths
    /// use a plain sentence ([`plain_refusal`]).
    #[must_use]
    pub fn refusals(mut self, path: &'static str, shape: Shape) -> Self {
        self.refusals = self.refusals.with(path, shape);
        self
    }

    /// Serves each path that begins with an alias as the path with the prefix in its place, and
    /// hints at a known path if an unknown one ends like it.
    #[must_use]
    pub fn paths(mut self, aliases: &[(&'static str, &'static str)], known: Vec<&'static str>) -> Self {
        self.paths = self.paths.and(Paths::new(aliases, known));
        self
    }

    /// The services and routes of both. If two services have the same name, the one of `other` is
    /// kept.
    #[must_use]
    pub fn merge(self, other: Services) -> Self {
        let merged = other
            .grpc
            .into_iter()
            .fold(self, |merged, (name, routes)| merged.add_routes(name, routes));
        let mut merged = merged.http(other.http);
        merged.auth = Auth(other.auth.0.or(merged.auth.0));
        merged.refusals = other.refusals.and(&merged.refusals);
        merged.paths = merged.paths.and(other.paths);
        merged.web = other.web.or(merged.web);
        merged
    }

    /// Sets the authenticator of requests from the network. Channels in memory are trusted and do
    /// not use it.
    #[must_use]
    pub fn authenticator(mut self, keeper: Arc<dyn Authenticator>) -> Self {
        self.auth = Auth(Some(keeper));
        self
    }

    /// Also serves gRPC-Web and the Connect protocol, and permits calls from pages of these origins
    /// (`https://app.example`, or `*` for all). An origin that is not a valid header value is
    /// ignored.
    #[must_use]
    pub fn web(mut self, origins: &[String]) -> Self {
        let origins = origins.iter().filter_map(|origin| origin.parse().ok()).collect();
        self.web = Some(Web { origins });
        self
    }

    /// Full names of the gRPC services added so far.
    pub fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// Everything that a server serves: the services, health, reflection, `/healthz`, `/readyz`,
    /// `/metrics`, and the layers around each request.
    pub(crate) fn assemble(self, limits: &LimitsConfig, via: Via) -> Result<AssembledServer, Fault> {
        telemetry::install_metrics()?;
        let health = HealthBoard::serving(&self.names);
        let reflection_fault = |error: ReflectionError| Fault::internal(format!("reflection cannot be built: {error}"));
        let v1 = reflection(&self.names).build_v1().map_err(reflection_fault)?;
        let v1alpha = reflection(&self.names).build_v1alpha().map_err(reflection_fault)?;
        let health_server = HealthServer::new(health.clone());
        let Services {
            grpc,
            http,
            names,
            auth,
            refusals,
            paths,
            web,
        } = self
            .add(health_server.max_decoding_message_size(PROBE_MESSAGE))
            .add(v1.max_decoding_message_size(PROBE_MESSAGE))
            .add(v1alpha.max_decoding_message_size(PROBE_MESSAGE));

        let closing = CancellationToken::new();
        let budget = Budget::new(limits);
        let context = ServerContext {
            gate: Gate::new(limits),
            probes: Probes::new(limits),
            timeout: limits.request_timeout(),
            oldest_client: limits.oldest_client,
            labels: Labels::new(&names, DESCRIPTORS),
            via,
            auth: if via == Via::Network { auth } else { Auth::default() },
            refusals: refusals.clone(),
            closing: closing.clone(),
        };
        // Callers in the same process are trusted.
        let bounds = (via == Via::Network).then(|| Bounds {
            labels: context.labels.clone(),
            most: limits.max_message_bytes,
            refusals: refusals.clone(),
            budget: budget.clone(),
        });
        let bounds = option_layer(bounds.map(|bounds| {
            let bounds = Arc::new(bounds);
            wrap(move |request, next| layers::arriving(Arc::clone(&bounds), request, next))
        }));
        let (labels, paths) = (context.labels.clone(), Arc::new(paths));
        let context = Arc::new(context);
        let context = wrap(move |request, next| layers::around(Arc::clone(&context), request, next));
        let known = Arc::clone(&paths);
        let unknown_path = wrap(move |request, next| {
            let lookup = PathLookup {
                refusals: refusals.clone(),
                labels: labels.clone(),
                paths: Arc::clone(&known),
            };
            unknown_path(lookup, request, next)
        });
        let grpc = grpc
            .into_iter()
            .fold(Router::new(), |all, (_, routes)| all.merge(routes));
        let grpc = grpc.fallback(unknown_method).layer((context.clone(), bounds.clone()));
        let body_limit = DefaultBodyLimit::max(limits.max_message_bytes);
        let http = http.merge(probes(&health));
        let http = http.layer((context, bounds, unknown_path, body_limit));
        // gRPC and HTTP requests are separated here, so that HTTP routes may have their own
        // fallback (a page, a 404).
        let translated = web.as_ref().map(|_| {
            let grpc = grpc.clone();
            let inner = service_fn(move |request: http::Request<tonic::body::Body>| {
                grpc.clone().oneshot(request.map(axum::body::Body::new))
            });
            GrpcWebLayer::new().layer(inner)
        });
        let (speaks_connect, most) = (web.is_some(), limits.max_message_bytes);
        let routes = Arc::new((grpc, http, translated, paths));
        let memory = budget.clone();
        let both = service_fn(move |mut request: Request| {
            let routes = Arc::clone(&routes);
            let outgoing = (via == Via::Network).then(|| OutgoingAnswer::of(&mut request, &memory));
            if outgoing.is_some() {
                request = layers::read_the_rest(request);
            }
            async move {
                let (grpc, http, translated, paths) = &*routes;
                let version = request.version();
                let mut streams = false;
                let answer: Response = match translated.as_ref().filter(|_| layers::is_grpc_web(request.headers())) {
                    Some(translated) => {
                        let is_connect = false;
                        request.extensions_mut().insert(OriginalRequest { is_connect, version });
                        let answer = translated.clone().oneshot(request).await?;
                        answer.map(axum::body::Body::new)
                    }
                    None if layers::is_grpc(request.headers()) => grpc.clone().oneshot(request).await?,
                    None => match connect::Call::of(&request, most).filter(|_| speaks_connect) {
                        Some(call) => {
                            let is_connect = true;
                            request.extensions_mut().insert(OriginalRequest { is_connect, version });
                            streams = call.streams();
                            call.answer(request, grpc.clone()).await
                        }
                        None => http.clone().oneshot(paths.canonical(request)).await?,
                    },
                };
                let Some(outgoing) = outgoing else { return Ok(answer) };
                streams |= answer.extensions().get::<MessageStream>().is_some();
                Ok::<_, Infallible>(outgoing.response(answer, streams))
            }
        });
        let router = Router::new().fallback_service(both);
        let router = match web.as_ref().and_then(Web::cors) {
            Some(cors) => router.layer(cors),
            None => router,
        };
        Ok(AssembledServer {
            router,
            #[cfg(test)]
            budget,
            lifecycle: Lifecycle { health, closing },
        })
    }
}

/// A complete server to bind: the router, and the handle to close it.
#[derive(Clone, Debug)]
pub(crate) struct AssembledServer {
    pub(crate) router: Router,
    #[cfg(test)]
    pub(crate) budget: Budget,
    pub(crate) lifecycle: Lifecycle,
}

/// Notifies a server's clients that it is closing.
#[derive(Clone, Debug)]
pub(crate) struct Lifecycle {
    health: HealthBoard,
    closing: CancellationToken,
}

impl Lifecycle {
    /// Sets health to NOT_SERVING. Ends health watches and reflection streams, which would
    /// otherwise keep their connections open.
    pub(crate) fn drain(&self) {
        self.health.drain();
        self.closing.cancel();
    }
}

fn reflection(names: &[&'static str]) -> Builder<'static> {
    let builder = DESCRIPTORS.iter().fold(Builder::configure(), |builder, descriptors| {
        builder.register_encoded_file_descriptor_set(descriptors)
    });
    let ours = [
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    ];
    // A set, because a name listed twice would be reported twice.
    let names: BTreeSet<&str> = names.iter().copied().chain(ours).collect();
    names
        .into_iter()
        .fold(builder, |builder, name| builder.with_service_name(name))
}

fn probes(health: &HealthBoard) -> Router {
    let health = Arc::new(health.clone());
    let readiness = move || {
        let health = Arc::clone(&health);
        async move {
            if health.is_serving() {
                return "ready\n".into_response();
            }
            plain_refusal(Fault::unavailable("DRAINING", "the server is closing"))
        }
    };
    let metrics = || async {
        (
            [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
            telemetry::metrics_text(),
        )
    };
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readiness))
        .route("/metrics", get(metrics))
}

async fn unknown_method(request: Request) -> Response {
    Status::from(layers::no_such_method(request.uri().path())).into_http()
}

/// The knowledge about paths that no route serves.
struct PathLookup {
    refusals: Refusals,
    labels: Labels,
    paths: Arc<Paths>,
}

/// Adds an explanation to the empty answers for an unknown path and for a method that a route does
/// not accept.
async fn unknown_path(
    PathLookup {
        refusals,
        labels,
        paths,
    }: PathLookup,
    request: Request,
    next: Next,
) -> Response {
    let respond = refusals.shape(request.uri().path(), false);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    if !response.body().is_end_stream() {
        return response;
    }
    match response.status() {
        StatusCode::NOT_FOUND if method != Method::POST && labels.is_rpc(&path) => {
            let mut response = respond(method_not_allowed(&path, &method));
            let allowed = HeaderValue::from_static("POST");
            response.headers_mut().insert(header::ALLOW, allowed);
            response
        }
        StatusCode::NOT_FOUND => {
            let fault = Fault::not_found("NO_SUCH_PATH", format!("no such path: {path}"));
            respond(match paths.meant(&path) {
                Some(meant) => fault.hint(format!("did you mean {meant}?")),
                None => fault,
            })
        }
        // An outer layer adds the header to the answer.
        StatusCode::METHOD_NOT_ALLOWED => respond(method_not_allowed(&path, &method)),
        _ => response,
    }
}

fn method_not_allowed(path: &str, method: &Method) -> Fault {
    let message = format!("{path} does not take {method}");
    Fault::new(Code::Unimplemented, "METHOD_NOT_ALLOWED", message)
        .hint("use one of the methods in the answer's `Allow` header")
}
