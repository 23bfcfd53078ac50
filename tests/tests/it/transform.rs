//! `isomer transform` from the shell, against a stub of an OpenAI-compatible server.

use std::{io::Write, process::Command};

use isomer_stubs::openai::{Answer, Stub, numbers};
use isomer_tests::{
    home::Home,
    process::{finish, isomer},
};
use serde_json::Value;

const TEXTS: &str = "A man is playing the guitar on a busy street in town.\n\
                     The committee postponed its decision because two members were ill.\n\
                     How many people live in the capital of the country?\n";

const PAIRS: &str = r#"{"sentence1": "Yesterday Maria Lopez quickly sold an old boat to Peter Brown, and he slowly repaired the new engine.", "sentence2": "Maria Lopez quickly sold Peter Brown an old boat yesterday, and he slowly repaired the new engine.", "label": 1}
{"sentence1": "Rain fell.", "sentence2": "It rained.", "label": 1}
{"sentence1": "The shop opens at nine.", "sentence2": "The shop closes at nine.", "label": 0}
"#;

fn write(home: &Home, name: &str, content: &str) -> String {
    let path = home.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    path.display().to_string()
}

/// Exit code, lines of stdout, and stderr of `isomer transform …`.
async fn transform(home: &Home, arguments: &[&str]) -> (i32, Vec<Value>, String) {
    let mut command: Command = isomer(home);
    command.arg("transform").args(arguments);
    let (code, stdout, stderr) = tokio::task::spawn_blocking(move || finish(&mut command)).await.unwrap();
    let lines = stdout.lines().filter_map(|line| serde_json::from_str(line).ok());
    (code, lines.collect(), stderr)
}

fn paraphrase<'a>(input: &'a str, generator: &'a str) -> Vec<&'a str> {
    vec![
        "--transformation",
        "paraphrase",
        "--input",
        input,
        "--generator",
        generator,
    ]
}

fn generator(stub: &Stub) -> String {
    format!("openai:writer@{}", stub.url())
}

#[tokio::test]
async fn prompts_of_a_folder_replace_the_built_in_ones_and_a_bad_one_ends_the_start() {
    let (home, stub) = (Home::empty(), Stub::start(Answer::Good).await);
    let (input, generator) = (write(&home, "texts.txt", TEXTS), generator(&stub));
    let prompt = "+++\nid = \"paraphrase\"\nversion = \"mine\"\n+++\n[system]\nAnders sagen, in {language}.\n[user]\n<text>\n{text}\n</text>\n";
    let file = write(&home, "prompts/paraphrase.txt", prompt);
    let folder = home.path().join("prompts").display().to_string();
    let mut arguments = paraphrase(&input, &generator);
    arguments.extend(["--prompts", &folder]);
    let (code, lines, stderr) = transform(&home, &arguments).await;
    assert_eq!((code, lines.len()), (0, 3), "{stderr}");
    assert_eq!(lines[0]["provenance"]["prompt"], "paraphrase@mine");
    assert_eq!(stub.seen()[0].messages()[0], ("system", "Anders sagen, in English."));

    std::fs::write(&file, prompt.replace("{text}", "the text")).unwrap();
    let calls = stub.calls();
    let (code, lines, stderr) = transform(&home, &arguments).await;
    assert_eq!((code, lines.len(), stub.calls()), (3, 0, calls), "{stderr}");
    for word in [&file, "{text}", "correct it, or leave it out"] {
        assert!(stderr.contains(word), "{word} is not in {stderr}");
    }
    arguments.extend(["--server", "localhost:1"]);
    let (code, _, stderr) = transform(&home, &arguments).await;
    assert!(code == 2 && stderr.contains("--prompts"), "{stderr}");
}

#[tokio::test]
async fn a_generator_that_fails_some_texts_is_told_and_one_that_fails_all_ends_the_command() {
    let (home, stub) = (Home::empty(), Stub::start(Answer::Good).await);
    let (input, generator) = (write(&home, "texts.txt", TEXTS), generator(&stub));
    stub.mark("committee", [Answer::Status(400, None)]);
    let (code, lines, stderr) = transform(&home, &paraphrase(&input, &generator)).await;
    assert_eq!((code, lines.len()), (0, 3), "{stderr}");
    assert_eq!(lines[1]["outcome"], "kept_original");
    assert!(stderr.contains("2 ok, 0 recovered, 1 kept original"), "{stderr}");
    assert!(
        stderr.contains("1 of them: the server answered 400: stub says 400"),
        "{stderr}"
    );

    let stub = Stub::start(Answer::Status(400, None)).await;
    let broken = self::generator(&stub);
    let (code, lines, stderr) = transform(&home, &paraphrase(&input, &broken)).await;
    assert_eq!((code, lines.len()), (3, 3), "{stderr}");
    assert!(
        stderr.contains("error: none of the 3 texts could be transformed: the server answered 400"),
        "{stderr}"
    );
}

#[tokio::test]
async fn a_spent_budget_ends_the_run_cleanly_and_a_larger_one_goes_on_from_there() {
    let (home, stub) = (Home::empty(), Stub::start(Answer::Good).await);
    let input = write(&home, "texts.txt", TEXTS);
    let config = |requests: u32| {
        let text = format!(
            "[transform.generators.big]\nkind = \"openai\"\nmodel = \"writer\"\nurl = \"{}\"\nconcurrency = 1\n\
             [transform.generators.big.budget]\nrequests = {requests}\n",
            stub.url()
        );
        write(&home, "isomer.toml", &text)
    };
    let file = config(2);
    let mut arguments = paraphrase(&input, "big");
    arguments.extend(["--config", &file]);
    let (code, lines, stderr) = transform(&home, &arguments).await;
    assert_eq!((code, stub.calls(), lines.len()), (0, 2, 3), "{stderr}");
    let outcomes: Vec<&str> = lines.iter().map(|line| line["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["ok", "ok", "kept_original"]);
    assert!(stderr.contains("budget.requests"), "{stderr}");
    config(3);
    let (code, _, stderr) = transform(&home, &arguments).await;
    assert_eq!((code, stub.calls()), (0, 3), "{stderr}");
    assert!(stderr.contains("3 ok") && stderr.contains("2 from cache"), "{stderr}");
}

#[tokio::test]
async fn the_cache_goes_from_home_to_home_in_a_file_and_nothing_is_generated_twice() {
    let (home, stub) = (Home::empty(), Stub::start(Answer::Good).await);
    let (input, generator) = (write(&home, "texts.txt", TEXTS), generator(&stub));
    let (code, first, stderr) = transform(&home, &paraphrase(&input, &generator)).await;
    assert_eq!((code, stub.calls()), (0, 3), "{stderr}");
    for name in ["shared.jsonl", "shared.parquet"] {
        let file = home.path().join(name).display().to_string();
        let (code, _, stderr) = transform(&home, &["cache", "export", "--output", &file]).await;
        assert_eq!(code, 0, "{stderr}");
        let other = Home::empty();
        for (added, known) in [(3, 0), (0, 3)] {
            let import = ["cache", "import", "--input", &file, "--format", "json"];
            let (code, lines, stderr) = transform(&other, &import).await;
            assert_eq!(code, 0, "{stderr}");
            assert_eq!((&lines[0]["added"], &lines[0]["known"]), (&added.into(), &known.into()));
        }
        let (code, again, stderr) = transform(&other, &paraphrase(&input, &generator)).await;
        assert_eq!((code, stub.calls()), (0, 3), "{stderr}");
        let texts = |lines: &[Value]| lines.iter().map(|line| line["text"].clone()).collect::<Vec<_>>();
        assert_eq!(texts(&again), texts(&first), "{name}");
    }
}

#[tokio::test]
async fn pairs_become_groups_for_graded_ranking_and_what_is_left_out_is_counted() {
    let (home, stub) = (Home::empty(), Stub::start(Answer::Continue).await);
    let (input, generator) = (write(&home, "pairs.jsonl", PAIRS), generator(&stub));
    let swap = [
        "--transformation",
        "multi_swap",
        "--groups",
        "--language",
        "en",
        "--input",
        &input,
    ];
    let (code, lines, stderr) = transform(&home, &swap).await;
    assert_eq!((code, lines.len()), (0, 1), "{stderr}");
    assert!(stderr.contains("1 groups written, 1 pairs left out"), "{stderr}");
    let starts = |text: &Value, with: &str| text.as_str().unwrap().starts_with(with);
    assert!(starts(&lines[0]["anchor"], "Maria Lopez quickly"), "{}", lines[0]);
    assert!(starts(&lines[0]["candidates"][0], "Yesterday"), "{}", lines[0]);
    assert_eq!(lines[0]["candidates"].as_array().unwrap().len(), 4);
    let other = [&swap[..], &["--anchor", "sentence1"]].concat();
    let (code, others, stderr) = transform(&home, &other).await;
    assert_eq!((code, others.len()), (0, 1), "{stderr}");
    assert_eq!(others[0]["anchor"], lines[0]["candidates"][0]);
    assert_eq!(others[0]["candidates"][0], lines[0]["anchor"]);
    assert_eq!(others[0]["candidates"][3], lines[0]["candidates"][3]);

    let continuation = [
        "--transformation",
        "continuation",
        "--groups",
        "--language",
        "en",
        "--stride",
        "3",
        "--cuts",
        "2",
        "--generator",
        &generator,
        "--input",
        &input,
    ];
    let (code, lines, stderr) = transform(&home, &continuation).await;
    assert_eq!((code, lines.len()), (0, 2), "{stderr}");
    let candidates: Vec<&str> = lines[1]["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|text| text.as_str().unwrap())
        .collect();
    let cut = |words: usize| format!("Rain fell, and {}", numbers()[..words].join(" "));
    assert_eq!(lines[1]["anchor"], "It rained.");
    assert_eq!(candidates, ["Rain fell.".to_owned(), cut(3), cut(6)]);
}

#[test]
fn a_configuration_from_a_pipe_holds_for_the_whole_command() {
    let (pipe, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"[transform]\ncache_max_bytes = 123456789\n").unwrap();
    drop(writer);
    let arguments = [
        "transform",
        "cache",
        "stats",
        "--format",
        "json",
        "--config",
        "/dev/stdin",
    ];
    let (code, stdout, stderr) = finish(isomer(&Home::empty()).args(arguments).stdin(pipe));
    assert_eq!(code, 0, "{stderr}");
    let stats: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(stats["max_bytes"], 123_456_789);
}

#[tokio::test]
async fn noise_takes_a_channel_and_a_dose_and_needs_no_generator() {
    let home = Home::empty();
    let input = write(&home, "texts.txt", TEXTS);
    let with = |more: &[&'static str]| {
        let all = ["--transformation", "noise", "--input", &input, "--generator", "none"];
        [&all[..], more]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let run = async |arguments: Vec<String>| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        transform(&home, &arguments).await
    };
    let (code, lines, stderr) = run(with(&["--channel", "keyboard", "--dose", "0.4"])).await;
    assert_eq!(code, 0, "{stderr}");
    for (line, original) in lines.iter().zip(TEXTS.lines()) {
        assert_eq!(line["outcome"], "ok");
        assert_ne!(line["text"], original);
    }
    for (arguments, part) in [
        (&[][..], "--channel is missing"),
        (&["--channel", "keybord"], "did you mean `keyboard`?"),
        (&["--channel", "ocr", "--dose", "0.3"], "0.2, 0.4"),
    ] {
        let (code, _, stderr) = run(with(arguments)).await;
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains(part), "{stderr}");
    }
    let misplaced = [
        "--transformation",
        "stopword_removal",
        "--input",
        &input,
        "--dose",
        "0.1",
    ];
    let (code, _, stderr) = transform(&home, &misplaced).await;
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("goes with noise only"), "{stderr}");
}
