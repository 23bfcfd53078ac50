//! `isomer check` against a stub of an OpenAI-compatible server that counts its requests.

use std::{
    collections::HashSet,
    fs,
    process::{Command, Stdio},
    time::Duration,
};

use isomer_stubs::{
    openai::{Answer, Stub},
    wait::until,
};
use isomer_tests::{
    copy_folder,
    home::Home,
    process::{check_into_report, finish, isomer},
    workspace,
};
use serde_json::Value;

const FIRST: &str = "all-MiniLM-L6-v2";
const SECOND: &str = "paraphrase-MiniLM-L3-v2";
const PAIRS: usize = 20;

/// A suite of distinct sentences of our own, two per pair.
fn suite(home: &Home) -> String {
    let data = home.path().join("data");
    std::fs::create_dir_all(&data).unwrap();
    let animals = ["cat", "dog", "horse", "sheep", "goose"];
    let rows: String = (0..PAIRS)
        .map(|i| {
            let animal = animals[i % animals.len()];
            format!(
                "{{\"sentence1\": \"The old {animal} number {i} slept quietly beside the wooden fence.\", \
                 \"sentence2\": \"Beside the wall a young {animal} was resting near gate {i} all day.\", \"score\": {}}}\n",
                (i * 7 % 11) as f64 / 2.0
            )
        })
        .collect();
    std::fs::write(data.join("test.jsonl"), rows).unwrap();
    let suite = home.path().join("suite.toml");
    let text = "name = \"tiny\"\nseeds = [1337]\ntransformations = [\"paraphrase\"]\nattempts = 2\n\n[gate]\nmax_at_chance = 1.0\n\n\
                [[dataset]]\ntask = \"sts\"\npath = \"data\"\nname = \"tiny\"\n";
    std::fs::write(&suite, text).unwrap();
    suite.display().to_string()
}

fn check(home: &Home, suite: &str, stub: &Stub, models: &[&str]) -> Command {
    let mut command = check_into_report(home, suite, &format!("openai:stub@{}", stub.url()));
    for model in models {
        command.args(["--model", model]);
    }
    command
}

/// Runs a check to its end, off the runtime that serves the stub.
async fn finished(mut command: Command) -> (i32, Value, String) {
    let (code, stdout, stderr) = tokio::task::spawn_blocking(move || finish(&mut command)).await.unwrap();
    (code, serde_json::from_str(&stdout).unwrap_or_default(), stderr)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_encoders_share_one_generation_pass_and_a_second_run_asks_nothing() {
    let Some(home) = Home::with_models(&[FIRST, SECOND]) else {
        return;
    };
    let stub = Stub::start(Answer::Good).await;
    let suite = suite(&home);
    let (code, report, stderr) = finished(check(&home, &suite, &stub, &[FIRST, SECOND])).await;
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(stub.calls(), 2 * PAIRS);
    assert_eq!(report["counters"]["texts_generated"], 2 * PAIRS);
    assert_eq!(report["profile"]["encoders"].as_array().map(Vec::len), Some(2));
    for name in ["report.json", "report.html", "report.md", "junit.xml"] {
        assert!(
            home.path().join("report").join(name).metadata().unwrap().len() > 100,
            "{name}"
        );
    }

    let (code, report, stderr) = finished(check(&home, &suite, &stub, &[FIRST, SECOND])).await;
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(stub.calls(), 2 * PAIRS);
    assert_eq!(report["counters"]["scores_computed"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_half_way_it_goes_on_without_asking_for_a_text_twice() {
    let Some(home) = Home::with_models(&[FIRST]) else {
        return;
    };
    let stub = Stub::start(Answer::Held(Box::new(Answer::Good))).await;
    stub.script(vec![Answer::Good; PAIRS]);
    let suite = suite(&home);
    let mut first = check(&home, &suite, &stub, &[FIRST])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("half of the texts are answered", || stub.calls() > PAIRS).await;
    // SIGKILL while some answers are in flight.
    first.kill().unwrap();
    first.wait().unwrap();
    let asked_before: Vec<String> = stub.seen().iter().map(|s| s.user().to_owned()).collect();
    stub.release();

    let (code, report, stderr) = finished(check(&home, &suite, &stub, &[FIRST])).await;
    assert_eq!(code, 0, "{stderr}");
    let kept = report["counters"]["texts_cached"].as_u64().unwrap();
    let asked_again = stub.calls() - asked_before.len();
    assert!(kept > 0, "nothing was kept of {} answers", asked_before.len());
    assert_eq!(asked_again, 2 * PAIRS - usize::try_from(kept).unwrap());
    let all: HashSet<String> = stub.seen().iter().map(|s| s.user().to_owned()).collect();
    assert_eq!(all.len(), 2 * PAIRS);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_check_ends_with_130() {
    let Some(home) = Home::with_models(&[FIRST]) else {
        return;
    };
    let stub = Stub::start(Answer::Slow(Duration::from_secs(60), Box::new(Answer::Good))).await;
    let suite = suite(&home);
    let mut check = check(&home, &suite, &stub, &[FIRST])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the generator is asked", || stub.calls() > 0).await;
    let id = check.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let ended = tokio::task::spawn_blocking(move || check.wait())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(ended.code(), Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generator_that_fails_is_counted_in_the_report() {
    let Some(home) = Home::with_models(&[FIRST]) else {
        return;
    };
    let stub = Stub::start(Answer::Good).await;
    stub.script([
        Answer::Status(429, Some("0".to_owned())),
        Answer::Status(500, None),
        Answer::TruncatedJson,
        Answer::Text(String::new()),
        // The text has no reasoning tags, which would be removed: only the check can detect this
        // answer.
        Answer::Text("Let me think about how this sentence could be said in other words.".to_owned()),
    ]);
    let suite = suite(&home);
    let (code, report, stderr) = finished(check(&home, &suite, &stub, &[FIRST])).await;
    assert_eq!(code, 0, "{stderr}");
    let rows = report["checks"].as_array().unwrap();
    for check in ["empty", "reasoning_leak"] {
        let fired: u64 = rows.iter().filter_map(|r| r["retried_checks"][check].as_u64()).sum();
        assert_eq!(fired, 1, "{check}: {rows:?}");
    }
    assert_eq!(rows.iter().map(|r| r["recovered"].as_u64().unwrap()).sum::<u64>(), 2);
    // Each retry of the transport (429, 500, broken JSON) and of the two checks takes one more
    // call.
    assert_eq!(stub.calls(), 2 * PAIRS + 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gate_decides_the_exit_code() {
    let Some(home) = Home::with_models(&[FIRST]) else {
        return;
    };
    let stub = Stub::start(Answer::Good).await;
    let suite = suite(&home);
    let gated = |rules: &[&str]| {
        let mut command = check(&home, &suite, &stub, &[FIRST]);
        command.args(rules);
        finished(command)
    };
    let (code, report, stderr) = gated(&["--rule", "max_drop=190,basis=point"]).await;
    assert_eq!((code, &report["gate"]["verdict"]), (0, &"pass".into()), "{stderr}");
    let (code, report, stderr) = gated(&["--rule", "min_score=99.9,of=original"]).await;
    assert_eq!((code, &report["gate"]["verdict"]), (1, &"fail".into()), "{stderr}");
    // With one data set, bounds over data sets are impossible; the error is raised before anything
    // is generated.
    for (rules, part) in [
        (
            ["--rule", "max_drop=190,basis=signed-rank"],
            "can never be decided: there is 1 data set",
        ),
        (
            ["--rule", "max_drop=190,max_unchanged=2"],
            "`max_unchanged` is 2, should be a share",
        ),
        (["--rule", "max_drop=3,of=lexcal"], "did you mean `lexical`"),
        (["--rule", "margin=1"], "add --baseline ID"),
        (["--rule", "max_dorp=3"], "did you mean `max_drop`"),
        (["--rule", "max_drop=-3"], "should be 0 to 200"),
    ] {
        let (code, _, stderr) = gated(&rules).await;
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let asked = stub.calls();
    let mut variable = check(&home, &suite, &stub, &[FIRST]);
    variable.env("ISOMER_RULES", "max_drop=190,basis=point;min_score=99.9,of=original");
    let (code, report, stderr) = finished(variable).await;
    assert_eq!(
        (code, report["gate"]["rules"].as_array().map(Vec::len)),
        (1, Some(2)),
        "{stderr}"
    );
    assert_eq!(stub.calls(), asked, "rules alone ask the generator for nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_check_came_to_is_signed_and_holds_for_that_encoder_alone() {
    let Some(home) = Home::with_models(&[FIRST, SECOND]) else {
        return;
    };
    let stub = Stub::start(Answer::Good).await;
    let suite = suite(&home);
    let keys = workspace().join("extras/attestation/tests/keys");
    let out = home.path().join("report");
    let attested = |rule: &str, key: &str| {
        let mut command = check(&home, &suite, &stub, &[FIRST]);
        command.args(["--rule", rule, "--attest"]).arg(keys.join(key));
        finished(command)
    };
    let verified = |model: &str| {
        let mut command = isomer(&home);
        command
            .args(["report", "verify"])
            .arg(out.join("attestation.dsse.json"));
        command.arg("--report").arg(out.join("report.json"));
        command.arg("--key").arg(keys.join("ecdsa.pub"));
        command.args(["--model", model]);
        finish(&mut command)
    };
    let (code, _, stderr) = attested("max_drop=190,basis=point", "ecdsa.pem").await;
    assert_eq!(code, 0, "{stderr}");
    let (code, stdout, stderr) = verified(FIRST);
    assert!(code == 0 && stdout.contains("every rule is kept"), "{stdout}{stderr}");
    let (code, _, stderr) = verified(SECOND);
    assert!(
        code == 3 && stderr.contains("does not have the weights"),
        "{code}: {stderr}"
    );
    let (code, _, stderr) = attested("min_score=99.9,of=original", "ecdsa.pem").await;
    assert_eq!(code, 1, "{stderr}");
    let (code, stdout, stderr) = verified(FIRST);
    assert!(code == 1 && stdout.contains("broken or invalid"), "{stdout}{stderr}");
    // An unusable key is reported before anything is done.
    let asked = stub.calls();
    let (code, report, stderr) = attested("max_drop=190,basis=point", "encrypted.pem").await;
    assert!(
        code == 2 && stderr.contains("encrypted") && report.is_null(),
        "{code}: {stderr}"
    );
    assert_eq!(stub.calls(), asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attestation_holds_for_no_folder_of_which_a_file_is_another() {
    let Some(home) = Home::with_models(&[FIRST]) else {
        return;
    };
    let stub = Stub::start(Answer::Good).await;
    let suite = suite(&home);
    let keys = workspace().join("extras/attestation/tests/keys");
    let (out, folder) = (home.path().join("report"), home.path().join("encoder"));
    copy_folder(&home.path().join("models").join(FIRST), &folder);
    let name = folder.to_str().unwrap();
    let mut command = check(&home, &suite, &stub, &[name]);
    command
        .args(["--rule", "max_drop=190,basis=point", "--attest"])
        .arg(keys.join("ecdsa.pem"));
    let (code, _, stderr) = finished(command).await;
    assert_eq!(code, 0, "{stderr}");
    let verified = || {
        let mut command = isomer(&home);
        command
            .args(["report", "verify"])
            .arg(out.join("attestation.dsse.json"));
        command.arg("--report").arg(out.join("report.json"));
        command.arg("--key").arg(keys.join("ecdsa.pub"));
        command.args(["--model", name]);
        finish(&mut command)
    };
    let (code, stdout, stderr) = verified();
    assert!(code == 0 && !stderr.contains("weights alone"), "{stdout}{stderr}");
    // One byte of each file, with unchanged size and time.
    for (file, words) in [
        ("model.safetensors", "does not have the weights"),
        ("tokenizer.json", "tokenizer.json has other contents"),
        ("config.json", "config.json has other contents"),
        ("1_Pooling/config.json", "1_Pooling/config.json has other contents"),
    ] {
        let path = folder.join(file);
        let (bytes, time) = (
            fs::read(&path).unwrap(),
            fs::metadata(&path).unwrap().modified().unwrap(),
        );
        // In JSON a digit changes, so that the file stays valid.
        let mut other = bytes.clone();
        let is_changed = |byte: &u8| file.ends_with("safetensors") || (b'1'..b'9').contains(byte);
        let place = other.iter().rposition(is_changed).unwrap();
        other[place] = other[place].wrapping_add(1);
        fs::write(&path, other).unwrap();
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(time)
            .unwrap();
        let (code, stdout, stderr) = verified();
        assert!(code == 3 && stderr.contains(words), "{file}: {code}: {stdout}{stderr}");
        fs::write(&path, bytes).unwrap();
    }
    fs::write(folder.join("added_tokens.json"), "{}").unwrap();
    let (code, _, stderr) = verified();
    assert!(
        code == 3 && stderr.contains("added_tokens.json was added"),
        "{code}: {stderr}"
    );
    fs::remove_file(folder.join("added_tokens.json")).unwrap();
    assert_eq!(verified().0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generator_that_gives_every_text_back_lets_no_encoder_pass() {
    let Some(home) = Home::with_models(&[FIRST]) else {
        return;
    };
    let suite = suite(&home);
    let gated = |stub: &Stub| {
        let mut command = check(&home, &suite, stub, &[FIRST]);
        command.args(["--rule", "max_drop=190,basis=point", "--undecided", "warn"]);
        finished(command)
    };
    // With the same limit and texts, the generator determines whether the texts can be judged.
    let dead = Stub::start(Answer::Echo).await;
    let (code, report, stderr) = gated(&dead).await;
    assert_eq!((code, &report["gate"]["verdict"]), (4, &"invalid".into()), "{stderr}");
    assert!(stderr.contains("the gate is invalid"), "{stderr}");
    let headline = report["headline"][0].as_str().unwrap();
    assert!(
        headline.contains("100 % of the texts stayed as they were") && !headline.contains("holds"),
        "{headline}"
    );
    assert!(dead.calls() >= 2 * PAIRS);

    let good = Stub::start(Answer::Good).await;
    let (code, report, stderr) = gated(&good).await;
    assert_eq!((code, &report["gate"]["verdict"]), (0, &"pass".into()), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_judge_rates_a_sample_and_one_that_is_not_there_stops_the_check_before_it_begins() {
    let Some(home) = Home::with_models(&[FIRST]) else {
        return;
    };
    let stub = Stub::start(Answer::Good).await;
    let suite = suite(&home);
    let judged = |spec: &str, sample: &str| {
        let mut command = check(&home, &suite, &stub, &[FIRST]);
        command.args(["--judge", spec, "--judge-sample", sample]);
        finished(command)
    };
    let (code, _, stderr) = judged("openai:judge@http://127.0.0.1:1/v1", "12").await;
    assert_eq!(code, 3, "{stderr}");
    for part in ["--judge", "cannot be reached", "correct the URL"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let (code, _, stderr) = judged("local:qwen2.5-coder-1.5b-instrct", "12").await;
    assert_eq!(code, 2, "{stderr}");
    assert!(
        stderr.contains("--judge: ") && stderr.contains("did you mean qwen2.5-coder-1.5b-instruct"),
        "{stderr}"
    );
    assert_eq!(stub.calls(), 0);

    let judge = Stub::start(Answer::Text("4".into())).await;
    // Geese are rated differently, horses not at all.
    judge.mark("goose", [Answer::Text("2.5".into())]);
    judge.mark("horse", [Answer::Text("It depends.".into())]);
    let spec = format!("openai:judge@{}", judge.url());
    let (code, report, stderr) = judged(&spec, "30").await;
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(stub.calls(), 2 * PAIRS, "the judge is another server");
    let own = &report["judge"];
    assert_eq!((&own["id"], &own["sample"]), (&spec.as_str().into(), &30.into()));
    let rated = &own["ratings"][0];
    let (texts, unreadable) = (rated["texts"].as_u64().unwrap(), rated["unreadable"].as_u64().unwrap());
    assert_eq!((texts + unreadable, &rated["drawn"]), (30, &30.into()), "{rated}");
    assert!(unreadable > 0, "{rated}");
    let moved = &own["drift"][0];
    assert_eq!((&moved["encoder"], &moved["texts"]), (&FIRST.into(), &texts.into()));
    let [low, rho, high] = ["low", "spearman", "high"].map(|key| moved[key].as_f64().unwrap());
    assert!(low <= rho && rho <= high && high - low < 2.0, "{moved}");
    // Two attempts for each horse, one for each of the others, the trial, and the pairs with a
    // known rating. This judge rates all of those 4.
    let known = 48;
    assert_eq!(report["counters"]["judge"]["calls"], 30 + unreadable + 1 + known);
    assert_eq!(judge.calls() as u64, 30 + unreadable + 1 + known);
    assert!(
        own["inseparable"]
            .as_str()
            .unwrap()
            .contains("refused 0 of 16 unrelated texts"),
        "{own}"
    );

    let (code, again, stderr) = judged(&spec, "30").await;
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(
        (&again["judge"], judge.calls() as u64),
        (own, 30 + unreadable + 2 + known)
    );
    assert_eq!(again["counters"]["judge"]["ratings_made"], 0);
}
