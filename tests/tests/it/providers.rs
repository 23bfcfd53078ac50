//! `isomer providers` against a registry on a real port, with a screening stub that judges
//! providers by their address.

use std::{net::SocketAddr, path::Path, process::Stdio, sync::Arc};

use isomer_proto::gateway::v1::{CheckProviderResponse, ProbeFinding, Provider};
use isomer_registry::{ProvidersConfig, Registry, Screening};
use isomer_service_kit::{Fault, Services, server::ServerConfig};
use isomer_stubs::rpc;
use isomer_tests::{
    home::Home,
    process::{finish, isomer},
};
use serde_json::Value;

#[derive(Debug)]
struct Gatekeeper;

#[tonic::async_trait]
impl Screening for Gatekeeper {
    async fn admit(&self, candidate: &Provider) -> Result<(), Fault> {
        match candidate.address.contains("impostor") {
            true => {
                Err(Fault::precondition("OTHER_SPACE", "`minilm` has other weights here").field("provider.encoders"))
            }
            false => Ok(()),
        }
    }

    async fn check(&self, candidate: &Provider) -> Result<CheckProviderResponse, Fault> {
        let passed = !candidate.address.contains("broken");
        Ok(CheckProviderResponse {
            findings: vec![ProbeFinding {
                name: "determinism".to_owned(),
                passed,
                detail: "cosine 0.2".to_owned(),
            }],
            usable: passed,
            verdict: format!("{} was looked at", candidate.address),
            vector_space: None,
        })
    }
}

/// Serves a registry with a file of providers; returns its address. The registry ends with the
/// runtime.
fn gateway(folder: &Path) -> (tokio::runtime::Runtime, SocketAddr) {
    std::fs::write(
        folder.join("declared.toml"),
        "[[provider]]\nid = \"declared\"\nkind = \"isomer\"\naddress = \"grpc://10.0.0.9:50051\"\n",
    )
    .unwrap();
    let config = ProvidersConfig {
        file: Some(folder.join("declared.toml")),
        secret_environment: vec!["OPENAI_API_KEY".to_owned()],
        ..ProvidersConfig::default()
    };
    let database = folder.join("records.sqlite").display().to_string();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let address = runtime.block_on(async {
        let database = isomer_database::Database::open(&database).await.unwrap();
        let registry = Registry::open(config, Some(database)).await.unwrap();
        registry.screen_with(Arc::new(Gatekeeper));
        let local = ServerConfig::at(SocketAddr::from(([127, 0, 0, 1], 0)));
        rpc::start(Services::new().add(registry.service()), local)
    });
    (runtime, address)
}

#[test]
fn providers_are_registered_shown_changed_checked_and_taken_away() {
    let home = Home::empty();
    let (_runtime, address) = gateway(home.path());
    let address = address.to_string();
    let run = |arguments: &[&str]| {
        let all = ["providers", "--server", &address];
        finish(isomer(&home).args(all).args(arguments).stdin(Stdio::null()))
    };
    let done = |arguments: &[&str]| {
        let (code, stdout, stderr) = run(arguments);
        assert_eq!(code, 0, "{arguments:?}: {stderr}");
        stdout
    };
    let refused = |arguments: &[&str], code: i32, words: &[&str]| {
        let (got, stdout, stderr) = run(arguments);
        assert_eq!(got, code, "{arguments:?}: {stdout}{stderr}");
        for word in words {
            assert!(stderr.contains(word), "{arguments:?}: `{word}` is not in: {stderr}");
        }
    };
    let openai = [
        "create",
        "openai",
        "--kind",
        "openai",
        "--address",
        "https://api.openai.com/v1",
        "--encoder",
        "small=text-embedding-3-small",
        "--secret-environment",
        "OPENAI_API_KEY",
        "--timeout",
        "2.5",
    ];
    let shown = done(&openai);
    for words in [
        "id = \"openai\"",
        "environment = \"OPENAI_API_KEY\"",
        "timeout = 2.5",
        "# source: stored",
    ] {
        assert!(shown.contains(words), "{shown}");
    }
    refused(&openai, 2, &["there is a provider `openai` already"]);

    // The output of `get` can be applied.
    let file = home.path().join("again.toml");
    std::fs::write(&file, done(&["get", "openai"])).unwrap();
    let file = file.display().to_string();
    assert_eq!(done(&["apply", &file]), "unchanged openai\n");
    let text = std::fs::read_to_string(&file).unwrap().replace("2.5", "3");
    let more = "[[provider]]\nid = \"tei\"\nkind = \"tei-grpc\"\naddress = \"grpc://10.0.0.1:80\"\nencoders = { e5 = \"e5\" }\n";
    std::fs::write(&file, format!("{text}\n{more}")).unwrap();
    assert_eq!(done(&["apply", &file]), "changed openai\ncreated tei\n");
    std::fs::write(&file, more.replace("80", "0")).unwrap();
    refused(
        &["apply", &file],
        2,
        &["again.toml: line 4: provider `tei`", "is not a port"],
    );
    std::fs::write(&file, more.replace("kind", "knd")).unwrap();
    refused(&["apply", &file], 2, &["again.toml: line 3", "did you mean `kind`?"]);
    std::fs::write(&file, more.replace("10.0.0.1", "impostor")).unwrap();
    refused(&["apply", &file], 3, &["line 5", "has other weights here"]);

    let listed = done(&["list", "--format", "json"]);
    let listed: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let facts: Vec<_> = listed
        .iter()
        .map(|p| (p["id"].as_str().unwrap(), p["source"].as_str().unwrap()))
        .collect();
    assert_eq!(
        facts,
        [("declared", "declared"), ("openai", "stored"), ("tei", "stored")]
    );
    assert_eq!(
        (&listed[1]["limits"]["timeout"], &listed[1]["secret"]["environment"]),
        (&3.into(), &"OPENAI_API_KEY".into())
    );
    let table = done(&["list"]);
    assert!(
        table.contains("tei-grpc") && table.contains("grpc://10.0.0.9:"),
        "{table}"
    );

    assert!(done(&["check", "tei"]).contains("ok      determinism  cosine 0.2"));
    std::fs::write(&file, more.replace("10.0.0.1", "broken")).unwrap();
    let (code, stdout, _) = run(&["check", "--file", &file]);
    assert_eq!((code, stdout.contains("FAILED  determinism")), (3, true), "{stdout}");

    done(&[
        "create",
        "self",
        "--kind",
        "isomer",
        "--address",
        "grpc://10.0.0.2:1",
        "--lease",
        "60",
    ]);
    assert!(done(&["renew", "self"]).starts_with("self stays until 20"));
    refused(&["renew", "tei"], 3, &["has no lease"]);
    refused(
        &["delete", "tei", "--etag", "old"],
        3,
        &["has changed since it was read"],
    );
    assert_eq!(
        done(&["delete", "tei", "--format", "json"]),
        "{\"id\":\"tei\",\"outcome\":\"deleted\"}\n"
    );
    refused(&["get", "tei"], 2, &["there is no provider `tei`"]);
    refused(&["delete", "declared"], 3, &["declared.toml"]);
}

#[test]
fn providers_want_a_running_gateway() {
    let (code, _, stderr) = finish(isomer(&Home::empty()).args(["providers", "list"]));
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("--server"), "{stderr}");
}
