#![allow(clippy::unwrap_used)]

use std::path::Path;

use isomer_blobs::StoreConfig;

use super::*;

const WEIGHTS: &str = "1f2e3d4c5b6a79880123456789abcdef1f2e3d4c5b6a79880123456789abcdef";

fn blobs(folder: &Path) -> BlobStore {
    let config = StoreConfig {
        url: folder.display().to_string(),
        ..StoreConfig::default()
    };
    BlobStore::open(&config).unwrap().unwrap()
}

fn key(n: u32) -> Key {
    let mut key = [0; 32];
    key[..4].copy_from_slice(&n.to_le_bytes());
    key
}

fn vector(n: u32) -> Vec<f32> {
    (0..4).map(|i| 1.0 / (n * 4 + i + 3) as f32).collect()
}

fn some(numbers: std::ops::Range<u32>) -> Vec<(Key, Vec<f32>)> {
    numbers.map(|n| (key(n), vector(n))).collect()
}

fn keys(numbers: std::ops::Range<u32>) -> Vec<Key> {
    numbers.map(key).collect()
}

/// Vectors as a separate process would open them.
fn process(folder: &Path, class: &str) -> SharedVectors {
    SharedVectors::new(blobs(folder), class)
}

#[tokio::test]
async fn another_process_finds_every_vector_to_the_last_bit() {
    let folder = tempfile::tempdir().unwrap();
    let first = process(folder.path(), "x86_64 avx2");
    let space = first.space(WEIGHTS, "space", 4).unwrap();
    // More than one segment, in overlapping batches.
    for begin in (0..2000).step_by(200) {
        space.put(some(begin..begin + 300));
    }
    first.flush().await;
    let other = process(folder.path(), "x86_64 avx2");
    let space = other.space(WEIGHTS, "space", 4).unwrap();
    let found = space.get(&keys(0..2101)).await;
    for (n, found) in (0..2100).zip(&found) {
        assert_eq!(found.as_deref(), Some(&vector(n)[..]), "{n}");
    }
    assert_eq!(found[2100], None);
}

#[tokio::test]
async fn vectors_of_another_space_class_or_model_are_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let first = process(folder.path(), "x86_64 avx2");
    first.space(WEIGHTS, "space", 4).unwrap().put(some(0..3));
    first.flush().await;
    let other_weights = WEIGHTS.replace('1', "2");
    let found = async |class: &str, weights: &str, space: &str| {
        let process = process(folder.path(), class);
        let space = process.space(weights, space, 4).unwrap();
        space.get(&keys(0..3)).await.iter().flatten().count()
    };
    assert_eq!(found("x86_64 avx2", WEIGHTS, "space").await, 3);
    assert_eq!(found("x86_64 avx512", WEIGHTS, "space").await, 0);
    assert_eq!(found("x86_64 avx2", WEIGHTS, "other").await, 0);
    assert_eq!(found("x86_64 avx2", &other_weights, "space").await, 0);
    assert!(first.space("", "space", 4).is_none());
}

#[tokio::test]
async fn what_is_not_finite_or_damaged_is_computed_again() {
    let folder = tempfile::tempdir().unwrap();
    let first = process(folder.path(), "avx2");
    let space = first.space(WEIGHTS, "space", 4).unwrap();
    space.put(vec![
        (key(0), vec![f32::NAN; 4]),
        (key(1), vec![0.5; 3]),
        (key(2), vector(2)),
    ]);
    first.flush().await;
    let found = process(folder.path(), "avx2")
        .space(WEIGHTS, "space", 4)
        .unwrap()
        .get(&keys(0..3))
        .await;
    assert_eq!(found, [None, None, Some(vector(2))]);
    // Flips one bit of the vectors.
    let stored = files(folder.path())
        .into_iter()
        .find(|file| file.to_string_lossy().ends_with(".vectors"));
    let stored = stored.unwrap();
    let mut bytes = std::fs::read(&stored).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&stored, bytes).unwrap();
    let second = process(folder.path(), "avx2");
    let space = second.space(WEIGHTS, "space", 4).unwrap();
    assert_eq!(space.get(&keys(2..3)).await, [None]);
    // The vector is written again. Later readers find it, whichever of the two segments they read
    // first.
    space.put(some(2..3));
    second.flush().await;
    for _ in 0..20 {
        let third = process(folder.path(), "avx2");
        let space = third.space(WEIGHTS, "space", 4).unwrap();
        assert_eq!(space.get(&keys(2..3)).await, [Some(vector(2))]);
    }
}

#[tokio::test]
async fn a_vector_of_a_damaged_segment_is_found_where_else_it_is() {
    let folder = tempfile::tempdir().unwrap();
    // Three processes that do not see each other's work.
    let processes: Vec<_> = (0..3).map(|_| process(folder.path(), "avx2")).collect();
    for process in &processes {
        process.space(WEIGHTS, "space", 4).unwrap().put(some(0..8));
        process.flush().await;
    }
    let reader = process(folder.path(), "avx2");
    let space = reader.space(WEIGHTS, "space", 4).unwrap();
    let segments: Vec<_> = files(folder.path())
        .into_iter()
        .filter(|file| file.extension().is_some_and(|end| end == "vectors"))
        .collect();
    assert_eq!(segments.len(), 3);
    // The indexes have been read, but no segment yet.
    assert_eq!(space.get(&keys(8..9)).await, [None]);
    std::fs::remove_file(&segments[0]).unwrap();
    std::fs::write(&segments[1], b"damaged").unwrap();
    let found = space.get(&keys(0..8)).await;
    assert!(
        found
            .iter()
            .zip(0..8)
            .all(|(found, n)| found.as_ref() == Some(&vector(n)))
    );
    // If all copies are lost, the vectors are computed again.
    std::fs::remove_file(&segments[2]).unwrap();
    let later = process(folder.path(), "avx2");
    let space = later.space(WEIGHTS, "space", 4).unwrap();
    assert!(space.get(&keys(0..8)).await.iter().all(Option::is_none));
}

#[tokio::test]
async fn a_store_that_fails_costs_neither_an_answer_nor_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let shared = process(&store, "avx2");
    let space = shared.space(WEIGHTS, "space", 4).unwrap();
    // A file in place of a folder.
    std::fs::remove_dir_all(&store).unwrap();
    std::fs::write(&store, b"").unwrap();
    space.put(some(0..3));
    shared.flush().await;
    assert_eq!(space.get(&keys(0..3)).await, [None, None, None]);
    space.put(some(0..3));
    shared.flush().await;
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(files(&path)),
            false => all.push(path),
        }
    }
    all
}
