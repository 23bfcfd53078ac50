//! An encoder whose vectors follow from texts, a source, and what runs need.

use std::{collections::BTreeMap, path::Path, time::Duration};

use isomer_encoder_client::answer::asks;
use isomer_index::{
    Result,
    chunk::Chunking,
    encode::{AdditionalVectors, Encoder, PromptChoice, Recipe},
    run::{self, Outcome, Settings},
    source::{Columns, Payload, Source},
    store::{self, Credentials, StoredRow, VectorStore},
};
use isomer_proto::{
    common::v1::{Similarity, VectorSpace},
    encoder::v1::{
        EncodeRequest, Encoder as Description, Output, SparseVector, TextTokens, Token, TokenizeResponse,
        encode_request::Prompt,
    },
};
use isomer_service_kit::Fault;
use isomer_stubs::encoder::{StubEncoder, answer, texts};
use serde_json::{Map, Value};

pub(crate) const DIMENSIONS: usize = 8;

/// A word that the encoder does not know.
pub(crate) const UNKNOWN: &str = "qzxv";

/// A word in a text because of which the encoder refuses a whole request.
pub(crate) const REFUSED: &str = "xkcq";

/// The vector of a text in the space of some weights: zero for the unknown word alone, and no two
/// other texts share one.
pub(crate) fn vector_of(weights: &str, prompt: &str, text: &str) -> Vec<f32> {
    if text == UNKNOWN {
        return vec![0.0; DIMENSIONS];
    }
    let hash = blake3::hash(format!("{weights}\n{prompt}\n{text}").as_bytes());
    let numbers = hash.as_bytes()[..DIMENSIONS].iter();
    numbers.map(|byte| f32::from(*byte) / 255.0 + 0.01).collect()
}

pub(crate) const VOCABULARY: usize = 256;

/// The sparse vector of a text: how often each byte is in it.
pub(crate) fn sparse_of(text: &str) -> SparseVector {
    let mut counts = BTreeMap::new();
    for byte in text.bytes() {
        *counts.entry(u32::from(byte)).or_insert(0.0) += 0.1_f32;
    }
    let (indices, values) = counts.into_iter().unzip();
    SparseVector { indices, values }
}

/// A vector of each word.
pub(crate) fn tokens_of(text: &str) -> Vec<Vec<f32>> {
    text.split_whitespace()
        .map(|word| vector_of("tokens", "", word))
        .collect()
}

fn prompt_of(request: &EncodeRequest) -> String {
    match &request.prompt {
        Some(Prompt::PromptName(name)) => format!("{name}: "),
        Some(Prompt::LiteralPrompt(text)) => text.clone(),
        None => String::new(),
    }
}

/// An encoder with a prompt for documents; a token is a word.
pub(crate) fn stub(weights: &'static str) -> StubEncoder {
    stub_in(weights, |space| VectorSpace {
        digest: format!("{} {}", space.weights_digest, space.prompt),
        ..space
    })
}

/// The same, whose spaces this function completes.
pub(crate) fn stub_in(weights: &'static str, complete: fn(VectorSpace) -> VectorSpace) -> StubEncoder {
    let description = Description {
        id: "stub".to_owned(),
        similarity: Similarity::Cosine.into(),
        max_batch_items: 50,
        prompts: ["document", "query"]
            .map(|name| (name.to_owned(), format!("{name}: ")))
            .into(),
        ..Description::default()
    };
    StubEncoder::of([description])
        .on_encode(move |request| async move {
            let request = request.into_inner();
            if texts(&request).any(|text| text.contains(REFUSED)) {
                return Err(Fault::invalid("inputs", "has a text that this model cannot read").into());
            }
            let prompt = prompt_of(&request);
            let mut answered = answer(texts(&request).map(|text| vector_of(weights, &prompt, text)), 4);
            let space = VectorSpace {
                model_id: "stub".to_owned(),
                weights_digest: weights.to_owned(),
                prompt: prompt.clone(),
                dimensions: DIMENSIONS as u32,
                ..VectorSpace::default()
            };
            let beside = |name: &str, dimensions: usize| {
                Some(VectorSpace {
                    digest: format!("{weights} {name}"),
                    dimensions: dimensions as u32,
                    ..space.clone()
                })
            };
            if asks(&request, Output::Sparse) {
                answered.sparse_embeddings = texts(&request).map(sparse_of).collect();
                answered.sparse_vector_space = beside("sparse", VOCABULARY);
            }
            if !request.outputs.is_empty() && asks(&request, Output::TokenVectors) {
                let words: Vec<Vec<Vec<f32>>> = texts(&request).map(tokens_of).collect();
                answered.row_counts = words.iter().map(|words| words.len() as u32).collect();
                answered.token_embeddings = answer(words.into_iter().flatten(), 4).embeddings;
                answered.token_vector_space = beside("tokens", DIMENSIONS);
            }
            answered.vector_space = Some(complete(space));
            Ok(answered)
        })
        .on_tokenize(|request| async move {
            let words = |text: &String| TextTokens {
                tokens: text
                    .split_whitespace()
                    .map(|word| {
                        let start = word.as_ptr() as usize - text.as_ptr() as usize;
                        Token {
                            text: word.to_owned(),
                            start: Some(start as u32),
                            end: Some((start + word.len()) as u32),
                            ..Token::default()
                        }
                    })
                    .collect(),
            };
            let texts = request.get_ref().texts.iter().map(words).collect();
            Ok(TokenizeResponse { texts })
        })
}

pub(crate) async fn encoder(stub: &StubEncoder) -> Encoder {
    encoder_with(stub, AdditionalVectors::default()).await
}

pub(crate) async fn encoder_with(stub: &StubEncoder, additional: AdditionalVectors) -> Encoder {
    let recipe = Recipe {
        encoder: "stub".to_owned(),
        prompt: PromptChoice::Document,
        dimensions: None,
        normalise: None,
        augmentation: None,
        additional,
        patience: Duration::from_millis(10),
    };
    let encoder = Encoder::connect(stub.channel().await, recipe).await.unwrap();
    stub.forget();
    encoder
}

/// A file of rows: key, text, and a payload of one number.
pub(crate) fn write(path: &Path, rows: &[(String, String, i64)]) {
    let lines: Vec<String> = rows
        .iter()
        .map(|(id, text, n)| serde_json::json!({ "id": id, "text": text, "n": n, "left out": true }).to_string())
        .collect();
    std::fs::write(path, lines.join("\n")).unwrap();
}

pub(crate) fn rows(count: usize) -> Vec<(String, String, i64)> {
    (0..count)
        .map(|n| {
            (
                format!("k{n}"),
                format!("text {n}. It has more. And more {n}."),
                n as i64,
            )
        })
        .collect()
}

pub(crate) fn source(path: &Path) -> Source {
    Source::Files {
        path: path.to_owned(),
        columns: Columns {
            key: "id".to_owned(),
            texts: vec!["text".to_owned()],
            payload: Payload::Named(vec!["n".to_owned()]),
        },
    }
}

pub(crate) fn settings() -> Settings {
    Settings {
        chunking: Chunking::Whole,
        with_text: false,
        batch: 7,
        in_flight: 3,
        rows_per_second: 0.0,
        delete: None,
        build_index: false,
    }
}

pub(crate) fn open(address: &str) -> Box<dyn VectorStore> {
    store::open(address, &Credentials::default(), Duration::from_secs(3)).unwrap()
}

pub(crate) async fn fill(path: &Path, address: &str, stub: &StubEncoder, settings: &Settings) -> Result<Outcome> {
    run::run(
        &source(path),
        open(address).as_ref(),
        &encoder(stub).await,
        settings,
        &|_| {},
    )
    .await
}

/// All rows of a collection, by key.
pub(crate) async fn all(address: &str) -> Vec<StoredRow> {
    let store = open(address);
    let (mut rows, mut from) = (Vec::new(), None);
    loop {
        let page = store.scan(from.as_deref()).await.unwrap();
        rows.extend(page.rows);
        match page.next {
            Some(next) => from = Some(next),
            None => break,
        }
    }
    rows.sort_by(|a, b| a.key.cmp(&b.key));
    rows
}

pub(crate) fn payload(n: i64) -> Map<String, Value> {
    Map::from_iter([("n".to_owned(), n.into())])
}
