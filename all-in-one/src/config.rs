//! Configuration of all services in one process.

use std::collections::BTreeMap;

use isomer_access::AccessConfig;
use isomer_adapters::GuardConfig;
use isomer_blobs::StoreConfig;
use isomer_embed::EmbedConfig;
use isomer_eval::{
    EvalConfig,
    config::{FleetConfig, validate_fleet},
};
use isomer_gateway::{
    AugmentedModelConfig, MissingVariantsConfig,
    config::{DatabaseConfig, WebConfig},
    routing::RoutingConfig,
};
use isomer_models::ModelsConfig;
use isomer_registry::ProvidersConfig;
use isomer_service_kit::{
    config::{ConfigError, Validate},
    server::ServerConfig,
    telemetry::TelemetryConfig,
};
use isomer_transform::TransformConfig;
use serde::{Deserialize, Serialize};

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
    /// Permissions and budgets of callers.
    pub access: AccessConfig,
    /// Encoders of others.
    pub providers: ProvidersConfig,
    /// Private addresses that may be called as providers.
    pub addresses: GuardConfig,
    /// How requests find their way.
    pub routing: RoutingConfig,
    /// Pages that may call from a browser.
    pub web: WebConfig,
    /// How variants that an answer lacked are made after it.
    pub missing_variants: MissingVariantsConfig,
    /// Names that stand for an encoder with augmentation.
    pub augmented_models: BTreeMap<String, AugmentedModelConfig>,
    /// Text to vectors.
    pub embed: EmbedConfig,
    /// Text to text.
    pub transform: TransformConfig,
    /// Scores, runs, reports.
    pub eval: EvalConfig,
    /// Bytes that all machines share: texts that were generated, vectors, scores, answers of
    /// workers.
    pub store: StoreConfig,
    /// Workers that do the pieces of runs.
    pub fleet: FleetConfig,
}

impl Validate for IsomerConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        self.server.validate()?;
        self.access.validate().map_err(|error| error.within("access"))?;
        self.providers.validate().map_err(|error| error.within("providers"))?;
        self.addresses.validate().map_err(|error| error.within("addresses"))?;
        self.routing.validate()?;
        self.web.validate().map_err(|error| error.within("web"))?;
        let variants = self.missing_variants.validate();
        variants.map_err(|error| error.within("missing_variants"))?;
        self.embed.validate()?;
        self.transform.validate()?;
        self.store.validate().map_err(|error| error.within("store"))?;
        validate_fleet(&self.fleet, &self.store)?;
        self.eval.validate()
    }
}
