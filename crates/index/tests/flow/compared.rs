//! Two collections on the same queries, against numbers worked out by hand.

use std::collections::HashMap;

use isomer_index::{
    IndexError,
    compare::{Compared, Query, Settings, Side, bootstrap, compare},
    encode::Encoder,
    store::{Row, VectorStore},
};

use crate::support::{encoder, open, payload, stub, vector_of};

/// A collection whose documents are at the places of these texts.
async fn collection(address: &str, encoder: &Encoder, documents: &[(&str, &str)]) -> Box<dyn VectorStore> {
    let store = open(address);
    let mark = encoder.mark(isomer_index::chunk::Chunking::Whole, false);
    store.create(&mark).await.unwrap();
    let rows: Vec<Row> = documents
        .iter()
        .map(|(key, text)| Row {
            key: (*key).to_owned(),
            document: (*key).to_owned(),
            digest: isomer_index::digest::of_row(&mark, text, &payload(0)),
            text: None,
            payload: payload(0),
            vector: vector_of("w1", "document: ", text),
        })
        .collect();
    store.write(&rows, &[]).await.unwrap();
    store.settle().await.unwrap();
    store
}

async fn compared(first: &str, second: &str) -> Compared {
    let stub = stub("w1");
    let encoder = encoder(&stub).await;
    // Queries are the texts of documents, with the documents' prompt: each finds its own first.
    let a = collection(
        first,
        &encoder,
        &[("one", "alpha"), ("two", "beta"), ("three", "gamma")],
    )
    .await;
    // Here the first two have changed places.
    let b = collection(
        second,
        &encoder,
        &[("one", "beta"), ("two", "alpha"), ("three", "gamma")],
    )
    .await;
    let queries = [("q1", "alpha"), ("q2", "beta"), ("q3", "gamma"), ("q4", "gamma")].map(|(id, text)| Query {
        id: id.to_owned(),
        text: text.to_owned(),
    });
    let grade = |document: &str| HashMap::from([(document.to_owned(), 1)]);
    let qrels = HashMap::from(
        [("q1", grade("one")), ("q2", grade("two")), ("q3", grade("three"))].map(|(q, g)| (q.to_owned(), g)),
    );
    let side = |store| Side {
        store,
        encoder: &encoder,
    };
    let settings = Settings {
        k: 1,
        in_flight: 2,
        bootstrap: bootstrap(2_000, 0.95, 1),
    };
    compare(side(a.as_ref()), side(b.as_ref()), &queries, Some(&qrels), settings)
        .await
        .unwrap()
}

fn check(found: &Compared) {
    assert_eq!((found.queries, found.judged), (4, 3));
    let ndcg = &found.measures[0];
    assert_eq!((ndcg.name.as_str(), ndcg.means), ("ndcg_at_1", [1.0, 1.0 / 3.0]));
    assert!((ndcg.difference.mean + 2.0 / 3.0).abs() < 1e-12);
    // Differences -1, -1, 0: means of resamples lie between -1 and 0.
    assert_eq!(ndcg.difference.interval, (-1.0, 0.0));
    // q1 and q2 find other documents, q3 and q4 the same.
    assert_eq!((found.overlap.mean, found.rank_biased_overlap.mean), (0.5, 0.5));
}

#[tokio::test]
async fn measures_are_those_of_a_worked_example() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let found = compared(&place("a"), &place("b")).await;
    check(&found);
    assert!(found.sides[0].exact);
    let chroma = crate::servers::chroma().await;
    let qdrant = crate::servers::qdrant().await;
    check(&compared(&format!("chroma+{chroma}#a"), &format!("qdrant+{qdrant}#b")).await);
    for kind in ["opensearch", "elasticsearch"] {
        let elastic = crate::servers::elastic().await;
        check(&compared(&format!("{kind}+{elastic}#a"), &format!("{kind}+{elastic}#b")).await);
    }
    if let Some(url) = crate::servers::pgvector("index_compared").await {
        let found = compared(&format!("{url}#a"), &format!("{url}#b")).await;
        check(&found);
        assert!(!found.sides[0].exact);
    }
}

#[tokio::test]
async fn a_collection_of_other_weights_is_not_searched() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (own, other) = (stub("w1"), stub("w2"));
    let (own, other) = (encoder(&own).await, encoder(&other).await);
    let a = collection(&place("a"), &own, &[("one", "alpha")]).await;
    let b = collection(&place("b"), &other, &[("one", "alpha")]).await;
    let queries = [Query {
        id: "q".to_owned(),
        text: "alpha".to_owned(),
    }];
    let settings = Settings {
        k: 1,
        in_flight: 1,
        bootstrap: bootstrap(100, 0.95, 1),
    };
    let side = |store, encoder| Side { store, encoder };
    let refused = compare(side(a.as_ref(), &own), side(b.as_ref(), &own), &queries, None, settings)
        .await
        .unwrap_err();
    assert!(matches!(refused, IndexError::OtherSpace { .. }), "{refused}");
    // With the encoder of its own each is searched, and the lists are held against each other.
    let found = compare(
        side(a.as_ref(), &own),
        side(b.as_ref(), &other),
        &queries,
        None,
        settings,
    )
    .await
    .unwrap();
    assert_eq!((found.measures.len(), found.overlap.mean), (0, 1.0));
}
