//! Documents in order of relevance to a query.

use futures::{TryStreamExt, stream};
use isomer_encoder_client::batches::most_items;
use isomer_proto::encoder::v1::{RerankRequest, encoder_service_client::EncoderServiceClient};
use isomer_usage::sum;

use crate::{Client, Error, Usage, call::unary, encode::ordered};

/// Options of a rerank call.
#[derive(Debug, Clone, Default)]
pub struct RerankOptions {
    encoder: String,
    top_n: Option<u32>,
    label: String,
}

impl<S: Into<String>> From<S> for RerankOptions {
    fn from(encoder: S) -> Self {
        Self::new(encoder)
    }
}

impl RerankOptions {
    /// Of the cross-encoder with this id.
    pub fn new(encoder: impl Into<String>) -> Self {
        Self {
            encoder: encoder.into(),
            ..Self::default()
        }
    }

    /// Maximum number of documents to return; all by default.
    #[must_use]
    pub fn top_n(mut self, top_n: u32) -> Self {
        self.top_n = Some(top_n);
        self
    }

    /// The label of a cross-encoder with several.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }
}

/// A document with its score.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    /// Its place in the caller's list.
    pub index: usize,
    /// How relevant it is.
    pub score: f32,
    /// The score of each label, for cross-encoders with several.
    pub label_scores: Vec<f32>,
    /// Whether it was cut.
    pub truncated: bool,
}

/// Documents, best first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ranking {
    /// The documents.
    pub results: Vec<Ranked>,
    /// Names of the labels, for cross-encoders with several.
    pub labels: Vec<String>,
    /// Usage of this call.
    pub usage: Usage,
}

impl Ranking {
    /// Scores in the order of the `count` documents asked about; none for those that `top_n` left
    /// out.
    pub fn scores(&self, count: usize) -> Vec<Option<f32>> {
        let mut scores = vec![None; count];
        for result in &self.results {
            if let Some(score) = scores.get_mut(result.index) {
                *score = Some(result.score);
            }
        }
        scores
    }
}

impl Client {
    /// Scores any number of documents against a query by a cross-encoder, best first; equal scores
    /// stay in the order of the documents.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn rerank<T: Into<String>>(
        &self,
        query: impl Into<String>,
        documents: impl IntoIterator<Item = T>,
        options: impl Into<RerankOptions>,
    ) -> Result<Ranking, Error> {
        let (query, options) = (query.into(), options.into());
        if options.top_n == Some(0) {
            return Err(Error::invalid("top_n", "is 0", "give 1 or more, or leave it out"));
        }
        let encoder = self.known(&options.encoder).await?;
        let mut batching = self.batching;
        batching.bounds.items = most_items(encoder.max_batch_items, batching.bounds.items);
        let documents: Vec<String> = documents.into_iter().map(Into::into).collect();
        let (calls, top_n) = (self.calls.clone(), options.top_n);
        let work = move |documents| {
            let calls = calls.clone();
            let request = RerankRequest {
                encoder_id: options.encoder.clone(),
                query: query.clone(),
                documents,
                top_n,
                label: options.label.clone(),
                ..RerankRequest::default()
            };
            async move {
                unary!(
                    calls,
                    EncoderServiceClient.rerank,
                    "/isomer.encoder.v1.EncoderService/Rerank",
                    request
                )
            }
        };
        let mut answers = ordered(stream::iter(documents), String::len, batching, work);
        let mut made = Ranking::default();
        while let Some(part) = answers.try_next().await? {
            for result in part.answer.results {
                let index = result.index as usize;
                if index >= part.count {
                    return Err(Error::bad_answer(format!(
                        "the answer ranks document {index} of {}",
                        part.count
                    )));
                }
                made.results.push(Ranked {
                    index: index + part.start,
                    score: result.score,
                    label_scores: result.label_scores,
                    truncated: result.truncated,
                });
            }
            made.labels = part.answer.labels;
            sum::add(&mut made.usage, &part.answer.usage.unwrap_or_default());
        }
        made.results
            .sort_by(|one, other| other.score.total_cmp(&one.score).then(one.index.cmp(&other.index)));
        if let Some(top_n) = top_n {
            made.results.truncate(top_n as usize);
        }
        Ok(made)
    }
}
