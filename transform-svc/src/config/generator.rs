//! Configuration of one generator.

use std::{path::PathBuf, time::Duration};

use isomer_outbound::shared_limits::{Budget, Per, Terms};
use isomer_outbound::{rate_limiter::Rates, secret::SecretSource};
use isomer_service_kit::config::{ConfigError, Secret};
use serde::{Deserialize, Serialize};
use url::Url;

use super::parameters::{ParametersConfig, Structured};

/// Environment variable of the key where none is named.
const DEFAULT_KEY: &str = "OPENAI_API_KEY";

/// How a generator is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GeneratorKind {
    /// A server with OpenAI's completions.
    Openai,
    /// A GGUF model in this process.
    Local,
}

/// A named generator, or what one named by an `openai:` spec has besides its model and URL.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GeneratorConfig {
    /// Server or local model.
    pub kind: GeneratorKind,
    /// Model name at the server; for a local one its catalogue id or the path of a .gguf file.
    pub model: String,
    /// Base URL of the server up to and including its version, e.g. `http://localhost:8000/v1`. Not
    /// for local ones.
    pub url: Option<String>,
    /// Parameters of the requests to a server that refuses some of OpenAI's. Not for local ones.
    pub parameters: ParametersConfig,
    /// Whether the server is asked for JSON with the text in a field of it (`response_format`):
    /// `off`; `auto`, where the server accepts it; or `json_schema`, always. Texts of another
    /// setting are generated again. Not for local ones.
    pub structured: Structured,
    /// Part of the name under which generated texts are stored. Change it when the server gets
    /// another model under the same name, and texts are generated again. Not for local ones.
    pub revision: String,
    /// The key. Better kept in an environment variable: see `api_key_env`.
    pub api_key: Secret,
    /// Environment variable that holds the key. Named here, it must be set; left out, it is
    /// OPENAI_API_KEY where that is set. Empty: no key is sent.
    pub api_key_env: Option<String>,
    /// File that holds the key alone. It is read again when it changes.
    pub api_key_file: Option<PathBuf>,
    /// Maximum number of requests per second to this server; 0: no limit.
    pub requests_per_second: f64,
    /// Maximum number of tokens per second to this server, those of prompts (estimated) and the
    /// longest allowed answers; 0: no limit.
    pub tokens_per_second: f64,
    /// Initial maximum of requests in flight to this server. 429, 503 and timeouts halve the
    /// current maximum; good answers raise it again.
    pub concurrency: usize,
    /// Fewest requests in flight that overload can bring it down to; equal to `concurrency`, the
    /// number is fixed.
    pub min_concurrency: usize,
    /// Longest wait for one answer, in seconds.
    pub timeout_seconds: f64,
    /// Longest wait for a connection, in seconds.
    pub connect_timeout_seconds: f64,
    /// Maximum number of tries of one call (the first included) when the server is overloaded,
    /// fails or answers nonsense.
    pub max_tries: usize,
    /// First pause between tries, in seconds; it doubles from try to try.
    pub retry_delay_seconds: f64,
    /// Longest `Retry-After` that is waited for, in seconds; a text whose server asks for more
    /// fails.
    pub max_retry_after_seconds: f64,
    /// Whether a call that takes long is made a second time, and after how long: `"off"`, `"p95"`
    /// (the 95th percentile of recent answers), or seconds. The first answer counts and the other
    /// call is cancelled. Takes free places only.
    pub hedge: Hedge,
    /// Budget from the start of this process.
    pub budget: BudgetConfig,
    /// Limits of all processes of a fleet together (`fleet.engine`): workers, checks and servers.
    /// Without a fleet this process keeps to them alone.
    pub fleet: FleetLimitsConfig,
}

/// Limits of a generator that hold over all processes of a fleet. Give every process the same ones:
/// each keeps to its own.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FleetLimitsConfig {
    /// Maximum number of requests in flight to this server, of all processes together; 0: no limit.
    pub concurrency: usize,
    /// Maximum number of requests per second to this server, of all processes together; 0: no
    /// limit. A limit a minute is a sixtieth of it a second.
    pub requests_per_second: f64,
    /// Maximum number of tokens per second to this server, those of prompts (estimated) and the
    /// longest allowed answers, of all processes together; 0: no limit.
    pub tokens_per_second: f64,
    /// Budget of all processes together, at the prices of `budget`.
    pub budget: FleetBudgetConfig,
}

/// Budget of all processes of a fleet; an amount that is not set has no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FleetBudgetConfig {
    /// Calls, tries again included.
    pub requests: Option<u64>,
    /// Tokens of prompts and answers together. Calls in flight when it is spent are still paid for.
    pub tokens: Option<u64>,
    /// Money, in the unit of the prices.
    pub cost: Option<f64>,
    /// Over which time it is counted: `day` and `month` begin at 00:00 UTC, `total` never ends.
    pub per: Per,
}

/// When a call is made a second time.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "HedgeValue", into = "HedgeValue")]
pub enum Hedge {
    /// Never.
    #[default]
    Off,
    /// When it takes longer than 95 of 100 recent ones.
    P95,
    /// Calls that take longer than this many seconds are sent again.
    Seconds(f64),
}

/// As it is written in a file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum HedgeValue {
    Number(f64),
    Word(String),
}

impl TryFrom<HedgeValue> for Hedge {
    type Error = String;

    fn try_from(value: HedgeValue) -> Result<Self, Self::Error> {
        match value {
            HedgeValue::Number(seconds) => Ok(Self::Seconds(seconds)),
            HedgeValue::Word(word) => match word.as_str() {
                "off" => Ok(Self::Off),
                "p95" => Ok(Self::P95),
                other => other
                    .parse()
                    .map(Self::Seconds)
                    .map_err(|_| format!("`{other}` is not a valid hedge; give \"off\", \"p95\" or seconds")),
            },
        }
    }
}

impl From<Hedge> for HedgeValue {
    fn from(hedge: Hedge) -> Self {
        match hedge {
            Hedge::Off => Self::Word("off".into()),
            Hedge::P95 => Self::Word("p95".into()),
            Hedge::Seconds(seconds) => Self::Number(seconds),
        }
    }
}

/// Budget of a generator; an amount that is not set has no limit. Tokens are those that the server
/// counts, or estimates where it does not count.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetConfig {
    /// Calls, tries again and hedges included.
    pub requests: Option<u64>,
    /// Tokens of prompts and answers together.
    pub tokens: Option<u64>,
    /// Money, in the unit of the prices.
    pub cost: Option<f64>,
    /// Price of a million tokens of prompts.
    pub prompt_price: f64,
    /// Price of a million generated tokens.
    pub generated_price: f64,
}

impl BudgetConfig {
    fn check(&self) -> Result<(), ConfigError> {
        for (field, price) in [
            ("budget.prompt_price", self.prompt_price),
            ("budget.generated_price", self.generated_price),
        ] {
            if !price.is_finite() || price < 0.0 {
                return Err(ConfigError::new(
                    field,
                    format!("{price} is not a price"),
                    "give 0 or more",
                ));
            }
        }
        let Some(cost) = self.cost else { return Ok(()) };
        if !(cost.is_finite() && cost > 0.0) {
            return Err(ConfigError::new(
                "budget.cost",
                format!("{cost} is not an amount to spend"),
                "give more than 0, or leave it out",
            ));
        }
        if self.prompt_price == 0.0 && self.generated_price == 0.0 {
            return Err(ConfigError::new(
                "budget.cost",
                "without prices it would never be reached",
                "set budget.prompt_price and budget.generated_price, per million tokens",
            ));
        }
        Ok(())
    }
}

impl Default for GeneratorConfig {
    fn default() -> Self {
        Self {
            kind: GeneratorKind::Openai,
            model: String::new(),
            url: None,
            parameters: ParametersConfig::default(),
            structured: Structured::Off,
            revision: String::new(),
            api_key: Secret::default(),
            api_key_env: None,
            api_key_file: None,
            requests_per_second: 0.0,
            tokens_per_second: 0.0,
            concurrency: 16,
            min_concurrency: 1,
            timeout_seconds: 120.0,
            connect_timeout_seconds: 5.0,
            max_tries: 4,
            retry_delay_seconds: 0.25,
            max_retry_after_seconds: 60.0,
            hedge: Hedge::Off,
            budget: BudgetConfig::default(),
            fleet: FleetLimitsConfig::default(),
        }
    }
}

impl GeneratorConfig {
    /// The source of the API key.
    pub(crate) fn key(&self) -> SecretSource {
        match (&self.api_key, &self.api_key_file, self.api_key_env.as_deref()) {
            (key, ..) if !key.is_empty() => SecretSource::Given(key.clone()),
            (_, Some(file), _) => SecretSource::file(file),
            (_, None, Some("")) => SecretSource::None,
            (_, None, Some(name)) => SecretSource::Environment(name.to_owned()),
            (_, None, None) if Secret::from_env(DEFAULT_KEY).is_empty() => SecretSource::None,
            (_, None, None) => SecretSource::Environment(DEFAULT_KEY.to_owned()),
        }
    }

    /// A description of where the key is configured, for messages about a bad key.
    pub(crate) fn key_place(&self) -> String {
        match (&self.api_key, &self.api_key_file, self.api_key_env.as_deref()) {
            (key, ..) if !key.is_empty() => "api_key of the configuration".to_owned(),
            (_, Some(file), _) => format!("the file {}", file.display()),
            (_, None, Some("")) => "api_key_env or api_key_file of the configuration".to_owned(),
            (_, None, name) => format!("the environment variable {}", name.unwrap_or(DEFAULT_KEY)),
        }
    }

    pub(crate) fn rates(&self) -> Rates {
        Rates {
            requests_per_second: self.requests_per_second,
            tokens_per_second: self.tokens_per_second,
            // Concurrency is bounded by the adaptive limit instead.
            max_concurrency: 0,
        }
    }

    /// The limits of the fleet.
    pub(crate) fn terms(&self) -> Terms {
        let budget = &self.fleet.budget;
        Terms {
            concurrency: self.fleet.concurrency,
            requests_per_second: self.fleet.requests_per_second,
            tokens_per_second: self.fleet.tokens_per_second,
            budget: Budget {
                requests: budget.requests,
                tokens: budget.tokens,
                cost: budget.cost,
                per: budget.per,
                prompt_price: self.budget.prompt_price,
                generated_price: self.budget.generated_price,
            },
        }
    }

    /// The same for a process without a fleet, which keeps to the limits of the fleet alone.
    pub(crate) fn alone(&self) -> Self {
        let lower = |own: f64, fleet: f64| match (own > 0.0, fleet > 0.0) {
            (true, true) => own.min(fleet),
            _ => own.max(fleet),
        };
        let least = |own: Option<u64>, fleet: Option<u64>| own.into_iter().chain(fleet).min();
        let fleet = &self.fleet;
        let concurrency = match fleet.concurrency {
            0 => self.concurrency,
            most => self.concurrency.min(most),
        };
        Self {
            concurrency,
            min_concurrency: self.min_concurrency.min(concurrency),
            requests_per_second: lower(self.requests_per_second, fleet.requests_per_second),
            tokens_per_second: lower(self.tokens_per_second, fleet.tokens_per_second),
            budget: BudgetConfig {
                requests: least(self.budget.requests, fleet.budget.requests),
                tokens: least(self.budget.tokens, fleet.budget.tokens),
                cost: self.budget.cost.into_iter().chain(fleet.budget.cost).reduce(f64::min),
                ..self.budget
            },
            ..self.clone()
        }
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout_seconds)
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.connect_timeout_seconds)
    }

    /// Checks everything but model and URL, which come from a spec.
    pub(super) fn check_calls(&self) -> Result<(), ConfigError> {
        let positive = |field, seconds: f64| match seconds {
            s if s > 0.0 && s <= 86_400.0 => Ok(()),
            s => Err(ConfigError::new(
                field,
                format!("{s} is not a usable duration"),
                "give seconds, above 0 and at most a day",
            )),
        };
        positive("timeout_seconds", self.timeout_seconds)?;
        positive("connect_timeout_seconds", self.connect_timeout_seconds)?;
        positive("retry_delay_seconds", self.retry_delay_seconds)?;
        positive("max_retry_after_seconds", self.max_retry_after_seconds)?;
        if !(1..=4096).contains(&self.concurrency) {
            return Err(ConfigError::new(
                "concurrency",
                format!("{} requests in flight", self.concurrency),
                "give 1 to 4096",
            ));
        }
        if !(1..=self.concurrency).contains(&self.min_concurrency) {
            return Err(ConfigError::new(
                "min_concurrency",
                format!("{} requests in flight", self.min_concurrency),
                format!("give 1 to {} (concurrency)", self.concurrency),
            ));
        }
        self.rates()
            .check()
            .map_err(|bad| ConfigError::new(bad.field, bad.to_string(), "give a number above 0, or 0 for no limit"))?;
        if self.api_key_file.is_some() && (!self.api_key.is_empty() || self.api_key_env.is_some()) {
            return Err(ConfigError::new(
                "api_key_file",
                "the key has another place too",
                "give one of api_key, api_key_file and api_key_env",
            ));
        }
        if let Hedge::Seconds(seconds) = self.hedge {
            positive("hedge", seconds)?;
        }
        self.parameters.check()?;
        self.budget.check()?;
        self.check_fleet()?;
        if !(1..=20).contains(&self.max_tries) {
            return Err(ConfigError::new(
                "max_tries",
                format!("{} tries", self.max_tries),
                "give 1 to 20",
            ));
        }
        if self
            .api_key
            .expose()
            .is_some_and(|key| http::HeaderValue::from_str(key).is_err())
        {
            return Err(ConfigError::new(
                "api_key",
                "the key cannot be sent in a header",
                "remove line breaks and control characters",
            ));
        }
        Ok(())
    }

    fn check_fleet(&self) -> Result<(), ConfigError> {
        let rates = Rates {
            requests_per_second: self.fleet.requests_per_second,
            tokens_per_second: self.fleet.tokens_per_second,
            max_concurrency: 0,
        };
        rates.check().map_err(|bad| {
            let field = match bad.field {
                "requests_per_second" => "fleet.requests_per_second",
                _ => "fleet.tokens_per_second",
            };
            ConfigError::new(field, bad.to_string(), "give a number above 0, or 0 for no limit")
        })?;
        let Some(cost) = self.fleet.budget.cost else {
            return Ok(());
        };
        if !(cost.is_finite() && cost > 0.0) {
            return Err(ConfigError::new(
                "fleet.budget.cost",
                format!("{cost} is not an amount to spend"),
                "give more than 0, or leave it out",
            ));
        }
        if self.budget.prompt_price == 0.0 && self.budget.generated_price == 0.0 {
            return Err(ConfigError::new(
                "fleet.budget.cost",
                "without prices it would never be reached",
                "set budget.prompt_price and budget.generated_price, per million tokens",
            ));
        }
        Ok(())
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.kind == GeneratorKind::Local && self.fleet != FleetLimitsConfig::default() {
            return Err(ConfigError::new(
                "fleet",
                "a local generator runs in each process by itself",
                "remove it, or set kind = \"openai\"",
            ));
        }
        let is_plain = self.parameters == ParametersConfig::default() && self.structured == Structured::Off;
        if self.kind == GeneratorKind::Local && !is_plain {
            let field = if self.structured == Structured::Off {
                "parameters"
            } else {
                "structured"
            };
            return Err(ConfigError::new(
                field,
                "a local generator takes every parameter and writes plain text",
                "remove it, or set kind = \"openai\"",
            ));
        }
        if self.model.is_empty() {
            return Err(ConfigError::new("model", "it is empty", "name the model"));
        }
        match (self.kind, &self.url) {
            (GeneratorKind::Openai, Some(url)) => {
                check_url(url)
                    .map_err(|message| ConfigError::new("url", message, "give e.g. http://localhost:8000/v1"))?;
            }
            (GeneratorKind::Openai, None) => {
                return Err(ConfigError::new(
                    "url",
                    "a remote generator needs one",
                    "give e.g. http://localhost:8000/v1",
                ));
            }
            (GeneratorKind::Local, Some(_)) => {
                return Err(ConfigError::new(
                    "url",
                    "a local generator has none",
                    "remove it, or set kind = \"openai\"",
                ));
            }
            (GeneratorKind::Local, None) => {}
        }
        self.check_calls()
    }
}

/// Whether a URL can be called, and what is wrong if not.
pub(crate) fn check_url(url: &str) -> Result<(), String> {
    // The message never repeats the URL: it may hold a password, whose position depends on what is
    // wrong.
    let parsed = Url::parse(url).map_err(|error| format!("this is not a URL: {error}"))?;
    if !matches!(parsed.scheme(), "http" | "https") || !parsed.has_host() {
        return Err(format!(
            "this is a URL of scheme `{}`, not http or https",
            parsed.scheme()
        ));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err("the URL holds a user name or password".into());
    }
    Ok(())
}
