//! `Rerank`: scores of pairs from a cross-encoder.

use std::time::Instant;

use isomer_proto::{
    common::v1::Usage,
    encoder::v1::{Activation, RerankRequest, RerankResponse, rerank_response},
};
use isomer_service_kit::telemetry::gen_ai::Operation;
use rayon::prelude::*;

use super::{
    Inner,
    describe::number,
    encode::named,
    request::{check_bytes, given, too_many},
    traced::work,
};
use crate::{
    activation::Elementwise, batch::Sequence, engine::Priority, error::EmbedError, model::Model, tokenise::Tokens,
};

/// Answers a `Rerank` request.
pub(super) async fn rerank(
    inner: &Inner,
    request: RerankRequest,
    deadline: Option<Instant>,
) -> Result<RerankResponse, EmbedError> {
    let RerankRequest {
        encoder_id,
        query,
        documents,
        top_n,
        label,
        activation,
    } = request;
    let activation = given::<Activation>("activation", activation)?;
    let most = inner.config.max_batch_items;
    if documents.is_empty() {
        return Err(EmbedError::invalid("documents", "is empty", "give at least one"));
    }
    if documents.len() > most {
        return Err(too_many("documents", documents.len(), most));
    }
    if top_n == Some(0) {
        return Err(EmbedError::invalid(
            "top_n",
            "is 0",
            "leave it out for all, or give 1 or more",
        ));
    }
    check_bytes("query", &query, inner)?;
    for (index, document) in documents.iter().enumerate() {
        check_bytes(format_args!("documents[{index}]"), document, inner)?;
    }
    let encoder = named(inner, &encoder_id).await?;
    if !encoder.model.is_cross_encoder() {
        let what = format!("`{encoder_id}` is not a cross-encoder: it makes vectors; call Encode and compare them");
        return Err(EmbedError::unserved("encoder_id", what));
    }
    let column = column(&encoder.model, &label)?;
    let model = encoder.model.clone();
    let tokens: Vec<Tokens> = inner
        .helped(move || {
            let query = model
                .first_of_pairs(&query)
                .map_err(|message| EmbedError::tokenise("query", message))?;
            let one = |(index, document): (usize, &String)| {
                model
                    .tokenise_pair(&query, document)
                    .map_err(|message| EmbedError::tokenise(format_args!("documents[{index}]"), message))
            };
            documents.par_iter().enumerate().map(one).collect()
        })
        .await?;
    let facts: Vec<(u32, bool)> = tokens
        .iter()
        .map(|tokens| (number(tokens.count), tokens.truncated()))
        .collect();
    let used: u64 = tokens.iter().map(|tokens| tokens.ids.len() as u64).sum();
    let sequences: Vec<Sequence> = tokens.into_iter().map(Into::into).collect();
    let encoded = work(Operation::Rerank, &encoder, sequences, Priority::Interactive, deadline).await?;

    let labels = encoder.model.labels();
    let mut scores = encoded.outputs.text_vectors;
    match activation {
        None | Some(Activation::Unspecified) => encoder.model.score(&mut scores),
        Some(Activation::Identity) => {}
        Some(Activation::Sigmoid) => Elementwise::Sigmoid.apply(&mut scores),
    }
    if let Some(place) = scores.iter().position(|score| !score.is_finite()) {
        return Err(EmbedError::NotFinite {
            id: encoder.source.id.clone(),
            list: "documents",
            index: place / labels.len().max(1),
        });
    }
    let mut results: Vec<_> = scores
        .chunks_exact(labels.len().max(1))
        .zip(facts)
        .enumerate()
        .map(|(index, (scores, (token_count, truncated)))| rerank_response::Result {
            index: number(index),
            score: scores[column],
            label_scores: if labels.len() > 1 { scores.to_vec() } else { Vec::new() },
            token_count,
            truncated,
        })
        .collect();
    let texts = results.len() as u64;
    // The sort is stable: documents with equal scores keep their order.
    results.sort_by(|a, b| b.score.total_cmp(&a.score));
    results.truncate(top_n.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX));
    Ok(RerankResponse {
        results,
        usage: Some(Usage {
            texts,
            tokens: used,
            ..Usage::default()
        }),
        labels: if labels.len() > 1 { labels.to_vec() } else { Vec::new() },
    })
}

/// The index of the score that determines the rank.
fn column(model: &Model, label: &str) -> Result<usize, EmbedError> {
    let labels = model.labels();
    match labels {
        [_] if label.is_empty() => Ok(0),
        _ => labels.iter().position(|name| name == label).ok_or_else(|| {
            let problem = if label.is_empty() {
                "is empty, and the cross-encoder has several labels".into()
            } else {
                format!("the cross-encoder has no label `{label}`")
            };
            EmbedError::invalid("label", problem, format!("one of: {}", labels.join(", ")))
        }),
    }
}
