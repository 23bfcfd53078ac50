//! `isomer embed`: texts in, vectors out.

use std::{io::Write, path::Path, process::ExitCode};

use futures::StreamExt;
use isomer_models::ModelKind;
use isomer_proto::{
    common::v1::Dtype,
    encoder::v1::{
        EncodeRequest, EncodeResponse, EncodeStreamRequest, Input, Priority, Truncation, encode_request::Prompt,
        encoder_service_client::EncoderServiceClient, input,
    },
};
use serde_json::json;

use super::stdout_failure;
use crate::{
    args::{EmbedArgs, Global, TruncationArg},
    connect::{self, MAX_MESSAGE_BYTES},
    exit::Failure,
    input::{self as texts, Record},
    npy,
    progress::{Display, Step},
};

pub(super) async fn run(global: &Global, args: EmbedArgs) -> Result<ExitCode, Failure> {
    let display = Display::new(global.quiet);
    let records = texts::read(args.input.as_deref())?;
    let connection = connect::connect(global).await?;
    connection.prefetch(&args.model, ModelKind::Encoder, &display).await?;
    let mut client = EncoderServiceClient::new(connection.channel.clone())
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);

    let batches: Vec<EncodeStreamRequest> = records
        .chunks(args.batch as usize)
        .zip(0..)
        .map(|(chunk, client_index)| EncodeStreamRequest {
            client_index,
            request: Some(request(&args, chunk)),
        })
        .collect();
    let mut responses = client.encode_stream(futures::stream::iter(batches)).await?.into_inner();
    let mut sink = Sink::open(args.output.as_deref());
    let mut done = 0;
    while let Some(message) = responses.next().await {
        let response = message?
            .response
            .ok_or_else(|| Failure::dependency("the encoder answered without vectors"))?;
        let rows = response.token_counts.len();
        sink.write(done, &response)?;
        done += rows;
        display.step(
            "encode",
            &Step {
                done: done as u64,
                total: Some(records.len() as u64),
                ..Step::default()
            },
        );
    }
    if done != records.len() {
        return Err(Failure::dependency(format!(
            "the encoder answered {done} of {} texts",
            records.len()
        )));
    }
    sink.finish()?;
    Ok(ExitCode::SUCCESS)
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
        output_dtype: Dtype::F32.into(),
        priority: Priority::Batch.into(),
        ..EncodeRequest::default()
    }
}

/// Where the vectors go.
enum Sink<'a> {
    Lines,
    Matrix {
        path: &'a Path,
        writer: Option<npy::Writer>,
    },
}

impl<'a> Sink<'a> {
    fn open(output: Option<&'a Path>) -> Self {
        match output {
            Some(path) => Self::Matrix { path, writer: None },
            None => Self::Lines,
        }
    }

    fn write(&mut self, first: usize, response: &EncodeResponse) -> Result<(), Failure> {
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
            Self::Lines => lines(first, response, matrix.cols as usize, &matrix.data),
            Self::Matrix { path, writer } => {
                let told = |e: std::io::Error| Failure::dependency(format!("cannot write {}: {e}", path.display()));
                if writer.is_none() {
                    *writer = Some(npy::Writer::create(path, matrix.cols as usize).map_err(told)?);
                }
                match writer {
                    Some(writer) => writer.append(matrix.rows as usize, &matrix.data).map_err(told),
                    None => Ok(()),
                }
            }
        }
    }

    fn finish(self) -> Result<(), Failure> {
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

fn lines(first: usize, response: &EncodeResponse, cols: usize, data: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for (offset, row) in data.chunks_exact(cols * 4).enumerate() {
        let values: Vec<f32> = row.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        let line = json!({
            "index": first + offset,
            "tokens": response.token_counts.get(offset),
            "truncated": response.truncated.get(offset),
            "embedding": values,
        });
        writeln!(out, "{line}").map_err(|e| stdout_failure(&e))?;
    }
    out.flush().map_err(|e| stdout_failure(&e))
}
