//! A forgotten text, and texts derived from it, are gone from every file, blob and record; other
//! texts are still served.

use std::{
    fs,
    path::{Path, PathBuf},
};

use futures::StreamExt;
use isomer_adapters::GuardConfig;
use isomer_all_in_one::{App, Caller, IsomerConfig, compose, forget};
use isomer_blobs::{BlobStore, StoreConfig};
use isomer_proto::{
    common::v1::{Usage, VectorSpace},
    encoder::v1::{EncodeRequest, EncodeResponse, Encoder},
    eval::v1::{
        CreateRunRequest, GetReportRequest, GetRunRequest, ReportFormat, RunSpec, RunState, WatchRunRequest,
        run_service_client::RunServiceClient,
    },
    transform::v1::{
        Paraphrase, TextItem, TransformRequest, TransformResponse, TransformSpec,
        transform_service_client::TransformServiceClient, transformation::Kind as Wanted,
    },
};
use isomer_registry::ProvidersConfig;
use isomer_retention::{
    Digest, Kind,
    erasure::{MARKER, Mode, Texts},
};
use isomer_service_kit::config::Secret;
use isomer_stubs::{
    encoder::{StubEncoder, answer, named, texts},
    openai::{Answer, Stub},
    postgres::empty_schema,
    request,
};
use isomer_transform::config::GeneratorConfig;

const ENCODER: &str = "stub";
const TEXT: &str = "Anna \"Nan\" Example of <5 Market Street> owes three hundred euros & more.";
/// Part of the text with a single spelling.
const PART: &str = "5 Market Street";
/// Part of the stub's result: the words in another order.
const MADE: &str = "Street> Market";
const OTHER: &str = "A heron stands in the shallow water beside the old wooden bridge.";

struct Scene {
    home: tempfile::TempDir,
    generator: Stub,
    encoder: String,
    ledger: Option<String>,
}

fn space() -> VectorSpace {
    VectorSpace {
        digest: "one".to_owned(),
        model_id: ENCODER.to_owned(),
        ..VectorSpace::default()
    }
}

fn encode(request: &EncodeRequest) -> EncodeResponse {
    let rows: Vec<[f32; 2]> = texts(request)
        .map(|text| {
            let sum: u64 = text.bytes().map(u64::from).sum();
            let angle = (sum * sum % 997) as f32;
            [angle.cos(), angle.sin()]
        })
        .collect();
    let count = rows.len();
    EncodeResponse {
        token_counts: vec![4; count],
        truncated: vec![false; count],
        vector_space: Some(space()),
        usage: Some(Usage {
            texts: count as u64,
            tokens: 4 * count as u64,
            ..Usage::default()
        }),
        ..answer(rows, 0)
    }
}

impl Scene {
    async fn new(ledger: Option<String>) -> Self {
        isomer_service_kit::tls::install_crypto();
        let described = Encoder {
            vector_space: Some(space()),
            dimensions: 2,
            max_batch_items: 64,
            normalises: true,
            capabilities: vec![1],
            ..named(ENCODER)
        };
        let encoder = StubEncoder::of([described]).on_encode(|request| {
            let answered = encode(request.get_ref());
            async move { Ok(answered) }
        });
        let scene = Self {
            home: tempfile::tempdir().unwrap(),
            generator: Stub::start(Answer::Good).await,
            encoder: encoder.serve().await,
            ledger,
        };
        let data = scene.data();
        fs::create_dir_all(&data).unwrap();
        let rows: String = (0..8)
            .map(|row| {
                let first = if row == 0 {
                    TEXT.to_owned()
                } else {
                    format!("{OTHER} Number {row}.")
                };
                let second = format!("A bird waits near the river, for the time {row}.");
                let row = serde_json::json!({ "sentence1": first, "sentence2": second, "score": row });
                format!("{row}\n")
            })
            .collect();
        fs::write(data.join("test.jsonl"), rows).unwrap();
        scene
    }

    /// The data set, which is the user's own.
    fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    fn store(&self) -> StoreConfig {
        StoreConfig {
            url: self.home.path().join("store").display().to_string(),
            ..StoreConfig::default()
        }
    }

    fn config(&self) -> IsomerConfig {
        let providers = self.home.path().join("providers.toml");
        let address = self.encoder.replace("http://", "grpc://");
        let address = if address.contains("://") {
            address
        } else {
            format!("grpc://{address}")
        };
        let declared = format!(
            "[[provider]]\nid = \"far\"\nkind = \"isomer\"\naddress = \"{address}\"\nencoders = {{ {ENCODER} = \"{ENCODER}\" }}\n"
        );
        fs::write(&providers, declared).unwrap();
        let mut config = IsomerConfig {
            providers: ProvidersConfig {
                file: Some(providers),
                ..ProvidersConfig::default()
            },
            addresses: GuardConfig {
                allow: vec!["127.0.0.1".to_owned()],
            },
            store: self.store(),
            ..IsomerConfig::default()
        };
        config.models.home = self.home.path().to_owned();
        config.embed.cache_dir = Some(self.home.path().join("vectors"));
        config.eval.data_roots = vec![self.data()];
        // All texts are shown as examples.
        config.eval.examples = 64;
        if let Some(url) = &self.ledger {
            config.eval.ledger.url = Secret::new(url.clone());
        }
        let generator = GeneratorConfig {
            model: "stub".to_owned(),
            url: Some(self.generator.url()),
            max_tries: 1,
            ..GeneratorConfig::default()
        };
        config.transform.generators = [("stub".to_owned(), generator)].into();
        config.transform.default_generator = "stub".to_owned();
        config
    }

    async fn app(&self) -> App {
        // A file-based ledger is free when the last task of the previous process has ended.
        for _ in 0..200 {
            match compose(self.config(), Caller::Anyone).await {
                Ok(app) => return app,
                Err(_) if self.ledger.is_some() => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
                Err(fault) => panic!("{fault}"),
            }
        }
        panic!("the ledger is never free");
    }

    async fn forget(&self, mode: Mode) -> isomer_all_in_one::ErasureReport {
        let texts = Texts::new([format!("{TEXT}\n")]).unwrap();
        forget(&self.config(), texts, mode).await.unwrap()
    }

    /// Files below the home that contain the text, or a text derived from it.
    fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![self.home.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path == self.data() {
                } else if path.is_dir() {
                    folders.push(path);
                } else if holds(&fs::read(&path).unwrap()) {
                    found.push(path.strip_prefix(self.home.path()).unwrap().display().to_string());
                }
            }
        }
        found.sort();
        found
    }
}

fn holds(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    [PART, MADE].iter().any(|part| text.contains(part))
}

async fn transform(app: &App, text: &str) -> TransformResponse {
    let request = TransformRequest {
        spec: Some(TransformSpec {
            transformation: Some(Wanted::Paraphrase(Paraphrase {}).into()),
            ..TransformSpec::default()
        }),
        items: vec![TextItem {
            text: text.to_owned(),
            language: Some("en".to_owned()),
            ..TextItem::default()
        }],
        ..TransformRequest::default()
    };
    let mut client = TransformServiceClient::new(app.channel());
    client.transform(request).await.unwrap().into_inner()
}

fn calls(answer: &TransformResponse) -> u64 {
    answer.usage.unwrap().generator_calls
}

/// A run over the data set; its id.
async fn run(app: &App, data: &Path) -> String {
    // A comment that the record of the run contains.
    let suite = format!(
        "# Of {TEXT}\nname = \"own\"\nseeds = [1]\ntransformations = [\"paraphrase\"]\n[[dataset]]\ntask = \"sts\"\nname = \
         \"own\"\npath = \"{}\"\n",
        data.display()
    );
    let mut client = RunServiceClient::new(app.channel());
    let request = CreateRunRequest {
        spec: Some(RunSpec {
            suite: Some(request::suite(suite)),
            encoder_ids: vec![ENCODER.to_owned()],
            ..RunSpec::default()
        }),
        ..CreateRunRequest::default()
    };
    let id = client.create_run(request).await.unwrap().into_inner().run.unwrap().id;
    loop {
        let request = GetRunRequest { id: id.clone() };
        let run = client.get_run(request).await.unwrap().into_inner().run.unwrap();
        match run.state() {
            RunState::Succeeded => return id,
            RunState::Pending | RunState::Running => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            other => panic!("{other:?}: {}", run.error),
        }
    }
}

/// Everything that a server returns about a run: its record, its events and its report in every
/// format.
async fn told(app: &App, id: &str) -> Vec<(String, Vec<u8>)> {
    let mut client = RunServiceClient::new(app.channel());
    let run = client.get_run(GetRunRequest { id: id.to_owned() }).await.unwrap();
    let mut all = vec![("run".to_owned(), format!("{run:?}").into_bytes())];
    let watched = WatchRunRequest {
        id: id.to_owned(),
        after_sequence: 0,
    };
    let events = client.watch_run(watched).await.unwrap().into_inner();
    let events: Vec<_> = events.collect().await;
    all.push(("events".to_owned(), format!("{events:?}").into_bytes()));
    for format in [
        ReportFormat::Json,
        ReportFormat::Markdown,
        ReportFormat::Html,
        ReportFormat::Junit,
        ReportFormat::Items,
    ] {
        let request = GetReportRequest {
            id: id.to_owned(),
            format: format.into(),
        };
        let report = client.get_report(request).await.unwrap().into_inner();
        all.push((format!("{format:?}"), report.content.to_vec()));
    }
    all
}

/// Writes units of workers to the store, as a fleet leaves them; returns the names of those to be
/// removed.
async fn units(store: &StoreConfig) -> Vec<String> {
    let blobs = BlobStore::open(store).unwrap().unwrap();
    let digest = |n: u8| Digest::from([n; 32]);
    let name = |kind: Kind, n: u8| format!("{}/{}", kind.place("", &digest(n)), digest(n));
    let about_input = [b"about ".as_slice(), digest(3).bytes()].concat();
    let gone: Vec<(String, Vec<u8>)> = vec![
        (name(Kind::Units, 1), TEXT.as_bytes().to_vec()),
        (name(Kind::Answers, 1), b"a vector".to_vec()),
        (name(Kind::Claims, 1), b"a run".to_vec()),
        (name(Kind::Answers, 2), format!("made of it: {TEXT}").into_bytes()),
        (name(Kind::Inputs, 3), TEXT.as_bytes().to_vec()),
        (name(Kind::Units, 4), about_input),
        (name(Kind::Answers, 4), b"places".to_vec()),
        (name(Kind::Vectors, 5), b"vectors".to_vec()),
    ];
    let stay: Vec<(String, Vec<u8>)> = vec![
        (name(Kind::Units, 9), OTHER.as_bytes().to_vec()),
        (name(Kind::Answers, 9), b"a vector".to_vec()),
    ];
    for (name, content) in gone.iter().chain(&stay) {
        blobs.put_new(name, content).await.unwrap();
    }
    gone.into_iter().map(|(name, _)| name).collect()
}

async fn forgotten_everywhere(ledger: Option<String>) {
    let in_folder = ledger.is_none();
    let scene = Scene::new(ledger).await;
    let app = scene.app().await;
    assert_eq!(
        (
            calls(&transform(&app, TEXT).await),
            calls(&transform(&app, OTHER).await)
        ),
        (1, 1)
    );
    let id = run(&app, &scene.data()).await;
    let before = told(&app, &id).await;
    let units = units(&scene.store()).await;
    let vectors = scene.home.path().join("vectors").join("space");
    fs::create_dir_all(&vectors).unwrap();
    fs::write(vectors.join("vectors-1.bin"), [7; 64]).unwrap();
    app.interrupt_runs().await;
    drop(app);

    // All stores contained the text.
    let found = scene.files();
    let in_any = |part: &str| found.iter().any(|file| file.contains(part));
    assert!(
        in_any("cache/transform/segment-") && in_any("store/texts/"),
        "{found:#?}"
    );
    assert!(in_any("store/units/") && in_any("store/inputs/"), "{found:#?}");
    if in_folder {
        assert!(
            in_any("report.json") && in_any("report.html") && in_any("items.json"),
            "{found:#?}"
        );
    }
    for form in ["Json", "Html", "Items"] {
        assert!(
            before.iter().any(|(name, content)| name == form && holds(content)),
            "{form}"
        );
    }

    let planned = scene.forget(Mode::Plan).await;
    assert_eq!(scene.files(), found, "a plan removes nothing");
    let removed = scene.forget(Mode::Remove).await;
    assert_eq!(
        serde_json::to_value(&planned).unwrap()["runs"],
        serde_json::to_value(&removed).unwrap()["runs"]
    );
    assert_eq!((planned.generated, &planned.store), (removed.generated, &removed.store));
    assert_eq!(scene.files(), Vec::<String>::new());
    assert_eq!(fs::read_dir(&vectors).unwrap().count(), 0);
    let blobs = BlobStore::open(&scene.store()).unwrap().unwrap();
    for name in &units {
        assert!(!blobs.exists(name).await.unwrap(), "{name}");
    }
    let other = Digest::from([9; 32]);
    assert!(
        blobs
            .exists(&format!("{}/{other}", Kind::Units.place("", &other)))
            .await
            .unwrap()
    );
    let changed = &removed.runs.runs;
    assert_eq!(changed.len(), 1);
    assert_ne!(changed[0].report_before, changed[0].report_after);
    assert!(removed.runs.active.is_empty());

    // The report is still valid, marks the removed text, and the other text is served as before.
    let app = scene.app().await;
    let after = told(&app, &id).await;
    for ((form, content), (_, before)) in after.iter().zip(&before) {
        assert!(!holds(content), "{form}");
        // Markdown escapes the brackets.
        let marked = String::from_utf8_lossy(content).contains(MARKER.trim_matches(['[', ']']));
        assert_eq!(marked, holds(before), "{form}");
    }
    assert!(isomer_eval::report::read(&after[2].1).is_ok());
    let asked = scene.generator.calls();
    assert_eq!(calls(&transform(&app, OTHER).await), 0);
    assert_eq!(scene.generator.calls(), asked);
    assert_eq!(calls(&transform(&app, TEXT).await), 1);
    assert!(!scene.files().is_empty(), "it is a text like any other again");
    let nothing_else = scene.forget(Mode::Remove).await;
    assert!(nothing_else.runs.runs.is_empty() && nothing_else.generated.objects == 1);
    assert_eq!(scene.files(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forgotten_text_is_in_no_file_blob_or_report_and_others_are_served() {
    Box::pin(forgotten_everywhere(None)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forgotten_text_is_in_no_record_of_a_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = format!("sqlite:{}", folder.path().join("ledger.sqlite").display());
    Box::pin(forgotten_everywhere(Some(sqlite))).await;
    let Some(postgres) = empty_schema("isomer_forget").await else {
        return;
    };
    Box::pin(forgotten_everywhere(Some(postgres))).await;
}
