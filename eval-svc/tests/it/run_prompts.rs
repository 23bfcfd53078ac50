//! Runs with encoder prompts, and texts that an encoder truncates.

use std::{collections::BTreeMap, path::Path};

use isomer_proto::eval::v1::{EncoderPrompt, RunSpec, RunState, SuiteRef, suite_ref};
use isomer_stubs::promise::refusal;
use serde_json::{Value, json};

use crate::{
    prompts::given,
    run_stubs::{Harness, create, report, report_json, run_to_end, spec},
};

const QUERIES: [(&str, &str); 5] = [
    (
        "who repaired the bridge",
        "The bridge was closed for repairs by the city.",
    ),
    ("rain tomorrow", "Forecasters expect that tomorrow will be wet."),
    ("when does the shop open", "The shop opens at nine."),
    ("late train", "The train was late again because of snow."),
    // A text that is a query and a document.
    ("old bicycle", "old bicycle"),
];

const PAIRS: [(&str, &str, f64); 5] = [
    (
        "A man plays a guitar on stage.",
        "A guitarist performs for a crowd.",
        4.2,
    ),
    (
        "The bridge was closed for repairs.",
        "Repairs kept the bridge shut.",
        4.8,
    ),
    (
        "She planted tomatoes in spring.",
        "The court adjourned until Monday.",
        0.1,
    ),
    ("Rain is expected tomorrow.", "Tomorrow will be wet in the north.", 3.6),
    ("Hello", "The committee rejected the proposal.", 0.0),
];

/// Writes a retrieval and an sts data set with prefixed texts, and returns a suite of both. The
/// transformation appends words to a text, so that the prefix stays at the front.
fn suite(folder: &Path, [query, document, pair]: [&str; 3], head: &str) -> SuiteRef {
    std::fs::create_dir_all(folder.join("find/qrels")).unwrap();
    let (mut corpus, mut queries, mut qrels) =
        (String::new(), String::new(), "query-id\tcorpus-id\tscore\n".to_owned());
    for (i, (q, d)) in QUERIES.iter().enumerate() {
        corpus += &format!(
            "{}\n",
            json!({"_id": format!("d{i}"), "title": "", "text": format!("{document}{d}")})
        );
        queries += &format!("{}\n", json!({"_id": format!("q{i}"), "text": format!("{query}{q}")}));
        qrels += &format!("q{i}\td{i}\t1\n");
    }
    std::fs::write(folder.join("find/corpus.jsonl"), corpus).unwrap();
    std::fs::write(folder.join("find/queries.jsonl"), queries).unwrap();
    std::fs::write(folder.join("find/qrels/test.tsv"), qrels).unwrap();
    let rows = PAIRS.map(|(a, b, score)| {
        json!({"sentence1": format!("{pair}{a}"), "sentence2": format!("{pair}{b}"), "score": score}).to_string()
    });
    std::fs::write(folder.join("pairs.jsonl"), rows.join("\n")).unwrap();
    let text = format!(
        "name = \"prompts\"\nseeds = [1]\ntransformations = [\"expansion\"]\n\n[[dataset]]\ntask = \"retrieval\"\nname = \"find\"\npath = \
         \"find\"\n\n[[dataset]]\ntask = \"sts\"\nname = \"pairs\"\npath = \"pairs.jsonl\"\n{head}"
    );
    SuiteRef {
        source: Some(suite_ref::Source::Toml(text)),
        base_dir: folder.display().to_string(),
        file_name: "prompts.toml".to_owned(),
    }
}

/// Main score by data set and transformation.
fn scores(report: &Value) -> BTreeMap<(String, String), f64> {
    let one = |row: &Value| {
        let name = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        (
            (name("dataset"), name("transformation")),
            row["main_score"].as_f64().unwrap(),
        )
    };
    report["scores"].as_array().unwrap().iter().map(one).collect()
}

/// Mean drift by data set.
fn drift(report: &Value) -> Vec<f64> {
    let rows = report["drift"].as_array().unwrap();
    rows.iter().map(|row| row["mean"].as_f64().unwrap()).collect()
}

const Q: &str = "zzz query zz: ";
const D: &str = "passage xxxx yy: ";
const S: &str = "vvv same www: ";

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_prompts_scores_as_data_with_the_prompts_written_into_it() {
    let harness = Harness::new();
    let (_, mut client) = harness.open().await;
    let folder = harness.home.path().join("data");
    let mut run = async |texts: [&str; 3], head: &str, prompts: Vec<EncoderPrompt>, name: &str| {
        let asked = RunSpec {
            prompts,
            ..spec(suite(&folder.join(name), texts, head), &["stub-a"])
        };
        let run = run_to_end(&mut client, asked).await;
        assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
        report_json(&mut client, &run.id).await
    };
    let by_hand = run([Q, D, S], "", vec![], "hand").await;
    let plain = run(["", "", ""], "", vec![], "plain").await;
    assert_ne!(scores(&by_hand), scores(&plain));
    let all = [("query", Q), ("document", D), ("sts", S)];
    let by_request = run(["", "", ""], "", given(&all), "plain").await;
    assert_eq!(scores(&by_request), scores(&by_hand));
    for (a, b) in drift(&by_request).iter().zip(drift(&by_hand)) {
        assert!((a - b).abs() < 1e-7, "{a} is not {b}");
    }
    let head = format!(
        "\n[encoder.\"stub-a\".prompts]\nquery = \"{Q}\"\npassage = \"{D}\"\nSTS = \"{S}\"\n[encoder.other.prompts]\nquery = \"no\"\n"
    );
    let by_suite = run(["", "", ""], &head, vec![], "plain").await;
    assert_eq!(scores(&by_suite), scores(&by_hand));
    // The same prompts from another source: all scores are found.
    assert_eq!(by_suite["counters"]["scores_computed"], 0);
    harness.manner().prompts = all
        .iter()
        .map(|(role, text)| ((*role).to_owned(), (*text).to_owned()))
        .collect();
    let by_folder = run(["", "", ""], "", vec![], "plain").await;
    assert_eq!(scores(&by_folder), scores(&by_hand));
    assert_eq!(by_folder["counters"]["scores_computed"], 0);
    // Sources in order: request, suite, folder.
    let swapped = [("query", D), ("document", Q)];
    let over = run(["", "", ""], &head, given(&swapped), "plain").await;
    let of = |report: &Value, dataset: &str| scores(report)[&(dataset.to_owned(), String::new())];
    assert_ne!(
        of(&over, "find"),
        of(&by_hand, "find"),
        "swapped prompts give another number"
    );
    assert_eq!(of(&over, "pairs"), of(&by_hand, "pairs"));
    // The scores without prompts are unchanged.
    harness.manner().prompts.clear();
    let again = run(["", "", ""], "", vec![], "plain").await;
    assert_eq!(scores(&again), scores(&plain));
    assert_eq!(again["counters"]["scores_computed"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_report_says_which_prompts_were_used_and_which_were_not() {
    let harness = Harness::new();
    let (_, mut client) = harness.open().await;
    harness.manner().prompts = [("query", Q), ("clustering", "c "), ("passage", "p ")]
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .into();
    let asked = RunSpec {
        prompts: given(&[("document", D)]),
        ..spec(
            suite(&harness.home.path().join("data"), ["", "", ""], ""),
            &["stub-a", "stub-b"],
        )
    };
    let run = run_to_end(&mut client, asked).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    // The requested prompts are stored with the run.
    assert_eq!(run.spec.unwrap().prompts, given(&[("document", D)]));
    let told = report_json(&mut client, &run.id).await;
    for encoder in told["encoders"].as_array().unwrap() {
        assert_eq!(
            encoder["prompts"],
            json!([
                {"part": "query", "source": "encoder", "role": "query", "text": Q, "datasets": ["find"]},
                {"part": "document", "source": "request", "role": "document", "text": D, "datasets": ["find"]},
            ])
        );
        assert_eq!(
            encoder["unused_prompts"],
            json!([{"source": "encoder", "role": "clustering"}, {"source": "encoder", "role": "passage"}])
        );
    }
    use isomer_proto::eval::v1::ReportFormat;
    let page = String::from_utf8(report(&mut client, &run.id, ReportFormat::Html).await).unwrap();
    let text = String::from_utf8(report(&mut client, &run.id, ReportFormat::Markdown).await).unwrap();
    assert!(page.contains(Q.trim()) && page.contains("available, not used"));
    assert!(
        text.contains(&format!("given with the request as document: \"{D}\"")),
        "{text}"
    );
    assert!(
        text.contains("Prompt not used, the encoder's own: clustering"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encoder_that_takes_no_notice_of_prompts_fails_the_run() {
    let harness = Harness::new();
    let (_, mut client) = harness.open().await;
    harness.manner().deaf = true;
    let asked = RunSpec {
        prompts: given(&[("query", Q)]),
        ..spec(suite(&harness.home.path().join("data"), ["", "", ""], ""), &["stub-a"])
    };
    let run = run_to_end(&mut client, asked).await;
    assert_eq!(run.state(), RunState::Failed);
    assert!(run.error.contains("was asked for the prompt"), "{}", run.error);
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_for_what_is_not_there_are_refused_before_anything_is_generated() {
    let harness = Harness::new();
    let (_, mut client) = harness.open().await;
    let folder = harness.home.path().join("data");
    let mut refused = async |head: &str, prompts: Vec<EncoderPrompt>| {
        let asked = RunSpec {
            prompts,
            ..spec(suite(&folder, ["", "", ""], head), &["stub-a"])
        };
        create(&mut client, asked).await.unwrap_err()
    };
    let fault = refused("", given(&[("pasage", "x")])).await;
    assert_eq!(fault.field.as_deref(), Some("spec.prompts[0].role"));
    assert!(fault.message.contains("`passage`"), "{fault}");
    let mut other = given(&[("query", "x")]);
    other[0].encoder_id = "stub-z".to_owned();
    assert_eq!(
        refused("", other).await.field.as_deref(),
        Some("spec.prompts[0].encoder_id")
    );
    let fault = refused("\n[encoder.stub-a.prompts]\nqurey = \"x\"\n", vec![]).await;
    assert!(fault.message.contains("`query`"), "{fault}");
    let fault = refused("\n[encoder.stub-a.prompts]\nquery = 3\n", vec![]).await;
    assert_eq!(refusal(&fault), "INVALID_ARGUMENT BROKEN_SUITE spec.suite");
    assert!(fault.message.contains("prompts.query`"), "{fault}");
    let fault = refused("\n[encoder.stub-a.promts]\nquery = \"x\"\n", vec![]).await;
    assert!(fault.message.contains("prompts"), "{fault}");
    assert_eq!(harness.transform.asked.load(std::sync::atomic::Ordering::SeqCst), 0);
}

/// Rows of truncated texts: data set, transformation, whether no transformation changes them;
/// texts, truncated, unknown.
fn cut(report: &Value) -> Vec<(String, String, bool, [u64; 3])> {
    let row = |row: &Value| {
        let name = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let count = |key: &str| row[key].as_u64().unwrap();
        let counts = [count("texts"), count("cut"), count("unknown")];
        (
            name("dataset"),
            name("transformation"),
            row["fixed"].as_bool().unwrap(),
            counts,
        )
    };
    report["truncation"].as_array().unwrap().iter().map(row).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_that_were_cut_are_counted_also_where_scores_are_found() {
    let harness = Harness::new();
    let (_, mut client) = harness.open().await;
    // " and so on" is ten bytes: of the queries (of 23, 13, 23, 10 and 11) two are longer than 25
    // with it appended. Documents have 46, 45, 23, 41 and 11. Of the ten sentences of the pairs all
    // but `Hello` (5) are longer.
    harness.manner().limit = Some(25);
    let mut run = async || {
        let asked = spec(suite(&harness.home.path().join("data"), ["", "", ""], ""), &["stub-a"]);
        let run = run_to_end(&mut client, asked).await;
        assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
        report_json(&mut client, &run.id).await
    };
    let told = run().await;
    let row = |dataset: &str, transformation: &str, fixed, counts| {
        (dataset.to_owned(), transformation.to_owned(), fixed, counts)
    };
    let expected = vec![
        row("find", "", false, [5, 0, 0]),
        row("find", "", true, [5, 3, 0]),
        row("find", "expansion", false, [5, 2, 0]),
        row("pairs", "", false, [10, 9, 0]),
        row("pairs", "expansion", false, [10, 9, 0]),
    ];
    assert_eq!(cut(&told), expected);
    let said = |report: &Value, key: &str, words: &str| {
        let all = report[key].as_array().unwrap();
        all.iter().any(|one| one.as_str().unwrap().contains(words))
    };
    assert!(said(&told, "headline", "expansion (73 %)"), "{}", told["headline"]);
    assert!(
        said(&told, "notes", "texts that are not transformed 60 %"),
        "{}",
        told["notes"]
    );
    // Cached scores report the same, even for an encoder that no longer reports truncation.
    harness.manner().limit = None;
    let again = run().await;
    assert_eq!(again["counters"]["scores_computed"], 0);
    assert_eq!(cut(&again), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encoder_that_does_not_say_what_it_cut_is_not_said_to_cut_nothing() {
    let harness = Harness::new();
    let (_, mut client) = harness.open().await;
    let asked = spec(suite(&harness.home.path().join("data"), ["", "", ""], ""), &["stub-a"]);
    let run = run_to_end(&mut client, asked).await;
    let told = report_json(&mut client, &run.id).await;
    assert!(
        cut(&told)
            .iter()
            .all(|(.., [texts, cut, unknown])| *cut == 0 && texts == unknown && *texts > 0)
    );
    let notes = told["notes"].to_string();
    assert!(
        notes.contains("stub-a: it is not known which texts were cut"),
        "{notes}"
    );
    let page = report(&mut client, &run.id, isomer_proto::eval::v1::ReportFormat::Html).await;
    assert!(String::from_utf8(page).unwrap().contains("originals unknown"));
}
