//! Attempts: checks of the same encoder by the same rules on the same data are counted.

use isomer_proto::eval::v1::{DeleteRunRequest, RunState, SuiteRef, run_service_client::RunServiceClient, suite_ref};
use isomer_service_kit::GrpcChannel;
use serde_json::{Value, json};

use crate::run_stubs::{Harness, report_json, run_to_end, spec};

/// A suite that draws 30 of 40 pairs with a seed.
fn suite(harness: &Harness, sample_seed: u64, gate: &str) -> SuiteRef {
    let folder = harness.home.path().join("data");
    std::fs::create_dir_all(&folder).unwrap();
    let row = |i: usize| {
        json!({
            "sentence1": format!("Train {i} leaves the station at noon."),
            "sentence2": format!("At noon the {i} trains are late."),
            "score": i % 6,
        })
        .to_string()
            + "\n"
    };
    std::fs::write(folder.join("pairs.jsonl"), (0..40).map(row).collect::<String>()).unwrap();
    let toml = format!(
        "name = \"attempts\"\nseeds = [1]\ntransformations = [\"paraphrase\"]\n[gate]\nmax_at_chance = 1.0\n{gate}\n\
         [[gate.rule]]\nmin_score = -99\nof = \"original\"\n[[dataset]]\ntask = \"sts\"\npath = \"pairs.jsonl\"\n\
         limit = 30\nsample_seed = {sample_seed}\n"
    );
    SuiteRef {
        source: Some(suite_ref::Source::Toml(toml)),
        base_dir: folder.display().to_string(),
        file_name: "attempts.toml".to_owned(),
    }
}

async fn report(client: &mut RunServiceClient<GrpcChannel>, suite: SuiteRef, encoder: &str) -> Value {
    let run = run_to_end(client, spec(suite, &[encoder])).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    report_json(client, &run.id).await
}

fn number(report: &Value) -> u64 {
    report["gate"]["encoders"][0]["attempts"]["number"].as_u64().unwrap()
}

#[tokio::test]
async fn a_check_with_another_sample_is_the_next_attempt_and_the_same_check_is_not() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let mut first = Value::Null;
    for sample_seed in 0..4 {
        let found = report(&mut client, suite(&harness, sample_seed, ""), "stub-a").await;
        assert_eq!(number(&found), sample_seed + 1);
        if sample_seed == 0 {
            first = found;
        } else {
            let attempts = &found["gate"]["encoders"][0]["attempts"];
            assert_eq!(attempts["earlier"][0], first["run"]["id"], "{attempts}");
        }
    }
    let again = report(&mut client, suite(&harness, 0, ""), "stub-a").await;
    assert_eq!(number(&again), 1);
    let other_encoder = report(&mut client, suite(&harness, 4, ""), "stub-b").await;
    assert_eq!(number(&other_encoder), 1);
    let other_rule = suite(&harness, 5, "max_leak = 0.5");
    assert_eq!(
        number(&report(&mut client, other_rule, "stub-a").await),
        5,
        "the gate's limits are no rule"
    );
}

#[tokio::test]
async fn attempts_that_spend_divide_alpha() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    for (attempt, alpha) in [(0, 0.05 / 2.0), (1, 0.05 / 6.0), (2, 0.05 / 12.0)] {
        let suite = suite(&harness, attempt, "attempts = \"spend\"");
        let found = report(&mut client, suite, "stub-a").await;
        let spent = found["gate"]["encoders"][0]["rules"][0]["alpha"].as_f64().unwrap();
        assert!((spent - alpha).abs() < 1e-12, "attempt {attempt}: {spent}");
    }
}

#[tokio::test]
async fn attempts_outlive_their_runs_and_count_for_each_process_of_a_home() {
    let harness = Harness::new();
    for sample_seed in 0..2 {
        let (_service, mut client) = harness.open().await;
        let found = report(&mut client, suite(&harness, sample_seed, ""), "stub-a").await;
        assert_eq!(number(&found), sample_seed + 1);
        let id = found["run"]["id"].as_str().unwrap().to_owned();
        client.delete_run(DeleteRunRequest { id }).await.unwrap();
    }
}
