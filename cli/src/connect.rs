//! The connection to the services: a running gateway (`--server`), or all of them in this process.

use std::path::Path;

#[cfg(feature = "fleet")]
use isomer_all_in_one::BulkEncoder;
use isomer_all_in_one::{App, Caller, IsomerConfig};
use isomer_client::{Channel, Client, Tls, reasons};
use isomer_eval::{EvalError, locate::DatasetRequest};
use isomer_models::{ModelError, ModelKind, Resolver};
use isomer_proto::encoder::v1::{GetEncoderRequest, encoder_service_client::EncoderServiceClient};
use isomer_service_kit::{
    client::{ClientConfig, ClientTls},
    config::{self, Validate},
};
use serde_json::json;

use crate::{
    args::{Command, EngineArgs, FleetArgs, Global},
    exit::Failure,
    progress::Display,
};

/// Maximum size of a message that a client accepts: a matrix of vectors, or a report.
pub(crate) use isomer_service_kit::limits::INNER_MESSAGE as MAX_MESSAGE_BYTES;

/// A connection; in-process services live as long as it does.
pub(crate) struct Connection {
    /// The gateway.
    pub(crate) channel: Channel,
    /// Finds model files; absent if the services run elsewhere.
    pub(crate) resolver: Option<Resolver>,
    /// The configuration of the services in this process.
    pub(crate) config: IsomerConfig,
    app: Option<App>,
}

impl Connection {
    /// Whether the services run elsewhere.
    pub(crate) fn is_remote(&self) -> bool {
        self.resolver.is_none()
    }

    /// Makes the services in this process write entries that other machines should find, and
    /// removes abandoned units from the queue of the workers. Call it before the process ends.
    pub(crate) async fn flush(&self) {
        if let Some(app) = &self.app {
            app.flush_vectors().await;
        }
        #[cfg(feature = "fleet")]
        if let Some(bulk) = self.bulk_encoder() {
            bulk.wait_for_cancellations().await;
        }
    }

    /// Has the workers of the fleet encode texts; `None` without a fleet.
    #[cfg(feature = "fleet")]
    pub(crate) fn bulk_encoder(&self) -> Option<&BulkEncoder> {
        self.app.as_ref().and_then(App::bulk_encoder)
    }

    /// Fetches a model into the local cache in advance, showing progress. With `--server`, the
    /// server fetches it.
    pub(crate) async fn prefetch(&self, id: &str, kind: ModelKind, display: &Display) -> Result<(), Failure> {
        let Some(resolver) = &self.resolver else {
            return Ok(());
        };
        match resolver.resolve(id, kind, display).await {
            Ok(_) => Ok(()),
            Err(ModelError::UnknownModel { .. }) if kind == ModelKind::Encoder && self.offers(id).await => Ok(()),
            Err(error) => Err(isomer_service_kit::Fault::from(error).into()),
        }
    }

    /// Whether an encoder outside the catalogue of models has this id: one of `embed.encoders`, or
    /// a provider's.
    async fn offers(&self, id: &str) -> bool {
        let request = GetEncoderRequest { id: id.to_owned() };
        let mut client = EncoderServiceClient::new(self.channel.clone());
        client.get_encoder(request).await.is_ok()
    }

    /// Fetches a data set into the hub's cache in advance, showing progress. With `--server`, the
    /// server fetches it.
    pub(crate) async fn prefetch_dataset(&self, wanted: DatasetRequest, display: &Display) -> Result<(), Failure> {
        if let Some(app) = &self.app {
            let located = app.locator().locate_with(wanted, display).await;
            located.map_err(|error| isomer_service_kit::Fault::from(EvalError::from(error)))?;
        }
        Ok(())
    }
}

/// The flags and the configuration of a command. The configuration is read once, because its file
/// may be a pipe.
pub(crate) struct Session {
    /// The flags that every command has.
    pub(crate) global: Global,
    /// Default ← file ← environment ← flags.
    pub(crate) config: IsomerConfig,
    engine: EngineArgs,
    fleet: FleetArgs,
}

impl Session {
    /// Reads the configuration of a command, and the names that the command gives to folders.
    pub(crate) fn new(global: Global, command: &mut Command) -> Result<Self, Failure> {
        let (engine, fleet) = (command.engine(), command.fleet());
        let mut config = configuration(&global, &engine, &fleet)?;
        command.name_encoders(&mut config, global.server.is_some())?;
        Ok(Self {
            config,
            global,
            engine,
            fleet,
        })
    }

    /// Finds model files on this machine, also those of named folders.
    pub(crate) fn resolver(&self) -> Result<Resolver, Failure> {
        let resolver = Resolver::new(self.config.models.clone()).map_err(isomer_service_kit::Fault::from)?;
        Ok(resolver.with_names(self.config.embed.encoders.clone()))
    }

    /// Connects to `--server`, or builds the services in this process.
    pub(crate) async fn connect(&self) -> Result<Connection, Failure> {
        self.connect_as(self.config.clone()).await
    }

    /// [`Session::connect`] for a command that generates texts. Prompts from the given folder
    /// replace the built-in ones.
    pub(crate) async fn connect_with_prompts(&self, prompts: Option<&Path>) -> Result<Connection, Failure> {
        let mut config = self.config.clone();
        if let Some(folder) = prompts {
            if self.global.server.is_some() {
                return Err(Failure::usage(
                    "--prompts: the server at --server has the prompts of its own configuration (transform.prompts_dir); leave \
                     --prompts out",
                ));
            }
            config.transform.prompts_dir = Some(folder.to_owned());
        }
        self.connect_as(config).await
    }

    /// [`Session::connect`] for a process that loads one encoder after another, each with at most
    /// `most_bytes` bytes of files. If the configuration sets no bound on models in memory, there
    /// is space for two, whose files may have 16 bits per value.
    #[cfg(feature = "registry")]
    pub(crate) async fn connect_to_registry(&self, most_bytes: u64) -> Result<Connection, Failure> {
        let mut config = self.config.clone();
        if config.embed.max_model_bytes == 0 {
            config.embed.max_model_bytes = most_bytes.saturating_mul(4);
        }
        self.connect_as(config).await
    }

    async fn connect_as(&self, config: IsomerConfig) -> Result<Connection, Failure> {
        match &self.global.server {
            Some(_) if self.fleet.engine.is_some() || self.fleet.store.is_some() => Err(Failure::usage(
                "--engine, --store: the server at --server has the queue and the store of its own configuration (fleet.engine, \
                 store.url); leave them out",
            )),
            Some(_) if self.engine.precision.is_some() => Err(Failure::usage(
                "--precision: the server at --server computes in the precision of its own configuration (embed.precision); \
                 leave --precision out",
            )),
            Some(_) if self.engine.device.is_some() => Err(Failure::usage(
                "--device: the server at --server computes on the device of its own configuration (embed.device); leave \
                 --device out",
            )),
            Some(_) if self.engine.backend.is_some() => Err(Failure::usage(
                "--backend: the server at --server computes with the backend of its own configuration (embed.backend); leave \
                 --backend out",
            )),
            Some(_) => Ok(Connection {
                channel: remote(&self.global).await?,
                resolver: None,
                config,
                app: None,
            }),
            None => in_process(config).await,
        }
    }
}

/// Reads the configuration: default ← file ← environment ← flags.
fn configuration(global: &Global, engine: &EngineArgs, fleet: &FleetArgs) -> Result<IsomerConfig, Failure> {
    let mut models = serde_json::Map::new();
    if let Some(home) = &global.home {
        models.insert("home".into(), json!(home));
    }
    if global.offline {
        models.insert("offline".into(), json!(true));
    }
    let mut overrides = json!({ "models": models });
    let mut embed = serde_json::Map::new();
    if let Some(precision) = engine.precision {
        embed.insert("precision".into(), json!(precision));
    }
    if let Some(device) = &engine.device {
        embed.insert("device".into(), json!(device));
    }
    if let Some(backend) = engine.backend {
        embed.insert("backend".into(), json!(backend));
    }
    if !global.data_roots.is_empty() {
        overrides["eval"] = json!({ "dataset_dirs": global.data_roots });
    }
    if !embed.is_empty() {
        overrides["embed"] = json!(embed);
    }
    if let Some(engine) = &fleet.engine {
        overrides["fleet"] = json!({ "engine": engine });
    }
    if let Some(store) = &fleet.store {
        overrides["store"] = json!({ "url": store });
    }
    config::load::<IsomerConfig>(global.config.as_deref(), &overrides).map_err(|e| Failure::usage(e.to_string()))
}

async fn in_process(config: IsomerConfig) -> Result<Connection, Failure> {
    let app = Box::pin(isomer_all_in_one::compose(config.clone(), Caller::Owner)).await?;
    Ok(Connection {
        channel: app.channel().into(),
        resolver: Some(app.resolver()),
        config,
        app: Some(app),
    })
}

/// The settings for connecting to a server, with the TLS files of the flags.
pub(crate) fn client(global: &Global, address: &str) -> Result<ClientConfig, Failure> {
    let tls = ClientTls {
        ca_file: global.ca_file.clone(),
        certificate_file: global.certificate_file.clone(),
        key_file: global.certificate_key_file.clone(),
        server_name: None,
    };
    let config = ClientConfig {
        address: address.to_owned(),
        tls: (tls != ClientTls::default()).then_some(tls),
        ..ClientConfig::default()
    };
    config.validate().map_err(|error| match error.field() {
        "tls" => Failure::usage(format!(
            "--ca-file and --certificate-file are for TLS, and `{address}` is a plain-text address: write https://, or leave them out"
        )),
        _ => Failure::usage(format!("--server: {error}")),
    })?;
    Ok(config)
}

/// Connects to the gateway at `--server` with the client library for users, which sends its
/// version, and with the key in `ISOMER_API_KEY` if it is set.
pub(crate) async fn remote(global: &Global) -> Result<Channel, Failure> {
    let config = client(global, global.server.as_deref().unwrap_or_default())?;
    let mut builder = Client::builder(config.address).key(std::env::var("ISOMER_API_KEY").unwrap_or_default());
    if let Some(tls) = config.tls {
        builder = builder.tls(Tls {
            ca_file: tls.ca_file,
            certificate_file: tls.certificate_file,
            key_file: tls.key_file,
            server_name: tls.server_name,
        });
    }
    if global.api_key_over_plain_text {
        builder = builder.secret_over_plain_text();
    }
    let client = builder.connect().await.map_err(|error| match error.field() {
        _ if error.reason() == reasons::SECRET_IN_PLAIN_TEXT => Failure::usage(
            "ISOMER_API_KEY: the key would travel in plain text to another machine; write https:// in --server, or give \
             --api-key-over-plain-text where nobody else is on the way",
        ),
        Some("key") => Failure::usage(format!("ISOMER_API_KEY: {error}")),
        _ => Failure::from(error),
    })?;
    Ok(client.channel())
}
