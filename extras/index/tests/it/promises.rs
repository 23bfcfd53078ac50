//! Promises of every store.

use std::collections::HashSet;

use isomer_index::{
    IndexError,
    chunk::{Chunking, Window},
    digest,
    encode::{Additional, AdditionalVectors},
    run::Settings,
    verify::{self, IndexReport},
};
use isomer_stubs::encoder::StubEncoder;

use crate::support::{
    REFUSED, UNKNOWN, all, encoder, encoder_with, fill, open, payload, rows, settings, source, sparse_of, stub,
    tokens_of, vector_of, write,
};

const EVERYTHING: verify::Settings = verify::Settings {
    share: 1.0,
    seed: 0,
    tolerance: 1e-4,
};

async fn check(path: &std::path::Path, address: &str, stub: &StubEncoder) -> Result<IndexReport, IndexError> {
    verify::verify(
        Some(&source(path)),
        open(address).as_ref(),
        &encoder(stub).await,
        EVERYTHING,
    )
    .await
}

/// Takes a collection that does not exist through everything that runs do to it.
pub(crate) async fn hold(address: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docs.jsonl");
    let mut documents = rows(40);
    documents[3].1 = " \n".to_owned();
    write(&path, &documents);
    let stub = stub("w1");

    // Filled: each text is encoded once, and a row holds what it was made of.
    let filled = fill(&path, address, &stub, &settings()).await.unwrap();
    assert_eq!(
        (filled.counts.written, filled.counts.empty, filled.counts.documents),
        (39, 1, 40)
    );
    assert_eq!(stub.texts().len(), 39);
    let stored = all(address).await;
    assert_eq!(stored.len(), 39);
    let row = stored.iter().find(|row| row.key == "k7").unwrap();
    assert_eq!(
        (row.document.as_str(), row.digest.as_str()),
        (
            "k7",
            digest::of_row(&filled.mark, &documents[7].1, &payload(7)).as_str()
        )
    );
    let vectors = open(address)
        .vectors(&["k7".to_owned(), "nowhere".to_owned()])
        .await
        .unwrap();
    let expected = vector_of("w1", "document: ", &documents[7].1);
    assert_eq!(vectors.len(), 1);
    let cosine = isomer_scoring::metric::similarity::cosine(&vectors[0].vector, &expected);
    assert!(cosine > 0.999_999, "{cosine}");
    assert_eq!(vectors[0].text, None);
    let sound = check(&path, address, &stub).await.unwrap();
    assert!(sound.is_sound() && sound.rows == 39 && sound.sampled == 39, "{sound:?}");

    // Again: nothing is encoded, nothing is written.
    stub.forget();
    let again = fill(&path, address, &stub, &settings()).await.unwrap();
    assert_eq!((again.counts.written, again.counts.unchanged), (0, 39));
    assert_eq!(stub.texts().len(), 0);

    // A change feed: another text, another payload, a new document; one that is gone.
    documents[5].1 = "another text".to_owned();
    documents[6].2 = 600;
    documents.push(("new".to_owned(), "a new text".to_owned(), 1));
    documents.remove(10);
    write(&path, &documents);
    let outdated = check(&path, address, &stub).await.unwrap();
    let found = outdated.source.as_ref().unwrap();
    assert!(!outdated.is_sound());
    assert_eq!(
        (&found.missing.keys, &found.extra.keys),
        (&vec!["new".to_owned()], &vec!["k10".to_owned()])
    );
    assert_eq!(found.outdated.keys, ["k5", "k6"]);
    stub.forget();
    let changed = fill(&path, address, &stub, &settings()).await.unwrap();
    assert_eq!((changed.counts.written, changed.counts.deleted), (3, 0));
    let texts: HashSet<String> = stub.texts().into_iter().collect();
    assert_eq!(
        texts,
        HashSet::from(["another text", documents[6].1.as_str(), "a new text"].map(str::to_owned))
    );

    // Deletes: not without being asked to, and not many.
    assert!(all(address).await.iter().any(|row| row.key == "k10"));
    let deleting = |share| Settings {
        delete: Some(share),
        ..settings()
    };
    let deleted = fill(&path, address, &stub, &deleting(0.1)).await.unwrap();
    assert_eq!((deleted.counts.deleted, deleted.counts.written), (1, 0));
    assert!(!all(address).await.iter().any(|row| row.key == "k10"));
    let sound = check(&path, address, &stub).await.unwrap();
    assert!(sound.is_sound(), "{sound:?}");
    let few = &documents[..20];
    write(&path, few);
    let refused = fill(&path, address, &stub, &deleting(0.1)).await.unwrap_err();
    assert!(
        matches!(
            refused,
            IndexError::TooManyDeletes {
                gone: 20,
                rows: 39,
                most: 3
            }
        ),
        "{refused}"
    );
    assert_eq!(all(address).await.len(), 39);
    let deleted = fill(&path, address, &stub, &deleting(0.6)).await.unwrap();
    assert_eq!(deleted.counts.deleted, 20);
    assert_eq!(all(address).await.len(), 19);

    // The guard: another space writes nothing.
    let before = all(address).await;
    let other = crate::support::stub("w2");
    let refused = fill(&path, address, &other, &settings()).await.unwrap_err();
    assert!(matches!(refused, IndexError::OtherSpace { .. }), "{refused}");
    assert!(
        refused.to_string().contains("weights: stored `w1`, now `w2`"),
        "{refused}"
    );
    assert_eq!(all(address).await, before);
    let refused = check(&path, address, &other).await.unwrap_err();
    assert!(matches!(refused, IndexError::OtherSpace { .. }), "{refused}");

    // Verification finds a vector that another program replaced, and a row of another space.
    let store = open(address);
    let mut row = isomer_index::store::Row {
        key: "k1".to_owned(),
        document: "k1".to_owned(),
        digest: before.iter().find(|row| row.key == "k1").unwrap().digest.clone(),
        text: None,
        payload: payload(1),
        vector: vector_of("w1", "document: ", "something else"),
        additional: Additional::default(),
    };
    store.create(&filled.mark).await.unwrap();
    store.write(std::slice::from_ref(&row), &[]).await.unwrap();
    store.settle().await.unwrap();
    drop(store);
    let found = check(&path, address, &stub).await.unwrap();
    assert_eq!(
        (found.differing.rows, &found.differing.keys),
        (1, &vec!["k1".to_owned()])
    );
    assert!(!found.is_sound());
    row.digest = digest::of_row(
        &encoder(&other).await.mark(Chunking::Whole, false),
        &documents[1].1,
        &payload(1),
    );
    let store = open(address);
    store.create(&filled.mark).await.unwrap();
    store.write(&[row], &[]).await.unwrap();
    store.settle().await.unwrap();
    drop(store);
    let found = check(&path, address, &stub).await.unwrap();
    assert_eq!(found.other_space.keys, ["k1"]);
    // The next run makes it right again.
    let repaired = fill(&path, address, &stub, &settings()).await.unwrap();
    assert_eq!(repaired.counts.written, 1);
    assert!(check(&path, address, &stub).await.unwrap().is_sound());
}

/// Divides texts, and shortens and lengthens them.
pub(crate) async fn chunks(address: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docs.jsonl");
    let mut documents = rows(12);
    documents[4].1 = "one two three four five six seven".to_owned();
    write(&path, &documents);
    let stub = stub("w1");
    let settings = Settings {
        chunking: Chunking::Tokens(Window { size: 3, overlap: 1 }),
        with_text: true,
        ..settings()
    };
    fill(&path, address, &stub, &settings).await.unwrap();
    let keys = |rows: &[isomer_index::store::StoredRow]| -> Vec<String> {
        rows.iter()
            .filter(|row| row.document == "k4")
            .map(|row| row.key.clone())
            .collect()
    };
    assert_eq!(keys(&all(address).await), ["k4#0", "k4#1", "k4#2"]);
    let kept = open(address).vectors(&["k4#1".to_owned()]).await.unwrap();
    assert_eq!(kept[0].text.as_deref(), Some("three four five"));
    // Without a source, by the texts that are kept.
    let store = open(address);
    let sound = verify::verify(None, store.as_ref(), &encoder(&stub).await, EVERYTHING)
        .await
        .unwrap();
    assert!(
        sound.is_sound() && sound.sampled == sound.rows && sound.rows > 12,
        "{sound:?}"
    );
    drop(store);
    // A document that became short loses its last chunks, one that is empty all of them.
    documents[4].1 = "one two three four".to_owned();
    documents[5].1 = String::new();
    write(&path, &documents);
    let outcome = fill(&path, address, &stub, &settings).await.unwrap();
    assert_eq!((outcome.counts.written, outcome.counts.empty), (1, 1), "{outcome:?}");
    let now = all(address).await;
    assert_eq!(keys(&now), ["k4#0", "k4#1"]);
    assert!(!now.iter().any(|row| row.document == "k5"));
    let sound = check(&path, address, &stub).await.unwrap();
    assert!(sound.is_sound(), "{sound:?}");
    // Another division is another collection.
    let whole = Settings {
        chunking: Chunking::Whole,
        ..settings
    };
    let refused = fill(&path, address, &stub, &whole).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("chunk: stored `tokens=3,overlap=1`, now `none`"),
        "{refused}"
    );
}

/// Sparse vectors, and vectors of tokens if the store has them, beside dense ones.
async fn additional(address: &str, tokens: bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docs.jsonl");
    let mut documents = rows(20);
    write(&path, &documents);
    let stub = stub("w1");
    let wanted = AdditionalVectors { sparse: true, tokens };
    let run = async || {
        let encoder = encoder_with(&stub, wanted).await;
        isomer_index::run::run(&source(&path), open(address).as_ref(), &encoder, &settings(), &|_| {}).await
    };
    let check = async || {
        let encoder = encoder_with(&stub, wanted).await;
        verify::verify(Some(&source(&path)), open(address).as_ref(), &encoder, EVERYTHING)
            .await
            .unwrap()
    };
    assert_eq!(run().await.unwrap().counts.written, 20);
    let stored = open(address).vectors(&["k7".to_owned()]).await.unwrap();
    let text = &documents[7].1;
    assert_eq!(stored[0].additional.sparse, Some(sparse_of(text)));
    let found = stored[0].additional.tokens.as_ref().map(Vec::len);
    assert_eq!(found, tokens.then(|| tokens_of(text).len()));
    let sound = check().await;
    assert!(sound.is_sound() && sound.sampled == 20, "{sound:?}");
    // Again: only the row that changed is encoded.
    documents[3].1 = "other words".to_owned();
    write(&path, &documents);
    assert_eq!(run().await.unwrap().counts.written, 1);
    let changed = open(address).vectors(&["k3".to_owned()]).await.unwrap();
    assert_eq!(changed[0].additional.sparse, Some(sparse_of("other words")));
    // A search compares the dense vectors.
    let store = open(address);
    let mark = store.mark().await.unwrap().unwrap();
    let query = vector_of("w1", "document: ", &documents[9].1);
    let hits = store.search_exactly(&mark, &query, 1).await.unwrap().unwrap();
    assert_eq!(hits[0].document, "k9");
    // A sparse vector that was exchanged behind our back is found.
    let keys = ["k1".to_owned()];
    let digest = all(address)
        .await
        .into_iter()
        .find(|row| row.key == "k1")
        .unwrap()
        .digest;
    let row = isomer_index::store::Row {
        key: "k1".to_owned(),
        document: "k1".to_owned(),
        digest,
        text: None,
        payload: payload(1),
        vector: vector_of("w1", "document: ", &documents[1].1),
        additional: Additional {
            sparse: Some(sparse_of("something else")),
            tokens: store.vectors(&keys).await.unwrap().remove(0).additional.tokens,
        },
    };
    store.write(&[row], &[]).await.unwrap();
    assert_eq!(check().await.differing.keys, keys);
    // Dense vectors alone are another collection.
    let refused = fill(&path, address, &stub, &settings()).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("sparse vectors: stored `w1 sparse`, now `none`"),
        "{refused}"
    );
}

#[tokio::test]
async fn vectors_that_a_store_cannot_keep_are_refused_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docs.jsonl");
    write(&path, &rows(2));
    let address = folder.path().join("index");
    for (sparse, tokens) in [(true, false), (false, true)] {
        let encoder = encoder_with(&stub("w1"), AdditionalVectors { sparse, tokens }).await;
        let store = open(address.to_str().unwrap());
        let refused = isomer_index::run::run(&source(&path), store.as_ref(), &encoder, &settings(), &|_| {}).await;
        let refused = refused.unwrap_err();
        assert!(
            matches!(refused, IndexError::Setting { field: "outputs", .. }),
            "{refused}"
        );
        assert!(!address.exists());
    }
}

#[tokio::test]
async fn a_folder_of_parquet_keeps_its_promises() {
    let folder = tempfile::tempdir().unwrap();
    Box::pin(hold(folder.path().join("whole").to_str().unwrap())).await;
    Box::pin(chunks(folder.path().join("chunks").to_str().unwrap())).await;
}

#[tokio::test]
async fn a_text_that_the_encoder_refuses_leaves_out_its_document_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (path, address) = (folder.path().join("docs.jsonl"), folder.path().join("index"));
    let address = address.to_str().unwrap();
    let (mut documents, stub) = (rows(40), stub("w1"));
    let refuse = |text: &str| format!("{text} {REFUSED}");
    for row in [5, 6, 17] {
        documents[row].1 = refuse(&documents[row].1);
    }
    write(&path, &documents);
    let counts = fill(&path, address, &stub, &settings()).await.unwrap().counts;
    assert_eq!((counts.documents, counts.written, counts.failed), (40, 37, 3));
    let mut failed: Vec<&str> = counts.failures.iter().map(|one| one.key.as_str()).collect();
    failed.sort_unstable();
    assert_eq!(failed, ["k17", "k5", "k6"]);
    assert!(counts.failures.iter().all(|one| one.reason.contains("cannot read")));
    assert_eq!(all(address).await.len(), 37);
    let report = check(&path, address, &stub).await.unwrap();
    assert!(!report.is_sound(), "{report:?}");
    assert_eq!(report.source.unwrap().missing.rows, 3);

    // The next run asks for these texts alone. A row of a text that was replaced does not stay.
    documents[7].1 = refuse("another");
    write(&path, &documents);
    stub.forget();
    let counts = fill(&path, address, &stub, &settings()).await.unwrap().counts;
    assert_eq!((counts.written, counts.unchanged, counts.failed), (0, 36, 4));
    assert!(stub.texts().iter().all(|text| text.contains(REFUSED)));
    assert!(!all(address).await.iter().any(|row| row.key == "k7"));
}

#[tokio::test]
async fn a_document_with_a_refused_piece_is_left_out_completely() {
    let folder = tempfile::tempdir().unwrap();
    let (path, address) = (folder.path().join("docs.jsonl"), folder.path().join("index"));
    let address = address.to_str().unwrap();
    let (mut documents, stub) = (rows(5), stub("w1"));
    let settings = Settings {
        chunking: Chunking::Sentences(Window { size: 1, overlap: 0 }),
        ..settings()
    };
    write(&path, &documents);
    fill(&path, address, &stub, &settings).await.unwrap();
    documents[2].1.push_str(&format!(" And {REFUSED}."));
    write(&path, &documents);
    let counts = fill(&path, address, &stub, &settings).await.unwrap().counts;
    assert_eq!((counts.written, counts.failed), (0, 1));
    assert!(!all(address).await.iter().any(|row| row.document == "k2"));
}

#[tokio::test]
async fn an_encoder_that_refuses_everything_stops_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let (path, address) = (folder.path().join("docs.jsonl"), folder.path().join("index"));
    let address = address.to_str().unwrap();
    let mut documents = rows(300);
    documents.iter_mut().for_each(|row| row.1.push_str(REFUSED));
    write(&path, &documents);
    let stub = stub("w1");
    let large = Settings {
        batch: 50,
        in_flight: 1,
        ..settings()
    };
    let stopped = fill(&path, address, &stub, &large).await.unwrap_err();
    assert!(matches!(stopped, IndexError::Encoder(_)), "{stopped}");
    assert_eq!(stub.calls().len(), 1 + 2 + 4 + 8);
    // Small batches do not show that every text is refused.
    let stopped = fill(&path, address, &stub, &settings()).await.unwrap_err();
    assert!(matches!(stopped, IndexError::TooManyFailed { .. }), "{stopped}");
}

#[tokio::test]
async fn a_text_of_which_the_encoder_knows_no_word_is_left_out_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (path, address) = (folder.path().join("docs.jsonl"), folder.path().join("index"));
    let address = address.to_str().unwrap();
    let (mut documents, stub) = (rows(5), stub("w1"));
    write(&path, &documents);
    fill(&path, address, &stub, &settings()).await.unwrap();
    // One that was known before, and a new one.
    documents[2].1 = UNKNOWN.to_owned();
    documents.push(("new".to_owned(), UNKNOWN.to_owned(), 1));
    documents.push(("other".to_owned(), "known words".to_owned(), 1));
    write(&path, &documents);
    let filled = fill(&path, address, &stub, &settings()).await.unwrap();
    let counts = &filled.counts;
    assert_eq!((counts.written, counts.unknown, counts.replaced), (1, 2, 0));
    let mut stored: Vec<String> = all(address).await.into_iter().map(|row| row.key).collect();
    stored.sort();
    assert_eq!(stored, ["k0", "k1", "k3", "k4", "other"]);
}

#[tokio::test]
async fn pgvector_keeps_its_promises() {
    let Some(url) = crate::servers::pgvector("index_promises").await else {
        return;
    };
    Box::pin(hold(&format!("{url}#whole"))).await;
    Box::pin(chunks(&format!("{url}#chunks"))).await;
    Box::pin(additional(&format!("{url}#additional"), false)).await;
}

#[tokio::test]
async fn qdrant_keeps_its_promises() {
    let address = crate::servers::qdrant().await;
    Box::pin(hold(&format!("qdrant+{address}#whole"))).await;
    Box::pin(chunks(&format!("qdrant+{address}#chunks"))).await;
    Box::pin(additional(&format!("qdrant+{address}#additional"), true)).await;
}

#[tokio::test]
async fn chroma_keeps_its_promises() {
    let address = crate::servers::chroma().await;
    Box::pin(hold(&format!("chroma+{address}#whole"))).await;
    Box::pin(chunks(&format!("chroma+{address}#chunks"))).await;
}

#[tokio::test]
async fn milvus_keeps_its_promises() {
    let address = crate::milvus::server().await;
    Box::pin(hold(&format!("milvus+{address}#whole"))).await;
    Box::pin(chunks(&format!("milvus+{address}#chunks"))).await;
}

#[tokio::test]
async fn opensearch_and_elasticsearch_keep_their_promises() {
    for kind in ["opensearch", "elasticsearch"] {
        let address = crate::servers::elastic().await;
        Box::pin(hold(&format!("{kind}+{address}#whole"))).await;
        Box::pin(chunks(&format!("{kind}+{address}#chunks"))).await;
    }
}
