//! Vectors in a shared store, through the service.

use std::path::{Path, PathBuf};

use isomer_blobs::{BlobStore, StoreConfig};
use isomer_embed::SharedVectors;
use isomer_proto::encoder::v1::{EncodeRequest, EncodeResponse, Priority};
use isomer_service_kit::Tenant;

use crate::common::harness::{Harness, request};

const TEXTS: [&str; 5] = ["a b", "c", "a b", "", "query: a"];

pub(crate) fn shared(folder: &Path, class: &str) -> SharedVectors {
    let config = StoreConfig {
        url: folder.display().to_string(),
        ..StoreConfig::default()
    };
    SharedVectors::new(BlobStore::open(&config).unwrap().unwrap(), class)
}

fn batch(inputs: &[&str]) -> EncodeRequest {
    EncodeRequest {
        priority: Priority::Batch.into(),
        ..request(inputs)
    }
}

/// Number of cached texts, and of tokens that the model processed.
fn cost(answer: &EncodeResponse) -> (u64, u64) {
    let usage = answer.usage.as_ref().unwrap();
    (usage.cached_texts, usage.tokens)
}

/// A machine with or without a cache on disk.
async fn machine(shared: &SharedVectors, cache: Option<PathBuf>) -> Harness {
    Harness::with_shared(Some(shared.clone()), |_, config| config.cache_dir = cache).await
}

#[tokio::test]
async fn a_new_machine_encodes_nothing_that_another_has_encoded_and_gets_the_same_bits() {
    let store = tempfile::tempdir().unwrap();
    let first = shared(store.path(), "avx2");
    let made = machine(&first, None).await.encode(batch(&TEXTS)).await;
    assert_eq!(cost(&made).0, 0);
    first.flush().await;
    for (cached, new) in [(false, "d e"), (true, "f g")] {
        let disk = tempfile::tempdir().unwrap();
        let cache = cached.then(|| disk.path().to_path_buf());
        let second = shared(store.path(), "avx2");
        let mut machine = machine(&second, cache).await;
        let found = machine.encode(batch(&TEXTS)).await;
        assert_eq!(found.embeddings, made.embeddings, "bit for bit");
        assert_eq!(found.vector_space, made.vector_space);
        assert_eq!(cost(&found), (5, 0));
        // From then on the machine's cache has them, for all callers.
        let interactive = machine.encode(request(&TEXTS)).await;
        assert_eq!(interactive.embeddings, made.embeddings);
        assert_eq!(cost(&interactive).0, if cached { 5 } else { 0 });
        let more = machine.encode(batch(&[new, "c"])).await;
        assert_eq!(cost(&more).0, 1);
    }
}

#[tokio::test]
async fn another_class_of_arithmetic_or_an_interactive_request_finds_nothing() {
    let store = tempfile::tempdir().unwrap();
    let first = shared(store.path(), "avx2");
    let mut machine_of_first = machine(&first, None).await;
    // Vectors of interactive requests are not written either.
    machine_of_first.encode(request(&["only interactive"])).await;
    machine_of_first.encode(batch(&TEXTS)).await;
    first.flush().await;
    let other = machine(&shared(store.path(), "avx512"), None)
        .await
        .encode(batch(&TEXTS))
        .await;
    assert_eq!(cost(&other).0, 0);
    let mut same = machine(&shared(store.path(), "avx2"), None).await;
    assert_eq!(cost(&same.encode(request(&TEXTS)).await).0, 0);
    assert_eq!(cost(&same.encode(batch(&["only interactive"])).await).0, 0);
    assert_eq!(cost(&same.encode(batch(&TEXTS)).await), (5, 0));
}

#[tokio::test]
async fn a_store_that_is_gone_costs_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let shared = shared(&store, "avx2");
    std::fs::remove_dir_all(&store).unwrap();
    std::fs::write(&store, b"").unwrap();
    let mut machine = machine(&shared, None).await;
    let plain = Harness::plain().await.encode(request(&TEXTS)).await;
    for _ in 0..2 {
        let answer = machine.encode(batch(&TEXTS)).await;
        assert_eq!(answer.embeddings, plain.embeddings);
        shared.flush().await;
    }
}

#[tokio::test]
async fn a_tenants_vectors_are_found_by_that_tenant_alone() {
    let tenants = [
        Tenant::of_account(b"secret", "key:one"),
        Tenant::of_account(b"secret", "key:two"),
        Tenant::default(),
    ];
    // With and without a cache on disk, and in the store.
    for disk in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store");
        let vectors = shared(&store, "avx2");
        let mut first = machine(&vectors, disk.then(|| folder.path().join("cache"))).await;
        let mut found = Vec::new();
        for tenant in tenants.iter().chain(&tenants) {
            found.push(cost(&first.encode_for(tenant, batch(&TEXTS)).await).0);
        }
        assert_eq!(found[..3], [0, 0, 0], "each computes its own");
        assert!(!disk || found[3..] == [5, 5, 5], "and finds them: {found:?}");
        vectors.flush().await;
        let mut other = machine(&shared(&store, "avx2"), None).await;
        for tenant in &tenants {
            assert_eq!(cost(&other.encode_for(tenant, batch(&TEXTS)).await).0, 5);
        }
        let unknown = Tenant::of_account(b"another secret", "key:one");
        assert_eq!(cost(&other.encode_for(&unknown, batch(&TEXTS)).await).0, 0);
    }
}
