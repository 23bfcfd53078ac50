//! A run from suite to report, over stub services and the in-memory channel.

use std::{sync::atomic::Ordering, time::Duration};

use isomer_eval::{EvalConfig, Shared};
use isomer_proto::eval::v1::{
    CancelRunRequest, CreateRunRequest, DeleteRunRequest, GetReportRequest, GetRunRequest, ListRunsRequest,
    ReportFormat, RunState, Stage, SuiteRef, WatchRunRequest, suite_ref, watch_run_response::Event,
};
use isomer_proto::transform::v1::GuardMode;
use isomer_service_kit::Fault;
use isomer_stubs::{promise::refusal, wait::until};
use tonic::Code;

use crate::run_stubs::{
    DISTINCT, Harness, TOKENS, create, ended, repeats, report, report_json, run_to_end, spec, watch,
};

const TWO: &str = "seeds = [1337]\ntransformations = [\"paraphrase\", \"summarisation\"]";

#[tokio::test]
async fn two_encoders_share_one_generation_pass_and_no_text_is_encoded_twice() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let run = run_to_end(&mut client, spec(harness.suite(TWO), &["stub-a", "stub-b"])).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let counters = run.counters.unwrap();
    assert_eq!(counters.texts_planned, DISTINCT * 2);
    assert_eq!(counters.texts_generated, DISTINCT * 2);
    assert_eq!(counters.generator_calls, DISTINCT * 2);
    assert_eq!(
        (counters.generator_tokens, counters.generated_tokens),
        (DISTINCT * 2 * TOKENS.0, DISTINCT * 2 * TOKENS.1)
    );
    assert_eq!(counters.tokens_encoded, counters.texts_encoded * 3);
    assert_eq!((counters.judge_tokens, counters.judge_generated_tokens), (0, 0));
    assert_eq!(harness.transform.generated.load(Ordering::SeqCst), DISTINCT * 2);
    assert_eq!(repeats(&harness.encoder), Default::default());
    // 2 encoders x 2 datasets x (original + 2 transformations)
    assert_eq!((counters.scores_computed, counters.scores_cached), (12, 0));
    // "Hello" cannot be paraphrased by the stub.
    assert_eq!(counters.kept_original, 1);
}

/// The transformations of the texts in the order of the requests, and the time of the run. A text
/// takes 40 ms, and one request contains all texts of a pass.
async fn asked_slowly(head: &str) -> (Vec<String>, Duration) {
    let harness = Harness::new();
    *harness.transform.pause.lock() = Duration::from_millis(40);
    let whole = |config: &mut EvalConfig| config.transform_batch_items = 100;
    let (_service, mut client) = harness.open_with(Shared::default(), whole).await;
    let began = std::time::Instant::now();
    let run = run_to_end(&mut client, spec(harness.suite(head), &["stub-a"])).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let asked = harness
        .transform
        .ids
        .lock()
        .iter()
        .map(|(name, _)| name.clone())
        .collect();
    (asked, began.elapsed())
}

#[tokio::test]
async fn a_transformation_does_not_wait_for_the_last_texts_of_another_but_a_seed_does() {
    let (asked, _) = asked_slowly(TWO).await;
    let first = asked.iter().position(|name| name == "summarisation").unwrap();
    let last = asked.iter().rposition(|name| name == "paraphrase").unwrap();
    assert!(first < last, "{asked:?}");
    // A generator that takes no seed would receive the same request twice.
    let (asked, took) = asked_slowly("seeds = [1337, 7]\ntransformations = [\"paraphrase\"]").await;
    assert_eq!(asked.len() as u64, 2 * DISTINCT);
    assert!(took >= Duration::from_millis(40) * 2 * DISTINCT as u32, "{took:?}");
}

#[tokio::test]
async fn what_is_drawn_for_a_text_is_drawn_by_where_it_stands() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let suite = "seeds = [1337]\ntransformations = [\"paraphrase\", \"cross_translation\"]";
    let run = run_to_end(&mut client, spec(harness.suite(suite), &["stub-a"])).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    // One text is in both datasets: it is translated for each.
    assert_eq!(run.counters.unwrap().texts_planned, DISTINCT + (DISTINCT + 1));
    let asked = harness.transform.ids.lock().clone();
    let ids = |wanted: &str| -> Vec<String> {
        let ids = asked.iter().filter(|(name, _)| name == wanted);
        ids.map(|(_, id)| id.clone()).collect()
    };
    assert!(ids("paraphrase").iter().all(String::is_empty));
    let mut own = ids("cross_translation");
    own.sort();
    own.dedup();
    assert_eq!(own.len() as u64, DISTINCT + 1);
    for id in [
        "sts/test/3:sentence1",
        "pairs/test/0:sentence1",
        "pairs/test/0:sentence2",
    ] {
        assert!(own.iter().any(|one| one == id), "{id} in {own:?}");
    }
}

#[tokio::test]
async fn a_second_run_generates_nothing_encodes_nothing_and_says_so() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let first = run_to_end(&mut client, spec(harness.suite(TWO), &["stub-a"])).await;
    let encoded = harness.encoder.texts().len();
    let second = run_to_end(&mut client, spec(harness.suite(TWO), &["stub-a"])).await;
    let counters = second.counters.unwrap();
    assert_eq!((counters.texts_generated, counters.texts_cached), (0, DISTINCT * 2));
    assert_eq!(
        (counters.texts_encoded, counters.scores_computed, counters.scores_cached),
        (0, 0, 6)
    );
    let tokens = counters.generator_tokens + counters.generated_tokens + counters.tokens_encoded;
    assert_eq!(tokens, 0, "what was found costs nothing");
    assert_eq!(harness.encoder.texts().len(), encoded);
    let (one, two) = (
        report_json(&mut client, &first.id).await,
        report_json(&mut client, &second.id).await,
    );
    assert_eq!(one["profile"], two["profile"]);
}

#[tokio::test]
async fn differences_have_intervals_over_items_and_over_groups_of_data_sets() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let run = run_to_end(&mut client, spec(harness.suite(TWO), &["stub-a"])).await;
    let json = report_json(&mut client, &run.id).await;
    assert_eq!(
        (&json["profile"]["n_datasets"], &json["profile"]["n_groups"]),
        (&2.into(), &2.into())
    );
    let encoder = &json["profile"]["encoders"][0];
    for total in [
        &encoder["total"],
        &encoder["datasets"][0]["total"],
        &encoder["datasets"][1]["total"],
    ] {
        let items = &total["intervals"]["items"];
        let (low, delta, high) = (&items["low"], &total["delta"], &items["high"]);
        assert!(low.as_f64().unwrap() <= delta.as_f64().unwrap(), "{total}");
        assert!(delta.as_f64().unwrap() <= high.as_f64().unwrap(), "{total}");
        assert!(items["units"].as_u64().unwrap() > 1, "{total}");
    }
    assert_eq!(encoder["total"]["intervals"]["datasets"]["units"], 2);
    for dataset in encoder["datasets"].as_array().unwrap() {
        for one in dataset["transformations"].as_array().unwrap() {
            let changed = &one["delta_changed"];
            assert!(
                changed["items"].as_u64().unwrap() > 0 && changed["of"].as_u64().unwrap() > 0,
                "{one}"
            );
            assert!(changed["items"].as_u64() <= changed["of"].as_u64(), "{one}");
        }
    }
    // Every score names the place of its items, and they exist there.
    for row in json["scores"].as_array().unwrap() {
        let unit = row["unit"].as_str().unwrap();
        let path = format!("{}/{unit}.items.json", &unit[..2]);
        let found = walk(harness.home.path()).into_iter().any(|file| file.ends_with(&path));
        assert!(found, "{path}");
    }
}

/// Every file below a folder.
fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(walk(&path));
        } else {
            files.push(path);
        }
    }
    files
}

#[tokio::test]
async fn greedy_seeds_share_scores_and_the_report_says_why_the_deviation_is_zero() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let suite = harness.suite("seeds = [1337, 1338, 1339]\ntransformations = [\"paraphrase\"]");
    let run = run_to_end(&mut client, spec(suite, &["stub-a"])).await;
    let counters = run.counters.unwrap();
    // 2 datasets: originals and one set of texts are scored, and the second seed finds the same
    // scores.
    assert_eq!((counters.scores_computed, counters.scores_cached), (4, 4));
    let json = report_json(&mut client, &run.id).await;
    let total = &json["profile"]["encoders"][0]["total"];
    assert_eq!(total["sd"], 0.0);
    assert!(total["sd_note"].as_str().unwrap().contains("same texts"));
}

#[tokio::test]
async fn sampled_seeds_have_the_deviation_of_their_scores() {
    let harness = Harness::new();
    *harness.transform.sampled.lock() = true;
    let (_service, mut client) = harness.open().await;
    let suite = harness.suite("seeds = [1, 2, 3]\ntransformations = [\"summarisation\"]\ntemperature = 0.7");
    let run = run_to_end(&mut client, spec(suite, &["stub-a"])).await;
    let json = report_json(&mut client, &run.id).await;
    let scores: Vec<f64> = json["scores"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["transformation"] == "summarisation" && row["dataset"] == "sts")
        .map(|row| row["main_score"].as_f64().unwrap() * 100.0)
        .collect();
    assert_eq!(scores.len(), 3);
    let mean = scores.iter().sum::<f64>() / 3.0;
    let sd = (scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>() / 2.0).sqrt();
    let told = &json["profile"]["encoders"][0]["datasets"][0]["transformations"][0];
    assert!((told["mean"].as_f64().unwrap() - mean).abs() < 1e-9);
    assert!((told["sd"].as_f64().unwrap() - sd).abs() < 1e-9);
}

#[test]
fn a_killed_run_is_found_interrupted_and_started_again_asks_the_generator_for_nothing_it_has() {
    let harness = Harness::new();
    harness.transform.quota.stop_after(DISTINCT);
    let first = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let id = first.block_on(async {
        let (_service, mut client) = harness.open().await;
        let run = create(&mut client, spec(harness.suite(TWO), &["stub-a"]))
            .await
            .unwrap();
        until("half of the texts are made", || {
            harness.transform.generated.load(Ordering::SeqCst) == DISTINCT
        })
        .await;
        run.id
    });
    // As with SIGKILL, no task can clean up.
    first.shutdown_timeout(Duration::from_millis(50));
    let made = harness.transform.generated.load(Ordering::SeqCst);
    assert_eq!(made, DISTINCT, "killed half way");
    harness.transform.quota.lift();

    let second = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    second.block_on(async {
        let (_service, mut client) = harness.open().await;
        let found = client
            .get_run(GetRunRequest { id: id.clone() })
            .await
            .unwrap()
            .into_inner()
            .run
            .unwrap();
        assert_eq!(found.state(), RunState::Failed);
        // Tasks of a runtime end one after the other: the run may still see its transform service
        // end, unlike with SIGKILL.
        let seen = ["interrupted", "this process"];
        assert!(seen.iter().any(|why| found.error.contains(why)), "{}", found.error);
        assert_eq!(ended(&watch(&mut client, &id, 999).await).state(), RunState::Failed);
        let run = run_to_end(&mut client, spec(harness.suite(TWO), &["stub-a"])).await;
        assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
        assert_eq!(
            harness.transform.generated.load(Ordering::SeqCst),
            DISTINCT * 2,
            "no text was made twice"
        );
        assert_eq!(run.counters.unwrap().texts_generated, DISTINCT * 2 - made);
    });
}

#[tokio::test]
async fn after_a_restart_runs_and_reports_are_still_there() {
    let harness = Harness::new();
    let id = {
        let (_service, mut client) = harness.open().await;
        run_to_end(&mut client, spec(harness.suite(TWO), &["stub-a"])).await.id
    };
    let (_service, mut client) = harness.open().await;
    let list = client.list_runs(ListRunsRequest::default()).await.unwrap().into_inner();
    assert_eq!(
        list.runs.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(),
        [id.as_str()]
    );
    assert_eq!(list.runs[0].state(), RunState::Succeeded);
    assert!(!report(&mut client, &id, ReportFormat::Html).await.is_empty());
    client.delete_run(DeleteRunRequest { id: id.clone() }).await.unwrap();
    let gone = client.get_run(GetRunRequest { id }).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
}

#[tokio::test]
async fn a_cancelled_run_stops_at_once_and_keeps_what_is_finished() {
    let harness = Harness::new();
    harness.transform.quota.stop_after(3);
    let (_service, mut client) = harness.open().await;
    let run = create(&mut client, spec(harness.suite(TWO), &["stub-a"]))
        .await
        .unwrap();
    let made = || harness.transform.generated.load(Ordering::SeqCst);
    until("some texts are made", || made() == 3).await;
    let refused = client
        .delete_run(DeleteRunRequest { id: run.id.clone() })
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    // The generator has stopped responding, and the cancellation does not wait for it.
    let cancelled = client
        .cancel_run(CancelRunRequest {
            id: run.id.clone(),
            reason: "the budget of team is used up".to_owned(),
        })
        .await
        .unwrap()
        .into_inner()
        .run
        .unwrap();
    assert_eq!(cancelled.state(), RunState::Cancelled);
    assert_eq!(
        (cancelled.error.as_str(), cancelled.error_code),
        ("the budget of team is used up", Code::Cancelled as i32)
    );
    assert!(watch(&mut client, &run.id, 0).await.iter().any(
        |event| matches!(&event.event, Some(Event::Message(text)) if text == "cancelled: the budget of team is used up")
    ));
    // Texts generated until then count, although no request to the service completed.
    let counted = cancelled.counters.unwrap();
    assert_eq!(counted.generator_tokens, counted.texts_generated * TOKENS.0);
    assert_eq!(counted.generated_tokens, counted.texts_generated * TOKENS.1);
    assert!((1..=3).contains(&counted.texts_generated), "{counted:?}");
    let asked = || harness.transform.asked.load(Ordering::SeqCst);
    until("its requests to the generator end", || {
        harness.transform.in_flight.load(Ordering::SeqCst) == 0
    })
    .await;
    let before = asked();
    harness.transform.quota.lift();
    // Enough time for many more texts, if the run continued.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((made(), asked()), (3, before), "the generator is left alone");
    let no_report = client
        .get_report(GetReportRequest { id: run.id, format: 0 })
        .await
        .unwrap_err();
    assert_eq!(no_report.code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn progress_is_streamed_replayed_and_ends_with_the_run() {
    let harness = Harness::new();
    *harness.transform.pause.lock() = Duration::from_millis(60);
    let (_service, mut client) = harness.open().await;
    let run = create(&mut client, spec(harness.suite(TWO), &["stub-a"]))
        .await
        .unwrap();
    // A watcher that never reads does not block others.
    let _idle = client
        .watch_run(WatchRunRequest {
            id: run.id.clone(),
            after_sequence: 0,
        })
        .await
        .unwrap();
    let events = watch(&mut client, &run.id, 0).await;
    let sequences: Vec<u64> = events.iter().map(|event| event.sequence).collect();
    assert!(
        sequences.is_sorted_by(|a, b| a < b) && sequences[0] == 1,
        "{sequences:?}"
    );
    let transform: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.event {
            Some(Event::Progress(progress)) if progress.stage() == Stage::Transform => Some(progress),
            _ => None,
        })
        .collect();
    assert!(
        transform.iter().any(|p| p.remaining.is_some() && p.done < p.total),
        "time left is told on the way"
    );
    assert!(
        transform.iter().any(|p| p.detail == "paraphrase, seed 1337"),
        "{transform:?}"
    );
    assert_eq!(
        (transform.last().unwrap().done, transform.last().unwrap().total),
        (DISTINCT * 2, DISTINCT * 2)
    );
    for stage in [Stage::Plan, Stage::Encode, Stage::Score, Stage::Report] {
        let complete = |event: &Option<Event>| matches!(event, Some(Event::Progress(p)) if p.stage() == stage && p.done == p.total);
        assert!(events.iter().any(|event| complete(&event.event)), "{stage:?} completes");
    }
    let later = watch(&mut client, &run.id, sequences[2]).await;
    assert_eq!(later.first().unwrap().sequence, sequences[3]);
    assert_eq!(ended(&later).state(), RunState::Succeeded);
}

#[tokio::test]
async fn a_request_id_makes_one_run_however_often_it_is_sent() {
    let harness = Harness::new();
    let (_service, client) = harness.open().await;
    let request = CreateRunRequest {
        spec: Some(spec(harness.suite(TWO), &["stub-a"])),
        request_id: "nightly/42".into(),
    };
    let both = futures::future::join_all((0..4).map(|_| {
        let (mut client, request) = (client.clone(), request.clone());
        async move { client.create_run(request).await.unwrap().into_inner().run.unwrap().id }
    }));
    let ids = both.await;
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[tokio::test]
async fn an_unreachable_generator_fails_the_run_with_reason_and_hint() {
    let harness = Harness::new();
    let down =
        Fault::unavailable("GENERATOR_UNREACHABLE", "cannot connect to http://localhost:1/v1").hint("start the server");
    *harness.transform.down.lock() = Some(down);
    let (_service, mut client) = harness.open().await;
    let run = run_to_end(&mut client, spec(harness.suite(TWO), &["stub-a"])).await;
    assert_eq!(
        (run.state(), Code::from_i32(run.error_code)),
        (RunState::Failed, Code::Unavailable)
    );
    for part in ["paraphrase", "localhost:1", "start the server"] {
        assert!(run.error.contains(part), "{}", run.error);
    }
}

#[tokio::test]
async fn a_generator_that_answers_no_text_at_all_is_no_result() {
    let harness = Harness::new();
    *harness.transform.silent.lock() = true;
    let (_service, mut client) = harness.open().await;
    let run = run_to_end(&mut client, spec(harness.suite(TWO), &["stub-a"])).await;
    assert_eq!(run.state(), RunState::Failed);
    assert!(
        run.error.contains("none of 17 texts") && run.error.contains("connection refused"),
        "{}",
        run.error
    );
}

#[tokio::test]
async fn a_failing_encoder_is_named() {
    let harness = Harness::new();
    harness.manner().broken = Some("stub-b".to_owned());
    let (_service, mut client) = harness.open().await;
    let run = run_to_end(&mut client, spec(harness.suite(TWO), &["stub-a", "stub-b"])).await;
    assert_eq!(run.state(), RunState::Failed);
    assert!(
        run.error.contains("encoder `stub-b`") && run.error.contains("truncated"),
        "{}",
        run.error
    );
}

#[tokio::test]
async fn everything_is_checked_before_anything_is_generated() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let unknown = create(&mut client, spec(harness.suite(TWO), &["mystery"]))
        .await
        .unwrap_err();
    assert_eq!(unknown.code, Code::NotFound);
    assert!(unknown.message.contains("mystery"), "{}", unknown.message);

    let mut ghost = spec(harness.suite(TWO), &["stub-a"]);
    ghost.generator_id = "missing".into();
    let ghost = create(&mut client, ghost).await.unwrap_err();
    assert_eq!(refusal(&ghost), "NOT_FOUND UNKNOWN_GENERATOR");
    assert!(ghost.message.contains("`missing`"), "{ghost}");

    let unserved = harness.suite("transformations = [\"style_change\"]");
    let unserved = create(&mut client, spec(unserved, &["stub-a"])).await.unwrap_err();
    assert_eq!(unserved.code, Code::Unimplemented);
    assert!(
        unserved.message.contains("style_change") && unserved.message.contains("paraphrase"),
        "{}",
        unserved.message
    );

    let typo = harness.suite("transformations = [\"paraprase\"]");
    let typo = create(&mut client, spec(typo, &["stub-a"])).await.unwrap_err();
    assert_eq!(typo.code, Code::InvalidArgument);
    assert!(
        typo.message.contains("small.toml:2") && typo.message.contains("paraphrase"),
        "{}",
        typo.message
    );

    let suite = harness.suite(TWO);
    std::fs::write(
        harness.home.path().join("data/sts.jsonl"),
        "{\"sentence1\": \"a\", \"score\": 1}\n",
    )
    .unwrap();
    let broken = create(&mut client, spec(suite, &["stub-a"])).await.unwrap_err();
    assert_eq!(broken.code, Code::InvalidArgument);
    for part in ["small.toml:4", "sts.jsonl", "line 1", "sentence2"] {
        assert!(broken.message.contains(part), "{part}: {}", broken.message);
    }
    assert_eq!(harness.transform.asked.load(Ordering::SeqCst), 0);
    assert!(
        client
            .list_runs(ListRunsRequest::default())
            .await
            .unwrap()
            .into_inner()
            .runs
            .is_empty()
    );
}

#[tokio::test]
async fn overrides_and_baseline_are_followed() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let mut asked = spec(harness.suite(TWO), &["stub-a"]);
    asked.baseline_encoder_id = "stub-base".into();
    asked.seeds = vec![5];
    asked.limit = Some(4);
    asked.transformations = vec!["expansion".into()];
    let run = run_to_end(&mut client, asked.clone()).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let json = report_json(&mut client, &run.id).await;
    assert_eq!(json["suite"]["seeds"], serde_json::json!([5]));
    assert_eq!(json["datasets"][0]["items"], 4);
    assert_eq!(json["profile"]["axes"], serde_json::json!(["length"]));
    assert_eq!(json["profile"]["baseline"]["encoder"], "stub-base");
    assert_eq!(json["profile"]["baseline"]["comparisons"][0]["encoder"], "stub-a");

    asked.transformations = vec!["expansoin".into()];
    let typo = create(&mut client, asked).await.unwrap_err();
    assert_eq!(typo.field.as_deref(), Some("spec.transformations[0]"));
    assert!(typo.message.contains("did you mean `expansion`"), "{}", typo.message);
}

#[tokio::test]
async fn what_a_suite_says_of_prompts_retries_and_sampling_reaches_the_transform_service() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let head = "seeds = [1337]\ntransformations = [\"paraphrase\", { name = \"paraphrase\", prompt = \"paraphrase-b\" }]\n\
                temperature = 0.8\ntop_p = 0.9\ntop_k = 40\nretry_identical = false\nretry_temperature = 0.0\nguards = \"retry\"";
    let mut suite = harness.suite(head);
    // The table of wordings needs English STS, so the data set names its language.
    if let Some(suite_ref::Source::Toml(text)) = &mut suite.source {
        *text = text.replace("path = \"sts.jsonl\"\n", "path = \"sts.jsonl\"\nlanguages = [\"en\"]\n");
    }
    let run = run_to_end(&mut client, spec(suite, &["stub-a"])).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let specs = harness.transform.specs.lock().clone();
    let mut prompts: Vec<_> = specs.iter().map(|spec| spec.prompts.clone()).collect();
    prompts.dedup();
    assert_eq!(prompts, [vec![], vec!["paraphrase-b".to_owned()]]);
    for spec in &specs {
        let sampling = spec.sampling.unwrap();
        assert_eq!(
            (sampling.temperature, sampling.top_p, sampling.top_k),
            (Some(0.8), Some(0.9), Some(40))
        );
        assert_eq!((spec.retry_identical, spec.retry_temperature), (Some(false), Some(0.0)));
        assert_eq!(spec.guards(), GuardMode::Retry);
    }
    let json = report_json(&mut client, &run.id).await;
    assert_eq!(json["suite"]["transformations"][1]["label"], "paraphrase(paraphrase-b)");
    let wordings = json["tables"]
        .as_array()
        .unwrap()
        .iter()
        .find(|table| table["id"] == "pteb-12")
        .unwrap();
    assert_eq!(wordings["rows"].as_array().unwrap().len(), 2);
    assert_eq!(
        wordings["rows"][1]["cells"].as_array().unwrap().last().unwrap()["value"],
        0.5
    );
}

#[tokio::test]
async fn a_run_may_override_the_temperature_and_says_so() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let mut asked = spec(harness.suite(TWO), &["stub-a"]);
    asked.temperature = Some(0.4);
    let run = run_to_end(&mut client, asked.clone()).await;
    assert_eq!(run.spec.unwrap().temperature, Some(0.4));
    let seen = harness.transform.specs.lock()[0].sampling.unwrap().temperature;
    let json = report_json(&mut client, &run.id).await;
    assert_eq!(
        (seen, &json["suite"]["temperature"]),
        (Some(0.4), &serde_json::json!(0.4))
    );
    asked.temperature = Some(2.5);
    let fault = create(&mut client, asked).await.unwrap_err();
    assert_eq!(fault.field.as_deref(), Some("spec.temperature"));
}

#[tokio::test]
async fn guard_warnings_and_first_attempts_are_counted_beside_the_checks() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let head = "seeds = [1337]\ntransformations = [\"expansion\", \"summarisation\"]";
    let run = run_to_end(&mut client, spec(harness.suite(head), &["stub-a"])).await;
    let json = report_json(&mut client, &run.id).await;
    let rows = json["checks"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["transformation"] == name).unwrap();
    let (expanded, short) = (row("expansion"), row("summarisation"));
    assert_eq!(expanded["guards"]["numbers"], expanded["texts"]);
    assert_eq!(expanded["guards_untold"]["names"], expanded["texts"]);
    // A warning is not an error.
    assert_eq!(
        (&expanded["ok"], &expanded["failed_checks"]),
        (&expanded["texts"], &serde_json::json!({}))
    );
    assert_eq!(short["guards"], serde_json::json!({}));
    assert_eq!(short["first_checks"]["summary_longer"], short["texts"]);
    let rates = json["error_rates"].as_array().unwrap();
    assert_eq!(
        (&rates[0]["first_failed"], &rates[0]["guards"]["numbers"]),
        (&serde_json::json!(0.0), &serde_json::json!(1.0))
    );
    assert_eq!(
        (&rates[1]["first_failed"], &rates[1]["checks"]),
        (&serde_json::json!(1.0), &serde_json::json!({}))
    );
    let page = report(&mut client, &run.id, ReportFormat::Html).await;
    assert!(String::from_utf8(page).unwrap().contains("Guard warnings"));
}

#[tokio::test]
async fn every_dataset_that_cannot_be_had_is_named_before_anything_is_generated() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let suite = "name = \"far\"\ntransformations = [\"paraphrase\"]\n[[dataset]]\ncatalogue = \"BIOSSES\"\n[[dataset]]\n\
                 builtin = \"quick/sts\"\ntask = \"sts\"\n[[dataset]]\nhub = \"org/name\"\ntask = \"sts\"\n";
    let suite = SuiteRef {
        source: Some(suite_ref::Source::Toml(suite.to_owned())),
        file_name: "far.toml".to_owned(),
        ..SuiteRef::default()
    };
    let fault = create(&mut client, spec(suite, &["stub-a"])).await.unwrap_err();
    assert_eq!(
        (fault.code, fault.reason.as_str()),
        (Code::Unavailable, "DATASET_UNREACHABLE")
    );
    for part in ["2 of the suite's 3", "far.toml:3: BIOSSES", "far.toml:8: org/name"] {
        assert!(fault.message.contains(part), "{part}: {}", fault.message);
    }
    assert_eq!(harness.transform.generated.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_sample_is_said_in_the_report() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let mut asked = spec(harness.suite(TWO), &["stub-a"]);
    (asked.limit, asked.sample_seed) = (Some(4), Some(9));
    let run = run_to_end(&mut client, asked).await;
    let json = report_json(&mut client, &run.id).await;
    let sample = &json["datasets"][0]["sample"];
    assert_eq!(
        (&sample["rows"], &sample["seed"]),
        (&serde_json::json!(4), &serde_json::json!(9))
    );
    let said = json["notes"]
        .as_array()
        .unwrap()
        .iter()
        .any(|note| note.as_str().unwrap().contains("a sample of 4 of"));
    assert!(said, "{}", json["notes"]);
}

#[tokio::test]
async fn pages_of_runs_go_from_new_to_old() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.insert(
            0,
            run_to_end(&mut client, spec(harness.suite(TWO), &["stub-a"])).await.id,
        );
    }
    let first = client
        .list_runs(ListRunsRequest {
            page_size: 2,
            page_token: String::new(),
        })
        .await
        .unwrap()
        .into_inner();
    let rest = client
        .list_runs(ListRunsRequest {
            page_size: 2,
            page_token: first.next_page_token.clone(),
        })
        .await
        .unwrap()
        .into_inner();
    let listed: Vec<&str> = first.runs.iter().chain(&rest.runs).map(|run| run.id.as_str()).collect();
    assert_eq!(listed, ids);
    assert!(rest.next_page_token.is_empty());
}
