//! Rules that compare an encoder with the baseline item by item: negative flips, and overlap of
//! result lists.

use isomer_eval::report::{
    diff::{Diff, DiffOptions, Side, diff},
    read_items,
};
use isomer_proto::eval::v1::{
    Gate, GateRule, GateUnit, ReportFormat, RunSpec, RunState, SuiteRef, Verdict, gate_rule::Limit, suite_ref,
};
use isomer_stubs::promise::refusal;
use serde_json::{Value, json};

use crate::run_stubs::{
    self, Harness, create,
    encoder::{DIMENSIONS, vector},
    report, report_json, run_to_end, spec,
};

/// The baseline, an equal encoder, and one that ignores the words shared by queries and documents.
const OLD: &str = "stub-old";
const SAME: &str = "stub-same";
const WORSE: &str = "stub-worse";

fn vectors(encoder: &str, text: &str) -> [f32; DIMENSIONS] {
    match encoder {
        WORSE => {
            let words: Vec<&str> = text.split(' ').filter(|word| !word.starts_with("house")).collect();
            vector("stub-keen", &words.join(" "))
        }
        _ => vector("stub-keen", text),
    }
}

fn harness() -> Harness {
    let harness = Harness::new();
    harness.manner().vectors = Some(vectors);
    harness
}

/// This many searches, each for a document with its own number, and graded pairs.
fn suite(harness: &Harness, queries: usize, graded: bool, rules: &str) -> SuiteRef {
    let folder = harness.home.path().join("data");
    let data = folder.join("find");
    std::fs::create_dir_all(data.join("qrels")).unwrap();
    let write = |name: &str, rows: Vec<String>| std::fs::write(data.join(name), rows.join("\n")).unwrap();
    let numbers = 0..queries.max(30);
    let text = |n: usize| format!("the name{n} of house{n} lies here");
    write(
        "corpus.jsonl",
        numbers
            .map(|n| json!({"_id": format!("d{n}"), "title": "", "text": text(n)}).to_string())
            .collect(),
    );
    write(
        "queries.jsonl",
        (0..queries)
            .map(|n| json!({"_id": format!("q{n}"), "text": format!("who knows house{n} here")}).to_string())
            .collect(),
    );
    let qrels = (0..queries).map(|n| format!("q{n}\td{n}\t1"));
    write(
        "qrels/test.tsv",
        std::iter::once("query-id\tcorpus-id\tscore".to_owned())
            .chain(qrels)
            .collect(),
    );
    std::fs::write(folder.join("graded.jsonl"), run_stubs::STS).unwrap();
    let graded = match graded {
        true => "[[dataset]]\ntask = \"sts\"\nname = \"graded\"\npath = \"graded.jsonl\"\n",
        false => "",
    };
    let text = format!(
        "name = \"paired\"\nseeds = [1, 2]\ntransformations = [\"expansion\"]\n{rules}\n\
         [[dataset]]\ntask = \"retrieval\"\nname = \"find\"\npath = \"find\"\n{graded}"
    );
    SuiteRef {
        source: Some(suite_ref::Source::Toml(text)),
        base_dir: folder.display().to_string(),
        file_name: "paired.toml".to_owned(),
    }
}

fn against(suite: SuiteRef, encoder: &str) -> RunSpec {
    let mut asked = spec(suite, &[encoder, OLD]);
    asked.baseline_encoder_id = OLD.to_owned();
    asked
}

const RULES: &str = "[gate]\nmax_shared = 1.0\nmax_near_copies = 1.0\nmax_same_rewrites = 1.0\nmax_guarded = 1.0\n\
    [[gate.rule]]\nmax_negative_flips = 5\ntask = \"retrieval\"\n\
    [[gate.rule]]\nmin_overlap = 80\ntask = \"retrieval\"\nof = \"original\"\n";

/// The verdict of a run, its rules' results on the encoder, and the comparison with the baseline by
/// `isomer diff`.
async fn verdict(harness: &Harness, queries: usize, encoder: &str) -> (Verdict, bool, Vec<Value>, Diff) {
    let (_service, mut client) = harness.open().await;
    let run = run_to_end(&mut client, against(suite(harness, queries, true, RULES), encoder)).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let json = report_json(&mut client, &run.id).await;
    assert_eq!(json["gate"]["baseline"], OLD);
    let said = json["gate"]["encoders"].as_array().unwrap();
    assert_eq!(
        (said.len(), &said[0]["encoder"]),
        (1, &encoder.into()),
        "the baseline is not judged"
    );
    let items = report(&mut client, &run.id, ReportFormat::Items).await;
    let (whole, items) = (
        serde_json::from_value(json.clone()).unwrap(),
        read_items(&items).unwrap(),
    );
    let side = |encoder| Side {
        report: &whole,
        items: &items,
        encoder,
    };
    let found = diff(side(OLD), side(encoder), DiffOptions::default()).unwrap();
    let rules = said[0]["rules"].as_array().unwrap().clone();
    (run.verdict(), run.blocked, rules, found)
}

#[tokio::test]
async fn an_equal_encoder_passes_and_a_worse_one_fails() {
    let harness = harness();
    let (passed, blocked, rules, _) = verdict(&harness, 200, SAME).await;
    assert_eq!((passed, blocked), (Verdict::Pass, false), "{rules:?}");
    assert_eq!(
        (&rules[0]["estimate"], &rules[1]["estimate"]),
        (&0.0.into(), &100.0.into())
    );
    assert_eq!(rules[0]["over"], "item");
    assert_eq!(rules[0]["units"], 200);
    // The bound for no flip among 200 queries: 100 (1 - 0.05^(1/201)), or slightly above.
    let high = rules[0]["high"].as_f64().unwrap();
    assert!(high > 0.5 && high < 5.0, "{high}");

    let (failed, blocked, rules, found) = verdict(&harness, 200, WORSE).await;
    assert_eq!((failed, blocked), (Verdict::Fail, true), "{rules:?}");
    for rule in &rules {
        assert_eq!(rule["verdict"], "fail", "{rule}");
    }
    // Rules and `isomer diff` count the same items.
    let flips = found.rows[1].flips.as_ref().unwrap();
    let overlap = found.rows[0].lists.as_ref().unwrap().overlap.value;
    let estimate = |rule: usize| rules[rule]["estimate"].as_f64().unwrap();
    assert_eq!(flips.decisions, 400);
    assert!(
        (estimate(0) - 100.0 * flips.negative_rate()).abs() < 1e-9,
        "{} {flips:?}",
        rules[0]
    );
    assert!((estimate(1) - overlap).abs() < 1e-9, "{} {overlap}", rules[1]);
    assert!(estimate(0) > 5.0 && estimate(1) < 80.0);
}

#[tokio::test]
async fn too_few_items_leave_an_equal_encoder_undecided_and_that_blocks() {
    let (said, blocked, rules, _) = verdict(&harness(), 20, SAME).await;
    assert_eq!((said, blocked), (Verdict::Undecided, true));
    assert_eq!(rules[0]["verdict"], "undecided");
    assert!(rules[0]["units_needed"].as_u64().unwrap() > 20, "{}", rules[0]);
}

#[tokio::test]
async fn a_rule_is_refused_where_it_has_no_meaning() {
    let harness = harness();
    let (_service, mut client) = harness.open().await;
    let rule = |limit: Limit| GateRule {
        limit: Some(limit),
        task_type: "retrieval".to_owned(),
        ..GateRule::default()
    };
    let flips = || rule(Limit::MaxNegativeFlips(5.0));
    let of_all = |limit: Limit| GateRule {
        task_type: String::new(),
        ..rule(limit)
    };
    let gate = |rule: GateRule| {
        Some(Gate {
            rules: vec![rule],
            ..Gate::default()
        })
    };
    let cases = [
        (of_all(Limit::MaxNegativeFlips(5.0)), "there is no flip of graded (sts)"),
        (
            of_all(Limit::MinOverlap(80.0)),
            "there are no result lists of graded (sts)",
        ),
        (
            GateRule {
                task_type: "sts".to_owned(),
                ..flips()
            },
            "there is no flip of sts",
        ),
        (rule(Limit::MaxNegativeFlips(101.0)), "should be 0 to 100"),
        (
            GateRule {
                basis: isomer_proto::eval::v1::GateBasis::Point.into(),
                ..flips()
            },
            "has bounds over items: leave `basis` out",
        ),
        (
            GateRule {
                unit: GateUnit::Group.into(),
                ..flips()
            },
            "is about items: leave `unit` out",
        ),
        (
            GateRule {
                texts: isomer_proto::eval::v1::GateTexts::Changed.into(),
                ..rule(Limit::MinOverlap(80.0))
            },
            "leave `texts` out",
        ),
    ];
    for (rule, told) in cases {
        let mut asked = against(suite(&harness, 30, true, ""), SAME);
        asked.gate = gate(rule);
        let fault = create(&mut client, asked).await.unwrap_err();
        assert!(fault.message.contains(told), "{told} in {}", fault.message);
    }
    let mut alone = spec(suite(&harness, 30, false, ""), &[SAME]);
    alone.gate = gate(flips());
    let fault = create(&mut client, alone).await.unwrap_err();
    assert_eq!(
        refusal(&fault),
        "INVALID_ARGUMENT BROKEN_GATE spec.gate.rules[0].max_negative_flips"
    );
    assert!(fault.message.contains("--baseline"), "{fault}");
    for sequential in ["pocock", "betting"] {
        let rules = format!("[gate]\nsequential = \"{sequential}\"\n[[gate.rule]]\nmax_negative_flips = 5\n");
        let fault = create(&mut client, against(suite(&harness, 30, false, &rules), SAME))
            .await
            .unwrap_err();
        assert!(fault.message.contains("sequential"), "{}", fault.message);
    }
    // The same request without the refused part is accepted.
    let mut asked = against(suite(&harness, 30, true, ""), SAME);
    asked.gate = gate(flips());
    create(&mut client, asked).await.unwrap();
}
