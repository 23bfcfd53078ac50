//! The table: for each rpc and each route, calls that use models, or one that uses none.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use isomer_proto::{
    encoder::v1::{EncodeStreamRequest, RerankRequest},
    eval::v1::{GetRunRequest, RunState, TaskType, run_service_client::RunServiceClient},
    tei::v1 as tei,
    transform::v1::{
        AugmentRequest, AugmentationSpec, EncodeAugmentedRequest, JudgeRequest, JudgeScale, OnFailure,
        PartialFailurePolicy, Sampling, TextItem, TransformRequest, TransformSpec, Transformation, VariantSource,
        judge_request::Pair,
    },
};
use isomer_service_kit::client::{self, ClientConfig};
use isomer_stubs::{request, wait::found};
use prost::Message;
use serde_json::json;

use super::calls;
pub use super::calls::End;
use crate::{
    harness::{Harness, Key},
    models::{ENCODER, REFUSED, SLOW},
};

pub const END: [End; 4] = [End::Answer, End::Error, End::Deadline, End::Gone];

/// A row of the table.
pub struct Case {
    /// The rpc or the route.
    pub row: &'static str,
    pub name: &'static str,
    pub ends: &'static [End],
    /// Whether models are used.
    pub uses: bool,
    way: Way,
}

enum Way {
    /// The messages of the call.
    Grpc(fn(End) -> Vec<Vec<u8>>),
    /// Path, and body of a POST.
    Http(fn(End) -> (String, Option<String>)),
    /// A run, which is watched to its end.
    Run,
    Free,
    /// The server does not offer this.
    Refused,
}

/// A call that can be repeated with the same texts.
pub struct Repeatable {
    row: &'static str,
    request: Request,
}

enum Request {
    Grpc(Vec<Vec<u8>>),
    Http(String, Option<String>),
    Run,
}

impl Repeatable {
    /// The refusal of the call with all its details; `None` if it succeeds.
    pub async fn refusal(&self, harness: &Harness, key: &Key) -> Option<String> {
        match &self.request {
            Request::Grpc(messages) => {
                let ended = calls::all(harness, key, self.row, messages.clone(), End::Error).await;
                let status = ended.err()?;
                Some(format!("{status:?} {}", String::from_utf8_lossy(status.details())))
            }
            Request::Http(path, Some(body)) => calls::refusal(harness, key, path, body).await,
            // A page shows the texts to its own caller.
            Request::Http(_, None) => None,
            Request::Run => run(harness, key).await.err(),
        }
    }

    pub async fn call(&self, harness: &Harness, key: &Key) -> Result<(), String> {
        match &self.request {
            Request::Grpc(messages) => calls::grpc(harness, key, self.row, messages.clone(), End::Answer).await,
            Request::Http(path, body) => calls::http(harness, key, path, body.clone(), End::Answer).await,
            Request::Run => run(harness, key).await,
        }
    }
}

impl Case {
    /// A call of the case with the given end; `None` if it uses no model.
    pub fn repeatable(&self, end: End) -> Option<Repeatable> {
        let request = match &self.way {
            Way::Grpc(messages) => Request::Grpc(messages(end)),
            Way::Http(request) => {
                let (path, body) = request(end);
                Request::Http(path, body)
            }
            Way::Run => Request::Run,
            Way::Free | Way::Refused => return None,
        };
        Some(Repeatable { row: self.row, request })
    }

    pub async fn call(&self, harness: &Harness, key: &Key, end: End) -> Result<(), String> {
        match &self.way {
            Way::Grpc(messages) => calls::grpc(harness, key, self.row, messages(end), end).await,
            Way::Http(request) => {
                let (path, body) = request(end);
                calls::http(harness, key, &path, body, end).await
            }
            Way::Run => run(harness, key).await,
            Way::Refused => calls::refused(harness, key, self.row).await,
            Way::Free if self.row.starts_with("/isomer.") || self.row.starts_with("/tei.v1.") => {
                calls::free(harness, key, self.row).await
            }
            Way::Free => {
                // Any response is accepted.
                let _ = calls::http(harness, key, &self.row.replace(['{', '}', '*'], ""), None, End::Answer).await;
                Ok(())
            }
        }
    }
}

/// A text that is not cached, with the word that makes the call end as required.
pub fn text(end: End) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(1000);
    let number = NUMBER.fetch_add(1, SeqCst);
    let word = match end {
        End::Answer => "quietly",
        End::Error => REFUSED,
        End::Deadline | End::Gone => SLOW,
    };
    format!(
        "The small grey cat on the old wooden bench near the station slept {word} through the night, number {number}."
    )
}

/// Two texts: the first is answered, and the second makes the call end as required.
fn texts(end: End) -> [String; 2] {
    [text(End::Answer), text(end)]
}

fn items(end: End) -> Vec<TextItem> {
    let item = |text| TextItem {
        text,
        language: Some("en".to_owned()),
        ..TextItem::default()
    };
    texts(end).map(item).into()
}

pub fn paraphrase() -> Transformation {
    Transformation::named("paraphrase")
}

pub fn sampling() -> Option<Sampling> {
    Some(Sampling {
        max_tokens: Some(1000),
        ..Sampling::default()
    })
}

fn transform(end: End) -> Vec<Vec<u8>> {
    let request = TransformRequest {
        spec: Some(TransformSpec {
            transformation: Some(paraphrase()),
            on_failure: OnFailure::Fail.into(),
            sampling: sampling(),
            max_attempts: Some(1),
            ..TransformSpec::default()
        }),
        items: items(end),
        ..Default::default()
    };
    vec![request.encode_to_vec()]
}

fn judge(end: End) -> Vec<Vec<u8>> {
    let pair = |original: String| Pair {
        transformed: format!("{original} It did."),
        original,
        ..Pair::default()
    };
    let request = JudgeRequest {
        pairs: texts(end).map(pair).into(),
        scale: JudgeScale::Similarity.into(),
        generator_id: "judge".to_owned(),
        ..JudgeRequest::default()
    };
    vec![request.encode_to_vec()]
}

fn spec() -> AugmentationSpec {
    AugmentationSpec {
        sources: vec![VariantSource {
            transformation: Some(paraphrase()),
            ..VariantSource::default()
        }],
        sampling: sampling(),
        partial_failure: PartialFailurePolicy::Fail.into(),
        max_attempts: Some(1),
        ..AugmentationSpec::default()
    }
}

fn augment(end: End) -> Vec<Vec<u8>> {
    let request = AugmentRequest {
        spec: Some(spec()),
        items: items(end),
    };
    vec![request.encode_to_vec()]
}

fn encode_augmented(end: End) -> Vec<Vec<u8>> {
    let request = EncodeAugmentedRequest {
        spec: Some(spec()),
        items: items(end),
        encoder_id: ENCODER.to_owned(),
        ..EncodeAugmentedRequest::default()
    };
    vec![request.encode_to_vec()]
}

fn encode(end: End) -> Vec<Vec<u8>> {
    vec![request::encode(ENCODER, [text(end)]).encode_to_vec()]
}

fn encode_stream(end: End) -> Vec<Vec<u8>> {
    let message = |text| EncodeStreamRequest {
        request: Some(request::encode(ENCODER, [text])),
        ..EncodeStreamRequest::default()
    };
    texts(end).map(|text| message(text).encode_to_vec()).into()
}

fn rerank(end: End) -> Vec<Vec<u8>> {
    let request = RerankRequest {
        encoder_id: ENCODER.to_owned(),
        query: "Which cat?..".to_owned(),
        documents: vec![text(end)],
        ..RerankRequest::default()
    };
    vec![request.encode_to_vec()]
}

fn score(end: End) -> Vec<Vec<u8>> {
    let rows = (0..4).map(|number| {
        let second = text(if number == 3 { end } else { End::Answer });
        format!(
            "{}\n",
            json!({ "sentence1": text(End::Answer), "sentence2": second, "score": number })
        )
    });
    let file = ("test.jsonl", rows.collect::<String>());
    let request = request::score(TaskType::Sts, ENCODER, request::inline([file]));
    vec![request.encode_to_vec()]
}

fn http_embeddings(end: End) -> (String, Option<String>) {
    let body = json!({ "model": ENCODER, "input": [text(end)] });
    ("/v1/embeddings".to_owned(), Some(body.to_string()))
}

fn http_augmented(end: End) -> (String, Option<String>) {
    let body = json!({
        "model": ENCODER,
        "input": texts(end),
        "augment": { "transformations": ["paraphrase"], "missing_variants": "fail", "language": "en" },
    });
    ("/v1/embeddings".to_owned(), Some(body.to_string()))
}

fn http_azure(end: End) -> (String, Option<String>) {
    let body = json!({ "input": [text(end)] });
    let path = format!("/openai/deployments/{ENCODER}/embeddings?api-version=2024-10-21");
    (path, Some(body.to_string()))
}

fn http_rerank(end: End) -> (String, Option<String>) {
    let body = json!({ "model": ENCODER, "query": "Which cat?..", "documents": [text(end)] });
    ("/v1/rerank".to_owned(), Some(body.to_string()))
}

/// A POST to a path of other servers' APIs. `TEXT` and `MODEL` are replaced by a text and the
/// encoder.
fn post(end: End, path: &str, body: serde_json::Value) -> (String, Option<String>) {
    let body = body.to_string().replace("TEXT", &text(end)).replace("MODEL", ENCODER);
    (path.replace("MODEL", ENCODER), Some(body))
}

/// Calls of other servers' APIs. The paths below `/tei/` have the same handlers as those without
/// it, so one end is enough to show that they are charged.
fn dialects() -> Vec<Case> {
    let http = |row: &'static str, name, request: fn(End) -> (String, Option<String>)| Case {
        ends: if row.starts_with("/tei/") { &[End::Answer] } else { &END },
        ..uses(row, name, Way::Http(request))
    };
    vec![
        http("/v1/embed", "Cohere, version 1", |end| {
            post(end, "/v1/embed", json!({ "model": "MODEL", "texts": ["TEXT"] }))
        }),
        http("/v2/embed", "Cohere, version 2", |end| {
            let body = json!({ "model": "MODEL", "texts": ["TEXT"], "input_type": "clustering" });
            post(end, "/v2/embed", body)
        }),
        http("/v2/rerank", "Cohere, version 2", |end| {
            let body = json!({ "model": "MODEL", "query": "Which cat?..", "documents": ["TEXT"] });
            post(end, "/v2/rerank", body)
        }),
        http("/api/embed", "Ollama", |end| {
            post(end, "/api/embed", json!({ "model": "MODEL", "input": "TEXT" }))
        }),
        http("/api/embeddings", "Ollama", |end| {
            post(end, "/api/embeddings", json!({ "model": "MODEL", "prompt": "TEXT" }))
        }),
        http("/", "the hub's client", |end| {
            post(end, "/?model=MODEL", json!({ "inputs": "TEXT" }))
        }),
        http("/tei/{model}", "the hub's client", |end| {
            post(end, "/tei/MODEL", json!({ "inputs": "TEXT" }))
        }),
        http("/embed", "TEI", |end| {
            post(end, "/embed?model=MODEL", json!({ "inputs": "TEXT" }))
        }),
        http("/tei/{model}/embed", "TEI", |end| {
            post(end, "/tei/MODEL/embed", json!({ "inputs": "TEXT" }))
        }),
        http("/embed_all", "TEI", |end| {
            post(end, "/embed_all?model=MODEL", json!({ "inputs": "TEXT" }))
        }),
        http("/tei/{model}/embed_all", "TEI", |end| {
            post(end, "/tei/MODEL/embed_all", json!({ "inputs": "TEXT" }))
        }),
        http("/embed_sparse", "TEI", |end| {
            post(end, "/embed_sparse?model=MODEL", json!({ "inputs": "TEXT" }))
        }),
        http("/tei/{model}/embed_sparse", "TEI", |end| {
            post(end, "/tei/MODEL/embed_sparse", json!({ "inputs": "TEXT" }))
        }),
        http("/rerank", "TEI", |end| {
            post(
                end,
                "/rerank?model=MODEL",
                json!({ "query": "Which cat?..", "texts": ["TEXT"] }),
            )
        }),
        http("/tei/{model}/rerank", "TEI", |end| {
            post(
                end,
                "/tei/MODEL/rerank",
                json!({ "query": "Which cat?..", "texts": ["TEXT"] }),
            )
        }),
        http("/predict", "TEI", |end| {
            post(
                end,
                "/predict?model=MODEL",
                json!({ "inputs": ["Which cat?..", "TEXT"] }),
            )
        }),
        http("/tei/{model}/predict", "TEI", |end| {
            post(
                end,
                "/tei/MODEL/predict",
                json!({ "inputs": [["Which cat?..", "TEXT"]] }),
            )
        }),
        http("/similarity", "TEI", |end| {
            let compared = json!({ "source_sentence": "Of the TEXT", "sentences": ["TEXT"] });
            post(end, "/similarity?model=MODEL", json!({ "inputs": compared }))
        }),
        http("/tei/{model}/similarity", "TEI", |end| {
            let compared = json!({ "source_sentence": "Of the TEXT", "sentences": ["TEXT"] });
            post(end, "/tei/MODEL/similarity", json!({ "inputs": compared }))
        }),
    ]
}

/// text-embeddings-inference over gRPC; the calls name the encoder in their metadata.
fn tei() -> Vec<Case> {
    let grpc = |row, messages: fn(End) -> Vec<Vec<u8>>| uses(row, "TEI", Way::Grpc(messages));
    vec![
        grpc("/tei.v1.Embed/Embed", |end| vec![tei_text(text(end))]),
        grpc("/tei.v1.Embed/EmbedStream", |end| texts(end).map(tei_text).into()),
        grpc("/tei.v1.Embed/EmbedAll", |end| vec![tei_text(text(end))]),
        grpc("/tei.v1.Embed/EmbedAllStream", |end| texts(end).map(tei_text).into()),
        grpc("/tei.v1.Embed/EmbedSparse", |end| vec![tei_text(text(end))]),
        grpc("/tei.v1.Embed/EmbedSparseStream", |end| texts(end).map(tei_text).into()),
        grpc("/tei.v1.Predict/PredictPair", |end| vec![tei_pair(text(end))]),
        grpc("/tei.v1.Predict/PredictPairStream", |end| {
            texts(end).map(tei_pair).into()
        }),
        grpc("/tei.v1.Rerank/Rerank", |end| vec![tei_rerank(vec![text(end)])]),
        Case {
            // Its documents are ranked when the last one has arrived, so a client that leaves
            // earlier has used nothing.
            ends: &[End::Answer, End::Error],
            ..grpc("/tei.v1.Rerank/RerankStream", |end| {
                let message = |text| tei::RerankStreamRequest {
                    query: "Which cat?..".to_owned(),
                    text,
                    ..tei::RerankStreamRequest::default()
                };
                texts(end).map(|text| message(text).encode_to_vec()).into()
            })
        },
    ]
}

/// The messages of Embed, EmbedAll and EmbedSparse have the text in the same place.
fn tei_text(text: String) -> Vec<u8> {
    let request = tei::EmbedRequest {
        inputs: text,
        ..tei::EmbedRequest::default()
    };
    request.encode_to_vec()
}

fn tei_pair(text: String) -> Vec<u8> {
    let request = tei::PredictPairRequest {
        inputs: vec!["Which cat?..".to_owned(), text],
        ..tei::PredictPairRequest::default()
    };
    request.encode_to_vec()
}

fn tei_rerank(texts: Vec<String>) -> Vec<u8> {
    let request = tei::RerankRequest {
        query: "Which cat?..".to_owned(),
        texts,
        ..tei::RerankRequest::default()
    };
    request.encode_to_vec()
}

fn page(end: End) -> (String, Option<String>) {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query
        .append_pair("first", &text(End::Answer))
        .append_pair("second", &text(end));
    query
        .append_pair("encoder", ENCODER)
        .append_pair("transformation", "paraphrase");
    (format!("/?{}", query.finish()), None)
}

async fn run(harness: &Harness, key: &Key) -> Result<(), String> {
    let config = ClientConfig {
        address: format!("http://{}", harness.address),
        api_key: key.text.clone(),
        ..ClientConfig::default()
    };
    let mut client = RunServiceClient::new(client::connect_lazy(&config).unwrap());
    let request = request::small_run(ENCODER);
    let made = client.create_run(request).await.map_err(|status| status.to_string())?;
    let id = made.into_inner().run.unwrap().id;
    let ended = async || {
        let request = GetRunRequest { id: id.clone() };
        let run = client.get_run(request).await.unwrap().into_inner().run.unwrap();
        match run.state() {
            RunState::Succeeded => Some(Ok(())),
            RunState::Pending | RunState::Running => None,
            _ => Some(Err(run.error)),
        }
    };
    found("the run ends", ended).await
}

fn uses(row: &'static str, name: &'static str, way: Way) -> Case {
    Case {
        row,
        name,
        ends: &END,
        uses: true,
        way,
    }
}

pub fn all() -> Vec<Case> {
    use Way::{Grpc, Http};
    let mut all = vec![
        uses("/isomer.encoder.v1.EncoderService/Encode", "a text", Grpc(encode)),
        uses(
            "/isomer.encoder.v1.EncoderService/EncodeStream",
            "two messages",
            Grpc(encode_stream),
        ),
        uses("/isomer.encoder.v1.EncoderService/Rerank", "a document", Grpc(rerank)),
        uses(
            "/isomer.transform.v1.TransformService/Transform",
            "two texts",
            Grpc(transform),
        ),
        uses(
            "/isomer.transform.v1.TransformService/TransformStream",
            "two texts",
            Grpc(transform),
        ),
        uses("/isomer.transform.v1.TransformService/Judge", "two pairs", Grpc(judge)),
        uses(
            "/isomer.transform.v1.AugmentationService/Augment",
            "two texts",
            Grpc(augment),
        ),
        uses(
            "/isomer.transform.v1.AugmentationService/EncodeAugmented",
            "two texts",
            Grpc(encode_augmented),
        ),
        uses("/isomer.eval.v1.TaskService/Score", "four pairs", Grpc(score)),
        uses("/v1/embeddings", "a text", Http(http_embeddings)),
        uses("/v1/embeddings", "augmented", Http(http_augmented)),
        uses("/openai/deployments/{*path}", "a text", Http(http_azure)),
        uses("/v1/rerank", "a document", Http(http_rerank)),
        Case {
            // The page displays the failure and is served anyway.
            ends: &[End::Answer, End::Deadline, End::Gone],
            ..uses("/", "a trial", Http(page))
        },
        Case {
            // Abandoned, cancelled and restarted runs are tested in gateway/tests/it/runs.rs.
            ends: &[End::Answer],
            ..uses("/isomer.eval.v1.RunService/CreateRun", "a run", Way::Run)
        },
    ];
    all.extend(dialects());
    all.extend(tei());
    all.extend(REFUSED_RPCS.iter().map(|row| Case {
        ends: &[End::Answer],
        uses: false,
        ..uses(row, "refused", Way::Refused)
    }));
    all.extend(FREE.iter().map(|row| Case {
        ends: &[End::Answer],
        uses: false,
        ..uses(row, "nothing", Way::Free)
    }));
    all
}

/// Calls that use no model. CheckProvider does use one, for an administrator: its
/// few texts are the gateway's own.
const FREE: &[&str] = &[
    "/isomer.encoder.v1.EncoderService/CountTokens",
    "/isomer.encoder.v1.EncoderService/GetEncoder",
    "/isomer.encoder.v1.EncoderService/ListEncoders",
    "/isomer.encoder.v1.EncoderService/Tokenize",
    "/isomer.encoder.v1.EncoderService/Detokenize",
    "/isomer.eval.v1.RunService/CancelRun",
    "/isomer.eval.v1.RunService/DeleteRun",
    "/isomer.eval.v1.RunService/GetFleet",
    "/isomer.eval.v1.RunService/GetHistory",
    "/isomer.eval.v1.RunService/GetReport",
    "/isomer.eval.v1.RunService/GetRun",
    "/isomer.eval.v1.RunService/ListRuns",
    "/isomer.eval.v1.RunService/PlanRun",
    "/isomer.eval.v1.RunService/WatchRun",
    "/isomer.eval.v1.StatisticsService/AdjustPValues",
    "/isomer.eval.v1.StatisticsService/Agreement",
    "/isomer.eval.v1.StatisticsService/Bootstrap",
    "/isomer.eval.v1.StatisticsService/Compare",
    "/isomer.eval.v1.StatisticsService/ComparePairs",
    "/isomer.eval.v1.StatisticsService/CompareRanks",
    "/isomer.eval.v1.StatisticsService/Correlate",
    "/isomer.eval.v1.StatisticsService/PlanDesign",
    "/isomer.eval.v1.StatisticsService/RankStability",
    "/isomer.eval.v1.StatisticsService/Reliability",
    "/isomer.eval.v1.TaskService/ListDatasets",
    "/isomer.eval.v1.TaskService/ListTasks",
    "/isomer.gateway.v1.AccessService/CreateKey",
    "/isomer.gateway.v1.AccessService/GetKey",
    "/isomer.gateway.v1.AccessService/ListAuditEvents",
    "/isomer.gateway.v1.AccessService/ListKeys",
    "/isomer.gateway.v1.AccessService/RevokeKey",
    "/isomer.gateway.v1.AccessService/UpdateKey",
    "/isomer.gateway.v1.ProviderService/CheckProvider",
    "/isomer.gateway.v1.ProviderService/CreateProvider",
    "/isomer.gateway.v1.ProviderService/DeleteProvider",
    "/isomer.gateway.v1.ProviderService/GetProvider",
    "/isomer.gateway.v1.ProviderService/ListProviders",
    "/isomer.gateway.v1.ProviderService/RenewLease",
    "/isomer.gateway.v1.ProviderService/UpdateProvider",
    "/isomer.transform.v1.TransformService/Estimate",
    "/isomer.transform.v1.TransformService/Inspect",
    "/isomer.transform.v1.TransformService/ListTransformations",
    "/history/{file}",
    "/runs/{id}/{file}",
    "/v1/models",
    "/v1/models/{*id}",
    "/api/show",
    "/api/tags",
    "/api/version",
    "/decode",
    "/health",
    "/info",
    "/ping",
    "/tokenize",
    "/tei/{model}/decode",
    "/tei/{model}/health",
    "/tei/{model}/info",
    "/tei/{model}/ping",
    "/tei/{model}/tokenize",
    "/tei.v1.Info/Info",
    "/tei.v1.Tokenize/Decode",
    "/tei.v1.Tokenize/DecodeStream",
    "/tei.v1.Tokenize/Tokenize",
    "/tei.v1.Tokenize/TokenizeStream",
];

/// Calls that are refused, whatever their request.
const REFUSED_RPCS: &[&str] = &["/tei.v1.Predict/Predict", "/tei.v1.Predict/PredictStream"];
