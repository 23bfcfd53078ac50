//! Configuration of the service.

mod generator;
mod parameters;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use isomer_local_llm::LoadOptions;
use isomer_models::ModelsConfig;
use isomer_outbound::GuardConfig;
use isomer_segment_log::MaxAge;
use isomer_service_kit::{
    ProcessConfig,
    client::ClientConfig,
    config::{ConfigError, Validate},
    limits::INNER_MESSAGE,
    server::ServerConfig,
    telemetry::TelemetryConfig,
};
use serde::{Deserialize, Serialize};

use crate::cache::Bounds;

pub(crate) use generator::check_url;
pub use generator::{BudgetConfig, FleetBudgetConfig, FleetLimitsConfig, GeneratorConfig, GeneratorKind, Hedge};
pub(crate) use parameters::Parameter;
pub use parameters::{MaxTokensName, ParametersConfig, Structured};

/// Smallest bound of the cache, in bytes.
const MIN_CACHE_BYTES: u64 = 1 << 20;

/// Settings of the transformation service (section `transform`).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TransformConfig {
    /// Generators by the id that requests name. Besides these, requests may name `local:` and an id
    /// of the models' catalogue, and whatever [`TransformConfig::allow_specs`] permits.
    pub generators: BTreeMap<String, GeneratorConfig>,
    /// The generator of a request that names none: an id from `generators`, or a spec.
    pub default_generator: String,
    /// Whether a request may name a generator of its own, `openai:MODEL@URL`, or the address of an
    /// encoder service. Such a call goes to public addresses and to those of
    /// [`TransformConfig::addresses`] only, and carries no key of this server. Paths and
    /// repositories of the hub (`local:`) are for the owner of the process alone.
    pub allow_specs: bool,
    /// Addresses of this network that the specs of requests may name. Addresses that the
    /// configuration itself names are not checked.
    pub addresses: GuardConfig,
    /// Whether requests come from the owner of this process, as those of the command line do: their
    /// specs may name anything. Never read from a file.
    #[serde(skip)]
    pub by_owner: bool,
    /// How generators named by an `openai:` spec are called; `model` and `url` come from the spec
    /// and stay unset here.
    pub spec_defaults: GeneratorConfig,
    /// How local models are run.
    pub local: LoadOptions,
    /// Directory of the cache; default `<home>/cache/transform`, where `<home>` is that of the
    /// models.
    pub cache_dir: Option<PathBuf>,
    /// Largest size of the cache on disk, in bytes; 0: any. The segments that were not used for the
    /// longest time are removed first.
    pub cache_max_bytes: u64,
    /// Days after which an entry of the cache is removed, counted from when it came into it; 0:
    /// none is removed for its age. One that is removed is generated again, and paid for again.
    pub cache_max_days: u32,
    /// Memory for the vectors of variants that interactive requests used, in bytes, so that the
    /// next one encodes its own text alone; 0: none are kept.
    pub variant_vectors_bytes: u64,
    /// Longest text, in characters.
    pub max_text_chars: usize,
    /// Directory of prompt files that replace the built-in ones.
    pub prompts_dir: Option<PathBuf>,
    /// Largest message, received or sent, in bytes.
    pub max_message_bytes: usize,
}

impl Default for TransformConfig {
    fn default() -> Self {
        Self {
            generators: BTreeMap::new(),
            default_generator: format!("local:{}", isomer_models::DEFAULT_GENERATOR),
            allow_specs: false,
            addresses: GuardConfig::default(),
            by_owner: false,
            spec_defaults: GeneratorConfig::default(),
            local: LoadOptions::default(),
            cache_dir: None,
            cache_max_bytes: 8 << 30,
            cache_max_days: 0,
            variant_vectors_bytes: 64 << 20,
            max_text_chars: 20_000,
            prompts_dir: None,
            max_message_bytes: INNER_MESSAGE,
        }
    }
}

impl TransformConfig {
    /// How large the cache may become, and how old its entries.
    pub fn cache_bounds(&self) -> Bounds {
        Bounds {
            bytes: self.cache_max_bytes,
            age: MaxAge::days(self.cache_max_days),
        }
    }

    /// The cache directory, for models kept under `home`.
    pub fn cache_directory(&self, home: &Path) -> PathBuf {
        self.cache_dir
            .clone()
            .unwrap_or_else(|| home.join("cache").join("transform"))
    }

    fn check(&self) -> Result<(), ConfigError> {
        for (id, generator) in &self.generators {
            let within = |error: ConfigError| error.within(&format!("generators.{id}"));
            if id.is_empty() || id.contains(':') || id == "none" {
                return Err(ConfigError::new(
                    format!("generators.{id}"),
                    "an id may not be empty, `none`, or hold a colon",
                    "choose a plain name, e.g. `big`",
                ));
            }
            generator.check().map_err(within)?;
        }
        if !self.spec_defaults.model.is_empty() || self.spec_defaults.url.is_some() {
            return Err(ConfigError::new(
                "spec_defaults",
                "model and url come from the spec",
                "remove them here",
            ));
        }
        self.spec_defaults
            .check_calls()
            .map_err(|error| error.within("spec_defaults"))?;
        self.addresses.validate().map_err(|error| error.within("addresses"))?;
        if self.default_generator.is_empty() {
            return Err(ConfigError::new(
                "default_generator",
                "it is empty",
                "name an id of `generators`, a spec, or `none`",
            ));
        }
        if (1..MIN_CACHE_BYTES).contains(&self.cache_max_bytes) {
            return Err(ConfigError::new(
                "cache_max_bytes",
                format!("{} bytes hold next to nothing", self.cache_max_bytes),
                format!("give {MIN_CACHE_BYTES} or more, or 0 for no limit"),
            ));
        }
        if self.max_text_chars == 0 {
            return Err(ConfigError::new(
                "max_text_chars",
                "no text would be allowed",
                "give at least 1",
            ));
        }
        for (field, value, most) in [
            ("local.max_batch", self.local.max_batch, 1024),
            ("local.context", self.local.context, 1 << 20),
            ("local.queue", self.local.queue, 1 << 24),
        ] {
            if value == 0 || value > most {
                return Err(ConfigError::new(
                    field,
                    format!("is {value}"),
                    format!("give 1 to {most}"),
                ));
            }
        }
        if self.local.queue < self.local.max_batch {
            return Err(ConfigError::new(
                "local.queue",
                "is smaller than local.max_batch",
                "raise it",
            ));
        }
        if self.max_message_bytes < 4096 {
            return Err(ConfigError::new(
                "max_message_bytes",
                "is under 4096",
                "give a size in bytes, e.g. 268435456",
            ));
        }
        Ok(())
    }
}

impl Validate for TransformConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        self.check().map_err(|error| error.within("transform"))
    }
}

/// Everything that the service needs as a process of its own.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServeConfig {
    /// Where model files come from.
    pub models: ModelsConfig,
    /// Port, TLS, limits.
    pub server: ServerConfig,
    /// Logs and traces.
    pub telemetry: TelemetryConfig,
    /// The service itself.
    pub transform: TransformConfig,
    /// Where the encoder service is that augmented encoding (GASE) asks; absent: `EncodeAugmented`
    /// needs an address of the request's own, where [`TransformConfig::allow_specs`] permits one.
    pub encoder: Option<ClientConfig>,
}

impl ProcessConfig for ServeConfig {
    fn server(&self) -> &ServerConfig {
        &self.server
    }

    fn telemetry(&self) -> &TelemetryConfig {
        &self.telemetry
    }

    fn with_env(mut self) -> Self {
        self.models = self.models.with_env();
        self
    }
}

impl Validate for ServeConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        self.server.validate()?;
        if let Some(encoder) = &self.encoder {
            encoder.validate().map_err(|error| error.within("encoder"))?;
        }
        self.transform.validate()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn read(toml: &str) -> Result<TransformConfig, String> {
        let config: TransformConfig = toml::from_str(toml).map_err(|error| error.to_string())?;
        config.validate().map_err(|error| error.to_string())?;
        Ok(config)
    }

    #[test]
    fn the_default_is_valid_and_local() {
        TransformConfig::default().validate().unwrap();
        assert_eq!(
            TransformConfig::default().default_generator,
            "local:qwen2.5-coder-1.5b-instruct"
        );
        let home = Path::new("home");
        assert_eq!(
            TransformConfig::default().cache_directory(home),
            home.join("cache/transform")
        );
    }

    #[test]
    fn a_named_generator_is_read() {
        let config = read("[generators.big]\nkind = \"openai\"\nmodel = \"gemma\"\nurl = \"http://h:1/v1\"\nconcurrency = 3\napi_key = \"k\"").unwrap();
        let big = &config.generators["big"];
        assert_eq!(
            (big.kind, big.concurrency, big.max_tries),
            (GeneratorKind::Openai, 3, 4)
        );
        assert_eq!(big.key().read().unwrap().expose(), Some("k"));
    }

    #[test]
    fn hedging_is_a_word_or_seconds_and_a_budget_has_prices() {
        let hedge = |value: &str| {
            read(&format!("[spec_defaults]\nhedge = {value}"))
                .unwrap()
                .spec_defaults
                .hedge
        };
        assert_eq!(GeneratorConfig::default().hedge, Hedge::Off);
        assert_eq!(hedge("\"off\""), Hedge::Off);
        assert_eq!(hedge("\"p95\""), Hedge::P95);
        assert_eq!(hedge("2.5"), Hedge::Seconds(2.5));
        // From an environment variable everything may come as text.
        assert_eq!(hedge("\"3\""), Hedge::Seconds(3.0));
        let config = read(
            "[spec_defaults.budget]\nrequests = 9\ntokens = 1000\ncost = 0.5\nprompt_price = 0.15\ngenerated_price = 0.6",
        )
        .unwrap();
        let budget = config.spec_defaults.budget;
        assert_eq!(
            (budget.requests, budget.tokens, budget.cost),
            (Some(9), Some(1000), Some(0.5))
        );
        assert_eq!((budget.prompt_price, budget.generated_price), (0.15, 0.6));
    }

    #[test]
    fn what_cannot_work_is_refused_with_its_field() {
        for (toml, part) in [
            (
                "[generators.\"a:b\"]\nkind = \"openai\"\nmodel = \"m\"\nurl = \"http://h/v1\"",
                "colon",
            ),
            ("[generators.a]\nkind = \"openai\"\nmodel = \"m\"", "generators.a.url"),
            (
                "[generators.a]\nkind = \"openai\"\nmodel = \"m\"\nurl = \"ftp://h\"",
                "generators.a.url",
            ),
            (
                "[generators.a]\nkind = \"openai\"\nmodel = \"m\"\nurl = \"http://h\"\nconcurrency = 0",
                "generators.a.concurrency",
            ),
            (
                "[generators.a]\nkind = \"openai\"\nmodel = \"m\"\nurl = \"http://h\"\ntimeout_seconds = 0",
                "generators.a.timeout_seconds",
            ),
            (
                "[generators.a]\nkind = \"local\"\nmodel = \"m\"\nurl = \"http://h\"",
                "generators.a.url",
            ),
            (
                "[generators.a]\nkind = \"openai\"\nmodel = \"\"\nurl = \"http://h\"",
                "generators.a.model",
            ),
            ("max_text_chars = 0", "max_text_chars"),
            ("cache_max_bytes = 10", "cache_max_bytes"),
            (
                "[spec_defaults]\nconcurrency = 4\nmin_concurrency = 5",
                "spec_defaults.min_concurrency",
            ),
            ("[spec_defaults]\nhedge = \"soon\"", "hedge"),
            ("[spec_defaults]\nhedge = -1", "spec_defaults.hedge"),
            ("[spec_defaults]\nbudget.cost = 1.0", "spec_defaults.budget.cost"),
            (
                "[spec_defaults]\nbudget.prompt_price = -1.0",
                "spec_defaults.budget.prompt_price",
            ),
            ("[spec_defaults]\nbudget.money = 1.0", "money"),
            ("cache_directory = \"x\"", "cache_directory"),
            ("[local]\nmax_batch = 0", "local.max_batch"),
        ] {
            let error = read(toml).unwrap_err();
            assert!(error.contains(part), "{toml}: {error}");
        }
    }

    #[test]
    fn a_key_or_a_password_is_never_shown() {
        let config =
            read("[generators.a]\nkind = \"openai\"\nmodel = \"m\"\nurl = \"http://h\"\napi_key = \"hunter2\"")
                .unwrap();
        assert!(!format!("{config:?}").contains("hunter2"));
        assert!(!serde_json::to_string(&config).unwrap().contains("hunter2"));
        for url in [
            "http://me:hunter2@h",
            "ftp://me:hunter2@h",
            "http://me:hunter2@h:port",
            "me:hunter2@h",
        ] {
            let error = read(&format!(
                "[generators.a]\nkind = \"openai\"\nmodel = \"m\"\nurl = \"{url}\""
            ))
            .unwrap_err();
            assert!(
                error.contains("generators.a.url") && !error.contains("hunter2"),
                "{error}"
            );
        }
    }
}
