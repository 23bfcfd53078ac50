//! Which encoders there are, and those that are loaded.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use isomer_models::{ModelKind, ResolvedModel, Resolver, progress::LogProgress};
use tokio::sync::OnceCell;

use crate::{
    config::EmbedConfig,
    device::Device,
    engine::{Engine, Limits},
    error::EmbedError,
    model::Model,
};

/// A loaded encoder, ready to run.
pub struct Loaded {
    /// Where it came from.
    pub source: ResolvedModel,
    /// What it is.
    pub model: Arc<Model>,
    /// What runs it.
    pub engine: Engine,
}

/// An encoder that can be asked for.
pub struct Known {
    /// Id to ask for.
    pub id: String,
    /// The encoder, if it is in memory.
    pub loaded: Option<Arc<Loaded>>,
}

type Slot = Arc<OnceCell<Arc<Loaded>>>;

/// Loads encoders on demand, each once.
pub struct Registry {
    resolver: Resolver,
    config: EmbedConfig,
    device: Device,
    pool: Arc<rayon::ThreadPool>,
    slots: Mutex<HashMap<String, Slot>>,
}

impl Registry {
    /// An empty registry.
    ///
    /// # Errors
    /// A device that cannot be used.
    pub fn new(config: EmbedConfig, resolver: Resolver, pool: Arc<rayon::ThreadPool>) -> Result<Self, EmbedError> {
        let device = Device::parse(&config.device)?;
        Ok(Self {
            resolver,
            config,
            device,
            pool,
            slots: Mutex::default(),
        })
    }

    /// Every encoder that can be asked for by id, in order of id: configured, in the catalogue, loaded.
    pub fn known(&self) -> Vec<Known> {
        let mut ids: Vec<String> = self.config.encoders.keys().cloned().collect();
        let catalogue = self
            .resolver
            .catalogue()
            .iter()
            .filter(|entry| entry.kind == ModelKind::Encoder);
        ids.extend(catalogue.map(|entry| entry.id.clone()));
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        ids.extend(
            slots
                .iter()
                .filter(|(_, slot)| slot.initialized())
                .map(|(id, _)| id.clone()),
        );
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter()
            .map(|id| {
                let loaded = slots.get(&id).and_then(|slot| slot.get()).cloned();
                Known { id, loaded }
            })
            .collect()
    }

    /// The encoder of this id, loaded now if it is not yet. Several callers wait for one load; a failed load is tried
    /// again by the next caller.
    ///
    /// # Errors
    /// Unknown id, files that cannot be had or used.
    pub async fn get(&self, id: &str) -> Result<Arc<Loaded>, EmbedError> {
        let place = self.place(id)?;
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.entry(id.to_owned()).or_default().clone()
        };
        let result = slot.get_or_try_init(|| self.load(id, &place)).await.cloned();
        if result.is_err() {
            // Names that lead nowhere leave nothing behind.
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            if slots
                .get(id)
                .is_some_and(|slot| !slot.initialized() && Arc::strong_count(slot) <= 2)
            {
                slots.remove(id);
            }
        }
        result
    }

    /// What the resolver is asked for, if this id may be asked for at all.
    fn place(&self, id: &str) -> Result<String, EmbedError> {
        if let Some(folder) = self.config.encoders.get(id) {
            return Ok(PathBuf::from(".").join(folder).to_string_lossy().into_owned());
        }
        if self.config.allow_paths || self.resolver.entry(id).is_some() {
            return Ok(id.to_owned());
        }
        let known = self
            .known()
            .into_iter()
            .map(|known| known.id)
            .collect::<Vec<_>>()
            .join(", ");
        Err(EmbedError::UnknownEncoder {
            id: id.to_owned(),
            mend: format!("known here: {known}; folders and hub names are not accepted (embed.allow_paths is off)"),
        })
    }

    async fn load(&self, id: &str, place: &str) -> Result<Arc<Loaded>, EmbedError> {
        let started = Instant::now();
        let mut source = self
            .resolver
            .resolve(place, ModelKind::Encoder, &LogProgress::default())
            .await?;
        if self.config.encoders.contains_key(id) {
            id.clone_into(&mut source.id);
        }
        let (path, device, pool) = (source.path.clone(), self.device.clone(), self.pool.clone());
        let limits = Limits {
            batch_tokens: self.config.max_batch_tokens,
            queued_tokens: self.config.max_queued_tokens,
        };
        let name = source.id.clone();
        let (model, engine) = tokio::task::spawn_blocking(move || {
            let model = Arc::new(Model::load(&path, &device)?);
            let engine = Engine::start(&name, model.clone(), limits, pool)?;
            Ok::<_, EmbedError>((model, engine))
        })
        .await
        .map_err(|error| EmbedError::Internal(format!("loading encoder `{id}`: {error}")))??;
        for warning in &model.folder().warnings {
            tracing::warn!(encoder = id, "{warning}");
        }
        tracing::info!(
            encoder = id,
            architecture = model.architecture(),
            dimensions = model.dimensions(),
            device = model.device().name(),
            source = source.source,
            milliseconds = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            "encoder loaded"
        );
        metrics::histogram!("isomer_embed_load_seconds", "encoder" => id.to_owned())
            .record(started.elapsed().as_secs_f64());
        Ok(Arc::new(Loaded { source, model, engine }))
    }
}
