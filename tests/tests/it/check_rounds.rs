//! `isomer check --sequential`, killed between two rounds.

use std::process::{Command, Stdio};

use isomer_stubs::openai::{Answer, Stub};
use isomer_tests::{
    home::Home,
    process::{finish, isomer},
};
use serde_json::Value;

const MODEL: &str = "paraphrase-MiniLM-L3-v2";
const DATASETS: usize = 16;
const PAIRS: usize = 4;

/// Sixteen data sets of four pairs each, all with different texts.
fn suite(home: &Home) -> String {
    let animals = ["cat", "dog", "horse", "sheep"];
    let mut text =
        "name = \"rounds\"\nseeds = [1337]\ntransformations = [\"paraphrase\"]\n[gate]\nmax_at_chance = 1.0\nmin_items = 1\n"
            .to_owned();
    for d in 0..DATASETS {
        let row = |i: usize| {
            let animal = animals[(i + d) % animals.len()];
            format!(
                "{{\"sentence1\": \"The old {animal} number {i} of farm {d} slept beside the fence.\", \"sentence2\": \
                 \"Near gate {i} of farm {d} a young {animal} was resting all day.\", \"score\": {}}}\n",
                (i * 7 + d) % 5
            )
        };
        std::fs::write(
            home.path().join(format!("farm{d}.jsonl")),
            (0..PAIRS).map(row).collect::<String>(),
        )
        .unwrap();
        text.push_str(&format!("\n[[dataset]]\ntask = \"sts\"\npath = \"farm{d}.jsonl\"\n"));
    }
    let suite = home.path().join("suite.toml");
    std::fs::write(&suite, text).unwrap();
    suite.display().to_string()
}

/// A check with one rule that the first look decides, and one that needs both.
fn check(home: &Home, stub: &Stub) -> Command {
    let (suite, out) = (suite(home), home.path().join("report").display().to_string());
    let generator = format!("openai:stub@{}", stub.url());
    let mut command = isomer(home);
    command.args([
        "check", "--format", "json", "--suite", &suite, "--model", MODEL, "--out", &out,
    ]);
    command.args(["--generator", &generator, "--sequential", "--rule", "max_drop=199"]);
    command.args(["--rule", "min_score=0,of=original,basis=signed-rank"]);
    command
}

async fn finished(mut command: Command) -> Value {
    let (code, stdout, stderr) = tokio::task::spawn_blocking(move || finish(&mut command)).await.unwrap();
    let report: Value = serde_json::from_str(&stdout).unwrap();
    let wanted = match report["gate"]["verdict"].as_str() {
        Some("pass") => 0,
        Some("fail") => 1,
        Some("undecided") => 4,
        other => panic!("{other:?}: {stderr}"),
    };
    assert_eq!(code, wanted, "{stderr}");
    report
}

fn scores(report: &Value) -> Vec<(String, f64)> {
    let rows = report["scores"].as_array().unwrap().iter();
    rows.map(|row| {
        (
            format!("{} {}", row["dataset"], row["seed"]),
            row["main_score"].as_f64().unwrap(),
        )
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_its_second_round_a_check_comes_to_the_same_gate_and_asks_for_no_text_twice() {
    let Some(home) = Home::with_models(&[MODEL]) else {
        return;
    };
    let Some(other) = Home::with_models(&[MODEL]) else {
        return;
    };
    let calm = Stub::start(Answer::Good).await;
    let expected = finished(check(&other, &calm)).await;
    assert_eq!(expected["gate"]["sequential"]["taken"], 2, "{}", expected["gate"]);
    let all = DATASETS * PAIRS * 2;
    assert_eq!(calm.calls(), all);

    let stub = Stub::start(Answer::Held(Box::new(Answer::Good))).await;
    // The first round has half of the data sets.
    let answered = all / 2 + 8;
    stub.script(vec![Answer::Good; answered]);
    let mut command = check(&home, &stub);
    let mut first = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    stub.wait_for_calls(answered + 1).await;
    // SIGKILL while some answers are in flight.
    first.kill().unwrap();
    first.wait().unwrap();
    let asked = stub.calls();
    assert!(
        (all / 2..all).contains(&asked),
        "killed in the second round, {asked} asked"
    );
    stub.release();

    let report = finished(check(&home, &stub)).await;
    let kept = report["counters"]["texts_cached"].as_u64().unwrap() as usize;
    assert!(kept >= all / 2, "{kept} kept of {asked} asked");
    assert_eq!(stub.calls() - asked, all - kept);
    // Originals and paraphrases of the first round's eight data sets.
    let counters = &report["counters"];
    assert_eq!(
        (&counters["scores_cached"], &counters["scores_computed"]),
        (&16.into(), &16.into())
    );
    for part in ["verdict", "rules", "encoders", "alpha"] {
        assert_eq!(report["gate"][part], expected["gate"][part], "{part}");
    }
    assert_eq!(report["gate"]["sequential"], expected["gate"]["sequential"]);
    assert_eq!(scores(&report), scores(&expected));
}
