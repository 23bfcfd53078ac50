//! Two collections on the same queries, against numbers worked out by hand.

use std::collections::HashMap;

use isomer_index::{
    IndexError,
    compare::{
        Comparison, PerQuery, Query, Resampling, Settings, Side, compare,
        rules::{RelevanceMeasure, RuleLimit, check as check_rule, decide},
    },
    encode::Encoder,
    store::{Row, VectorStore},
};

use isomer_stats::gate::Verdict;

use crate::support::{encoder, open, payload, stub, vector_of};

/// A collection whose documents are at the places of these texts.
async fn collection(address: &str, encoder: &Encoder, documents: &[(&str, &str)]) -> Box<dyn VectorStore> {
    let store = open(address);
    let mark = encoder.mark(isomer_index::chunk::Chunking::Whole, false);
    store.create(&mark).await.unwrap();
    let rows: Vec<Row> = documents
        .iter()
        .map(|(key, text)| Row {
            additional: isomer_index::encode::Additional::default(),
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

fn resampling(resamples: usize) -> Resampling {
    Resampling {
        resamples,
        level: 0.95,
        seed: 1,
    }
}

async fn compared(first: &str, second: &str) -> Comparison {
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
        exact: true,
        resampling: resampling(2_000),
    };
    compare(side(a.as_ref()), side(b.as_ref()), &queries, Some(&qrels), settings)
        .await
        .unwrap()
}

fn check(found: &Comparison) {
    assert_eq!((found.queries, found.judged), (4, 3));
    let ndcg = &found.measures[0];
    assert_eq!((ndcg.name.as_str(), ndcg.means), ("ndcg_at_1", [1.0, 1.0 / 3.0]));
    assert!((ndcg.difference.mean + 2.0 / 3.0).abs() < 1e-12);
    // Differences -1, -1, 0: so few queries exclude nothing but a gain of everything.
    let (low, high) = ndcg.difference.interval.unwrap();
    assert!(low == -1.0 && (0.0..0.5).contains(&high), "{high}");
    // q3 and q4 are one text, so that there are three clusters of queries.
    let clusters: Vec<u32> = found.per_query.iter().map(|query| query.cluster).collect();
    assert_eq!(clusters, [0, 1, 2, 2]);
    assert_eq!(
        found.per_query[0].relevance.unwrap().map(|measures| measures[0]),
        [1.0, 0.0]
    );
    assert_eq!(found.per_query[3].relevance, None);
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
    // A store that compares every vector is its own exact search.
    assert_eq!(found.sides[1].index_recall.unwrap().mean, 1.0);
    let chroma = crate::servers::chroma().await;
    let qdrant = crate::servers::qdrant().await;
    check(&compared(&format!("chroma+{chroma}#a"), &format!("qdrant+{qdrant}#b")).await);
    let milvus = crate::milvus::server().await;
    check(&compared(&format!("milvus+{milvus}#a"), &format!("milvus+{milvus}#b")).await);
    for kind in ["opensearch", "elasticsearch"] {
        let elastic = crate::servers::elastic().await;
        check(&compared(&format!("{kind}+{elastic}#a"), &format!("{kind}+{elastic}#b")).await);
    }
    if let Some(url) = crate::servers::pgvector("index_compared").await {
        let found = compared(&format!("{url}#a"), &format!("{url}#b")).await;
        check(&found);
        assert!(!found.sides[0].exact);
        assert_eq!(found.sides[0].index_recall.unwrap().mean, 1.0);
    }
}

/// The rule of a worked example, with its verdict and estimate.
fn decided(found: &Comparison, rule: RuleLimit) -> (Verdict, f64) {
    let gate = decide(found, &[rule], 0.05).unwrap().unwrap();
    let own = &gate.rules[0];
    let (low, high) = own.bounds.unwrap();
    assert!(low <= own.estimate && own.estimate <= high);
    (gate.verdict, own.estimate)
}

#[tokio::test]
async fn rules_pass_fail_or_stay_undecided_and_need_what_they_are_about() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let found = compared(&place("a"), &place("b")).await;
    let margin = |points| RuleLimit::MaxDrop {
        points,
        of: RelevanceMeasure::Ndcg,
    };
    // Drops of 100, 100 and 0: three queries decide only that not everything may be lost.
    let (verdict, estimate) = decided(&found, margin(10.0));
    assert_eq!((verdict, estimate.round()), (Verdict::Undecided, 67.0));
    assert_eq!(decided(&found, margin(100.0)).0, Verdict::Pass);
    assert_eq!(decided(&found, RuleLimit::MinOverlap(1.0)), (Verdict::Pass, 50.0));
    assert_eq!(decided(&found, RuleLimit::MinIndexRecall(10.0)).1, 100.0);
    assert_eq!(decide(&found, &[], 0.05).unwrap(), None);
    // The same queries a hundred times, in other words: now it is decided.
    let mut many = found.clone();
    many.per_query = (0..100)
        .flat_map(|round: u32| {
            found.per_query.iter().map(move |query| PerQuery {
                cluster: query.cluster + 3 * round,
                ..query.clone()
            })
        })
        .collect();
    assert_eq!(decided(&many, margin(10.0)).0, Verdict::Fail);
    assert_eq!(decided(&many, margin(80.0)).0, Verdict::Pass);
    assert_eq!(decided(&many, margin(67.0)).0, Verdict::Undecided);
    assert_eq!(decided(&many, RuleLimit::MinOverlap(60.0)).0, Verdict::Fail);
    // A hundred copies of one text are one query, not a hundred.
    many.per_query.iter_mut().for_each(|query| query.cluster %= 3);
    assert_eq!(decided(&many, margin(10.0)).0, Verdict::Undecided);
    // One rule that fails fails the gate, whatever the others say.
    let gate = decide(&found, &[margin(100.0), RuleLimit::MinIndexRecall(100.0)], 0.05)
        .unwrap()
        .unwrap();
    assert_eq!(gate.rules[0].verdict, Verdict::Pass);
    assert_eq!(
        gate.verdict,
        Verdict::Undecided,
        "no bound is 100 % of finitely many queries"
    );
    let refused = check_rule(margin(1.0), false).unwrap_err().to_string();
    assert!(refused.contains("needs judgements"), "{refused}");
    check_rule(margin(1.0), true).unwrap();
    let mut inexact = found;
    inexact.sides[1].index_recall = None;
    let refused = decide(&inexact, &[RuleLimit::MinIndexRecall(90.0)], 0.05)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("cannot be searched exactly"), "{refused}");
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
        exact: false,
        resampling: resampling(100),
    };
    let side = |store, encoder| Side { store, encoder };
    let refused = compare(side(a.as_ref(), &own), side(b.as_ref(), &own), &queries, None, settings)
        .await
        .unwrap_err();
    assert!(matches!(refused, IndexError::OtherSpace { .. }), "{refused}");
    // With the encoder of its own each is searched, and the lists are compared.
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

#[tokio::test]
async fn the_recall_of_a_real_index_is_the_share_of_an_exact_search_and_deep_searches_are_deep() {
    let Some(url) = crate::servers::pgvector("index_recall").await else {
        return;
    };
    // The planner would read so small a table whole.
    let url = format!("{url}&options[enable_seqscan]=off");
    let folder = tempfile::tempdir().unwrap();
    let stub = stub("w1");
    let encoder = encoder(&stub).await;
    let names: Vec<String> = (0..3_000).map(|number| format!("text {number}")).collect();
    let documents: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), name.as_str())).collect();
    let indexed = collection(&format!("{url}#docs"), &encoder, &documents).await;
    indexed
        .build_index(&encoder.mark(isomer_index::chunk::Chunking::Whole, false))
        .await
        .unwrap();
    let whole = collection(folder.path().to_str().unwrap(), &encoder, &documents).await;
    let queries: Vec<Query> = (0..30)
        .map(|number| Query {
            id: number.to_string(),
            text: format!("query {number}"),
        })
        .collect();
    let of = async |k: usize| {
        let settings = Settings {
            k,
            in_flight: 2,
            exact: true,
            resampling: resampling(200),
        };
        let side = |store| Side {
            store,
            encoder: &encoder,
        };
        compare(side(indexed.as_ref()), side(whole.as_ref()), &queries, None, settings)
            .await
            .unwrap()
    };
    for (k, depth) in [(10, None), (100, Some("raised from 40 to 100"))] {
        let found = of(k).await;
        let side = &found.sides[0];
        assert_eq!((side.short, side.exact), (0, false));
        match depth {
            Some(told) => assert!(side.depth.as_ref().unwrap().contains(told), "{:?}", side.depth),
            None => assert_eq!(side.depth, None),
        }
        // The other collection compares all vectors by itself, so the two agree as far as the index
        // finds what there is.
        for query in &found.per_query {
            let recall = query.index_recall[0].unwrap();
            assert!((recall - query.overlap).abs() < 0.021, "{recall} {}", query.overlap);
        }
        let recall = side.index_recall.unwrap();
        assert!(recall.mean > 0.6 && recall.mean <= 1.0, "{recall:?}");
        assert_eq!(found.sides[1].index_recall.unwrap().mean, 1.0);
    }
}
