//! The router.

use std::{sync::Arc, time::Duration};

use futures::FutureExt;
use isomer_adapters::{EncoderBackend, check::CheckOptions, metered};
use isomer_proto::{
    encoder::v1::{
        Capability, CountTokensRequest, CountTokensResponse, DetokenizeRequest, DetokenizeResponse, EncodeRequest,
        EncodeResponse, Encoder, RerankRequest, RerankResponse, TokenizeRequest, TokenizeResponse,
    },
    gateway::v1::Provider,
};
use isomer_service_kit::{Fault, metric_names, telemetry::unsampled};
use isomer_usage::Count;
use parking_lot::RwLock;
use tokio::{
    sync::{Mutex as AsyncMutex, watch},
    time::{Instant, timeout},
};
use tracing::Instrument;

use super::{
    PeerHealth, attempts,
    cache::Cache,
    config::RoutingConfig,
    content::{Content, Texts},
    health,
    memory::{Memory, ProviderFingerprints},
    metrics,
    outgoing_request::OutgoingRequest,
    policy::{Policy, SendOptions},
    replica::Replica,
    space::Fingerprint,
    table::{Member, Table},
};

/// Maximum wait for a provider's list of encoders.
const LISTING: Duration = Duration::from_secs(2);

pub(crate) type Connect = dyn Fn(&Provider) -> Result<Arc<dyn EncoderBackend>, Fault> + Send + Sync;

/// Sends requests for any encoder to a provider that offers it. Cheap to clone. Its watchers end
/// when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Router {
    pub(super) shared: Arc<Shared>,
}

/// Encoders from the configuration rather than the registry.
#[derive(Debug)]
pub struct ConfiguredEncoders {
    /// Name for display: `this process`, an address.
    pub name: String,
    /// The backend that serves them.
    pub backend: Arc<dyn EncoderBackend>,
    /// Whether the encoders run in another process. If so, they have health checks, and their
    /// answers are cached.
    pub remote: bool,
}

/// Vectors and their price.
#[derive(Debug)]
pub struct PricedVectors {
    /// The vectors.
    pub response: EncodeResponse,
    /// Cost of the tokens at the prices of the providers that were used, in billionths of a US
    /// dollar.
    pub cost_nano_usd: u64,
}

pub(super) struct Shared {
    pub(super) policy: Policy,
    pub(super) cache: Option<Cache>,
    table: RwLock<Arc<Table>>,
    /// Locked while the table is built, so that results for one list of providers never replace
    /// those for a later list. Holds the number of the last route.
    making: AsyncMutex<u64>,
    fixed: Vec<Member>,
    memory: Option<Arc<Memory>>,
    pub(super) connect: Box<Connect>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("policy", &self.policy)
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

impl Router {
    /// A router over the encoders in the configuration and the providers of a registry, whose
    /// changes it follows. Without a `memory`, fingerprints are forgotten when this process ends.
    pub(crate) async fn new(
        config: RoutingConfig,
        memory: Option<Arc<Memory>>,
        fixed: Vec<ConfiguredEncoders>,
        mut providers: watch::Receiver<Arc<[Provider]>>,
        connect: impl Fn(&Provider) -> Result<Arc<dyn EncoderBackend>, Fault> + Send + Sync + 'static,
    ) -> Self {
        metric_names::describe(metrics::ALL);
        let fixed = fixed
            .into_iter()
            .map(|ConfiguredEncoders { name, backend, remote }| Member {
                open: backend.is_open(),
                replica: Arc::new(Replica::new(name, backend, remote, config.breaker())),
                settings: None,
                encoders: Vec::new(),
            });
        let shared = Arc::new(Shared {
            cache: (config.cache_bytes > 0).then(|| Cache::new(config.cache_bytes)),
            table: RwLock::default(),
            making: AsyncMutex::new(0),
            fixed: fixed.collect(),
            memory,
            connect: Box::new(connect),
            policy: Policy::new(config),
        });
        let first = Arc::clone(&providers.borrow_and_update());
        // The router's own calls to providers belong to no trace.
        shared.take(&first).instrument(unsampled()).await;
        tokio::spawn(health::watch(Arc::downgrade(&shared)).instrument(unsampled()));
        let followed = Arc::downgrade(&shared);
        let following = async move {
            while providers.changed().await.is_ok() {
                let list = Arc::clone(&providers.borrow_and_update());
                let Some(shared) = followed.upgrade() else { return };
                shared.take(&list).await;
            }
        };
        tokio::spawn(following.instrument(unsampled()));
        Self { shared }
    }

    /// The encoders of every provider that answers, by id.
    pub async fn list(&self) -> Vec<Encoder> {
        let table = self.shared.table();
        let lists = futures::future::join_all(table.replicas.iter().map(|member| listed(&member.replica))).await;
        let mut encoders: Vec<Encoder> = lists.into_iter().flatten().collect();
        // The sort is stable: if two providers have the same id, this process or the first
        // registered wins.
        encoders.sort_by(|a, b| a.id.cmp(&b.id));
        encoders.dedup_by(|next, first| next.id == first.id);
        encoders
    }

    /// One encoder.
    ///
    /// # Errors
    /// Those of [`Router::encode`].
    pub async fn get(&self, encoder_id: &str, deadline: Option<Instant>) -> Result<Encoder, Fault> {
        let call = |replica: Arc<Replica>, ()| async move { replica.backend.get(encoder_id).await };
        self.ask(encoder_id, (), deadline, call).await
    }

    /// Tokens of texts.
    ///
    /// # Errors
    /// Those of [`Router::encode`].
    pub async fn count_tokens(
        &self,
        request: CountTokensRequest,
        deadline: Option<Instant>,
    ) -> Result<CountTokensResponse, Fault> {
        let id = request.encoder_id.clone();
        let call =
            |replica: Arc<Replica>, request| async move { replica.backend.count_tokens(request, deadline).await };
        self.ask(&id, request, deadline, call).await
    }

    /// Tokens of texts, each with its part of the text.
    ///
    /// # Errors
    /// Those of [`Router::encode`].
    pub async fn tokenize(
        &self,
        request: TokenizeRequest,
        deadline: Option<Instant>,
    ) -> Result<TokenizeResponse, Fault> {
        let id = request.encoder_id.clone();
        let call = |replica: Arc<Replica>, request| async move { replica.backend.tokenize(request, deadline).await };
        self.ask(&id, request, deadline, call).await
    }

    /// Texts of tokens.
    ///
    /// # Errors
    /// Those of [`Router::encode`].
    pub async fn detokenize(
        &self,
        request: DetokenizeRequest,
        deadline: Option<Instant>,
    ) -> Result<DetokenizeResponse, Fault> {
        let id = request.encoder_id.clone();
        let call = |replica: Arc<Replica>, request| async move { replica.backend.detokenize(request, deadline).await };
        self.ask(&id, request, deadline, call).await
    }

    /// Documents by relevance.
    ///
    /// # Errors
    /// Those of [`Router::encode`].
    pub async fn rerank(&self, request: RerankRequest, deadline: Option<Instant>) -> Result<RerankResponse, Fault> {
        let (id, count) = (request.encoder_id.clone(), &Count::of_part());
        let call = |replica: Arc<Replica>, request| async move {
            metered(&replica.charging(count), replica.backend.rerank(request, deadline)).await
        };
        let mut answer = self.ask(&id, request, deadline, call).await?;
        answer.usage.get_or_insert_default().cost_nano_usd = count.used().cost_nano_usd;
        Ok(answer)
    }

    async fn ask<R, T, F, Fut>(
        &self,
        encoder_id: &str,
        request: R,
        deadline: Option<Instant>,
        call: F,
    ) -> Result<T, Fault>
    where
        R: Clone + Texts + Send,
        F: Fn(Arc<Replica>, R) -> Fut,
        Fut: Future<Output = Result<T, Fault>>,
    {
        let route = self.shared.table().route(encoder_id)?;
        let replicas = route.usable().await?;
        self.shared.send(&replicas, request, deadline, call).await
    }

    /// The highest price among the providers of an encoder, in US dollars per million tokens.
    pub(crate) fn highest_price(&self, encoder_id: &str) -> f64 {
        let route = self.shared.table().route(encoder_id);
        let prices = route.iter().flat_map(|route| route.replicas());
        prices.fold(0.0, |highest, replica| replica.price_per_million_tokens.max(highest))
    }

    /// The configured encoder of requests that name none.
    pub(crate) fn default_encoder(&self, capability: Capability) -> Option<&str> {
        let config = &self.shared.policy.config;
        match capability {
            Capability::Rerank => config.default_reranker.as_deref(),
            _ => config.default_encoder.as_deref(),
        }
    }

    /// Maximum number of attempts per request.
    pub(crate) fn attempts(&self) -> u64 {
        let config = &self.shared.policy.config;
        let hedged = if config.hedge_after_ms.is_some() { 2 } else { 1 };
        u64::from(config.attempts).saturating_mul(hedged)
    }

    /// Each provider with its health and the encoders it offers, for display.
    pub(crate) fn provider_health(&self) -> Vec<(String, PeerHealth, Vec<String>)> {
        let now = Instant::now();
        let table = self.shared.table();
        let of = |member: &Member| {
            (
                member.replica.name().to_owned(),
                member.replica.peer.health(now),
                member.encoders.clone(),
            )
        };
        table.replicas.iter().map(of).collect()
    }

    /// Faults in the vector spaces of encoders: id and reason.
    pub(crate) fn refusals(&self) -> Vec<(String, String)> {
        let table = self.shared.table();
        table
            .routes
            .iter()
            .filter_map(|(id, route)| Some((id.clone(), route.refusal()?)))
            .collect()
    }
}

async fn listed(replica: &Replica) -> Vec<Encoder> {
    match timeout(LISTING, replica.backend.list()).await {
        Ok(Ok(list)) => {
            replica.learnt(list.clone());
            list
        }
        _ => replica.known(),
    }
}

impl Shared {
    pub(super) fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read())
    }

    /// Sends a request to one replica after another until one answers. These requests change
    /// nothing, so each may be retried.
    pub(super) async fn send<R, T, F, Fut>(
        &self,
        replicas: &[Arc<Replica>],
        request: R,
        deadline: Option<Instant>,
        call: F,
    ) -> Result<T, Fault>
    where
        R: Clone + Texts + Send,
        F: Fn(Arc<Replica>, R) -> Fut,
        Fut: Future<Output = Result<T, Fault>>,
    {
        let once = matches!(replicas, [replica] if replica.peer.is_here());
        let encoder = request.encoder().map(ToOwned::to_owned);
        let outgoing = &OutgoingRequest::new(request, once);
        let order = SendOptions {
            kind: "provider",
            hint: "`isomer providers list` shows the state of each; start it, or correct its address",
            replicas,
            deadline,
            again: &|| true,
            content: Content {
                field: R::FIELD,
                texts: &|| outgoing.texts(),
            },
            vouch: &|replica| {
                let encoder = encoder.clone();
                let works = async move { Fingerprint::take(&replica, &encoder?).await.ok() };
                works.map(|taken| taken.is_some()).boxed()
            },
        };
        let call = &call;
        let attempt = |replica: Arc<Replica>| async move { call(replica, outgoing.take()?).await };
        Ok(attempts::send(&self.policy, order, attempt).await?.0)
    }

    /// Applies the registry's list. An unchanged provider keeps its connection and its state.
    async fn take(&self, providers: &[Provider]) {
        let mut generation = self.making.lock().await;
        let before = self.table();
        let mut members = self.fixed.clone();
        for provider in providers {
            let settings = settings(provider);
            let kept = before
                .replicas
                .iter()
                .find(|member| member.settings.as_ref() == Some(&settings));
            members.push(kept.cloned().unwrap_or_else(|| self.member(settings)));
        }
        if let Some(memory) = &self.memory {
            for gone in before.replicas.iter().filter_map(|member| member.settings.as_ref()) {
                if providers.iter().all(|provider| provider.id != gone.id) {
                    memory.forget(&gone.id).await;
                }
            }
        }
        self.install(members, &mut generation).await;
    }

    fn member(&self, provider: Provider) -> Member {
        let backend = (self.connect)(&provider).unwrap_or_else(|fault| {
            tracing::error!(provider = provider.id, %fault, "provider cannot be used");
            Arc::new(UnusableProvider(fault))
        });
        let mut encoders: Vec<String> = provider.encoders.keys().cloned().collect();
        encoders.sort();
        Member {
            open: backend.is_open(),
            replica: Arc::new(self.replica(&provider, backend)),
            encoders,
            settings: Some(provider),
        }
    }

    /// A registered provider with its backend.
    pub(super) fn replica(&self, provider: &Provider, backend: Arc<dyn EncoderBackend>) -> Replica {
        let mut replica = Replica::new(provider.id.clone(), backend, true, self.policy.config.breaker());
        replica.check = CheckOptions::of(provider);
        replica.fingerprints = self
            .memory
            .clone()
            .map(|memory| ProviderFingerprints::new(memory, provider));
        replica.price_per_million_tokens = provider.price_per_million_tokens;
        replica
    }

    /// Reads the lists of open providers again.
    pub(super) async fn look_at_listings(&self) {
        let mut generation = self.making.lock().await;
        let members = self.table().replicas.clone();
        self.install(members, &mut generation).await;
    }

    async fn install(&self, mut members: Vec<Member>, generation: &mut u64) {
        let open = members.iter_mut().filter(|member| member.open);
        let looks = open.map(|member| async {
            let ids = listed(&member.replica).await.into_iter().map(|encoder| encoder.id);
            member.encoders = ids.collect();
        });
        futures::future::join_all(looks).await;
        let mut table = self.table.write();
        *table = Arc::new(Table::new(members, &table, generation));
    }
}

/// A provider without the fields that the registry writes: its creation time, the end of its lease,
/// its state.
pub(super) fn settings(provider: &Provider) -> Provider {
    Provider {
        create_time: None,
        update_time: None,
        expire_time: None,
        source: 0,
        state: 0,
        state_detail: String::new(),
        ..provider.clone()
    }
}

/// Stands for a provider whose record does not allow a connection: every call fails with the
/// reason.
#[derive(Debug)]
struct UnusableProvider(Fault);

#[tonic::async_trait]
impl EncoderBackend for UnusableProvider {
    async fn list(&self) -> Result<Vec<Encoder>, Fault> {
        Err(self.0.clone())
    }

    async fn get(&self, _: &str) -> Result<Encoder, Fault> {
        Err(self.0.clone())
    }

    async fn encode(&self, _: EncodeRequest, _: Option<Instant>) -> Result<EncodeResponse, Fault> {
        Err(self.0.clone())
    }

    async fn count_tokens(&self, _: CountTokensRequest, _: Option<Instant>) -> Result<CountTokensResponse, Fault> {
        Err(self.0.clone())
    }

    async fn tokenize(&self, _: TokenizeRequest, _: Option<Instant>) -> Result<TokenizeResponse, Fault> {
        Err(self.0.clone())
    }

    async fn detokenize(&self, _: DetokenizeRequest, _: Option<Instant>) -> Result<DetokenizeResponse, Fault> {
        Err(self.0.clone())
    }

    async fn rerank(&self, _: RerankRequest, _: Option<Instant>) -> Result<RerankResponse, Fault> {
        Err(self.0.clone())
    }

    async fn healthy(&self) -> Result<(), Fault> {
        Err(self.0.clone())
    }
}
