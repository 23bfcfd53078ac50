//! The gateway in front of real encoder services: replicas, a provider in another language, keys,
//! the page.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use isomer_stubs::wait::until_blocking;
use isomer_tests::{
    home::Home,
    process::{Server, finish, isomer},
    workspace,
};
use serde_json::Value;

const ENCODER: &str = "paraphrase-MiniLM-L3-v2";

/// A folder with texts, and the command line's own vectors of these texts.
struct Texts {
    input: String,
    expected: Vec<u8>,
}

fn texts(home: &Home) -> Texts {
    let input = home.path().join("texts.txt");
    let lines: Vec<String> = (0..300)
        .map(|k| format!("Sentence {k} says{}.", " it again".repeat(k % 7)))
        .collect();
    fs::write(&input, lines.join("\n") + "\n").unwrap();
    let input = input.display().to_string();
    let expected = embed(home, &["--model", ENCODER, "--input", &input]).expect("vectors of this process");
    Texts { input, expected }
}

/// The matrix that `isomer embed` writes, or its exit code and message.
fn embed(home: &Home, arguments: &[&str]) -> Result<Vec<u8>, (i32, String)> {
    let output = home.path().join("out.npy");
    let output = output.display().to_string();
    let (code, _, stderr) = finish(isomer(home).arg("embed").args(arguments).args(["--output", &output]));
    if code == 0 {
        Ok(fs::read(output).unwrap())
    } else {
        Err((code, stderr))
    }
}

fn config(home: &Home, name: &str, text: &str) -> String {
    let path = home.path().join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// A gateway with these providers, each given as (id, address, encoders).
fn gateway(home: &Home, providers: &[(&str, String, &str)]) -> Server {
    let tables = providers.iter().map(|(id, address, encoders)| {
        format!(
            "[[provider]]\nid = \"{id}\"\nkind = \"isomer\"\naddress = \"grpc://{address}\"\nencoders = {encoders}\n"
        )
    });
    let file = config(home, "providers.toml", &tables.collect::<String>());
    let text = format!(
        "[addresses]\nallow = [\"127.0.0.1\"]\n[providers]\nfile = \"{file}\"\n[routing]\ncache_bytes = 0\n\
         [eval]\ndata_roots = [\"{}\"]\n",
        home.path().display()
    );
    Server::start(home, &["--config", &config(home, "gateway.toml", &text)])
}

fn get(address: SocketAddr, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn replicas_answer_as_one_and_the_death_of_one_is_not_noticed() {
    let Some(home) = Home::with_models(&[ENCODER]) else {
        return;
    };
    let texts = texts(&home);
    let (mut first, second) = (
        Server::start(&home, &["--model", ENCODER]),
        Server::start(&home, &["--model", ENCODER]),
    );
    let encoders = format!("{{ shared = \"{ENCODER}\" }}");
    let gateway = gateway(
        &home,
        &[
            ("one", first.address.to_string(), &encoders),
            ("two", second.address.to_string(), &encoders),
        ],
    );
    let address = gateway.address.to_string();
    let through = || {
        embed(
            &home,
            &["--server", &address, "--model", "shared", "--input", &texts.input],
        )
    };
    assert_eq!(through().unwrap(), texts.expected, "bit for bit");
    first.kill();
    for _ in 0..5 {
        assert_eq!(through().unwrap(), texts.expected);
    }
    let page = get(gateway.address, "/", "");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    for word in ["shared", "one", "two", ENCODER, "Try it"] {
        assert!(page.contains(word), "{word} is missing from the page");
    }
    let tried = get(
        gateway.address,
        "/?first=A+small+test.&second=Another.&encoder=shared&transformation=stopword_removal",
        "",
    );
    assert!(
        tried.contains("Cosine of the first text with") && !tried.contains("class=\"problem\""),
        "{tried}"
    );
    let refused = get(
        gateway.address,
        "/?first=A&second=B&encoder=shared",
        "Sec-Fetch-Site: cross-site\r\n",
    );
    assert!(refused.contains("another page") && !refused.contains("Cosine of the first"));
}

/// The provider in Python; killed when dropped.
struct Python(Child);

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn python_provider() -> Option<(Python, String)> {
    let Some(python) = std::env::var_os("ISOMER_TEST_PYTHON").map(PathBuf::from) else {
        isomer_stubs::skip("no Python client libraries; tests/run installs them and sets ISOMER_TEST_PYTHON");
        return None;
    };
    let provider = workspace().join("tests/python/provider/provider.py");
    let mut child = Command::new(python)
        .arg(provider)
        .args(["--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line
        .trim()
        .strip_prefix("listening on ")
        .expect("an address")
        .to_owned();
    Some((Python(child), address))
}

#[test]
fn an_encoder_written_in_python_is_one_like_any_other() {
    let Some((_python, address)) = python_provider() else {
        return;
    };
    let home = Home::empty();
    let gateway = gateway(&home, &[("python", address, "{ hashed = \"hashing-256\" }")]);
    let server = gateway.address.to_string();
    let pairs = "{\"sentence1\":\"a cat sat\",\"sentence2\":\"a cat sat\",\"score\":5}\n\
                 {\"sentence1\":\"a cat sat\",\"sentence2\":\"a cat stood\",\"score\":3}\n\
                 {\"sentence1\":\"a cat sat\",\"sentence2\":\"nothing alike\",\"score\":0}\n";
    let data = config(&home, "pairs.jsonl", pairs);
    let (code, stdout, stderr) = finish(isomer(&home).args([
        "eval", "--server", &server, "--model", "hashed", "--task", "sts", "--data", &data, "--format", "json",
    ]));
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("\"cosine_spearman\": 1,"), "{stdout}");
    let text = config(&home, "one.txt", "a cat sat\n");
    let (code, _, stderr) =
        finish(isomer(&home).args(["embed", "--server", &server, "--model", "hashd", "--input", &text]));
    assert!(code != 0 && stderr.contains("hashd"), "{stderr}");
}

#[test]
fn a_gateway_with_keys_asks_for_them_and_charges_them() {
    let Some(home) = Home::with_models(&[ENCODER]) else {
        return;
    };
    let texts = texts(&home);
    let file = config(&home, "keys.toml", "[access]\nmode = \"required\"\n");
    let key = |name: &str, scope: &str| {
        let (code, stdout, stderr) =
            finish(isomer(&home).args(["keys", "create", "--config", &file, "--name", name, "--scope", scope]));
        assert_eq!(code, 0, "{stderr}");
        stdout
            .split_whitespace()
            .find(|word| word.starts_with("iso_"))
            .expect("a key")
            .to_owned()
    };
    let (encode, evaluate) = (key("search", "encode"), key("report", "evaluate"));
    let limited = key("limited", "encode");
    let mut limit = isomer(&home);
    limit.args(["keys", "update", &limited[..16], "--config", &file]);
    limit.args(["--requests-per-second", "20", "--tokens-per-day", "5000"]);
    let (code, _, stderr) = finish(&mut limit);
    assert_eq!(code, 0, "{stderr}");
    let gateway = Server::start(&home, &["--config", &file, "--model", ENCODER]);
    let told = |key: &str| {
        get(
            gateway.address,
            "/v1/models",
            &format!("authorization: Bearer {key}\r\n"),
        )
    };
    let answer = told(&limited);
    for header in [
        "x-ratelimit-limit-requests: 40\r\n",
        "x-ratelimit-remaining-requests: ",
        "x-ratelimit-reset-requests: ",
        "x-ratelimit-limit-tokens: 5000\r\n",
        "x-ratelimit-remaining-tokens: 5000\r\n",
        "x-ratelimit-reset-tokens: ",
    ] {
        assert!(answer.contains(header), "{header}: {answer}");
    }
    assert!(!told(&encode).contains("x-ratelimit"), "a key without limits");
    let server = gateway.address.to_string();
    let call = |key: Option<&str>| {
        let output = home.path().join("keyed.npy");
        let mut command = isomer(&home);
        command
            .args([
                "embed",
                "--server",
                &server,
                "--model",
                ENCODER,
                "--input",
                &texts.input,
                "--output",
            ])
            .arg(&output);
        if let Some(key) = key {
            command.env("ISOMER_API_KEY", key);
        }
        let (code, _, stderr) = finish(&mut command);
        if code == 0 { Ok(read(&output)) } else { Err(stderr) }
    };
    assert!(call(None).unwrap_err().contains("key"));
    let other = call(Some(&evaluate)).unwrap_err();
    assert!(other.contains("encode") && !other.contains(&evaluate), "{other}");
    assert_eq!(call(Some(&encode)).unwrap(), texts.expected);
    let answer = get(gateway.address, "/v1/models", "");
    assert!(
        answer.starts_with("HTTP/1.1 401") && answer.contains("\"authentication_error\""),
        "{answer}"
    );
    let answer = get(
        gateway.address,
        "/v1/models",
        &format!("Authorization: Bearer {encode}\r\n"),
    );
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains(ENCODER),
        "{answer}"
    );
    a_run_is_charged(&home, &file, &server, &evaluate);
}

/// A run that needs no generator: its key is charged for the tokens that its encoder read.
fn a_run_is_charged(home: &Home, file: &str, server: &str, key: &str) {
    let out = home.path().join("report").display().to_string();
    let mut command = isomer(home);
    command
        .env("ISOMER_API_KEY", key)
        .args(["check", "--server", server, "--model", ENCODER]);
    command.args([
        "--transformation",
        "random_keywords",
        "--limit",
        "5",
        "--no-suite-rules",
    ]);
    let (code, stdout, stderr) = finish(command.args(["--format", "json", "--out", &out]));
    assert_eq!(code, 0, "{stderr}");
    let report: Value = serde_json::from_str(&stdout).unwrap();
    let encoded = report["counters"]["tokens_encoded"].as_u64().unwrap();
    assert!(encoded > 0, "{}", report["counters"]);
    let used = || {
        let (code, stdout, stderr) = finish(isomer(home).args(["keys", "list", "--config", file, "--format", "json"]));
        assert_eq!(code, 0, "{stderr}");
        let keys = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let own = keys.into_iter().find(|one| one["name"] == "report").unwrap();
        own["used"]["total"]["tokens"].as_u64().unwrap()
    };
    until_blocking("the run is charged", || used() == encoded);
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}
