//! The available encoders, and those that are loaded.

mod model_cache;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use isomer_models::{ModelKind, ResolvedModel, Resolver, progress::LogProgress};
use isomer_proto::common::v1::{Dtype, VectorSpace};
use isomer_segment_log::{Hourly, MaxAge};
use isomer_service_kit::{config::spelling::LONGEST_ID, vectors::Ranges};

use crate::{
    cache::{Bounds, VectorCache},
    config::EmbedConfig,
    device::Device,
    engine::{Common, Engine, Limits, LostDevice, Replica},
    error::EmbedError,
    folder::ModelFolder,
    model::Model,
    shared::{SharedSpace, SharedVectors},
    space, weights,
};
use model_cache::ModelCache;

/// A loaded encoder, ready to run.
pub struct LoadedEncoder {
    /// Its origin.
    pub source: ResolvedModel,
    pub model: Arc<Model>,
    /// The engine that runs it.
    pub engine: Engine,
    /// The cache of its vectors, if enabled.
    pub cache: Option<Arc<VectorCache>>,
    _aging: Option<Hourly>,
    /// Its vectors in the store that machines share, if there is one.
    pub(crate) shared: Option<SharedSpace>,
    /// Ranges of int8 vectors computed so far, by dimensions and normalisation.
    pub ranges: tokio::sync::Mutex<HashMap<(usize, bool), Arc<Ranges>>>,
}

pub struct AvailableEncoder {
    pub id: String,
    /// The encoder, if it is in memory.
    pub loaded: Option<Arc<LoadedEncoder>>,
}

/// Loads encoders on demand, each only once, within a memory bound.
pub struct Registry {
    resolver: Resolver,
    config: EmbedConfig,
    placements: Arc<Vec<ReplicaPlacement>>,
    model_cache: ModelCache<LoadedEncoder>,
    shared: Option<SharedVectors>,
    common: Common,
}

impl Registry {
    /// An empty registry.
    ///
    /// # Errors
    /// If a device cannot be used or no threads can be started.
    pub fn new(config: EmbedConfig, resolver: Resolver, shared: Option<SharedVectors>) -> Result<Self, EmbedError> {
        isomer_service_kit::metric_names::describe(crate::metric_names::ALL);
        Ok(Self {
            resolver: resolver.with_names(config.encoders.clone()),
            model_cache: ModelCache::new(config.max_model_bytes),
            placements: Arc::new(places(&config)?),
            config,
            shared,
            common: Common::default(),
        })
    }

    /// The device that has failed permanently, if there is one.
    pub fn lost(&self) -> &LostDevice {
        &self.common.lost
    }

    /// Finds the files of encoders, also of those that the configuration names.
    pub fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// Makes the files of an encoder available that the configuration names.
    ///
    /// # Errors
    /// If they cannot be fetched or used.
    pub async fn fetch(&self, id: &str) -> Result<(), EmbedError> {
        self.permit(id)?;
        self.resolver
            .resolve(id, ModelKind::Encoder, &LogProgress::default())
            .await?;
        Ok(())
    }

    /// Every encoder with an id, in order of id: configured, in the catalogue, or loaded.
    pub fn known(&self) -> Vec<AvailableEncoder> {
        let mut ids: Vec<String> = self.config.encoders.keys().cloned().collect();
        let catalogue = self
            .resolver
            .catalogue()
            .iter()
            .filter(|entry| entry.kind == ModelKind::Encoder);
        ids.extend(catalogue.map(|entry| entry.id.clone()));
        let mut loaded = self.model_cache.all();
        ids.extend(loaded.keys().cloned());
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter()
            .map(|id| AvailableEncoder {
                loaded: loaded.remove(&id),
                id,
            })
            .collect()
    }

    /// The encoder of this id, loaded now if necessary. Concurrent callers wait for one load
    /// (single-flight); after a failed load the next caller tries again.
    ///
    /// # Errors
    /// If the id is unknown, the files cannot be fetched or used, or memory is insufficient.
    pub async fn get(&self, id: &str) -> Result<Arc<LoadedEncoder>, EmbedError> {
        self.permit(id)?;
        self.model_cache.get(id, || self.load(id)).await
    }

    /// Refuses an id that requests may not use.
    fn permit(&self, id: &str) -> Result<(), EmbedError> {
        if id.len() > LONGEST_ID {
            return Err(EmbedError::invalid(
                "encoder_id",
                format!("an id of {} bytes", id.len()),
                format!("give an id of at most {LONGEST_ID} bytes; ListEncoders lists them"),
            ));
        }
        if self.config.allow_paths || self.resolver.is_name(id) || self.resolver.entry(id).is_some() {
            return Ok(());
        }
        let known = self
            .known()
            .into_iter()
            .map(|known| known.id)
            .collect::<Vec<_>>()
            .join(", ");
        Err(EmbedError::UnknownEncoder {
            id: id.to_owned(),
            hint: format!("known here: {known}; folders and hub names are not accepted (embed.allow_paths is off)"),
        })
    }

    async fn load(&self, id: &str) -> Result<(Arc<LoadedEncoder>, model_cache::Room<'_, LoadedEncoder>), EmbedError> {
        let started = Instant::now();
        let source = self
            .resolver
            .for_requests()
            .resolve(id, ModelKind::Encoder, &LogProgress::default())
            .await?;
        let copies = self
            .placements
            .iter()
            .filter(|place| !place.device.is_cpu())
            .count()
            .max(1);
        let bytes = memory_bytes(&source.path, &self.placements[0].device).saturating_mul(copies as u64);
        let room = self.model_cache.room(id, bytes)?;
        let (placements, config, shared) = (self.placements.clone(), self.config.clone(), self.shared.clone());
        let common = self.common.clone();
        let loaded = tokio::task::spawn_blocking(move || open(source, &placements, &config, shared.as_ref(), common))
            .await
            .map_err(|error| EmbedError::Internal(format!("loading encoder `{id}`: {error}")))??;
        let model = &loaded.model;
        for warning in &model.folder().warnings {
            tracing::warn!(encoder = id, "{warning}");
        }
        tracing::info!(
            encoder = id,
            architecture = model.architecture(),
            dimensions = model.dimensions(),
            device = self.placements.iter().map(|place| place.device.name()).collect::<Vec<_>>().join(","),
            backend = model.device().backend(),
            precision = ?model.device().precision(),
            source = loaded.source.source,
            milliseconds = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            "encoder loaded"
        );
        metrics::histogram!(crate::metric_names::LOAD, "encoder" => id.to_owned())
            .record(started.elapsed().as_secs_f64());
        Ok((Arc::new(loaded), room))
    }
}

/// The location of one replica of each model.
struct ReplicaPlacement {
    device: Device,
    pool: Arc<rayon::ThreadPool>,
    /// Threads of interactive batches; on a GPU the same as the others.
    interactive: Arc<rayon::ThreadPool>,
}

/// The configured devices; the CPU once per replica, with its threads divided among the replicas.
fn places(config: &EmbedConfig) -> Result<Vec<ReplicaPlacement>, EmbedError> {
    let pool = |threads: usize, name: &'static str| {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(move |number| format!("embed-{name}-{number}"))
            .build()
            .map(Arc::new)
            .map_err(|error| EmbedError::Internal(format!("no threads: {error}")))
    };
    let devices = Device::open(&config.device, config.precision, config.backend)?;
    let threads = match config.threads {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        threads => threads,
    };
    match &devices[..] {
        [device] if device.is_cpu() => {
            let share = |number: usize| threads / config.replicas + usize::from(number < threads % config.replicas);
            let place = |number| {
                Ok(ReplicaPlacement {
                    device: device.clone(),
                    pool: pool(share(number).max(1), "compute")?,
                    // As many threads again: while they compute, the others pause.
                    interactive: pool(share(number).max(1), "query")?,
                })
            };
            (0..config.replicas).map(place).collect()
        }
        _ => {
            // The CPU has little work left.
            let pool = pool(threads, "compute")?;
            let place = |device| ReplicaPlacement {
                device,
                pool: pool.clone(),
                interactive: pool.clone(),
            };
            Ok(devices.into_iter().map(place).collect())
        }
    }
}

/// Loads a model, once on the CPU and once on each other device, and starts its engine.
fn open(
    source: ResolvedModel,
    placements: &[ReplicaPlacement],
    config: &EmbedConfig,
    shared: Option<&SharedVectors>,
    common: Common,
) -> Result<LoadedEncoder, EmbedError> {
    let mut replicas: Vec<Replica> = Vec::with_capacity(placements.len());
    for ReplicaPlacement {
        device,
        pool,
        interactive,
    } in placements
    {
        let model = match replicas.first().filter(|_| device.is_cpu()) {
            Some(first) => first.model.clone(),
            None => Arc::new(Model::of(
                ModelFolder::of_source(&source.path, &source.source)?,
                device,
            )?),
        };
        replicas.push(Replica {
            model,
            pool: pool.clone(),
            interactive: interactive.clone(),
        });
    }
    let Some(model) = replicas.first().map(|first| first.model.clone()) else {
        return Err(EmbedError::Internal("no device".into()));
    };
    let limits = Limits {
        batch_tokens: config.max_batch_tokens,
        queued_tokens: config.max_queued_tokens,
    };
    let engine = Engine::start_beside(&source.id, replicas, limits, common)?;
    let (cache, aging) = match &config.cache_dir {
        Some(root) if model.has_text_vectors() => {
            let space = cached_space(&source, &model, config);
            let bounds = Bounds {
                bytes: config.max_cache_bytes,
                age: MaxAge::days(config.max_cache_days),
            };
            let opened = VectorCache::open(root, &space, model.dimensions(), bounds)
                .map(Arc::new)
                .and_then(|cache| Ok((VectorCache::expire_hourly(&cache)?, cache)));
            let (aging, cache) = opened.map_err(|error| {
                EmbedError::file(
                    root,
                    format!("vectors cannot be kept here: {error}"),
                    "name a folder that can be written as embed.cache_dir, or leave it out",
                )
            })?;
            (Some(cache), aging)
        }
        _ => (None, None),
    };
    // Vectors of a GPU may differ in their last bits from those of another kind of GPU, and
    // Candle's may differ by processor. The shared store's class of arithmetic describes only our
    // kernels.
    let on_kernels = placements.iter().all(|place| place.device.is_cpu()) && model.device().is_cpu();
    let shared = shared
        .filter(|_| on_kernels && model.has_text_vectors())
        .and_then(|shared| {
            let space = cached_space(&source, &model, config);
            shared.space(&source.weights_digest, &space, model.dimensions())
        });
    Ok(LoadedEncoder {
        source,
        model,
        engine,
        cache,
        _aging: aging,
        shared,
        ranges: tokio::sync::Mutex::default(),
    })
}

/// Digest of the space of the cached vectors: full width, before a final normalisation, whatever
/// the prompt (its tokens are in the key). The kind of device, the class of arithmetic and the
/// version of this program are included, because they may change the last bits of a vector.
fn cached_space(source: &ResolvedModel, model: &Model, config: &EmbedConfig) -> String {
    space::digest(&VectorSpace {
        model_id: source.id.clone(),
        weights_digest: source.weights_digest.clone(),
        settings_digest: model.settings_digest().to_owned(),
        pooling: format!(
            "{} {} {} {}",
            model.pipeline(),
            model.device().kind(),
            config.class(),
            env!("CARGO_PKG_VERSION")
        ),
        dimensions: u32::try_from(model.dimensions()).unwrap_or(u32::MAX),
        dtype: Dtype::F32.into(),
        ..VectorSpace::default()
    })
}

/// The files that contain a model's weights: its safetensors files, or its text file.
fn weight_files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_path_buf()];
    }
    let Ok(entries) = std::fs::read_dir(path) else {
        return Vec::new();
    };
    entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.is_dir() || path.extension().is_some_and(|extension| extension == "safetensors"))
        .flat_map(|path| weight_files(&path))
        .collect()
}

fn file_bytes(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |meta| meta.len())
}

/// Bytes of a model's weights as files.
pub(crate) fn weight_bytes(path: &Path) -> u64 {
    weight_files(path).iter().map(|file| file_bytes(file)).sum()
}

/// Bytes of a model's weights in memory: a file in 16 bits takes twice its size in `f32`. A file
/// that cannot be read counts with its size; loading it fails.
pub fn memory_bytes(path: &Path, device: &Device) -> u64 {
    let width = device.weight_width();
    let of = |file: &PathBuf| weights::values(file).map_or_else(|| file_bytes(file), |values| values * width);
    weight_files(path).iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::device::{CpuBackend, Precision};

    #[test]
    fn room_is_counted_in_the_precision_that_computes() {
        let folder = |name: &str| Path::new(".").join("tests/fixtures").join(name);
        // Bytes of the file without its header, and bytes per value.
        for (name, width) in [("qwen3", 2), ("new", 2), ("roberta", 4)] {
            let path = folder(name).join("model.safetensors");
            let file = std::fs::read(&path).unwrap();
            let header = u64::from_le_bytes(file[..8].try_into().unwrap());
            let values = (file.len() as u64 - 8 - header) / width;
            for (precision, backend, bytes) in [
                (Precision::F32, CpuBackend::Kernels, 4),
                (Precision::Int8, CpuBackend::Kernels, 4),
                (Precision::Bf16, CpuBackend::Kernels, 4),
                (Precision::F16, CpuBackend::Candle, 2),
                (Precision::Bf16, CpuBackend::Candle, 2),
            ] {
                let device = &Device::open("cpu", precision, backend).unwrap()[0];
                assert_eq!(memory_bytes(&path, device), values * bytes, "{name} {device:?}");
            }
        }
        let text = folder("glove_text").join("glove.txt");
        assert_eq!(memory_bytes(&text, &Device::Cpu), weight_bytes(&text));
    }
}
