//! `isomer rerank`, `isomer embed --token-vectors` and `isomer embed --outputs`, on the tiny
//! checkpoints of embed-svc.

use isomer_tests::{
    home::Home,
    process::{finish, isomer},
    workspace,
};
use serde_json::Value;

fn fixture(name: &str) -> String {
    workspace()
        .join("embed-svc/tests/fixtures")
        .join(name)
        .display()
        .to_string()
}

fn rows(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn documents_come_back_best_first_whatever_the_batches() {
    let home = Home::empty();
    let input = home.path().join("documents.jsonl");
    let document = |i: usize| format!("{{\"id\": \"d{i}\", \"text\": \"document{}\"}}\n", " word".repeat(i));
    std::fs::write(&input, (0..7).map(document).collect::<String>()).unwrap();
    let input = input.display().to_string();
    let model = fixture("bert_reranker");
    let ask = |more: &[&str]| {
        let arguments = ["rerank", "--model", &model, "--query", "a question", "--input", &input];
        let (code, stdout, stderr) = finish(isomer(&home).args(arguments).args(more));
        assert_eq!(code, 0, "{stderr}");
        rows(&stdout)
    };
    let all = ask(&[]);
    assert_eq!(all.len(), 7);
    let scores: Vec<f64> = all.iter().map(|row| row["score"].as_f64().unwrap()).collect();
    assert!(scores.windows(2).all(|pair| pair[0] >= pair[1]), "{scores:?}");
    assert!(all.iter().all(|row| row["id"] == format!("d{}", row["index"])));
    assert_eq!(ask(&["--batch", "2"]), all);
    assert_eq!(ask(&["--batch", "3", "--top", "2"]), all[..2]);
}

#[test]
fn a_model_that_is_no_cross_encoder_is_refused_by_name() {
    let home = Home::empty();
    let input = home.path().join("documents.txt");
    std::fs::write(&input, "one\n").unwrap();
    let (input, model) = (input.display().to_string(), fixture("mpnet"));
    let arguments = ["rerank", "--model", &model, "--query", "q", "--input", &input];
    let (code, _, stderr) = finish(isomer(&home).args(arguments));
    assert_ne!(code, 0);
    assert!(stderr.contains("fixtures/mpnet` is not a cross-encoder"), "{stderr}");
}

#[test]
fn token_vectors_come_one_a_token_on_stdout_and_in_a_matrix() {
    let home = Home::empty();
    let input = home.path().join("texts.txt");
    let matrix = home.path().join("tokens.npy");
    std::fs::write(&input, "one two three\nfour\n").unwrap();
    let (input, path, model) = (
        input.display().to_string(),
        matrix.display().to_string(),
        fixture("mpnet"),
    );
    let arguments = ["embed", "--token-vectors", "--model", &model, "--input", &input];
    let (code, stdout, stderr) = finish(isomer(&home).args(arguments));
    assert_eq!(code, 0, "{stderr}");
    let lines = rows(&stdout);
    let counts: Vec<usize> = lines
        .iter()
        .map(|row| row["embeddings"].as_array().unwrap().len())
        .collect();
    assert_eq!(
        lines
            .iter()
            .map(|row| row["tokens"].as_u64().unwrap() as usize)
            .collect::<Vec<_>>(),
        counts
    );

    let (code, stdout, stderr) = finish(isomer(&home).args(arguments).args(["--output", &path]));
    assert_eq!(code, 0, "{stderr}");
    let places: Vec<(u64, u64)> = rows(&stdout)
        .iter()
        .map(|row| (row["first_row"].as_u64().unwrap(), row["rows"].as_u64().unwrap()))
        .collect();
    assert_eq!(places, [(0, counts[0] as u64), (counts[0] as u64, counts[1] as u64)]);
    let header = String::from_utf8_lossy(&std::fs::read(&matrix).unwrap()[..128]).into_owned();
    assert!(
        header.contains(&format!("'shape': ({}, ", counts[0] + counts[1])),
        "{header}"
    );
}

#[test]
fn results_of_one_pass_come_with_their_spaces_whatever_the_batches() {
    let home = Home::empty();
    let input = home.path().join("texts.txt");
    std::fs::write(&input, "one two three\nfour\none two three\n").unwrap();
    let (input, model) = (input.display().to_string(), fixture("bge_m3"));
    let ask = |more: &[&str]| {
        let arguments = ["embed", "--model", &model, "--input", &input];
        finish(isomer(&home).args(arguments).args(more))
    };
    let lines = |more: &[&str]| {
        let (code, stdout, stderr) = ask(more);
        assert_eq!(code, 0, "{stderr}");
        rows(&stdout)
    };
    let all = lines(&["--outputs", "sparse,text-vector,token-vectors"]);
    assert_eq!(
        lines(&["--outputs", "sparse,text-vector,token-vectors", "--batch", "2"]),
        all
    );
    assert_eq!(all.len(), 3);
    let plain = lines(&[]);
    for (line, plain) in all.iter().zip(&plain) {
        assert_eq!(line["embedding"], plain["embedding"]);
        let sparse = &line["sparse_embedding"];
        let count = |list: &Value| list.as_array().unwrap().len();
        assert!(count(&sparse["indices"]) > 0 && count(&sparse["indices"]) == count(&sparse["values"]));
        // Late interaction leaves out the first token.
        assert_eq!(
            count(&line["token_embeddings"]) as u64 + 1,
            line["tokens"].as_u64().unwrap()
        );
        let spaces =
            ["vector_space", "sparse_vector_space", "token_vector_space"].map(|name| line[name].as_str().unwrap());
        assert!(spaces.iter().all(|space| space.len() == 64), "{spaces:?}");
        assert!(spaces[0] != spaces[1] && spaces[1] != spaces[2], "{spaces:?}");
    }
    assert_eq!(all[0]["sparse_embedding"], all[2]["sparse_embedding"]);

    let largest = lines(&["--outputs", "sparse", "--max-active-dimensions", "1"]);
    let value = |line: &Value| line["sparse_embedding"]["values"].clone();
    let most = |line: &Value| {
        let values = value(line).as_array().unwrap().clone();
        values.iter().map(|value| value.as_f64().unwrap()).fold(0.0, f64::max)
    };
    for (line, all) in largest.iter().zip(&all) {
        assert_eq!(value(line), serde_json::json!([most(all)]));
        assert!(line.get("embedding").is_none());
    }
    for refused in [
        &["--outputs", "sparse", "--token-vectors"][..],
        &["--outputs", "sparse", "--output", "vectors.npy"],
        &["--outputs", "dense"],
        &["--max-active-dimensions", "2"],
    ] {
        assert_eq!(ask(refused).0, 2, "{refused:?}");
    }
}

#[test]
fn encoders_of_the_configuration_are_asked_for_by_their_id() {
    let home = Home::empty();
    let config = home.path().join("isomer.toml");
    std::fs::write(&config, format!("[embed.encoders]\nours = {:?}\n", fixture("mpnet"))).unwrap();
    let input = home.path().join("texts.txt");
    std::fs::write(&input, "a text\n").unwrap();
    let (config, input) = (config.display().to_string(), input.display().to_string());
    let ask = |model: &str| {
        let arguments = [
            "embed",
            "--config",
            &config,
            "--offline",
            "--model",
            model,
            "--input",
            &input,
        ];
        finish(isomer(&home).args(arguments))
    };
    let (code, stdout, stderr) = ask("ours");
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(rows(&stdout).len(), 1);
    let (code, _, stderr) = ask("theirs");
    assert_ne!(code, 0);
    assert!(stderr.contains("unknown model `theirs`"), "{stderr}");
}
