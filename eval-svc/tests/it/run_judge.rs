//! A run with a judge: ratings of the transformed texts, and drift compared with them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::Ordering,
    time::Duration,
};

use isomer_eval::judging::{ProbeKind, Scale};
use isomer_eval::stats;
use isomer_proto::{
    eval::v1::{
        Gate, GateRule, GateSequential, Judge, ReportFormat, Run, RunSpec, RunState, Stage, gate_rule::Limit,
        watch_run_response::Event,
    },
    transform::v1::JudgeScale,
};
use isomer_stubs::wait::until;
use serde_json::Value;
use tonic::Code;

use crate::run_stubs::{
    self, DISTINCT, Harness, TOKENS, create,
    encoder::vector,
    ended,
    judge::{UNREADABLE, rating},
    many, report, report_json, run_to_end, spec, watch,
};

const TWO: &str = "seeds = [1337]\ntransformations = [\"paraphrase\", \"summarisation\"]";

fn judge(id: &str, sample: Option<u32>, scales: &[JudgeScale]) -> Option<Judge> {
    Some(Judge {
        generator_id: id.to_owned(),
        sample,
        scales: scales.iter().map(|scale| (*scale).into()).collect(),
        accept: None,
    })
}

fn judged(harness: &Harness, judge: Option<Judge>) -> RunSpec {
    RunSpec {
        judge,
        ..spec(harness.suite(TWO), &["stub-a", "stub-b"])
    }
}

fn row<'a>(rows: &'a Value, keys: &[(&str, &str)], dataset: Option<&str>) -> &'a Value {
    let all = rows.as_array().unwrap();
    let found = all
        .iter()
        .find(|row| keys.iter().all(|(key, value)| row[*key] == *value) && row["dataset"].as_str() == dataset);
    found.unwrap_or_else(|| panic!("{keys:?} {dataset:?} in {rows}"))
}

fn drift(encoder: &str, original: &str, made: &str) -> f64 {
    let (a, b) = (vector(encoder, original), vector(encoder, made));
    let dot = |x: &[f32], y: &[f32]| -> f64 { x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum() };
    1.0 - dot(&a, &b) / (dot(&a, &a) * dot(&b, &b)).sqrt()
}

fn close(value: &Value, expected: f64) {
    let told = value.as_f64().unwrap_or(f64::NAN);
    // Drift is stored as f32.
    assert!((told - expected).abs() < 1e-6, "{told}, expected {expected}");
}

#[tokio::test]
async fn what_changed_is_rated_once_and_drift_is_held_against_it_per_encoder() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let scales = [JudgeScale::Similarity, JudgeScale::Fluency];
    let asked = judged(&harness, judge("stub:judge", Some(0), &scales));
    let run = create(&mut client, asked).await.unwrap();
    let events = watch(&mut client, &run.id, 0).await;
    let run = ended(&events);
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let json = report_json(&mut client, &run.id).await;

    // "Hello" stays unchanged under both: the paraphrase fails its check, the summary passes
    // unchanged.
    let rated = DISTINCT - 1;
    let counters = run.counters.unwrap();
    assert_eq!(counters.ratings_planned, rated * 2 * 2);
    assert_eq!((counters.ratings_made, counters.ratings_cached), (rated * 4, 0));
    assert_eq!(harness.transform.judge.made.load(Ordering::SeqCst), rated * 4);
    // One text contains "court", under two transformations on two scales: three attempts each. One
    // trial per scale.
    assert_eq!(counters.ratings_missing, 4);
    assert_eq!(counters.judge_calls, (rated - 1) * 4 + 4 * 3 + 2);
    assert_eq!(harness.transform.judge.trials.load(Ordering::SeqCst), 2);
    assert_eq!(json["counters"]["judge"]["tokens"], counters.judge_calls * 100);
    assert_eq!(counters.judge_tokens, counters.judge_calls * 100);
    assert_eq!(counters.judge_generated_tokens, counters.judge_calls);
    assert_eq!(counters.generator_calls, DISTINCT * 2, "a judge's calls are its own");
    assert_eq!(
        counters.generator_tokens,
        DISTINCT * 2 * TOKENS.0,
        "and so are its tokens"
    );

    let asked = harness.transform.judge.asked.lock().clone();
    for scale in scales {
        let name = scale.as_str_name().trim_start_matches("JUDGE_SCALE_").to_lowercase();
        for (transformation, paraphrased) in [("paraphrase", true), ("summarisation", false)] {
            let pairs: Vec<(&str, &str, f64)> = asked
                .iter()
                .filter(|(own, _, made)| *own == scale && made.starts_with("rather ") == paraphrased)
                .filter_map(|(_, original, made)| Some((original.as_str(), made.as_str(), rating(scale, made)?)))
                .collect();
            assert_eq!(pairs.len() as u64, rated - 1, "{transformation}");
            let scores: Vec<f64> = pairs.iter().map(|(_, _, score)| *score).collect();
            let keys = [("scale", name.as_str()), ("transformation", transformation)];
            let told = row(&json["judge"]["ratings"], &keys, None);
            close(&told["mean"], stats::mean(&scores).unwrap());
            close(&told["sd"], stats::sample_sd(&scores).unwrap());
            // One text is in both data sets: counted in each, rated once.
            assert_eq!((&told["asked"], &told["unchanged"]), (&18.into(), &1.into()));
            assert_eq!(
                (&told["drawn"], &told["unreadable"], &told["texts"]),
                (&17.into(), &1.into(), &15.into())
            );
            for encoder in ["stub-a", "stub-b"] {
                let drifts: Vec<f64> = pairs.iter().map(|(a, b, _)| drift(encoder, a, b)).collect();
                let keys = [
                    ("encoder", encoder),
                    ("scale", &name),
                    ("transformation", transformation),
                ];
                let told = row(&json["judge"]["drift"], &keys, None);
                close(&told["spearman"], stats::spearman(&drifts, &scores).unwrap());
                close(&told["mean_rating"], stats::mean(&scores).unwrap());
                close(&told["mean_drift"], stats::mean(&drifts).unwrap());
                let ends = [&told["low"], &told["spearman"], &told["high"]].map(|end| end.as_f64().unwrap());
                assert!(ends.is_sorted(), "{ends:?}");
            }
        }
    }
    // Nine and eight texts have ratings: too few for a correlation within one data set.
    let rows = json["judge"]["drift"].as_array().unwrap();
    assert_eq!(
        (rows.len(), rows.iter().filter(|row| row["dataset"].is_null()).count()),
        (8, 8)
    );
    assert_eq!(json["judge"]["ratings"].as_array().unwrap().len(), 4 * 3);

    let own = &json["judge"];
    assert_eq!(
        (&own["id"], &own["digest"]),
        (&"stub:judge".into(), &"weights-of-stub:judge".into())
    );
    assert_eq!(
        (&own["seed"], &own["sample"], &own["attempts"]),
        (&1337.into(), &0.into(), &3.into())
    );
    assert_eq!(own["scales"][0]["prompt_version"], "judge_judge_scale_similarity@1");
    assert!(!json["not_computed"].to_string().contains("judged quality"));
    assert!(json["durations"]["judge"].is_number());
    let note = json["notes"].to_string();
    assert!(
        note.contains("gave no rating on 4 of 68 questions (4 answers were not ratings"),
        "{note}"
    );
    assert!(!note.contains("self-preference"), "{note}");

    // The items have each rewrite once, with its ratings and its drift under each encoder.
    let items = report(&mut client, &run.id, ReportFormat::Items).await;
    let items = isomer_eval::report::read_items(&items).unwrap();
    assert_eq!(items.judged.len() as u64, rated * 2);
    let without = items.judged.iter().filter(|one| one.ratings.is_empty()).count();
    assert_eq!(without, 2, "one text has no rating under either transformation");
    for one in &items.judged {
        let text = |number: u32| items.texts[number as usize].as_str();
        let (original, made) = (text(one.original), text(one.rewrite));
        for (name, scale) in [(Scale::Similarity, scales[0]), (Scale::Fluency, scales[1])] {
            assert_eq!(one.ratings.get(&name).copied(), rating(scale, made), "{made}");
        }
        for encoder in ["stub-a", "stub-b"] {
            assert!((one.drift[encoder] - drift(encoder, original, made)).abs() < 1e-6);
        }
    }

    let stages: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.event {
            Some(Event::Progress(moved)) if moved.stage() == Stage::Judge => Some(moved),
            _ => None,
        })
        .collect();
    let last = stages.last().unwrap();
    let known = isomer_eval::judging::probes().len() as u64;
    assert_eq!((last.done, last.total), (rated * 4 + known, rated * 4 + known));
    assert!(
        stages[0].detail == "similarity of probes" && last.detail == "4 failed, fluency of summarisation",
        "{stages:?}"
    );

    for format in [ReportFormat::Markdown, ReportFormat::Html] {
        let page = String::from_utf8(report(&mut client, &run.id, format).await).unwrap();
        let mean = row(
            &own["ratings"],
            &[("scale", "fluency"), ("transformation", "paraphrase")],
            None,
        );
        let told = format!(
            "{:.2} ± {:.2}",
            mean["mean"].as_f64().unwrap(),
            mean["sd"].as_f64().unwrap()
        );
        for part in ["stub:judge", "fluency, 1 to 5", &told, "Drift against ratings"] {
            assert!(page.contains(part), "{part}");
        }
    }
}

#[tokio::test]
async fn a_second_run_asks_the_judge_for_nothing_but_a_trial_and_says_the_same() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let first = run_to_end(&mut client, judged(&harness, judge("stub:judge", Some(0), &[]))).await;
    let made = harness.transform.judge.made.load(Ordering::SeqCst);
    let second = run_to_end(&mut client, judged(&harness, judge("stub:judge", Some(0), &[]))).await;
    let counters = second.counters.unwrap();
    assert_eq!(
        (counters.ratings_made, counters.ratings_cached),
        (0, (DISTINCT - 1) * 2)
    );
    assert_eq!(
        (
            harness.transform.judge.made.load(Ordering::SeqCst),
            counters.judge_calls
        ),
        (made, 1)
    );
    let (one, two) = (
        report_json(&mut client, &first.id).await,
        report_json(&mut client, &second.id).await,
    );
    assert_eq!(one["judge"], two["judge"]);
}

#[tokio::test]
async fn a_sample_is_of_the_same_texts_under_every_transformation_and_of_each_seed() {
    let harness = Harness::new();
    *harness.transform.sampled.lock() = true;
    let (_service, mut client) = harness.open().await;
    let suite = many::suite(
        &harness,
        3,
        "[judge]\ngenerator = \"stub:judge\"\nsample = 4\nscales = [\"quality\"]\n",
    );
    let run = run_to_end(&mut client, spec(suite, &["stub-a"])).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let json = report_json(&mut client, &run.id).await;
    let row = |transformation: &str, dataset: &str| {
        row(
            &json["judge"]["ratings"],
            &[("transformation", transformation)],
            Some(dataset),
        )
        .clone()
    };
    for dataset in ["set0", "set1", "set2"] {
        for transformation in ["paraphrase", "summarisation"] {
            let told = row(transformation, dataset);
            // Four texts under two seeds; the number of ratings depends on which texts contain
            // "court".
            assert_eq!((&told["asked"], &told["drawn"]), (&20.into(), &8.into()), "{told}");
            let texts = told["texts"].as_u64().unwrap();
            assert!((3..=4).contains(&texts), "{told}");
        }
    }
    let asked = harness.transform.judge.asked.lock().clone();
    let mut drawn: BTreeMap<bool, BTreeSet<&str>> = BTreeMap::new();
    for (scale, original, made) in &asked {
        assert_eq!(*scale, JudgeScale::Quality);
        drawn.entry(made.starts_with("rather ")).or_default().insert(original);
    }
    assert_eq!(drawn[&true], drawn[&false]);
    // Too few texts for a correlation over all three: at most twelve, with shared ones counted
    // once.
    let over_all = &json["judge"]["drift"][0];
    let texts = over_all["texts"].as_u64().unwrap();
    assert_eq!(over_all["spearman"].is_null(), texts < 10, "{over_all}");
}

#[test]
fn a_run_killed_while_it_is_judged_asks_for_no_rating_twice() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.enable_all().build().unwrap()
    };
    let harness = Harness::new();
    let all = (DISTINCT - 1) * 2;
    harness.transform.judge.quota.stop_after(all / 2);
    let first = runtime();
    first.block_on(async {
        let (_service, mut client) = harness.open().await;
        create(&mut client, judged(&harness, judge("stub:judge", None, &[])))
            .await
            .unwrap();
        until("half of the ratings are made", || {
            harness.transform.judge.made.load(Ordering::SeqCst) == all / 2
        })
        .await;
    });
    // As SIGKILL does.
    first.shutdown_timeout(Duration::from_millis(50));
    let made = harness.transform.judge.made.load(Ordering::SeqCst);
    assert_eq!(made, all / 2, "killed half way");
    harness.transform.judge.quota.lift();
    runtime().block_on(async {
        let (_service, mut client) = harness.open().await;
        let run = run_to_end(&mut client, judged(&harness, judge("stub:judge", None, &[]))).await;
        assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
        let counters = run.counters.unwrap();
        assert_eq!((counters.ratings_made, counters.ratings_cached), (all - made, made));
        assert_eq!(
            harness.transform.judge.made.load(Ordering::SeqCst),
            all,
            "no rating was made twice"
        );
        assert_eq!((counters.texts_generated, counters.scores_computed), (0, 0));
    });
}

#[tokio::test]
async fn a_gate_that_stops_early_has_only_those_texts_rated_that_are_in() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    *harness.transform.sampled.lock() = true;
    let with = |sequential: GateSequential| RunSpec {
        seeds: vec![1, 2, 3],
        judge: judge("stub:judge", Some(0), &[]),
        gate: Some(Gate {
            rules: vec![GateRule {
                limit: Some(Limit::MaxDrop(199.0)),
                ..GateRule::default()
            }],
            sequential: sequential.into(),
            ..Gate::default()
        }),
        ..spec(many::suite(&harness, 16, ""), &["stub-a"])
    };
    let run = run_to_end(&mut client, with(GateSequential::Pocock)).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let json = report_json(&mut client, &run.id).await;
    assert_eq!(json["gate"]["sequential"]["taken"], 1, "{}", json["gate"]);
    // Eight data sets with five texts of their own and five shared, under one seed and two
    // transformations. Only the plain "Hello" has too few words; with a number prepended it is long
    // enough.
    let early = run.counters.unwrap();
    assert_eq!(early.texts_planned, 90);
    assert!(early.ratings_planned <= 90 && early.ratings_planned >= 80, "{early:?}");
    assert_eq!(early.ratings_made, early.ratings_planned);
    let places = |json: &Value| -> BTreeSet<String> {
        let rows = json["judge"]["ratings"].as_array().unwrap();
        rows.iter()
            .filter_map(|row| row["dataset"].as_str().map(str::to_owned))
            .collect()
    };
    let sets: BTreeSet<String> = json["datasets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!((places(&json), sets.len()), (sets, 8));
    let told = row(&json["judge"]["ratings"], &[("transformation", "paraphrase")], None);
    assert_eq!(told["asked"], 80);

    // The full run finds those ratings and requests the others.
    let full = run_to_end(&mut client, with(GateSequential::Off))
        .await
        .counters
        .unwrap();
    assert_eq!(full.ratings_cached, early.ratings_made);
    assert_eq!(full.ratings_made, full.ratings_planned - early.ratings_made);
}

#[tokio::test]
async fn a_judge_that_is_not_there_is_refused_before_anything_is_generated() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    for (id, code, reason, part) in [
        (
            "missing",
            Code::NotFound,
            "UNKNOWN_GENERATOR",
            "unknown generator `missing`",
        ),
        ("down", Code::Unavailable, "GENERATOR_UNREACHABLE", "down"),
    ] {
        let fault = create(&mut client, judged(&harness, judge(id, None, &[])))
            .await
            .unwrap_err();
        assert_eq!((fault.code, fault.reason.as_str()), (code, reason), "{fault}");
        assert_eq!(fault.field.as_deref(), Some("spec.judge.generator_id"));
        assert!(
            fault.message.contains(part) && fault.message.contains(&format!("judge `{id}`")),
            "{fault}"
        );
        assert!(fault.hint.is_some_and(|hint| !hint.is_empty()));
    }
    let suite = harness.suite(&format!("{TWO}\n[judge]\ngenerator = \"missing\""));
    let fault = create(&mut client, spec(suite.clone(), &["stub-a"])).await.unwrap_err();
    assert_eq!(fault.field.as_deref(), Some("spec.suite"), "{fault}");

    let nobody = create(&mut client, judged(&harness, judge("", Some(20), &[])))
        .await
        .unwrap_err();
    assert_eq!(
        (nobody.code, nobody.field.as_deref()),
        (Code::InvalidArgument, Some("spec.judge.generator_id"))
    );
    assert!(
        nobody.message.contains("a sample of 20 texts") && nobody.message.contains("--judge"),
        "{nobody}"
    );
    let unscaled = judged(
        &harness,
        judge("stub:judge", None, &[JudgeScale::Quality, JudgeScale::Unspecified]),
    );
    let unscaled = create(&mut client, unscaled).await.unwrap_err();
    assert_eq!(unscaled.field.as_deref(), Some("spec.judge.scales[1]"), "{unscaled}");
    assert_eq!(harness.transform.asked.load(Ordering::SeqCst), 0);

    // `none` disables the suite's judge.
    let aside = RunSpec {
        judge: judge("none", None, &[]),
        ..spec(suite, &["stub-a"])
    };
    let run = run_to_end(&mut client, aside).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    assert_eq!(report_json(&mut client, &run.id).await.get("judge"), None);
}

#[tokio::test]
async fn a_judge_that_fails_on_every_pair_is_no_result_and_one_that_made_the_texts_is_named() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    *harness.transform.judge.fails.lock() = true;
    let run: Run = run_to_end(&mut client, judged(&harness, judge("stub:generator", None, &[]))).await;
    assert_eq!(
        (run.state(), Code::from_i32(run.error_code)),
        (RunState::Failed, Code::Unavailable)
    );
    assert!(
        run.error.contains("failed on all of 32 pairs") && run.error.contains("start the run again"),
        "{}",
        run.error
    );

    // Failures are not cached: the requests are repeated, and the scores are then present.
    *harness.transform.judge.fails.lock() = false;
    let run = run_to_end(&mut client, judged(&harness, judge("stub:generator", None, &[]))).await;
    let counters = run.counters.unwrap();
    assert_eq!(
        (counters.ratings_made, counters.scores_computed),
        (32, 0),
        "{}",
        run.error
    );
    let json = report_json(&mut client, &run.id).await;
    assert_eq!(json["judge"]["own_texts"], serde_json::json!(["stub:generator"]));
    assert!(
        json["notes"].to_string().contains("self-preference"),
        "{}",
        json["notes"]
    );
    assert!(
        run_stubs::STS.contains(UNREADABLE),
        "a text without a rating is among them"
    );
}

#[tokio::test]
async fn a_judge_that_does_not_tell_known_pairs_apart_accepts_nothing() {
    let judges: [(&str, fn(ProbeKind) -> f64); 3] = [
        ("constant", |_| 4.0),
        ("inverted", |kind| if kind == ProbeKind::Unrelated { 5.0 } else { 0.0 }),
        ("blind to paraphrases", |kind| {
            if kind == ProbeKind::Identical { 5.0 } else { 0.0 }
        }),
    ];
    for (what, probe) in judges {
        let harness = Harness::new();
        *harness.transform.judge.probe.lock() = Some(probe);
        let (_service, mut client) = harness.open().await;
        let run = run_to_end(&mut client, judged(&harness, judge("stub:judge", Some(0), &[]))).await;
        let json = report_json(&mut client, &run.id).await;
        let own = &json["judge"];
        assert!(own["inseparable"].as_str().unwrap().contains("of 16"), "{what}: {own}");
        let notes = json["notes"].to_string();
        assert!(notes.contains("cannot be relied on"), "{what}: {notes}");
    }
}

#[tokio::test]
async fn a_judge_that_tells_known_pairs_apart_says_how_many_rewrites_it_accepts() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let mut asked = judged(
        &harness,
        judge("stub:judge", Some(0), &[JudgeScale::Similarity, JudgeScale::Quality]),
    );
    let run = run_to_end(&mut client, asked.clone()).await;
    let json = report_json(&mut client, &run.id).await;
    let own = &json["judge"];
    assert_eq!((&own["inseparable"], &own["accept"]), (&Value::Null, &3.0.into()));
    assert_eq!(own["probes"].as_array().unwrap().len(), 3);
    let all = harness.transform.judge.asked.lock().clone();
    let expected = |least: f64| {
        // One text is in both data sets: rated once, counted in each.
        let times = |original: &str| 1 + u64::from(original == "Rain is expected tomorrow.");
        let good = all.iter().filter(|(scale, _, made)| {
            *scale == JudgeScale::Similarity
                && made.starts_with("rather ")
                && rating(*scale, made).is_some_and(|score| score >= least)
        });
        good.map(|(_, original, _)| times(original)).sum::<u64>()
    };
    let told = row(
        &own["ratings"],
        &[("scale", "similarity"), ("transformation", "paraphrase")],
        None,
    );
    assert_eq!(told["accepted"], expected(3.0), "{told}");
    assert!(expected(3.0) > 0 && expected(3.0) < told["drawn"].as_u64().unwrap());
    let quality = row(
        &own["ratings"],
        &[("scale", "quality"), ("transformation", "paraphrase")],
        None,
    );
    assert_eq!(quality["accepted"], Value::Null);
    // A stricter threshold accepts fewer, and causes no new requests.
    asked.judge.as_mut().unwrap().accept = Some(4.5);
    let run = run_to_end(&mut client, asked.clone()).await;
    let json = report_json(&mut client, &run.id).await;
    let told = row(
        &json["judge"]["ratings"],
        &[("scale", "similarity"), ("transformation", "paraphrase")],
        None,
    );
    assert_eq!(told["accepted"], expected(4.5));
    assert!(expected(4.5) < expected(3.0));
    asked.judge.as_mut().unwrap().accept = Some(6.0);
    let fault = create(&mut client, asked).await.unwrap_err();
    assert!(format!("{fault:?}").contains("spec.judge.accept"), "{fault:?}");
}
