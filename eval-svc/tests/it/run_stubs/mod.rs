//! Stubs of the services that a run uses: an encoder whose vectors are a pure function of the text,
//! and a transform service that remembers its texts, counts, and can be slow or broken. Both are
//! called over the in-memory channel, through the same generated clients as the real ones.

pub mod encoder;
pub mod judge;
pub mod many;
pub mod quota;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use isomer_eval::{EvalClients, EvalConfig, EvalService, Shared};
use isomer_proto::{
    common::v1::{Provenance, Usage},
    eval::v1::{
        CreateRunRequest, GetReportRequest, ReportFormat, Run, RunSpec, SuiteRef, WatchRunRequest, WatchRunResponse,
        run_service_client::RunServiceClient, suite_ref, watch_run_response::Event,
    },
    transform::v1::{
        Axis, Check, EstimateRequest, EstimateResponse, GenerationEstimate, GeneratorCall, Guard, JudgeRequest,
        JudgeResponse, ListTransformationsRequest, ListTransformationsResponse, Measures, Outcome, TextItem,
        TransformRequest, TransformResponse, TransformResult, TransformSpec, TransformStreamEnd,
        TransformStreamRequest, TransformStreamResponse, TransformSummary, TransformationInfo,
        transform_service_server::{TransformService, TransformServiceServer},
        transform_stream_response,
        transformation::Kind,
    },
};
use isomer_service_kit::{Fault, GrpcChannel, Services, dispatch};
use isomer_stubs::{
    encoder::{StubEncoder, texts},
    rpc,
};
use parking_lot::{Mutex, MutexGuard};
use tokio_stream::StreamExt;
use tonic::{Request, Response, Status, codegen::BoxStream};
use uuid::Uuid;

use self::{encoder::Behaviour, quota::Quota};

/// Maps transformation, seed and text to the result.
pub type Rewriter = fn(&str, u64, &str) -> (String, Outcome);
/// Maps transformation and text to texts with another meaning, or to the check that failed.
pub type Changer = fn(&str, &str) -> Result<Vec<String>, Check>;

/// Generates texts by rule and remembers them, like a cache on disk.
#[derive(Debug, Clone, Default)]
pub struct StubTransform {
    /// Number of texts generated (not found).
    pub generated: Arc<AtomicU64>,
    /// Number of texts requested.
    pub asked: Arc<AtomicU64>,
    /// Transformation and id of each requested text.
    pub ids: Arc<Mutex<Vec<(String, String)>>>,
    /// Text and language of each requested text.
    pub languages: Arc<Mutex<Vec<(String, Option<String>)>>>,
    /// Generated texts, with the dispatch that each was generated for.
    pub made: Arc<Mutex<HashMap<String, Option<Uuid>>>>,
    /// Time to generate each text.
    pub pause: Arc<Mutex<Duration>>,
    /// Limit on the number of texts.
    pub quota: Arc<Quota>,
    pub in_flight: Arc<AtomicU64>,
    /// The error that it returns to every request.
    pub down: Arc<Mutex<Option<Fault>>>,
    /// Whether every text ends in a generator error.
    pub silent: Arc<Mutex<bool>>,
    /// The version of the model that writes a text, by the original.
    pub version: Arc<Mutex<Option<fn(&str) -> &'static str>>>,
    /// Whether a meaning guard fires on every text.
    pub guarded: Arc<Mutex<bool>>,
    /// Generates the texts instead of the stub's own rules.
    pub rewriter: Arc<Mutex<Option<Rewriter>>>,
    /// The spec of each request for texts.
    pub specs: Arc<Mutex<Vec<TransformSpec>>>,
    /// Whether texts depend on the seed.
    pub sampled: Arc<Mutex<bool>>,
    /// Writes distractors and swaps words.
    pub changer: Arc<Mutex<Option<Changer>>>,
    /// Calls per text; 0: one.
    pub calls_a_text: Arc<AtomicU64>,
    /// Price of a million tokens, for prompts and answers; `None`: the generator has no prices.
    pub price: Arc<Mutex<Option<f64>>>,
    /// Rates pairs of texts.
    pub judge: judge::StubJudge,
}

/// Languages that the stub translates into, in the order in which the seeds of a run draw them.
pub const TARGETS: [&str; 3] = ["tr", "es", "fr"];

/// The target of a text's translation: the named one, or the one at the seed's rank.
fn target(kind: &Kind, source: Option<&str>) -> Option<String> {
    let Kind::Translation(translation) = kind else {
        return None;
    };
    let drawn = || {
        let permitted: Vec<&str> = TARGETS.into_iter().filter(|target| source != Some(target)).collect();
        permitted[translation.seed_rank.expect("a place among the seeds") as usize % permitted.len()].to_owned()
    };
    Some(translation.target_language.clone().unwrap_or_else(drawn))
}

/// Requests that the service would refuse: an unknown language, or a translation into the source
/// language.
fn refuse(request: &TransformRequest) -> Result<Vec<TransformResult>, Fault> {
    let kind = request
        .spec
        .as_ref()
        .and_then(|spec| spec.transformation.clone()?.kind)
        .unwrap();
    let mut results = Vec::new();
    for (index, item) in request.items.iter().enumerate() {
        if item
            .language
            .as_deref()
            .is_some_and(|language| language.starts_with("xx"))
        {
            let field = format!("items[{index}].language");
            return Err(Fault::invalid(field, "unknown language `xx`").hint("give a BCP-47 tag"));
        }
        let same = item.language.is_some() && target(&kind, item.language.as_deref()) == item.language;
        results.push(TransformResult {
            index: index as u32,
            error: if same {
                "the target is the text's own".to_owned()
            } else {
                String::new()
            },
            ..TransformResult::default()
        });
    }
    Ok(results)
}

fn catalogue() -> Vec<TransformationInfo> {
    let info = |name: &str, axis: Axis, needs_generator, served| TransformationInfo {
        name: name.to_owned(),
        axis: axis.into(),
        needs_generator,
        served,
        prompt_version: if needs_generator {
            format!("{name}@1")
        } else {
            String::new()
        },
        prompt_digest: if needs_generator {
            format!("digest-of-{name}")
        } else {
            String::new()
        },
        ..TransformationInfo::default()
    };
    vec![
        info("paraphrase", Axis::Lexical, true, true),
        info("summarisation", Axis::Length, true, true),
        info("expansion", Axis::Length, true, true),
        info("style_change", Axis::Lexical, true, false),
        info("random_keywords", Axis::Augmentation, false, true),
        info("cross_translation", Axis::Language, true, true),
        TransformationInfo {
            target_languages: TARGETS.map(str::to_owned).to_vec(),
            ..info("translation", Axis::Language, true, true)
        },
    ]
}

impl StubTransform {
    fn make(&self, name: &str, seed: u64, text: &str) -> TransformResult {
        if matches!(name, "distractors" | "multi_swap") {
            let changer = self.changer.lock().expect("a stub that changes meaning");
            let (texts, outcome, failed_checks) = match changer(name, text) {
                Ok(texts) => (texts, Outcome::Ok, vec![]),
                Err(check) => (vec![], Outcome::Failed, vec![check.into()]),
            };
            return TransformResult {
                texts,
                outcome: outcome.into(),
                failed_checks,
                ..TransformResult::default()
            };
        }
        if let Some(rewriter) = *self.rewriter.lock() {
            let (text, outcome) = rewriter(name, seed, text);
            let guards = if *self.guarded.lock() {
                vec![Guard::Negation.into()]
            } else {
                vec![]
            };
            return TransformResult {
                text,
                outcome: outcome.into(),
                guards,
                ..TransformResult::default()
            };
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let turn = if *self.sampled.lock() { seed as usize % 3 } else { 0 };
        let (transformed, outcome, failed) = match name {
            // A text of one word comes back unchanged, as from small models.
            "paraphrase" if words.len() < 2 => (text.to_owned(), Outcome::KeptOriginal, vec![Check::Identical.into()]),
            "paraphrase" => {
                let mut words: Vec<&str> = words.iter().rev().copied().collect();
                words.rotate_left(turn);
                (format!("rather {}", words.join(" ")), Outcome::Ok, vec![])
            }
            "summarisation" => (
                words.iter().take(2 + turn).copied().collect::<Vec<_>>().join(" "),
                Outcome::Recovered,
                vec![],
            ),
            _ => (format!("{text} and so on"), Outcome::Ok, vec![]),
        };
        TransformResult {
            text: transformed,
            outcome: outcome.into(),
            failed_checks: failed,
            retried_checks: if outcome == Outcome::Recovered {
                vec![Check::SummaryLonger.into()]
            } else {
                vec![]
            },
            first_checks: if outcome == Outcome::Ok {
                vec![]
            } else if outcome == Outcome::Recovered {
                vec![Check::SummaryLonger.into()]
            } else {
                vec![Check::Identical.into()]
            },
            // The stub's expansion invents a number, and the names of its language are unknown to
            // the guards.
            guards: if name == "expansion" {
                vec![Guard::Numbers.into()]
            } else {
                vec![]
            },
            guards_untold: if name == "expansion" {
                vec![Guard::Names.into()]
            } else {
                vec![]
            },
            measures: Some(Measures {
                edit_distance: 0.5,
                jaccard: 0.25,
                length_ratio: 0.75,
            }),
            ..TransformResult::default()
        }
    }
}

/// Tokens that the stub reads and writes in a call.
pub const TOKENS: (u64, u64) = (10, 4);

fn usage(calls: u64) -> Usage {
    Usage {
        generator_calls: calls,
        tokens: TOKENS.0 * calls,
        generated_tokens: TOKENS.1 * calls,
        ..Usage::default()
    }
}

fn name_of(kind: &Kind) -> &'static str {
    match kind {
        Kind::Paraphrase(_) => "paraphrase",
        Kind::Summarisation(_) => "summarisation",
        Kind::Expansion(_) => "expansion",
        Kind::RandomKeywords(_) => "random_keywords",
        Kind::CrossTranslation(_) => "cross_translation",
        Kind::Translation(_) => "translation",
        Kind::Distractors(_) => "distractors",
        Kind::MultiSwap(_) => "multi_swap",
        _ => "other",
    }
}

#[tonic::async_trait]
impl TransformService for StubTransform {
    async fn list_transformations(
        &self,
        _: Request<ListTransformationsRequest>,
    ) -> Result<Response<ListTransformationsResponse>, Status> {
        Ok(Response::new(ListTransformationsResponse {
            transformations: catalogue(),
            next_page_token: String::new(),
        }))
    }

    async fn transform(&self, request: Request<TransformRequest>) -> Result<Response<TransformResponse>, Status> {
        let request = request.into_inner();
        assert!(
            request.items.iter().all(|item| item.text.is_empty()),
            "only a probe comes this way"
        );
        let results = refuse(&request)?;
        if request.spec.unwrap().generator_id == "missing" {
            return Err(Fault::not_found("UNKNOWN_GENERATOR", "no generator `missing`")
                .hint("name one")
                .into());
        }
        Ok(Response::new(TransformResponse {
            results,
            ..TransformResponse::default()
        }))
    }

    async fn estimate(&self, request: Request<EstimateRequest>) -> Result<Response<EstimateResponse>, Status> {
        let request = request.into_inner();
        let spec = request.spec.unwrap();
        let kind = spec.transformation.unwrap().kind.unwrap();
        let name = name_of(&kind);
        let mut told = GenerationEstimate {
            texts: request.items.len() as u64,
            ..GenerationEstimate::default()
        };
        if matches!(name, "random_keywords" | "multi_swap") {
            told.texts_by_rule = told.texts;
        } else {
            let made = self.made.lock();
            let key = |item: &TextItem| {
                let target = target(&kind, item.language.as_deref());
                format!("{name}|{}|{target:?}|{}", spec.seed.unwrap(), item.text)
            };
            told.cached_texts = request
                .items
                .iter()
                .filter(|item| made.contains_key(&key(item)))
                .count() as u64;
            told.calls = told.texts - told.cached_texts;
            let attempts = u64::from(spec.max_attempts.unwrap_or(3));
            told.most_calls = attempts * told.calls;
            (told.prompt_tokens, told.generated_tokens) = (TOKENS.0 * told.calls, TOKENS.1 * told.calls);
            let price = *self.price.lock();
            (told.prompt_price, told.generated_price) = (price, price);
            told.cost = price.map(|price| (told.prompt_tokens + told.generated_tokens) as f64 * price / 1e6);
            told.most_cost = told.cost.map(|cost| attempts as f64 * cost);
            told.generator_id = "stub:generator".to_owned();
        }
        Ok(Response::new(EstimateResponse { estimate: Some(told) }))
    }

    async fn judge(&self, request: Request<JudgeRequest>) -> Result<Response<JudgeResponse>, Status> {
        Ok(Response::new(self.judge.judge(request.into_inner()).await?))
    }

    async fn transform_stream(
        &self,
        request: Request<TransformStreamRequest>,
    ) -> Result<Response<BoxStream<TransformStreamResponse>>, Status> {
        if let Some(fault) = self.down.lock().clone() {
            return Err(fault.into());
        }
        let dispatch = dispatch::of_request(&request);
        let request = request.into_inner();
        let spec = request.spec.unwrap();
        self.specs.lock().push(spec.clone());
        let kind = spec.transformation.unwrap().kind.unwrap();
        let name = name_of(&kind);
        let needs_generator = !matches!(name, "random_keywords" | "multi_swap");
        let seed = spec.seed.unwrap();
        let (sender, receiver) = tokio::sync::mpsc::channel(4);
        let stub = self.clone();
        let in_flight = InFlight::new(&self.in_flight);
        tokio::spawn(async move {
            let _in_flight = in_flight;
            let mut calls = 0;
            let needed = stub.calls_a_text.load(Ordering::SeqCst).max(1);
            let calls_a_text = needed.min(spec.max_attempts.unwrap_or(3).into());
            // In reverse order, because the order of a stream is not guaranteed.
            for (index, item) in request.items.into_iter().enumerate().rev() {
                stub.asked.fetch_add(1, Ordering::SeqCst);
                stub.ids.lock().push((name.to_owned(), item.id));
                let asked = (item.text.clone(), item.language.clone());
                stub.languages.lock().push(asked);
                let target = target(&kind, item.language.as_deref());
                let key = format!("{name}|{seed}|{target:?}|{}", item.text);
                let known = stub.made.lock().get(&key).copied();
                let found = known.is_some();
                // As in the real service, a text counts as generated again in its own dispatch.
                let cache_hit = known.is_some_and(|by| by.is_none() || by != dispatch);
                let pause = *stub.pause.lock();
                if !found {
                    tokio::select! {
                        () = sender.closed() => return,
                        () = stub.quota.take() => {}
                    }
                    if !pause.is_zero() {
                        tokio::time::sleep(pause).await;
                    }
                }
                let mut result = stub.make(name, seed, &item.text);
                let cut_short = needs_generator && !found && calls_a_text < needed;
                if cut_short {
                    result.outcome = Outcome::KeptOriginal.into();
                    result.failed_checks = vec![Check::Identical.into()];
                }
                if let Some(target) = &target {
                    result.text = format!("{target} {}", result.text);
                }
                if *stub.silent.lock() {
                    result.outcome = Outcome::KeptOriginal.into();
                    result.failed_checks = vec![Check::GeneratorError.into()];
                    result.error = "connection refused".to_owned();
                }
                if needs_generator && let Some(version) = *stub.version.lock() {
                    result.calls = vec![GeneratorCall {
                        fingerprint: version(&item.text).to_owned(),
                        ..GeneratorCall::default()
                    }];
                }
                result.index = index as u32;
                result.provenance = Some(Provenance {
                    generator_id: if needs_generator {
                        "stub:generator".to_owned()
                    } else {
                        String::new()
                    },
                    generator_digest: "weights-of-generator".to_owned(),
                    cache_hit,
                    languages: target.into_iter().collect(),
                    ..Provenance::default()
                });
                result.usage = (needs_generator && !cache_hit).then(|| usage(calls_a_text));
                let message = TransformStreamResponse {
                    event: Some(transform_stream_response::Event::Result(result)),
                };
                if sender.send(Ok(message)).await.is_err() {
                    return;
                }
                if !found && !cut_short {
                    stub.generated.fetch_add(1, Ordering::SeqCst);
                    stub.made.lock().insert(key, dispatch);
                }
                if !cache_hit {
                    calls += u64::from(needs_generator) * calls_a_text;
                }
            }
            let end = TransformStreamEnd {
                usage: Some(usage(calls)),
                summary: Some(TransformSummary {
                    generator_calls: calls,
                    ..TransformSummary::default()
                }),
                ..TransformStreamEnd::default()
            };
            let message = TransformStreamResponse {
                event: Some(transform_stream_response::Event::End(end)),
            };
            drop(sender.send(Ok(message)).await);
        });
        Ok(Response::new(Box::pin(tokio_stream::wrappers::ReceiverStream::new(
            receiver,
        ))))
    }
}

/// Counts a request until it ends.
struct InFlight(Arc<AtomicU64>);

impl InFlight {
    fn new(count: &Arc<AtomicU64>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The harness of a test: stubs, and a folder that outlives services and runtimes.
#[derive(Clone)]
pub struct Harness {
    pub encoder: StubEncoder,
    manner: Arc<Mutex<Behaviour>>,
    pub transform: StubTransform,
    pub home: Arc<tempfile::TempDir>,
}

impl Harness {
    pub fn new() -> Self {
        let home = Arc::new(tempfile::tempdir().unwrap());
        let manner = Arc::default();
        Self {
            encoder: encoder::encoder(&manner),
            manner,
            transform: StubTransform::default(),
            home,
        }
    }

    /// The encoder's behaviour, which can be changed.
    pub fn manner(&self) -> MutexGuard<'_, Behaviour> {
        self.manner.lock()
    }

    /// A service over the stubs; call it again for a restart.
    pub async fn open(&self) -> (EvalService, RunServiceClient<GrpcChannel>) {
        self.open_with(Shared::default(), |_| ()).await
    }

    /// Like [`Harness::open`], with shared resources and a changed configuration.
    pub async fn open_with(
        &self,
        shared: Shared,
        change: impl FnOnce(&mut EvalConfig),
    ) -> (EvalService, RunServiceClient<GrpcChannel>) {
        let stubs = Services::new()
            .add(self.encoder.service())
            .add(TransformServiceServer::new(self.transform.clone()));
        let channel = rpc::channel(stubs).await;
        let mut config = EvalConfig {
            home: self.home.path().to_owned(),
            data_roots: vec!["/".into()],
            transform_batch_items: 4,
            ..EvalConfig::default()
        };
        change(&mut config);
        let clients = EvalClients {
            encoder: channel.clone(),
            transform: channel,
        };
        let service = EvalService::with_shared(config, clients, None, shared).unwrap();
        let client = rpc::channel(isomer_eval::services(service.clone())).await;
        (
            service,
            RunServiceClient::new(client).max_decoding_message_size(64 << 20),
        )
    }

    /// Writes two small datasets and returns a suite over them.
    pub fn suite(&self, head: &str) -> SuiteRef {
        let folder = self.home.path().join("data");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("sts.jsonl"), STS).unwrap();
        std::fs::write(folder.join("pairs.jsonl"), PAIRS).unwrap();
        let text = format!(
            "name = \"small\"\n{head}\n[[dataset]]\ntask = \"sts\"\npath = \"sts.jsonl\"\n\n[[dataset]]\ntask = \"pair-classification\"\npath = \"pairs.jsonl\"\n"
        );
        SuiteRef {
            source: Some(suite_ref::Source::Toml(text)),
            base_dir: folder.display().to_string(),
            file_name: "small.toml".to_owned(),
        }
    }
}

pub const STS: &str = r#"{"sentence1": "A man plays a guitar on stage.", "sentence2": "A guitarist performs for a crowd.", "score": 4.2}
{"sentence1": "The bridge was closed for repairs.", "sentence2": "Repairs kept the bridge shut.", "score": 4.8}
{"sentence1": "She planted tomatoes in spring.", "sentence2": "The court adjourned until Monday.", "score": 0.1}
{"sentence1": "Rain is expected tomorrow.", "sentence2": "Tomorrow will be wet in the north.", "score": 3.6}
{"sentence1": "Hello", "sentence2": "The committee rejected the proposal.", "score": 0.0}
"#;

pub const PAIRS: &str = r#"{"sentence1": "Rain is expected tomorrow.", "sentence2": "Forecasters expect rain tomorrow.", "label": 1}
{"sentence1": "The shop opens at nine.", "sentence2": "The shop closes at nine.", "label": 0}
{"sentence1": "He fixed the old bicycle.", "sentence2": "The old bicycle was repaired by him.", "label": 1}
{"sentence1": "The train was late again.", "sentence2": "Her soup needed more salt.", "label": 0}
"#;

/// Distinct texts of the two datasets: ten and eight, one of them in both.
pub const DISTINCT: u64 = 17;

pub fn spec(suite: SuiteRef, encoders: &[&str]) -> RunSpec {
    RunSpec {
        suite: Some(suite),
        encoder_ids: encoders.iter().map(|id| (*id).to_owned()).collect(),
        ..RunSpec::default()
    }
}

pub async fn create(client: &mut RunServiceClient<GrpcChannel>, spec: RunSpec) -> Result<Run, Fault> {
    let request = CreateRunRequest {
        spec: Some(spec),
        request_id: String::new(),
    };
    match client.create_run(request).await {
        Ok(answer) => Ok(answer.into_inner().run.unwrap()),
        Err(status) => Err(Fault::from_status(&status)),
    }
}

/// All events of a run until it ends.
pub async fn watch(client: &mut RunServiceClient<GrpcChannel>, id: &str, after: u64) -> Vec<WatchRunResponse> {
    let request = WatchRunRequest {
        id: id.to_owned(),
        after_sequence: after,
    };
    let stream = client.watch_run(request).await.unwrap().into_inner();
    tokio::time::timeout(Duration::from_secs(60), stream.map(Result::unwrap).collect())
        .await
        .expect("the run ends")
}

pub fn ended(events: &[WatchRunResponse]) -> Run {
    match events.last().and_then(|event| event.event.clone()) {
        Some(Event::Ended(run)) => run,
        other => panic!("the last event is {other:?}"),
    }
}

pub async fn run_to_end(client: &mut RunServiceClient<GrpcChannel>, spec: RunSpec) -> Run {
    let run = create(client, spec).await.unwrap();
    ended(&watch(client, &run.id, 0).await)
}

pub async fn report(client: &mut RunServiceClient<GrpcChannel>, id: &str, format: ReportFormat) -> Vec<u8> {
    let request = GetReportRequest {
        id: id.to_owned(),
        format: format.into(),
    };
    client.get_report(request).await.unwrap().into_inner().content
}

pub async fn report_json(client: &mut RunServiceClient<GrpcChannel>, id: &str) -> serde_json::Value {
    serde_json::from_slice(&report(client, id, ReportFormat::Json).await).unwrap()
}

/// Encoder and text, `ENCODER|TEXT`, of each text that was encoded.
pub fn encoded(encoder: &StubEncoder) -> Vec<String> {
    let answered = encoder.calls().into_iter().filter(|call| call.answered);
    answered
        .flat_map(|call| {
            let id = &call.request.encoder_id;
            texts(&call.request)
                .map(|text| format!("{id}|{text}"))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Counts of texts that were encoded more than once.
pub fn repeats(encoder: &StubEncoder) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for text in encoded(encoder) {
        *counts.entry(text).or_default() += 1;
    }
    counts.retain(|_, count| *count > 1);
    counts
}
