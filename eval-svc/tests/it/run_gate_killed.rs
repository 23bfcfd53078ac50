//! A run in rounds whose process is killed in the middle of a round: it resumes with the same
//! result.

use std::{collections::BTreeMap, path::Path, sync::atomic::Ordering, time::Duration};

use isomer_proto::eval::v1::{GetRunRequest, Run, RunState};
use isomer_stubs::wait::until;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::{
    run_ledger::asked,
    run_stubs::{self, Harness, create, many::scores, repeats, report_json, run_to_end},
};

/// Sixteen data sets with five texts of their own and five shared, two transformations, three
/// seeds: rounds of 8 data sets under one seed, 16 under one, two and three.
const AFTER_TWO_ROUNDS: u64 = (16 * 5 + 5) * 2;

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all().build().unwrap()
}

/// An uninterrupted run in its own harness.
async fn whole(floor: f64) -> (Harness, Run, Value) {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let run = run_to_end(&mut client, asked(&harness, floor)).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let json = report_json(&mut client, &run.id).await;
    (harness, run, json)
}

/// Number of scores stored below a folder; drift is stored with them.
fn kept(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        // Scores are in folders named by two letters, each with its items; drift and separation
        // have separate folders.
        .filter(|path| path.is_file() || path.file_name().is_some_and(|name| name.len() == 2))
        .filter(|path| !path.to_string_lossy().ends_with(".items.json"))
        .map(|path| if path.is_dir() { kept(&path) } else { 1 })
        .sum()
}

/// Transformed texts that were encoded more than once, and how often.
fn again(harness: &Harness) -> BTreeMap<String, usize> {
    let originals: Vec<&str> = run_stubs::STS.split('"').collect();
    let mut again = repeats(&harness.encoder);
    again.retain(|text, _| {
        let text = text.trim_start_matches("stub-a|");
        let own = text
            .split_once(", ")
            .filter(|(number, _)| number.starts_with("Number "));
        let own = own.map_or(text, |(_, text)| text);
        // The stub paraphrases by prepending a word, and summarises by dropping words at the end.
        // Any other text is an original or a changed copy of one.
        let summary = |original: &&str| original.starts_with(own) && **original != *own;
        text.starts_with("rather ") || originals.iter().any(summary)
    });
    again
}

#[test]
fn a_sequential_run_killed_in_a_round_comes_to_the_same_verdict_with_nothing_done_twice() {
    // The floor equals the result of half of the data sets under one seed, which is too close for
    // any look but the last.
    let (floor, (fresh, unbroken, expected)) = runtime().block_on(async {
        let (_house, _, json) = whole(0.0).await;
        let floor = json["gate"]["encoders"][0]["rules"][1]["estimate"].as_f64().unwrap();
        (floor, whole(floor).await)
    });
    assert_eq!(expected["gate"]["sequential"]["taken"], 4, "{}", expected["gate"]);

    let harness = Harness::new();
    harness.transform.quota.stop_after(AFTER_TWO_ROUNDS + 20);
    let first = runtime();
    let id = first.block_on(async {
        let (_service, mut client) = harness.open().await;
        let run = create(&mut client, asked(&harness, floor)).await.unwrap();
        until("the third round has begun", || {
            harness.transform.generated.load(Ordering::SeqCst) == AFTER_TWO_ROUNDS + 20
        })
        .await;
        run.id
    });
    // As with SIGKILL, no task can clean up.
    first.shutdown_timeout(Duration::from_millis(50));
    let made = harness.transform.generated.load(Ordering::SeqCst);
    assert_eq!(made, AFTER_TWO_ROUNDS + 20, "killed in the third round");
    let scored = kept(&harness.home.path().join("cache/eval"));
    assert_eq!(scored, 16 * 3, "what two rounds scored is kept");
    harness.transform.quota.lift();

    runtime().block_on(async {
        let (_service, mut client) = harness.open().await;
        let found = client.get_run(GetRunRequest { id }).await.unwrap().into_inner();
        assert_eq!(found.run.unwrap().state(), RunState::Failed);
        let run = run_to_end(&mut client, asked(&harness, floor)).await;
        assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
        let json = report_json(&mut client, &run.id).await;

        // Compares verdicts, bounds, the look and the alpha of each decision, and each round's
        // allowance.
        assert_eq!(json["gate"], expected["gate"]);
        let rules = json["gate"]["encoders"][0]["rules"].as_array().unwrap();
        assert_eq!((&rules[0]["verdict"], &rules[0]["round"]), (&"pass".into(), &1.into()));
        assert_eq!((&rules[1]["verdict"], &rules[1]["round"]), (&"fail".into(), &4.into()));
        assert_eq!((run.verdict(), run.blocked), (unbroken.verdict(), unbroken.blocked));
        assert_eq!(scores(&json), scores(&expected));
        for part in ["profile", "checks", "drift"] {
            assert_eq!(json[part], expected[part], "{part}");
        }

        let (counters, whole) = (run.counters.unwrap(), unbroken.counters.unwrap());
        let generated = harness.transform.generated.load(Ordering::SeqCst);
        assert_eq!(generated, fresh.transform.generated.load(Ordering::SeqCst));
        assert_eq!(counters.texts_generated, generated - made, "no text is made twice");
        assert_eq!(
            counters.scores_computed,
            whole.scores_computed - scored,
            "no score is computed twice"
        );
        // Vectors live as long as a process: those of the originals and of their changed copies are
        // needed again to measure later drift. Transformed texts are encoded as often as in the
        // uninterrupted run, where a round may encounter a text that an earlier round had in
        // another data set.
        assert_eq!(again(&harness), again(&fresh));
    });
}
