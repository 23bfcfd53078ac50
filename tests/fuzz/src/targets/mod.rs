//! The table of targets.

mod access;
mod answers;
mod data;
mod http;
mod models;
mod names;
mod providers;
mod settings;
mod wire;

/// A reader and the properties that must hold of it.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name of its corpus folder.
    pub name: &'static str,
    /// Passes the bytes to the reader.
    pub run: fn(&[u8]),
    /// Longest input that is tried.
    pub longest: usize,
    /// The files of the reader, relative to the root of the repository: their coverage is counted.
    /// `FILE: NAME NAME` counts only these functions of the file, for a file whose other functions
    /// never read untrusted bytes.
    pub reads: &'static [&'static str],
}

pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

macro_rules! targets {
    ($($run:path, $longest:expr, [$($file:literal),* $(,)?];)*) => {
        /// All targets.
        pub const TARGETS: &[Target] = &[$(Target {
            name: last(stringify!($run)),
            run: $run,
            longest: $longest,
            reads: &[$($file),*],
        }),*];
    };
}

/// The part of a path after its last `:`.
const fn last(path: &'static str) -> &'static str {
    let bytes = path.as_bytes();
    let mut at = bytes.len();
    while at > 0 && bytes[at - 1] != b':' && bytes[at - 1] != b' ' {
        at -= 1;
    }
    path.split_at(at).1
}

targets! {
    models::safetensors, 16 << 10, [
        "embed-svc/src/weights/mod.rs: open add shape get read bytes halves entry doubles integers", "embed-svc/src/weights/file.rs",
        "crates/models/src/folder.rs: read_safetensors_header",
    ];
    models::gguf, 64 << 10, [
        "crates/local-llm/src/gguf.rs", "crates/local-llm/src/shape.rs", "crates/local-llm/src/vocabulary/mod.rs",
        "crates/local-llm/src/vocabulary/bpe.rs", "crates/local-llm/src/template.rs", "crates/local-llm/src/weights.rs",
    ];
    models::tokenizer, 16 << 10, [
        "embed-svc/src/tokenise/mod.rs: load prompt_tokens words vocabulary encode encode_whole cut_words", "embed-svc/src/tokenise/pairs.rs",
        "embed-svc/src/tokenise/parts.rs", "embed-svc/src/tokenise/pieces.rs",
    ];
    models::model_folder, 16 << 10, [
        "embed-svc/src/folder/mod.rs", "embed-svc/src/folder/modules.rs", "embed-svc/src/folder/pooling.rs", "embed-svc/src/folder/settings.rs",
        "embed-svc/src/folder/stage.rs", "embed-svc/src/folder/words.rs", "embed-svc/src/folder/head.rs", "embed-svc/src/arch/settings.rs",
        "embed-svc/src/weights/mod.rs: shards", "crates/models/src/folder.rs: inspect_encoder modules named file_name is_word_vectors read_json weights_in",
    ];
    models::word_vectors, 8 << 10, ["embed-svc/src/vectors/text_file.rs"];
    models::onnx, 8 << 10, ["crates/models/src/assemble/onnx.rs"];
    models::e5s1, 16 << 10, ["crates/models/src/assemble/e5s1/mod.rs"];
    models::parquet_words, 16 << 10, ["crates/models/src/assemble/parquet.rs"];
    models::npy, 4 << 10, ["crates/models/src/assemble/word_vectors.rs: npy"];
    models::catalogue, 8 << 10, ["crates/models/src/catalogue/read.rs", "crates/models/src/catalogue/entry.rs: packages target"];
    data::rows, 16 << 10, [
        "crates/datasets/src/rows.rs", "crates/datasets/src/row.rs", "crates/datasets/src/files.rs: in_memory single list table label is_tsv new text columns tables inside", "crates/datasets/src/load.rs",
        "crates/datasets/src/labelled.rs", "crates/datasets/src/lists.rs", "crates/datasets/src/pairs.rs", "crates/datasets/src/retrieval.rs",
        "crates/datasets/src/clsd.rs: add read one_word_apart", "crates/datasets/src/bounds.rs",
    ];
    data::suite, 8 << 10, [
        "eval-svc/src/suite/parse.rs", "eval-svc/src/suite/fields.rs", "eval-svc/src/suite/reader.rs", "eval-svc/src/suite/dataset.rs", "crates/transformations/src/transformation.rs: named",
        "eval-svc/src/suite/protocol.rs: guards on_fingerprint_change named retry_identical retry_temperature top_k worded with_prompt reworded", "eval-svc/src/suite/gate.rs",
    ];
    data::card, 4 << 10, ["crates/datasets/src/card.rs"];
    wire::grpc_messages, 16 << 10, ["crates/service-kit/src/layers/elements.rs"];
    wire::grpc_compression, 16 << 10, ["crates/service-kit/src/layers/coding.rs: bound unpack"];
    wire::connect_frames, 16 << 10, ["crates/service-kit/src/connect/codec.rs: take opened too_large gunzip"];
    wire::connect_json, 8 << 10, ["crates/service-kit/src/connect/codec.rs: from_json"];
    http::dialects, 8 << 10, [
        "gateway/src/openai/inputs.rs", "gateway/src/openai/embeddings.rs", "gateway/src/openai/rerank.rs", "gateway/src/dialects/cohere.rs",
        "gateway/src/dialects/ollama.rs", "gateway/src/dialects/tei/mod.rs",
        "gateway/src/dialects/tei/rank.rs", "gateway/src/dialects/tei/tokens.rs", "gateway/src/openai/body.rs: read unreadable",
        "gateway/src/openai/words.rs",
    ];
    http::page, 8 << 10, ["gateway/src/page/trial.rs: read check"];
    access::jwt, 8 << 10, ["gateway/access/src/jwt.rs: verify subject scopes refused"];
    access::key_set, 8 << 10, ["gateway/access/src/jwks.rs: parse public_key"];
    access::credentials, 4 << 10, ["gateway/access/src/credential.rs", "gateway/access/src/key.rs: read without_keys checksum", "gateway/access/src/host.rs: check_local is_local"];
    providers::embeddings, 8 << 10, [
        "gateway/adapters/src/foreign/finish.rs: in_order length of_unit_length check_normalise check_raw learn finish space", "gateway/adapters/src/kinds/openai.rs: embed", "gateway/adapters/src/kinds/cohere.rs: embed rerank",
        "gateway/adapters/src/kinds/voyage.rs: embed rerank", "gateway/adapters/src/kinds/ollama.rs: facts embed", "gateway/adapters/src/kinds/jina.rs: facts embed rerank",
        "gateway/adapters/src/kinds/tei_http.rs: info facts embed count rerank", "gateway/adapters/src/kinds/hugging_face.rs: facts embed", "gateway/adapters/src/kinds/embedding_list.rs",
    ];
    providers::failures, 4 << 10, ["gateway/adapters/src/rest/failure.rs: of_status no_money", "crates/outbound/src/said.rs"];
    providers::addresses, 1 << 10, ["crates/outbound/src/guard/ranges.rs", "crates/outbound/src/guard/mod.rs: check_literal"];
    settings::provider_file, 8 << 10, ["gateway/registry/src/file/mod.rs", "gateway/registry/src/document.rs"];
    settings::configuration, 8 << 10, ["crates/config/src/load.rs: load_from accept data parse layer read_file without_absent deserialize", "crates/config/src/explain.rs"];
    settings::prompt_file, 4 << 10, ["transform-svc/src/prompt/parse.rs"];
    answers::texts, 8 << 10, ["transform-svc/src/clean/mod.rs", "transform-svc/src/clean/reasoning.rs", "transform-svc/src/checks/leaks.rs"];
    answers::lists, 4 << 10, ["transform-svc/src/list/mod.rs", "transform-svc/src/list/marks.rs", "transform-svc/src/distractors.rs"];
    answers::ratings, 256, ["transform-svc/src/judge/number.rs"];
    answers::guards, 4 << 10, [
        "transform-svc/src/guards/numbers/scan.rs", "transform-svc/src/guards/numbers/lex.rs", "transform-svc/src/guards/names/mod.rs",
        "transform-svc/src/guards/negation/mod.rs",
    ];
    names::hub_names, 1 << 10, ["crates/models/src/hub/choose.rs: parse handle", "crates/datasets/src/hub_ref.rs"];
}
