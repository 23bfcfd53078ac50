//! Rounds over the items of one data set: a run continues until a betting test decides.

use std::sync::atomic::Ordering;

use isomer_proto::{
    eval::v1::{ReportFormat, Run, RunSpec, RunState, SuiteRef, Verdict, suite_ref},
    transform::v1::Outcome,
};
use isomer_service_kit::Fault;
use isomer_stubs::promise::refusal;
use serde_json::Value;

use crate::run_stubs::{Harness, Rewriter, create, ended, report, report_json, spec, watch};

const THINGS: [&str; 8] = [
    "books", "boats", "lamps", "chairs", "clocks", "coats", "drums", "plates",
];

/// A gate with one rule on a drop, decided in rounds over items.
fn gate(rule: &str) -> String {
    format!("[gate]\nsequential = \"betting\"\n[[gate.rule]]\n{rule}\n")
}

/// A classification by the product sold, with `rows` test rows of one text each.
fn suite(harness: &Harness, rows: usize, gate: &str) -> SuiteRef {
    let folder = harness.home.path().join("data");
    std::fs::create_dir_all(folder.join("sold")).unwrap();
    for (split, from, rows) in [("train", 0, 64), ("test", 10_000, rows)] {
        let row = |i: usize| {
            let thing = THINGS[i % 8];
            let text = format!("The shop sold {} old {thing} to the mayor.", from + i);
            serde_json::json!({ "text": text, "label": thing }).to_string()
        };
        let rows: Vec<String> = (0..rows).map(row).collect();
        std::fs::write(folder.join(format!("sold/{split}.jsonl")), rows.join("\n")).unwrap();
    }
    let text = format!(
        "name = \"bets\"\nseeds = [1337]\ntransformations = [\"paraphrase\", \"cross_translation\"]\n{gate}\n[[dataset]]\ntask = \
         \"classification\"\npath = \"sold\"\nlanguages = [\"en\"]\n"
    );
    SuiteRef {
        source: Some(suite_ref::Source::Toml(text)),
        base_dir: folder.display().to_string(),
        file_name: "bets.toml".to_owned(),
    }
}

/// The words reversed and an additional one, which `stub-keen` ignores.
fn healthy(_: &str, _: u64, text: &str) -> (String, Outcome) {
    let words: Vec<&str> = text.trim_end_matches('.').split_whitespace().rev().collect();
    (format!("indeed {}", words.join(" ")), Outcome::Ok)
}

/// Test texts whose number is a multiple of `every` have another topic.
fn turned(every: usize, (name, seed, text): (&str, u64, &str)) -> (String, Outcome) {
    let number: String = text.chars().filter(char::is_ascii_digit).collect();
    let number: usize = number.parse().unwrap_or(0);
    let (mut made, outcome) = healthy(name, seed, text);
    let at = THINGS.iter().position(|thing| made.contains(thing));
    if let Some(at) = at.filter(|_| number >= 10_000 && number.is_multiple_of(every)) {
        made = made.replace(THINGS[at], THINGS[(at + 1) % 8]);
    }
    (made, outcome)
}

fn broken(name: &str, seed: u64, text: &str) -> (String, Outcome) {
    turned(1, (name, seed, text))
}

fn sometimes(name: &str, seed: u64, text: &str) -> (String, Outcome) {
    turned(9, (name, seed, text))
}

struct FinishedRun {
    harness: Harness,
    run: Run,
    json: Value,
    markdown: String,
}

async fn checked(rows: usize, gate: &str, rewriter: Rewriter) -> FinishedRun {
    let harness = Harness::new();
    *harness.transform.rewriter.lock() = Some(rewriter);
    let (_service, mut client) = harness.open().await;
    let asked: RunSpec = spec(suite(&harness, rows, gate), &["stub-keen"]);
    let run = create(&mut client, asked).await.unwrap();
    let run = ended(&watch(&mut client, &run.id, 0).await);
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let json = report_json(&mut client, &run.id).await;
    let markdown = String::from_utf8(report(&mut client, &run.id, ReportFormat::Markdown).await).unwrap();
    FinishedRun {
        harness,
        run,
        json,
        markdown,
    }
}

async fn refused(suite: SuiteRef, harness: &Harness) -> Fault {
    let (_service, mut client) = harness.open().await;
    let fault = create(&mut client, spec(suite, &["stub-keen"])).await.unwrap_err();
    assert!(harness.transform.ids.lock().is_empty(), "nothing is generated");
    fault
}

fn said(json: &Value) -> &Value {
    &json["gate"]["encoders"][0]["rules"][0]
}

#[tokio::test]
async fn a_healthy_encoder_passes_after_a_part_of_the_items() {
    let rules = gate("max_drop = 5\n[[gate.rule]]\nmin_separation = 0.8");
    let all = checked(1000, &rules, healthy).await;
    assert_eq!(
        (all.run.verdict(), all.run.blocked),
        (Verdict::Pass, false),
        "{}",
        all.markdown
    );
    let sequential = &all.json["gate"]["sequential"];
    assert_eq!(
        (&sequential["spending"], &sequential["taken"]),
        (&"betting".into(), &2.into())
    );
    let items: Vec<u64> = sequential["rounds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|round| round["items"].as_u64().unwrap())
        .collect();
    assert_eq!(items, [100, 200, 400, 800, 1000]);
    // Two transformations of 64 train rows and 200 of 1000 test rows. Results of the first round
    // were not requested again, including those of cross_translation, which draws a language for
    // each text.
    assert_eq!(
        (&sequential["texts_asked"], &sequential["texts_planned"]),
        (&528.into(), &2128.into())
    );
    assert_eq!(all.harness.transform.generated.load(Ordering::SeqCst), 528);
    assert_eq!(all.run.counters.unwrap().texts_planned, 528);
    let rule = said(&all.json);
    assert_eq!(
        (&rule["units"], &rule["estimate"], &rule["round"]),
        (&200.into(), &0.0.into(), &2.into())
    );
    assert!(rule["high"].as_f64().unwrap() <= 5.0, "{rule}");
    assert_eq!(all.json["gate"]["rules"][0]["basis"], "betting");
    assert!(
        all.json["notes"].to_string().contains("at most 200 of 1000 items"),
        "{}",
        all.json["notes"]
    );
    assert!(
        all.markdown.contains("a sample of 200 of 1000 rows"),
        "{}",
        all.markdown
    );
    assert!(
        all.markdown.contains("75 % of the full run's texts were not needed"),
        "{}",
        all.markdown
    );
    // The reports are consistent: one score of the same number of items.
    assert_eq!(all.json["datasets"][0]["items"], 200);
}

#[tokio::test]
async fn a_broken_encoder_fails_in_the_first_round() {
    let all = checked(1000, &gate("max_drop = 5"), broken).await;
    assert_eq!(all.run.verdict(), Verdict::Fail, "{}", all.markdown);
    assert_eq!(all.json["gate"]["sequential"]["taken"], 1);
    let rule = said(&all.json);
    assert!(
        rule["low"].as_f64().unwrap() > 5.0 && rule["estimate"].as_f64().unwrap() > 50.0,
        "{rule}"
    );
}

#[tokio::test]
async fn what_is_at_the_limit_stays_undecided_with_everything_in() {
    let all = checked(240, &gate("max_drop = 10"), sometimes).await;
    assert_eq!(
        (all.run.verdict(), all.run.blocked),
        (Verdict::Undecided, true),
        "{}",
        all.markdown
    );
    let sequential = &all.json["gate"]["sequential"];
    assert_eq!(
        (&sequential["taken"], &sequential["rounds"][2]["items"]),
        (&3.into(), &240.into())
    );
    assert_eq!(sequential["texts_asked"], sequential["texts_planned"]);
    let rule = said(&all.json);
    assert!((rule["estimate"].as_f64().unwrap() - 10.0).abs() < 3.0, "{rule}");
    assert!(
        rule["units_needed"].as_u64().is_none_or(|needed| needed > 240),
        "{rule}"
    );
    // With all rows, the scores are those of a run with one look.
    let once = checked(240, "[[gate.rule]]\nmax_drop = 10\n", sometimes).await;
    assert_eq!(
        all.json["profile"]["encoders"][0]["original"],
        once.json["profile"]["encoders"][0]["original"]
    );
    assert_eq!(
        all.json["profile"]["encoders"][0]["total"]["delta"],
        once.json["profile"]["encoders"][0]["total"]["delta"]
    );
}

#[tokio::test]
async fn a_dead_generator_is_invalid_however_early() {
    let all = checked(1000, &gate("max_drop = 5"), |_, _, text| (text.to_owned(), Outcome::Ok)).await;
    assert_eq!(
        (all.run.verdict(), all.run.blocked),
        (Verdict::Invalid, true),
        "{}",
        all.markdown
    );
}

#[tokio::test]
async fn what_cannot_be_bet_on_is_refused_before_anything_is_generated() {
    let harness = Harness::new();
    let cases = [
        (90, "max_drop = 5", "a perfect encoder takes 1"),
        (1000, "worst = 5", "has no value for each item"),
        (1000, "max_drop = 5\ntexts = \"changed\"", "needs all results"),
        (1000, "max_drop = 5\nbasis = \"student\"", "has bounds of its own"),
        (1000, "max_drop = 5\nunit = \"group\"", "bets on items"),
        (1000, "max_drop = 0", "no number of items"),
    ];
    for (rows, rule, why) in cases {
        let fault = refused(suite(&harness, rows, &gate(rule)), &harness).await;
        assert!(fault.message.contains(why), "{rule}: {}", fault.message);
    }
    let two = |task: &str| {
        let mut suite = suite(&harness, 300, &gate("max_drop = 5"));
        if let Some(suite_ref::Source::Toml(text)) = &mut suite.source {
            text.push_str(&format!(
                "[[dataset]]\ntask = \"{task}\"\nbuiltin = \"quick/sts\"\nname = \"b\"\n"
            ));
        }
        suite
    };
    let several = refused(two("sts"), &harness).await;
    assert_eq!(refusal(&several), "INVALID_ARGUMENT BROKEN_GATE spec.suite");
    assert!(several.message.contains("2 data sets"), "{several}");
    let mut correlation = two("sts");
    if let Some(suite_ref::Source::Toml(text)) = &mut correlation.source {
        *text = text.replace("max_drop = 5", "max_drop = 5\ndataset = \"b\"");
    }
    let correlation = refused(correlation, &harness).await;
    assert!(
        correlation.message.contains("gate.rule[0]") && correlation.message.contains("independent items"),
        "{}",
        correlation.message
    );
}
