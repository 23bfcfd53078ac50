//! `isomer embed`: texts in, vectors out.

use std::{
    error::Error,
    io::Write,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use futures::StreamExt;
use isomer_models::ModelKind;
use isomer_proto::{
    common::v1::{Dtype, Matrix},
    encoder::v1::{
        EncodeRequest, EncodeResponse, EncodeStreamRequest, Input, Output as OutputKind, Priority, Truncation,
        encode_request::Prompt, encoder_service_client::EncoderServiceClient, input,
    },
};
use isomer_service_kit::{Fault, GrpcChannel, vectors};
use serde_json::json;
use tonic::{Code, Status};

use super::stdout_failure;
use crate::{
    args::{DtypeArg, EmbedArgs, Global, TruncationArg},
    connect::{self, MAX_MESSAGE_BYTES},
    exit::Failure,
    input::{self as texts, Record},
    npy::{self, Element},
    progress::{Display, Step},
};

pub(super) async fn run(global: &Global, args: EmbedArgs) -> Result<ExitCode, Failure> {
    let display = Display::new(global.quiet);
    args.augmentation.check(false)?;
    let records = texts::read(args.input.as_deref())?;
    let connection = connect::connect_for(global, &args.engine).await?;
    connection.prefetch(&args.model, ModelKind::Encoder, &display).await?;
    if args.augmentation.wanted() {
        return super::embed_augmented::run(&connection, &args, &records, &display).await;
    }
    let mut client = EncoderServiceClient::new(connection.channel.clone())
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);

    let mut output = Output {
        sink: Sink::open(args.output.as_deref()),
        batches: 0,
        texts: 0,
        space: None,
    };
    let mut wait = FIRST_WAIT;
    let mut progress = (0, Instant::now());
    while let Err(stop) = stream(&mut client, &args, &records, &mut output, &display).await {
        let status = match stop {
            Stop::Final(failure) => return Err(failure),
            Stop::Status(status) => status,
        };
        if output.batches > progress.0 {
            progress = (output.batches, Instant::now());
            wait = FIRST_WAIT;
        }
        // A server that was never there is told at once; one that goes away while it works may come back.
        // A connection that broke has no status of the server's but an error of ours as its source.
        let passing = match status.code() {
            Code::ResourceExhausted => true,
            Code::Unavailable => output.batches > 0,
            _ => output.batches > 0 && status.source().is_some(),
        };
        if !passing || progress.1.elapsed() > PATIENCE {
            return Err(status.into());
        }
        tokio::time::sleep(Fault::from_status(&status).retry_after.unwrap_or(wait).max(wait)).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
    output.sink.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// How long a server may be away or full, without one answer, before it is given up.
const PATIENCE: Duration = Duration::from_secs(60);
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// What has been answered and written.
struct Output<'a> {
    sink: Sink<'a>,
    batches: usize,
    texts: usize,
    space: Option<String>,
}

/// Why a stream ended before its time.
enum Stop {
    /// Nothing helps.
    Final(Failure),
    /// The call ended with this.
    Status(Status),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Final(failure)
    }
}

impl From<Status> for Stop {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

/// Streams the batches that have no answer yet.
async fn stream(
    client: &mut EncoderServiceClient<GrpcChannel>,
    args: &EmbedArgs,
    records: &[Record],
    output: &mut Output<'_>,
    display: &Display,
) -> Result<(), Stop> {
    let batches: Vec<EncodeStreamRequest> = records
        .chunks(args.batch as usize)
        .zip(0..)
        .skip(output.batches)
        .map(|(chunk, client_index)| EncodeStreamRequest {
            client_index,
            request: Some(request(args, chunk)),
        })
        .collect();
    let mut responses = client.encode_stream(futures::stream::iter(batches)).await?.into_inner();
    while let Some(message) = responses.next().await {
        let response = message?
            .response
            .ok_or_else(|| Failure::dependency("the encoder answered without vectors"))?;
        same_space(&mut output.space, &response)?;
        output.sink.write(output.texts, &response)?;
        output.batches += 1;
        output.texts += response.token_counts.len();
        display.step(
            "encode",
            &Step {
                done: output.texts as u64,
                total: Some(records.len() as u64),
                ..Step::default()
            },
        );
    }
    if output.texts == records.len() {
        return Ok(());
    }
    Err(Stop::Final(Failure::dependency(format!(
        "the encoder answered {} of {} texts",
        output.texts,
        records.len()
    ))))
}

/// Vectors of one output can be compared: that every batch came back in the same space is looked at, not assumed.
fn same_space(known: &mut Option<String>, response: &EncodeResponse) -> Result<(), Failure> {
    let space = response.vector_space.as_ref().map(|space| &space.digest);
    match (&known, space) {
        (Some(known), Some(space)) if known != space => Err(Failure::dependency(
            "the batches came back in different vector spaces. For int8: put texts, one a line, into calibration.txt in the \
             model's folder, or send all texts at once (--batch)",
        )),
        _ => {
            *known = space.cloned();
            Ok(())
        }
    }
}

fn request(args: &EmbedArgs, chunk: &[Record]) -> EncodeRequest {
    let truncation = match args.truncation {
        TruncationArg::Error => Truncation::Error,
        TruncationArg::Head => Truncation::Head,
        TruncationArg::Tail => Truncation::Tail,
    };
    let prompt = match (&args.prompt_name, &args.prompt) {
        (Some(name), _) => Some(Prompt::PromptName(name.clone())),
        (None, Some(text)) => Some(Prompt::LiteralPrompt(text.clone())),
        (None, None) => None,
    };
    EncodeRequest {
        encoder_id: args.model.clone(),
        inputs: chunk
            .iter()
            .map(|r| Input {
                input: Some(input::Input::Text(r.text.clone())),
            })
            .collect(),
        prompt,
        truncation: truncation.into(),
        dimensions: args.dimensions,
        normalise: args.normalise,
        output_dtype: match args.dtype {
            DtypeArg::F32 => Dtype::F32,
            DtypeArg::F16 => Dtype::F16,
            DtypeArg::Int8 => Dtype::Int8,
            DtypeArg::Ubinary => Dtype::Ubinary,
        }
        .into(),
        priority: Priority::Batch.into(),
        output: if args.token_vectors {
            OutputKind::TokenVectors
        } else {
            OutputKind::TextVector
        }
        .into(),
    }
}

/// Where the vectors go.
pub(super) enum Sink<'a> {
    Lines,
    Matrix {
        path: &'a Path,
        writer: Option<npy::Writer>,
    },
}

impl<'a> Sink<'a> {
    pub(super) fn open(output: Option<&'a Path>) -> Self {
        match output {
            Some(path) => Self::Matrix { path, writer: None },
            None => Self::Lines,
        }
    }

    pub(super) fn write(&mut self, first: usize, response: &EncodeResponse) -> Result<(), Failure> {
        let matrix = response
            .embeddings
            .as_ref()
            .ok_or_else(|| Failure::dependency("the encoder answered without vectors"))?;
        if let Some(error) = response.errors.first() {
            return Err(Failure::dependency(format!(
                "text {}: {}",
                first + error.index as usize + 1,
                error.message
            )));
        }
        match self {
            Self::Lines => lines(first, response, matrix),
            Self::Matrix { path, writer } => {
                let told = |e: std::io::Error| Failure::dependency(format!("cannot write {}: {e}", path.display()));
                if writer.is_none() {
                    let (cols, element) = form(matrix)?;
                    *writer = Some(npy::Writer::create(path, cols, element).map_err(told)?);
                }
                let Some(writer) = writer else { return Ok(()) };
                let before = writer.rows();
                writer.append(matrix.rows as usize, &matrix.data).map_err(told)?;
                rows_of_texts(first, before, response)
            }
        }
    }

    pub(super) fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Matrix {
                path,
                writer: Some(writer),
            } => writer
                .finish()
                .map_err(|e| Failure::dependency(format!("cannot write {}: {e}", path.display()))),
            _ => Ok(()),
        }
    }
}

/// Columns and elements of the rows of a matrix as they are stored.
fn form(matrix: &Matrix) -> Result<(usize, Element), Failure> {
    let cols = matrix.cols as usize;
    match matrix.dtype() {
        Dtype::F32 => Ok((cols, Element::F32)),
        Dtype::F16 => Ok((cols, Element::F16)),
        Dtype::Int8 => Ok((cols, Element::I8)),
        Dtype::Ubinary => Ok((cols.div_ceil(8), Element::U8)),
        Dtype::Unspecified => Err(Failure::dependency("the encoder answered with an unknown element type")),
    }
}

/// Which rows of the matrix file belong to which text, where a text has many.
fn rows_of_texts(first: usize, before: usize, response: &EncodeResponse) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let mut row = before;
    for (offset, rows) in response.row_counts.iter().enumerate() {
        let line = json!({
            "index": first + offset,
            "tokens": response.token_counts.get(offset),
            "truncated": response.truncated.get(offset),
            "first_row": row,
            "rows": rows,
        });
        row += *rows as usize;
        writeln!(out, "{line}").map_err(|e| stdout_failure(&e))?;
    }
    out.flush().map_err(|e| stdout_failure(&e))
}

fn lines(first: usize, response: &EncodeResponse, matrix: &Matrix) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let (cols, element) = form(matrix)?;
    let mut rows = matrix.data.chunks_exact((cols * element.bytes()).max(1));
    for offset in 0..response.token_counts.len() {
        let (name, embedding) = match response.row_counts.get(offset) {
            Some(count) => {
                let vectors = rows.by_ref().take(*count as usize);
                ("embeddings", vectors.map(|row| values(row, element)).collect())
            }
            None => match rows.next() {
                Some(row) => ("embedding", values(row, element)),
                None => return Err(Failure::dependency("the encoder answered fewer vectors than texts")),
            },
        };
        let line = json!({
            "index": first + offset,
            "tokens": response.token_counts.get(offset),
            "truncated": response.truncated.get(offset),
            (name): embedding,
        });
        writeln!(out, "{line}").map_err(|e| stdout_failure(&e))?;
    }
    out.flush().map_err(|e| stdout_failure(&e))
}

fn values(row: &[u8], element: Element) -> serde_json::Value {
    match element {
        Element::F32 => vectors::floats(row).collect(),
        Element::F16 => vectors::widened(row).collect(),
        Element::I8 => row.iter().map(|b| i8::from_le_bytes([*b])).collect(),
        Element::U8 => row.iter().copied().collect(),
    }
}

#[cfg(test)]
mod tests {
    use isomer_proto::common::v1::VectorSpace;

    use super::*;

    #[test]
    fn batches_of_different_spaces_are_not_put_into_one_output() {
        let answer = |digest: &str| EncodeResponse {
            vector_space: Some(VectorSpace {
                digest: digest.into(),
                ..VectorSpace::default()
            }),
            ..EncodeResponse::default()
        };
        let mut known = None;
        assert!(same_space(&mut known, &answer("a")).is_ok());
        assert!(same_space(&mut known, &answer("a")).is_ok());
        assert!(same_space(&mut known, &answer("b")).is_err());
    }
}
