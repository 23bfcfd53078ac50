//! `isomer eval --augment` over several encoders, data sets and settings: by rule with real
//! encoders, and with a stub of a generator whose calls are counted.

use isomer_stubs::openai::{Answer, Stub};
use isomer_tests::{
    home::Home,
    process::{finish, isomer},
};
use serde_json::Value;

const SMALL: &str = "paraphrase-MiniLM-L3-v2";
const LARGE: &str = "all-MiniLM-L6-v2";

fn run(home: &Home, arguments: &[&str]) -> (i32, String, String) {
    let mut command = isomer(home);
    command.arg("eval").args(arguments);
    finish(&mut command)
}

fn json(home: &Home, arguments: &[&str]) -> Value {
    let (code, stdout, stderr) = run(home, &[arguments, &["--format", "json"]].concat());
    assert_eq!(code, 0, "{stderr}");
    serde_json::from_str(&stdout).unwrap()
}

fn row<'a>(gains: &'a Value, encoder: &str, dataset: &str, setting: Option<&str>) -> &'a Value {
    let mut rows = gains["rows"].as_array().unwrap().iter();
    rows.find(|row| row["encoder"] == encoder && row["dataset"] == dataset && row["setting"].as_str() == setting)
        .unwrap_or_else(|| panic!("{encoder} on {dataset}, {setting:?}"))
}

/// The note on scores that were kept from an earlier run.
fn kept(gains: &Value) -> Option<String> {
    let notes = gains["notes"].as_array().unwrap().iter();
    notes
        .filter_map(Value::as_str)
        .find(|note| note.contains("kept"))
        .map(str::to_owned)
}

#[test]
fn several_encoders_data_sets_and_settings_equal_single_runs_and_are_gone_on_with() {
    let Some(home) = Home::with_models(&[SMALL, LARGE]) else {
        return;
    };
    let out = home.path().join("gains").display().to_string();
    let models = format!("{SMALL},{LARGE}");
    let all = [
        "--model",
        &models,
        "--data",
        "quick/sts",
        "quick/retrieval",
        "--augment",
        "stopword_removal,random_keywords",
        "--settings",
        "each,combinations,queries-only",
        "--out",
        &out,
    ];
    let found = json(&home, &all);
    let settings: Vec<&str> = found["settings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|setting| setting["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        settings,
        [
            "stopword_removal",
            "random_keywords",
            "stopword_removal + random_keywords",
            "stopword_removal, queries only",
            "random_keywords, queries only",
            "stopword_removal + random_keywords, queries only",
        ]
    );
    // Pairs have no documents: four rows per encoder; retrieval has seven.
    assert_eq!(found["rows"].as_array().unwrap().len(), 2 * (4 + 7));
    let one = |arguments: &[&str]| json(&home, &[&["--model", SMALL, "--data"], arguments].concat());
    let single = one(&["quick/sts", "--augment", "random_keywords"]);
    let plain = row(&found, SMALL, "quick/sts", None);
    let augmented = row(&found, SMALL, "quick/sts", Some("random_keywords"));
    let near = |found: &Value, expected: f64| (found.as_f64().unwrap() - expected).abs() < 1e-9;
    let delta = single["delta"].as_f64().unwrap() * 100.0;
    assert!(near(&augmented["gain"]["value"], delta), "{augmented} {delta}");
    let interval = &augmented["gain"]["intervals"]["items"];
    // The service's interval uses the same resamples.
    assert!(
        near(
            &interval["low"],
            single["delta_interval"]["low"].as_f64().unwrap() * 100.0
        ),
        "{interval}"
    );
    assert!(near(
        &interval["high"],
        single["delta_interval"]["high"].as_f64().unwrap() * 100.0
    ));
    let bare = one(&["quick/sts"]);
    let main = bare["scores"]["test"][0]["main_score"].as_f64().unwrap();
    assert!((plain["score"].as_f64().unwrap() - main * 100.0).abs() < 1e-3);
    // Queries alone are a different setting from queries and documents.
    let whole = row(&found, LARGE, "quick/retrieval", Some("random_keywords"));
    let queries = row(&found, LARGE, "quick/retrieval", Some("random_keywords, queries only"));
    assert_eq!(whole["work"]["plain_texts"], 0);
    assert!(queries["work"]["plain_texts"].as_u64().unwrap() > 60, "{queries}");
    assert_eq!(found["tasks"].as_array().unwrap().len(), 2);
    assert_eq!(
        found["cosines"].as_array().unwrap().len(),
        4,
        "of settings with one source, on pairs"
    );
    assert!(
        found["strata"]
            .as_array()
            .unwrap()
            .iter()
            .any(|own| own["by"] == "words")
    );
    for file in ["gains.json", "gains.md", "gains.html"] {
        assert!(home.path().join("gains").join(file).is_file(), "{file}");
    }
    assert!(
        found["notes"]
            .as_array()
            .unwrap()
            .iter()
            .all(|note| !note.as_str().unwrap().contains("kept"))
    );

    // The same command uses the stored scores, with the same result.
    let again = json(&home, &all);
    assert_eq!(kept(&again).unwrap(), "18 of 22 scores were kept from an earlier run");
    assert_eq!((&again["rows"], &again["tasks"]), (&found["rows"], &found["tasks"]));
    // Other options need other scores.
    assert_eq!(kept(&json(&home, &[&all[..], &["--limit", "20"]].concat())), None);
}

/// How scores are kept does not depend on their number, so these are few.
#[test]
fn scores_are_kept_unless_fresh_ones_are_wanted_and_damaged_ones_are_refused() {
    let Some(home) = Home::with_models(&[SMALL]) else {
        return;
    };
    let out = home.path().join("gains").display().to_string();
    let few = [
        "--model",
        SMALL,
        "--data",
        "quick/sts",
        "quick/retrieval",
        "--augment",
        "stopword_removal",
        "--settings",
        "each",
        "--limit",
        "20",
        "--out",
        &out,
    ];
    let fresh = [&few[..], &["--fresh"]].concat();
    assert_eq!(kept(&json(&home, &few)), None);
    assert_eq!(
        kept(&json(&home, &few)).unwrap(),
        "2 of 4 scores were kept from an earlier run"
    );
    assert_eq!(kept(&json(&home, &fresh)), None);
    let cells = home.path().join("gains/cells");
    for entry in std::fs::read_dir(&cells).unwrap() {
        std::fs::write(entry.unwrap().path(), "{}").unwrap();
    }
    let (code, _, stderr) = run(&home, &few);
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("remove it, or give --fresh"), "{stderr}");
    let (code, stdout, stderr) = run(&home, &fresh);
    assert_eq!(code, 0, "{stderr}");
    for part in [
        "Average: sts",
        "Average: retrieval",
        "By data set",
        "Cosine of texts",
        "gains.json",
    ] {
        assert!(stdout.contains(part), "{part} in {stdout}");
    }
}

#[tokio::test]
async fn tokens_outlive_the_cache_times_are_of_fresh_texts_and_a_barren_source_is_an_error() {
    let Some(home) = Home::with_models(&[SMALL]) else {
        return;
    };
    let (good, other, barren) = (
        Stub::start(Answer::Good).await,
        Stub::start(Answer::Good).await,
        Stub::start(Answer::Echo).await,
    );
    let spec = |name: &str, stub: &Stub| format!("openai:{name}@{}", stub.url());
    let (first, second, none) = (spec("first", &good), spec("second", &other), spec("none", &barren));
    let home = std::sync::Arc::new(home);
    let ask = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|one| (*one).to_owned()).collect();
        let home = std::sync::Arc::clone(&home);
        tokio::task::spawn_blocking(move || {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            run(&home, &arguments)
        })
    };
    let base = [
        "--model",
        SMALL,
        "--data",
        "quick/sts",
        "--limit",
        "12",
        "--augment",
        "paraphrase",
        "--format",
        "json",
    ];
    let generators = [
        "--settings",
        "generators",
        "--generator",
        &first,
        "--generator",
        &second,
    ];
    let (code, stdout, stderr) = ask(&[&base[..], &generators].concat()).await.unwrap();
    assert_eq!(code, 0, "{stderr}");
    let found: Value = serde_json::from_str(&stdout).unwrap();
    let both = format!("paraphrase by {first} + {second}");
    let alone = format!("paraphrase by {first}");
    let tokens = |gains: &Value, setting: &str| {
        row(gains, SMALL, "quick/sts", Some(setting))["work"]["generated_tokens"]
            .as_u64()
            .unwrap()
    };
    assert!(tokens(&found, &alone) > 0);
    assert!(tokens(&found, &both) > tokens(&found, &alone));
    let k = |gains: &Value, setting: &str| {
        let rows = gains["tasks"][0]["rows"].as_array().unwrap().clone();
        rows.iter().find(|row| row["setting"] == setting).unwrap()["k"].clone()
    };
    assert_eq!((k(&found, &alone), k(&found, &both)), (1.into(), 2.into()));
    // Everything comes from the cache: no call, the same tokens.
    let calls = (good.calls(), other.calls());
    let (code, stdout, stderr) = ask(&[&base[..], &generators].concat()).await.unwrap();
    assert_eq!(code, 0, "{stderr}");
    let again: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((good.calls(), other.calls()), calls);
    assert_eq!(tokens(&again, &both), tokens(&found, &both));
    let cached = row(&again, SMALL, "quick/sts", Some(&alone));
    assert_eq!(cached["work"]["cached"], cached["work"]["variants"]);
    // Timed runs call the generator again.
    let timed = ["--generator", &first, "--timed-runs", "2", "--timed-rows", "8"];
    let (code, stdout, stderr) = ask(&[&base[..], &timed].concat()).await.unwrap();
    assert_eq!(code, 0, "{stderr}");
    assert!(good.calls() > calls.0, "timed texts are generated");
    let timed: Value = serde_json::from_str(&stdout).unwrap();
    let times = timed["times"].as_array().unwrap();
    assert_eq!(times.len(), 2);
    assert!(
        times
            .iter()
            .all(|row| row["runs"] == 2 && row["cached"] == 0 && row["sd"].is_number())
    );
    assert!(timed["tasks"][0]["rows"][0]["milliseconds_per_text"].is_number());
    // A generator that repeats its text gives no variant: an error that names the place, and no
    // score.
    let (code, stdout, stderr) = ask(&[&base[..], &["--generator", &none, "--settings", "each"]].concat())
        .await
        .unwrap();
    assert_eq!((code, stdout.as_str()), (3, ""), "{stderr}");
    assert!(
        stderr.contains(&format!("{SMALL} on quick/sts, paraphrase")),
        "{stderr}"
    );
    assert!(stderr.contains("gave no variant of any text"), "{stderr}");
}

#[test]
fn settings_that_cannot_be_are_refused_before_anything_is_loaded() {
    let home = Home::empty();
    for (arguments, told) in [
        (
            &["--augment", "paraphrase", "--settings", "combinations"][..],
            "name two or more",
        ),
        (
            &["--augment", "paraphrase", "--settings", "generators"],
            "repeat --generator",
        ),
        (
            &["--augment", "paraphrase", "--settings", "weights", "--pooling", "max"],
            "leave --pooling out",
        ),
        (
            &[
                "--augment",
                "paraphrase",
                "--settings",
                "each,queries-only",
                "--queries-only",
            ],
            "leave one of the two out",
        ),
        (&["--settings", "each"], "--augment"),
        (&["--augment", "paraphrase", "--fresh"], "--out"),
    ] {
        let (code, _, stderr) = run(&home, &[&["--data", "quick/sts"], arguments].concat());
        assert_eq!(code, 2, "{arguments:?}: {stderr}");
        assert!(stderr.contains(told), "{told} in {stderr}");
    }
}
