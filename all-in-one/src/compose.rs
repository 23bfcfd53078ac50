//! Builds the services and connects them over in-memory channels, with the gateway in front.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use isomer_access::Access;
use isomer_adapters::InProcessBackend;
use isomer_blobs::BlobStore;
use isomer_database::Database;
use isomer_embed::{EmbedError, EmbedService, SharedVectors, engine::LostDevice};
use isomer_eval::{
    EvalClients, EvalService, Ledger, Shared,
    locate::{DatasetLocator, HubAccess},
};
use isomer_gateway::{
    MissingVariantsConfig,
    front::{self, Follower, Settings, UpstreamServers},
    proxy::Servers,
    routing::ConfiguredEncoders,
};
use isomer_models::Resolver;
use isomer_outbound::shared_limits::SharedLimits;
use isomer_proto::encoder::v1::{GetEncoderRequest, encoder_service_client::EncoderServiceClient};
use isomer_retention::Holds;
use isomer_service_kit::{Fault, GrpcChannel, LimitsConfig, Services, config::ConfigError, memory};
use isomer_transform::{TransformService, cache::SharedCache};

use crate::config::IsomerConfig;
#[cfg(feature = "fleet")]
use crate::fleet::{self, BulkEncoder};

/// This process's name among providers.
const HERE: &str = "this process";
/// Maximum wait for the last charges of interrupted runs; missing charges are made after the next
/// start.
const SETTLING: Duration = Duration::from_secs(2);

/// All services of one process. They stop when this and every channel to them is dropped.
#[derive(Clone, Debug)]
pub struct App {
    resolver: Resolver,
    #[cfg(feature = "fleet")]
    clients: EvalClients,
    eval: EvalService,
    front: Services,
    channel: GrpcChannel,
    access: Option<Access>,
    follower: Option<Follower>,
    vectors: Option<SharedVectors>,
    lost: LostDevice,
    #[cfg(feature = "fleet")]
    bulk: Option<BulkEncoder>,
}

/// The callers that may name folders, generators and data files of this machine in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// The owner of this process (the command line), which may name anything that this user can
    /// read.
    Owner,
    /// All callers of the port, which may name what the configuration allows.
    Anyone,
}

/// Builds the services and the gateway in front. Loads only the models that the configuration warms
/// up.
pub async fn compose(config: IsomerConfig, caller: Caller) -> Result<App, Fault> {
    compose_within(config, caller, None).await
}

/// Like [`compose`]; `shared_limits` are those of the fleet that this process works for, if it
/// queues no work itself.
pub(crate) async fn compose_within(
    mut config: IsomerConfig,
    caller: Caller,
    shared_limits: Option<Arc<dyn SharedLimits>>,
) -> Result<App, Fault> {
    if caller == Caller::Owner {
        config.embed.allow_paths = true;
        config.models.download_on_request = true;
        config.transform.allow_specs = true;
        config.transform.by_owner = true;
        // Folders named in the configuration are still searched for data sets by name.
        config.eval.dataset_dirs.append(&mut config.eval.data_roots);
        config.eval.data_roots = vec![PathBuf::from("/")];
        config.eval.hub = HubAccess::Any;
    }
    config
        .transform
        .addresses
        .allow
        .extend(config.addresses.allow.iter().cloned());
    let home = config.models.home.clone();
    config.eval.home.clone_from(&home);
    let resolver = Resolver::new(config.models).map_err(EmbedError::from)?;
    // Inside the process a service queues its own requests; the limit on requests applies at the
    // port in front.
    let limits = LimitsConfig {
        max_concurrent_requests: usize::MAX >> 4,
        ..config.server.limits
    };

    let settings = Settings {
        providers: config.providers,
        addresses: config.addresses,
        routing: config.routing,
        web: config.web,
        // A process that ends with its command serves no next request.
        missing_variants: match caller {
            Caller::Anyone => config.missing_variants,
            _ => MissingVariantsConfig::none(),
        },
        augmented_models: config.augmented_models,
        max_message_bytes: limits.max_inner_message_bytes(),
    };
    let address = config.database.address(&home);
    // A command that only uses registered encoders does not create records of its own.
    let wanted = caller == Caller::Anyone || !config.database.url.is_empty() || Path::new(&address).exists();
    let database = if wanted {
        Some(Database::open(&address).await?)
    } else {
        None
    };
    let access = match (caller, &database) {
        (Caller::Anyone, Some(database)) => Some(Access::open(config.access.at_home(&home), database.clone()).await?),
        _ => None,
    };

    // The class of this machine's arithmetic depends on this limit.
    config.embed.limit_instructions()?;
    let (blobs, class) = (BlobStore::open(&config.store)?, config.embed.class());
    let vectors = blobs.clone().map(|blobs| SharedVectors::new(blobs, &class));
    let max_request_bytes = config.embed.max_message_bytes;
    let embed = EmbedService::with_shared(config.embed, resolver, vectors.clone())?;
    let resolver = embed.resolver().clone();
    embed.warm_up().await?;
    let lost = embed.lost_device();
    let here = ConfiguredEncoders {
        name: HERE.to_owned(),
        backend: Arc::new(InProcessBackend::new(embed, &limits, max_request_bytes)),
        remote: false,
    };
    let routes = front::open_routes(&settings, database, vec![here]).await?;
    // The other services use encoders through the gateway, as clients do, so that encoders of other
    // providers are available too.
    let encoders = Services::new().add(front::encoders(&routes.router, limits.max_inner_message_bytes()));
    let encoder = memory::channel(encoders, &limits).await?;
    let store = blobs.map(Holds::new);
    let shared = store.clone().map(|store| SharedCache::new(store, &class));
    #[cfg(feature = "fleet")]
    let fleet::Connection {
        workers,
        bulk,
        limits: shared_limits,
    } = fleet::connect(&config.fleet, store.as_ref(), &class, shared_limits).await?;
    let transform = TransformService::with_shared(config.transform, resolver.clone(), shared, shared_limits)?;
    let transform = transform.with_encoder(encoder.clone());
    let transform = memory::channel(isomer_transform::services(transform), &limits).await?;
    let clients = EvalClients {
        encoder,
        transform: transform.clone(),
    };
    // The runs of a command are not shared, because they may read files that no server may read.
    let ledger = match caller {
        Caller::Anyone if config.eval.ledger.is_set() => Some(Ledger::open(&config.eval.ledger).await?),
        _ => None,
    };
    let shared = Shared {
        store,
        #[cfg(feature = "fleet")]
        workers,
        class,
        ledger,
    };
    let eval = EvalService::with_shared(config.eval, clients.clone(), Some(resolver.clone()), shared)?;
    let scores = memory::channel(isomer_eval::services(eval.clone()), &limits).await?;

    let here = |channel| Some(Servers::here(&settings.routing, HERE, channel));
    let upstream_servers = UpstreamServers {
        transform: here(transform),
        eval: here(scores),
        shared_runs: false,
    };
    let (front, follower) = front::services(&settings, &routes, &upstream_servers, access.as_ref());
    let channel = memory::channel(front.clone(), &limits).await?;
    Ok(App {
        resolver,
        #[cfg(feature = "fleet")]
        clients,
        eval,
        front,
        channel,
        access,
        follower,
        vectors,
        lost,
        #[cfg(feature = "fleet")]
        bulk,
    })
}

impl App {
    /// The channel for clients in this process.
    pub fn channel(&self) -> GrpcChannel {
        self.channel.clone()
    }

    /// The services to serve on a port.
    pub fn front(&self) -> Services {
        self.front.clone()
    }

    /// Determines the access mode for the address that will be served. Refuses an address that
    /// other machines can reach if callers could not be distinguished.
    ///
    /// # Errors
    /// The message names `access.mode` and explains how to create the first key.
    pub async fn check_listen(&self, listen: SocketAddr) -> Result<(), ConfigError> {
        match &self.access {
            Some(access) => access.check_listen(listen).await,
            None => Ok(()),
        }
    }

    /// Writes the counted usage of callers, including that of runs that were just interrupted. Call
    /// it when the port has drained.
    ///
    /// # Errors
    /// When the records cannot be written.
    pub async fn flush(&self) -> Result<(), Fault> {
        self.flush_vectors().await;
        if let Some(follower) = &self.follower {
            follower.settled(SETTLING).await;
        }
        match &self.access {
            Some(access) => {
                access.release_deferred_charges().await?;
                access.flush().await
            }
            None => Ok(()),
        }
    }

    /// Has the workers of the fleet encode texts; `None` without a fleet.
    #[cfg(feature = "fleet")]
    pub fn bulk_encoder(&self) -> Option<&BulkEncoder> {
        self.bulk.as_ref()
    }

    /// Writes the vectors to be shared with other machines. Call it before the process ends.
    pub async fn flush_vectors(&self) {
        if let Some(vectors) = &self.vectors {
            vectors.flush().await;
        }
    }

    /// The services that workers call: encoders and the transform service.
    #[cfg(feature = "fleet")]
    pub(crate) fn clients(&self) -> EvalClients {
        self.clients.clone()
    }

    /// Finds data sets.
    pub fn locator(&self) -> &DatasetLocator {
        self.eval.locator()
    }

    /// Finds model files.
    pub fn resolver(&self) -> Resolver {
        self.resolver.clone()
    }

    /// Loads an encoder before its first request.
    pub async fn warm_up(&self, encoder_id: &str) -> Result<(), Fault> {
        let request = GetEncoderRequest {
            id: encoder_id.to_owned(),
        };
        EncoderServiceClient::new(self.channel())
            .get_encoder(request)
            .await
            .map_err(|s| Fault::from_status(&s))?;
        Ok(())
    }

    /// Waits for a signal to stop, or until a device is lost: the process must then end.
    pub async fn stopped_by(&self, shutdown: impl Future<Output = ()>) {
        self.lost.or(shutdown).await;
    }

    /// # Errors
    /// If a device is lost.
    pub fn check_devices(&self) -> Result<(), Fault> {
        Ok(self.lost.check()?)
    }

    /// Ends active runs, so that their watchers are notified. Completed work is kept.
    pub async fn interrupt_runs(&self) {
        self.eval.runs().interrupt().await;
    }
}
