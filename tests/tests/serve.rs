//! `isomer serve` as clients in other languages see it, and how it stops.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::{fmt::Write, path::PathBuf, process::Command, time::Duration};

use isomer_tests::{
    home::Home,
    process::{Server, finish, isomer},
    workspace,
};

const ENCODER: &str = "all-MiniLM-L6-v2";

/// The Python with the client libraries that `tests/run` installs.
fn python() -> Option<PathBuf> {
    let python = std::env::var_os("ISOMER_TEST_PYTHON").map(PathBuf::from);
    if python.is_none() {
        println!("skipped: no Python client libraries; tests/run installs them and sets ISOMER_TEST_PYTHON");
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

/// A thousand texts of many lengths, some empty, some not English.
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
    // The file is there as soon as the first batch was answered.
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
        "other vectors than alone"
    );
}
