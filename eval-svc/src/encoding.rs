//! Texts through an encoder service: what a task and a run have in common.

use futures::{StreamExt, TryStreamExt, stream};
use isomer_proto::{
    common::v1::{Dtype, Similarity as ProtoSimilarity, Usage, VectorSpace},
    encoder::v1::{
        EncodeRequest, EncodeResponse, Encoder, GetEncoderRequest, Input, Priority,
        encoder_service_client::EncoderServiceClient, input,
    },
};
use isomer_service_kit::{Fault, GrpcChannel};

use crate::{
    config::EvalConfig,
    metric::Similarity,
    prompts::{self, Sent},
    retry,
};

/// Bytes of text in one request.
const MOST_REQUEST_BYTES: usize = 1 << 20;
/// Bytes of an answer: 8 MiB of vectors would do; encoders may be wide.
const MOST_ANSWER_BYTES: usize = 256 << 20;

/// An encoder could not be used.
#[derive(Debug)]
pub(crate) enum EncodingError {
    /// It refused, failed or could not be reached.
    Refused(Box<Fault>),
    /// It answered something that cannot be used.
    Unusable(String),
    /// It could not encode the text of this index.
    Text {
        /// Index among the texts given.
        index: usize,
        /// Why.
        message: String,
    },
}

/// Vectors of texts, in the order of the texts.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    /// `texts × cols` finite values.
    pub(crate) data: Vec<f32>,
    /// Columns; 0 where there were no texts.
    pub(crate) cols: usize,
    /// Where the vectors live.
    pub(crate) space: Option<VectorSpace>,
    /// Whether each text was cut at the encoder's length; `None` where the encoder does not say.
    pub(crate) cut: Vec<Option<bool>>,
    /// What it took.
    pub(crate) usage: Usage,
}

/// Asks for the description of an encoder.
pub(crate) async fn describe(channel: &GrpcChannel, id: &str) -> Result<Encoder, EncodingError> {
    let answer = EncoderServiceClient::new(channel.clone())
        .get_encoder(GetEncoderRequest { id: id.to_owned() })
        .await
        .map_err(|status| refused(&status))?;
    let encoder = answer.into_inner().encoder;
    encoder.ok_or_else(|| EncodingError::Unusable("the service described no encoder".to_owned()))
}

/// How an encoder's vectors are meant to be compared; cosine where it does not say.
pub(crate) fn similarity(encoder: &Encoder) -> Similarity {
    match encoder.similarity() {
        ProtoSimilarity::Dot => Similarity::Dot,
        ProtoSimilarity::Euclidean => Similarity::Euclidean,
        ProtoSimilarity::Manhattan => Similarity::Manhattan,
        ProtoSimilarity::Cosine | ProtoSimilarity::Unspecified => Similarity::Cosine,
    }
}

/// Encodes texts, which should be distinct, with several requests in flight. `done` hears of the number of texts of each request that was
/// answered, and what it took.
///
/// Overload and broken connections are waited out. All vectors must live in one space, the one that the encoder described;
/// with a `prompt`, in one that differs from it in the prompt only. Without one the encoder's default applies.
pub(crate) async fn encode(
    channel: &GrpcChannel,
    config: &EvalConfig,
    encoder: &Encoder,
    prompt: Option<&Sent>,
    texts: &[&str],
    mut done: impl FnMut(u64, &Usage),
) -> Result<Encoded, EncodingError> {
    let most = match encoder.max_batch_items {
        0 => config.encode_batch_items,
        limit => config.encode_batch_items.min(limit as usize),
    };
    let mut answers = stream::iter(batches(texts, most))
        .map(|batch| async move { Ok((ask(channel, encoder, prompt, texts, &batch).await?, batch)) })
        .buffered(config.encode_in_flight);
    let mut encoded = Encoded {
        // The space under a prompt is that of the first answer, once it is checked.
        space: encoder.vector_space.clone().filter(|_| prompt.is_none()),
        ..Encoded::default()
    };
    while let Some((answer, batch)) = answers.try_next().await? {
        if let Some(prompt) = prompt {
            prompts::check(encoder.vector_space.as_ref(), answer.vector_space.as_ref(), prompt)
                .map_err(EncodingError::Unusable)?;
        }
        encoded.take(texts.len(), &answer, &batch)?;
        let usage = answer.usage.unwrap_or_default();
        encoded.add(&usage);
        done(batch.len() as u64, &usage);
    }
    Ok(encoded)
}

pub(crate) fn refused(status: &tonic::Status) -> EncodingError {
    EncodingError::Refused(Box::new(Fault::from_status(status)))
}

async fn ask(
    channel: &GrpcChannel,
    encoder: &Encoder,
    prompt: Option<&Sent>,
    texts: &[&str],
    batch: &[usize],
) -> Result<EncodeResponse, EncodingError> {
    let inputs = batch.iter().map(|&index| Input {
        input: Some(input::Input::Text(texts[index].to_owned())),
    });
    let request = EncodeRequest {
        encoder_id: encoder.id.clone(),
        inputs: inputs.collect(),
        prompt: prompt.map(Sent::field),
        priority: Priority::Batch.into(),
        ..EncodeRequest::default()
    };
    let answer = retry::calls(|| {
        let mut client = EncoderServiceClient::new(channel.clone()).max_decoding_message_size(MOST_ANSWER_BYTES);
        let request = request.clone();
        async move { client.encode(request).await }
    });
    answer
        .await
        .map(tonic::Response::into_inner)
        .map_err(|status| refused(&status))
}

/// Indices of the texts of each request. Long texts first: batches of alike lengths waste least, and the last batch is a
/// short one.
pub(crate) fn batches(texts: &[&str], most: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(texts[index].len()));
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut bytes = 0;
    for index in order {
        let length = texts[index].len();
        match batches.last_mut() {
            Some(batch) if batch.len() < most && bytes + length <= MOST_REQUEST_BYTES => {
                batch.push(index);
                bytes += length;
            }
            _ => {
                batches.push(vec![index]);
                bytes = length;
            }
        }
    }
    batches
}

impl Encoded {
    /// Takes an answer apart, trusting nothing in it.
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
        let digest = |space: &Option<VectorSpace>| space.as_ref().map(|space| space.digest.clone());
        match (digest(&self.space), digest(&answer.vector_space)) {
            (Some(known), answered) if answered.as_ref() != Some(&known) => {
                return unusable(format!(
                    "its vector space changed from `{known}` to `{}`; vectors of two spaces cannot be compared",
                    answered.unwrap_or_default()
                ));
            }
            // An encoder that describes none is held to that of its first answer.
            (None, Some(_)) => self.space.clone_from(&answer.vector_space),
            _ => {}
        }
        let Some(matrix) = &answer.embeddings else {
            return unusable("answered without vectors".to_owned());
        };
        let (rows, cols) = (matrix.rows as usize, matrix.cols as usize);
        if matrix.dtype() != Dtype::F32 || rows != batch.len() || cols == 0 || matrix.data.len() != rows * cols * 4 {
            return unusable(format!(
                "answered {rows} x {cols} {} in {} bytes to {} texts; f32 was asked for",
                matrix.dtype().as_str_name(),
                matrix.data.len(),
                batch.len()
            ));
        }
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
        if answer.truncated.len() == batch.len() {
            for (&index, cut) in batch.iter().zip(&answer.truncated) {
                self.cut[index] = Some(*cut);
            }
        } else if !answer.truncated.is_empty() {
            return unusable(format!(
                "said of {} texts whether they were cut, {} were asked for",
                answer.truncated.len(),
                batch.len()
            ));
        }
        for (&index, bytes) in batch.iter().zip(matrix.data.chunks_exact(cols * 4)) {
            let row = &mut self.data[index * cols..(index + 1) * cols];
            for (value, four) in row.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *value = f32::from_le_bytes(*four);
            }
            if row.iter().any(|value| !value.is_finite()) {
                return Err(EncodingError::Text {
                    index,
                    message: "its vector has a value that is no number".to_owned(),
                });
            }
        }
        Ok(())
    }

    pub(crate) fn add(&mut self, more: &Usage) {
        let total = &mut self.usage;
        total.texts += more.texts;
        total.tokens += more.tokens;
        total.cached_texts += more.cached_texts;
        total.generated_tokens += more.generated_tokens;
        total.generator_calls += more.generator_calls;
        total.tokens_estimated |= more.tokens_estimated;
        total.cost_nano_usd += more.cost_nano_usd;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_bounded_by_texts_and_by_bytes_and_hold_each_text_once() {
        let long = "x".repeat(MOST_REQUEST_BYTES);
        let texts = ["a", &long, "ccc", "bb"];
        assert_eq!(batches(&texts, 2), [vec![1], vec![2, 3], vec![0]]);
        assert!(batches(&[], 2).is_empty());
    }
}
