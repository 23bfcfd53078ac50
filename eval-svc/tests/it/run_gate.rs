//! The gate of a run: from rules in a suite or a request to verdicts in every format of the report.

use isomer_proto::eval::v1::{
    Gate, GateBasis, GateRule, GateSequential, GateUndecided, ReportFormat, Run, RunSpec, RunState, Verdict,
    gate_rule::Limit,
};
use isomer_service_kit::GrpcChannel;
use isomer_stubs::promise::refusal;
use serde_json::Value;
use tonic::Code;

use std::sync::atomic::Ordering;

use crate::run_stubs::{
    Harness, create, encoded,
    many::{scores, suite},
    report, report_json, run_to_end, spec,
};

type Client = isomer_proto::eval::v1::run_service_client::RunServiceClient<GrpcChannel>;

async fn gated(client: &mut Client, spec: RunSpec) -> (Run, Value) {
    let run = run_to_end(client, spec).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let json = report_json(client, &run.id).await;
    (run, json)
}

fn limit(limit: Limit) -> GateRule {
    GateRule {
        limit: Some(limit),
        ..GateRule::default()
    }
}

#[tokio::test]
async fn a_gate_of_six_data_sets_passes_and_says_so_in_every_form() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let rules =
        "[gate]\nalpha = 0.05\n[[gate.rule]]\nmax_drop = 190\n[[gate.rule]]\nname = \"a | <floor>\"\nmin_score = -99\n";
    let (run, json) = gated(&mut client, spec(suite(&harness, 6, rules), &["stub-a", "stub-b"])).await;
    assert_eq!((run.verdict(), run.blocked), (Verdict::Pass, false));
    let gate = &json["gate"];
    assert_eq!((&gate["verdict"], &gate["blocked"]), (&"pass".into(), &false.into()));
    assert_eq!(gate["encoders"].as_array().unwrap().len(), 2);
    let said = &gate["encoders"][0]["rules"][0];
    assert_eq!(
        (&said["verdict"], &said["units"], &said["seeds"]),
        (&"pass".into(), &6.into(), &2.into())
    );
    let total = &json["profile"]["encoders"][0]["datasets"];
    let mut drops: Vec<f64> = total
        .as_array()
        .unwrap()
        .iter()
        .map(|d| -d["total"]["delta"].as_f64().unwrap())
        .collect();
    drops.sort_by(f64::total_cmp);
    // The Hodges-Lehmann shift lies between the drops.
    let estimate = said["estimate"].as_f64().unwrap();
    assert!(drops[0] <= estimate && estimate <= drops[5], "{estimate} of {drops:?}");
    let text = |format| {
        let (mut client, id) = (client.clone(), run.id.clone());
        async move { String::from_utf8(report(&mut client, &id, format).await).unwrap() }
    };
    let markdown = text(ReportFormat::Markdown).await;
    assert!(
        markdown.contains("## Verdict: pass") && markdown.contains("a \\| &lt;floor&gt;"),
        "{markdown}"
    );
    let html = text(ReportFormat::Html).await;
    assert!(html.contains("id=\"gate-title\"") && html.contains("a | &lt;floor&gt;") && !html.contains("<floor>"));
    assert!(
        html.contains("<strong>stub-a passes</strong>")
            && markdown.contains("Gate passed: stub-a, stub-b keep every rule.")
    );
    let junit = text(ReportFormat::Junit).await;
    assert_eq!(junit.matches("<testcase ").count(), 4, "{junit}");
    assert!(
        junit.contains("tests=\"4\" failures=\"0\"") && !junit.contains("<skipped"),
        "{junit}"
    );
}

#[tokio::test]
async fn a_broken_rule_fails_the_gate_and_its_test_case() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let mut asked = spec(suite(&harness, 6, ""), &["stub-a"]);
    asked.gate = Some(Gate {
        rules: vec![
            limit(Limit::MinScore(99.9)),
            GateRule {
                quantity: "length".into(),
                ..limit(Limit::MaxDrop(199.0))
            },
        ],
        ..Gate::default()
    });
    let (run, json) = gated(&mut client, asked.clone()).await;
    assert_eq!((run.verdict(), run.blocked), (Verdict::Fail, true));
    assert_eq!(run.spec.unwrap().gate.unwrap().rules.len(), 2);
    assert_eq!(json["gate"]["encoders"][0]["rules"][0]["verdict"], "fail");
    assert_eq!(json["gate"]["encoders"][0]["rules"][1]["verdict"], "pass");
    let junit = String::from_utf8(report(&mut client, &run.id, ReportFormat::Junit).await).unwrap();
    assert!(
        junit.contains("tests=\"2\" failures=\"1\"") && junit.contains("(limit 99.9)"),
        "{junit}"
    );
}

#[tokio::test]
async fn a_rule_that_its_data_sets_can_never_decide_is_refused_before_anything_is_made() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let fault = create(
        &mut client,
        spec(
            suite(&harness, 2, "[[gate.rule]]\nmax_drop = 50\nbasis = \"signed-rank\"\n"),
            &["stub-a"],
        ),
    )
    .await
    .unwrap_err();
    assert_eq!(refusal(&fault), "INVALID_ARGUMENT BROKEN_GATE spec.suite");
    let told = format!("{fault:?}");
    for part in [
        "can never be decided",
        "there are 2 data sets",
        "at least 5",
        "basis",
        "gate.rule[0]",
        "many.toml:4",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(harness.transform.asked.load(Ordering::SeqCst), 0);
    // The same rule on points is accepted.
    let rule = "[[gate.rule]]\nmax_drop = 190\nbasis = \"point\"\n";
    let (run, _) = gated(&mut client, spec(suite(&harness, 2, rule), &["stub-a"])).await;
    assert_eq!((run.verdict(), run.blocked), (Verdict::Pass, false));
    assert!(harness.transform.asked.load(Ordering::SeqCst) > 0);
}

#[tokio::test]
async fn what_the_data_leave_undecided_blocks_unless_told_to_warn() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let (_, json) = gated(
        &mut client,
        spec(
            suite(&harness, 6, "[[gate.rule]]\nmax_drop = 190\nbasis = \"signed-rank\"\n"),
            &["stub-a"],
        ),
    )
    .await;
    let estimate = json["gate"]["encoders"][0]["rules"][0]["estimate"].as_f64().unwrap();
    // The limit equals the estimate: the bounds are on either side of it.
    let close = format!(
        "[[gate.rule]]\nmax_drop = {}\nbasis = \"signed-rank\"\n",
        estimate.abs()
    );
    let mut asked = spec(suite(&harness, 6, &close), &["stub-a"]);
    let (run, json) = gated(&mut client, asked.clone()).await;
    assert_eq!(
        (run.verdict(), run.blocked),
        (Verdict::Undecided, true),
        "{}",
        json["gate"]
    );
    assert_eq!(run.undecided(), GateUndecided::Block);
    let junit = String::from_utf8(report(&mut client, &run.id, ReportFormat::Junit).await).unwrap();
    assert!(junit.contains("failures=\"1\""), "{junit}");
    for (undecided, blocked, part) in [
        (GateUndecided::Warn, false, "<skipped"),
        (GateUndecided::Fail, true, "failures=\"1\""),
    ] {
        asked.gate = Some(Gate {
            undecided: undecided.into(),
            ..Gate::default()
        });
        let (run, _) = gated(&mut client, asked.clone()).await;
        assert_eq!((run.verdict(), run.blocked), (Verdict::Undecided, blocked));
        assert_eq!(run.undecided(), undecided);
        let junit = String::from_utf8(report(&mut client, &run.id, ReportFormat::Junit).await).unwrap();
        assert!(junit.contains(part), "{junit}");
    }
}

#[tokio::test]
async fn a_rule_of_the_request_takes_the_place_of_the_suites() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let mut asked = spec(
        suite(
            &harness,
            2,
            "[gate]\nbasis = \"point\"\n[[gate.rule]]\nmax_drop = 0\nof = \"length\"\n",
        ),
        &["stub-a"],
    );
    asked.gate = Some(Gate {
        rules: vec![GateRule {
            quantity: "length".into(),
            ..limit(Limit::MaxDrop(199.0))
        }],
        ..Gate::default()
    });
    let (run, json) = gated(&mut client, asked).await;
    assert_eq!(run.verdict(), Verdict::Pass);
    assert_eq!(json["gate"]["rules"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&json["gate"]["rules"][0]["limit"], &json["gate"]["rules"][0]["basis"]),
        (&199.0.into(), &"point".into())
    );
}

#[tokio::test]
async fn a_suite_names_its_baseline_and_margins_judge_the_others_only() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let head = "baseline = \"stub-a\"\n[[gate.rule]]\nmargin = 199\n";
    // The gate's tables end the suite's head, so data sets follow them.
    let (run, json) = gated(&mut client, spec(suite(&harness, 6, head), &["stub-b"])).await;
    assert_eq!(run.verdict(), Verdict::Pass, "{}", json["gate"]);
    assert_eq!(json["gate"]["baseline"], "stub-a");
    assert_eq!(json["gate"]["encoders"].as_array().unwrap().len(), 1);
    let said = &json["gate"]["encoders"][0];
    assert_eq!(said["encoder"], "stub-b");
    assert!(
        (said["rules"][0]["p_value"].as_f64().unwrap() - 1.0 / 64.0).abs() < 1e-12,
        "{said}"
    );
}

#[tokio::test]
async fn rules_that_do_not_fit_are_refused_before_anything_is_generated() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    for (rules, parts) in [
        (
            "[[gate.rule]]\nmax_drop = 3\nof = \"lenght\"",
            vec!["many.toml:4", "gate.rule[0].of", "did you mean `length`"],
        ),
        (
            "[[gate.rule]]\nmax_drop = 3\nof = \"translation\"",
            vec!["many.toml:4", "it runs summarisation, paraphrase"],
        ),
        (
            "[[gate.rule]]\nmax_drop = 3\nof = \"language\"",
            vec!["many.toml:4", "on the language axis"],
        ),
        (
            "[[gate.rule]]\nmax_drop = 3\ndataset = \"set9\"",
            vec!["many.toml:4", "no data set `set9`; did you mean `set"],
        ),
        ("[[gate.rule]]\nmargin = 1", vec!["many.toml:4", "add --baseline ID"]),
        ("[gate]\nalpha = 0.7", vec!["many.toml:5", "`gate.alpha`: is 0.7"]),
        // `suite` writes its limits above the rule.
        (
            "[gate]\n[[gate.rule]]\nmax_dorp = 3",
            vec!["many.toml:10", "did you mean `max_drop`"],
        ),
    ] {
        let fault = create(&mut client, spec(suite(&harness, 2, rules), &["stub-a"]))
            .await
            .unwrap_err();
        assert_eq!(fault.code, Code::InvalidArgument, "{rules}");
        for part in parts {
            assert!(fault.message.contains(part), "{part}: {}", fault.message);
        }
    }
    let refused = |rule: GateRule| {
        let mut asked = spec(suite(&harness, 2, ""), &["stub-a"]);
        asked.gate = Some(Gate {
            rules: vec![rule],
            ..Gate::default()
        });
        let mut client = client.clone();
        async move { create(&mut client, asked).await.unwrap_err() }
    };
    let nothing = refused(GateRule::default()).await;
    assert_eq!(nothing.field.as_deref(), Some("spec.gate.rules[0].limit"));
    let typo = refused(GateRule {
        quantity: "totl".into(),
        ..limit(Limit::MaxDrop(3.0))
    });
    let typo = typo.await;
    assert_eq!(typo.field.as_deref(), Some("spec.gate.rules[0].quantity"));
    assert!(typo.message.contains("did you mean `total`"), "{}", typo.message);
    let student = refused(GateRule {
        basis: GateBasis::Student.into(),
        ..limit(Limit::Margin(1.0))
    });
    let student = student.await;
    assert_eq!(student.field.as_deref(), Some("spec.gate.rules[0].basis"), "{student}");
    assert!(student.message.contains("signed-rank"), "{student}");
    let below = refused(limit(Limit::MaxDrop(-1.0))).await;
    assert_eq!(below.field.as_deref(), Some("spec.gate.rules[0].max_drop"));
    assert_eq!(harness.transform.generated.load(Ordering::SeqCst), 0);
}

/// Sixteen data sets under three seeds with different texts, with this rule decided in rounds or at
/// once.
fn sampled(harness: &Harness, rule: GateRule, sequential: GateSequential) -> RunSpec {
    *harness.transform.sampled.lock() = true;
    let mut asked = spec(suite(harness, 16, ""), &["stub-a"]);
    asked.seeds = vec![1, 2, 3];
    asked.gate = Some(Gate {
        rules: vec![rule],
        sequential: sequential.into(),
        ..Gate::default()
    });
    asked
}

#[tokio::test]
async fn a_clear_case_stops_after_its_first_round_and_says_what_it_saved() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let clear = limit(Limit::MaxDrop(199.0));
    let (run, json) = gated(&mut client, sampled(&harness, clear.clone(), GateSequential::Pocock)).await;
    assert_eq!(run.verdict(), Verdict::Pass, "{}", json["gate"]);
    // Eight of sixteen data sets under one of three seeds. A data set has five texts of its own and
    // shares five others; two transformations: (8 x 5 + 5) x 2 of (16 x 5 + 5) x 2 x 3 texts, 8 x 3
    // of 16 x 7 scores.
    let sequential = &json["gate"]["sequential"];
    assert_eq!(
        (&sequential["taken"], sequential["rounds"].as_array().unwrap().len()),
        (&1.into(), 4)
    );
    assert_eq!(
        (&sequential["texts_asked"], &sequential["texts_planned"]),
        (&90.into(), &510.into())
    );
    assert_eq!(
        (&sequential["scores_made"], &sequential["scores_planned"]),
        (&24.into(), &112.into())
    );
    assert_eq!(harness.transform.generated.load(Ordering::SeqCst), 90);
    assert_eq!(run.counters.unwrap().texts_planned, 90);
    assert_eq!(json["suite"]["seeds"], serde_json::json!([1]));
    assert_eq!(
        (
            json["datasets"].as_array().unwrap().len(),
            &json["profile"]["n_datasets"]
        ),
        (8, &8.into())
    );
    assert_eq!(json["checks"].as_array().unwrap().len(), 16);
    let said = &json["gate"]["encoders"][0]["rules"][0];
    assert_eq!(
        (&said["units"], &said["seeds"], &said["round"]),
        (&8.into(), &1.into(), &1.into())
    );
    let note = |json: &Value| json["notes"].to_string();
    assert!(note(&json).contains("decided after 1 of 4 rounds") && note(&json).contains("8 of 16 data sets"));
    let markdown = String::from_utf8(report(&mut client, &run.id, ReportFormat::Markdown).await).unwrap();
    assert!(
        markdown.contains("82 % of the full run's texts and 79 % of its scores"),
        "{markdown}"
    );
    // The same numbers as in the full run, under the right names.
    let (_, full) = gated(&mut client, sampled(&harness, clear, GateSequential::Off)).await;
    let full = scores(&full);
    assert_eq!(full.len(), 112);
    let early = scores(&json);
    assert!(early.iter().all(|one| full.contains(one)), "{early:?}");
}

#[tokio::test]
async fn an_unclear_case_goes_through_all_rounds_and_is_the_full_run() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    // Seeds that give the same texts: an unclear case under one seed stays unclear under three.
    let with = |harness: &Harness, least: f64, sequential| {
        let floor = GateRule {
            basis: GateBasis::SignedRank.into(),
            ..limit(Limit::MinScore(least))
        };
        let asked = sampled(harness, floor, sequential);
        *harness.transform.sampled.lock() = false;
        asked
    };
    let (_, full) = gated(&mut client, with(&harness, 0.0, GateSequential::Off)).await;
    assert_eq!(full["gate"]["sequential"], Value::Null);
    let estimate = full["gate"]["encoders"][0]["rules"][0]["estimate"].as_f64().unwrap();

    let fresh = Harness::new();
    let (_service, mut client) = fresh.open().await;
    let (run, json) = gated(&mut client, with(&fresh, estimate, GateSequential::Pocock)).await;
    assert_eq!(run.verdict(), Verdict::Undecided, "{}", json["gate"]);
    let sequential = &json["gate"]["sequential"];
    assert_eq!(
        (&sequential["taken"], &sequential["texts_asked"]),
        (&4.into(), &510.into())
    );
    assert_eq!(json["gate"]["encoders"][0]["rules"][0]["round"], 4);
    assert_eq!(json["profile"], full["profile"]);
    assert_eq!((scores(&json), &json["checks"]), (scores(&full), &full["checks"]));
    let counters = run.counters.unwrap();
    assert_eq!((counters.scores_computed, counters.scores_cached), (48, 64));
    // A later round does not encode an original again.
    let seen = encoded(&fresh.encoder);
    let original = "stub-a|Number 3, A man plays a guitar on stage.";
    assert_eq!(seen.iter().filter(|text| *text == original).count(), 1);
}

#[tokio::test]
async fn what_is_broken_clearly_stops_early_too() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let floor = GateRule {
        quantity: "original".into(),
        basis: GateBasis::Student.into(),
        ..limit(Limit::MinScore(100.0))
    };
    let (run, json) = gated(&mut client, sampled(&harness, floor, GateSequential::Pocock)).await;
    assert_eq!((run.verdict(), run.blocked), (Verdict::Fail, true), "{}", json["gate"]);
    assert!(
        json["gate"]["sequential"]["taken"].as_u64().unwrap() < 4,
        "{}",
        json["gate"]
    );
}
