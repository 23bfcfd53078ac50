//! Sends texts to an encoder service as they arrive: the originals immediately, each variant as
//! soon as it is generated.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use futures::{StreamExt, stream::FuturesUnordered};
use isomer_encoder_client::{
    EncoderClient,
    answer::{self, ExpectedAnswer},
    batches,
};
use isomer_proto::{
    common::v1::{Dtype, Usage, VectorSpace},
    encoder::v1::{EncodeRequest, EncodeResponse, Encoder, Input, Priority, encode_request::Prompt, input},
};
use isomer_service_kit::{Fault, GrpcChannel};
use isomer_usage::sum;
use tokio::sync::mpsc;
use tonic::Status;

use super::cached_vectors::Memory;

/// Maximum number of concurrent requests to the encoder. Variants that arrive in the meantime wait
/// and are sent together.
const IN_FLIGHT: usize = 2;
/// Maximum number of texts in one request; the encoder may allow fewer.
const BATCH_TEXTS: usize = 256;

/// Parameters of the encoder requests.
#[derive(Debug, Clone)]
pub(super) struct EncodeParameters {
    pub(super) channel: GrpcChannel,
    pub(super) encoder_id: String,
    pub(super) prompt: Option<Prompt>,
    pub(super) dimensions: Option<u32>,
    /// Priority of the requests in the encoder's queue.
    pub(super) priority: Priority,
}

/// Vectors by text.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    /// Each text's vector, or the reason why it has none.
    rows: HashMap<Arc<str>, Result<Vec<f32>, String>>,
    /// Whether the encoder truncated a text; absent if the encoder does not report it.
    cut: HashMap<Arc<str>, bool>,
    cols: usize,
    pub(super) space: Option<VectorSpace>,
    pub(super) usage: Usage,
}

impl Vectors {
    pub(super) fn get(&self, text: &str) -> Result<&[f32], &str> {
        match self.rows.get(text) {
            Some(Ok(row)) => Ok(row),
            Some(Err(why)) => Err(why),
            None => Err("the encoder was not asked for it"),
        }
    }

    /// Whether each text was truncated; empty if the encoder did not report it for all texts.
    pub(super) fn truncated(&self, texts: &[Arc<str>]) -> Vec<bool> {
        let cut_flags: Option<Vec<bool>> = texts.iter().map(|text| self.cut.get(text).copied()).collect();
        cut_flags.unwrap_or_default()
    }

    /// Number of columns; 0 if nothing was encoded.
    pub(super) fn cols(&self) -> usize {
        self.cols
    }

    /// Takes cached vectors of texts in the vector space of the responses so far, and returns the
    /// texts without one.
    fn recall(&mut self, texts: Vec<Arc<str>>, memory: &Memory<'_>) -> Vec<Arc<str>> {
        let digest = self.digest();
        let mut others = texts;
        others.retain(|text| match memory.get(text, &digest) {
            Some(row) if row.len() == self.cols => {
                self.rows.insert(Arc::clone(text), Ok(row.to_vec()));
                false
            }
            _ => true,
        });
        others
    }

    /// Stores the vectors of these texts for later requests.
    fn remember(&self, texts: &[Arc<str>], memory: &Memory<'_>) {
        let digest = self.digest();
        for text in texts {
            if let Some(Ok(row)) = self.rows.get(text) {
                memory.keep(text, &digest, row);
            }
        }
    }

    /// The digest of the vector space of the responses so far; empty if they name none.
    fn digest(&self) -> Arc<str> {
        self.space.as_ref().map_or("", |space| &space.digest).into()
    }

    /// Validates a response of the encoder and stores its vectors.
    fn take(&mut self, batch: &[Arc<str>], dimensions: Option<u32>, answer: EncodeResponse) -> Result<(), Fault> {
        let unusable = |problem: String| {
            let message = format!("the encoder's answer cannot be used: {problem}");
            Fault::precondition("BAD_VECTORS", message).hint("the encoder service is at fault; check what it serves")
        };
        answer::one_space(&mut self.space, answer.vector_space.as_ref()).map_err(unusable)?;
        let expected = ExpectedAnswer {
            dimensions,
            ..ExpectedAnswer::floats(batch.len())
        };
        let matrix = answer::matrix(&answer, expected).map_err(unusable)?;
        let cols = matrix.cols as usize;
        if self.cols != 0 && self.cols != cols {
            return Err(unusable(format!("{cols} columns after {}", self.cols)));
        }
        self.cols = cols;
        for (text, row) in batch.iter().zip(answer::rows(matrix)) {
            let row: Vec<f32> = row.collect();
            let row = if row.iter().all(|value| value.is_finite()) {
                Ok(row)
            } else {
                Err("its vector has a value that is not a number".to_owned())
            };
            self.rows.insert(Arc::clone(text), row);
        }
        self.cut.extend(batch.iter().cloned().zip(answer.truncated));
        for error in answer.errors {
            if let Some(text) = batch.get(error.index as usize) {
                self.rows.insert(Arc::clone(text), Err(error.message));
            }
        }
        sum::add(&mut self.usage, &answer.usage.unwrap_or_default());
        Ok(())
    }
}

pub(super) async fn describe(parameters: &EncodeParameters) -> Result<Encoder, Fault> {
    let client = EncoderClient::new(parameters.channel.clone());
    let encoder = client.describe(&parameters.encoder_id).await;
    let encoder = encoder.map_err(|status| of_encoder(&status))?;
    encoder.ok_or_else(|| Fault::precondition("BAD_ENCODER", "the encoder service described no encoder"))
}

/// Encodes the originals and every variant until the channel is closed. Each distinct text is
/// encoded once. A variant is not encoded if its vector is cached in the space that the originals'
/// response names.
pub(super) async fn encode(
    parameters: &EncodeParameters,
    encoder: &Encoder,
    originals: Vec<Arc<str>>,
    mut variants: mpsc::UnboundedReceiver<Arc<str>>,
    memory: Option<&Memory<'_>>,
) -> Result<Vectors, Fault> {
    let client = &EncoderClient::new(parameters.channel.clone());
    let most = batches::most_items(encoder.max_batch_items, BATCH_TEXTS);
    let mut known: HashSet<Arc<str>> = HashSet::new();
    let mut waiting: VecDeque<Arc<str>> = originals
        .into_iter()
        .filter(|text| known.insert(Arc::clone(text)))
        .collect();
    let (mut open, mut arrived) = (true, Vec::new());
    // Variants that may be cached, until the first response names the space; and those that were
    // sent.
    let (mut perhaps, mut sent) = (Vec::new(), Vec::new());
    let mut answered = waiting.is_empty();
    let mut under_way = FuturesUnordered::new();
    let mut vectors = Vectors::default();
    loop {
        if answered && let Some(memory) = memory {
            let others = vectors.recall(std::mem::take(&mut perhaps), memory);
            sent.extend(others.iter().cloned());
            waiting.extend(others);
        }
        while under_way.len() < IN_FLIGHT
            && let Some(batch) = batch(&mut waiting, most)
        {
            under_way.push(async move {
                let answer = client.encode(request(parameters, &batch)).await;
                (batch, answer)
            });
        }
        if !open && under_way.is_empty() {
            if let Some(memory) = memory {
                vectors.remember(&sent, memory);
            }
            return Ok(vectors);
        }
        tokio::select! {
            count = variants.recv_many(&mut arrived, BATCH_TEXTS), if open => {
                open = count > 0;
                for text in arrived.drain(..).filter(|text| known.insert(Arc::clone(text))) {
                    if memory.is_some_and(|memory| memory.has(&text)) {
                        perhaps.push(text);
                    } else {
                        sent.push(Arc::clone(&text));
                        waiting.push_back(text);
                    }
                }
            }
            Some((batch, answer)) = under_way.next(), if !under_way.is_empty() => {
                vectors.take(&batch, parameters.dimensions, answer.map_err(|status| of_encoder(&status))?)?;
                answered = true;
            }
        }
    }
}

/// The next texts to send together; `None` if no text is waiting.
fn batch(waiting: &mut VecDeque<Arc<str>>, most: usize) -> Option<Vec<Arc<str>>> {
    let count = batches::next(waiting.iter().map(|text| &**text), most);
    (count > 0).then(|| waiting.drain(..count).collect())
}

fn request(parameters: &EncodeParameters, batch: &[Arc<str>]) -> EncodeRequest {
    let inputs = batch.iter().map(|text| Input {
        input: Some(input::Input::Text(text.to_string())),
    });
    EncodeRequest {
        encoder_id: parameters.encoder_id.clone(),
        inputs: inputs.collect(),
        prompt: parameters.prompt.clone(),
        dimensions: parameters.dimensions,
        output_dtype: Dtype::F32.into(),
        priority: parameters.priority.into(),
        ..EncodeRequest::default()
    }
}

/// Marks an error as the encoder's. Its fields belong to the encoder's request, which may differ
/// from ours.
fn of_encoder(status: &Status) -> Fault {
    let fault = Fault::from_status(status);
    let field = match fault.field.as_deref() {
        Some(field @ ("encoder_id" | "prompt_name" | "literal_prompt" | "dimensions")) => Some(field.to_owned()),
        Some("id") => Some("encoder_id".to_owned()),
        _ => None,
    };
    Fault {
        message: format!("the encoder answered: {}", fault.message),
        field,
        ..fault
    }
}
