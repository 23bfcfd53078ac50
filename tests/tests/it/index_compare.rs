//! `isomer index compare`, `robustness`, `interleave` and `preference` over folders of Parquet,
//! with a real encoder.

use isomer_stubs::openai::{Answer, Stub};
use isomer_tests::{
    home::Home,
    process::{finish, isomer},
    workspace,
};
use serde_json::Value;

const MODEL: &str = "paraphrase-MiniLM-L3-v2";

fn run(home: &Home, arguments: &[&str]) -> (i32, String, String) {
    let mut command = isomer(home);
    command.arg("index").args(arguments);
    finish(&mut command)
}

fn json(home: &Home, code: i32, arguments: &[&str]) -> Value {
    let (found, stdout, stderr) = run(home, &[arguments, &["--format", "json"]].concat());
    assert_eq!(found, code, "{stderr} {stdout}");
    serde_json::from_str(&stdout).unwrap()
}

/// The built-in search data set as files, and two collections of it: whole texts, and their first
/// two words.
struct Data {
    queries: String,
    qrels: String,
    whole: String,
    short: String,
}

fn data(home: &Home) -> Data {
    let quick = workspace().join("crates/datasets/quick/retrieval");
    let place = |name: &str| home.path().join(name).display().to_string();
    let corpus = std::fs::read_to_string(quick.join("corpus.jsonl")).unwrap();
    let rows = |words: usize| -> String {
        let row = |line: &str| {
            let row: Value = serde_json::from_str(line).unwrap();
            let (title, text) = (row["title"].as_str().unwrap(), row["text"].as_str().unwrap());
            // As in the data set: the title, then the text.
            let text = format!("{title} {text}");
            let text: Vec<&str> = text.trim().split(' ').take(words).collect();
            format!("{}\n", serde_json::json!({ "id": row["_id"], "text": text.join(" ") }))
        };
        corpus.lines().map(row).collect()
    };
    for (name, words) in [("whole", usize::MAX), ("short", 2)] {
        let source = place(&format!("{name}.jsonl"));
        std::fs::write(&source, rows(words)).unwrap();
        let sink = place(name);
        let filled = [
            "run",
            "--source",
            &source,
            "--sink",
            &sink,
            "--model",
            MODEL,
            "--with-text",
        ];
        let (code, _, stderr) = run(home, &filled);
        assert_eq!(code, 0, "{stderr}");
    }
    Data {
        queries: quick.join("queries.jsonl").display().to_string(),
        qrels: quick.join("qrels/test.tsv").display().to_string(),
        whole: place("whole"),
        short: place("short"),
    }
}

#[test]
fn a_comparison_passes_fails_and_stays_undecided_with_a_checks_exit_codes() {
    let Some(home) = Home::with_models(&[MODEL]) else {
        return;
    };
    let data = data(&home);
    let compare = |code: i32, first: &str, second: &str, more: &[&str]| {
        let base = [
            "compare",
            first,
            second,
            "--queries",
            &data.queries,
            "--qrels",
            &data.qrels,
        ];
        json(&home, code, &[&base[..], more].concat())
    };
    // A collection is not worse than itself, by any margin that can be proven with this number of
    // queries.
    let same = compare(
        0,
        &data.whole,
        &data.whole,
        &["--rule", "margin=20", "--rule", "min_overlap=80"],
    );
    assert_eq!(same["gate"]["verdict"], "passed");
    assert_eq!(
        (&same["measures"][0]["difference"]["mean"], &same["overlap"]["mean"]),
        (&0.0.into(), &1.0.into())
    );
    assert!(
        same["gate"]["rules"][0]["high"].as_f64().unwrap() > 0.0,
        "a bound is not a point"
    );
    // The scores of an exact search are those of `isomer eval`.
    let mut command = isomer(&home);
    command.args([
        "eval",
        "--model",
        MODEL,
        "--data",
        "quick/retrieval",
        "--format",
        "json",
    ]);
    let (code, stdout, stderr) = finish(&mut command);
    assert_eq!(code, 0, "{stderr}");
    let scores: Value = serde_json::from_str(&stdout).unwrap();
    let ndcg = scores["scores"]["test"][0]["ndcg_at_10"].as_f64().unwrap();
    assert!(
        (same["measures"][0]["a"].as_f64().unwrap() - ndcg).abs() < 1e-4,
        "{ndcg}"
    );
    // Two words of each text are far worse.
    let worse = compare(1, &data.whole, &data.short, &["--rule", "margin=1"]);
    assert_eq!(worse["gate"]["verdict"], "failed");
    assert!(worse["measures"][0]["difference"]["high"].as_f64().unwrap() < 0.0);
    // No number of queries proves a drop of exactly zero.
    for (code, undecided) in [(4, "block"), (0, "warn"), (1, "fail")] {
        let found = compare(
            code,
            &data.whole,
            &data.whole,
            &["--rule", "margin=0", "--undecided", undecided],
        );
        assert_eq!(found["gate"]["verdict"], "undecided");
        assert!(found["gate"]["rules"][0]["verdict"] == "undecided");
    }
    let exact = compare(4, &data.whole, &data.short, &["--rule", "min_index_recall=100"]);
    assert_eq!(exact["sides"][0]["index_recall"]["mean"], 1.0);
    let (code, _, stderr) = run(
        &home,
        &[
            "compare",
            &data.whole,
            &data.short,
            "--queries",
            &data.queries,
            "--rule",
            "margin=1",
        ],
    );
    assert_eq!(code, 2, "{stderr}");
    assert!(
        stderr.contains("--rule") && stderr.contains("needs judgements"),
        "{stderr}"
    );
}

#[test]
fn queries_in_other_words_are_searched_for_in_the_index() {
    let Some(home) = Home::with_models(&[MODEL]) else {
        return;
    };
    let data = data(&home);
    let base = [
        "robustness",
        &data.whole,
        "--queries",
        &data.queries,
        "--qrels",
        &data.qrels,
        "--transformation",
    ];
    let found = json(
        &home,
        1,
        &[&base[..], &["stopword_removal,random_keywords", "--rule", "max_drop=1"]].concat(),
    );
    let all = found["transformations"].as_array().unwrap();
    assert_eq!(all.len(), 2);
    let drop = |of: &Value| of["measures"][0]["difference"]["mean"].as_f64().unwrap();
    // A few random words lose more than removing stop words does.
    assert!(drop(&all[1]) < -0.2 && drop(&all[1]) < drop(&all[0]), "{all:?}");
    assert_eq!(all[1]["gate"]["verdict"], "failed");
    assert!(all[1]["overlap"]["mean"].as_f64().unwrap() < 0.9);
    assert_eq!(
        all[0]["measures"][0]["a"], all[1]["measures"][0]["a"],
        "the original is the same"
    );
    // Queries that no transformation changes give no measurement.
    let one = home.path().join("one.jsonl");
    std::fs::write(&one, "{\"id\": \"q\", \"text\": \"volcano\"}\n").unwrap();
    let one = one.display().to_string();
    let (code, _, stderr) = run(
        &home,
        &[
            "robustness",
            &data.whole,
            "--queries",
            &one,
            "--transformation",
            "stopword_removal",
        ],
    );
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("left every query as it was"), "{stderr}");
    // If some queries stay unchanged, the gate is invalid.
    let some = home.path().join("some.jsonl");
    std::fs::write(
        &some,
        "{\"id\": \"a\", \"text\": \"volcano\"}\n{\"id\": \"b\", \"text\": \"what is in the sea and under the ice\"}\n",
    )
    .unwrap();
    let some = some.display().to_string();
    let ask = [
        "robustness",
        &data.whole,
        "--queries",
        &some,
        "--transformation",
        "stopword_removal",
    ];
    let rule = ["--rule", "min_overlap=1"];
    let found = json(&home, 4, &[&ask[..], &rule].concat());
    let own = &found["transformations"][0];
    assert_eq!(
        (&own["unchanged"], &own["gate"]["verdict"]),
        (&1.into(), &"invalid".into())
    );
    let (code, stdout, _) = run(&home, &[&ask[..], &rule, &["--max-unchanged", "0.5"]].concat());
    assert!(code != 2 && !stdout.contains("invalid"), "{stdout}");
}

#[test]
fn interleaved_lists_are_read_back_with_the_clicks_on_them() {
    let Some(home) = Home::with_models(&[MODEL]) else {
        return;
    };
    let data = data(&home);
    let place = |name: &str| home.path().join(name).display().to_string();
    let lists = place("lists.jsonl");
    let (code, _, stderr) = run(
        &home,
        &[
            "interleave",
            &data.short,
            &data.whole,
            "--queries",
            &data.queries,
            "--impressions",
            "4",
            "--draft-seed",
            "1",
            "--lists",
            &lists,
        ],
    );
    assert_eq!(code, 0, "{stderr}");
    let lines: Vec<Value> = std::fs::read_to_string(&lists)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["schema"], "isomer.interleaved/1");
    // Simulated users click on relevant documents.
    let qrels = std::fs::read_to_string(&data.qrels).unwrap();
    let relevant: std::collections::HashSet<(String, String)> = qrels
        .lines()
        .skip(1)
        .map(|line| {
            let mut cells = line.split('\t').map(str::to_owned);
            (cells.next().unwrap(), cells.next().unwrap())
        })
        .collect();
    let mut log = String::new();
    for line in &lines[1..] {
        let impression = &line["impression"];
        log.push_str(&format!(
            "{}\n",
            serde_json::json!({ "impression": impression, "at": "10:00" })
        ));
        for document in line["documents"].as_array().unwrap() {
            let pair = (
                line["query"].as_str().unwrap().to_owned(),
                document.as_str().unwrap().to_owned(),
            );
            if relevant.contains(&pair) {
                log.push_str(&format!(
                    "{}\n",
                    serde_json::json!({ "impression": impression, "document": document })
                ));
            }
        }
    }
    let clicks = place("clicks.jsonl");
    std::fs::write(&clicks, &log).unwrap();
    let found = json(&home, 0, &["preference", &clicks, "--lists", &lists]);
    assert_eq!(
        (&found["shown"], &found["unseen"]),
        (&(lines.len() - 1).into(), &0.into())
    );
    assert!(
        found["delta"]["low"].as_f64().unwrap() > 0.0,
        "whole texts are preferred: {found}"
    );
    std::fs::write(&clicks, log.replace("\"impression\":\"", "\"impression\":\"other-")).unwrap();
    let (code, _, stderr) = run(&home, &["preference", &clicks, "--lists", &lists]);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("there is no list `other-"), "{stderr}");
}

#[tokio::test]
async fn a_judges_ratings_are_told_as_such_with_its_error() {
    let Some(home) = Home::with_models(&[MODEL]) else {
        return;
    };
    let data = data(&home);
    let home = std::sync::Arc::new(home);
    // Everything is rated 2, so the judge does not discriminate.
    let stub = Stub::start(Answer::Text("2".into())).await;
    let judge = format!("openai:judge@{}", stub.url());
    let ask = |qrels: bool| {
        let mut arguments: Vec<String> = [
            "compare",
            &data.whole,
            &data.whole,
            "--queries",
            &data.queries,
            "--k",
            "3",
            "--judge",
            &judge,
        ]
        .map(str::to_owned)
        .to_vec();
        if qrels {
            arguments.extend(["--qrels".to_owned(), data.qrels.clone()]);
        }
        let home = std::sync::Arc::clone(&home);
        tokio::task::spawn_blocking(move || json(&home, 0, &arguments.iter().map(String::as_str).collect::<Vec<_>>()))
    };
    let found = ask(true).await.unwrap();
    let rated = &found["rated"];
    assert_eq!(rated["measures"][0]["a"], 2.0, "{rated}");
    assert!(rated["scale"].as_str().unwrap().contains("not relevance"));
    assert_eq!(rated["agreement_with_judgements"]["mean"], 0.5);
    assert_eq!((&rated["unrated"], &rated["queries"]), (&0.into(), &found["queries"]));
    let found = ask(false).await.unwrap();
    assert_eq!(found["rated"]["agreement_with_judgements"], Value::Null);
}
