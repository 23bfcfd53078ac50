//! If a worker generated a text but did not respond, the worker that repeats the dispatch counts
//! it: once, whichever cache contains it.

use std::{path::Path, time::Duration};

use isomer_blobs::{BlobStore, StoreConfig};
use isomer_proto::transform::v1::{
    CrossTranslation, JudgeRequest, JudgeScale, TextItem, TransformRequest, TransformResponse, TransformSpec,
    judge_request::Pair, transformation::Kind,
};
use isomer_retention::{Holder, Holds, Policy, Sweep, release, sweep};
use isomer_service_kit::dispatch::with_dispatch;
use isomer_service_kit::holder::with_holder;
use isomer_stubs::openai::{Answer, Stub};
use isomer_transform::{TransformService, cache::SharedCache};
use uuid::Uuid;

use crate::support::{Client, client_of, config, items, paraphrase, resolver, spec};

const TEXTS: [&str; 4] = [
    "The committee meets on the first Monday of every month.",
    "A small dog runs across the wet grass in the park.",
    "Where can I change money on a Sunday afternoon?",
    "The ferry to the island leaves from the second pier.",
];

/// A worker with its own cache, and the shared store.
async fn worker(stub: &Stub, home: &Path, name: &str) -> Client {
    let own = home.join(name);
    let store = StoreConfig {
        url: home.join("store").display().to_string(),
        ..StoreConfig::default()
    };
    let shared = SharedCache::new(Holds::new(BlobStore::open(&store).unwrap().unwrap()), "class");
    let service = TransformService::with_shared(config(stub, &own), resolver(&own), Some(shared), None).unwrap();
    client_of(service).await
}

async fn transform(
    client: &mut Client,
    spec: TransformSpec,
    items: Vec<TextItem>,
    dispatch: Option<Uuid>,
) -> TransformResponse {
    let request = TransformRequest {
        spec: Some(spec),
        items,
        ..Default::default()
    };
    let answer = client.transform(with_dispatch(request, dispatch)).await;
    answer.unwrap().into_inner()
}

/// Calls and cached texts, as counted in the response.
fn counted(response: &TransformResponse) -> (u64, u64) {
    let usage = response.usage.unwrap();
    (usage.generator_calls, usage.cached_texts)
}

#[tokio::test]
async fn what_a_dead_worker_generated_is_counted_by_the_one_that_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let id = Some(Uuid::new_v4());
    // It generates two of four texts, and its response is lost.
    let mut dead = worker(&stub, home.path(), "one").await;
    let lost = transform(&mut dead, paraphrase(), items(&TEXTS[..2]), id).await;
    assert_eq!((counted(&lost), stub.calls()), ((2, 0), 2));
    // Another worker repeats the dispatch: four calls were made for it in all.
    let mut next = worker(&stub, home.path(), "two").await;
    let whole = transform(&mut next, paraphrase(), items(&TEXTS), id).await;
    assert_eq!((counted(&whole), stub.calls()), ((4, 0), 4));
    let tokens = |response: &TransformResponse| response.usage.unwrap().tokens;
    assert_eq!(tokens(&whole), 2 * tokens(&lost), "the dead worker's tokens among them");
    // The same worker reports the same, from its own cache.
    let again = transform(&mut next, paraphrase(), items(&TEXTS), id).await;
    assert_eq!((counted(&again), stub.calls()), ((4, 0), 4));
    // For all other callers they are ordinary cached texts.
    for other in [None, Some(Uuid::new_v4())] {
        for client in [&mut dead, &mut next] {
            let found = transform(client, paraphrase(), items(&TEXTS), other).await;
            assert_eq!((counted(&found), stub.calls()), ((0, 4), 4), "{other:?}");
        }
    }
}

#[tokio::test]
async fn a_text_that_a_dispatch_asks_for_twice_is_counted_once() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let id = Some(Uuid::new_v4());
    // Two ids, one target language: two jobs with one content address.
    let into_spanish = spec(Kind::CrossTranslation(CrossTranslation {
        target_languages: vec!["es".to_owned()],
    }));
    let twice = |n: usize| -> Vec<TextItem> {
        let item = |id: usize| TextItem {
            id: format!("row {id}"),
            text: TEXTS[0].to_owned(),
            language: Some("en".to_owned()),
        };
        (0..n).map(item).collect()
    };
    let mut one = worker(&stub, home.path(), "one").await;
    let first = transform(&mut one, into_spanish.clone(), twice(4), id).await;
    let calls = stub.calls() as u64;
    assert_eq!(first.usage.unwrap().generator_calls, calls);
    let mut two = worker(&stub, home.path(), "two").await;
    for client in [&mut two, &mut one] {
        let again = transform(client, into_spanish.clone(), twice(4), id).await;
        assert_eq!(again.usage.unwrap().generator_calls, calls);
        assert_eq!(stub.calls() as u64, calls);
    }
}

#[tokio::test]
async fn ratings_of_a_dispatch_are_counted_too() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Text("4".into())).await;
    let id = Some(Uuid::new_v4());
    let request = |pairs: usize| JudgeRequest {
        scale: JudgeScale::Similarity.into(),
        pairs: (0..pairs)
            .map(|n| Pair {
                id: n.to_string(),
                original: TEXTS[n].to_owned(),
                transformed: format!("{} It did.", TEXTS[n]),
            })
            .collect(),
        ..JudgeRequest::default()
    };
    let mut one = worker(&stub, home.path(), "one").await;
    one.judge(with_dispatch(request(2), id)).await.unwrap();
    let calls = stub.calls();
    assert!(calls >= 2);
    let mut two = worker(&stub, home.path(), "two").await;
    let answer = two.judge(with_dispatch(request(3), id)).await.unwrap().into_inner();
    assert_eq!(answer.usage.unwrap().generator_calls, stub.calls() as u64);
    let answer = two.judge(with_dispatch(request(3), None)).await.unwrap().into_inner();
    assert_eq!(answer.usage.unwrap().generator_calls, 0);
}

#[tokio::test]
async fn what_names_no_dispatch_is_not_one() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let mut client = worker(&stub, home.path(), "one").await;
    for word in ["", "x", "not-a-uuid"] {
        let mut request = tonic::Request::new(TransformRequest {
            spec: Some(paraphrase()),
            items: items(&TEXTS[..1]),
            ..Default::default()
        });
        request.metadata_mut().insert("isomer-dispatch", word.parse().unwrap());
        client.transform(request).await.unwrap();
    }
    assert_eq!(stub.calls(), 1);
    let found = transform(&mut client, paraphrase(), items(&TEXTS[..1]), None).await;
    assert_eq!(counted(&found), (0, 1));
}

#[tokio::test]
async fn texts_that_a_run_found_or_made_are_kept_until_it_is_released() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let store = StoreConfig {
        url: home.path().join("store").display().to_string(),
        ..StoreConfig::default()
    };
    let blobs = BlobStore::open(&store).unwrap().unwrap();
    let policy = Policy {
        older_than: Duration::ZERO,
        forget_runs: None,
        settle: Duration::ZERO,
    };
    let swept = async || {
        let swept = sweep(&blobs, policy, Sweep::Remove, &|_| ()).await.unwrap();
        swept.total().objects
    };
    let mut one = worker(&stub, home.path(), "one").await;
    // Without a holder, no run keeps the entry.
    transform(&mut one, paraphrase(), items(&TEXTS[..1]), None).await;
    assert_eq!(swept().await, 1);
    let run = Holder::run("018f-a").unwrap().to_text();
    let mut two = worker(&stub, home.path(), "two").await;
    for texts in [&TEXTS[..2], &TEXTS] {
        let request = TransformRequest {
            spec: Some(paraphrase()),
            items: items(texts),
            ..TransformRequest::default()
        };
        let request = with_holder(tonic::Request::new(request), Some(&run));
        two.transform(request).await.unwrap();
    }
    assert_eq!(swept().await, 0);
    // Another machine finds the entries.
    let calls = stub.calls();
    transform(
        &mut worker(&stub, home.path(), "three").await,
        paraphrase(),
        items(&TEXTS),
        None,
    )
    .await;
    assert_eq!(stub.calls(), calls);
    release(&blobs, "018f-a").await.unwrap();
    assert_eq!(swept().await, TEXTS.len() as u64);
}
