//! A registry, its service, and a gateway that judges providers by their address.

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use isomer_database::Database;
use isomer_proto::gateway::v1::{
    CheckProviderResponse, CreateProviderRequest, Provider, ProviderKind, ProviderState, RenewLeaseRequest,
    UpdateProviderRequest, provider_service_client::ProviderServiceClient,
};
use isomer_registry::{ProviderStatus, ProvidersConfig, Registry, Screening};
use isomer_service_kit::{Fault, GrpcChannel, LimitsConfig, Services, memory};
use prost_types::FieldMask;
use tokio::sync::Semaphore;
use tonic::Status;

pub(crate) type Client = ProviderServiceClient<GrpcChannel>;

/// Refuses addresses with `impostor`, holds those with `slow` until they are released, and counts
/// its calls.
#[derive(Debug)]
pub(crate) struct Gatekeeper {
    pub(crate) asked: AtomicUsize,
    /// Candidates that are being checked.
    pub(crate) looking: AtomicUsize,
    /// Maximum number of candidates that were checked at the same time.
    pub(crate) at_once: AtomicUsize,
    /// A permit for each slow candidate that may be admitted.
    pub(crate) released: Semaphore,
}

#[tonic::async_trait]
impl Screening for Gatekeeper {
    async fn admit(&self, candidate: &Provider) -> Result<(), Fault> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let looking = self.looking.fetch_add(1, Ordering::SeqCst) + 1;
        self.at_once.fetch_max(looking, Ordering::SeqCst);
        if candidate.address.contains("slow") {
            self.released.acquire().await.unwrap().forget();
        }
        self.looking.fetch_sub(1, Ordering::SeqCst);
        if candidate.address.contains("impostor") {
            return Err(
                Fault::precondition("OTHER_SPACE", "`minilm` has other weights here").field("provider.encoders")
            );
        }
        Ok(())
    }

    async fn check(&self, candidate: &Provider) -> Result<CheckProviderResponse, Fault> {
        Ok(CheckProviderResponse {
            usable: true,
            verdict: format!("{} at {} is well", candidate.id, candidate.address),
            ..CheckProviderResponse::default()
        })
    }

    fn status(&self, id: &str) -> ProviderStatus {
        ProviderStatus {
            state: ProviderState::Serving,
            detail: format!("{id} answers"),
        }
    }
}

/// Permits the secrets that the tests name; by default no secret is permitted.
pub(crate) fn lending() -> ProvidersConfig {
    ProvidersConfig {
        secret_environment: vec!["*_API_KEY".to_owned(), "*_TOKEN".to_owned()],
        ..ProvidersConfig::default()
    }
}

/// A gateway's registry and a client of it.
pub(crate) struct Gateway {
    pub(crate) registry: Registry,
    pub(crate) client: Client,
    pub(crate) gatekeeper: Arc<Gatekeeper>,
}

impl Gateway {
    pub(crate) async fn open(config: ProvidersConfig, database: Option<Database>) -> Self {
        let registry = Registry::open(config, database).await.unwrap();
        let gatekeeper = Arc::new(Gatekeeper {
            asked: AtomicUsize::new(0),
            looking: AtomicUsize::new(0),
            at_once: AtomicUsize::new(0),
            released: Semaphore::new(0),
        });
        registry.screen_with(gatekeeper.clone());
        let services = Services::new().add(registry.service());
        let channel = memory::channel(services, &LimitsConfig::default()).await.unwrap();
        Self {
            registry,
            client: Client::new(channel),
            gatekeeper,
        }
    }

    /// With a database in memory that is treated as persistent.
    pub(crate) async fn in_memory() -> Self {
        let database = Database::open("sqlite::memory:").await.unwrap();
        Self::open(lending(), Some(database)).await
    }

    pub(crate) async fn on(database: &Path) -> Self {
        let database = Database::open(database.to_str().unwrap()).await.unwrap();
        let config = ProvidersConfig {
            poll_seconds: 1,
            ..lending()
        };
        Self::open(config, Some(database)).await
    }

    pub(crate) async fn create(&self, provider: Provider) -> Result<Provider, Fault> {
        let request = CreateProviderRequest {
            provider: Some(provider),
        };
        let answer = self.client.clone().create_provider(request).await;
        answer
            .map(|answer| answer.into_inner().provider.unwrap())
            .map_err(fault)
    }

    pub(crate) async fn update(&self, provider: Provider, paths: &[&str]) -> Result<Provider, Fault> {
        let update_mask = (!paths.is_empty()).then(|| FieldMask {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        });
        let request = UpdateProviderRequest {
            provider: Some(provider),
            update_mask,
            allow_missing: false,
        };
        let answer = self.client.clone().update_provider(request).await;
        answer
            .map(|answer| answer.into_inner().provider.unwrap())
            .map_err(fault)
    }

    /// Ids of the providers that watchers of the registry see.
    pub(crate) fn watched(&self) -> Vec<String> {
        self.registry
            .watch()
            .borrow()
            .iter()
            .map(|provider| provider.id.clone())
            .collect()
    }
}

pub(crate) fn fault(status: Status) -> Fault {
    Fault::from_status(&status)
}

pub(crate) fn provider(id: &str) -> Provider {
    Provider {
        id: id.to_owned(),
        kind: ProviderKind::Openai.into(),
        address: "http://10.0.0.1:8000/v1".to_owned(),
        encoders: HashMap::from([("minilm".to_owned(), "all-MiniLM-L6-v2".to_owned())]),
        ..Provider::default()
    }
}

/// A provider whose lease ends after `milliseconds` unless it is renewed.
pub(crate) fn leased(id: &str, milliseconds: i64) -> Provider {
    Provider {
        lease: Some(prost_types::Duration {
            seconds: milliseconds / 1000,
            nanos: i32::try_from(milliseconds % 1000 * 1_000_000).unwrap(),
        }),
        ..provider(id)
    }
}

/// Renews a lease of five seconds often, until it has lasted for longer than without a renewal. The
/// ends of the lease that the registry has given.
pub(crate) async fn renew_beyond_its_end(client: &Client, id: &str) -> Vec<prost_types::Timestamp> {
    let begun = Instant::now();
    let mut ends = Vec::new();
    while begun.elapsed() < Duration::from_secs(6) {
        let request = RenewLeaseRequest { id: id.to_owned() };
        let renewed = client.clone().renew_lease(request).await.unwrap();
        ends.push(renewed.into_inner().expire_time.unwrap());
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    ends
}
