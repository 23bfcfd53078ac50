//! Variants of an encoder as encoders of a run: stored forms of its vectors, and its prompts in
//! other words.

use isomer_eval::{
    Shared,
    dataset::{LoadOptions, Source, load},
    metric::vector_matrix,
    task::{Profile, TaskType},
};
use isomer_proto::{
    eval::v1::{
        EncoderPrompt, Gate, GateRule, ReportFormat, RunSpec, RunState, SuiteRef, Verdict, gate_rule::Limit, suite_ref,
    },
    transform::v1::Outcome,
};
use isomer_service_kit::vectors::{Ranges, halves, widened};
use isomer_stubs::promise::promised;
use serde_json::{Value, json};
use tonic::Code;

use crate::prompts::given;
use crate::run_stubs::{
    Harness, create, encoded,
    encoder::{DIMENSIONS, vector},
    repeats, report, report_json, run_to_end, spec,
};

const HEAD: &str = "seeds = [1]\ntransformations = [\"paraphrase\"]\n";
/// Forms whose vector follows from one text alone.
const SINGLE: [&str; 6] = ["hamming", "binary", "f16", "8", "binary:8", "f16:4"];

/// Vectors of encoders that return what `stub-keen` stores, named after the form. Dimensions that
/// are left out are zero, which changes no cosine.
fn twin(encoder: &str, text: &str) -> [f32; DIMENSIONS] {
    let own = vector("stub-keen", text);
    let Some(form) = encoder.strip_prefix("stub-as-") else {
        return vector(encoder, text);
    };
    let (numbers, dimensions) = match form.split_once('-') {
        Some((numbers, dimensions)) => (numbers, dimensions.parse().unwrap()),
        None => form
            .parse()
            .map_or((form, DIMENSIONS), |dimensions| ("float", dimensions)),
    };
    let mut stored = [0.0; DIMENSIONS];
    for (stored, value) in stored.iter_mut().zip(own).take(dimensions) {
        *stored = match (numbers, value > 0.0) {
            ("hamming" | "binary", true) => 1.0,
            ("hamming", false) => -1.0,
            ("binary", false) => 0.0,
            ("f16", _) => {
                let mut half = Vec::new();
                halves(&[value], &mut half).unwrap();
                widened(&half).next().unwrap()
            }
            _ => value,
        };
    }
    stored
}

fn healthy() -> Harness {
    let harness = Harness::new();
    harness.manner().vectors = Some(twin);
    harness.manner().limit = Some(40);
    *harness.transform.rewriter.lock() = Some(|_, _, text| {
        let words: Vec<&str> = text.split_whitespace().rev().collect();
        (format!("quite {}", words.join(" ")), Outcome::Ok)
    });
    harness
}

/// The suite of the harness, with a retrieval data set.
fn suite(harness: &Harness, head: &str) -> SuiteRef {
    let folder = harness.home.path().join("data/find");
    std::fs::create_dir_all(folder.join("qrels")).unwrap();
    let things = [
        "boats", "lamps", "chairs", "clocks", "coats", "drums", "plates", "bells",
    ];
    let documents = (0..24).map(|i| {
        let text = format!("A shop in town sold {} old {} to the mayor.", i + 12, things[i % 8]);
        json!({"_id": format!("d{i}"), "title": "", "text": text}).to_string()
    });
    let queries = (0..24).map(|i| {
        let text = format!("who bought {} old {}", i + 12, things[i % 8]);
        json!({"_id": format!("q{i}"), "text": text}).to_string()
    });
    let relevant: String = (0..24).map(|i| format!("q{i}\td{i}\t1\n")).collect();
    std::fs::write(folder.join("corpus.jsonl"), documents.collect::<Vec<_>>().join("\n")).unwrap();
    std::fs::write(folder.join("queries.jsonl"), queries.collect::<Vec<_>>().join("\n")).unwrap();
    let relevant = format!("query-id\tcorpus-id\tscore\n{relevant}");
    std::fs::write(folder.join("qrels/test.tsv"), relevant).unwrap();
    harness.suite(&format!(
        "{head}\n[[dataset]]\ntask = \"retrieval\"\nname = \"find\"\npath = \"find\"\n"
    ))
}

fn forms(suite: SuiteRef, encoders: &[&str], forms: &[&str]) -> RunSpec {
    RunSpec {
        forms: forms.iter().map(|form| (*form).to_owned()).collect(),
        ..spec(suite, encoders)
    }
}

async fn checked(harness: &Harness, spec: RunSpec) -> Value {
    let (_service, mut client) = harness.open().await;
    let run = run_to_end(&mut client, spec).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    report_json(&mut client, &run.id).await
}

/// Rows of one encoder, without the fields that name it.
fn rows(report: &Value, list: &str, encoder: &str) -> Vec<Value> {
    let own = report.pointer(list).and_then(Value::as_array).unwrap().iter();
    let own = own.filter(|row| row["encoder"] == encoder);
    own.map(|row| {
        let mut row = row.clone();
        for field in ["encoder", "unit", "cached"] {
            row[field].take();
        }
        row
    })
    .collect()
}

#[tokio::test]
async fn a_stored_form_is_measured_as_an_encoder_that_returns_its_vectors() {
    let harness = healthy();
    let with_forms = checked(&harness, forms(suite(&harness, HEAD), &["stub-keen"], &SINGLE)).await;
    let texts = encoded(&harness.encoder).len();
    assert!(
        repeats(&harness.encoder).is_empty(),
        "each text is encoded once for all forms"
    );
    let plain = healthy();
    checked(&plain, spec(suite(&plain, HEAD), &["stub-keen"])).await;
    assert_eq!(encoded(&plain.encoder).len(), texts, "forms need no other texts");

    let twins = SINGLE.map(|form| format!("stub-as-{}", form.replace(':', "-")));
    let twins = twins.each_ref().map(String::as_str);
    let by_twins = checked(&harness, spec(suite(&harness, HEAD), &twins)).await;
    for (form, twin) in SINGLE.iter().zip(twins) {
        let form = format!("stub-keen+{form}");
        for list in ["/scores", "/drift", "/truncation", "/separation/encoders"] {
            let (own, expected) = (rows(&with_forms, list, &form), rows(&by_twins, list, twin));
            assert!(!own.is_empty(), "{list} of {form}");
            assert_eq!(own, expected, "{list} of {form}");
        }
    }
}

#[tokio::test]
async fn bytes_are_scaled_by_the_originals_of_their_data_set() {
    let harness = healthy();
    let report = checked(&harness, forms(suite(&harness, HEAD), &["stub-keen"], &["int8"])).await;
    let folder = harness.home.path().join("data");
    for (name, task, path, documents) in [
        ("sts", TaskType::Sts, "sts.jsonl", 0),
        ("find", TaskType::Retrieval, "find", 24),
    ] {
        let dataset = load(task, &Source::Path(folder.join(path)), &LoadOptions::default()).unwrap();
        let texts = dataset.texts().iter();
        let floats: Vec<[f32; DIMENSIONS]> = texts.map(|text| vector("stub-keen", &text.text)).collect();
        let ranges = Ranges::of_rows(floats[documents..].iter()).unwrap();
        let bytes = floats.iter().flat_map(|row| ranges.quantised(row).collect::<Vec<_>>());
        let matrix = vector_matrix(floats.len(), DIMENSIONS, bytes.map(f32::from).collect()).unwrap();
        let expected = dataset.score(matrix.view(), Profile::MtebV2).unwrap().main;
        let own = rows(&report, "/scores", "stub-keen+int8");
        let own = own
            .iter()
            .find(|row| row["dataset"] == name && row["transformation"].is_null());
        assert_eq!(own.unwrap()["main_score"].as_f64(), Some(expected), "{name}");
    }
}

#[tokio::test]
async fn a_form_that_is_scaled_shares_no_drift_with_another_sample_of_its_data() {
    let drift = |report: &Value| rows(report, "/drift", "stub-keen+int8");
    let limited = |harness: &Harness, limit: Option<u32>| RunSpec {
        limit,
        ..forms(suite(harness, HEAD), &["stub-keen"], &["int8"])
    };
    let (alone, both) = (healthy(), healthy());
    let expected = checked(&alone, limited(&alone, None)).await;
    let smaller = checked(&both, limited(&both, Some(3))).await;
    let after = checked(&both, limited(&both, None)).await;
    assert_eq!(drift(&after), drift(&expected));
    assert_ne!(drift(&after), drift(&smaller));
}

#[tokio::test]
async fn a_form_that_is_scaled_shares_no_drift_with_another_prompt_of_the_documents() {
    let drift = |report: &Value| rows(report, "/drift", "stub-keen+int8");
    let prompted = |harness: &Harness, text: &str| RunSpec {
        prompts: given(&[("document", text)]),
        ..forms(suite(harness, HEAD), &["stub-keen"], &["int8"])
    };
    let (alone, both) = (healthy(), healthy());
    let expected = checked(&alone, prompted(&alone, "read this passage: ")).await;
    let other = checked(&both, prompted(&both, "")).await;
    let after = checked(&both, prompted(&both, "read this passage: ")).await;
    assert_eq!(drift(&after), drift(&expected));
    assert_ne!(drift(&after), drift(&other));
}

#[tokio::test]
async fn a_repeated_run_computes_nothing_and_a_later_form_encodes_what_it_needs() {
    let harness = healthy();
    let run = async |harness: &Harness, all: &[&str]| {
        checked(harness, forms(suite(harness, HEAD), &["stub-keen"], all)).await
    };
    let first = run(&harness, &["int8", "binary:8"]).await;
    let texts = encoded(&harness.encoder).len();
    let second = run(&harness, &["int8", "binary:8"]).await;
    assert_eq!(second["counters"]["scores_computed"], 0);
    assert_eq!(encoded(&harness.encoder).len(), texts);
    // The vectors are no longer in memory.
    let more = run(&harness, &["int8", "int8:8"]).await;
    let expected = run(&healthy(), &["int8", "int8:8"]).await;
    for form in ["stub-keen+int8", "stub-keen+int8:8"] {
        for list in ["/scores", "/drift"] {
            assert_eq!(rows(&more, list, form), rows(&expected, list, form), "{list} of {form}");
        }
    }
    let scores = |report: &Value| rows(report, "/scores", "stub-keen+int8");
    assert_eq!(scores(&more), scores(&first));
}

#[tokio::test]
async fn rounds_of_a_sequential_gate_give_forms_the_same_scores() {
    let harness = healthy();
    let gate = "[gate]\nsequential = true\n[[gate.rule]]\nmax_drop = 200\nunit = \"group\"\nbasis = \"student\"\n";
    let mut rounds = suite(&harness, HEAD);
    if let Some(suite_ref::Source::Toml(text)) = &mut rounds.source {
        text.push_str(gate);
    }
    let all = ["int8", "hamming"];
    let by_rounds = checked(&harness, forms(rounds, &["stub-keen"], &all)).await;
    assert!(repeats(&harness.encoder).is_empty(), "{:?}", repeats(&harness.encoder));
    let fresh = healthy();
    let at_once = checked(&fresh, forms(suite(&fresh, HEAD), &["stub-keen"], &all)).await;
    for form in ["stub-keen+int8", "stub-keen+hamming"] {
        let (own, expected) = (rows(&by_rounds, "/scores", form), rows(&at_once, "/scores", form));
        assert!(
            !own.is_empty() && own.iter().all(|row| expected.contains(row)),
            "{form}"
        );
    }
}

#[tokio::test]
async fn rules_hold_a_form_against_its_encoder_and_the_report_says_what_it_loses() {
    let harness = healthy();
    let spec = RunSpec {
        baseline_encoder_id: "stub-keen".to_owned(),
        gate: Some(Gate {
            rules: vec![GateRule {
                quantity: "original".to_owned(),
                dataset: "find".to_owned(),
                limit: Some(Limit::MinOverlap(80.0)),
                ..GateRule::default()
            }],
            // Eight bits give several texts one vector.
            max_shared: Some(1.0),
            ..Gate::default()
        }),
        ..forms(suite(&harness, HEAD), &["stub-keen"], &["f16", "binary:8"])
    };
    let (_service, mut client) = harness.open().await;
    let run = run_to_end(&mut client, spec).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let json = report_json(&mut client, &run.id).await;
    let stored = |encoder: usize| json["encoders"][encoder]["variant"].clone();
    assert!(stored(0).is_null());
    let half = json!({"encoder": "stub-keen", "form": "f16", "bytes": 32, "overlap": 1.0});
    assert_eq!(stored(1), half, "16 bits keep the order");
    assert_eq!(
        (&stored(2)["form"], &stored(2)["bytes"]),
        (&json!("binary:8"), &json!(1))
    );
    let overlap = stored(2)["overlap"].as_f64().unwrap();
    assert!((0.05..0.95).contains(&overlap), "eight bits do not: {overlap}");
    assert_eq!(run.verdict(), Verdict::Fail, "{}", json["gate"]);
    let verdicts = json["gate"]["encoders"].as_array().unwrap().iter();
    let failed = verdicts.filter(|one| one["verdict"] == "fail");
    let failed: Vec<&Value> = failed.map(|one| &one["encoder"]).collect();
    assert_eq!(failed, ["stub-keen+binary:8"]);
    for format in [ReportFormat::Markdown, ReportFormat::Html] {
        let page = String::from_utf8(report(&mut client, &run.id, format).await).unwrap();
        for part in ["Variants", "binary:8", "itself"] {
            assert!(page.contains(part), "{format:?} lacks {part}");
        }
    }
}

#[tokio::test]
async fn forms_that_cannot_be_measured_are_refused_before_anything_is_generated() {
    let harness = healthy();
    let (_service, mut client) = harness.open().await;
    let (_small_service, small) = harness
        .open_with(Shared::default(), |config| config.shard_documents = 10)
        .await;
    let asked = |form: &[&str]| forms(suite(&harness, HEAD), &["stub-keen"], form);
    for (mut client, spec, field, part) in [
        (
            client.clone(),
            asked(&["int4"]),
            "spec.forms[0]",
            "did you mean `int8`?",
        ),
        (client.clone(), asked(&["17"]), "spec.forms", "ask for fewer"),
        (client.clone(), asked(&["binary:16"]), "spec.forms", "ask for fewer"),
        (
            client.clone(),
            asked(&["int8", "int8"]),
            "spec.forms[1]",
            "`int8` is named twice",
        ),
        (small, asked(&["int8"]), "spec.forms", "eval.shard_documents"),
    ] {
        let refused = create(&mut client, spec).await.unwrap_err();
        promised("RunSpec.forms INVALID_ARGUMENT forms", &refused);
        assert_eq!(refused.field.as_deref(), Some(field), "{refused}");
        assert!(refused.message.contains(part), "{refused}");
    }
    let own_prompt = RunSpec {
        prompts: vec![EncoderPrompt {
            role: "query".to_owned(),
            text: "q: ".to_owned(),
            encoder_id: "stub-keen+int8".to_owned(),
        }],
        ..asked(&["int8"])
    };
    let refused = create(&mut client, own_prompt).await.unwrap_err();
    assert_eq!(refused.field.as_deref(), Some("spec.prompts[0].encoder_id"));
    let named = suite(&harness, &format!("{HEAD}forms = [\"int8\", \"bin\"]\n"));
    let refused = create(&mut client, spec(named, &["stub-keen"])).await.unwrap_err();
    for part in ["small.toml", "forms[1]"] {
        assert!(refused.message.contains(part), "{refused}");
    }
    assert!(encoded(&harness.encoder).is_empty());
}

#[tokio::test]
async fn a_suite_names_forms_and_a_request_replaces_them() {
    let harness = healthy();
    let ids = |report: &Value| -> Vec<String> {
        let all = report["encoders"].as_array().unwrap().iter();
        all.map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    let head = format!("{HEAD}forms = [\"int8\"]\nencoders = [\"stub-keen\"]\nbaseline = \"stub-a\"\n");
    let own = checked(&harness, spec(suite(&harness, &head), &[])).await;
    assert_eq!(
        ids(&own),
        ["stub-keen", "stub-keen+int8", "stub-a"],
        "the baseline alone has no forms"
    );
    let replaced = checked(&harness, forms(suite(&harness, &head), &["stub-a"], &["8"])).await;
    assert_eq!(ids(&replaced), ["stub-a", "stub-a+8"]);
    let off = checked(&harness, forms(suite(&harness, &head), &["stub-a"], &["off"])).await;
    assert_eq!(ids(&off), ["stub-a"]);
    let against = RunSpec {
        baseline_encoder_id: "stub-a+8".to_owned(),
        ..forms(suite(&harness, &head), &["stub-a"], &["8"])
    };
    let against = checked(&harness, against).await;
    assert_eq!(against["encoders"][1]["baseline"], true, "a form can be the baseline");
}

const OWN: [(&str, &str); 3] = [("query", "Query: "), ("document", "Passage: "), ("sts", "Same text: ")];

/// A harness whose encoder has prompts of its own.
fn prompted() -> Harness {
    let harness = healthy();
    harness.manner().prompts = OWN.map(|(role, text)| (role.to_owned(), text.to_owned())).into();
    harness
}

fn variants(suite: SuiteRef, encoders: &[&str], names: &[&str]) -> RunSpec {
    RunSpec {
        prompt_variants: names.iter().map(|name| (*name).to_owned()).collect(),
        ..spec(suite, encoders)
    }
}

#[tokio::test]
async fn a_prompt_variant_is_measured_as_the_encoder_with_these_prompts() {
    let harness = prompted();
    let own = "[prompt_variant.short]\nquery = \"q: \"\nsts = \"s: \"\n";
    let mut with_own = suite(&harness, HEAD);
    if let Some(suite_ref::Source::Toml(text)) = &mut with_own.source {
        text.push_str(own);
    }
    let names = ["none", "upper_case", "no_punctuation", "synonyms", "short"];
    let together = checked(&harness, variants(with_own, &["stub-keen"], &names)).await;
    let by_hand: [(&str, Vec<EncoderPrompt>); 5] = [
        ("none", given(&OWN.map(|(role, _)| (role, "")))),
        (
            "upper_case",
            given(&[("query", "QUERY: "), ("document", "PASSAGE: "), ("sts", "SAME TEXT: ")]),
        ),
        (
            "no_punctuation",
            given(&[("query", "Query "), ("document", "Passage "), ("sts", "Same text ")]),
        ),
        (
            "synonyms",
            given(&[
                ("query", "Question: "),
                ("document", "Document: "),
                ("sts", "Same sentence: "),
            ]),
        ),
        // Roles that the variant does not have keep the encoder's own prompts.
        ("short", given(&[("query", "q: "), ("sts", "s: ")])),
    ];
    for (name, prompts) in by_hand {
        let alone = prompted();
        let spec = RunSpec {
            prompts,
            ..spec(suite(&alone, HEAD), &["stub-keen"])
        };
        let expected = checked(&alone, spec).await;
        let variant = format!("stub-keen+prompt:{name}");
        for list in ["/scores", "/drift", "/truncation", "/separation/encoders"] {
            let (own, expected) = (rows(&together, list, &variant), rows(&expected, list, "stub-keen"));
            assert!(!own.is_empty(), "{list} of {name}");
            assert_eq!(own, expected, "{list} of {name}");
        }
    }
    let asked = encoded(&harness.encoder);
    assert!(
        asked.iter().all(|one| one.starts_with("stub-keen|")),
        "no service has an encoder of that name"
    );
}

#[tokio::test]
async fn a_variant_that_changes_no_prompt_costs_nothing_and_a_run_without_any_is_refused() {
    let harness = prompted();
    let report = checked(
        &harness,
        variants(suite(&harness, HEAD), &["stub-keen"], &["upper_case"]),
    )
    .await;
    let counted = |field: &str| report["counters"][field].as_u64().unwrap();
    assert_eq!(report["scores"].as_array().unwrap().len(), 12);
    assert_eq!(
        (counted("scores_computed"), counted("scores_cached")),
        (10, 2),
        "the pairs have no prompt"
    );

    let plain = healthy();
    let (_service, mut client) = plain.open().await;
    for (names, field, part) in [
        (
            &["typos", "none"][..],
            "spec.prompt_variants",
            "no encoder of the run has a prompt",
        ),
        (&["typo"], "spec.prompt_variants[0]", "did you mean `typos`?"),
        (&["all", "none"], "spec.prompt_variants[1]", "`none` is named twice"),
    ] {
        let refused = create(&mut client, variants(suite(&plain, HEAD), &["stub-keen"], names))
            .await
            .unwrap_err();
        promised("RunSpec.prompt_variants INVALID_ARGUMENT prompt_variants", &refused);
        assert_eq!(refused.field.as_deref(), Some(field), "{refused}");
        assert!(refused.message.contains(part), "{refused}");
    }
    for (own, part) in [
        (
            "[prompt_variant.short]\nqery = \"q: \"\n",
            "prompt_variant.short: `qery`",
        ),
        (
            "[prompt_variant.typos]\nquery = \"q: \"\n",
            "`typos` is the name of a rule",
        ),
        ("[prompt_variant]\nshort = 3\n", "prompt_variant.short"),
    ] {
        let mut broken = suite(&plain, HEAD);
        if let Some(suite_ref::Source::Toml(text)) = &mut broken.source {
            text.push_str(own);
        }
        let refused = create(&mut client, spec(broken, &["stub-keen"])).await.unwrap_err();
        assert_eq!(refused.code, Code::InvalidArgument, "{refused}");
        assert!(refused.message.contains(part), "{refused}");
    }
    assert!(encoded(&plain.encoder).is_empty());
}

#[tokio::test]
async fn a_corpus_in_shards_gives_prompt_variants_the_same_scores() {
    let whole = prompted();
    let expected = checked(&whole, variants(suite(&whole, HEAD), &["stub-keen"], &["lower_case"])).await;
    let sharded = prompted();
    let (_service, mut client) = sharded
        .open_with(Shared::default(), |config| config.shard_documents = 10)
        .await;
    let run = run_to_end(
        &mut client,
        variants(suite(&sharded, HEAD), &["stub-keen"], &["lower_case"]),
    )
    .await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let own = report_json(&mut client, &run.id).await;
    let name = "stub-keen+prompt:lower_case";
    assert_eq!(rows(&own, "/scores", name), rows(&expected, "/scores", name));
}

#[tokio::test]
async fn statistics_over_encoders_leave_variants_out_and_the_headline_says_what_prompts_do() {
    let harness = prompted();
    let encoders = ["stub-keen", "stub-worse"];
    let plain = checked(&harness, spec(suite(&harness, HEAD), &encoders)).await;
    let with_variants = RunSpec {
        forms: vec!["hamming".to_owned()],
        ..variants(suite(&harness, HEAD), &encoders, &["all"])
    };
    let report = checked(&harness, with_variants).await;
    assert_eq!(report["encoders"].as_array().unwrap().len(), 2 * 8);
    assert_eq!(report["profile"]["scopes"], plain["profile"]["scopes"]);
    assert_eq!(report["profile"]["shifts"], plain["profile"]["shifts"]);
    assert_eq!(report["tables"], plain["tables"]);
    let headline: Vec<&str> = report["headline"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let said = headline
        .iter()
        .filter(|line| line.starts_with("Over 7 choices of prompts"))
        .count();
    assert_eq!(said, 2, "{headline:?}");
}
