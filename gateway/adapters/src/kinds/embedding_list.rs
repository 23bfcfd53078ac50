//! Answers in OpenAI's format, which Voyage and Jina use too: a list of vectors with their indices.

use std::fmt;

use base64::{Engine, prelude::BASE64_STANDARD};
use isomer_service_kit::Fault;
use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};

use crate::{
    foreign::{Rows, Scores, in_order},
    rest::bad_answer,
};

/// `{"data": [{"index", "embedding"}], "usage": {"total_tokens"}}`.
#[derive(Debug, Deserialize)]
pub(super) struct EmbeddingList {
    data: Vec<Item>,
    usage: Option<TokenUsage>,
}

#[derive(Debug, Deserialize)]
struct Item {
    index: usize,
    embedding: Vector,
}

/// Numbers, or the same numbers as little-endian 32-bit floats in base64. A server without base64
/// returns numbers even if base64 was requested. Deserialised by hand: an untagged enum would first
/// try to read the text as numbers, and write an error that contains the whole text.
#[derive(Debug)]
enum Vector {
    Floats(Vec<f32>),
    NotBase64,
}

impl<'de> Deserialize<'de> for Vector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(VectorVisitor)
    }
}

struct VectorVisitor;

impl<'de> Visitor<'de> for VectorVisitor {
    type Value = Vector;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of numbers, or floats in base64")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vector, E> {
        Ok(floats(text).map_or(Vector::NotBase64, Vector::Floats))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vector, A::Error> {
        let mut values = Vec::with_capacity(list.size_hint().unwrap_or(0));
        while let Some(value) = list.next_element::<f64>()? {
            // A value beyond f32 becomes infinite. A later check reports it with the text's number.
            values.push(value as f32);
        }
        Ok(Vector::Floats(values))
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct TokenUsage {
    total_tokens: Option<u64>,
    prompt_tokens: Option<u64>,
}

impl TokenUsage {
    /// OpenAI-compatible servers that do not count tokens report 0.
    pub(super) fn tokens(&self) -> Option<u64> {
        self.prompt_tokens.or(self.total_tokens).filter(|tokens| *tokens > 0)
    }
}

impl EmbeddingList {
    /// The vectors of `count` texts, in their order.
    pub(super) fn rows(self, id: &str, count: usize) -> Result<Rows, Fault> {
        let tokens = self.usage.and_then(|usage| usage.tokens());
        let read = |item: Item| {
            let vector = match item.embedding {
                Vector::Floats(values) => values,
                Vector::NotBase64 => {
                    let what = format!("the vector of text {} is not base64 of floats", item.index);
                    return Err(bad_answer(id, what));
                }
            };
            Ok((item.index, vector))
        };
        let items: Vec<(usize, Vec<f32>)> = self.data.into_iter().map(read).collect::<Result<_, Fault>>()?;
        Ok(Rows {
            vectors: in_order(id, count, items)?,
            tokens,
            each: None,
        })
    }
}

fn floats(text: &str) -> Option<Vec<f32>> {
    let bytes = BASE64_STANDARD.decode(text).ok()?;
    bytes
        .len()
        .is_multiple_of(size_of::<f32>())
        .then(|| isomer_service_kit::vectors::floats(&bytes).collect())
}

/// `{"index", "relevance_score"}`, Cohere's format, which Voyage and Jina use too.
#[derive(Debug, Deserialize)]
pub(super) struct Relevance {
    index: usize,
    relevance_score: f32,
}

/// The scores of a rerank answer: Jina lists them as `results`, Voyage as `data`.
#[derive(Debug, Deserialize)]
pub(super) struct RelevanceList {
    #[serde(alias = "data")]
    results: Vec<Relevance>,
    usage: Option<TokenUsage>,
}

impl RelevanceList {
    pub(super) fn scores(self) -> Scores {
        Scores {
            tokens: self
                .usage
                .and_then(|usage| usage.total_tokens)
                .filter(|tokens| *tokens > 0),
            scores: self.results.into_iter().map(Relevance::pair).collect(),
        }
    }
}

impl Relevance {
    pub(super) fn pair(self) -> (usize, f32) {
        (self.index, self.relevance_score)
    }
}
