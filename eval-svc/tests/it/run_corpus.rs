//! Runs over a corpus that is searched in shards: the report equals that of an unsharded search,
//! and not all vectors are in memory at once.

use std::{collections::BTreeSet, path::Path};

use isomer_eval::{
    Shared,
    metric::search::{Hit, Ties},
    task::{Profile, RetrievalLabels, score_found},
};
use isomer_proto::eval::v1::{Run, RunState, SuiteRef, suite_ref};
use serde_json::{Value, json};

use crate::run_stubs::{
    self, Harness, encoded,
    encoder::{DIMENSIONS, vector},
    report_json, run_to_end, spec,
};

const DOCUMENTS: usize = 90;
const QUERIES: usize = 12;
/// Fields of a report that differ from run to run.
const VARIES: [&str; 6] = [
    "/run/id",
    "/run/created",
    "/run/started",
    "/run/finished",
    "/run/seconds",
    "/durations",
];

/// Texts of documents. Every fourth equals an earlier one in another shard; ids are unordered.
fn document(number: usize) -> (String, String) {
    let of = if number % 4 == 3 { number / 2 } else { number };
    let places = ["harbour", "bridge", "market", "garden", "station"];
    let text = format!(
        "The {} number {of} lies behind the hill, and row {} ends there.",
        places[of % 5],
        of * of % 97
    );
    (format!("d{}", number * 37 % 101), text)
}

/// A retrieval data set and a small one of pairs.
fn suite(folder: &Path, documents: usize, head: &str) -> SuiteRef {
    let data = folder.join("find");
    std::fs::create_dir_all(data.join("qrels")).unwrap();
    let corpus: Vec<String> = (0..documents)
        .map(|number| {
            let (id, text) = document(number);
            let id = if documents > 101 { format!("{id}-{number}") } else { id };
            json!({"_id": id, "title": "", "text": text}).to_string()
        })
        .collect();
    let ids: Vec<String> = corpus
        .iter()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["_id"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    let queries: Vec<String> = (0..QUERIES)
        .map(|number| {
            let (_, text) = document(number * 7);
            json!({"_id": ids[number], "text": format!("Where is it? {text}")}).to_string()
        })
        .collect();
    let qrels: Vec<String> = (0..QUERIES)
        .flat_map(|query| {
            let of = BTreeSet::from([query * 7, query * 5 + 1, documents - 1 - query]);
            let ids = &ids;
            let of = of.into_iter();
            of.map(move |document| format!("{}\t{}\t{}", ids[query], ids[document], 1 + document % 2))
        })
        .collect();
    std::fs::write(data.join("corpus.jsonl"), corpus.join("\n")).unwrap();
    std::fs::write(data.join("queries.jsonl"), queries.join("\n")).unwrap();
    std::fs::write(
        data.join("qrels/test.tsv"),
        format!("query-id\tcorpus-id\tscore\n{}", qrels.join("\n")),
    )
    .unwrap();
    std::fs::write(folder.join("pairs.jsonl"), run_stubs::STS).unwrap();
    let text = format!(
        "name = \"corpus\"\nseeds = [1, 2]\ntransformations = [\"paraphrase\", \"expansion\"]\n{head}\n\
         [[dataset]]\ntask = \"retrieval\"\nname = \"find\"\npath = \"find\"\n\n\
         [[dataset]]\ntask = \"sts\"\nname = \"pairs\"\npath = \"pairs.jsonl\"\n"
    );
    SuiteRef {
        source: Some(suite_ref::Source::Toml(text)),
        base_dir: folder.display().to_string(),
        file_name: "corpus.toml".to_owned(),
    }
}

struct FinishedRun {
    run: Run,
    harness: Harness,
    report: Value,
}

/// For `stub-ties`, every document is one of three points.
fn tied(encoder: &str, text: &str) -> [f32; DIMENSIONS] {
    match text.strip_prefix("The ") {
        Some(text) if encoder == "stub-ties" && text.contains("behind") => {
            vector(encoder, ["a", "b", "c"][text.len() % 3])
        }
        _ => vector(encoder, text),
    }
}

/// A run on a machine without cached data, in shards of this many documents.
async fn run(data: &Path, shard: usize, documents: usize, encoders: &[&str], head: &str) -> FinishedRun {
    let harness = Harness::new();
    harness.manner().limit = Some(70);
    harness.manner().vectors = Some(tied);
    *harness.transform.sampled.lock() = true;
    let (_service, mut client) = harness
        .open_with(Shared::default(), |config| config.shard_documents = shard)
        .await;
    let suite = suite(data, documents, head);
    let run = run_to_end(&mut client, spec(suite, encoders)).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let report = report_json(&mut client, &run.id).await;
    FinishedRun { run, harness, report }
}

/// A report without the fields that differ from run to run, and without the counters of encoded
/// texts: a text in two shards is encoded twice.
fn comparable(report: &Value) -> Value {
    let mut report = report.clone();
    for path in VARIES
        .iter()
        .chain(&["/counters/texts_encoded", "/counters/tokens_encoded"])
    {
        let (parent, name) = path.rsplit_once('/').unwrap();
        let removed = report
            .pointer_mut(parent)
            .unwrap()
            .as_object_mut()
            .unwrap()
            .remove(name);
        assert!(removed.is_some(), "the report has no {path}");
    }
    report
}

fn assert_equal(one: &Value, other: &Value, what: &str) {
    let [one, other] = [one, other].map(|report| serde_json::to_string_pretty(&comparable(report)).unwrap());
    let differs = one.lines().zip(other.lines()).find(|(a, b)| a != b);
    assert!(one == other, "{what}: {differs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_over_shards_is_that_of_the_corpus_in_one_piece() {
    let data = tempfile::tempdir().unwrap();
    // Ties within and across shards: equal texts, and an encoder that maps documents to few points.
    let encoders = ["stub-a", "stub-ties"];
    // mteb's scores need every document of such a small corpus, HTEB's the ten best.
    for (profile, shards) in [("mteb-v2", &[1, 7, DOCUMENTS - 1][..]), ("hteb", &[7][..])] {
        let head = format!("profile = \"{profile}\"\n");
        let whole = run(data.path(), 1_000, DOCUMENTS, &encoders, &head).await;
        let score = |report: &Value| report["scores"][0]["main_score"].as_f64().unwrap();
        assert!(
            score(&whole.report) > 0.0 && score(&whole.report) < 1.0,
            "{}",
            whole.report["scores"][0]
        );
        for &shard in shards {
            let sharded = run(data.path(), shard, DOCUMENTS, &encoders, &head).await;
            assert_equal(&whole.report, &sharded.report, &format!("{profile}, shards of {shard}"));
            let texts = |ended: &FinishedRun| ended.run.counters.unwrap().texts_encoded;
            assert!(
                shard + 1 == DOCUMENTS || texts(&sharded) > texts(&whole),
                "a text in two shards is encoded twice"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_corpus_that_is_no_larger_than_a_shard_is_in_one_piece_and_another_has_another_report() {
    let data = tempfile::tempdir().unwrap();
    let whole = run(data.path(), 1_000, DOCUMENTS, &["stub-a"], "").await;
    let exact = run(data.path(), DOCUMENTS, DOCUMENTS, &["stub-a"], "").await;
    assert_eq!(exact.run.counters, whole.run.counters);
    let smaller = run(data.path(), 7, DOCUMENTS - 1, &["stub-a"], "").await;
    assert_ne!(
        comparable(&smaller.report)["scores"],
        comparable(&whole.report)["scores"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rounds_of_a_sequential_gate_over_shards_are_those_of_the_corpus_in_one_piece() {
    let data = tempfile::tempdir().unwrap();
    let gate = "[gate]\nsequential = \"obrien-fleming\"\n\n[[gate.rule]]\nmin_score = 99\nbasis = \"signed-rank\"\n";
    let more = (0..5).map(|number| {
        format!(
            "\n[[dataset]]\ntask = \"retrieval\"\nname = \"find-{number}\"\npath = \"find\"\nlimit = {}\n",
            5 + number
        )
    });
    let head = gate.to_owned() + &more.collect::<String>();
    let whole = run(data.path(), 1_000, DOCUMENTS, &["stub-a"], &head).await;
    let sharded = run(data.path(), 8, DOCUMENTS, &["stub-a"], &head).await;
    assert!(
        !whole.report["gate"]["sequential"].is_null(),
        "{}",
        whole.report["gate"]
    );
    assert!(whole.report["gate"]["sequential"]["rounds"].as_array().unwrap().len() > 1);
    assert_equal(&whole.report, &sharded.report, "rounds");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_is_encoded_after_the_one_before_it_whose_vectors_are_dropped() {
    let data = tempfile::tempdir().unwrap();
    let (documents, shard) = (600, 40);
    let sharded = run(data.path(), shard, documents, &["stub-a"], "").await;
    let encoded = sharded.harness.encoder.texts();
    let texts: Vec<String> = (0..documents).map(|number| document(number).1).collect();
    let corpus: BTreeSet<&str> = texts.iter().map(String::as_str).collect();
    let mut asked = encoded.iter().map(String::as_str).filter(|text| corpus.contains(text));
    let mut before = BTreeSet::new();
    let mut again = 0;
    for texts in texts.chunks(shard) {
        let expected: BTreeSet<&str> = texts.iter().map(String::as_str).collect();
        // The requests for a shard may arrive in any order.
        let arrived: BTreeSet<&str> = asked.by_ref().take(expected.len()).collect();
        assert_eq!(arrived, expected);
        again += arrived.intersection(&before).count();
        before.extend(arrived);
    }
    assert_eq!(asked.next(), None, "the corpus is encoded once");
    assert!(again > shard, "texts of earlier shards are encoded again: {again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_run_over_shards_encodes_nothing() {
    let data = tempfile::tempdir().unwrap();
    let first = run(data.path(), 8, DOCUMENTS, &["stub-a"], "").await;
    let (_service, mut client) = first
        .harness
        .open_with(Shared::default(), |config| config.shard_documents = 8)
        .await;
    let before = encoded(&first.harness.encoder).len();
    let suite = suite(data.path(), DOCUMENTS, "");
    let again = run_to_end(&mut client, spec(suite, &["stub-a"])).await;
    let counters = again.counters.unwrap();
    assert_eq!((counters.texts_encoded, counters.scores_computed), (0, 0));
    assert_eq!(encoded(&first.harness.encoder).len(), before);
    let report = report_json(&mut client, &again.id).await;
    for part in ["profile", "truncation"] {
        assert!(report[part] == first.report[part] && !report[part].is_null(), "{part}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_whose_vector_is_not_a_number_ends_the_run_and_is_named() {
    fn with_one_that_is_not(encoder: &str, text: &str) -> [f32; DIMENSIONS] {
        let mut vector = vector(encoder, text);
        if text.contains("number 58 lies") {
            vector[3] = f32::NAN;
        }
        vector
    }
    for (shard, vectors, ends) in [
        (
            8,
            Some(with_one_that_is_not as run_stubs::encoder::Vectoriser),
            RunState::Failed,
        ),
        (8, None, RunState::Succeeded),
    ] {
        let harness = Harness::new();
        harness.manner().vectors = vectors;
        let (_service, mut client) = harness
            .open_with(Shared::default(), |config| config.shard_documents = shard)
            .await;
        let suite = suite(harness.home.path(), DOCUMENTS, "");
        let run = run_to_end(&mut client, spec(suite, &["stub-a"])).await;
        assert_eq!(run.state(), ends, "{}", run.error);
        if ends == RunState::Failed {
            assert!(
                run.error.contains("the document \"The garden number 58 lies") && run.error.contains("not a number"),
                "{}",
                run.error
            );
        }
    }
}

#[test]
fn a_list_that_lacks_a_document_is_refused() {
    let ids: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
    let labels = RetrievalLabels {
        query_ids: &ids[..1],
        document_ids: &ids,
        judgements: &[vec![(1, 1)]],
        ignore_identical_ids: false,
    };
    let terms = labels.terms(Profile::MtebV2);
    assert_eq!((terms.k, terms.ties), (1000, Ties::IdDescending));
    let terms = RetrievalLabels {
        ignore_identical_ids: true,
        ..labels
    };
    let terms = terms.terms(Profile::Hteb);
    assert_eq!((terms.k, terms.ties), (11, Ties::CorpusOrder));
    let hits = |documents: &[usize]| -> Vec<Vec<Hit>> {
        let hit = |(rank, document): (usize, &usize)| Hit {
            document: *document,
            score: 1.0 - rank as f32,
        };
        vec![documents.iter().enumerate().map(hit).collect()]
    };
    let scores = score_found(&labels, hits(&[1, 0, 2]), Profile::MtebV2).unwrap();
    assert_eq!(scores.main, 1.0);
    let error = score_found(&labels, hits(&[1, 0]), Profile::MtebV2).unwrap_err();
    assert!(
        error.to_string().contains("query `a` and a document is not a number"),
        "{error}"
    );
    assert!(score_found(&labels, Vec::new(), Profile::MtebV2).is_err());
}
