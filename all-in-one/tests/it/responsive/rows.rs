//! The table: a large or long request for each rpc and each route.

use std::sync::LazyLock;

use isomer_proto::{
    common::v1::{Dtype, Matrix},
    encoder::v1::{
        CountTokensRequest, DetokenizeRequest, EncodeRequest, EncodeStreamRequest, RerankRequest, TokenIds,
        TokenizeRequest,
    },
    eval::v1::{
        CreateRunRequest, PlanRunRequest, RetrievalVectors, RunSpec, ScoreRequest, TaskType,
        retrieval_vectors::Judgement, score_request,
    },
    tei::v1 as tei,
    transform::v1::{
        AugmentRequest, AugmentationSpec, EncodeAugmentedRequest, EstimateRequest, InspectRequest, JudgeRequest,
        JudgeScale, MultiSwap, Paraphrase, RandomKeywords, StopwordRemoval, TextItem, TransformRequest, TransformSpec,
        Transformation, VariantSource, inspect_request, judge_request, transformation::Kind,
    },
};
use isomer_stubs::request;
use prost::Message;
use prost_types::field_descriptor_proto::Type;

use super::{http, statistics};
use crate::{models::ENCODER, promises::comments};

/// Factor on the sizes in a release build.
pub const SCALE: u32 = if cfg!(debug_assertions) { 1 } else { 16 };
/// Slightly less than the maximum size of a message.
const LARGE: usize = 31 << 20;

/// The dominant cost of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    Computing,
    /// Moving and decoding its bytes.
    Moving,
}

pub struct Row {
    pub name: String,
    pub what: &'static str,
    pub takes: Cost,
    /// Makes the request, which is large.
    pub request: Box<dyn FnOnce() -> Way + Send>,
}

pub enum Way {
    /// One message.
    Grpc(Vec<u8>),
    /// Path, and body of a POST.
    Http(String, String),
}

pub fn grpc<M: Message>(
    rpc: &str,
    what: &'static str,
    takes: Cost,
    message: impl FnOnce() -> M + Send + 'static,
) -> Row {
    Row {
        name: format!("/isomer.{rpc}"),
        what,
        takes,
        request: Box::new(move || Way::Grpc(message().encode_to_vec())),
    }
}

/// The maximum number of texts for an encoder, together nearly as large as the largest message.
pub fn texts() -> Vec<String> {
    let text = |number: usize| format!("Number {number}. {}", "The small grey cat slept. ".repeat(180));
    (0..4096).map(text).collect()
}

fn long(words: usize, step: usize) -> String {
    (0..words).map(|n| format!("w{} ", n * step % 9973)).collect()
}

/// English texts whose language is not given.
fn items(count: usize) -> Vec<TextItem> {
    let item = |number: usize| TextItem {
        id: number.to_string(),
        text: format!(
            "Number {number}. {}",
            "The small grey cat slept on the old bench near a station. ".repeat(330)
        ),
        language: None,
    };
    (0..count).map(item).collect()
}

fn kind(kind: Kind) -> Option<Transformation> {
    Some(kind.into())
}

fn transform(kind_of: Kind, count: usize) -> TransformRequest {
    TransformRequest {
        spec: Some(TransformSpec {
            transformation: kind(kind_of),
            ..TransformSpec::default()
        }),
        items: items(count),
        ..Default::default()
    }
}

fn augmentation() -> AugmentationSpec {
    AugmentationSpec {
        sources: vec![VariantSource {
            transformation: kind(Kind::RandomKeywords(RandomKeywords::default())),
            generator_id: "none".to_owned(),
        }],
        ..AugmentationSpec::default()
    }
}

fn encode() -> EncodeRequest {
    request::encode(ENCODER, texts())
}

fn inspect() -> InspectRequest {
    let pair = inspect_request::Pair {
        original: long(4_000, 7),
        transformed: long(4_000, 11),
        expected_language: Some("en".to_owned()),
    };
    InspectRequest {
        pairs: vec![pair; 2 * SCALE as usize],
        transformation: kind(Kind::Paraphrase(Paraphrase {})),
    }
}

fn judge(count: usize) -> JudgeRequest {
    let judged = |item: TextItem| judge_request::Pair {
        transformed: format!("{} It did.", &item.text[..item.text.len() - 20]),
        original: item.text,
        ..judge_request::Pair::default()
    };
    JudgeRequest {
        pairs: items(count).into_iter().map(judged).collect(),
        scale: JudgeScale::Similarity.into(),
        generator_id: "judge".to_owned(),
        ..JudgeRequest::default()
    }
}

fn transforms() -> Vec<Row> {
    // Long enough that a busy machine does not decide what is measured.
    let count = 60.max(20 * SCALE as usize);
    let t = |rpc: &str| format!("transform.v1.TransformService/{rpc}");
    let a = |rpc: &str| format!("transform.v1.AugmentationService/{rpc}");
    let stopwords = || Kind::StopwordRemoval(StopwordRemoval {});
    vec![
        grpc(
            &t("Transform"),
            "long texts of unknown languages",
            Cost::Computing,
            move || transform(stopwords(), count),
        ),
        grpc(&t("Transform"), "swaps in long texts", Cost::Computing, move || {
            transform(Kind::MultiSwap(MultiSwap::default()), count / 10)
        }),
        grpc(
            &t("TransformStream"),
            "long texts of unknown languages",
            Cost::Computing,
            move || transform(stopwords(), count),
        ),
        grpc(
            &t("Estimate"),
            "long texts for a generator",
            Cost::Computing,
            move || EstimateRequest {
                spec: Some(TransformSpec {
                    transformation: kind(Kind::Paraphrase(Paraphrase {})),
                    generator_id: "judge".to_owned(),
                    ..TransformSpec::default()
                }),
                items: items(count),
            },
        ),
        grpc(
            &t("Inspect"),
            "long pairs without a word in its place",
            Cost::Computing,
            inspect,
        ),
        grpc(&t("Judge"), "long pairs", Cost::Moving, move || judge(count)),
        grpc(
            &a("Augment"),
            "long texts of unknown languages",
            Cost::Computing,
            move || AugmentRequest {
                spec: Some(augmentation()),
                items: items(count),
            },
        ),
        grpc(
            &a("EncodeAugmented"),
            "long texts of unknown languages",
            Cost::Computing,
            move || EncodeAugmentedRequest {
                spec: Some(augmentation()),
                items: items(count),
                encoder_id: ENCODER.to_owned(),
                ..EncodeAugmentedRequest::default()
            },
        ),
    ]
}

fn matrix(rows: usize, cols: usize) -> Option<Matrix> {
    let value = |n: usize| ((n * 7919 % 10_007) as f32 / 10_007.0 - 0.5).to_le_bytes();
    Some(Matrix {
        rows: rows as u32,
        cols: cols as u32,
        dtype: Dtype::F32.into(),
        data: (0..rows * cols).flat_map(value).collect::<Vec<u8>>().into(),
    })
}

fn pairs() -> ScoreRequest {
    let pair = |n| {
        format!(
            "{{\"sentence1\": \"a cat number {n}\", \"sentence2\": \"a dog {n}\", \"score\": {}}}\n",
            n % 6
        )
    };
    let pairs: String = (0..2000 * SCALE).map(pair).collect();
    request::score(TaskType::Sts, ENCODER, request::inline([("test.jsonl", pairs)]))
}

fn retrieval() -> ScoreRequest {
    let (queries, documents) = (100 * SCALE as usize, 4000);
    let id = |prefix: &'static str| move |n: usize| format!("{prefix}{n}");
    let vectors = RetrievalVectors {
        queries: matrix(queries, 64),
        query_ids: (0..queries).map(id("q")).collect(),
        documents: matrix(documents, 64),
        document_ids: (0..documents).map(id("d")).collect(),
        judgements: (0..queries)
            .map(|n| Judgement {
                query_id: format!("q{n}"),
                document_id: format!("d{n}"),
                relevance: 1,
            })
            .collect(),
    };
    ScoreRequest {
        task_type: TaskType::Retrieval.into(),
        input: Some(score_request::Input::Retrieval(vectors)),
        ..ScoreRequest::default()
    }
}

/// A suite with many seeds. It has no data set, so it starts no run.
/// As many seeds and rules as a suite may have.
fn long_run() -> Option<RunSpec> {
    let seeds: Vec<String> = (0..1000).map(|seed| seed.to_string()).collect();
    let rules: String = (1..=1000)
        .map(|limit| format!("[[gate.rule]]\nmax_drop = {limit}\nof = \"paraphrase\"\nbasis = \"point\"\n"))
        .collect();
    let suite = format!(
        "name = \"long\"\ntransformations = [\"paraphrase\"]\nseeds = [{}]\n{rules}",
        seeds.join(", ")
    );
    Some(RunSpec {
        suite: Some(request::suite(suite)),
        ..RunSpec::default()
    })
}

fn tasks() -> Vec<Row> {
    let score = "eval.v1.TaskService/Score";
    vec![
        grpc(score, "a file of pairs", Cost::Computing, pairs),
        grpc(score, "vectors of a search", Cost::Computing, retrieval),
        grpc("eval.v1.RunService/CreateRun", "a long suite", Cost::Moving, || {
            CreateRunRequest {
                spec: long_run(),
                ..CreateRunRequest::default()
            }
        }),
        grpc("eval.v1.RunService/PlanRun", "a long suite", Cost::Moving, || {
            PlanRunRequest {
                spec: long_run(),
                power: Some(0.8),
            }
        }),
    ]
}

fn encoders() -> Vec<Row> {
    let e = |rpc: &str| format!("encoder.v1.EncoderService/{rpc}");
    vec![
        grpc(
            &e("Encode"),
            "as many and as long texts as allowed",
            Cost::Moving,
            encode,
        ),
        grpc(
            &e("EncodeStream"),
            "as many and as long texts as allowed",
            Cost::Moving,
            || EncodeStreamRequest {
                client_index: 1,
                request: Some(encode()),
            },
        ),
        grpc(
            &e("CountTokens"),
            "as many and as long texts as allowed",
            Cost::Moving,
            || CountTokensRequest {
                encoder_id: ENCODER.to_owned(),
                texts: texts(),
                ..CountTokensRequest::default()
            },
        ),
        grpc(
            &e("Tokenize"),
            "as many and as long texts as allowed",
            Cost::Moving,
            || TokenizeRequest {
                encoder_id: ENCODER.to_owned(),
                texts: texts(),
                ..TokenizeRequest::default()
            },
        ),
        grpc(
            &e("Detokenize"),
            "as many and as long lists as allowed",
            Cost::Moving,
            || DetokenizeRequest {
                encoder_id: ENCODER.to_owned(),
                token_ids: vec![
                    TokenIds {
                        ids: vec![30_000; 2048]
                    };
                    4096
                ],
                ..DetokenizeRequest::default()
            },
        ),
        grpc(
            &e("Rerank"),
            "as many and as long documents as allowed",
            Cost::Moving,
            || RerankRequest {
                encoder_id: ENCODER.to_owned(),
                query: "Which cat?".to_owned(),
                documents: texts(),
                ..RerankRequest::default()
            },
        ),
    ]
}

/// The longest text that is allowed: the first field of several messages.
fn text() -> Vec<u8> {
    static TEXT: LazyLock<Vec<u8>> = LazyLock::new(|| field(1, long(LARGE / 6, 7).as_bytes()));
    TEXT.clone()
}

fn documents() -> Vec<u8> {
    tei::RerankRequest {
        query: "Which cat?".to_owned(),
        texts: texts(),
        ..tei::RerankRequest::default()
    }
    .encode_to_vec()
}

fn ids() -> Vec<u8> {
    tei::DecodeRequest {
        ids: vec![30_000; LARGE / 3],
        ..tei::DecodeRequest::default()
    }
    .encode_to_vec()
}

/// text-embeddings-inference's rpcs take one text at a time, so a call reads one message.
fn tei() -> Vec<Row> {
    let row = |rpc: &str, what, message: fn() -> Vec<u8>| Row {
        name: format!("/tei.v1.{rpc}"),
        what,
        takes: Cost::Moving,
        request: Box::new(move || Way::Grpc(message())),
    };
    let mut rows: Vec<Row> = [
        "Embed/Embed",
        "Embed/EmbedStream",
        "Embed/EmbedAll",
        "Embed/EmbedAllStream",
        "Embed/EmbedSparse",
        "Embed/EmbedSparseStream",
        "Predict/Predict",
        "Predict/PredictStream",
        "Predict/PredictPair",
        "Predict/PredictPairStream",
        "Rerank/RerankStream",
        "Tokenize/Tokenize",
        "Tokenize/TokenizeStream",
    ]
    .map(|rpc| row(rpc, "the longest text that is allowed", text))
    .into();
    rows.push(row(
        "Rerank/Rerank",
        "as many and as long documents as allowed",
        documents,
    ));
    for rpc in ["Tokenize/Decode", "Tokenize/DecodeStream"] {
        rows.push(row(rpc, "as many tokens as allowed", ids));
    }
    rows.push(row("Info/Info", "the longest unknown field that is allowed", unknown));
    rows
}

/// Rpcs that compute nothing from their message: they get a message of the maximum size, nearly all
/// of it one text.
const SMALL: &[&str] = &[
    "/isomer.encoder.v1.EncoderService/GetEncoder",
    "/isomer.encoder.v1.EncoderService/ListEncoders",
    "/isomer.eval.v1.RunService/CancelRun",
    "/isomer.eval.v1.RunService/DeleteRun",
    "/isomer.eval.v1.RunService/GetFleet",
    "/isomer.eval.v1.RunService/GetHistory",
    "/isomer.eval.v1.RunService/GetReport",
    "/isomer.eval.v1.RunService/GetRun",
    "/isomer.eval.v1.RunService/ListRuns",
    "/isomer.eval.v1.RunService/WatchRun",
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
    "/isomer.transform.v1.TransformService/ListTransformations",
];

fn small() -> Vec<Row> {
    let requests = comments::rpcs();
    let row = |name: &&str| {
        let (_, request) = requests.iter().find(|(path, _)| path == name).unwrap().clone();
        Row {
            name: (*name).to_owned(),
            what: "the longest text that is allowed",
            takes: Cost::Moving,
            request: Box::new(move || Way::Grpc(texted(&request, 3).unwrap_or_else(unknown))),
        }
    };
    SMALL.iter().map(row).collect()
}

fn field(number: i32, content: &[u8]) -> Vec<u8> {
    let mut wire = Vec::with_capacity(content.len() + 10);
    prost::encoding::encode_key(number as u32, prost::encoding::WireType::LengthDelimited, &mut wire);
    prost::encoding::encode_varint(content.len() as u64, &mut wire);
    wire.extend_from_slice(content);
    wire
}

/// A message that has no text: an unknown field, which a decoder skips.
fn unknown() -> Vec<u8> {
    field(1000, &vec![b'a'; LARGE])
}

/// The bytes of a message whose first text has the maximum length, if it has a text.
fn texted(message: &str, depth: usize) -> Option<Vec<u8>> {
    let fields = comments::message(message)?.field;
    if let Some(text) = fields.iter().find(|field| field.r#type() == Type::String) {
        return Some(field(text.number(), &vec![b'a'; LARGE]));
    }
    let inner = fields
        .iter()
        .filter(|field| field.r#type() == Type::Message && depth > 0);
    inner
        .filter_map(|outer| {
            let content = texted(outer.type_name().trim_start_matches('.'), depth - 1)?;
            Some(field(outer.number(), &content))
        })
        .next()
}

pub fn all() -> Vec<Row> {
    [
        encoders(),
        transforms(),
        tasks(),
        statistics::rows(),
        small(),
        tei(),
        http::rows(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
