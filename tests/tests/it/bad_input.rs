//! Bad input causes a clear error and the right exit code: 2 for usage, configuration, or a name
//! that does not exist, 3 for a model, generator or file.

use std::net::TcpListener;

use isomer_tests::{
    copy_folder,
    home::Home,
    process::{finish, isomer, isomer_in_shell},
};

const ENCODER: &str = "all-MiniLM-L6-v2";

/// Runs `isomer` and checks its exit code and that stderr contains each of the words.
fn fails(home: &Home, arguments: &[&str], code: i32, words: &[&str]) {
    let (got, stdout, stderr) = finish(isomer(home).args(arguments));
    assert_eq!(got, code, "isomer {arguments:?}\nstdout: {stdout}\nstderr: {stderr}");
    for word in words {
        assert!(
            stderr.contains(word),
            "isomer {arguments:?}: `{word}` is not in: {stderr}"
        );
    }
    assert!(!stderr.contains("panicked"), "{stderr}");
}

fn write(home: &Home, name: &str, content: &[u8]) -> String {
    let path = home.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    path.display().to_string()
}

fn sts(home: &Home, name: &str, content: &[u8]) -> String {
    write(home, &format!("{name}.jsonl"), content)
}

#[test]
fn an_unknown_model_names_the_nearest_one() {
    fails(
        &Home::empty(),
        &["embed", "--model", "all-MiniLM-L6-v1", "--input", "Cargo.toml"],
        2,
        &["all-MiniLM-L6-v1", ENCODER],
    );
}

#[test]
fn an_absent_model_offline_names_the_command_that_fetches_it() {
    fails(
        &Home::empty(),
        &["embed", "--model", ENCODER, "--input", "Cargo.toml"],
        3,
        &["isomer models pull all-MiniLM-L6-v2"],
    );
}

#[test]
fn an_unknown_task_and_an_unknown_flag_are_usage_errors() {
    fails(
        &Home::empty(),
        &["eval", "--task", "stss", "--data", "x"],
        2,
        &["--task", "stss", "pair-classification"],
    );
    fails(&Home::empty(), &["check", "--modle", "x"], 2, &["--modle"]);
}

#[test]
fn a_name_that_does_not_exist_is_a_usage_error() {
    let home = Home::empty();
    fails(
        &home,
        &["check", "--suite", "no/suite.toml"],
        2,
        &["--suite", "no/suite.toml"],
    );
    fails(&home, &["datasets", "--family", "mteb"], 2, &["mteb", "pteb"]);
    fails(&home, &["embed", "--input", "no/texts.txt"], 2, &["no/texts.txt"]);
    fails(&home, &["diff", "no/old", "no/new"], 2, &["OLD", "no/old"]);
    let unknown = [
        "transform",
        "--transformation",
        "paraphrase",
        "--generator",
        "openai:gpt-4",
    ];
    fails(
        &home,
        &[&unknown[..], &["--input", "Cargo.toml"]].concat(),
        2,
        &["openai:MODEL@URL"],
    );
}

#[test]
fn a_folder_for_results_that_cannot_be_written_is_told_before_the_work() {
    let home = Home::empty();
    let file = write(&home, "file", b"");
    for line in [
        &["check", "--suite", "noise", "--model", "no/model"][..],
        &["diff", "no/old", "no/new"],
        &["thresholds", "no/run"],
        &["history", "enc"],
        &["ratings", "report", "no/run", "--ratings", "no/ratings"],
    ] {
        fails(&home, &[line, &["--out", &file]].concat(), 2, &["--out", &file]);
    }
}

#[test]
fn an_address_to_listen_on_needs_a_host_and_a_port() {
    for wrong in ["9555", ":9555", "localhost"] {
        fails(
            &Home::empty(),
            &["serve", "--listen", wrong],
            2,
            &["--listen", "127.0.0.1:50051"],
        );
    }
}

#[test]
fn a_closed_pipe_ends_a_completion_script_without_an_error() {
    let home = Home::empty();
    let script = "{ \"$0\" completions bash; echo $? >&2; } | head -c 10";
    let (_, _, stderr) = finish(&mut isomer_in_shell(&home, script));
    assert_eq!(stderr, "0\n");
}

#[test]
fn a_foreign_file_for_the_cache_is_refused_with_its_line_and_its_form_is_named() {
    let home = Home::empty();
    let file = write(&home, "foreign.jsonl", b"{\"text\": \"not ours\"}\n");
    fails(
        &home,
        &["transform", "cache", "import", "--input", &file],
        3,
        &["foreign.jsonl line 1", "nothing was imported"],
    );
    fails(
        &home,
        &["transform", "cache", "export", "--output", "texts.csv"],
        2,
        &["texts.csv", ".jsonl or .parquet"],
    );
    fails(
        &home,
        &["transform", "cache", "stats", "--server", "localhost:1"],
        2,
        &["--server", "run this command there"],
    );
    fails(&home, &["transform"], 2, &["--transformation"]);
}

#[test]
fn an_unknown_transformation_is_a_usage_error() {
    fails(
        &Home::empty(),
        &["transform", "--transformation", "parafrase", "--input", "Cargo.toml"],
        2,
        &["parafrase"],
    );
}

#[test]
fn a_configuration_typo_names_the_key() {
    let home = Home::empty();
    let config = write(&home, "isomer.toml", b"[embed]\nmax_batch_tokenz = 1\n");
    fails(
        &home,
        &["--config", &config, "models", "list"],
        2,
        &["max_batch_tokenz"],
    );
}

#[test]
fn a_port_in_use_is_told_before_anything_is_loaded() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    fails(
        &Home::empty(),
        &["serve", "--listen", &address],
        3,
        &[&address, "in use"],
    );
}

#[test]
fn broken_model_folders_are_refused_by_name() {
    let Some(home) = Home::with_models(&[ENCODER]) else {
        return;
    };
    let input = write(&home, "texts.txt", b"one\ntwo\n");
    let copy = home.path().join("copy");
    copy_folder(&home.model(ENCODER), &copy);
    let folder = copy.display().to_string();

    std::fs::rename(copy.join("tokenizer.json"), home.path().join("kept.json")).unwrap();
    fails(
        &home,
        &["embed", "--model", &folder, "--input", &input],
        3,
        &["tokenizer.json"],
    );
    std::fs::rename(home.path().join("kept.json"), copy.join("tokenizer.json")).unwrap();

    let weights = std::fs::File::options()
        .write(true)
        .open(copy.join("model.safetensors"))
        .unwrap();
    weights.set_len(1 << 20).unwrap();
    fails(
        &home,
        &["embed", "--model", &folder, "--input", &input],
        3,
        &["model.safetensors"],
    );
}

#[test]
fn broken_texts_name_the_line() {
    let Some(home) = Home::with_models(&[ENCODER]) else {
        return;
    };
    let embed = |content: &[u8], words: &[&str]| {
        let input = write(&home, "texts.jsonl", content);
        fails(&home, &["embed", "--input", &input], 3, words);
    };
    embed(b"{\"text\": \"a\"}\n{\"text\": \n", &["line 2", "JSON"]);
    embed(
        b"{\"text\": \"a\"}\n{\"txt\": \"b\"}\n",
        &["line 2", "`text` is missing"],
    );
    embed(b"{\"text\": \"a\"}\n\xff\xfe bad\n", &["line 2", "UTF-8"]);
    embed(b"good\n", &["line 1", "JSON", ".txt"]);
    embed(b"", &["empty"]);
}

#[test]
fn broken_data_sets_name_file_line_and_field() {
    let Some(home) = Home::with_models(&[ENCODER]) else {
        return;
    };
    let eval = |name: &str, content: &[u8], words: &[&str]| {
        let data = sts(&home, name, content);
        let mut words = words.to_vec();
        let file = format!("{name}.jsonl");
        words.push(&file);
        fails(&home, &["eval", "--task", "sts", "--data", &data], 3, &words);
    };
    let good = b"{\"sentence1\": \"a\", \"sentence2\": \"b\", \"score\": 1}\n";
    eval("json", &[good.as_slice(), b"{\"sentence1\": "].concat(), &["line 2"]);
    eval(
        "missing",
        &[good.as_slice(), b"{\"sentence1\": \"a\", \"score\": 1}\n"].concat(),
        &["line 2", "sentence2"],
    );
    eval(
        "score",
        &[
            good.as_slice(),
            b"{\"sentence1\": \"a\", \"sentence2\": \"b\", \"score\": \"high\"}\n",
        ]
        .concat(),
        &["line 2", "score"],
    );
    eval(
        "bytes",
        &[good.as_slice(), b"\xff\xfe\n"].concat(),
        &["line 2", "UTF-8"],
    );
    eval("nothing", b"", &["no rows"]);
    eval("constant", &good.repeat(3), &["constant"]);
    fails(
        &home,
        &["eval", "--task", "sts", "--data", "./no-such-folder"],
        2,
        &["no-such-folder"],
    );
}

#[test]
fn an_unreachable_generator_is_told_at_once() {
    let home = Home::empty();
    let input = write(&home, "texts.txt", b"The cat sat on the mat.\n");
    // The port was bound and released: no server listens there.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let generator = format!("openai:tiny@http://{address}/v1");
    fails(
        &home,
        &[
            "transform",
            "--transformation",
            "paraphrase",
            "--generator",
            &generator,
            "--input",
            &input,
        ],
        3,
        &[&address.to_string()],
    );
}
