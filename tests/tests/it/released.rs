//! This version opens the files that released versions left on disk: `tests/fixtures` has a folder
//! for each version.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
};

use isomer_proto::eval::v1::{ListRunsRequest, run_service_client::RunServiceClient};
use isomer_tests::{
    copy_folder,
    home::Home,
    process::{Server, finish, isomer},
    workspace,
};
use serde_json::Value;
use tonic::{Request, transport::Channel};

/// Each released version's folder, and a home as that version left it.
fn released() -> Vec<(PathBuf, Home)> {
    let versions = fs::read_dir(workspace().join("tests/fixtures")).unwrap();
    let folders = versions.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let found: Vec<_> = folders
        .map(|folder| {
            let home = Home::empty();
            copy_folder(&folder.join("home"), home.path());
            copy_folder(&folder.join("data"), &home.path().join("data"));
            fs::copy(folder.join("suite.toml"), home.path().join("suite.toml")).unwrap();
            fs::write(home.path().join("isomer.toml"), configuration(&home)).unwrap();
            (folder, home)
        })
        .collect();
    assert!(!found.is_empty());
    found
}

/// The encoder, the generator and the access rules of that version. No server listens at the
/// generator's address: generated texts must come from the cache.
fn configuration(home: &Home) -> String {
    format!(
        "[embed]\ncache_dir = {:?}\nencoders = {{ released = {:?} }}\n[addresses]\nallow = [\"127.0.0.1\"]\n\
         [access]\nmode = \"required\"\n[transform.generators.stub]\nkind = \"openai\"\nmodel = \"stub\"\n\
         url = \"http://127.0.0.1:18989/v1\"\n",
        home.path().join("vectors"),
        workspace().join("embed-svc/tests/fixtures/model2vec")
    )
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// The `report.json` of a home's only run.
fn report_of_run(home: &Home) -> PathBuf {
    let runs = fs::read_dir(home.path().join("runs")).unwrap();
    let mut reports = runs.map(|run| run.unwrap().path().join("report.json"));
    reports.find(|report| report.is_file()).unwrap()
}

fn scores(report: &Value) -> &Value {
    let encoder = &report["profile"]["encoders"][0];
    assert!(encoder["datasets"][0].is_object(), "no scores in the report");
    encoder
}

#[test]
fn a_check_is_repeated_from_the_caches() {
    for (_, home) in released() {
        // One note has been reworded since.
        let report = read(&report_of_run(&home)).replace("one dataset:", "one data set:");
        let before: Value = serde_json::from_str(&report).unwrap();
        let out = home.path().join("report").display().to_string();
        let mut check = isomer(&home);
        check.args([
            "check",
            "--format",
            "json",
            "--suite",
            "suite.toml",
            "--model",
            "released",
        ]);
        check.args(["--config", "isomer.toml", "--generator", "stub", "--out", &out]);
        let (code, stdout, stderr) = finish(check.current_dir(home.path()));
        assert_eq!(code, 0, "{stderr}");
        let again: Value = serde_json::from_str(&stdout).unwrap();
        let counters = &again["counters"];
        assert_eq!(counters["texts_cached"], before["counters"]["texts_generated"]);
        assert_eq!(counters["texts_generated"], 0);
        // The vector space of the released check lacks the settings of the encoder, so its scores
        // are computed again, with the same results.
        assert_eq!(counters["scores_computed"], before["counters"]["scores_computed"]);
        assert_eq!(scores(&again), scores(&before));
    }
}

#[test]
fn a_report_is_written_again_in_every_form() {
    for (_, home) in released() {
        let (file, out) = (report_of_run(&home), home.path().join("again"));
        let mut report = isomer(&home);
        report.args(["report", "--input"]).arg(&file).arg("--out").arg(&out);
        let (code, _, stderr) = finish(&mut report);
        assert_eq!(code, 0, "{stderr}");
        for name in ["report.json", "report.html", "report.md", "junit.xml"] {
            assert!(read(&out.join(name)).len() > 100, "{name}");
        }
    }
}

/// The status and body of a request for the vectors of two texts.
fn embeddings(address: SocketAddr, key: &str) -> (String, String) {
    let body = r#"{"model":"released","input":["A cat sleeps.","A dog barks."]}"#;
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST /v1/embeddings HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Authorization: Bearer {key}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_usage_providers_runs_and_vectors_are_there() {
    for (folder, home) in released() {
        let config = home.path().join("isomer.toml").display().to_string();
        let key = read(&folder.join("key.txt"));
        let key = key.trim();
        let of_config = |arguments: &[&str]| {
            let (code, stdout, stderr) = finish(isomer(&home).args(arguments).args(["--config", &config]));
            assert_eq!(code, 0, "{stderr}");
            stdout
        };
        let keys = of_config(&["keys", "list", "--format", "json"]);
        assert!(keys.contains("\"released\"") && keys.contains("\"gone\""), "{keys}");
        of_config(&["keys", "audit", "--verify"]);

        let server = Server::start(&home, &["--config", &config]);
        let expected: Value = serde_json::from_str(&read(&folder.join("embeddings.json"))).unwrap();
        let (status, body) = embeddings(server.address, key);
        assert_eq!(status, "HTTP/1.1 200 OK", "{body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["data"], expected["data"]);
        let (status, _) = embeddings(server.address, &key.replace("iso_", "iso_x"));
        assert_eq!(status, "HTTP/1.1 401 Unauthorized");

        let address = server.address.to_string();
        let mut list = isomer(&home);
        list.args(["--server", &address, "providers", "list"])
            .env("ISOMER_API_KEY", key);
        let (code, providers, stderr) = finish(&mut list);
        assert_eq!(code, 0, "{stderr}");
        assert!(providers.contains("elsewhere"), "{providers}");

        let channel = Channel::from_shared(format!("http://{address}")).unwrap();
        let mut runs = RunServiceClient::new(channel.connect().await.unwrap());
        let mut request = Request::new(ListRunsRequest::default());
        let value = format!("Bearer {key}").parse().unwrap();
        request.metadata_mut().insert("authorization", value);
        let runs = runs.list_runs(request).await.unwrap().into_inner().runs;
        assert_eq!(runs.len(), 1);
    }
}
