//! The registry: one view of stored, leased and declared providers, and the only way to change it.

mod changes;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use isomer_database::Database;
use isomer_proto::{
    ProtoEnum,
    gateway::v1::{CheckProviderResponse, Provider, ProviderSource, provider_service_server::ProviderServiceServer},
};
use isomer_service_kit::{Fault, config::Validate, metric_names::describe};
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::{Notify, watch},
    task::AbortHandle,
};

use crate::{
    config::ProvidersConfig,
    declared, keeper, metric_names,
    screening::Screening,
    service::ProviderHandler,
    state::{State, same, settings},
    store::Store,
    time::{Micros, now, until},
    validate::{self, Author},
};

/// Maximum sleep until the end of a lease in a gateway without a database, in case the clock is
/// changed meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// The providers of a gateway. Cheap to clone; its tasks end when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Registry {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    config: ProvidersConfig,
    store: Store,
    /// Whether stored providers survive the process.
    durable: bool,
    screening: OnceLock<Arc<dyn Screening>>,
    state: Mutex<State>,
    live: watch::Sender<Arc<[Provider]>>,
    /// Locked while a provider is checked and stored. So if two providers contradict each other,
    /// the check of the second sees the first.
    changing: tokio::sync::Mutex<()>,
    /// Locked while rows are read, so that an older read never replaces a newer one.
    reading: tokio::sync::Mutex<()>,
    /// Notified when a lease may end sooner than the keeper expects.
    pub(crate) leases: Arc<Notify>,
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let tasks = self.tasks.get_mut();
        tasks.drain(..).for_each(|task| task.abort());
    }
}

impl Registry {
    /// Reads the database and the file, and watches both. Without a database only providers with a
    /// lease can be registered, and they are forgotten when the process ends. Must be called inside
    /// a Tokio runtime.
    ///
    /// # Errors
    /// If the configuration, the database or the file cannot be used; the field is `providers.…`.
    pub async fn open(config: ProvidersConfig, database: Option<Database>) -> Result<Self, Fault> {
        config.validate().map_err(|error| error.within("providers"))?;
        describe(metric_names::ALL);
        let durable = database.is_some();
        let database = match database {
            Some(database) => database,
            None => Database::open("sqlite::memory:").await?,
        };
        let store = Store::open(database).await?;
        let mut state = State::default();
        let mut watched = None;
        if let Some(path) = &config.file {
            let (file, declared) = declared::WatchedFile::open(path, &config).await?;
            state.declared = declared;
            watched = Some(file);
        }
        let (live, _) = watch::channel(Arc::from([]));
        let inner = Arc::new(Inner {
            config,
            store,
            durable,
            screening: OnceLock::new(),
            state: Mutex::new(state),
            live,
            changing: tokio::sync::Mutex::default(),
            reading: tokio::sync::Mutex::default(),
            leases: Arc::default(),
            tasks: Mutex::default(),
        });
        inner.store.sweep(now()).await?;
        inner.reload().await?;
        let mut tasks = vec![tokio::spawn(keeper::keep(Arc::downgrade(&inner))).abort_handle()];
        if let Some(watched) = watched {
            tasks.push(tokio::spawn(watched.follow(Arc::downgrade(&inner))).abort_handle());
        }
        *inner.tasks.lock() = tasks;
        Ok(Self { inner })
    }

    /// Sets the screening, which admits and probes providers. Before that, changes are answered
    /// `UNAVAILABLE`. Only the first call has an effect. The screening must not hold a `Registry`
    /// itself, or neither is ever dropped; it may hold a receiver of [`Registry::watch`].
    pub fn screen_with(&self, screening: Arc<dyn Screening>) {
        if self.inner.screening.set(screening).is_err() {
            tracing::warn!("the registry has a screening already");
        }
    }

    /// Live providers in order of id, updated on every change. A renewed lease is not a change, so
    /// `expire_time` may be out of date. A provider's settings are unchanged as long as its id and
    /// etag are. States are not filled in.
    pub fn watch(&self) -> watch::Receiver<Arc<[Provider]>> {
        self.inner.live.subscribe()
    }

    /// The gRPC service, for `Services::add`.
    pub fn service(&self) -> ProviderServiceServer<ProviderHandler> {
        ProviderServiceServer::new(self.handler())
    }

    /// The handler of the rpcs, for callers that wrap it.
    pub fn handler(&self) -> ProviderHandler {
        ProviderHandler::new(self.clone())
    }

    /// Why the current content of the providers file is not in use; `None` if it is, or without a
    /// file.
    pub fn file_error(&self) -> Option<Fault> {
        self.inner.state().file_error.clone()
    }

    /// Live providers in order of id, with their states. First checks for changes of other
    /// gateways.
    pub async fn list(&self) -> Result<Vec<Provider>, Fault> {
        self.inner.refresh().await?;
        let live = self.inner.state().live(now());
        Ok(live.into_iter().map(|provider| self.with_status(provider)).collect())
    }

    /// One live provider.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn get(&self, id: &str) -> Result<Provider, Fault> {
        let found = self.list().await?.into_iter().find(|provider| provider.id == id);
        found.ok_or_else(|| unknown(id))
    }

    /// Probes a provider, registered or not.
    pub(crate) async fn check(&self, candidate: &Provider) -> Result<CheckProviderResponse, Fault> {
        self.inner.screening()?.check(candidate).await
    }

    /// A candidate for a check: its id may be absent.
    pub(crate) fn candidate(&self, candidate: &Provider) -> Result<Provider, Fault> {
        let mut candidate = settings(candidate);
        if candidate.id.is_empty() {
            "candidate".clone_into(&mut candidate.id);
        }
        validate::provider(&candidate, Author::Caller, &self.inner.config).map_err(|mut fault| {
            fault.field = fault.field.map(|field| field.replacen("provider", "candidate", 1));
            fault
        })?;
        Ok(candidate)
    }

    fn with_status(&self, mut provider: Provider) -> Provider {
        if let Some(screening) = self.inner.screening.get() {
            let status = screening.status(&provider.id);
            provider.set_state(status.state);
            provider.state_detail = status.detail;
        }
        provider
    }
}

impl Inner {
    pub(crate) fn config(&self) -> &ProvidersConfig {
        &self.config
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Notifies the watchers of the live providers.
    pub(crate) fn publish(&self) {
        let state = self.state();
        let live: Arc<[Provider]> = state.live(now()).into();
        for source in ProviderSource::all() {
            let number = live.iter().filter(|provider| provider.source() == source).count();
            metrics::gauge!(metric_names::PROVIDERS, "source" => source.name()).set(number as f64);
        }
        // The state is still locked, so that an older list cannot follow a newer one.
        self.live.send_if_modified(|told| {
            let news = !same(told, &live);
            *told = live;
            news
        });
    }

    /// Reads all rows.
    pub(crate) async fn reload(&self) -> Result<(), Fault> {
        let _one = self.reading.lock().await;
        // The counter is read first. Changes during the read cause another read, and are never
        // missed.
        let changes = self.store.changes().await?;
        let stored = self.store.all().await?;
        {
            let mut state = self.state();
            state.changes = changes;
            state.stored = stored;
        }
        self.publish();
        Ok(())
    }

    /// Reads all rows if any process changed one.
    pub(crate) async fn refresh(&self) -> Result<(), Fault> {
        let changes = self.store.changes().await?;
        let known = self.state().changes;
        if changes == known {
            return Ok(());
        }
        self.reload().await
    }

    /// Removes expired leases, and checks for changes of other processes.
    pub(crate) async fn look(&self) -> Result<(), Fault> {
        if self.state().is_due(now()) {
            // The rows decide, because another process may have renewed the lease.
            let swept = self.store.sweep(now()).await?;
            metrics::counter!(metric_names::LEASES_EXPIRED).increment(swept);
            if swept > 0 {
                tracing::info!(providers = swept, "leases expired");
            }
            return self.reload().await;
        }
        self.refresh().await
    }

    /// The time until the next expected end of a lease.
    pub(crate) fn quiet(&self) -> Duration {
        let longest = match self.durable {
            true => Duration::from_secs(self.config.poll_seconds),
            false => LONGEST_SLEEP,
        };
        let now = now();
        let expiry = self.state().next_expiry(now);
        expiry.map_or(longest, |expires| until(expires, now).min(longest))
    }

    fn renewed(&self, id: &str, expires: Micros) {
        let mut state = self.state();
        if let Some(record) = state.stored.iter_mut().find(|record| record.settings.id == id) {
            record.expires = record.expires.max(expires);
        }
        drop(state);
        self.publish();
    }
}

fn unknown(id: &str) -> Fault {
    Fault::not_found("UNKNOWN_PROVIDER", format!("there is no provider `{id}`")).with("provider", id)
}
