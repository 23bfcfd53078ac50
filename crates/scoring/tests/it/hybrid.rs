//! Lexical and hybrid search against mteb (`eval-svc/fixtures/hybrid.json`).

use std::{collections::BTreeMap, fs};

use isomer_scoring::{
    lexical::{Analysis, LexicalIndex},
    metric::{
        Similarity,
        fusion::{Fusion, WeightedHits, fuse},
        search::{Hit, TieOrder, Ties, id_order},
        vector_matrix,
    },
    task::{
        DenseInput, HybridSearch, LexicalInput, Profile, RetrievalInput, RetrievalLabels, ScoreError, Scores,
        SearchMode, score_hybrid, score_lexical, score_retrieval,
    },
};
use ndarray::Array2;
use serde_json::Value;

use crate::support::{close, fixture, strings};

const TOLERANCE: f64 = 1e-6;

/// The order of documents whose ids sort like their rows, as in the fixture.
fn order(ties: Ties) -> TieOrder<'static> {
    TieOrder::new((0..100).collect::<Vec<u32>>().into(), ties)
}

/// The hits of a result list of the fixture, best first.
fn hits(list: &Value) -> Vec<Hit> {
    let list: Vec<(usize, f64)> = serde_json::from_value(list.clone()).unwrap();
    order(Ties::IdDescending).best(list.into_iter(), 100)
}

#[test]
fn fused_lists_equal_mteb() {
    let mut compared = 0;
    for case in fixture("hybrid.json")["fusion"].as_array().unwrap() {
        let (dense, lexical) = (hits(&case["dense"]), hits(&case["lexical"]));
        for expected in case["fused"].as_array().unwrap() {
            let name = expected["fusion"].as_str().unwrap();
            let fusion = Fusion::named(name).unwrap();
            let weight = expected["dense_weight"].as_f64().unwrap();
            let both = [(&dense, weight), (&lexical, 1.0 - weight)];
            let both = both.map(|(hits, weight)| WeightedHits { hits, weight });
            let found = fuse(&both, fusion, &order(Ties::IdDescending), 100);
            let wanted: Vec<(usize, f64)> = serde_json::from_value(expected["hits"].clone()).unwrap();
            let what = format!("{} by {name} at {weight}", case["name"]);
            let documents = |hits: &[Hit]| hits.iter().map(|hit| hit.document).collect::<Vec<_>>();
            assert_eq!(
                documents(&found),
                wanted.iter().map(|one| one.0).collect::<Vec<_>>(),
                "{what}"
            );
            for (hit, (_, score)) in found.iter().zip(&wanted) {
                close(f64::from(hit.score), *score, TOLERANCE, &what);
                compared += 1;
            }
        }
    }
    assert!(compared > 500, "{compared}");
}

/// Every hit of each query, by row of the document.
fn all_hits(tag: Option<&str>, documents: &[String], queries: &[String]) -> Vec<BTreeMap<usize, f64>> {
    let index = LexicalIndex::new(documents, Analysis::of_language(tag));
    let found = index.search(queries, &order(Ties::IdDescending), 1000).into_iter();
    let scored = |hits: Vec<Hit>| {
        hits.into_iter()
            .map(|hit| (hit.document, f64::from(hit.score)))
            .collect()
    };
    found.map(scored).collect()
}

#[track_caller]
fn same_hits(found: &[BTreeMap<usize, f64>], expected: &Value, what: &str) {
    let expected: Vec<Vec<(usize, f64)>> = serde_json::from_value(expected.clone()).unwrap();
    assert_eq!(found.len(), expected.len());
    for (query, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let rows: Vec<usize> = expected.iter().map(|one| one.0).collect();
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), rows, "{what}, query {query}");
        for (row, score) in expected {
            close(found[row], *score, TOLERANCE, what);
        }
    }
}

/// Texts of a file of the built-in retrieval data, as they are encoded.
fn quick(name: &str) -> Vec<String> {
    let lines = fs::read_to_string(format!("../datasets/quick/retrieval/{name}")).unwrap();
    let text = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        let text = row["text"].as_str().unwrap();
        row["title"]
            .as_str()
            .map_or_else(|| text.to_owned(), |title| format!("{title} {text}"))
    };
    lines.lines().map(text).collect()
}

#[test]
fn bm25_equals_mteb_and_finds_only_documents_with_a_term_of_the_query() {
    let mut queries = quick("queries.jsonl");
    queries.extend(["bread bread loaf", "zzz the of", "The Flour’s FLOUR"].map(str::to_owned));
    let found = all_hits(Some("en"), &quick("corpus.jsonl"), &queries);
    same_hits(&found, &fixture("hybrid.json")["quick"], "quick");
    assert!(
        found[queries.len() - 2].is_empty(),
        "a query of stop words and unknown words"
    );
}

#[test]
fn other_languages_equal_mteb() {
    for case in fixture("hybrid.json")["languages"].as_array().unwrap() {
        let tag = case["tag"].as_str().unwrap();
        let found = all_hits(Some(tag), &strings(&case["documents"]), &strings(&case["queries"]));
        same_hits(&found, &case["hits"], tag);
    }
}

#[test]
fn documents_of_a_large_corpus_keep_their_rows() {
    let documents: Vec<String> = (0..3000).map(|i| format!("shared word{i}")).collect();
    let index = LexicalIndex::new(&documents, Analysis::of_language(None));
    let order = TieOrder::new((0..3000).collect::<Vec<u32>>().into(), Ties::CorpusOrder);
    let queries: Vec<String> = [0, 1023, 1024, 2047, 2048, 2999].map(|i| format!("word{i}")).to_vec();
    let found = index.search(&queries, &order, 10);
    let rows: Vec<Vec<usize>> = found
        .iter()
        .map(|hits| hits.iter().map(|hit| hit.document).collect())
        .collect();
    assert_eq!(rows, [[0], [1023], [1024], [2047], [2048], [2999]]);
}

#[test]
fn documents_that_tie_are_found_by_the_rule_of_the_profile() {
    let documents = ["lamp oil", "lamp oil", "chair", "lamp oil"].map(str::to_owned);
    let index = LexicalIndex::new(&documents, Analysis::of_language(None));
    let first = |ties, k| {
        let found = index.search(&["lamp"], &order(ties), k).remove(0);
        found.iter().map(|hit| hit.document).collect::<Vec<_>>()
    };
    assert_eq!(first(Ties::IdDescending, 2), [3, 1]);
    assert_eq!(first(Ties::CorpusOrder, 2), [0, 1]);
    assert_eq!(first(Ties::CorpusOrder, 10), [0, 1, 3]);
}

/// Retrieval in which the terms find one document, and the vectors another.
struct Shop {
    query_ids: Vec<String>,
    document_ids: Vec<String>,
    judgements: Vec<Vec<(usize, i32)>>,
    queries: Vec<String>,
    documents: Vec<String>,
    query_vectors: Array2<f32>,
    document_vectors: Array2<f32>,
}

impl Shop {
    fn new(queries: [&str; 2]) -> Self {
        let named = |letter: char, n: usize| (0..n).map(|i| format!("{letter}{i}")).collect();
        Self {
            query_ids: named('q', 2),
            document_ids: named('d', 4),
            judgements: vec![vec![(0, 1)], vec![(1, 1)]],
            queries: queries.map(str::to_owned).to_vec(),
            documents: ["green lamps", "oak chairs", "wool coats", "brass bells"]
                .map(str::to_owned)
                .to_vec(),
            query_vectors: vector_matrix(2, 2, vec![1.0, 0.1, 0.1, 1.0]).unwrap(),
            document_vectors: vector_matrix(4, 2, vec![0.9, 0.4, 0.0, 1.0, 1.0, 0.0, 0.3, 0.3]).unwrap(),
        }
    }

    fn labels(&self) -> RetrievalLabels<'_> {
        RetrievalLabels {
            query_ids: &self.query_ids,
            document_ids: &self.document_ids,
            judgements: &self.judgements,
            ignore_identical_ids: false,
        }
    }

    fn index(&self) -> LexicalIndex {
        LexicalIndex::new(&self.documents, Analysis::of_language(None))
    }

    fn hybrid(&self, fusion: Fusion, dense_weight: f64) -> Result<Scores, ScoreError> {
        let index = self.index();
        score_hybrid(
            &self.labels(),
            DenseInput {
                queries: self.query_vectors.view(),
                documents: self.document_vectors.view(),
                similarity: Similarity::Cosine,
            },
            LexicalInput {
                documents: &index,
                queries: &self.queries,
            },
            HybridSearch { fusion, dense_weight },
            Profile::MtebV2,
        )
    }

    fn dense(&self) -> Scores {
        let input = RetrievalInput {
            queries: self.query_vectors.view(),
            query_ids: &self.query_ids,
            documents: self.document_vectors.view(),
            document_ids: &self.document_ids,
            judgements: &self.judgements,
            ignore_identical_ids: false,
            search: SearchMode::Exact,
        };
        score_retrieval(&input, Similarity::Cosine, Profile::MtebV2).unwrap()
    }

    fn lexical(&self) -> Scores {
        let index = self.index();
        let lexical = LexicalInput {
            documents: &index,
            queries: &self.queries,
        };
        score_lexical(&self.labels(), lexical, Profile::MtebV2).unwrap()
    }
}

#[test]
fn a_query_without_a_known_term_scores_zero_by_terms_and_as_its_vectors_when_fused() {
    let shop = Shop::new(["a green lamp", "zzz"]);
    assert_eq!(shop.lexical().per_item["ndcg_at_10"], [1.0, 0.0]);
    let dense = shop.dense().per_item["ndcg_at_10"].clone();
    assert!(dense[0] < 1.0, "the vectors prefer another document");
    for fusion in Fusion::ALL {
        let fused = shop.hybrid(fusion, 0.5).unwrap();
        assert_eq!(fused.per_item["ndcg_at_10"][1], dense[1], "{}", fusion.name());
        assert_eq!(fused.items, 2);
    }
    let unknown = Shop::new(["zzz", "yyy"]);
    assert_eq!(unknown.lexical().main, 0.0);
    for fusion in Fusion::ALL {
        let fused = unknown.hybrid(fusion, 0.5).unwrap();
        assert_eq!(fused.lists.unwrap().documents, unknown.dense().lists.unwrap().documents);
    }
}

#[test]
fn weights_decide_which_search_a_fused_list_follows() {
    let shop = Shop::new(["green lamps", "oak chairs"]);
    let first = |weight: f64| shop.hybrid(Fusion::Rsf, weight).unwrap().per_item["ndcg_at_10"][0];
    assert_eq!(first(0.01), 1.0);
    assert_eq!(first(0.99), shop.dense().per_item["ndcg_at_10"][0]);
}

#[test]
fn a_similarity_that_is_not_a_number_is_refused_although_terms_find_documents() {
    let mut shop = Shop::new(["green lamps", "oak chairs"]);
    shop.document_vectors[[2, 0]] = f32::NAN;
    let refused = shop.hybrid(Fusion::Rrf, 0.5).unwrap_err();
    assert!(matches!(refused, ScoreError::Undefined { .. }), "{refused}");
}

#[test]
fn texts_that_do_not_match_the_ids_are_refused() {
    let mut shop = Shop::new(["green lamps", "oak chairs"]);
    shop.queries.pop();
    assert!(matches!(
        shop.hybrid(Fusion::Rrf, 0.5).unwrap_err(),
        ScoreError::Rows { what: "queries", .. }
    ));
    shop.queries.push("oak chairs".to_owned());
    shop.documents.pop();
    assert!(matches!(
        shop.hybrid(Fusion::Rrf, 0.5).unwrap_err(),
        ScoreError::Rows { what: "documents", .. }
    ));
}

#[test]
fn ids_order_ties_of_a_fusion() {
    // Each document is first in one list and second in the other.
    let hit = |document, score| Hit { document, score };
    let lists = [vec![hit(0, 2.0), hit(1, 1.0)], vec![hit(1, 2.0), hit(0, 1.0)]];
    let both = lists.each_ref().map(|hits| WeightedHits { hits, weight: 0.5 });
    let ids = ["b", "a"].map(str::to_owned);
    let order = TieOrder::new(id_order(&ids).into(), Ties::IdDescending);
    for fusion in Fusion::ALL {
        let found = fuse(&both, fusion, &order, 2);
        assert_eq!(
            found.iter().map(|hit| hit.document).collect::<Vec<_>>(),
            [0, 1],
            "{}",
            fusion.name()
        );
        assert_eq!(found[0].score, found[1].score);
    }
}
