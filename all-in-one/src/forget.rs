//! Forgets texts in every store of a configuration.

use isomer_blobs::BlobStore;
use isomer_embed::cache::forget_all;
use isomer_eval::run::{self, RunRedactions};
#[cfg(feature = "fleet")]
use isomer_fleet::Queue;
use isomer_retention::{
    Amount,
    erasure::{Mode, Removal, Texts, erase},
};
use isomer_segment_log::{Erasure, Mode as EraseMode};
use isomer_service_kit::Fault;
use isomer_transform::forget as generated;
use serde::Serialize;

use crate::IsomerConfig;

/// The result of forgetting, or of a search for the texts.
#[derive(Debug, Clone, Serialize)]
pub struct ErasureReport {
    /// Whether the texts were only searched for.
    pub plan: bool,
    /// Number of texts searched for: those that were given, and those derived from them.
    pub texts: usize,
    /// Entries of the cache of generated texts on this machine.
    pub generated: Amount,
    /// Files of vectors on this machine. All of them are removed, because vectors do not record
    /// their texts.
    pub vectors: Amount,
    /// Entries of the shared store; absent if none is configured.
    pub store: Option<Removal>,
    /// Number of queued units searched; absent if no queue is configured.
    pub queued: Option<usize>,
    /// Records and reports of runs, on this machine and in the ledger.
    pub runs: RunRedactions,
}

/// Forgets texts in all stores that a configuration names: caches on disk, the shared store, the
/// queue, and the runs of this machine and of the ledger. Servers and workers may continue to run;
/// texts in their memory remain until they end.
///
/// # Errors
/// If a store cannot be read or written. Completed changes stay. Another call does the rest, with
/// the same texts and also with the texts derived from those whose entries are already removed.
pub async fn forget(config: &IsomerConfig, mut texts: Texts, mode: Mode) -> Result<ErasureReport, Fault> {
    let home = &config.models.home;
    let blobs = BlobStore::open(&config.store)?;
    let directory = config.transform.cache_directory(home);
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        Fault::unavailable("STORE_UNAVAILABLE", format!("{what}: {error}")).hint("make it usable, and run it again")
    };
    loop {
        let mut new = generated::learn(&directory, &mut texts).map_err(|error| failed("generated texts", &error))?;
        if let Some(blobs) = &blobs {
            let learnt = generated::learn_shared(blobs, &mut texts).await;
            new |= learnt.map_err(|error| failed("the store", &error))?;
        }
        if !new {
            break;
        }
    }
    let mut eval = config.eval.clone();
    eval.home.clone_from(home);
    let runs = run::forget(&eval, &texts, mode).await;
    let runs = runs.map_err(|error| failed("runs", &error))?;
    let erasing = match mode {
        Mode::Plan => EraseMode::Count,
        Mode::Remove => EraseMode::Erase,
    };
    let vectors = match &config.embed.cache_dir {
        Some(root) => forget_all(root, erasing).map_err(|error| failed("vectors", &error))?,
        None => Erasure::default(),
    };
    let store = match &blobs {
        Some(blobs) => Some(
            erase(blobs, &texts, mode)
                .await
                .map_err(|error| failed("the store", &error))?,
        ),
        None => None,
    };
    #[cfg(not(feature = "fleet"))]
    let queued = None;
    #[cfg(feature = "fleet")]
    let queued = match (&store, config.fleet.is_set()) {
        (Some(removed), true) => {
            if mode == Mode::Remove {
                let queue = Box::pin(Queue::connect(&config.fleet)).await?;
                queue.remove(&removed.addresses).await?;
            }
            Some(removed.addresses.len())
        }
        _ => None,
    };
    // This is last, because it determines which texts were derived.
    let generated = generated::forget(&directory, &texts, erasing);
    let generated = generated.map_err(|error| failed("generated texts", &error))?;
    Ok(ErasureReport {
        plan: mode == Mode::Plan,
        texts: texts.count(),
        generated: amount(generated),
        vectors: amount(vectors),
        store,
        queued,
        runs,
    })
}

fn amount(erased: Erasure) -> Amount {
    Amount {
        objects: erased.records,
        bytes: erased.bytes,
    }
}
