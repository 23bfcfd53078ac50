//! vLLM's server: dense vectors as OpenAI's, and sparse vectors of its Pooling API.
//!
//! Source: <https://docs.vllm.ai/en/latest/models/pooling_models/specific_models/>, and
//! `vllm/entrypoints/{pooling/pooling,serve/tokenize}` of <https://github.com/vllm-project/vllm>
//! (version 0.19 and later, commits 03938fad and 045d7575). A server has one pooling task. BGE-M3's
//! lexical weights are those of the task `token_classify`: a weight for each token without the
//! first and the last, to be paired with the ids of `/tokenize`. SPLADE models have the task
//! `embed`, which answers a weight for each id of the vocabulary.

use std::collections::{BTreeMap, HashSet};

use futures::{StreamExt, TryStreamExt, stream};
use isomer_proto::gateway::v1::ProviderKind;
use isomer_service_kit::Fault;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tonic::Code;

use super::{
    embedding_list::{EmbeddingList, TokenUsage},
    kind::{Kind, foreign},
    openai::{self, Input},
};
use crate::{
    foreign::{Entries, Facts, Protocol, Rows, in_order},
    limits::{AnswerLimit, Deadline},
    params::{AT_ONCE, Abilities, Params, Piece},
    rest::Rest,
};

const ABILITIES: Abilities = Abilities {
    kind: "vllm",
    counts: true,
    sparse: true,
    ..openai::ABILITIES
};

pub(super) const KIND: Kind = Kind {
    value: ProviderKind::Vllm,
    grpc: false,
    lists_encoders: false,
    abilities: Some(ABILITIES),
    connect: |provider, surroundings| foreign(&KIND, provider, surroundings, |target| Vllm::new(Rest::new(target)?)),
};

#[derive(Debug)]
pub(super) struct Vllm {
    rest: Rest,
    /// Models whose server refused the task `token_classify`.
    splade: Mutex<HashSet<String>>,
}

#[derive(Serialize)]
struct PoolingRequest<'a> {
    model: &'a str,
    task: &'static str,
    input: Input<'a>,
    encoding_format: &'static str,
}

#[derive(Deserialize)]
struct PoolingAnswer {
    data: Vec<PoolingRow>,
    usage: Option<TokenUsage>,
}

#[derive(Deserialize)]
struct PoolingRow {
    index: usize,
    data: Vec<f32>,
}

#[derive(Serialize)]
struct TokenizeRequest<'a> {
    model: &'a str,
    prompt: &'a str,
}

#[derive(Deserialize)]
struct TokenizeAnswer {
    tokens: Vec<u32>,
}

impl Vllm {
    fn new(rest: Rest) -> Result<Self, Fault> {
        if rest.target.url.path().trim_end_matches('/').ends_with("/v1") {
            return Err(Fault::invalid("provider.address", "ends in /v1")
                .hint("give the server's root: /pooling and /tokenize are there"));
        }
        Ok(Self {
            rest,
            splade: Mutex::default(),
        })
    }

    /// Ids of a text, special tokens included.
    async fn ids_of(&self, model: &str, text: &String, deadline: Deadline) -> Result<Vec<u32>, Fault> {
        let request = TokenizeRequest { model, prompt: text };
        let limit = AnswerLimit::tokens(std::slice::from_ref(text));
        let answer = self
            .rest
            .post::<TokenizeAnswer>(self.rest.url("tokenize"), &request, limit, deadline)
            .await?;
        Ok(answer.body.tokens)
    }

    /// Ids of each text. A call of the server carries one text.
    async fn ids(&self, model: &str, texts: &[String], deadline: Deadline) -> Result<Vec<Vec<u32>>, Fault> {
        let calls: Vec<_> = texts.iter().map(|text| self.ids_of(model, text, deadline)).collect();
        stream::iter(calls).buffered(AT_ONCE).try_collect().await
    }

    /// The numbers of each text under a pooling task.
    async fn pooled(
        &self,
        task: &'static str,
        params: &Params,
        input: Input<'_>,
        (count, deadline): (usize, Deadline),
    ) -> Result<Rows, Fault> {
        let rest = &self.rest;
        let request = PoolingRequest {
            model: &params.model,
            task,
            input,
            encoding_format: "float",
        };
        let limit = AnswerLimit::vectors(count, 0);
        let answer = rest
            .post::<PoolingAnswer>(rest.url("pooling"), &request, limit, deadline)
            .await?
            .body;
        let vectors = answer.data.into_iter().map(|pooled| (pooled.index, pooled.data));
        Ok(Rows {
            vectors: in_order(&rest.target.id, count, vectors)?,
            tokens: answer.usage.and_then(|usage| usage.tokens()),
            each: None,
        })
    }

    /// BGE-M3: the largest weight of each id.
    async fn lexical(&self, params: &Params, ids: &[Vec<u32>], deadline: Deadline) -> Result<Rows<Entries>, Fault> {
        let pooled = self
            .pooled("token_classify", params, Input::Tokens(ids), (ids.len(), deadline))
            .await?;
        let pairs = pooled.vectors.iter().zip(ids).enumerate();
        let vectors = pairs.map(|(text, (weights, ids))| {
            lexical_weights(ids, weights).ok_or_else(|| {
                let (weights, ids) = (weights.len(), ids.len());
                self.rest
                    .bad_answer(format!("{weights} weights for the {ids} tokens of text {text}"))
            })
        });
        Ok(Rows {
            vectors: vectors.collect::<Result<_, _>>()?,
            tokens: pooled.tokens,
            each: None,
        })
    }

    /// SPLADE: a weight for each id of the vocabulary.
    async fn expanded(&self, params: &Params, piece: Piece<'_>, deadline: Deadline) -> Result<Rows<Entries>, Fault> {
        let pooled = self
            .pooled("embed", params, Input::from(piece), (piece.len(), deadline))
            .await?;
        let width = pooled.vectors.first().map_or(0, Vec::len);
        let vectors = pooled.vectors.iter().enumerate().map(|(text, weights)| {
            if weights.len() != width {
                let other = weights.len();
                let what = format!("weights of {width} and, for text {text}, of {other} ids of a vocabulary");
                return Err(self.rest.bad_answer(what));
            }
            vocabulary_weights(weights).ok_or_else(|| self.dense(&params.model))
        });
        Ok(Rows {
            vectors: vectors.collect::<Result<_, _>>()?,
            tokens: pooled.tokens,
            each: None,
        })
    }

    fn dense(&self, model: &str) -> Fault {
        let message = format!("provider `{}` gives dense vectors of `{model}`", self.rest.target.id);
        Fault::new(Code::Unimplemented, "NOT_IN_MODEL", message)
            .field("outputs")
            .hint("ask for OUTPUT_TEXT_VECTOR; or start vLLM with a SPLADE model or with BGE-M3 and its task")
    }
}

/// Pairs the weights of tokens with their ids, and keeps the largest weight of each id. `None` if
/// their numbers do not fit: the server leaves out the first and the last token, which are special.
fn lexical_weights(ids: &[u32], weights: &[f32]) -> Option<Entries> {
    let ids = match ids.len().checked_sub(weights.len())? {
        0 => ids,
        2 => ids.get(1..ids.len() - 1)?,
        _ => return None,
    };
    let mut largest = BTreeMap::new();
    for (id, weight) in ids.iter().zip(weights).filter(|(_, weight)| **weight != 0.0) {
        let known = largest.entry(*id).or_insert(*weight);
        // A weight that is not finite stays, and is reported with its text.
        if weight.total_cmp(known).is_gt() {
            *known = *weight;
        }
    }
    Some(largest.into_iter().collect())
}

/// The weights of a vocabulary that are not 0. `None` for a dense vector: one with a value below 0,
/// or with fewer zeros than other values.
fn vocabulary_weights(weights: &[f32]) -> Option<Entries> {
    let entries: Entries = (0..)
        .zip(weights.iter().copied())
        .filter(|(_, weight)| *weight != 0.0)
        .collect();
    let is_dense = entries.len() > weights.len() / 2 || entries.iter().any(|(_, weight)| *weight < 0.0);
    (!is_dense).then_some(entries)
}

#[tonic::async_trait]
impl Protocol for Vllm {
    fn abilities(&self) -> Abilities {
        ABILITIES
    }

    async fn embed(&self, params: &Params, piece: Piece<'_>, facts: &Facts, deadline: Deadline) -> Result<Rows, Fault> {
        let limit = AnswerLimit::vectors(piece.len(), facts.dimensions);
        let url = self.rest.url("v1/embeddings");
        let request = openai::Request::new(params, piece);
        let answer = self.rest.post::<EmbeddingList>(url, &request, limit, deadline).await?;
        answer.body.rows(&self.rest.target.id, piece.len())
    }

    async fn embed_sparse(
        &self,
        params: &Params,
        piece: Piece<'_>,
        deadline: Deadline,
    ) -> Result<Rows<Entries>, Fault> {
        if self.splade.lock().contains(&params.model) {
            return self.expanded(params, piece, deadline).await;
        }
        let tokenised;
        let ids = match piece {
            Piece::Tokens(ids) => ids,
            Piece::Texts(texts) => {
                tokenised = self.ids(&params.model, texts, deadline).await?;
                &tokenised
            }
        };
        let refused = match self.lexical(params, ids, deadline).await {
            Err(fault) if fault.code == Code::InvalidArgument => fault,
            other => return other,
        };
        // The server has another task, or refuses the texts under any.
        let answer = self
            .expanded(params, piece, deadline)
            .await
            .map_err(|fault| match fault.code {
                Code::InvalidArgument => refused,
                _ => fault,
            })?;
        self.splade.lock().insert(params.model.clone());
        Ok(answer)
    }

    async fn count(
        &self,
        model: &str,
        _input_type: Option<&str>,
        texts: &[String],
        deadline: Deadline,
    ) -> Result<Vec<u32>, Fault> {
        let ids = self.ids(model, texts, deadline).await?;
        let count = |ids: &Vec<u32>| u32::try_from(ids.len()).unwrap_or(u32::MAX);
        Ok(ids.iter().map(count).collect())
    }

    async fn healthy(&self) -> Result<(), Fault> {
        self.rest.answers(self.rest.url("health")).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_token_has_its_largest_weight_and_special_ones_have_none() {
        let ids = [0, 7, 5, 7, 2];
        assert_eq!(lexical_weights(&ids, &[0.25, 0.0, 0.5]), Some(vec![(7, 0.5)]));
        assert_eq!(lexical_weights(&[7, 5], &[0.25, 0.5]), Some(vec![(5, 0.5), (7, 0.25)]));
        assert_eq!(lexical_weights(&[0, 2], &[]), Some(vec![]));
        assert_eq!(lexical_weights(&ids, &[0.25; 4]), None);
        assert_eq!(lexical_weights(&ids, &[0.25; 6]), None);
    }

    #[test]
    fn weights_of_a_vocabulary_are_told_from_a_dense_vector() {
        assert_eq!(vocabulary_weights(&[0.0, 0.5, 0.0, 0.0]), Some(vec![(1, 0.5)]));
        assert_eq!(vocabulary_weights(&[0.0; 4]), Some(vec![]));
        assert_eq!(vocabulary_weights(&[0.0, -0.5, 0.0, 0.0]), None);
        assert_eq!(vocabulary_weights(&[0.5, 0.5, 0.5, 0.0]), None);
    }
}
