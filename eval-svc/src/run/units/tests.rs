#![allow(clippy::unwrap_used)]
use super::*;

fn key(texts: &str) -> UnitKey {
    UnitKey {
        vector_space: "space".into(),
        dataset: "data".into(),
        texts: texts.into(),
        task: "sts".into(),
        profile: "mteb-v2".into(),
    }
}

fn score() -> ScoreRecord {
    ScoreRecord {
        main_key: "cosine_spearman".into(),
        main: 0.812_345_678_901_234_5,
        all: [("pearson".to_owned(), 0.5)].into(),
        items: 80,
        evidence: None,
        lists: None,
    }
}

#[test]
fn a_score_comes_back_to_the_last_bit_and_only_for_its_own_key() {
    let folder = tempfile::tempdir().unwrap();
    let store = UnitStore::open(folder.path()).unwrap();
    store.put(&key("a"), &score()).unwrap();
    assert_eq!(store.get(&key("a")), Some(score()));
    assert_eq!(store.get(&key("b")), None);
}

#[test]
fn evidence_comes_back_by_its_address_and_a_score_that_lost_it_is_computed_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = UnitStore::open(folder.path()).unwrap();
    let evidence = Evidence::mean(&[0.25, 0.5], None);
    let with = ScoreRecord {
        evidence: Some(evidence.clone()),
        ..score()
    };
    store.put(&key("a"), &with).unwrap();
    assert_eq!(store.get(&key("a")), Some(score()));
    assert_eq!(store.evidence(&key("a").address()), Some(evidence));
    fs::remove_file(store.beside(&key("a").address(), EVIDENCE).path).unwrap();
    assert_eq!(store.get(&key("a")), None);
    assert_eq!(store.evidence(&key("b").address()), None);
}

#[test]
fn a_score_of_retrieval_without_its_lists_is_computed_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = UnitStore::open(folder.path()).unwrap();
    let retrieval = UnitKey {
        task: "retrieval, main score recall_at_10".into(),
        ..key("a")
    };
    store.put(&retrieval, &score()).unwrap();
    assert_eq!(store.get(&retrieval), None, "as an earlier version left it");
    let lists = ResultLists {
        documents: vec![vec![3, 1]],
        similarities: vec![vec![0.123_456_79, -0.5]],
        ..ResultLists::default()
    };
    let with = ScoreRecord {
        lists: Some(lists.clone()),
        ..score()
    };
    store.put(&retrieval, &with).unwrap();
    assert_eq!(store.get(&retrieval), Some(score()));
    assert_eq!(store.lists(&retrieval.address()), Some(lists));
    fs::remove_file(store.beside(&retrieval.address(), LISTS).path).unwrap();
    assert_eq!(store.get(&retrieval), None);
}

#[test]
fn drift_comes_back_to_the_last_bit_for_its_own_pairs_and_space() {
    let folder = tempfile::tempdir().unwrap();
    let store = UnitStore::open(folder.path()).unwrap();
    let drift = [Some(0.123_456_79f32), None, Some(0.0)];
    let key = |vector_space, pairs| DriftKey { vector_space, pairs };
    store.put_drift(key("space", "pairs"), &drift).unwrap();
    assert_eq!(store.drift(key("space", "pairs"), 3).as_deref(), Some(&drift[..]));
    assert_eq!(store.drift(key("space", "pairs"), 2), None);
    assert_eq!(store.drift(key("other", "pairs"), 3), None);
    assert_eq!(store.drift(key("space", "others"), 3), None);
}

#[test]
fn a_broken_file_is_as_good_as_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = UnitStore::open(folder.path()).unwrap();
    store.put(&key("a"), &score()).unwrap();
    fs::write(store.path(&key("a").address()), b"{\"version\":").unwrap();
    assert_eq!(store.get(&key("a")), None);
}

#[test]
fn the_digest_tells_where_one_text_ends() {
    assert_ne!(
        digest_of_texts(["ab", "c"].into_iter()),
        digest_of_texts(["a", "bc"].into_iter())
    );
}
