//! Separation through the whole command, with three encoders: a real one, the same one squeezed to
//! a point, and word vectors that are nearly one point.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use isomer_stubs::openai::{Answer, ReceivedRequest, Stub};
use isomer_tests::{
    home::Home,
    process::{check_into_report, finish, isomer},
    workspace,
};
use serde_json::{Value, json};

const MINILM: &str = "all-MiniLM-L6-v2";

/// The quick suite's hand-written rewordings: pairs of the same meaning in other words.
fn rewordings() -> Vec<(String, String)> {
    let quick = workspace().join("crates/datasets/quick");
    let mut pairs = Vec::new();
    for (name, field, least) in [("pair-classification", "label", 1.0), ("sts", "score", 4.5)] {
        let rows = fs::read_to_string(quick.join(name).join("test.jsonl")).unwrap();
        for row in rows.lines() {
            let row: Value = serde_json::from_str(row).unwrap();
            if row[field].as_f64().unwrap() >= least {
                let side = |name: &str| row[name].as_str().unwrap().to_owned();
                pairs.push((side("sentence1"), side("sentence2")));
            }
        }
    }
    assert_eq!(pairs.len(), 65);
    pairs
}

/// A generator that rewords each side of a pair as the other side, and then writes look-alikes of
/// it.
async fn generator(pairs: &[(String, String)]) -> Stub {
    let stub = Stub::start(Answer::Status(500, None)).await;
    for (one, two) in pairs {
        for (text, reworded) in [(one, two), (two, one)] {
            let (first, rest) = text.split_once(' ').unwrap();
            let list: Vec<String> = ["banana", "hammer", "river", "engine"]
                .iter()
                .enumerate()
                .map(|(i, word)| {
                    format!(
                        "{}. {first} {word} {}",
                        i + 1,
                        rest.split_once(' ').map_or("", |(_, rest)| rest)
                    )
                })
                .collect();
            stub.mark(
                &format!("\n{text}\n"),
                [Answer::Text(reworded.clone()), Answer::Text(list.join("\n"))],
            );
        }
    }
    stub
}

/// A suite of the pairs: each pair once unchanged, and once with the second side of the next pair.
fn suite(home: &Home, pairs: &[(String, String)]) -> String {
    let next = |i: usize| &pairs[(i + 1) % pairs.len()].1;
    let mut rows = String::new();
    for (i, (one, two)) in pairs.iter().enumerate() {
        let same = json!({ "sentence1": one, "sentence2": two, "label": 1 });
        let other = json!({ "sentence1": one, "sentence2": next(i), "label": 0 });
        writeln!(rows, "{same}\n{other}").unwrap();
    }
    fs::write(home.path().join("pairs.jsonl"), rows).unwrap();
    let suite = home.path().join("suite.toml");
    let text = "name = \"rewordings\"\nseeds = [1337]\ntransformations = [\"paraphrase\"]\nattempts = 1\n\n[[dataset]]\ntask = \
                \"pair-classification\"\npath = \"pairs.jsonl\"\nlanguage = \"en\"\n";
    fs::write(&suite, text).unwrap();
    suite.display().to_string()
}

/// Exit code, `report.json` and standard error of a check.
async fn check(home: &Home, suite: &str, stub: &Stub, model: &Path, more: &[&str]) -> (i32, Value, String) {
    let mut command = check_into_report(home, suite, &format!("openai:stub@{}", stub.url()));
    command.arg("--model").arg(model).args(more);
    let (code, stdout, stderr) = tokio::task::spawn_blocking(move || finish(&mut command)).await.unwrap();
    (code, serde_json::from_str(&stdout).unwrap_or_default(), stderr)
}

fn overall(report: &Value) -> (f64, u64) {
    let row = &report["separation"]["encoders"][0]["overall"];
    (row["separation"].as_f64().unwrap(), row["texts"].as_u64().unwrap())
}

/// The model with an additional layer, which scales its vectors by 10⁻⁴ and adds a vector of length
/// 1. In 32 bits all texts are nearly one point: cosines differ by less than a millionth.
fn squeezed(home: &Home) -> PathBuf {
    let (from, folder) = (home.model(MINILM), home.path().join("squeezed"));
    let dense = folder.join("3_Dense");
    fs::create_dir_all(&dense).unwrap();
    for entry in fs::read_dir(&from).unwrap() {
        let entry = entry.unwrap();
        std::os::unix::fs::symlink(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    let mut modules: Vec<Value> = serde_json::from_slice(&fs::read(from.join("modules.json")).unwrap()).unwrap();
    modules.push(json!({ "idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense" }));
    fs::remove_file(folder.join("modules.json")).unwrap();
    fs::write(folder.join("modules.json"), json!(modules).to_string()).unwrap();
    let config = json!({
        "in_features": 384, "out_features": 384, "bias": true, "activation_function": "torch.nn.modules.linear.Identity"
    });
    fs::write(dense.join("config.json"), config.to_string()).unwrap();
    let weight = (0..384 * 384).map(|i| if i % 385 == 0 { 1e-4_f32 } else { 0.0 });
    let bias = (0..384).map(|i| if i == 0 { 1.0_f32 } else { 0.0 });
    let header = json!({
        "linear.weight": { "dtype": "F32", "shape": [384, 384], "data_offsets": [0, 4 * 384 * 384] },
        "linear.bias": { "dtype": "F32", "shape": [384], "data_offsets": [4 * 384 * 384, 4 * 384 * 385] },
    })
    .to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.bytes());
    file.extend(weight.chain(bias).flat_map(f32::to_le_bytes));
    fs::write(dense.join("model.safetensors"), file).unwrap();
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_encoder_separates_hand_written_rewordings_and_squeezed_to_a_point_it_does_not() {
    let Some(home) = Home::with_models(&[MINILM]) else {
        return;
    };
    let pairs = rewordings();
    let (stub, suite) = (generator(&pairs).await, suite(&home, &pairs));
    let rule = ["--rule", "min_separation=0.6"];
    let (code, report, stderr) = check(&home, &suite, &stub, Path::new(MINILM), &rule).await;
    assert_eq!(code, 0, "{stderr}");
    let (share, texts) = overall(&report);
    assert!(texts > 100, "{texts}");
    assert!((0.75..0.95).contains(&share), "{share}");

    let (code, report, stderr) = check(&home, &suite, &stub, &squeezed(&home), &rule).await;
    assert_eq!(code, 1, "{stderr}");
    let row = &report["separation"]["encoders"][0]["overall"];
    assert_eq!((overall(&report), &row["tied"]), ((0.0, texts), &row["comparisons"]));
}

/// A text file of word vectors: the model's vectors of the words of the pairs and of words that
/// rules insert, scaled by `scale` and shifted by a common vector of length 1.
fn word_vectors(home: &Home, pairs: &[(String, String)], scale: f64) -> PathBuf {
    let text: String = pairs
        .iter()
        .flat_map(|(one, two)| [one.as_str(), " ", two, " "])
        .collect();
    let more =
        "not never do two three four five six seven eight nine ten eleven twelve always some everybody with without";
    let words: BTreeSet<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .chain(more.split(' '))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let list = home.path().join("words.txt");
    fs::write(&list, words.iter().map(|word| format!("{word}\n")).collect::<String>()).unwrap();
    let mut command = isomer(home);
    command
        .args(["embed", "--model", MINILM, "--format", "json", "--input"])
        .arg(&list);
    let (code, stdout, stderr) = finish(&mut command);
    assert_eq!(code, 0, "{stderr}");
    let lines: Vec<String> = words
        .iter()
        .zip(stdout.lines())
        .map(|(word, answer)| {
            let answer: Value = serde_json::from_str(answer).unwrap();
            let mut line = word.clone();
            for (column, value) in answer["embedding"].as_array().unwrap().iter().enumerate() {
                let common = if column == 0 { 1.0 } else { 0.0 };
                write!(line, " {:.9}", common + scale * value.as_f64().unwrap()).unwrap();
            }
            line
        })
        .collect();
    assert_eq!(lines.len(), words.len());
    let file = home.path().join(format!("glove-{scale}.txt"));
    fs::write(&file, lines.join("\n") + "\n").unwrap();
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn word_vectors_that_are_almost_one_point_fail_the_rule_and_spread_out_they_pass() {
    let Some(home) = Home::with_models(&[MINILM]) else {
        return;
    };
    let pairs = rewordings();
    let (stub, suite) = (generator(&pairs).await, suite(&home, &pairs));
    for (scale, code) in [(4.0, 0), (1e-4, 1)] {
        let model = word_vectors(&home, &pairs, scale);
        // Scores hardly change: only the rule on separation distinguishes the two.
        let rules = ["--rule", "max_drop=60,basis=point", "--rule", "min_separation=0.5"];
        let (ended, report, stderr) = check(&home, &suite, &stub, &model, &rules).await;
        assert_eq!(ended, code, "{scale}: {stderr}");
        let rules = &report["gate"]["encoders"][0]["rules"];
        assert_eq!(rules[0]["verdict"], "pass", "{rules}");
        let share = overall(&report).0;
        assert!(if code == 0 { share > 0.55 } else { share < 0.1 }, "{scale}: {share}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_generator_writes_look_alikes_and_words_are_swapped_where_they_are_asked_for() {
    let Some(home) = Home::with_models(&[MINILM]) else {
        return;
    };
    let pairs = &rewordings()[..12];
    let (stub, suite) = (generator(pairs).await, suite(&home, pairs));
    let model = word_vectors(&home, pairs, 4.0);
    let kinds = [
        "--separation-kind",
        "negation,multi_swap,distractors",
        "--temperature",
        "0",
    ];
    let (code, report, stderr) = check(&home, &suite, &stub, &model, &kinds).await;
    assert_eq!(code, 0, "{stderr}");
    let coverage = report["separation"]["coverage"].as_array().unwrap();
    let of = |kind: &str| coverage.iter().find(|row| row["kind"] == kind).unwrap();
    let (swapped, written) = (of("multi_swap"), of("distractors"));
    // Few short sentences contain two words of three kinds; this is counted, not hidden.
    assert_eq!(swapped["asked"]["asked"], 24);
    assert_eq!(swapped["asked"]["failed_checks"]["too_few"], swapped["asked"]["failed"]);
    assert_eq!(
        (&written["texts"], &written["asked"]["asked"]),
        (&24.into(), &24.into())
    );
    assert_eq!(
        written["asked"]["copies"].as_u64().unwrap() + written["asked"]["unlike"].as_u64().unwrap(),
        4 * 24
    );
    // One call per text for the rewrites at the suite's temperature, and one call per text for the
    // look-alikes at 1.
    let temperatures: Vec<f64> = stub.seen().iter().map(ReceivedRequest::temperature).collect();
    let at = |wanted: f64| temperatures.iter().filter(|t| (**t - wanted).abs() < 1e-9).count();
    assert_eq!((at(0.0), at(1.0), temperatures.len()), (24, 24, 48));
    assert_eq!(report["counters"]["generator_calls"], 48);
    let (_, again, _) = check(&home, &suite, &stub, &model, &kinds).await;
    assert_eq!(stub.calls(), 48, "everything was kept");
    assert_eq!(again["separation"], report["separation"]);
}
