//! A run that ends anywhere is resumed: no row is missing, none is stored twice.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use isomer_index::{IndexError, run, verify};
use isomer_proto::encoder::v1::EncodeRequest;
use isomer_stubs::encoder::texts;
use tonic::Status;

use crate::support::{all, encoder, fill, open, rows, settings, source, stub, vector_of, write};

/// Fills a collection with runs that are dropped in the middle, wherever they are, until one ends.
async fn kill(address: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docs.jsonl");
    write(&path, &rows(60));
    let stub = stub("w1");
    let (mut killed, mut at) = (0, 1);
    let last = loop {
        let encoder = encoder(&stub).await;
        let store = open(address);
        // Dropped at the n-th batch that is done, with others of it in flight.
        let done = Arc::new(AtomicUsize::new(0));
        let stop = Arc::new(tokio::sync::Notify::new());
        let watch = |_: &run::Counts| {
            if done.fetch_add(1, Ordering::SeqCst) + 1 == at {
                stop.notify_one();
            }
        };
        let source = source(&path);
        let settings = settings();
        let ended = tokio::select! {
            biased;
            () = stop.notified() => None,
            outcome = run::run(&source, store.as_ref(), &encoder, &settings, &watch) => Some(outcome.unwrap()),
        };
        match ended {
            Some(outcome) => break outcome,
            None => killed += 1,
        }
        at += 1;
        assert!(killed < 40, "no run ends");
    };
    assert!(killed >= 3, "{killed} runs were killed: the test tries nothing");
    assert_eq!(last.counts.documents, 60);
    let stored = all(address).await;
    assert_eq!(stored.len(), 60);
    let everything = verify::Settings {
        share: 1.0,
        seed: 0,
        tolerance: 1e-4,
    };
    let store = open(address);
    let found = verify::verify(Some(&source(&path)), store.as_ref(), &encoder(&stub).await, everything)
        .await
        .unwrap();
    assert!(found.is_sound() && found.sampled == 60, "{found:?}");
    // The same harness finds a row that is missing.
    store.create(&found.mark).await.unwrap();
    store.write(&[], &["k33".to_owned()]).await.unwrap();
    store.settle().await.unwrap();
    drop(store);
    let found = verify::verify(
        Some(&source(&path)),
        open(address).as_ref(),
        &encoder(&stub).await,
        everything,
    )
    .await
    .unwrap();
    assert_eq!(found.source.unwrap().missing.keys, ["k33"]);
}

#[tokio::test]
async fn a_folder_survives_killed_runs() {
    let folder = tempfile::tempdir().unwrap();
    Box::pin(kill(folder.path().join("vectors").to_str().unwrap())).await;
}

#[tokio::test]
async fn pgvector_survives_killed_runs() {
    let Some(url) = crate::servers::pgvector("index_killed").await else {
        return;
    };
    Box::pin(kill(&format!("{url}#docs"))).await;
}

#[tokio::test]
async fn a_store_over_http_survives_killed_runs() {
    Box::pin(kill(&format!("qdrant+{}#docs", crate::servers::qdrant().await))).await;
}

#[tokio::test]
async fn a_store_over_grpc_survives_killed_runs() {
    Box::pin(kill(&format!("milvus+{}#docs", crate::milvus::server().await))).await;
}

#[tokio::test]
async fn an_encoder_that_changes_its_space_in_the_middle_stores_nothing_of_the_second() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docs.jsonl");
    write(&path, &rows(60));
    let address = folder.path().join("vectors").to_str().unwrap().to_owned();
    let calls = Arc::new(AtomicUsize::new(0));
    let changing = {
        let calls = Arc::clone(&calls);
        stub("w1").on_encode(move |request| {
            let second = calls.fetch_add(1, Ordering::SeqCst) >= 4;
            async move {
                let weights = if second { "w2" } else { "w1" };
                let request: EncodeRequest = request.into_inner();
                let mut answered = isomer_stubs::encoder::answer(
                    texts(&request).map(|text| vector_of(weights, "document: ", text)),
                    4,
                );
                answered.vector_space = Some(isomer_proto::common::v1::VectorSpace {
                    digest: weights.to_owned(),
                    model_id: "stub".to_owned(),
                    dimensions: 8,
                    ..Default::default()
                });
                Ok::<_, Status>(answered)
            }
        })
    };
    let refused = fill(&path, &address, &changing, &settings()).await.unwrap_err();
    assert!(refused.to_string().contains("changed from `w1` to `w2`"), "{refused}");
    assert!(matches!(refused, IndexError::Encoder(_)));
    assert!(calls.load(Ordering::SeqCst) >= 5);
}

#[tokio::test]
async fn a_key_that_is_there_twice_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docs.jsonl");
    let mut documents = rows(30);
    documents[20].0 = "k3".to_owned();
    write(&path, &documents);
    let address = folder.path().join("vectors").to_str().unwrap().to_owned();
    let refused = fill(&path, &address, &stub("w1"), &settings()).await.unwrap_err();
    assert!(
        matches!(&refused, IndexError::SameKey { key } if key == "k3"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_rate_holds_a_run_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docs.jsonl");
    write(&path, &rows(60));
    let slow = run::Settings {
        rows_per_second: 40.0,
        ..settings()
    };
    let begun = tokio::time::Instant::now();
    fill(&path, folder.path().join("slow").to_str().unwrap(), &stub("w1"), &slow)
        .await
        .unwrap();
    // 40 at once, the other 20 at 40 a second; the last batch need not wait for its own rows.
    assert!(begun.elapsed() >= Duration::from_millis(250), "{:?}", begun.elapsed());
}
