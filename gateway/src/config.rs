//! Configuration of the gateway.

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
};

use isomer_access::AccessConfig;
use isomer_adapters::GuardConfig;
use isomer_registry::ProvidersConfig;
use isomer_service_kit::{
    ProcessConfig,
    client::{ClientConfig, ClientTls},
    config::{ConfigError, Secret, Validate},
    server::ServerConfig,
    telemetry::TelemetryConfig,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{proxy::missing_variants::MissingVariantsConfig, routing::RoutingConfig};

/// Where the gateway keeps providers, keys and the audit log.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DatabaseConfig {
    /// A path, `sqlite:PATH` or `postgres://USER:PASSWORD@HOST/DATABASE`; absent: `gateway.sqlite`
    /// in the home folder.
    pub url: Secret,
}

impl DatabaseConfig {
    /// The address, or the default one if none is set.
    pub fn address(&self, home: &Path) -> String {
        match self.url.expose() {
            Some(url) => url.to_owned(),
            None => home.join("gateway.sqlite").display().to_string(),
        }
    }
}

/// A gateway in front of services that run elsewhere.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GatewayConfig {
    /// The gateway's port.
    pub server: ServerConfig,
    /// Logs and traces.
    pub telemetry: TelemetryConfig,
    /// Folder of the records, unless `database.url` is set; absent: `ISOMER_HOME`, or the user's
    /// cache folder.
    pub home: Option<std::path::PathBuf>,
    /// The gateway's records.
    pub database: DatabaseConfig,
    /// Permissions and budgets of callers.
    pub access: AccessConfig,
    /// Encoders of other servers.
    pub providers: ProvidersConfig,
    /// Private addresses that may be called as providers.
    pub addresses: GuardConfig,
    /// How requests are routed to encoders.
    pub routing: RoutingConfig,
    /// Pages that may call from a browser.
    pub web: WebConfig,
    /// Where embed-svc is; absent: only registered providers serve encoders.
    pub embed: Option<ServersConfig>,
    /// Where transform-svc is.
    pub transform: Option<ServersConfig>,
    /// Where eval-svc is. Scores and statistics come from any of several; runs come from the first,
    /// or from any with `shared_runs`.
    pub eval: Option<ServersConfig>,
    /// How variants that an answer lacked are made after it.
    pub missing_variants: MissingVariantsConfig,
    /// Names that stand for an encoder with augmentation.
    pub augmented_models: BTreeMap<String, AugmentedModelConfig>,
    /// Whether the servers of `eval` share a ledger (`eval.ledger`), so that each of them answers
    /// for every run.
    pub shared_runs: bool,
}

/// One server, or several that serve the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServersConfig {
    /// `host:port`, `http://host:port` or `https://host:port`.
    pub address: String,
    /// Addresses of several servers, in place of `address`.
    pub addresses: Vec<String>,
    /// Client side of TLS; used with `https`.
    pub tls: Option<ClientTls>,
    /// Sent with every call as `authorization: Bearer …`; absent: none.
    pub api_key: Secret,
    /// Whether the key may be sent in plain text to another machine, where anyone on the network
    /// path can read and use it.
    pub api_key_over_plain_text: bool,
}

impl ServersConfig {
    pub fn each(&self) -> impl Iterator<Item = ClientConfig> + '_ {
        let alone = self.addresses.is_empty().then_some(&self.address);
        self.addresses.iter().chain(alone).map(|address| ClientConfig {
            address: address.clone(),
            tls: self.tls.clone(),
            api_key: self.api_key.clone(),
            api_key_over_plain_text: self.api_key_over_plain_text,
        })
    }
}

impl From<ClientConfig> for ServersConfig {
    fn from(client: ClientConfig) -> Self {
        Self {
            address: client.address,
            addresses: Vec::new(),
            tls: client.tls,
            api_key: client.api_key,
            api_key_over_plain_text: client.api_key_over_plain_text,
        }
    }
}

impl Validate for ServersConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        if !self.address.is_empty() && !self.addresses.is_empty() {
            return Err(ConfigError::new(
                "addresses",
                "is given together with address",
                "give address for one server, or addresses for several",
            ));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = self.addresses.iter().find(|address| !seen.insert(*address)) {
            let hint = "name each server once";
            return Err(ConfigError::new("addresses", format!("names `{twice}` twice"), hint));
        }
        self.each().try_for_each(|client| client.validate())
    }
}

impl ProcessConfig for GatewayConfig {
    fn server(&self) -> &ServerConfig {
        &self.server
    }

    fn telemetry(&self) -> &TelemetryConfig {
        &self.telemetry
    }
}

impl Validate for GatewayConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        self.server.validate()?;
        self.access.validate().map_err(|error| error.within("access"))?;
        self.providers.validate().map_err(|error| error.within("providers"))?;
        self.addresses.validate().map_err(|error| error.within("addresses"))?;
        self.routing.validate()?;
        self.web.validate().map_err(|error| error.within("web"))?;
        let variants = self.missing_variants.validate();
        variants.map_err(|error| error.within("missing_variants"))?;
        let sections = [
            ("embed", &self.embed),
            ("transform", &self.transform),
            ("eval", &self.eval),
        ];
        sections.into_iter().try_for_each(|(name, servers)| {
            let servers = servers.as_ref().map_or(Ok(()), Validate::validate);
            servers.map_err(|error| error.within(name))
        })
    }
}

/// Encoder and augmentation behind a name of `[augmented_models]`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AugmentedModelConfig {
    /// Id of the encoder that it stands for.
    pub encoder: String,
    /// A prompt of the encoder, put before originals and variants; absent: the encoder's default.
    pub prompt_name: Option<String>,
    /// The field `augment` of `/v1/embeddings`, without `evidence`.
    pub augment: Value,
}

/// Calls from pages in a browser (gRPC-Web, HTTP).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebConfig {
    /// Origins whose pages may call, e.g. `https://app.example`; `*` for all. Empty: only the
    /// gateway's own page.
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
                format!("`{text}` is not an origin"),
                "give scheme, host and port alone, e.g. https://app.example:8443",
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use isomer_service_kit::config::load_from;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_example_is_accepted_and_says_what_it_says() {
        let file = Path::new(".").join("../examples/gateway.toml");
        let config: GatewayConfig = load_from(Some(&file), [], &json!({})).unwrap();
        let servers = |section: &Option<ServersConfig>| section.as_ref().unwrap().each().count();
        assert_eq!([&config.embed, &config.transform, &config.eval].map(servers), [2, 1, 1]);
        assert_eq!(config.routing.attempt_timeout_ms, 20_000);
        let wrong = load_from::<GatewayConfig>(Some(&file), [], &json!({"embed": {"address": "here:1"}}));
        assert_eq!(wrong.unwrap_err().field(), "embed.addresses");
    }
}
