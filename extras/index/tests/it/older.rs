//! Collections of an isomer that did not record the encoder's settings.

use isomer_index::{IndexError, chunk::Chunking, run};
use isomer_proto::common::v1::VectorSpace;
use isomer_service_kit::vectors::sealed;

use crate::support::{all, encoder, fill, open, rows, settings, source, stub_in, write};

#[tokio::test]
async fn a_collection_without_settings_is_named_and_used_only_where_that_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docs.jsonl");
    write(&path, &rows(8));
    let address = &folder.path().join("sink").display().to_string();
    let older = stub_in("w1", sealed);
    let newer = stub_in("w1", |space| {
        sealed(VectorSpace {
            settings_digest: "s".to_owned(),
            ..space
        })
    });
    fill(&path, address, &older, &settings()).await.unwrap();
    let before = all(address).await;

    let refused = fill(&path, address, &newer, &settings()).await.unwrap_err();
    assert!(matches!(refused, IndexError::OlderSpace { .. }), "{refused}");
    let mark = open(address).mark().await.unwrap().unwrap();
    let query = encoder(&newer).await.mark(Chunking::Whole, false);
    let refused = mark.check_query("c", &query).unwrap_err();
    assert!(matches!(refused, IndexError::OlderSpace { .. }), "{refused}");

    let accepting = encoder(&newer).await.with_unrecorded_settings();
    let accepted = accepting.mark(Chunking::Whole, false);
    mark.check_query("c", &accepted).unwrap();
    newer.forget();
    let (source, store) = (source(&path), open(address));
    let again = run::run(&source, store.as_ref(), &accepting, &settings(), &|_| {})
        .await
        .unwrap();
    assert_eq!((again.counts.written, again.counts.unchanged), (0, 8));
    assert_eq!(newer.texts().len(), 0, "the stored vectors stay");
    assert_eq!(all(address).await, before);

    // The flag accepts unknown settings, not other weights.
    let other = stub_in("w2", |space| {
        sealed(VectorSpace {
            settings_digest: "s".to_owned(),
            ..space
        })
    });
    let refused = encoder(&other)
        .await
        .with_unrecorded_settings()
        .mark(Chunking::Whole, false);
    let refused = mark.check("c", &refused).unwrap_err();
    assert!(matches!(refused, IndexError::OtherSpace { .. }), "{refused}");
}
