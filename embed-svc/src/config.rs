//! Configuration of this service.

use std::{collections::BTreeMap, path::PathBuf};

use isomer_models::ModelsConfig;
use isomer_service_kit::{
    ProcessConfig,
    config::{ConfigError, Validate},
    limits::INNER_MESSAGE,
    server::ServerConfig,
    telemetry::TelemetryConfig,
};
use serde::{Deserialize, Serialize};

use crate::device::{Choice, CpuBackend, Precision};

/// Settings of the encoder service (section `embed`).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmbedConfig {
    /// Where models run: `auto` (`cuda:0` if this build has CUDA and a device answers, else the
    /// CPU), `cpu`, `cuda:N`, `metal`; several GPUs, each with a copy of the model, as
    /// `cuda:0,cuda:1`.
    pub device: String,
    /// Code that computes transformers on the CPU: `kernels` (our own) or `candle` (slower; what
    /// runs on a GPU without kernels of ours). A GPU always computes on Candle's tensors, and T5
    /// encoders always with candle-transformers.
    pub backend: CpuBackend,
    /// Arithmetic of the transformers: `f32`, `bf16`, `f16` (GPU, or backend `candle`), or `int8`
    /// (CPU with backend `kernels`).
    pub precision: Precision,
    /// Widest instructions of the CPU's arithmetic: `best` (all vector instructions of the
    /// machine), `amx` (those and the tiles of Intel processors), `avx2` or `portable`. Machines
    /// that compute with the same ones give the same bits.
    pub instructions: Instructions,
    /// Threads that compute; 0: one per core.
    pub threads: usize,
    /// Batches of one model that run at once on the CPU, with the threads shared out among them and
    /// one copy of the weights. One is best for throughput; more let short requests pass long ones.
    pub replicas: usize,
    /// Maximum number of tokens run through a model at once. Larger batches use more memory, not
    /// more time a token.
    pub max_batch_tokens: usize,
    /// Maximum number of inputs per request.
    pub max_batch_items: usize,
    /// Largest text, in bytes, and largest prompt. A text is read whole, however little of it the
    /// model takes, at some hundred bytes of memory for each of its own.
    pub max_text_bytes: usize,
    /// Maximum number of tokens queued for one model; further requests are answered
    /// `RESOURCE_EXHAUSTED`.
    pub max_queued_tokens: usize,
    /// Maximum number of messages of one stream processed at once.
    pub stream_depth: usize,
    /// Largest message, received or sent, in bytes.
    pub max_message_bytes: usize,
    /// Encoders loaded before the first request is answered.
    pub warm_up: Vec<String>,
    /// Further encoders: id → model folder.
    pub encoders: BTreeMap<String, PathBuf>,
    /// Calibration texts for the ranges of an encoder's int8 vectors, one per line: id → file.
    pub calibration: BTreeMap<String, PathBuf>,
    /// Bound on the bytes of models in memory, counted by the values of their weights in the
    /// precision that computes (int8 as f32); 0: no bound. To make room, the least recently
    /// requested model is unloaded, never one at work.
    pub max_model_bytes: u64,
    /// Folder in which vectors are kept; none: they are not. Several processes may share it.
    pub cache_dir: Option<PathBuf>,
    /// Maximum size of that folder in bytes; the oldest files are removed first.
    pub max_cache_bytes: u64,
    /// Days after which a vector is removed from that folder; 0: none is removed for its age.
    pub max_cache_days: u32,
    /// Whether a request may name a folder on this machine, or a repository of the hub, instead of
    /// an encoder's id. A repository that is not installed needs models.download_on_request too.
    /// Meant for one's own process; a server open to others leaves it off.
    pub allow_paths: bool,
}

/// The widest vector instructions that the CPU's arithmetic may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Instructions {
    /// All vector instructions of the machine, and AMX's tiles.
    Amx,
    /// All vector instructions of the machine.
    #[default]
    Best,
    /// AVX2 at most.
    Avx2,
    /// None but the compiler's own.
    Portable,
}

impl EmbedConfig {
    /// Holds this process to its instructions. Called before anything is computed; repeated calls
    /// with the same ones do nothing.
    ///
    /// # Errors
    /// If the process has computed with others.
    pub fn limit_instructions(&self) -> Result<(), ConfigError> {
        let widest = match self.instructions {
            Instructions::Amx => isomer_kernels::Instructions::Amx,
            Instructions::Best => isomer_kernels::Instructions::Best,
            Instructions::Avx2 => isomer_kernels::Instructions::Avx2,
            Instructions::Portable => isomer_kernels::Instructions::Portable,
        };
        isomer_kernels::limit_to(widest).map_err(|isomer_kernels::LimitConflict(holds)| {
            ConfigError::new(
                "embed.instructions",
                format!(
                    "is {:?}, but this process computes with {holds:?} already",
                    self.instructions
                ),
                "start a process of its own for each",
            )
        })
    }
}

impl EmbedConfig {
    /// The class of this process's arithmetic. Processes of one class take each other's work in a
    /// fleet and share what was computed from vectors, so the class names the backend if it is not
    /// the default.
    pub fn class(&self) -> String {
        match self.backend {
            CpuBackend::Kernels => isomer_kernels::class(),
            CpuBackend::Candle => format!("{} {}", isomer_kernels::class(), self.backend.name()),
        }
    }
}

impl Default for EmbedConfig {
    fn default() -> Self {
        Self {
            device: "auto".into(),
            backend: CpuBackend::default(),
            precision: Precision::F32,
            instructions: Instructions::default(),
            threads: 0,
            replicas: 1,
            max_batch_tokens: 16_384,
            max_batch_items: 4096,
            max_text_bytes: 256 << 10,
            max_queued_tokens: 2 << 20,
            stream_depth: 4,
            max_message_bytes: INNER_MESSAGE,
            warm_up: Vec::new(),
            encoders: BTreeMap::new(),
            calibration: BTreeMap::new(),
            max_model_bytes: 0,
            cache_dir: None,
            max_cache_bytes: 4 << 30,
            max_cache_days: 0,
            allow_paths: false,
        }
    }
}

impl Validate for EmbedConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        // Opened later: here nothing outside is touched.
        let devices = Choice::parse(&self.device, Precision::F32, self.backend)
            .map_err(|error| ConfigError::new("embed.device", error.to_string(), "give `auto`, `cpu` or a GPU"))?;
        if let Err(error) = Choice::parse(&self.device, self.precision, self.backend) {
            let by_backend = Choice::parse(&self.device, self.precision, CpuBackend::Kernels).is_ok();
            let (field, hint) = if by_backend {
                (
                    "embed.backend",
                    "give embed.backend = \"kernels\", or another embed.precision",
                )
            } else {
                (
                    "embed.precision",
                    "give embed.precision = \"f32\", or another embed.device",
                )
            };
            return Err(ConfigError::new(field, error.to_string(), hint));
        }
        let gpu = |choice: &Choice| match choice {
            Choice::Cpu => false,
            Choice::Auto => cfg!(feature = "cuda") && self.precision != Precision::Int8,
            Choice::Cuda(_) | Choice::Metal => true,
        };
        if self.replicas != 1 && devices.iter().any(gpu) {
            return Err(ConfigError::new(
                "embed.replicas",
                format!("is {}, but is for the CPU", self.replicas),
                "give embed.device = \"cpu\"; several GPUs are named as embed.device = \"cuda:0,cuda:1\"",
            ));
        }
        if self.replicas != 1 && self.backend == CpuBackend::Candle {
            return Err(ConfigError::new(
                "embed.replicas",
                format!(
                    "is {}, but embed.backend = \"candle\" computes one batch at a time",
                    self.replicas
                ),
                "give embed.replicas = 1, or embed.backend = \"kernels\"",
            ));
        }
        for (field, value, most) in [
            ("embed.max_batch_tokens", self.max_batch_tokens, 1 << 24),
            ("embed.max_batch_items", self.max_batch_items, 1 << 24),
            ("embed.max_text_bytes", self.max_text_bytes, 1 << 30),
            ("embed.max_queued_tokens", self.max_queued_tokens, 1 << 34),
            ("embed.stream_depth", self.stream_depth, 1024),
            ("embed.replicas", self.replicas, 64),
            ("embed.max_message_bytes", self.max_message_bytes, 2 << 30),
        ] {
            if value == 0 || value > most {
                return Err(ConfigError::new(
                    field,
                    format!("is {value}"),
                    format!("give 1 to {most}"),
                ));
            }
        }
        if self.threads > 1024 {
            return Err(ConfigError::new(
                "embed.threads",
                format!("is {}", self.threads),
                "give 0 (one per core) to 1024",
            ));
        }
        if self.max_cache_bytes < 1 << 20 {
            return Err(ConfigError::new(
                "embed.max_cache_bytes",
                format!("is {}", self.max_cache_bytes),
                "give 1048576 (1 MiB) or more, or leave embed.cache_dir out",
            ));
        }
        if let Some(id) = self
            .encoders
            .keys()
            .find(|id| id.is_empty() || id.contains(['/', '\\']))
        {
            return Err(ConfigError::new(
                "embed.encoders",
                format!("the id `{id}` looks like a path"),
                "give a plain name",
            ));
        }
        Ok(())
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
    pub embed: EmbedConfig,
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
        self.embed.validate()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn refused(edit: impl FnOnce(&mut EmbedConfig)) -> String {
        let mut config = EmbedConfig::default();
        edit(&mut config);
        config.validate().unwrap_err().to_string()
    }

    #[test]
    fn what_a_device_cannot_do_is_told_by_the_field_that_asks_for_it() {
        let word = |error: String, word: &str| assert!(error.contains(word), "{error}");
        word(refused(|config| config.device = "gpu".into()), "embed.device");
        let half = refused(|config| {
            config.device = "cpu".into();
            config.precision = Precision::F16;
        });
        word(half, "embed.precision");
        word(refused(|config| config.replicas = 0), "embed.replicas");
        let mut config = EmbedConfig {
            device: "cpu".into(),
            replicas: 2,
            precision: Precision::Int8,
            ..EmbedConfig::default()
        };
        config.validate().unwrap();
        config.replicas = 65;
        config.validate().unwrap_err();
    }

    #[test]
    fn a_backend_that_cannot_compute_as_asked_is_refused_by_its_field() {
        let field = |edit: fn(&mut EmbedConfig)| {
            let mut config = EmbedConfig {
                backend: CpuBackend::Candle,
                ..EmbedConfig::default()
            };
            config.validate().unwrap();
            edit(&mut config);
            config.validate().unwrap_err().field().to_owned()
        };
        assert_eq!(field(|config| config.precision = Precision::Int8), "embed.backend");
        assert_eq!(field(|config| config.replicas = 2), "embed.replicas");
        assert_eq!(field(|config| config.device = "gpu".into()), "embed.device");
        for name in ["kernels", "candle"] {
            let read: EmbedConfig = serde_json::from_value(serde_json::json!({ "backend": name })).unwrap();
            assert_eq!(read.backend.name(), name);
        }
        let unknown = serde_json::from_value::<EmbedConfig>(serde_json::json!({ "backend": "onnx" }));
        assert!(unknown.unwrap_err().to_string().contains("`kernels` or `candle`"));
    }

    #[test]
    fn processes_of_different_backends_are_of_different_classes() {
        let class = |backend| {
            EmbedConfig {
                backend,
                ..EmbedConfig::default()
            }
            .class()
        };
        // Stores of earlier versions name the kernels' class, so that it must not change.
        assert_eq!(class(CpuBackend::Kernels), isomer_kernels::class());
        assert_eq!(class(CpuBackend::Candle), format!("{} candle", isomer_kernels::class()));
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn replicas_are_for_the_cpu() {
        let error = refused(|config| {
            config.device = "cuda:0".into();
            config.replicas = 2;
        });
        assert!(error.contains("cuda:0,cuda:1"), "{error}");
    }
}
