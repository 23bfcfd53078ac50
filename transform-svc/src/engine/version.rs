//! Stored answers of another version of a generator's model.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use isomer_proto::transform::v1::OnFingerprintChange;
use tokio::sync::OnceCell;

use super::{
    cache_access::CacheAccess,
    inflight::{GenerationResult, ProduceError},
};
use crate::cache::Key;

/// The version that the server names in this request, if stored answers of other versions are
/// generated again; `None` if they are used.
pub(crate) type CurrentVersion = Option<Arc<OnceCell<String>>>;

/// Reads the setting of a request.
pub(crate) fn current_version(on_change: Option<OnFingerprintChange>) -> CurrentVersion {
    (on_change == Some(OnFingerprintChange::Regenerate)).then(Arc::default)
}

type Produced = (Key, Result<GenerationResult, ProduceError>);

/// An answer of the current version. `produce` returns the answer for a name of the generator and
/// a use of the caches. The first stored answer of a request is asked for again, past the caches,
/// to learn the current version.
pub(super) async fn of_version<F: Future<Output = Produced>>(
    version: &CurrentVersion,
    identity: &str,
    access: CacheAccess,
    produce: impl Fn(String, CacheAccess) -> F,
) -> Produced {
    let (key, found) = produce(identity.to_owned(), access).await;
    let (Some(version), Ok(stored)) = (version, &found) else {
        return (key, found);
    };
    if stored.fresh || access == CacheAccess::ReadOnly {
        return (key, found);
    }
    let calls = AtomicU64::new(0);
    let asked = version.get_or_try_init(|| async {
        let fresh = produce(identity.to_owned(), CacheAccess::Bypass).await.1?;
        calls.store(fresh.usage.generator_calls, Ordering::Relaxed);
        Ok(fresh.entry.fingerprint)
    });
    let (key, found) = match asked.await {
        Ok(version) if *version == stored.entry.fingerprint => (key, found),
        Ok(version) => produce(format!("{identity}#version={version}"), access).await,
        Err(error) => (key, Err(error)),
    };
    let with_calls = |mut produced: GenerationResult| {
        produced.usage.generator_calls += calls.into_inner();
        produced
    };
    (key, found.map(with_calls))
}
