//! The history of an encoder over the runs that a caller may see.

use std::path::Path;

use isomer_proto::eval::v1::{CreateRunRequest, GetHistoryRequest};
use isomer_service_kit::{CALLER, Fault};
use isomer_stubs::promise::promised;
use serde_json::Value;
use tonic::{Code, Request};

use crate::run_stubs::*;

const HEAD: &str = "seeds = [1]\ntransformations = [\"paraphrase\"]";

fn by<T>(caller: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert(CALLER, caller.parse().unwrap());
    request
}

fn asked(encoder: &str) -> GetHistoryRequest {
    GetHistoryRequest {
        encoder_id: encoder.to_owned(),
        ..GetHistoryRequest::default()
    }
}

#[tokio::test]
async fn a_history_has_the_callers_runs_of_the_encoder_and_no_others() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let mut made = Vec::new();
    for (owner, encoder) in [("key:a", "stub-a"), ("key:a", "stub-b"), ("key:b", "stub-a")] {
        let request = CreateRunRequest {
            spec: Some(spec(harness.suite(HEAD), &[encoder])),
            request_id: String::new(),
        };
        let run = client.create_run(by(owner, request)).await.unwrap().into_inner();
        let id = run.run.unwrap().id;
        ended(&watch(&mut client, &id, 0).await);
        made.push(id);
    }
    let found = client
        .get_history(by("key:a", asked("stub-a")))
        .await
        .unwrap()
        .into_inner();
    let history: Value = serde_json::from_slice(&found.json).unwrap();
    let runs: Vec<&str> = history["releases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|release| release["run"].as_str().unwrap())
        .collect();
    assert_eq!(runs, [made[0].as_str()], "its own run of this encoder");
    for form in [&found.markdown, &found.html] {
        let text = String::from_utf8_lossy(form);
        assert!(text.contains(&made[0]) && !text.contains(&made[2]), "{text}");
    }
    assert!(String::from_utf8_lossy(&found.html).starts_with("<!doctype html>"));

    // An administrator also sees the other caller's run, as a further release or as the same one
    // again.
    let all = client.get_history(asked("stub-a")).await.unwrap().into_inner();
    assert!(String::from_utf8_lossy(&all.json).contains(&made[2]));

    for (caller, encoder) in [("key:c", "stub-a"), ("key:a", "stub-c")] {
        let refused = client.get_history(by(caller, asked(encoder))).await.unwrap_err();
        let fault = Fault::from_status(&refused);
        assert_eq!(
            (refused.code(), fault.field.as_deref()),
            (Code::NotFound, Some("encoder_id")),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn what_a_history_cannot_answer_is_refused_by_the_name_of_its_field() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    run_to_end(&mut client, spec(harness.suite(HEAD), &["stub-a"])).await;
    let cases = [
        (asked(""), Code::InvalidArgument, "encoder_id"),
        (
            GetHistoryRequest {
                margin: Some(-1.0),
                ..asked("stub-a")
            },
            Code::InvalidArgument,
            "margin",
        ),
        (
            GetHistoryRequest {
                alpha: Some(f64::NAN),
                ..asked("stub-a")
            },
            Code::InvalidArgument,
            "alpha",
        ),
    ];
    for (request, code, field) in cases {
        let refused = client.get_history(request).await.unwrap_err();
        let fault = Fault::from_status(&refused);
        assert_eq!(
            (refused.code(), fault.field.as_deref()),
            (code, Some(field)),
            "{refused}"
        );
    }
    let unknown_suite = GetHistoryRequest {
        suite_digest: "no such".to_owned(),
        ..asked("stub-a")
    };
    let out_of_range = GetHistoryRequest {
        margin: Some(-1.0),
        ..asked("stub-a")
    };
    for (request, promise) in [
        (asked("nobody"), "RunService.GetHistory NOT_FOUND NO_HISTORY encoder_id"),
        (unknown_suite, "RunService.GetHistory NOT_FOUND NO_HISTORY suite_digest"),
        (out_of_range, "RunService.GetHistory INVALID_ARGUMENT"),
    ] {
        promised(promise, &client.get_history(request).await.unwrap_err().into());
    }
    let margin = GetHistoryRequest {
        margin: Some(2.5),
        earlier: 3,
        ..asked("stub-a")
    };
    let found = client.get_history(margin).await.unwrap().into_inner();
    let history: Value = serde_json::from_slice(&found.json).unwrap();
    assert_eq!(
        (&history["options"]["margin"], &history["options"]["earlier"]),
        (&Value::from(2.5), &Value::from(3))
    );
}

#[tokio::test]
async fn a_history_of_too_many_runs_is_refused_and_of_as_many_as_allowed_is_told() {
    let harness = Harness::new();
    let (service, mut client) = harness.open().await;
    let run = run_to_end(&mut client, spec(harness.suite(HEAD), &["stub-a"])).await;
    drop((service, client));
    let kept = folder(harness.home.path(), &run.id);
    let copied = |count: usize| {
        for _ in 0..count {
            let id = uuid::Uuid::now_v7().to_string();
            let to = kept.with_file_name(&id);
            std::fs::create_dir(&to).unwrap();
            for entry in std::fs::read_dir(&kept).unwrap() {
                let from = entry.unwrap().path();
                let name = from.file_name().unwrap().to_str().unwrap().to_owned();
                if name.ends_with(".json") {
                    let text = std::fs::read_to_string(&from).unwrap();
                    std::fs::write(to.join(name), text.replace(&run.id, &id)).unwrap();
                }
            }
        }
    };
    copied(499);
    let (_service, mut client) = harness.open().await;
    let found = client.get_history(asked("stub-a")).await.unwrap().into_inner();
    let history: Value = serde_json::from_slice(&found.json).unwrap();
    let of = |name: &str| history[name].as_array().unwrap().len();
    assert_eq!(of("releases") + of("left_out"), 500);
    copied(1);
    let refused = client.get_history(asked("stub-a")).await.unwrap_err();
    let refused = Fault::from_status(&refused);
    promised("RunService.GetHistory RESOURCE_EXHAUSTED TOO_MANY_RUNS", &refused);
    assert!(refused.hint.unwrap().contains("earlier"));
}

/// The folder of a run, wherever runs are stored below `home`.
fn folder(home: &Path, id: &str) -> std::path::PathBuf {
    let entries = std::fs::read_dir(home).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<_> = entries.filter(|path| path.is_dir()).collect();
    while let Some(next) = folders.pop() {
        if next.ends_with(id) {
            return next;
        }
        folders.extend(
            std::fs::read_dir(&next)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .filter(|path| path.is_dir()),
        );
    }
    panic!("run {id} lies nowhere in {}", home.display());
}
