//! Configuration of the gateway, and of a whole house in one process.

use isomer_embed::EmbedConfig;
use isomer_eval::EvalConfig;
use isomer_models::ModelsConfig;
use isomer_service_kit::{
    client::ClientConfig,
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
    /// Where embed-svc is; absent: its methods answer `UNIMPLEMENTED`.
    pub embed: Option<ClientConfig>,
    /// Where transform-svc is.
    pub transform: Option<ClientConfig>,
    /// Where eval-svc is.
    pub eval: Option<ClientConfig>,
}

impl Validate for GatewayConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        self.server.validate()?;
        if self.embed.is_none() && self.transform.is_none() && self.eval.is_none() {
            return Err(ConfigError::new(
                "embed",
                "the gateway has nothing to route to",
                "give at least one of embed.address, transform.address, eval.address",
            ));
        }
        Ok(())
    }
}
