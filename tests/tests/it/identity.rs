//! The identity of an encoder is its files. A folder that was changed at the same path is a
//! different encoder: no command uses stored data of the old one. A name of a folder is in every
//! output, and changes no identity.

use std::{
    fs,
    path::{Path, PathBuf},
};

use isomer_tests::{
    folder::{copy, edit},
    home::Home,
    process::{check_into_report, finish, isomer},
};
use serde_json::{Value, json};

const MODEL: &str = "paraphrase-MiniLM-L3-v2";

/// A copy of the model in the home, with modifiable settings.
fn copied(home: &Home) -> PathBuf {
    let (from, to) = (home.model(MODEL), home.path().join("encoder"));
    copy(&from, &to);
    to
}

/// A change that a user may make by mistake.
type Change = (&'static str, fn(&Path));

/// Each change affects vectors but not the weights.
const CHANGES: [Change; 5] = [
    ("letter case", |folder| {
        edit(folder, "tokenizer.json", |tokenizer| {
            tokenizer["normalizer"]["lowercase"] = json!(false)
        });
        edit(folder, "tokenizer_config.json", |config| {
            config["do_lower_case"] = json!(false)
        });
    }),
    ("a token", |folder| {
        edit(folder, "tokenizer.json", |tokenizer| {
            let words = tokenizer["model"]["vocab"].as_object_mut().unwrap();
            let [one, other] = ["the", "river"].map(|word| words[word].clone());
            words.insert("the".into(), other);
            words.insert("river".into(), one);
        });
    }),
    ("longest input", |folder| {
        edit(folder, "sentence_bert_config.json", |settings| {
            settings["max_seq_length"] = json!(8)
        });
    }),
    ("layers", |folder| {
        edit(folder, "config.json", |config| config["num_hidden_layers"] = json!(1))
    }),
    ("pooling", |folder| {
        edit(folder, "1_Pooling/config.json", |pooling| {
            pooling["pooling_mode_mean_tokens"] = json!(false);
            pooling["pooling_mode_cls_token"] = json!(true);
        });
    }),
];

/// The report of a check of the quick suite.
fn report(home: &Home, encoders: &[&str]) -> Value {
    let mut command = check_into_report(home, "quick", "none");
    command.args(encoders).args([
        "--transformation",
        "stopword_removal",
        "--no-suite-rules",
        "--rule",
        "max_drop=100,of=augmentation",
    ]);
    let (code, stdout, stderr) = finish(&mut command);
    serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{code}: {stderr}"))
}

/// Encoder and scores of a check of the quick suite.
fn check(home: &Home, encoder: &Path) -> (Value, Value) {
    let report = report(home, &["--model", encoder.to_str().unwrap()]);
    let scores = report["profile"]["encoders"][0]["datasets"].clone();
    assert!(scores[0].is_object(), "no scores in the report");
    (report["encoders"][0].clone(), scores)
}

#[test]
fn a_check_of_a_changed_folder_says_what_a_fresh_home_says() {
    let Some(home) = Home::with_models(&[MODEL]) else {
        return;
    };
    let encoder = copied(&home);
    let (first, before) = check(&home, &encoder);
    assert_eq!(
        check(&home, &encoder),
        (first.clone(), before.clone()),
        "nothing changed"
    );
    for (what, change) in CHANGES {
        fs::remove_dir_all(&encoder).unwrap();
        copy(&home.model(MODEL), &encoder);
        change(&encoder);
        let (now, after) = check(&home, &encoder);
        assert_eq!(now["weights_digest"], first["weights_digest"], "{what}");
        assert_ne!(now["vector_space"], first["vector_space"], "{what}");
        assert_ne!(after, before, "{what}: scores of the old encoder");
        let fresh = Home::with_models(&[MODEL]).unwrap();
        let (_, expected) = check(&fresh, &encoder);
        assert_eq!(after, expected, "{what}");
    }
}

/// Exit code and standard error of `isomer index …`.
fn index(home: &Home, arguments: &[&str]) -> (i32, String) {
    let mut command = isomer(home);
    command.arg("index").args(arguments);
    let (code, _, stderr) = finish(&mut command);
    (code, stderr)
}

#[test]
fn an_index_of_a_changed_encoder_is_refused_and_one_of_an_older_isomer_is_named() {
    let Some(home) = Home::with_models(&[MODEL]) else {
        return;
    };
    let encoder = copied(&home);
    let place = |name: &str| home.path().join(name).display().to_string();
    fs::write(
        place("source.jsonl"),
        "{\"id\": \"1\", \"text\": \"The river rose.\"}\n{\"id\": \"2\", \"text\": \"We slept.\"}\n",
    )
    .unwrap();
    fs::write(place("queries.jsonl"), "{\"id\": \"q\", \"text\": \"water level\"}\n").unwrap();
    let (source, sink, queries) = (place("source.jsonl"), place("sink"), place("queries.jsonl"));
    let model = encoder.display().to_string();
    let run = [
        "run",
        "--source",
        &source,
        "--sink",
        &sink,
        "--model",
        &model,
        "--with-text",
    ];
    let compare = ["compare", &sink, &sink, "--queries", &queries];
    assert_eq!(index(&home, &run).0, 0);
    assert_eq!(index(&home, &compare).0, 0);

    for (what, change) in CHANGES {
        change(&encoder);
        for command in [&run[..], &compare[..]] {
            let (code, stderr) = index(&home, command);
            assert!(
                code != 0 && stderr.contains("holds vectors that differ"),
                "{what}: {code} {stderr}"
            );
        }
        fs::remove_dir_all(&encoder).unwrap();
        copy(&home.model(MODEL), &encoder);
    }
    assert_eq!(index(&home, &run).0, 0, "the encoder as it was");
}

/// The files under a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, mut found): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    found.extend(folders.iter().flat_map(|folder| files(folder)));
    found
}

#[test]
fn a_name_is_in_every_output_and_the_identity_is_that_of_the_files() {
    let Some(home) = Home::with_models(&[MODEL]) else {
        return;
    };
    // A second runner has the same files at another place.
    let other = Home::with_models(&[MODEL]).unwrap();
    let (here, there) = (copied(&home), other.path().join("checkout"));
    copy(&here, &there);
    let named = |name: &str, folder: &Path| format!("{name}={}", folder.display());

    let first = report(&home, &["--model", &named("candidate", &here)]);
    let second = report(&other, &["--model", &named("candidate", &there)]);
    assert_eq!(first["encoders"][0]["id"], "candidate");
    assert_eq!(first["encoders"], second["encoders"]);
    assert_eq!(first["profile"]["encoders"], second["profile"]["encoders"]);
    let path = here.display().to_string();
    for file in files(&home.path().join("report")) {
        let content = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
        assert!(!content.contains(&path), "{}", file.display());
        assert!(content.contains("candidate"), "{}", file.display());
    }

    // The checks of both runners are one encoder's.
    let mut history = isomer(&home);
    history.args(["history", "candidate", "--format", "json", "--out"]);
    history.arg(home.path().join("history"));
    let (code, stdout, stderr) = finish(history.args([home.path(), other.path()].map(|home| home.join("report"))));
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("candidate"), "{stdout}");

    // Under another name the scores come from the store. The baseline is called as the model is.
    let third = report(&home, &["--model", &named("prod", &here), "--baseline", "prod"]);
    assert_eq!(third["encoders"][0]["id"], "prod");
    assert_eq!(
        third["encoders"][0]["vector_space"],
        first["encoders"][0]["vector_space"]
    );
    let counted = |what: &str| third["counters"][what].as_u64().unwrap();
    assert_eq!((counted("texts_encoded"), counted("scores_computed")), (0, 0));
    assert!(counted("scores_cached") > 0);
}

#[test]
fn cached_vectors_of_other_instructions_are_computed_again() {
    let Some(home) = Home::with_models(&[MODEL]) else {
        return;
    };
    let (cache, texts) = (home.path().join("vectors"), home.path().join("texts.txt"));
    fs::write(&texts, "the river\n").unwrap();
    let spaces = |instructions: &str| {
        let mut embed = isomer(&home);
        embed
            .args(["embed", "--model", MODEL, "--input"])
            .arg(&texts)
            .env("ISOMER_EMBED__CACHE_DIR", &cache)
            .env("ISOMER_EMBED__INSTRUCTIONS", instructions);
        let (code, _, stderr) = finish(&mut embed);
        assert_eq!(code, 0, "{stderr}");
        fs::read_dir(&cache).unwrap().count()
    };
    assert_eq!([spaces("portable"), spaces("portable")], [1, 1]);
    assert_eq!(spaces("best"), 2, "every supported machine has vector instructions");
}
