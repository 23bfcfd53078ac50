//! The texts of a dataset through an encoder.

use std::{collections::HashMap, time::Duration};

use futures::{StreamExt, TryStreamExt, stream};
use isomer_proto::{
    common::v1::{Similarity as ProtoSimilarity, Usage, VectorSpace},
    encoder::v1::{
        EncodeRequest, EncodeResponse, Encoder, GetEncoderRequest, Input, Priority,
        encoder_service_client::EncoderServiceClient, input,
    },
};
use isomer_service_kit::{Fault, GrpcChannel};
use tonic::Code;

use super::{text_of, vectors};
use crate::{
    config::EvalConfig,
    dataset::Dataset,
    metric::{Similarity, VectorMatrix},
};

/// Bytes of text in one request.
const MOST_BYTES: usize = 1 << 20;
/// Bytes of an answer: 8 MiB of vectors would do; encoders may be wide.
const MOST_ANSWER_BYTES: usize = 256 << 20;
/// Tries of a request that an overloaded or unreachable encoder did not take.
const TRIES: u32 = 6;
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// A dataset's vectors.
pub(super) struct Encoded {
    /// One row a text of the dataset.
    pub(super) vectors: VectorMatrix,
    /// How the encoder's vectors are meant to be compared.
    pub(super) similarity: Similarity,
    pub(super) vector_space: Option<VectorSpace>,
    pub(super) usage: Usage,
}

/// Encodes the texts of a dataset, equal ones once, several requests in flight.
pub(super) async fn texts(
    config: &EvalConfig,
    channel: &GrpcChannel,
    encoder_id: &str,
    dataset: &Dataset,
) -> Result<Encoded, Fault> {
    let mut client = EncoderServiceClient::new(channel.clone()).max_decoding_message_size(MOST_ANSWER_BYTES);
    let encoder = describe(&mut client, encoder_id).await?;

    let mut numbers: HashMap<&str, usize> = HashMap::new();
    // Position in the dataset of the first text of each number, for messages.
    let mut firsts = Vec::new();
    let mut rows = Vec::with_capacity(dataset.texts().len());
    for (index, text) in dataset.texts().iter().enumerate() {
        let number = *numbers.entry(&text.text).or_insert_with(|| {
            firsts.push(index);
            firsts.len() - 1
        });
        rows.push(number);
    }
    let most = match encoder.max_batch_items {
        0 => config.encode_batch_items,
        limit => config.encode_batch_items.min(limit as usize),
    };
    let batches = batches(dataset, &firsts, most);
    let mut answers = stream::iter(batches)
        .map(|batch| {
            let inputs = batch.iter().map(|index| dataset.texts()[*index].text.clone());
            let request = EncodeRequest {
                encoder_id: encoder.id.clone(),
                inputs: inputs
                    .map(|text| Input {
                        input: Some(input::Input::Text(text)),
                    })
                    .collect(),
                priority: Priority::Batch.into(),
                ..EncodeRequest::default()
            };
            let client = client.clone();
            async move { Ok::<_, Fault>((ask(client, request).await?, batch)) }
        })
        .buffered(config.encode_in_flight.max(1));

    let mut unique: Vec<f32> = Vec::new();
    let mut cols = 0;
    let mut done = 0;
    let mut usage = Usage::default();
    let mut vector_space: Option<VectorSpace> = None;
    while let Some((answer, batch)) = answers.try_next().await? {
        refuse_failed_items(dataset, &answer, &batch)?;
        same_space(&mut vector_space, answer.vector_space)?;
        let matrix =
            vectors::matrix("embeddings", answer.embeddings).map_err(|fault| bad_answer(&fault.to_string()))?;
        if matrix.rows() != batch.len() || (cols != 0 && matrix.cols() != cols) {
            return Err(bad_answer(&format!(
                "{} x {} vectors came back for {} texts after vectors of {cols} columns",
                matrix.rows(),
                matrix.cols(),
                batch.len()
            )));
        }
        cols = matrix.cols();
        unique.extend_from_slice(matrix.data());
        add(&mut usage, answer.usage.unwrap_or_default());
        done += batch.len();
        tracing::info!(
            dataset = dataset.name(),
            encoder = encoder.id,
            done,
            total = firsts.len(),
            "encoding"
        );
    }
    let mut data = Vec::with_capacity(rows.len() * cols);
    for number in &rows {
        data.extend_from_slice(&unique[number * cols..(number + 1) * cols]);
    }
    let vectors = VectorMatrix::new(rows.len(), cols, data).map_err(|error| bad_answer(&error.to_string()))?;
    Ok(Encoded {
        vectors,
        similarity: similarity(&encoder),
        vector_space,
        usage,
    })
}

/// Consecutive texts, so that rows come back in order; a request is bounded by texts and by bytes.
fn batches(dataset: &Dataset, firsts: &[usize], most: usize) -> Vec<Vec<usize>> {
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut bytes = 0;
    for &index in firsts {
        let length = dataset.texts()[index].text.len();
        match batches.last_mut() {
            Some(batch) if batch.len() < most && bytes + length <= MOST_BYTES => {
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

async fn describe(client: &mut EncoderServiceClient<GrpcChannel>, id: &str) -> Result<Encoder, Fault> {
    let answer = client.get_encoder(GetEncoderRequest { id: id.to_owned() }).await;
    let answer = answer.map_err(|status| from_encoder(Fault::from_status(&status)))?;
    answer
        .into_inner()
        .encoder
        .ok_or_else(|| bad_answer("it does not describe itself"))
}

async fn ask(client: EncoderServiceClient<GrpcChannel>, request: EncodeRequest) -> Result<EncodeResponse, Fault> {
    let mut tries = 1;
    loop {
        let status = match client.clone().encode(request.clone()).await {
            Ok(answer) => return Ok(answer.into_inner()),
            Err(status) => status,
        };
        let fault = Fault::from_status(&status);
        if tries >= TRIES || !matches!(status.code(), Code::ResourceExhausted | Code::Unavailable) {
            return Err(from_encoder(fault));
        }
        let own = FIRST_WAIT * 2_u32.pow(tries - 1);
        tokio::time::sleep(fault.retry_after.unwrap_or(own).max(own)).await;
        tries += 1;
    }
}

/// A fault of the encoder, said as such: its field is of its request, not of ours.
fn from_encoder(fault: Fault) -> Fault {
    let message = format!("the encoder answered: {fault}");
    Fault {
        message,
        field: Some("dataset.encoder_id".to_owned()),
        mend: None,
        ..fault
    }
}

fn bad_answer(problem: &str) -> Fault {
    Fault::precondition("BAD_VECTORS", format!("the encoder's answer cannot be used: {problem}"))
}

fn refuse_failed_items(dataset: &Dataset, answer: &EncodeResponse, batch: &[usize]) -> Result<(), Fault> {
    let Some(error) = answer.errors.first() else {
        return Ok(());
    };
    let text = batch
        .get(error.index as usize)
        .map_or_else(|| "a text".to_owned(), |index| text_of(dataset, *index));
    Err(bad_answer(&format!("{text} could not be encoded: {}", error.message)))
}

/// All vectors must live in one space, or comparing them means nothing.
fn same_space(known: &mut Option<VectorSpace>, answered: Option<VectorSpace>) -> Result<(), Fault> {
    match (known.as_ref(), answered) {
        (Some(known), Some(answered)) if known.digest != answered.digest => Err(bad_answer(&format!(
            "its vector space changed from {} to {}",
            known.digest, answered.digest
        ))),
        (None, Some(answered)) => {
            *known = Some(answered);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn add(total: &mut Usage, more: Usage) {
    total.texts += more.texts;
    total.tokens += more.tokens;
    total.cached_texts += more.cached_texts;
    total.generated_tokens += more.generated_tokens;
    total.generator_calls += more.generator_calls;
}

fn similarity(encoder: &Encoder) -> Similarity {
    match encoder.similarity() {
        ProtoSimilarity::Dot => Similarity::Dot,
        ProtoSimilarity::Euclidean => Similarity::Euclidean,
        ProtoSimilarity::Manhattan => Similarity::Manhattan,
        ProtoSimilarity::Cosine | ProtoSimilarity::Unspecified => Similarity::Cosine,
    }
}
