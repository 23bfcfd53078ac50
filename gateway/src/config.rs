//! Configuration of the gateway, and of a whole house in one process.

use std::path::Path;

use isomer_access::AccessConfig;
use isomer_adapters::GuardConfig;
use isomer_embed::EmbedConfig;
use isomer_eval::EvalConfig;
use isomer_models::ModelsConfig;
use isomer_registry::ProvidersConfig;
use isomer_service_kit::{
    client::ClientConfig,
    config::{ConfigError, Secret, Validate},
    server::ServerConfig,
    telemetry::TelemetryConfig,
};
use isomer_transform::TransformConfig;
use serde::{Deserialize, Serialize};

use crate::routing::RoutingConfig;

/// Where the gateway keeps providers, keys and the audit log.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DatabaseConfig {
    /// A path, `sqlite:PATH` or `postgres://USER:PASSWORD@HOST/DATABASE`; absent: `gateway.sqlite` in the home folder.
    pub url: Secret,
}

impl DatabaseConfig {
    /// The address, with the default filled in.
    pub fn address(&self, home: &Path) -> String {
        match self.url.expose() {
            Some(url) => url.to_owned(),
            None => home.join("gateway.sqlite").display().to_string(),
        }
    }
}

/// Every service in one process: what `isomer` reads from its configuration file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IsomerConfig {
    /// Where model files come from.
    pub models: ModelsConfig,
    /// The port in front of everything (`isomer serve`), its limits and TLS.
    pub server: ServerConfig,
    /// Logs and traces.
    pub telemetry: TelemetryConfig,
    /// The gateway's records.
    pub database: DatabaseConfig,
    /// Who may ask for what.
    pub access: AccessConfig,
    /// Encoders of others.
    pub providers: ProvidersConfig,
    /// Which addresses of this network may be called as providers.
    pub addresses: GuardConfig,
    /// How requests find their way.
    pub routing: RoutingConfig,
    /// Pages that may call from a browser.
    pub web: WebConfig,
    /// Text to vectors.
    pub embed: EmbedConfig,
    /// Text to text.
    pub transform: TransformConfig,
    /// Scores, runs, reports.
    pub eval: EvalConfig,
}

impl Validate for IsomerConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        self.server.validate()?;
        self.access.validate().map_err(|error| error.within("access"))?;
        self.providers.validate().map_err(|error| error.within("providers"))?;
        self.addresses.validate().map_err(|error| error.within("addresses"))?;
        self.routing.validate()?;
        self.web.validate().map_err(|error| error.within("web"))?;
        self.embed.validate()?;
        self.transform.validate()?;
        self.eval.validate()
    }
}

/// A gateway in front of services that run elsewhere.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GatewayConfig {
    /// The port in front.
    pub server: ServerConfig,
    /// Logs and traces.
    pub telemetry: TelemetryConfig,
    /// Folder of the records, unless `database.url` says otherwise; absent: `ISOMER_HOME`, or the user's cache folder.
    pub home: Option<std::path::PathBuf>,
    /// The gateway's records.
    pub database: DatabaseConfig,
    /// Who may ask for what.
    pub access: AccessConfig,
    /// Encoders of others.
    pub providers: ProvidersConfig,
    /// Which addresses of this network may be called as providers.
    pub addresses: GuardConfig,
    /// How requests find their way.
    pub routing: RoutingConfig,
    /// Pages that may call from a browser.
    pub web: WebConfig,
    /// Where embed-svc is; absent: the registered providers are all the encoders there are.
    pub embed: Option<ClientConfig>,
    /// Where transform-svc is.
    pub transform: Option<ClientConfig>,
    /// Where eval-svc is.
    pub eval: Option<ClientConfig>,
}

impl Validate for GatewayConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        self.server.validate()?;
        self.access.validate().map_err(|error| error.within("access"))?;
        self.providers.validate().map_err(|error| error.within("providers"))?;
        self.addresses.validate().map_err(|error| error.within("addresses"))?;
        self.routing.validate()?;
        self.web.validate().map_err(|error| error.within("web"))
    }
}

/// Calls from pages in a browser (gRPC-Web, HTTP).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebConfig {
    /// Origins whose pages may call, e.g. `https://app.example`; `*` for all. None: only the gateway's own page.
    pub allowed_origins: Vec<String>,
}

impl Validate for WebConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        let is_origin = |text: &String| {
            let uri = text.parse::<http::Uri>();
            text == "*"
                || uri.is_ok_and(|uri| {
                    uri.scheme().is_some() && uri.host().is_some() && uri.path() == "/" && !text.ends_with('/')
                })
        };
        match self.allowed_origins.iter().find(|text| !is_origin(text)) {
            Some(text) => Err(ConfigError::new(
                "allowed_origins",
                format!("`{text}` is no origin"),
                "give scheme, host and port alone, e.g. https://app.example:8443",
            )),
            None => Ok(()),
        }
    }
}
