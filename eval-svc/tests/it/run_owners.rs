//! Runs have owners, wait in a bounded queue, and are validated on threads that do not serve
//! requests.

use std::sync::atomic::Ordering;

use isomer_proto::eval::v1::{
    CancelRunRequest, CreateRunRequest, DeleteRunRequest, GetReportRequest, GetRunRequest, ListRunsRequest,
    PlanRunRequest, Run, RunSpec, RunState, SuiteRef, WatchRunRequest, suite_ref,
};
use isomer_service_kit::{CALLER, Fault};
use isomer_stubs::promise::{promised, refusal};
use tonic::Request;

use crate::run_stubs::*;

const TWO: &str = "seeds = [1, 2]\ntransformations = [\"paraphrase\"]";

/// A gateway's request for one of its callers.
fn by<T>(caller: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if !caller.is_empty() {
        request.metadata_mut().insert(CALLER, caller.parse().unwrap());
    }
    request
}

fn create_request(spec: RunSpec, request_id: &str) -> CreateRunRequest {
    CreateRunRequest {
        spec: Some(spec),
        request_id: request_id.to_owned(),
    }
}

/// The text of the suite in a run's request.
fn sent(run: &Run) -> &str {
    match &run.spec.as_ref().unwrap().suite.as_ref().unwrap().source {
        Some(suite_ref::Source::Toml(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_list_leaves_out_the_suites_that_a_run_and_the_event_of_its_end_have() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let spec = spec(harness.suite(TWO), &["stub-a"]);
    let suite = spec.suite.clone().unwrap().source;
    let made = client.create_run(create_request(spec, "")).await.unwrap();
    let id = made.into_inner().run.unwrap().id;
    let events = watch(&mut client, &id, 0).await;
    let end = ended(&events);
    let got = client.get_run(GetRunRequest { id: id.clone() }).await.unwrap();
    for run in [&end, got.get_ref().run.as_ref().unwrap()] {
        assert_eq!(Some(suite_ref::Source::Toml(sent(run).to_owned())), suite);
    }
    let listed = client.list_runs(ListRunsRequest::default()).await.unwrap().into_inner();
    assert_eq!((listed.runs.len(), sent(&listed.runs[0])), (1, ""));
    assert_eq!(
        listed.runs[0].spec.as_ref().unwrap().suite.as_ref().unwrap().file_name,
        "small.toml"
    );
}

#[tokio::test]
async fn a_run_is_its_owners_and_an_administrators() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let spec = || spec(harness.suite(TWO), &["stub-a"]);
    let made = client
        .create_run(by("key:a", create_request(spec(), "nightly")))
        .await
        .unwrap();
    let id = made.into_inner().run.unwrap().id;
    let again = client
        .create_run(by("key:a", create_request(spec(), "nightly")))
        .await
        .unwrap();
    assert_eq!(
        again.into_inner().run.unwrap().id,
        id,
        "the same request of the same owner"
    );
    let other = client
        .create_run(by("key:b", create_request(spec(), "nightly")))
        .await
        .unwrap();
    let other = other.into_inner().run.unwrap().id;
    assert_ne!(other, id, "another owner's request is another request");
    ended(&watch(&mut client, &id, 0).await);
    ended(&watch(&mut client, &other, 0).await);

    let unknown = |status: tonic::Status| promised("RunService NOT_FOUND UNKNOWN_RUN id", &Fault::from_status(&status));
    unknown(
        client
            .get_run(by("key:b", GetRunRequest { id: id.clone() }))
            .await
            .unwrap_err(),
    );
    let watched = WatchRunRequest {
        id: id.clone(),
        after_sequence: 0,
    };
    unknown(client.watch_run(by("key:b", watched.clone())).await.err().unwrap());
    let report = GetReportRequest {
        id: id.clone(),
        ..GetReportRequest::default()
    };
    unknown(client.get_report(by("key:b", report.clone())).await.unwrap_err());
    let cancel = CancelRunRequest {
        id: id.clone(),
        ..CancelRunRequest::default()
    };
    unknown(client.cancel_run(by("key:b", cancel.clone())).await.unwrap_err());
    unknown(
        client
            .delete_run(by("key:b", DeleteRunRequest { id: id.clone() }))
            .await
            .unwrap_err(),
    );
    for (viewer, seen) in [
        ("key:a", vec![id.clone()]),
        ("key:b", vec![other.clone()]),
        ("key:c", vec![]),
        ("", vec![other, id.clone()]),
    ] {
        let listed = client
            .list_runs(by(viewer, ListRunsRequest::default()))
            .await
            .unwrap()
            .into_inner();
        let mut listed: Vec<String> = listed.runs.into_iter().map(|run| run.id).collect();
        let mut seen = seen;
        listed.sort();
        seen.sort();
        assert_eq!(listed, seen, "{viewer}");
    }

    client
        .get_run(by("key:a", GetRunRequest { id: id.clone() }))
        .await
        .unwrap();
    client.watch_run(by("key:a", watched)).await.unwrap();
    client.get_report(by("key:a", report.clone())).await.unwrap();
    client.get_report(by("", report)).await.unwrap();
    client.cancel_run(by("key:a", cancel)).await.unwrap();
    client.delete_run(by("key:a", DeleteRunRequest { id })).await.unwrap();
}

#[tokio::test]
async fn runs_wait_in_bounded_numbers() {
    let harness = Harness::new();
    harness.transform.quota.stop_after(0);
    let (service, mut client) = harness.open().await;
    let spec = || spec(harness.suite(TWO), &["stub-a"]);
    let mut made = Vec::new();
    let refused = loop {
        match client.create_run(by("key:a", create_request(spec(), ""))).await {
            Ok(run) => made.push(run.into_inner().run.unwrap().id),
            Err(status) => break status,
        }
        assert!(made.len() < 60, "there is no bound");
    };
    let refused = Fault::from_status(&refused);
    promised("RunService.CreateRun RESOURCE_EXHAUSTED OVERLOADED", &refused);
    assert!(made.len() >= 20, "{} runs", made.len());
    // Planning takes as much work for a plan as for a run.
    let plan = |caller: &str| {
        by(
            caller,
            PlanRunRequest {
                spec: Some(spec()),
                power: None,
            },
        )
    };
    let refused = Fault::from_status(&client.plan_run(plan("key:a")).await.unwrap_err());
    assert_eq!(refusal(&refused), "RESOURCE_EXHAUSTED OVERLOADED", "{refused}");
    client.plan_run(plan("key:b")).await.expect("another caller's");
    let other = client
        .create_run(by("key:b", create_request(spec(), "")))
        .await
        .unwrap();
    made.push(other.into_inner().run.unwrap().id);
    service.runs().interrupt().await;
    for id in made {
        let run = client
            .get_run(GetRunRequest { id })
            .await
            .unwrap()
            .into_inner()
            .run
            .unwrap();
        assert_eq!(run.state(), RunState::Failed);
    }
    client
        .create_run(by("key:a", create_request(spec(), "")))
        .await
        .expect("the turns are given back");
    service.runs().interrupt().await;
}

/// Neither is processed for long, because other calls wait.
#[tokio::test]
async fn a_suite_and_a_name_that_are_too_long_are_refused_unread() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let names = "\"paraphrase\", ".repeat(300_000);
    let suite = SuiteRef {
        source: Some(suite_ref::Source::Toml(format!("transformations = [{names}]\n"))),
        ..SuiteRef::default()
    };
    let refused = client.create_run(create_request(spec(suite, &["stub-a"]), "")).await;
    let refused = Fault::from_status(&refused.unwrap_err());
    assert_eq!(refusal(&refused), "INVALID_ARGUMENT BROKEN_SUITE spec.suite");
    assert!(refused.message.contains("262144"), "{refused}");
    let named = RunSpec {
        transformations: vec!["x".repeat(10_000_000)],
        ..spec(harness.suite(TWO), &["stub-a"])
    };
    let refused = client.create_run(create_request(named, "")).await.unwrap_err();
    assert!(refused.message().len() < 4096, "{} bytes", refused.message().len());
    assert_eq!(harness.transform.generated.load(Ordering::SeqCst), 0);
}
