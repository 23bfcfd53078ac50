//! Texts through an encoder service as they come: the originals at once, variants when they have been generated.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use isomer_proto::{
    common::v1::{Dtype, Usage, VectorSpace},
    encoder::v1::{
        EncodeRequest, EncodeResponse, Encoder, GetEncoderRequest, Input, Priority, encode_request::Prompt,
        encoder_service_client::EncoderServiceClient, input,
    },
};
use isomer_service_kit::{Fault, GrpcChannel};
use tokio::sync::mpsc;
use tonic::{Code, Status};

/// Requests to the encoder under way at once: variants that come meanwhile wait and go together.
const IN_FLIGHT: usize = 2;
/// Texts of one request, where the encoder permits as many.
const BATCH_TEXTS: usize = 256;
/// Bytes of text in one request.
const BATCH_BYTES: usize = 1 << 20;
/// Bytes of an answer: 8 MiB of vectors would do; encoders may be wide.
const ANSWER_BYTES: usize = 256 << 20;
/// Up to so many texts somebody is waiting; beyond, it is bulk work.
const INTERACTIVE_TEXTS: usize = 32;
/// Tries of an encoder that is overloaded or cannot be reached.
const TRIES: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// What is asked of the encoder for each text.
#[derive(Debug, Clone)]
pub(super) struct Asking {
    pub(super) channel: GrpcChannel,
    pub(super) encoder_id: String,
    pub(super) prompt: Option<Prompt>,
    pub(super) dimensions: Option<u32>,
    /// Texts of the request, which decide the queue.
    pub(super) texts: usize,
}

/// Vectors by text.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    /// A vector, or why there is none.
    rows: HashMap<Arc<str>, Result<Vec<f32>, String>>,
    /// Whether the encoder cut a text; absent where it does not say.
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

    /// Whether each text was cut; empty where the encoder did not say it of all of them.
    pub(super) fn truncated(&self, texts: &[Arc<str>]) -> Vec<bool> {
        let told: Option<Vec<bool>> = texts.iter().map(|text| self.cut.get(text).copied()).collect();
        told.unwrap_or_default()
    }

    /// Columns; 0 where nothing was encoded.
    pub(super) fn cols(&self) -> usize {
        self.cols
    }

    /// Takes an answer apart, trusting nothing in it.
    fn take(&mut self, batch: &[Arc<str>], answer: EncodeResponse) -> Result<(), Fault> {
        let unusable = |problem: String| {
            let message = format!("the encoder's answer cannot be used: {problem}");
            Err(Fault::precondition("BAD_VECTORS", message)
                .mend("the encoder service is at fault; check what it serves"))
        };
        let digest = |space: &Option<VectorSpace>| space.as_ref().map(|space| space.digest.clone());
        match digest(&self.space) {
            None => self.space.clone_from(&answer.vector_space),
            known if known != digest(&answer.vector_space) => {
                return unusable("its vector space changed between two batches".to_owned());
            }
            Some(_) => {}
        }
        let matrix = answer.embeddings.unwrap_or_default();
        let (rows, cols) = (matrix.rows as usize, matrix.cols as usize);
        if matrix.dtype() != Dtype::F32 || rows != batch.len() || cols == 0 || matrix.data.len() != rows * cols * 4 {
            let dtype = matrix.dtype().as_str_name();
            return unusable(format!(
                "{rows} x {cols} {dtype} for {} texts; f32 was asked for",
                batch.len()
            ));
        }
        if self.cols != 0 && self.cols != cols {
            return unusable(format!("{cols} columns after {}", self.cols));
        }
        self.cols = cols;
        if answer.truncated.len() == batch.len() {
            self.cut.extend(batch.iter().cloned().zip(answer.truncated));
        }
        for (text, bytes) in batch.iter().zip(matrix.data.chunks_exact(cols * 4)) {
            let row: Vec<f32> = bytes
                .as_chunks::<4>()
                .0
                .iter()
                .map(|four| f32::from_le_bytes(*four))
                .collect();
            let row = if row.iter().all(|value| value.is_finite()) {
                Ok(row)
            } else {
                Err("its vector has a value that is no number".to_owned())
            };
            self.rows.insert(Arc::clone(text), row);
        }
        for error in answer.errors {
            if let Some(text) = batch.get(error.index as usize) {
                self.rows.insert(Arc::clone(text), Err(error.message));
            }
        }
        let used = answer.usage.unwrap_or_default();
        self.usage.tokens += used.tokens;
        self.usage.cached_texts += used.cached_texts;
        Ok(())
    }
}

/// Describes the encoder.
pub(super) async fn describe(asking: &Asking) -> Result<Encoder, Fault> {
    let answer = retried(|| {
        let mut client = EncoderServiceClient::new(asking.channel.clone());
        let id = asking.encoder_id.clone();
        async move { client.get_encoder(GetEncoderRequest { id }).await }
    });
    let encoder = answer.await.map_err(|status| of_encoder(&status))?.into_inner().encoder;
    encoder.ok_or_else(|| Fault::precondition("BAD_ENCODER", "the encoder service described no encoder"))
}

/// Encodes the originals and every variant that comes, until nothing more comes. Each distinct text is encoded once.
pub(super) async fn encode(
    asking: &Asking,
    encoder: &Encoder,
    originals: Vec<Arc<str>>,
    mut variants: mpsc::UnboundedReceiver<Arc<str>>,
) -> Result<Vectors, Fault> {
    let most = match encoder.max_batch_items as usize {
        0 => BATCH_TEXTS,
        limit => limit.min(BATCH_TEXTS),
    };
    let mut known: HashSet<Arc<str>> = HashSet::new();
    let mut waiting: VecDeque<Arc<str>> = originals
        .into_iter()
        .filter(|text| known.insert(Arc::clone(text)))
        .collect();
    let (mut open, mut arrived) = (true, Vec::new());
    let mut under_way = FuturesUnordered::new();
    let mut vectors = Vectors::default();
    loop {
        while under_way.len() < IN_FLIGHT
            && let Some(batch) = batch(&mut waiting, most)
        {
            under_way.push(async move {
                let answer = ask(asking, &batch).await;
                (batch, answer)
            });
        }
        if !open && under_way.is_empty() {
            return Ok(vectors);
        }
        tokio::select! {
            count = variants.recv_many(&mut arrived, BATCH_TEXTS), if open => {
                open = count > 0;
                waiting.extend(arrived.drain(..).filter(|text| known.insert(Arc::clone(text))));
            }
            Some((batch, answer)) = under_way.next(), if !under_way.is_empty() => {
                vectors.take(&batch, answer.map_err(|status| of_encoder(&status))?)?;
            }
        }
    }
}

/// The next texts to go together; `None` where none wait.
fn batch(waiting: &mut VecDeque<Arc<str>>, most: usize) -> Option<Vec<Arc<str>>> {
    let (mut count, mut bytes) = (0, 0);
    for text in waiting.iter().take(most) {
        bytes += text.len();
        if count > 0 && bytes > BATCH_BYTES {
            break;
        }
        count += 1;
    }
    (count > 0).then(|| waiting.drain(..count).collect())
}

async fn ask(asking: &Asking, batch: &[Arc<str>]) -> Result<EncodeResponse, Status> {
    let inputs = batch.iter().map(|text| Input {
        input: Some(input::Input::Text(text.to_string())),
    });
    let priority = if asking.texts <= INTERACTIVE_TEXTS {
        Priority::Interactive
    } else {
        Priority::Batch
    };
    let request = EncodeRequest {
        encoder_id: asking.encoder_id.clone(),
        inputs: inputs.collect(),
        prompt: asking.prompt.clone(),
        dimensions: asking.dimensions,
        output_dtype: Dtype::F32.into(),
        priority: priority.into(),
        ..EncodeRequest::default()
    };
    let answer = retried(|| {
        let mut client = EncoderServiceClient::new(asking.channel.clone()).max_decoding_message_size(ANSWER_BYTES);
        let request = request.clone();
        async move { client.encode(request).await }
    });
    answer.await.map(tonic::Response::into_inner)
}

/// Overload and broken connections are waited out a few times: the variants have been paid for already.
async fn retried<T, F>(mut call: impl FnMut() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    let mut tries = 1;
    loop {
        let status = match call().await {
            Ok(answer) => return Ok(answer),
            Err(status) => status,
        };
        if tries >= TRIES || !matches!(status.code(), Code::ResourceExhausted | Code::Unavailable) {
            return Err(status);
        }
        let own = FIRST_WAIT * (1 << (tries - 1));
        let told = Fault::from_status(&status).retry_after.unwrap_or(own);
        tokio::time::sleep(told.max(own).min(LONGEST_WAIT)).await;
        tries += 1;
    }
}

/// A fault of the encoder, said as such: its fields are of its request, not of ours, where they differ.
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
