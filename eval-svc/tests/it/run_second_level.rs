//! Scores in a shared store: a new machine computes and encodes nothing.

use std::path::Path;

use isomer_blobs::{BlobStore, StoreConfig};
use isomer_eval::Shared;
use isomer_proto::eval::v1::{DeleteRunRequest, Run, RunState};
use isomer_retention::{Amount, Holds, Kind, Policy, Sweep, SweepReport, sweep};
use isomer_stubs::wait::found;
use serde_json::Value;

use crate::run_stubs::{Harness, report_json, run_to_end, spec};

const SUITE: &str = "seeds = [1337]\ntransformations = [\"paraphrase\", \"summarisation\"]\n";

fn blobs(folder: &Path) -> BlobStore {
    let config = StoreConfig {
        url: folder.display().to_string(),
        ..StoreConfig::default()
    };
    BlobStore::open(&config).unwrap().unwrap()
}

fn shared(folder: &Path, class: &str) -> Shared {
    Shared {
        store: Some(Holds::new(blobs(folder))),
        workers: None,
        class: class.to_owned(),
        ..Shared::default()
    }
}

/// A run on a machine without cached data, and its reported profile.
async fn on_new_machine(shared: Shared) -> (Run, Value) {
    let harness = Harness::new();
    let (_service, mut client) = harness.open_with(shared, |_| ()).await;
    let run = run_to_end(&mut client, spec(harness.suite(SUITE), &["stub-a", "stub-b"])).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let report = report_json(&mut client, &run.id).await;
    (run, report)
}

/// Scores without their origin.
fn scores(report: &Value) -> Vec<Value> {
    let mut scores = report["scores"].as_array().unwrap().clone();
    for score in &mut scores {
        score.as_object_mut().unwrap().remove("cached").unwrap();
    }
    scores
}

fn counted(run: &Run) -> (u64, u64, u64) {
    let counters = run.counters.unwrap();
    (counters.texts_encoded, counters.scores_computed, counters.scores_cached)
}

async fn swept(blobs: &BlobStore) -> SweepReport {
    let policy = Policy {
        older_than: std::time::Duration::ZERO,
        forget_runs: None,
        settle: std::time::Duration::ZERO,
    };
    sweep(blobs, policy, Sweep::Remove, &|_| ()).await.unwrap()
}

#[tokio::test]
async fn a_new_machine_scores_nothing_and_encodes_nothing_and_reports_the_same() {
    let store = tempfile::tempdir().unwrap();
    let (first, made) = on_new_machine(shared(store.path(), "avx2")).await;
    let (encoded, computed, cached) = counted(&first);
    assert!(encoded > 0 && computed > 0 && cached == 0, "{first:?}");
    let (second, found) = on_new_machine(shared(store.path(), "avx2")).await;
    assert_eq!(counted(&second), (0, 0, computed));
    for part in ["profile", "separation", "truncation"] {
        assert!(found[part] == made[part], "{part}");
    }
    assert!(!made["profile"].is_null() && !made["separation"].is_null());
    assert_eq!(scores(&found), scores(&made));
    // Vectors of another class may differ in the last bit, so the texts are encoded and scored
    // again.
    let (other, _) = on_new_machine(shared(store.path(), "avx512")).await;
    assert_eq!(counted(&other), (encoded, computed, 0));
    let (alone, without) = on_new_machine(Shared::default()).await;
    assert_eq!(
        (counted(&alone), &without["profile"]),
        (counted(&first), &made["profile"])
    );
}

#[tokio::test]
async fn a_damaged_score_is_computed_again() {
    let store = tempfile::tempdir().unwrap();
    let (first, made) = on_new_machine(shared(store.path(), "avx2")).await;
    let scores = store.path().join("scores/avx2");
    let shards = std::fs::read_dir(scores).unwrap().map(|shard| shard.unwrap().path());
    let files = shards.flat_map(|shard| std::fs::read_dir(shard).unwrap().map(|file| file.unwrap().path()));
    let score = files
        .into_iter()
        .find(|file| file.extension().is_some_and(|part| part == "score"));
    std::fs::write(score.unwrap(), b"{}").unwrap();
    let (second, found) = on_new_machine(shared(store.path(), "avx2")).await;
    let (_, computed, cached) = counted(&second);
    assert_eq!((computed, cached), (1, counted(&first).1 - 1));
    assert_eq!(found["profile"], made["profile"]);
}

#[tokio::test]
async fn a_store_that_is_gone_costs_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let gone = shared(&store, "avx2");
    std::fs::remove_dir_all(&store).unwrap();
    std::fs::write(&store, b"").unwrap();
    let (run, report) = on_new_machine(gone).await;
    let (alone, without) = on_new_machine(Shared::default()).await;
    assert_eq!(
        (counted(&run), &report["profile"]),
        (counted(&alone), &without["profile"])
    );
}

#[tokio::test]
async fn scores_are_kept_until_the_run_is_deleted() {
    let store = tempfile::tempdir().unwrap();
    let blobs = blobs(store.path());
    let harness = Harness::new();
    let (_service, mut client) = harness.open_with(shared(store.path(), "avx2"), |_| ()).await;
    let run = run_to_end(&mut client, spec(harness.suite(SUITE), &["stub-a"])).await;
    assert_eq!(swept(&blobs).await.total(), Amount::default());
    client.delete_run(DeleteRunRequest { id: run.id }).await.unwrap();
    // The run's references are removed from the store in the background.
    let removed = async || Some(swept(&blobs).await).filter(|swept| swept.total() != Amount::default());
    let removed = found("something is removed", removed).await.removed;
    assert!(
        removed.get(&Kind::Scores).is_some_and(|scores| scores.objects > 5),
        "{removed:?}"
    );
    assert_eq!(swept(&blobs).await.held, Amount::default());
}
