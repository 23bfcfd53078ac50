//! Searches by terms, alone and fused with vectors, as encoders of a run.

use isomer_eval::{
    Shared,
    dataset::{Dataset, LoadOptions, Source, load},
    lexical::{Analysis, LexicalIndex},
    metric::{Similarity, fusion::Fusion, vector_matrix},
    task::{DenseInput, HybridSearch, LexicalInput, Profile, Scores, TaskType, score_hybrid, score_lexical},
};
use isomer_proto::{
    eval::v1::{Gate, GateRule, ReportFormat, RunSpec, RunState, SuiteRef, Verdict, suite_ref},
    transform::v1::Outcome,
};
use ndarray::{Array2, s};
use serde_json::{Value, json};
use tonic::Code;

use crate::run_stubs::{
    Harness, create, encoded,
    encoder::{DIMENSIONS, vector},
    repeats, report, report_json, run_to_end, spec,
};

const QUERIES: usize = 24;
const THINGS: [&str; 8] = [
    "boats", "lamps", "chairs", "clocks", "coats", "drums", "plates", "bells",
];

/// A rewrite of a query: every second one loses its number, and all say it in other words.
fn rewritten(text: &str) -> String {
    let words = text.split_whitespace().map(|word| match word.parse::<u32>() {
        Ok(number) if number % 2 == 0 => "several",
        _ if word == "bought" => "acquired",
        _ => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

fn healthy() -> Harness {
    let harness = Harness::new();
    *harness.transform.rewriter.lock() = Some(|_, _, text| (rewritten(text), Outcome::Ok));
    harness
}

/// A suite of one retrieval data set, whose queries are rewritten.
fn suite(harness: &Harness, head: &str) -> SuiteRef {
    let folder = harness.home.path().join("data/find");
    std::fs::create_dir_all(folder.join("qrels")).unwrap();
    let documents = (0..QUERIES).map(|i| {
        let text = format!("A shop in town sold {} old {} to the mayor.", i + 12, THINGS[i % 8]);
        json!({"_id": format!("d{i}"), "title": "", "text": text}).to_string()
    });
    let queries = (0..QUERIES).map(|i| {
        let text = format!("who bought {} old {}", i + 12, THINGS[i % 8]);
        json!({"_id": format!("q{i}"), "text": text}).to_string()
    });
    let relevant: String = (0..QUERIES).map(|i| format!("q{i}\td{i}\t1\n")).collect();
    std::fs::write(folder.join("corpus.jsonl"), documents.collect::<Vec<_>>().join("\n")).unwrap();
    std::fs::write(folder.join("queries.jsonl"), queries.collect::<Vec<_>>().join("\n")).unwrap();
    let relevant = format!("query-id\tcorpus-id\tscore\n{relevant}");
    std::fs::write(folder.join("qrels/test.tsv"), relevant).unwrap();
    SuiteRef {
        source: Some(suite_ref::Source::Toml(format!(
            "name = \"small\"\nseeds = [1]\ntransformations = [\"paraphrase\"]\n{head}\n[[dataset]]\ntask = \"retrieval\"\nname = \
             \"find\"\npath = \"find\"\n"
        ))),
        base_dir: harness.home.path().join("data").display().to_string(),
        file_name: "small.toml".to_owned(),
    }
}

fn forms(suite: SuiteRef, encoders: &[&str], forms: &[&str]) -> RunSpec {
    RunSpec {
        forms: forms.iter().map(|form| (*form).to_owned()).collect(),
        ..spec(suite, encoders)
    }
}

async fn checked(harness: &Harness, spec: RunSpec) -> Value {
    let (_service, mut client) = harness.open().await;
    let run = run_to_end(&mut client, spec).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    report_json(&mut client, &run.id).await
}

/// Main score of an encoder on the original texts, or on the rewritten ones.
fn score(report: &Value, encoder: &str, original: bool) -> f64 {
    let mut rows = report["scores"].as_array().unwrap().iter();
    let row = rows.find(|row| row["encoder"] == encoder && row["transformation"].is_null() == original);
    row.unwrap()["main_score"].as_f64().unwrap()
}

/// The data set, with its texts as they are or rewritten.
struct Find {
    dataset: Dataset,
    texts: Vec<String>,
}

impl Find {
    fn new(harness: &Harness, original: bool) -> Self {
        let folder = harness.home.path().join("data/find");
        let dataset = load(TaskType::Retrieval, &Source::Path(folder), &LoadOptions::default()).unwrap();
        let text = |one: &isomer_eval::dataset::DatasetText| match original || !one.transformable {
            true => one.text.to_string(),
            false => rewritten(&one.text),
        };
        let texts = dataset.texts().iter().map(text).collect();
        Self { dataset, texts }
    }

    fn index(&self) -> LexicalIndex {
        LexicalIndex::new(&self.texts[QUERIES..], Analysis::of_language(None))
    }

    fn lexical(&self) -> Scores {
        let index = self.index();
        let input = LexicalInput {
            documents: &index,
            queries: &self.texts[..QUERIES],
        };
        score_lexical(&self.dataset.retrieval().unwrap(), input, Profile::MtebV2).unwrap()
    }

    fn hybrid(&self, encoder: &str, fusion: Fusion, dense_weight: f64) -> Scores {
        let index = self.index();
        let rows: Vec<f32> = self.texts.iter().flat_map(|text| vector(encoder, text)).collect();
        let vectors: Array2<f32> = vector_matrix(self.texts.len(), DIMENSIONS, rows).unwrap();
        let dense = DenseInput {
            queries: vectors.slice(s![..QUERIES, ..]),
            documents: vectors.slice(s![QUERIES.., ..]),
            similarity: Similarity::Cosine,
        };
        let input = LexicalInput {
            documents: &index,
            queries: &self.texts[..QUERIES],
        };
        let hybrid = HybridSearch { fusion, dense_weight };
        score_hybrid(
            &self.dataset.retrieval().unwrap(),
            dense,
            input,
            hybrid,
            Profile::MtebV2,
        )
        .unwrap()
    }
}

#[tokio::test]
async fn terms_are_those_of_the_texts_that_the_encoder_got() {
    let harness = healthy();
    let all = ["bm25", "hybrid:rrf", "hybrid:dbsf", "hybrid:rsf:0.7", "hamming"];
    let report = checked(&harness, forms(suite(&harness, ""), &["stub-keen"], &all)).await;
    assert!(
        repeats(&harness.encoder).is_empty(),
        "each text is encoded once for all forms"
    );
    for original in [true, false] {
        let find = Find::new(&harness, original);
        let of = |form: &str| score(&report, &format!("stub-keen+{form}"), original);
        assert_eq!(of("bm25"), find.lexical().main, "original: {original}");
        for (form, fusion, weight) in [
            ("hybrid:rrf", Fusion::Rrf, 0.5),
            ("hybrid:dbsf", Fusion::Dbsf, 0.5),
            ("hybrid:rsf:0.7", Fusion::Rsf, 0.7),
        ] {
            assert_eq!(
                of(form),
                find.hybrid("stub-keen", fusion, weight).main,
                "{form}, original: {original}"
            );
        }
    }
    let bm25 = |original| score(&report, "stub-keen+bm25", original);
    assert!(bm25(true) > bm25(false) + 0.1, "queries without their number find less");
}

#[tokio::test]
async fn searches_encode_nothing_more_and_terms_are_scored_once_for_all_encoders() {
    let plain = healthy();
    checked(&plain, spec(suite(&plain, ""), &["stub-keen"])).await;
    let harness = healthy();
    let first = checked(
        &harness,
        forms(suite(&harness, ""), &["stub-keen"], &["bm25", "hybrid:rrf"]),
    )
    .await;
    assert_eq!(encoded(&harness.encoder).len(), encoded(&plain.encoder).len());
    let again = checked(
        &harness,
        forms(suite(&harness, ""), &["stub-keen"], &["hybrid:rrf", "bm25"]),
    )
    .await;
    assert_eq!(again["counters"]["scores_computed"], 0);
    assert_eq!(encoded(&harness.encoder).len(), encoded(&plain.encoder).len());
    // An encoder with other vectors shares the scores by terms alone: of its six, two are known.
    let other = checked(
        &harness,
        forms(suite(&harness, ""), &["stub-worse"], &["bm25", "hybrid:rrf"]),
    )
    .await;
    assert_eq!(other["counters"]["scores_computed"], 4);
    assert_eq!(other["counters"]["scores_cached"], 2);
    for original in [true, false] {
        let bm25 = |report: &Value, encoder: &str| score(report, &format!("{encoder}+bm25"), original);
        assert_eq!(bm25(&first, "stub-keen"), bm25(&other, "stub-worse"));
    }
    // A form of the cache of another one would have its numbers.
    let fresh = healthy();
    let alone = checked(&fresh, forms(suite(&fresh, ""), &["stub-worse"], &["hybrid:rsf:0.7"])).await;
    let cached = checked(
        &harness,
        forms(suite(&harness, ""), &["stub-worse"], &["hybrid:rsf:0.7"]),
    )
    .await;
    for original in [true, false] {
        let of = |report: &Value| score(report, "stub-worse+hybrid:rsf:0.7", original);
        assert_eq!(of(&alone), of(&cached));
    }
}

#[tokio::test]
async fn a_report_says_how_much_of_the_drop_a_search_leaves() {
    let harness = healthy();
    let (_service, mut client) = harness.open().await;
    let spec = forms(suite(&harness, ""), &["stub-keen"], &["bm25", "hybrid:rrf"]);
    let run = run_to_end(&mut client, spec).await;
    let json = report_json(&mut client, &run.id).await;
    let drop = |encoder: &str| score(&json, encoder, true) - score(&json, encoder, false);
    let shares = json["drop_shares"].as_array().unwrap();
    let quantities: Vec<&Value> = shares.iter().map(|one| &one["quantity"]["name"]).collect();
    assert_eq!(
        quantities,
        ["lexical", "lexical", "paraphrase", "paraphrase", "total", "total"]
    );
    for one in shares {
        assert_eq!(one["encoder"], "stub-keen");
        let form = one["form"].as_str().unwrap();
        let share = one["share"].as_f64().unwrap();
        let expected = drop(&format!("stub-keen+{form}")) / drop("stub-keen");
        // mteb rounds the mean over queries to five decimals.
        assert!((share - expected).abs() < 1e-3, "{form}: {share}, not {expected}");
        let end = |name: &str| one[name].as_f64().unwrap();
        assert!(end("low") < share && share < end("high"), "{one}");
    }
    // Neither the drift of vectors nor their separation is that of a search.
    for list in ["/drift", "/separation/encoders"] {
        let rows = json.pointer(list).and_then(Value::as_array).unwrap();
        assert!(rows.iter().all(|row| row["encoder"] == "stub-keen"), "{list}");
    }
    for format in [ReportFormat::Markdown, ReportFormat::Html] {
        let page = String::from_utf8(report(&mut client, &run.id, format).await).unwrap();
        for part in ["Search by terms", "hybrid:rrf", "bm25"] {
            assert!(page.contains(part), "{format:?} lacks {part}");
        }
    }
}

fn ruled(texts: &[&str]) -> Option<Gate> {
    let rule = |text: &&str| GateRule {
        text: (*text).to_owned(),
        ..GateRule::default()
    };
    Some(Gate {
        rules: texts.iter().map(rule).collect(),
        ..Gate::default()
    })
}

#[tokio::test]
async fn a_rule_that_names_a_form_judges_the_encoders_in_it_alone() {
    let harness = healthy();
    let judged = async |rules: &[&str]| {
        let spec = RunSpec {
            gate: ruled(rules),
            ..forms(suite(&harness, ""), &["stub-keen"], &["bm25", "hybrid:rrf"])
        };
        let (_service, mut client) = harness.open().await;
        let run = run_to_end(&mut client, spec).await;
        assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
        (run.verdict(), report_json(&mut client, &run.id).await["gate"].take())
    };
    let named = |gate: &Value| -> Vec<String> {
        let own = gate["encoders"].as_array().unwrap().iter();
        own.map(|one| one["encoder"].as_str().unwrap().to_owned()).collect()
    };
    let limits =
        ",basis=point,max_unchanged=1,max_near_copies=1,max_same_rewrites=1,max_at_chance=1,max_shared=1,min_items=1";
    let rule = |text: &str| format!("{text}{limits}");
    // Half of the queries lose their number, so terms alone lose more than 5 points.
    let (verdict, gate) = judged(&[&rule("max_drop=5,form=bm25")]).await;
    assert_eq!(
        (verdict, named(&gate)),
        (Verdict::Fail, vec!["stub-keen+bm25".to_owned()]),
        "{gate}"
    );
    assert_eq!(gate["rules"][0]["form"], "bm25");
    let (verdict, gate) = judged(&[&rule("max_drop=100,form=hybrid:rrf:0.5")]).await;
    assert_eq!(
        (verdict, named(&gate)),
        (Verdict::Pass, vec!["stub-keen+hybrid:rrf".to_owned()]),
        "{gate}"
    );
    let (_, gate) = judged(&[&rule("max_drop=100,form=dense"), &rule("max_drop=5,form=bm25")]).await;
    assert_eq!(named(&gate), ["stub-keen", "stub-keen+bm25"]);
    for (encoder, own, other) in [(0, 0, 1), (1, 1, 0)] {
        let rules = &gate["encoders"][encoder]["rules"];
        assert!(rules[own]["estimate"].is_number() && rules[own].get("not_applicable").is_none());
        assert_eq!(rules[other]["not_applicable"], true);
        assert!(rules[other]["estimate"].is_null());
    }
    let (_, gate) = judged(&[&rule("max_drop=100"), "min_separation=0.1"]).await;
    assert_eq!(named(&gate).len(), 3);
    assert!(gate["encoders"][0]["rules"][1].get("not_applicable").is_none());
    assert_eq!(
        gate["encoders"][2]["rules"][1]["not_applicable"], true,
        "a search has no separation"
    );
}

#[tokio::test]
async fn searches_that_cannot_be_measured_are_refused_before_anything_is_generated() {
    let harness = healthy();
    let (_service, client) = harness.open().await;
    let (_small_service, small) = harness
        .open_with(Shared::default(), |config| config.shard_documents = 10)
        .await;
    let asked = |form: &[&str]| forms(suite(&harness, ""), &["stub-keen"], form);
    let mixed = forms(
        harness.suite("seeds = [1]\ntransformations = [\"paraphrase\"]\n"),
        &["stub-keen"],
        &["bm25"],
    );
    let by_rule = |text: &str| RunSpec {
        gate: ruled(&[text]),
        ..asked(&["bm25"])
    };
    for (mut client, spec, field, part) in [
        (
            client.clone(),
            asked(&["bm52"]),
            "spec.forms[0]",
            "did you mean `bm25`?",
        ),
        (
            client.clone(),
            asked(&["hybrid:rff"]),
            "spec.forms[0]",
            "did you mean `rrf`?",
        ),
        (
            client.clone(),
            asked(&["bm25", "bm25"]),
            "spec.forms[1]",
            "`bm25` is named twice",
        ),
        (client.clone(), mixed, "spec.forms", "by themselves"),
        (small, asked(&["hybrid:rrf"]), "spec.forms", "eval.shard_documents"),
        (
            client.clone(),
            by_rule("max_drop=5,form=hybrid:rrf"),
            "spec.gate.rules[0].form",
            "bm25, dense",
        ),
        (
            client.clone(),
            by_rule("min_separation=0.5,form=bm25"),
            "spec.gate.rules[0].form",
            "`bm25`, or the rule cannot be about it",
        ),
    ] {
        let refused = create(&mut client, spec).await.unwrap_err();
        assert_eq!(
            (refused.code, refused.field.as_deref()),
            (Code::InvalidArgument, Some(field)),
            "{refused}"
        );
        assert!(refused.message.contains(part), "{refused}");
    }
    assert!(encoded(&harness.encoder).is_empty());
}
