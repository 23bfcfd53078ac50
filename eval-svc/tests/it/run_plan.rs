//! The usage of a run is estimated before it costs anything; limits then refuse the run, and stop
//! it later.

use std::sync::atomic::Ordering;

use isomer_proto::eval::v1::{
    Judge, PlanRunRequest, RunLimits, RunPlan, RunSpec, RunState, run_service_client::RunServiceClient,
};
use isomer_service_kit::{Fault, GrpcChannel};
use isomer_stubs::promise::promised;
use tonic::Code;

use crate::run_stubs::{DISTINCT, Harness, TOKENS, create, run_to_end, spec};

const TWO: &str = "seeds = [1337, 1338]\ntransformations = [\"paraphrase\", \"random_keywords\"]";

async fn plan(client: &mut RunServiceClient<GrpcChannel>, spec: RunSpec) -> Result<RunPlan, Fault> {
    let answer = client
        .plan_run(PlanRunRequest {
            spec: Some(spec),
            power: None,
        })
        .await;
    answer
        .map(|answer| answer.into_inner().plan.unwrap())
        .map_err(|status| Fault::from_status(&status))
}

fn limited(harness: &Harness, generator_calls: Option<u64>, cost: Option<f64>) -> RunSpec {
    RunSpec {
        limits: Some(RunLimits { generator_calls, cost }),
        ..spec(harness.suite(TWO), &["stub-a"])
    }
}

#[tokio::test]
async fn a_plan_says_what_the_run_then_takes_and_costs_nothing() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let asked = || spec(harness.suite(TWO), &["stub-a", "stub-b"]);
    let before = plan(&mut client, asked()).await.unwrap();
    assert_eq!(harness.transform.generated.load(Ordering::SeqCst), 0);
    assert!(harness.encoder.texts().is_empty(), "nothing is encoded");
    let labels: Vec<&str> = before.generations.iter().map(|one| one.label.as_str()).collect();
    assert_eq!(labels, ["paraphrase", "random_keywords"]);
    let paraphrase = before.generations[0].estimate.clone().unwrap();
    assert_eq!(
        (paraphrase.texts, paraphrase.calls, paraphrase.most_calls),
        (2 * DISTINCT, 2 * DISTINCT, 6 * DISTINCT)
    );
    let total = before.total.clone().unwrap();
    assert_eq!(total.calls, 2 * DISTINCT);
    assert!(total.texts > paraphrase.texts && total.texts_by_rule == total.texts - paraphrase.texts);
    assert_eq!((total.cost, total.generator_id.as_str()), (None, "stub:generator"));
    assert_eq!((before.refusal.as_str(), before.most_ratings), ("", 0));
    assert_eq!(
        (&before.generation_time, before.measured_texts),
        (&None, 0),
        "no run to go by"
    );

    let run = run_to_end(&mut client, asked()).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let counters = run.counters.unwrap();
    assert_eq!(
        (counters.texts_planned, counters.generator_calls),
        (total.texts, total.calls)
    );
    assert!(counters.texts_encoded <= before.encodings.iter().map(|one| one.most_texts).sum());
    assert_eq!(before.encodings.len(), 2);

    let after = plan(&mut client, asked()).await.unwrap();
    let total = after.total.unwrap();
    assert_eq!((total.calls, total.cached_texts), (0, 2 * DISTINCT));
    assert_eq!(after.measured_texts, 2 * DISTINCT);
    assert_eq!(after.generation_time.unwrap().seconds, 0);
    // Twice the seeds, half of which are cached: the time is for the others.
    *harness.transform.pause.lock() = std::time::Duration::ZERO;
    let more = RunSpec {
        seeds: vec![1337, 1338, 1339],
        ..asked()
    };
    let more = plan(&mut client, more).await.unwrap();
    assert_eq!(more.total.unwrap().calls, DISTINCT);
    assert!(more.generation_time.unwrap().nanos > 0);
}

#[tokio::test]
async fn a_run_above_its_limits_is_not_started() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    *harness.transform.price.lock() = Some(1e6);
    let cost = (2 * DISTINCT * (TOKENS.0 + TOKENS.1)) as f64;
    for (calls, money, named) in [
        (Some(2 * DISTINCT - 1), None, "limits.generator_calls is 33"),
        (None, Some(cost - 1.0), "limits.cost is 475"),
        (Some(0), None, "limits.generator_calls is 0"),
    ] {
        let fault = create(&mut client, limited(&harness, calls, money)).await.unwrap_err();
        promised(
            "RunService.CreateRun FAILED_PRECONDITION OVER_LIMIT spec.limits",
            &fault,
        );
        assert!(fault.message.contains(named), "{}", fault.message);
        // The plan is still returned, with the reason.
        let told = plan(&mut client, limited(&harness, calls, money)).await.unwrap();
        assert_eq!(told.refusal, fault.message);
    }
    assert_eq!(harness.transform.generated.load(Ordering::SeqCst), 0);
    // A limit of the suite also applies, and the request's own replaces it.
    let suite = format!("{TWO}\n[limits]\ngenerator_calls = 3");
    let of_suite = spec(harness.suite(&suite), &["stub-a"]);
    let fault = create(&mut client, of_suite.clone()).await.unwrap_err();
    assert!(
        fault.message.contains("limits.generator_calls is 3"),
        "{}",
        fault.message
    );
    let over = RunSpec {
        limits: limited(&harness, Some(2 * DISTINCT), Some(cost)).limits,
        ..of_suite
    };
    let run = run_to_end(&mut client, over).await;
    assert_eq!(run.state(), RunState::Succeeded, "just enough is enough: {}", run.error);
    // If everything is cached, no limit refuses the run.
    let run = run_to_end(&mut client, limited(&harness, Some(0), Some(0.01))).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
}

#[tokio::test]
async fn what_cannot_be_priced_is_not_started_under_a_limit_of_money() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let fault = create(&mut client, limited(&harness, None, Some(1e9)))
        .await
        .unwrap_err();
    assert!(fault.message.contains("has no prices"), "{}", fault.message);
    *harness.transform.price.lock() = Some(1.0);
    let judged = RunSpec {
        judge: Some(Judge {
            generator_id: "stub:judge".to_owned(),
            ..Judge::default()
        }),
        ..limited(&harness, None, Some(1e9))
    };
    let fault = create(&mut client, judged.clone()).await.unwrap_err();
    assert!(fault.message.contains("judge"), "{}", fault.message);
    let told = plan(&mut client, judged).await.unwrap();
    assert!(told.most_ratings > 96, "{}", told.most_ratings);
    for cost in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let fault = create(&mut client, limited(&harness, None, Some(cost)))
            .await
            .unwrap_err();
        assert_eq!(fault.field.as_deref(), Some("spec.limits.cost"), "{cost}");
    }
    let run = run_to_end(&mut client, limited(&harness, None, Some(1e9))).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
}

#[tokio::test]
async fn a_run_that_takes_more_than_was_planned_is_stopped_and_keeps_what_was_made() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    *harness.transform.price.lock() = Some(1e6);
    // The plan assumes one call per text; this generator takes three.
    harness.transform.calls_a_text.store(3, Ordering::SeqCst);
    for (calls, money, field) in [
        (Some(2 * DISTINCT), None, "limits.generator_calls"),
        (None, Some(500.0), "limits.cost"),
    ] {
        let run = run_to_end(&mut client, limited(&harness, calls, money)).await;
        assert_eq!(run.state(), RunState::Failed);
        assert_eq!(run.error_code, Code::ResourceExhausted as i32);
        assert!(run.error.contains(field), "{}", run.error);
        let counters = run.counters.unwrap();
        assert!(
            counters.generator_calls > 0 && counters.texts_generated < 2 * DISTINCT,
            "{counters:?}"
        );
        let cost = (counters.generator_tokens + counters.generated_tokens) as f64;
        assert!(
            counters.generator_calls <= calls.unwrap_or(u64::MAX) && cost <= money.unwrap_or(f64::INFINITY),
            "{counters:?}"
        );
    }
    let made = harness.transform.generated.load(Ordering::SeqCst);
    assert!(made > 0);
    // Without the limit the rest is generated, and nothing twice.
    let run = run_to_end(&mut client, limited(&harness, None, None)).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let counters = run.counters.unwrap();
    assert!(counters.texts_cached > 0, "{counters:?}");
    let all = harness.transform.generated.load(Ordering::SeqCst);
    assert_eq!(all, 4 * DISTINCT, "each text once under each transformation and seed");
}

#[tokio::test]
async fn what_is_in_flight_takes_no_run_beyond_its_limit_and_just_enough_is_enough() {
    let texts = 2 * DISTINCT;
    for (calls_a_text, limit) in [
        (3, texts),
        (2, texts + 1),
        (3, texts + 16),
        (2, 2 * texts - 1),
        (2, 2 * texts),
    ] {
        let harness = Harness::new();
        let (_service, mut client) = harness.open().await;
        // Requests overlap.
        *harness.transform.pause.lock() = std::time::Duration::from_millis(2);
        harness.transform.calls_a_text.store(calls_a_text, Ordering::SeqCst);
        let run = run_to_end(&mut client, limited(&harness, Some(limit), None)).await;
        let counters = run.counters.unwrap();
        let needed = calls_a_text * texts;
        if needed <= limit {
            assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
            assert_eq!((counters.generator_calls, counters.texts_generated), (needed, texts));
        } else {
            assert_eq!(run.state(), RunState::Failed);
            assert!(run.error.contains("limits.generator_calls"), "{}", run.error);
            // It uses as much as it may: the unused remainder is too small for another text.
            let taken = counters.generator_calls;
            assert!(taken <= limit && taken + calls_a_text > limit, "{taken} of {limit}");
        }
    }
    // The same applies to money.
    let call = (TOKENS.0 + TOKENS.1) as f64;
    for (limit, enough) in [
        (2.0 * call * texts as f64 - 1.0, false),
        (2.0 * call * texts as f64, true),
    ] {
        let harness = Harness::new();
        let (_service, mut client) = harness.open().await;
        *harness.transform.price.lock() = Some(1e6);
        *harness.transform.pause.lock() = std::time::Duration::from_millis(2);
        harness.transform.calls_a_text.store(2, Ordering::SeqCst);
        let run = run_to_end(&mut client, limited(&harness, None, Some(limit))).await;
        let counters = run.counters.unwrap();
        let taken = (counters.generator_tokens + counters.generated_tokens) as f64;
        assert_eq!(run.state() == RunState::Succeeded, enough, "{}", run.error);
        assert!(
            taken <= limit && taken + 2.0 * call > limit,
            "{taken} of {limit}: {}",
            run.error
        );
    }
}

#[tokio::test]
async fn a_wrong_suite_and_a_wrong_limit_are_refused_by_line() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    for (limits, named) in [
        ("cost = 0", "limits.cost"),
        ("generator_calls = -1", "limits.generator_calls"),
        ("call = 1", "call"),
    ] {
        let suite = harness.suite(&format!("{TWO}\n[limits]\n{limits}"));
        let fault = plan(&mut client, spec(suite, &["stub-a"])).await.unwrap_err();
        assert_eq!(fault.reason, "BROKEN_SUITE");
        assert!(
            fault.message.contains("small.toml:5") && fault.message.contains(named),
            "{}",
            fault.message
        );
    }
    let nobody = plan(&mut client, spec(harness.suite(TWO), &["nobody"]))
        .await
        .unwrap_err();
    assert_eq!(nobody.code, Code::NotFound);
}
