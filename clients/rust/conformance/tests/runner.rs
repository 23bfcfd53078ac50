//! The runner reports what happened, whatever it was. (`clients/conformance/run` uses it for real.)
#![allow(clippy::unwrap_used)]

use std::{fs, process::Command};

use isomer_stubs::encoder::{StubEncoder, answer, named, texts};
use serde_json::{Value, json};

fn reported(cases: &Value) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let (given, taken) = (folder.path().join("cases.json"), folder.path().join("results.json"));
    fs::write(&given, json!({ "version": 1, "cases": cases }).to_string()).unwrap();
    let ended = Command::new(env!("CARGO_BIN_EXE_isomer-rust-conformance"))
        .args([&given, &taken])
        .status()
        .unwrap();
    assert!(ended.success());
    serde_json::from_str(&fs::read_to_string(taken).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_errors_and_what_it_does_not_know_are_told_apart() {
    let stub = StubEncoder::of([named("e")])
        .on_encode(|request| async move { Ok(answer(texts(request.get_ref()).map(|text| [text.len() as f32]), 1)) });
    let address = stub.serve().await;
    let case =
        |id: &str, address: &str, step: Value| json!({ "id": id, "connect": { "address": address }, "steps": [step] });
    let encode = json!({ "op": "encode", "encoder": "e", "texts": ["river"] });
    let cases = json!([
        case("good", &address, encode.clone()),
        case("unknown encoder", &address, json!({ "op": "encoder", "encoder": "f" })),
        case("bad address", "http://", encode),
        case("unknown step", &address, json!({ "op": "fly" })),
        case("fork", &address, json!({ "op": "fork" })),
    ]);
    let told = tokio::task::spawn_blocking(move || reported(&cases)).await.unwrap();
    assert_eq!(told["client"]["name"], "isomer-client-rust");
    let results = &told["results"];
    let good = &results["good"]["steps"][0]["ok"];
    // SHA-256 of 5 as a 32-bit float, little endian.
    assert_eq!(
        (&good["rows"], &good["view"]),
        (&json!(["fca31f1667a6aa1b"]), &json!(true))
    );
    let unknown = &results["unknown encoder"]["steps"][0]["error"];
    assert_eq!(
        (&unknown["code"], &unknown["field"]),
        (&json!("NOT_FOUND"), &json!("id"))
    );
    assert_eq!(results["bad address"]["steps"][0]["error"]["field"], "address");
    assert!(results["unknown step"]["failed"].as_str().unwrap().contains("fly"));
    assert!(results["fork"]["skipped"].is_string());
}
