//! `isomer serve` as used by clients in other languages, and its shutdown.

use std::{
    fmt::Write as _,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use isomer_stubs::wait::until_blocking;
use isomer_tests::{
    home::Home,
    process::{Server, finish, isomer},
    workspace,
};
use serde_json::Value;

const ENCODER: &str = "all-MiniLM-L6-v2";

/// The Python with the client libraries that `tests/run` installs.
fn python() -> Option<PathBuf> {
    let python = std::env::var_os("ISOMER_TEST_PYTHON").map(PathBuf::from);
    if python.is_none() {
        isomer_stubs::skip("no Python client libraries; tests/run installs them and sets ISOMER_TEST_PYTHON");
    }
    python
}

fn script(python: &PathBuf, name: &str, arguments: &[&str]) {
    let output = Command::new(python)
        .arg(workspace().join("tests/python").join(name))
        .args(arguments)
        .output()
        .unwrap();
    let told = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    println!("{told}");
    assert!(output.status.success(), "{name}: {told}");
}

/// A thousand texts of many lengths; some are empty, some are not English.
fn texts() -> String {
    let mut texts = String::new();
    for i in 0..1000 {
        match i % 50 {
            17 => texts.push('\n'),
            31 => writeln!(texts, "الجملة رقم {i} قصيرة 🙂").unwrap(),
            n => writeln!(texts, "Sentence {i} says{}.", " something again".repeat(n % 9)).unwrap(),
        }
    }
    texts
}

#[test]
fn python_clients_over_grpc_and_openais_own_get_the_command_lines_vectors_bit_for_bit_and_pool_variants_as_numpy_does()
{
    let (Some(python), Some(home)) = (python(), Home::with_models(&[ENCODER])) else {
        return;
    };
    let input = home.path().join("texts.txt");
    let vectors = home.path().join("vectors.npy");
    std::fs::write(&input, texts()).unwrap();
    let (input, vectors) = (input.display().to_string(), vectors.display().to_string());
    let (code, _, stderr) = finish(isomer(&home).args(["embed", "--input", &input, "--output", &vectors]));
    assert_eq!(code, 0, "{stderr}");
    let server = Server::start(&home, &["--model", ENCODER]);
    script(
        &python,
        "encode_client.py",
        &[&server.address.to_string(), &input, &vectors],
    );
    script(&python, "augment_client.py", &[&server.address.to_string()]);
    script(
        &python,
        "openai_client.py",
        &[&server.address.to_string(), &input, &vectors],
    );
}

#[test]
fn the_client_of_the_examples_asks_a_server_with_their_configuration() {
    let (Some(python), Some(home)) = (python(), Home::with_models(&[ENCODER])) else {
        return;
    };
    let examples = workspace().join("examples");
    let config = examples.join("isomer.toml").display().to_string();
    let server = Server::start(&home, &["--config", &config]);
    let output = Command::new(&python)
        .arg(examples.join("client.py"))
        .arg(format!("http://{}", server.address))
        .output()
        .unwrap();
    let (told, error) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8_lossy(&output.stderr),
    );
    let cosine = told
        .trim()
        .strip_prefix("cosine ")
        .and_then(|number| number.parse::<f64>().ok());
    assert!(
        cosine.is_some_and(|cosine| cosine > 0.5 && cosine < 1.0),
        "{told}{error}"
    );
}

#[test]
fn sigterm_under_load_finishes_what_is_in_flight() {
    let (Some(python), Some(home)) = (python(), Home::with_models(&[ENCODER])) else {
        return;
    };
    let mut server = Server::start(&home, &["--model", ENCODER]);
    script(
        &python,
        "drain_client.py",
        &[
            &server.address.to_string(),
            &server.id().to_string(),
            "--exit-within",
            "60",
        ],
    );
    assert_eq!(server.wait(Duration::from_secs(60)), Some(0));
}

#[test]
fn a_command_line_with_server_uses_the_running_one() {
    let Some(home) = Home::with_models(&[ENCODER]) else {
        return;
    };
    let server = Server::start(&home, &[]);
    let input = home.path().join("texts.txt");
    std::fs::write(&input, "one\ntwo\n").unwrap();
    let empty = Home::empty();
    let arguments = [
        "embed",
        "--server",
        &server.address.to_string(),
        "--input",
        &input.display().to_string(),
    ];
    let (code, stdout, stderr) = finish(isomer(&empty).args(arguments));
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(stdout.lines().count(), 2);
}

#[test]
fn a_client_outlives_a_server_that_is_killed_and_started_again() {
    let Some(home) = Home::with_models(&[ENCODER]) else {
        return;
    };
    let path = |name: &str| home.path().join(name).display().to_string();
    let (input, alone, shared) = (path("texts.txt"), path("alone.npy"), path("shared.npy"));
    std::fs::write(&input, texts()).unwrap();
    let (code, _, stderr) = finish(isomer(&home).args(["embed", "--input", &input, "--output", &alone]));
    assert_eq!(code, 0, "{stderr}");

    let mut server = Server::start(&home, &["--model", ENCODER]);
    let address = server.address.to_string();
    let mut client = isomer(&home)
        .args(["embed", "--server", &address, "--input", &input, "--output", &shared])
        .args(["--batch", "4"])
        .spawn()
        .unwrap();
    // The file exists as soon as the first batch is complete.
    let folder = home.path().to_owned();
    let started = || {
        let names = std::fs::read_dir(&folder).unwrap().flatten();
        names
            .into_iter()
            .any(|entry| entry.file_name().to_string_lossy().contains("shared.npy"))
    };
    while !started() {
        assert!(client.try_wait().unwrap().is_none(), "the client ended early");
        std::thread::sleep(Duration::from_millis(5));
    }
    server.kill();
    assert!(
        client.try_wait().unwrap().is_none(),
        "the client was done before the server was killed"
    );
    let _again = Server::start_at(&home, &address, &["--model", ENCODER]);
    assert!(client.wait().unwrap().success());
    assert!(
        std::fs::read(&alone).unwrap() == std::fs::read(&shared).unwrap(),
        "the vectors differ from those without a restart"
    );
}

/// The lines that `isomer serve` writes to standard error until it ends, and `/metrics` in the
/// meantime.
fn logged(home: &Home, filter: &str) -> (Vec<String>, String) {
    let config = home.path().join("isomer.toml");
    std::fs::write(&config, filter).unwrap();
    let mut child = isomer(home)
        .args(["serve", "--listen", "127.0.0.1:0", "--config"])
        .arg(&config)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line.trim().rsplit(' ').next().unwrap().to_owned();
    let ask = |request: String| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let body = r#"{"model":"paraphrase-MiniLM-L3-v2","input":["a","b"]}"#;
    let answered = ask(format!(
        "POST /v1/embeddings HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    ));
    assert!(answered.starts_with("HTTP/1.1 200"), "{answered}");
    let metrics = ask(format!(
        "GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
    ));
    child.kill().unwrap();
    let log = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap)
        .collect();
    child.wait().unwrap();
    (log, metrics)
}

#[test]
fn the_log_is_one_object_a_line_and_the_configurations_filter_holds() {
    let Some(home) = Home::with_models(&["paraphrase-MiniLM-L3-v2"]) else {
        return;
    };
    let (log, _) = logged(&home, "");
    let levels: Vec<String> = log
        .iter()
        .map(|line| {
            let read: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            read["level"].as_str().unwrap().to_owned()
        })
        .collect();
    assert!(levels.iter().any(|level| level == "INFO"), "{log:?}");
    let (log, _) = logged(&home, "[telemetry]\nfilter = \"error\"\n");
    assert!(log.is_empty(), "{log:?}");
}

#[test]
fn metrics_keep_the_rules_of_prometheus() {
    let Some(home) = Home::with_models(&["paraphrase-MiniLM-L3-v2"]) else {
        return;
    };
    let (_, metrics) = logged(&home, "");
    let kinds: Vec<(&str, &str)> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .collect();
    assert!(
        kinds.iter().any(|(name, _)| *name == "isomer_embed_texts_total"),
        "{metrics}"
    );
    for (name, kind) in kinds {
        let help = metrics
            .lines()
            .find_map(|line| line.strip_prefix(&format!("# HELP {name} ")));
        assert!(help.is_some_and(|help| !help.trim().is_empty()), "{name} has no help");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
        let kept = ["_count", "_sum", "_bucket"].iter().any(|end| name.ends_with(end));
        assert!(!kept, "{name} ends like a part of a histogram");
    }
}

#[test]
fn a_server_whose_output_is_on_a_full_disk_serves() {
    let home = Home::empty();
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    // The address cannot be read from the output, so it is chosen here.
    let address = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut server = isomer(&home)
        .args(["serve", "--listen", &address.to_string()])
        .stdout(full())
        .stderr(full())
        .spawn()
        .unwrap();
    until_blocking("the server listens", || {
        assert!(server.try_wait().unwrap().is_none(), "the server ended");
        TcpStream::connect(address).is_ok()
    });
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(server.try_wait().unwrap().is_none(), "it serves on");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn a_failure_that_cannot_be_printed_is_an_exit_code() {
    let home = Home::empty();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = isomer(&home)
        .args(["serve", "--listen", "192.0.2.1:1"])
        .stderr(full)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(3));
}
