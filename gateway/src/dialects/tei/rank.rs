//! `/rerank` and `/predict`.

use std::fmt;

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use isomer_proto::{
    common::v1::Usage,
    encoder::v1::{Activation, Capability, Encoder, RerankRequest, RerankResponse},
};
use isomer_service_kit::Fault;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, IgnoredAny, SeqAccess, Visitor, value::SeqAccessDeserializer},
};

use super::{ApiResult, Direction, PathModel, Tei};
use crate::{
    dialects::{fields::fields, refusal::DialectError},
    json::Json,
    openai::{
        ApiError, Backends, Body, Call,
        inputs::{bounded, bounded_or_none},
        nulls,
        rerank::{self, AnswerShape, Document},
    },
};

fields! {
    /// A request to rank texts; with `documents` in place of `texts`, in the shape of `/v1/rerank`,
    /// which vLLM and Infinity serve at this path.
    pub(super) struct Rank, rest = ignored;
    read {
        query: String,
        #[serde(default, deserialize_with = "bounded_or_none")]
        texts: Option<Vec<String>>,
        /// Whether scores are logits; otherwise they have passed through a sigmoid.
        #[serde(default, deserialize_with = "nulls::or_default")]
        raw_scores: bool,
        #[serde(default, deserialize_with = "nulls::or_default")]
        return_text: bool,
        /// `Right`. `Left` is refused: pairs are cut on the right.
        #[serde(default, deserialize_with = "nulls::or_default")]
        truncation_direction: Direction,
        /// In place of `texts`: texts, or objects with `text`. The answer has the shape of
        /// `/v1/rerank`.
        #[serde(default, deserialize_with = "bounded_or_none")]
        documents: Option<Vec<Document>>,
        /// With `documents`: the encoder, unless the address names one.
        model: Option<String>,
        /// With `documents`: the number of results.
        top_n: Option<u32>,
        /// With `documents`: whether results repeat their documents.
        #[serde(default, deserialize_with = "nulls::or_default")]
        return_documents: bool,
    }
    ignored { truncate }
}

#[derive(Debug, Serialize)]
pub(super) struct RerankRow {
    pub(super) index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    pub(super) score: f32,
}

/// text-embeddings-inference's scores: those of a sigmoid whatever the model names, or logits.
pub(crate) fn activation(raw_scores: bool) -> Activation {
    if raw_scores {
        Activation::Identity
    } else {
        Activation::Sigmoid
    }
}

/// Checks whether pairs can be cut in this way.
pub(super) fn check(direction: Direction) -> Result<(), Fault> {
    match direction {
        Direction::Right => Ok(()),
        Direction::Left => Err(Fault::invalid(
            "truncation_direction",
            "is Left, but pairs are cut on the right only",
        )),
    }
}

pub(super) async fn rerank(
    State(backends): State<Backends>,
    model: PathModel,
    call: Call,
    body: Result<Body<Rank>, ApiError>,
) -> Result<Response, DialectError<Tei>> {
    let Body(request) = body?;
    check(request.truncation_direction)?;
    if let Some(documents) = request.documents {
        if request.texts.is_some() {
            return Err(DialectError::invalid(
                "documents",
                "is given together with `texts`; give one of the two",
            ));
        }
        let model = PathModel(model.0.or(request.model));
        let wanted = RerankRequest {
            encoder_id: model.or_only(&backends, Capability::Rerank).await?,
            query: request.query,
            documents: documents.into_iter().map(|Document(text)| text).collect(),
            top_n: request.top_n,
            activation: rerank::activation(request.raw_scores).into(),
            ..RerankRequest::default()
        };
        let shape = AnswerShape::Cohere {
            with_documents: request.return_documents,
        };
        return Ok(Json(rerank::answered(&backends, &call, wanted, shape).await?).into_response());
    }
    let texts = request
        .texts
        .ok_or_else(|| DialectError::invalid("texts", "is missing"))?;
    let wanted = RerankRequest {
        encoder_id: model.or_only(&backends, Capability::Rerank).await?,
        query: request.query,
        documents: texts,
        activation: activation(request.raw_scores).into(),
        ..RerankRequest::default()
    };
    let (ranked, _) = ranked(&backends, &call, wanted, request.return_text).await?;
    Ok(Json(ranked).into_response())
}

/// Documents by relevance, with the usage. Their texts are included if `return_text` is set.
pub(super) async fn ranked(
    backends: &Backends,
    call: &Call,
    wanted: RerankRequest,
    return_text: bool,
) -> Result<(Vec<RerankRow>, Option<Usage>), Fault> {
    let kept = return_text.then(|| wanted.documents.clone());
    let answer = rerank::rank(backends, call, wanted).await?;
    let text = |index: u32| kept.as_ref().and_then(|kept| kept.get(index as usize).cloned());
    let ranked = answer.results.iter().map(|result| RerankRow {
        index: result.index,
        text: text(result.index),
        score: result.score,
    });
    Ok((ranked.collect(), answer.usage))
}

/// The input of a classification: a pair of texts, or several pairs. A single text would need a
/// model that reads single texts, and no model here does.
#[derive(Debug)]
enum PredictInputs {
    One,
    Pair(Vec<String>),
    Pairs(Vec<Vec<String>>),
}

impl<'de> Deserialize<'de> for PredictInputs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ClassifiedVisitor)
    }
}

const FORMS: &str = "should be a pair of texts, or a list of pairs: classification models here read pairs of texts";

struct ClassifiedVisitor;

impl<'de> Visitor<'de> for ClassifiedVisitor {
    type Value = PredictInputs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a pair of texts, or a list of pairs")
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<PredictInputs, E> {
        Ok(PredictInputs::One)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<PredictInputs, A::Error> {
        let elements: Vec<Element> = bounded(SeqAccessDeserializer::new(list))?;
        let texts = |element: &Element| matches!(element, Element::Text(_));
        if elements.iter().all(texts) {
            let text = |element| match element {
                Element::Text(text) => Some(text),
                Element::Pair(_) => None,
            };
            return Ok(PredictInputs::Pair(elements.into_iter().filter_map(text).collect()));
        }
        let pair = |element| match element {
            Element::Pair(pair) => Ok(pair),
            Element::Text(_) => Err(de::Error::custom(format!("{FORMS}; this list holds both"))),
        };
        elements
            .into_iter()
            .map(pair)
            .collect::<Result<_, _>>()
            .map(PredictInputs::Pairs)
    }
}

/// One element of a list.
enum Element {
    Text(String),
    Pair(Vec<String>),
}

impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Element;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a pair of texts")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Element, E> {
                Ok(Element::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Element, A::Error> {
                let mut pair = Vec::new();
                // A third text shows that the list is not a pair.
                while pair.len() < 3
                    && let Some(text) = list.next_element()?
                {
                    pair.push(text);
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Element::Pair(pair))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

fields! {
    /// A request for the labels of pairs of texts.
    pub(super) struct Predict, rest = ignored;
    read {
        /// A pair of texts, or a list of pairs.
        inputs: PredictInputs,
        /// Whether scores are logits; otherwise a sigmoid of one label, or the softmax of several.
        #[serde(default, deserialize_with = "nulls::or_default")]
        raw_scores: bool,
        /// `Right`. `Left` is refused: pairs are cut on the right.
        #[serde(default, deserialize_with = "nulls::or_default")]
        truncation_direction: Direction,
    }
    ignored { truncate }
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct LabelScore {
    pub(super) score: f32,
    pub(super) label: String,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum PredictAnswer {
    One(Vec<LabelScore>),
    Many(Vec<Vec<LabelScore>>),
}

pub(super) async fn predict(
    State(backends): State<Backends>,
    model: PathModel,
    call: Call,
    body: Result<Body<Predict>, ApiError>,
) -> ApiResult<PredictAnswer> {
    let Body(request) = body?;
    check(request.truncation_direction)?;
    let several = matches!(request.inputs, PredictInputs::Pairs(_));
    let pairs = match request.inputs {
        PredictInputs::One => Vec::new(),
        PredictInputs::Pair(pair) => vec![pair],
        PredictInputs::Pairs(pairs) => pairs,
    };
    let pairs: Option<Vec<[String; 2]>> = pairs.into_iter().map(|pair| pair.try_into().ok()).collect();
    let pairs = pairs
        .filter(|pairs| !pairs.is_empty())
        .ok_or_else(|| DialectError::invalid("inputs", FORMS))?;
    let id = model.or_only(&backends, Capability::Rerank).await?;
    let encoder = backends.router.get(&id, call.deadline).await?;
    let mut all = Vec::with_capacity(pairs.len());
    for pair in pairs {
        all.push(labels(&backends, &encoder, &call, (pair, request.raw_scores)).await?.0);
    }
    Ok(Json(if several {
        PredictAnswer::Many(all)
    } else {
        PredictAnswer::One(all.into_iter().next().unwrap_or_default())
    }))
}

/// The labels of a pair of texts with their scores, best first, and the answer that contains them.
/// Scores are logits if `raw_scores` is set; otherwise a sigmoid of one, or the softmax of several.
pub(super) async fn labels(
    backends: &Backends,
    encoder: &Encoder,
    call: &Call,
    ([query, document], raw_scores): ([String; 2], bool),
) -> Result<(Vec<LabelScore>, RerankResponse), Fault> {
    let label = encoder.labels.first().cloned().unwrap_or_default();
    let several = encoder.labels.len() > 1;
    let wanted = RerankRequest {
        encoder_id: encoder.id.clone(),
        query,
        documents: vec![document],
        top_n: None,
        label: if several { label.clone() } else { String::new() },
        activation: activation(raw_scores || several).into(),
    };
    let answer = rerank::rank(backends, call, wanted).await?;
    let result = answer.results.first();
    let result = result.ok_or_else(|| Fault::internal("the encoder returned no score for the pair"))?;
    let mut labelled: Vec<LabelScore> = if result.label_scores.is_empty() {
        let label = if label.is_empty() { "LABEL_0".to_owned() } else { label };
        vec![LabelScore {
            score: result.score,
            label,
        }]
    } else {
        let scores = match raw_scores {
            true => result.label_scores.clone(),
            false => softmax(&result.label_scores),
        };
        let scores = scores.into_iter().zip(&answer.labels);
        let labelled = |(score, label): (f32, &String)| LabelScore {
            score,
            label: label.clone(),
        };
        scores.map(labelled).collect()
    };
    labelled.sort_by(|a, b| b.score.total_cmp(&a.score));
    Ok((labelled, answer))
}

/// Scores as shares that sum to 1.
fn softmax(scores: &[f32]) -> Vec<f32> {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f32> = scores.iter().map(|score| (score - most).exp()).collect();
    let sum: f32 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}
