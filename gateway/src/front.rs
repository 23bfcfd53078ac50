//! Everything that a gateway serves: the router over every encoder, its registry, a proxy to each
//! other service, HTTP in OpenAI's format, and the auth layer in front of them.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use http::request::Parts;
use isomer_access::{Access, AccessServer, Caller};
use isomer_adapters::{AddressGuard, GuardConfig, Surroundings, connect};
use isomer_database::Database;
use isomer_proto::{
    encoder::v1::encoder_service_server::EncoderServiceServer,
    gateway::v1::{access_service_server::AccessServiceServer, provider_service_server::ProviderServiceServer},
};
use isomer_registry::{ProvidersConfig, Registry};
use isomer_service_kit::{Authenticator, Fault, Services, metric_names};
use isomer_usage::report::ReportingService;
use tonic::{body::Body, server::NamedService};
use tower::{Service, ServiceExt};

use crate::{
    billing,
    config::{AugmentedModelConfig, WebConfig},
    dialects, encoder_service,
    openai::{
        self,
        augmented_models::{self, AugmentedModels},
    },
    page::{self, Pages},
    provider::AuditedHandler,
    proxy::{
        self, Servers, Upstream,
        claims::Claims,
        missing_variants::{self, MissingVariantsConfig, VariantQueue},
    },
    routing::{ConfiguredEncoders, Memory, Router, RoutingConfig},
    runs::{self, Intervals},
    screening::Screen,
    timing,
};

pub use crate::{encoder_service::EncoderHandler, runs::Follower};

const TRANSFORM: &[&str] = &[
    "isomer.transform.v1.TransformService",
    "isomer.transform.v1.AugmentationService",
];
/// Services of eval-svc that keep no state.
const SCORES: &[&str] = &["isomer.eval.v1.TaskService", "isomer.eval.v1.StatisticsService"];
const RUNS: &str = "isomer.eval.v1.RunService";

/// Whether calls of a service are forwarded to another server.
#[cfg(test)]
pub(crate) fn is_passed_on(service: &str) -> bool {
    TRANSFORM.contains(&service) || SCORES.contains(&service) || service == RUNS
}

/// The servers of the services other than the encoder service.
#[derive(Debug, Clone, Default)]
pub struct UpstreamServers {
    /// Servers of transform-svc.
    pub transform: Option<Servers>,
    /// Servers of eval-svc.
    pub eval: Option<Servers>,
    /// Whether the servers share a ledger of runs.
    pub shared_runs: bool,
}

impl UpstreamServers {
    /// The servers that handle runs. If they share a ledger, all of them do. Otherwise a run is
    /// known only to the server that created it, so the first server creates all of them.
    pub(crate) fn runs(&self) -> Option<Servers> {
        let eval = self.eval.as_ref()?;
        Some(if self.shared_runs { eval.clone() } else { eval.first() })
    }
}

/// Configuration of what the gateway serves.
#[derive(Debug)]
pub struct Settings {
    /// Encoders on other servers.
    pub providers: ProvidersConfig,
    /// The private addresses that may be called as providers.
    pub addresses: GuardConfig,
    /// How requests are routed to encoders.
    pub routing: RoutingConfig,
    /// Pages that may call from a browser.
    pub web: WebConfig,
    /// Rules for making variants after an answer that lacked them.
    pub missing_variants: MissingVariantsConfig,
    /// Names that stand for an encoder with augmentation.
    pub augmented_models: BTreeMap<String, AugmentedModelConfig>,
    /// Largest message that is accepted, in bytes.
    pub max_message_bytes: usize,
}

/// The router and the registry of providers that it watches.
#[derive(Debug, Clone)]
pub struct EncoderRoutes {
    pub router: Router,
    augmented: AugmentedModels,
    claims: Option<Claims>,
    pub(crate) registry: Registry,
}

/// Opens the registry and the router over it and `fixed`.
///
/// # Errors
/// If the records cannot be opened or the declared providers cannot be read.
pub async fn open_routes(
    settings: &Settings,
    database: Option<Database>,
    fixed: Vec<ConfiguredEncoders>,
) -> Result<EncoderRoutes, Fault> {
    let guard =
        AddressGuard::new(&settings.addresses).map_err(|error| Fault::invalid("addresses", error.to_string()))?;
    metric_names::describe(missing_variants::ALL);
    let augmented = augmented_models::models(&settings.augmented_models)
        .map_err(|error| Fault::invalid("augmented_models", error.to_string()))?;
    let surroundings = Surroundings {
        guard,
        max_message_bytes: settings.max_message_bytes,
    };
    let (memory, claims) = match &database {
        Some(database) => (
            Some(Memory::open(database.clone()).await?),
            Some(Claims::open(database.clone()).await?),
        ),
        None => (None, None),
    };
    let registry = Registry::open(settings.providers.clone(), database).await?;
    let router = Router::new(
        settings.routing.clone(),
        memory,
        fixed,
        registry.watch(),
        move |provider| connect(provider, &surroundings),
    )
    .await;
    registry.screen_with(Arc::new(Screen(router.clone())));
    Ok(EncoderRoutes {
        router,
        augmented,
        claims,
        registry,
    })
}

/// The encoders of a router, as a service.
pub fn encoders(router: &Router, max_message_bytes: usize) -> ReportingService<EncoderServiceServer<EncoderHandler>> {
    ReportingService(encoder_service::server(router.clone(), max_message_bytes))
}

/// Everything that a gateway serves, and the follower of the runs that are created through it.
/// Without `access`, requests are not authenticated, changes are not audited, keys are not served
/// and runs have no follower. That mode is for a process's own clients.
pub fn services(
    settings: &Settings,
    routes: &EncoderRoutes,
    upstream_servers: &UpstreamServers,
    access: Option<&Access>,
) -> (Services, Option<Follower>) {
    let mut services = add_charged(Services::new(), encoders(&routes.router, settings.max_message_bytes));
    let variants = upstream_servers.transform.as_ref().and_then(|servers| {
        let most = settings.max_message_bytes;
        VariantQueue::start(settings.missing_variants, servers.clone(), most, routes.claims.clone())
    });
    let transform = upstream_servers
        .transform
        .iter()
        .flat_map(|servers| upstreams(TRANSFORM, servers, &routes.router));
    let transform = transform.map(|upstream| Upstream {
        variants: variants.clone(),
        ..upstream
    });
    let scores = upstream_servers
        .eval
        .iter()
        .flat_map(|servers| upstreams(SCORES, servers, &routes.router));
    for upstream in transform.chain(scores) {
        services = services.add_routes(
            upstream.service,
            proxy::route(upstream).layer((timing::timed(), billing::charged())),
        );
    }
    let mut follower = None;
    if let Some(servers) = upstream_servers.runs() {
        follower = access.map(|access| {
            Follower::start(
                access.clone(),
                servers.clone(),
                settings.max_message_bytes,
                Intervals::default(),
            )
        });
        let upstream = Upstream {
            service: RUNS,
            servers,
            prices: None,
            variants: None,
        };
        let routes = match &follower {
            Some(follower) => runs::route(upstream, follower.clone()),
            None => proxy::route(upstream),
        };
        services = services.add_routes(RUNS, routes.layer((timing::timed(), runs::named())));
    }
    let pages = Pages {
        router: routes.router.clone(),
        upstream_servers: upstream_servers.clone(),
        max_message_bytes: settings.max_message_bytes,
    };
    let backends = openai::Backends {
        router: routes.router.clone(),
        augmentation: upstream_servers.transform.clone(),
        augmented: routes.augmented.clone(),
        variants,
        max_message_bytes: settings.max_message_bytes,
    };
    let services = services
        .add(ProviderServiceServer::new(AuditedHandler::new(
            routes.registry.handler(),
            access.cloned(),
        )))
        .http(page::routes(pages).layer((timing::timed(), billing::charged())))
        .web(&settings.web.allowed_origins);
    let services = dialects::add(services, &backends);
    let services = openai::add(services, backends);
    let services = match access {
        None => services,
        Some(access) => {
            access.allow_pages(&settings.web.allowed_origins);
            services
                .add(AccessServiceServer::new(AccessServer::new(access.clone())))
                .authenticator(Arc::new(AccessAuthenticator(access.clone())))
        }
    };
    (services, follower)
}

/// Adds a generated server whose calls are charged.
pub(crate) fn add_charged<S>(services: Services, server: S) -> Services
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible> + NamedService,
    S: Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    let path = format!("/{}/{{*method}}", S::NAME);
    let server = server.map_request(|request: axum::extract::Request| request.map(Body::new));
    services.add_routes(
        S::NAME,
        axum::Router::new()
            .route_service(&path, server)
            .layer((timing::timed(), billing::charged())),
    )
}

fn upstreams<'a>(
    names: &'a [&'static str],
    servers: &'a Servers,
    prices: &'a Router,
) -> impl Iterator<Item = Upstream> + 'a {
    names.iter().map(|service| Upstream {
        service,
        servers: servers.clone(),
        prices: Some(prices.clone()),
        variants: None,
    })
}

/// Adapts `Access` to the server's authenticator.
#[derive(Debug)]
struct AccessAuthenticator(Access);

#[tonic::async_trait]
impl Authenticator for AccessAuthenticator {
    async fn admit(&self, parts: &mut Parts) -> Result<(), Fault> {
        self.0.admit(parts).await
    }

    fn account(&self, parts: &Parts) -> Option<String> {
        let caller = parts.extensions.get::<Caller>()?;
        caller.is_counted().then(|| caller.principal().to_owned())
    }

    fn challenge(&self, path: &str) -> Option<&'static str> {
        Some(Access::challenge(path))
    }
}
