//! Encodes texts with an encoder service, for tasks and runs.

use futures::{StreamExt, TryStreamExt, stream};
use isomer_encoder_client::{
    EncoderClient,
    answer::{self, ExpectedAnswer},
    batches,
};
use isomer_proto::{
    ProtoEnum,
    common::v1::{Usage, VectorSpace},
    encoder::v1::{EncodeRequest, EncodeResponse, Encoder, Input, Priority, input},
};
use isomer_service_kit::{Fault, GrpcChannel};
use isomer_usage::sum;
use tonic::Code;

pub(crate) use super::error::EncodingError;
use super::{BatchLimits, RequestKind, WorkEngine};
use crate::{
    metric::{
        Similarity,
        similarity::{cosine_of_units, norm},
    },
    prompts::{self, RequestPrompt},
};

/// Vectors of texts, in the order of the texts.
#[derive(Debug, Default)]
pub(crate) struct EncodedTexts {
    /// `texts × cols` finite values.
    pub(crate) data: Vec<f32>,
    /// Columns; 0 if there were no texts.
    pub(crate) cols: usize,
    pub(crate) space: Option<VectorSpace>,
    /// Whether each text was truncated at the encoder's maximum length; `None` if the encoder does
    /// not report it.
    pub(crate) cut: Vec<Option<bool>>,
    pub(crate) usage: Usage,
}

/// Requests the description of an encoder.
pub(crate) async fn describe(channel: &GrpcChannel, id: &str) -> Result<Encoder, EncodingError> {
    let encoder = EncoderClient::new(channel.clone()).describe(id).await;
    let encoder = encoder.map_err(|status| refused(&status))?;
    encoder.ok_or_else(|| EncodingError::Unusable("the service described no encoder".to_owned()))
}

/// The similarity with which an encoder's vectors are compared; cosine by default.
pub(crate) fn similarity(encoder: &Encoder) -> Similarity {
    let similarity = encoder.similarity().among(Similarity::ALL, Similarity::name);
    similarity.unwrap_or_default()
}

/// An encoder behind an engine, with the prompt of its texts.
#[derive(Clone, Copy)]
pub(crate) struct PromptedEncoder<'a> {
    pub(crate) work: &'a dyn WorkEngine,
    pub(crate) encoder: &'a Encoder,
    /// `None`: the encoder's default.
    pub(crate) prompt: Option<&'a RequestPrompt>,
}

/// Encodes texts, which should be distinct, with several requests in flight. `done` is called with
/// the number of texts and the usage of each completed request.
///
/// Overload and broken connections are retried. All vectors must be in one vector space, the one
/// that the encoder described; with a prompt, in one that differs from it only in the prompt. `own`
/// is the batching of requests for services of this process.
pub(crate) async fn encode(
    prompted: PromptedEncoder<'_>,
    own: BatchLimits,
    texts: &[&str],
    mut done: impl FnMut(u64, &Usage),
) -> Result<EncodedTexts, EncodingError> {
    let PromptedEncoder { work, encoder, prompt } = prompted;
    let own = BatchLimits {
        items: batches::most_items(encoder.max_batch_items, own.items),
        ..own
    };
    let batching = work.batching(RequestKind::Encode, own);
    let mut answers = stream::iter(batches::batches(texts, batching.items))
        .map(|batch| async move { Ok((prompted.encode_batch(texts, &batch).await?, batch)) })
        .buffered(batching.in_flight);
    let mut encoded = EncodedTexts {
        // With a prompt, the space is that of the first response, after validation.
        space: encoder.vector_space.clone().filter(|_| prompt.is_none()),
        ..EncodedTexts::default()
    };
    while let Some((answer, batch)) = answers.try_next().await? {
        if let Some(prompt) = prompt {
            prompts::check(encoder.vector_space.as_ref(), answer.vector_space.as_ref(), prompt)
                .map_err(EncodingError::Unusable)?;
        }
        encoded.take(texts.len(), &answer, &batch)?;
        let usage = answer.usage.unwrap_or_default();
        sum::add(&mut encoded.usage, &usage);
        done(batch.len() as u64, &usage);
    }
    drop(answers);
    if texts.len() >= ENOUGH && !reports_settings(encoded.space.as_ref()) {
        let spread = texts.len().div_ceil(TWICE);
        let chosen: Vec<usize> = (0..texts.len()).step_by(spread).rev().collect();
        for batch in chosen.chunks(batching.items.min(TWICE / AGAIN)) {
            let answer = work.encode(encoder, prompted.request(texts, batch, true)).await;
            let answer = answer.map_err(|fault| EncodingError::Refused(Box::new(fault)))?;
            encoded.compare(&answer, batch, texts)?;
            sum::add(&mut encoded.usage, &answer.usage.unwrap_or_default());
        }
    }
    Ok(encoded)
}

/// Whether a space names the settings that its vectors depend on. Our own service does, and
/// computes the same bits for a text in every batch. Servers of others may change unnoticed.
pub(crate) fn reports_settings(space: Option<&VectorSpace>) -> bool {
    space.is_some_and(|space| !space.settings_digest.is_empty())
}

/// Minimum number of texts for the second encoding: with fewer, the cost would double.
const ENOUGH: usize = 60;
/// Maximum number of texts that are encoded twice.
const TWICE: usize = 30;
/// Number of requests of the second encoding: a provider may confuse only some of its answers.
const AGAIN: usize = 3;
/// Minimum cosine of the two vectors of a text.
const SAME: f32 = 1.0 - 1e-4;
/// Maximum relative difference of their lengths.
const SAME_LENGTH: f32 = 1e-3;

/// How two vectors of one text differ, in words; `None` if they agree.
pub(crate) fn difference(one: &[f32], two: &[f32]) -> Option<String> {
    if one == two {
        return None;
    }
    let cosine = cosine_of_units(one, two);
    let ratio = norm(two) / norm(one);
    if cosine < SAME {
        Some(format!("cosine {cosine:.4}"))
    } else if (ratio - 1.0).abs() <= SAME_LENGTH {
        None
    } else {
        Some(format!("{ratio:.4} times as long"))
    }
}

pub(crate) fn refused(status: &tonic::Status) -> EncodingError {
    EncodingError::Refused(Box::new(Fault::from_status(status)))
}

/// Number of halvings of a refused batch after which some texts must have succeeded.
const HOPELESS_AFTER: usize = 3;

impl PromptedEncoder<'_> {
    /// Encodes a batch. If it is refused because of one text, the error names that text.
    async fn encode_batch(self, texts: &[&str], batch: &[usize]) -> Result<EncodeResponse, EncodingError> {
        let send = async |batch: &[usize]| self.send(texts, batch).await;
        let fault = match send(batch).await {
            Ok(answer) => return Ok(answer),
            Err(fault) => fault,
        };
        // Other codes concern the caller or the encoder, not a text.
        let of_texts = [
            Code::InvalidArgument,
            Code::OutOfRange,
            Code::FailedPrecondition,
            Code::Internal,
            Code::Unknown,
        ];
        let (mut suspects, mut others_pass) = (batch, false);
        for level in 0.. {
            // If an encoder refuses everything, the texts are not sent individually.
            let hopeless = level == HOPELESS_AFTER && !others_pass;
            if suspects.len() < 2 || hopeless || !of_texts.contains(&fault.code) {
                break;
            }
            let (first, second) = suspects.split_at(suspects.len() / 2);
            let first_passes = send(first).await.is_ok();
            suspects = if first_passes { second } else { first };
            others_pass |= first_passes || send(second).await.is_ok();
        }
        match *suspects {
            [index] if others_pass => match send(suspects).await {
                Err(fault) => Err(EncodingError::Text {
                    index,
                    message: fault.message,
                }),
                // The text was refused only as part of a batch.
                Ok(_) => Err(EncodingError::Refused(Box::new(fault))),
            },
            _ => Err(EncodingError::Refused(Box::new(fault))),
        }
    }

    async fn send(self, texts: &[&str], batch: &[usize]) -> Result<EncodeResponse, Fault> {
        self.work.encode(self.encoder, self.request(texts, batch, false)).await
    }

    /// Encodes a few texts with the services of this process and past all caches, in requests of at
    /// most `most` texts.
    pub(crate) async fn observe(
        self,
        channel: &GrpcChannel,
        texts: &[&str],
        most: usize,
    ) -> Result<EncodedTexts, EncodingError> {
        let client = EncoderClient::new(channel.clone());
        let mut encoded = EncodedTexts::default();
        for batch in batches::batches(texts, batches::most_items(self.encoder.max_batch_items, most)) {
            let answer = client.encode(self.request(texts, &batch, true)).await;
            let answer = answer.map_err(|status| refused(&status))?;
            encoded.take(texts.len(), &answer, &batch)?;
            sum::add(&mut encoded.usage, &answer.usage.unwrap_or_default());
        }
        Ok(encoded)
    }

    /// A request for a batch. With `bypass_cache`, its vectors are computed again.
    fn request(self, texts: &[&str], batch: &[usize], bypass_cache: bool) -> EncodeRequest {
        let inputs = batch.iter().map(|&index| Input {
            input: Some(input::Input::Text(texts[index].to_owned())),
        });
        EncodeRequest {
            encoder_id: self.encoder.id.clone(),
            inputs: inputs.collect(),
            prompt: self.prompt.map(RequestPrompt::field),
            priority: Priority::Batch.into(),
            bypass_cache,
            ..EncodeRequest::default()
        }
    }
}

impl EncodedTexts {
    /// Compares the vectors of a second response, in another order, with those of the first.
    fn compare(&self, answer: &EncodeResponse, batch: &[usize], texts: &[&str]) -> Result<(), EncodingError> {
        let mut again = Self {
            data: vec![0.0; batch.len() * self.cols],
            cols: self.cols,
            space: self.space.clone(),
            cut: vec![None; batch.len()],
            ..Self::default()
        };
        // Numbered by their places in the batch, so that only as many vectors are in memory as the
        // batch has.
        let places: Vec<usize> = (0..batch.len()).collect();
        again.take(batch.len(), answer, &places)?;
        for (place, &index) in batch.iter().enumerate() {
            if let Some(difference) = difference(self.row(index), again.row(place)) {
                let text: String = texts[index].chars().take(60).collect();
                return Err(EncodingError::Unusable(format!(
                    "gave a text another vector when it was asked again, in another batch: {difference} for `{text}`; it mixes up \
                     its answers, or another model answers now"
                )));
            }
        }
        Ok(())
    }

    /// The vector of a text.
    pub(crate) fn row(&self, index: usize) -> &[f32] {
        &self.data[index * self.cols..][..self.cols]
    }

    /// Reads an answer and checks all its parts.
    pub(crate) fn take(&mut self, texts: usize, answer: &EncodeResponse, batch: &[usize]) -> Result<(), EncodingError> {
        let unusable = |message: String| Err(EncodingError::Unusable(message));
        if let Some(error) = answer.errors.first() {
            return match batch.get(error.index as usize) {
                Some(&index) => Err(EncodingError::Text {
                    index,
                    message: error.message.clone(),
                }),
                None => unusable(format!("a text could not be encoded: {}", error.message)),
            };
        }
        answer::one_space(&mut self.space, answer.vector_space.as_ref()).map_err(EncodingError::Unusable)?;
        let matrix = answer::matrix(answer, ExpectedAnswer::floats(batch.len())).map_err(EncodingError::Unusable)?;
        let cols = matrix.cols as usize;
        if self.cols == 0 {
            self.cols = cols;
            self.data = vec![0.0; texts * cols];
            self.cut = vec![None; texts];
        } else if self.cols != cols {
            return unusable(format!(
                "answered vectors of {cols} columns after vectors of {}",
                self.cols
            ));
        }
        for (&index, cut) in batch.iter().zip(&answer.truncated) {
            self.cut[index] = Some(*cut);
        }
        if let Some(&index) = answer::not_finite(matrix).and_then(|row| batch.get(row)) {
            return Err(EncodingError::Text {
                index,
                message: "its vector has a value that is not a number".to_owned(),
            });
        }
        for (&index, row) in batch.iter().zip(answer::rows(matrix)) {
            let place = &mut self.data[index * cols..(index + 1) * cols];
            place.iter_mut().zip(row).for_each(|(value, read)| *value = read);
        }
        Ok(())
    }
}
