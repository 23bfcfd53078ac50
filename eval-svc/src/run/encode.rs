//! Texts of one encoder made vectors, each distinct text once.

use std::collections::HashMap;

use futures::{StreamExt, TryStreamExt, stream};
use isomer_proto::{
    common::v1::Dtype,
    encoder::v1::{
        EncodeRequest, EncodeResponse, Encoder, Input, Priority, encoder_service_client::EncoderServiceClient, input,
    },
};
use isomer_service_kit::{Fault, GrpcChannel};

use super::{RunContext, RunError, plan::Corpus, retry};
use crate::metric::VectorMatrix;

/// Bytes of text in one request.
const MOST_BYTES: usize = 1 << 20;

/// Vectors of one encoder, by the number of their text.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    cols: usize,
    rows: HashMap<u32, usize>,
    data: Vec<f32>,
}

impl Vectors {
    pub(super) fn contains(&self, text: u32) -> bool {
        self.rows.contains_key(&text)
    }

    /// One row per text, in order.
    pub(super) fn matrix(&self, texts: &[u32], encoder: &str) -> Result<VectorMatrix, RunError> {
        let bad = |message: String| RunError::BadVectors {
            id: encoder.to_owned(),
            message,
        };
        let mut data = Vec::with_capacity(texts.len() * self.cols);
        for text in texts {
            let row = self
                .rows
                .get(text)
                .ok_or_else(|| bad("a text was left without a vector".to_owned()))?;
            data.extend_from_slice(&self.data[row * self.cols..(row + 1) * self.cols]);
        }
        VectorMatrix::new(texts.len(), self.cols, data).map_err(|error| bad(error.to_string()))
    }

    fn insert(&mut self, text: u32, vector: &[f32]) {
        let row = self.rows.len();
        if self.rows.insert(text, row).is_none() {
            self.data.extend_from_slice(vector);
        }
    }
}

/// What one request came to.
pub(super) struct Encoded {
    pub(super) texts: u64,
    pub(super) tokens: u64,
}

/// Encodes texts (numbers of the corpus, none twice) into `vectors`; `done` hears of each request that was answered.
pub(super) async fn encode(
    context: &RunContext,
    encoder: &Encoder,
    corpus: &Corpus,
    texts: &[u32],
    vectors: &mut Vectors,
    mut done: impl FnMut(Encoded),
) -> Result<(), RunError> {
    let most = match encoder.max_batch_items {
        0 => context.config.encode_batch_items,
        limit => context.config.encode_batch_items.min(limit as usize),
    };
    let batches = batches(texts, corpus, most);
    let mut answers = stream::iter(batches)
        .map(|batch| {
            let inputs = batch.iter().map(|text| Input {
                input: Some(input::Input::Text(corpus.get(*text).to_owned())),
            });
            let request = EncodeRequest {
                encoder_id: encoder.id.clone(),
                inputs: inputs.collect(),
                priority: Priority::Batch.into(),
                ..EncodeRequest::default()
            };
            let channel = context.clients.encoder.clone();
            async move { Ok::<_, RunError>((ask(channel, request).await?, batch)) }
        })
        .buffered(context.config.encode_in_flight);
    while let Some((answer, batch)) = answers.try_next().await? {
        take(encoder, corpus, &answer, &batch, vectors)?;
        let tokens = answer.usage.map_or(0, |usage| usage.tokens);
        done(Encoded {
            texts: batch.len() as u64,
            tokens,
        });
    }
    Ok(())
}

async fn ask(channel: GrpcChannel, request: EncodeRequest) -> Result<EncodeResponse, RunError> {
    let id = request.encoder_id.clone();
    let answer = retry::calls(|| {
        let mut client =
            EncoderServiceClient::new(channel.clone()).max_decoding_message_size(super::MOST_MESSAGE_BYTES);
        let request = request.clone();
        async move { client.encode(request).await }
    });
    match answer.await {
        Ok(answer) => Ok(answer.into_inner()),
        Err(status) => Err(RunError::Encoder {
            id,
            fault: Box::new(Fault::from_status(&status)),
        }),
    }
}

/// Long texts first: batches of alike lengths waste least, and the last batch is a short one.
fn batches(texts: &[u32], corpus: &Corpus, most: usize) -> Vec<Vec<u32>> {
    let mut order = texts.to_vec();
    order.sort_by_key(|text| (std::cmp::Reverse(corpus.get(*text).len()), *text));
    let mut batches: Vec<Vec<u32>> = Vec::new();
    let mut bytes = 0;
    for text in order {
        let length = corpus.get(text).len();
        if batches
            .last()
            .is_none_or(|batch| batch.len() >= most || bytes + length > MOST_BYTES)
        {
            batches.push(Vec::new());
            bytes = 0;
        }
        bytes += length;
        if let Some(batch) = batches.last_mut() {
            batch.push(text);
        }
    }
    batches
}

/// Takes an answer apart, trusting nothing in it.
fn take(
    encoder: &Encoder,
    corpus: &Corpus,
    answer: &EncodeResponse,
    batch: &[u32],
    vectors: &mut Vectors,
) -> Result<(), RunError> {
    let bad = |message: String| RunError::BadVectors {
        id: encoder.id.clone(),
        message,
    };
    if let Some(error) = answer.errors.first() {
        let text = batch.get(error.index as usize).map_or("", |text| corpus.get(*text));
        return Err(bad(format!(
            "could not encode the text \"{}\": {}",
            excerpt(text),
            error.message
        )));
    }
    let digest = |space: Option<&isomer_proto::common::v1::VectorSpace>| space.map(|space| space.digest.clone());
    let (described, answered) = (
        digest(encoder.vector_space.as_ref()),
        digest(answer.vector_space.as_ref()),
    );
    if described != answered {
        return Err(bad(format!(
            "described its vector space as {} and answered in {}; vectors of two spaces cannot be compared",
            described.unwrap_or_default(),
            answered.unwrap_or_default()
        )));
    }
    let matrix = answer
        .embeddings
        .as_ref()
        .ok_or_else(|| bad("answered without vectors".to_owned()))?;
    let (rows, cols) = (matrix.rows as usize, matrix.cols as usize);
    if matrix.dtype() != Dtype::F32 || rows != batch.len() || cols == 0 || matrix.data.len() != rows * cols * 4 {
        return Err(bad(format!(
            "answered {rows} x {cols} {} in {} bytes to {} texts; f32 was asked for",
            matrix.dtype().as_str_name(),
            matrix.data.len(),
            batch.len()
        )));
    }
    if vectors.rows.is_empty() {
        vectors.cols = cols;
    } else if vectors.cols != cols {
        return Err(bad(format!(
            "answered vectors of {cols} columns after vectors of {}",
            vectors.cols
        )));
    }
    let mut row = Vec::with_capacity(cols);
    for (text, bytes) in batch.iter().zip(matrix.data.chunks_exact(cols * 4)) {
        row.clear();
        row.extend(bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)));
        if row.iter().any(|value| !value.is_finite()) {
            return Err(bad(format!(
                "made a vector with a value that is no number of the text \"{}\"",
                excerpt(corpus.get(*text))
            )));
        }
        vectors.insert(*text, &row);
    }
    Ok(())
}

fn excerpt(text: &str) -> String {
    let mut excerpt: String = text.chars().take(60).collect();
    if excerpt.len() < text.len() {
        excerpt.push('…');
    }
    excerpt
}
