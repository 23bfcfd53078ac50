//! A check of an encoder behind a provider of another kind, through the gateway of the process with
//! its cache of vectors: a provider that confuses its answers or changes never passes.

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::TryStreamExt;
use isomer_adapters::GuardConfig;
use isomer_all_in_one::{App, Caller, IsomerConfig, compose};
use isomer_proto::eval::v1::{
    CreateRunRequest, GetReportRequest, GetRunRequest, ReportFormat, Run, RunSpec, RunState, Verdict, WatchRunRequest,
    run_service_client::RunServiceClient,
};
use isomer_registry::ProvidersConfig;
use isomer_stubs::{
    http::{Reply, Stub},
    openai, request,
};
use parking_lot::Mutex;
use serde_json::json;
use tempfile::TempDir;

const ENCODER: &str = "far";
const DIMENSIONS: usize = 24;

type Vector = [f32; DIMENSIONS];

/// The fault of a provider: it gets the number of a call, counted from 0, its texts and their
/// vectors.
type Fault = fn(usize, &[&str], &mut [Vector]);

/// A provider of vectors with OpenAI's API.
struct FaultyProvider {
    stub: Stub,
    fault: Arc<Mutex<Fault>>,
    calls: Arc<AtomicUsize>,
}

impl FaultyProvider {
    async fn start(fault: Fault) -> Self {
        let fault = Arc::new(Mutex::new(fault));
        let calls = Arc::new(AtomicUsize::new(0));
        let (own, number) = (Arc::clone(&fault), Arc::clone(&calls));
        let stub = Stub::start(move |call| {
            if call.path != "/v1/embeddings" {
                return Reply::ok(json!({ "object": "list", "data": [] }));
            }
            let texts = openai::inputs(&call.body);
            let mut vectors: Vec<Vector> = texts.iter().map(|text| vector(text)).collect();
            (own.lock())(number.fetch_add(1, Ordering::SeqCst), &texts, &mut vectors);
            let place = Cell::new(0);
            let next = |_: &str| vectors[place.replace(place.get() + 1)].to_vec();
            Reply::ok(openai::embeddings(&call.body, next, texts.len() as u64))
        });
        let stub = stub.await;
        Self { stub, fault, calls }
    }

    /// Another fault from now on; its calls are counted from 0.
    fn becomes(&self, fault: Fault) {
        *self.fault.lock() = fault;
        self.calls.store(0, Ordering::SeqCst);
    }
}

fn hash(text: &str) -> u64 {
    text.bytes().fold(7, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(1_099_511_628_211).rotate_left(17)
    })
}

/// Pseudo-random values from -0.5 to 0.5.
fn noise(seed: u64) -> Vector {
    let mut state = seed;
    [0; DIMENSIONS].map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    })
}

/// The sum of a vector for each word and number of more than four characters, whatever its case.
fn vector(text: &str) -> Vector {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 4);
    let mut sum = [0.001; DIMENSIONS];
    for word in words.map(str::to_lowercase) {
        let own = noise(hash(&word));
        sum.iter_mut().zip(own).for_each(|(value, own)| *value += own);
    }
    sum
}

fn healthy(_: usize, _: &[&str], _: &mut [Vector]) {}

fn another_model(_: usize, texts: &[&str], vectors: &mut [Vector]) {
    for (text, vector) in texts.iter().zip(vectors) {
        *vector = noise(hash(text));
    }
}

/// Faults that only a second encoding shows.
const FAULTS: [(&str, Fault); 5] = [
    ("swaps two vectors in every fourth call", |call, _, vectors| {
        if call % 4 == 3 && vectors.len() > 1 {
            vectors.swap(0, 1);
        }
    }),
    ("adds noise", |call, texts, vectors| {
        for (text, vector) in texts.iter().zip(vectors) {
            let noise = noise(hash(text) + call as u64);
            vector
                .iter_mut()
                .zip(noise)
                .for_each(|(value, noise)| *value += 0.1 * noise);
        }
    }),
    ("lets a vector depend on its batch", |_, texts, vectors| {
        vectors
            .iter_mut()
            .for_each(|vector| vector[0] += 0.01 * texts[0].len() as f32);
    }),
    ("scales the vectors of a batch", |_, texts, vectors| {
        let scale = 1.0 + texts.len() as f32 / 100.0;
        vectors.iter_mut().flatten().for_each(|value| *value *= scale);
    }),
    ("answers every fifth call with another model", |call, texts, vectors| {
        if call % 5 == 4 {
            another_model(call, texts, vectors);
        }
    }),
];

/// A process with the provider; its data, caches and scores are in `home`.
async fn app(home: &TempDir, provider: &FaultyProvider) -> App {
    isomer_service_kit::tls::install_crypto();
    let file = home.path().join("providers.toml");
    let declared = format!(
        "[[provider]]\nid = \"elsewhere\"\nkind = \"openai\"\naddress = \"{}\"\nencoders = {{ {ENCODER} = \"their-model\" }}\n",
        provider.stub.address
    );
    std::fs::write(&file, declared).unwrap();
    let mut config = IsomerConfig {
        providers: ProvidersConfig {
            file: Some(file),
            ..ProvidersConfig::default()
        },
        addresses: GuardConfig {
            allow: vec!["127.0.0.1".to_owned()],
        },
        ..IsomerConfig::default()
    };
    config.models.home = home.path().to_owned();
    compose(config, Caller::Owner).await.unwrap()
}

/// A suite of pairs of sentences that name the same thing or different things. Rewrites come from a
/// rule, so no generator is needed.
fn suite(home: &TempDir) -> String {
    let things = [
        "books", "boats", "lamps", "chairs", "clocks", "coats", "drums", "plates",
    ];
    let rows = (0..90).map(|i| {
        let (thing, number, pair) = (things[i % 8], i + 10_012, i % 2 == 1);
        let (other_thing, other_number) = if pair {
            (thing, number)
        } else {
            (things[(i + 3) % 8], number + 500)
        };
        json!({
            "sentence1": format!("The shop sold {number} of the {thing} to the mayor."),
            "sentence2": format!("He has bought {other_number} of the {other_thing} from the shop."),
            "label": u8::from(pair),
        })
        .to_string()
    });
    // Texts that no encoder needs to distinguish.
    let alike = ["A wooden  BRIDGE", "a wooden bridge"]
        .map(|text| json!({ "sentence1": text, "sentence2": "There is a wooden bridge", "label": 1 }).to_string());
    let rows: Vec<String> = rows.chain(alike).collect();
    let data = home.path().join("pairs.jsonl");
    std::fs::write(&data, rows.join("\n")).unwrap();
    format!(
        "name = \"own\"\nseeds = [1]\ntransformations = [\"stopword_removal\"]\n[[gate.rule]]\nmax_drop = 10\nof = \
         \"augmentation\"\n[[dataset]]\ntask = \"pair-classification\"\nname = \"pairs\"\npath = \"{}\"\nlanguages = [\"en\"]\n",
        data.display()
    )
}

/// The run of a check when it has ended, and its report.
async fn check(home: &TempDir, provider: &FaultyProvider) -> (Run, String) {
    let app = app(home, provider).await;
    let mut client = RunServiceClient::new(app.channel());
    let request = CreateRunRequest {
        spec: Some(RunSpec {
            suite: Some(request::suite(suite(home))),
            encoder_ids: vec![ENCODER.to_owned()],
            ..RunSpec::default()
        }),
        ..CreateRunRequest::default()
    };
    let created = client.create_run(request).await.unwrap().into_inner().run.unwrap();
    let watched = WatchRunRequest {
        id: created.id.clone(),
        ..WatchRunRequest::default()
    };
    let events = client.watch_run(watched).await.unwrap().into_inner();
    // The stream ends with the run.
    events.try_collect::<Vec<_>>().await.unwrap();
    let request = GetRunRequest { id: created.id };
    let run = client.get_run(request).await.unwrap().into_inner().run.unwrap();
    if run.state() != RunState::Succeeded {
        return (run, String::new());
    }
    let request = GetReportRequest {
        id: run.id.clone(),
        format: ReportFormat::Markdown.into(),
    };
    let report = client.get_report(request).await.unwrap().into_inner();
    (run, String::from_utf8(report.content.to_vec()).unwrap())
}

async fn fresh(fault: Fault) -> (Run, String) {
    let provider = FaultyProvider::start(fault).await;
    Box::pin(check(&TempDir::new().unwrap(), &provider)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_provider_passes_and_a_second_check_encodes_only_the_fixed_texts() {
    let home = TempDir::new().unwrap();
    let provider = FaultyProvider::start(healthy).await;
    let (run, report) = Box::pin(check(&home, &provider)).await;
    assert_eq!(run.verdict(), Verdict::Pass, "{}{report}", run.error);
    let (again, report) = Box::pin(check(&home, &provider)).await;
    assert_eq!(again.verdict(), Verdict::Pass, "{}{report}", again.error);
    let counters = again.counters.unwrap();
    assert_eq!((counters.scores_computed, counters.texts_encoded), (0, 10));
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_that_a_second_encoding_shows_stop_a_run() {
    for (name, fault) in FAULTS {
        let (run, report) = Box::pin(fresh(fault)).await;
        assert_eq!(run.state(), RunState::Failed, "{name}: {report}");
        let named = ["when it was asked again", "while the run was in progress"];
        assert!(
            named.iter().any(|reason| run.error.contains(reason)),
            "{name}: {}",
            run.error
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_scores_of_another_model_under_the_same_name_are_not_used() {
    let home = TempDir::new().unwrap();
    let provider = FaultyProvider::start(healthy).await;
    let (before, report) = Box::pin(check(&home, &provider)).await;
    assert_eq!(before.verdict(), Verdict::Pass, "{}{report}", before.error);
    provider.becomes(another_model);
    let (after, _) = Box::pin(check(&home, &provider)).await;
    let (expected, _) = Box::pin(fresh(another_model)).await;
    assert_ne!(expected.verdict(), Verdict::Pass);
    assert_eq!(after.verdict(), expected.verdict(), "{}", after.error);
    assert_eq!(after.counters.unwrap().scores_cached, 0);
    // The first model is recognised when it is back.
    provider.becomes(healthy);
    let (back, _) = Box::pin(check(&home, &provider)).await;
    assert_eq!(
        (back.verdict(), back.counters.unwrap().scores_computed),
        (Verdict::Pass, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_changes_before_the_last_score_stops_the_run() {
    // A fixed text arrives again after the last score.
    static FIXED_TEXTS: AtomicUsize = AtomicUsize::new(0);
    let (run, report) = Box::pin(fresh(|call, texts, vectors| {
        let fixed = usize::from(texts.contains(&"Fresh bread"));
        if FIXED_TEXTS.fetch_add(fixed, Ordering::SeqCst) + fixed > 1 {
            another_model(call, texts, vectors);
        }
    }))
    .await;
    assert_eq!(run.state(), RunState::Failed, "{report}");
    assert!(run.error.contains("while the run was in progress"), "{}", run.error);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_vector_for_different_texts_makes_a_rule_invalid_and_names_two_of_them() {
    let (run, report) = Box::pin(fresh(|_, texts, vectors| {
        for (text, vector) in texts.iter().zip(vectors) {
            if ["10024", "10056"].iter().any(|number| text.contains(number)) && text.starts_with("The") {
                *vector = [0.5; DIMENSIONS];
            }
        }
    }))
    .await;
    assert_eq!(run.verdict(), Verdict::Invalid, "{}{report}", run.error);
    assert!(report.contains("shared is 0 %"), "{report}");
    for text in ["The shop sold 10024 of the", "The shop sold 10056 of the"] {
        assert!(report.contains(text), "{text}: {report}");
    }
}
