//! `isomer embed`: converts texts to vectors.

mod matrix;
mod results;
mod sink;

pub(super) use sink::Sink;

use std::{
    error::Error,
    process::ExitCode,
    time::{Duration, Instant},
};

use futures::StreamExt;
use isomer_client::Channel;
use isomer_encoder_client::answer::ExpectedAnswer;
use isomer_models::ModelKind;
use isomer_proto::encoder::v1::{
    EncodeRequest, EncodeResponse, EncodeStreamRequest, Input, Output as OutputKind, Priority, encode_request::Prompt,
    encoder_service_client::EncoderServiceClient, input,
};
use isomer_service_kit::Fault;
use tonic::{Code, Status};

use crate::{
    args::EmbedArgs,
    connect::{MAX_MESSAGE_BYTES, Session},
    exit::Failure,
    input::{self as texts, Record},
    progress::{Display, Step},
};

pub(super) async fn run(session: &Session, args: EmbedArgs) -> Result<ExitCode, Failure> {
    let display = Display::new(session.global.quiet);
    args.augmentation.check(false)?;
    let records = texts::read(args.input.as_deref())?;
    let connection = session.connect().await?;
    connection.prefetch(&args.model, ModelKind::Encoder, &display).await?;
    if args.warm_up {
        return super::warm_up::run(&connection, &args, &records, &display).await;
    }
    if args.augmentation.wanted() {
        return super::embed_augmented::run(&connection, &args, &records, &display).await;
    }
    let mut client = EncoderServiceClient::new(connection.channel.clone())
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);

    let mut output = Output {
        sink: match args.outputs.is_empty() {
            true => Sink::open(args.output.as_deref()),
            false => Sink::Results(ExpectedAnswer::of(&request(&args, &[]))),
        },
        batches: 0,
        texts: 0,
        spaces: None,
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
        // A server that is unreachable at first is reported immediately; one that disappears during
        // the work may come back. If the connection broke, the status does not come from the
        // server: its source is an error of ours.
        let passing = match status.code() {
            Code::ResourceExhausted => true,
            Code::Unavailable => output.batches > 0,
            _ => output.batches > 0 && status.source().is_some(),
        };
        if !passing || progress.1.elapsed() > PATIENCE {
            return Err(Failure::from(status).after_items("inputs", output.texts));
        }
        tokio::time::sleep(Fault::from_status(&status).retry_after.unwrap_or(wait).max(wait)).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
    output.sink.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Maximum time for which a server may be unavailable or overloaded, without a single response,
/// before the command gives up.
const PATIENCE: Duration = Duration::from_secs(60);
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The responses written so far.
struct Output<'a> {
    sink: Sink<'a>,
    batches: usize,
    texts: usize,
    spaces: Option<Spaces>,
}

/// The reason why a stream ended early.
enum Stop {
    /// A retry does not help.
    Final(Failure),
    /// The call ended with this status.
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

/// Streams the batches that have no response yet.
async fn stream(
    client: &mut EncoderServiceClient<Channel>,
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
        same_spaces(&mut output.spaces, &response)?;
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

/// Digests of the vector spaces of dense, sparse and token vectors.
type Spaces = [Option<String>; 3];

/// Checks that all batches are in the same spaces, because vectors in one output must be
/// comparable.
fn same_spaces(known: &mut Option<Spaces>, response: &EncodeResponse) -> Result<(), Failure> {
    let found = [
        &response.vector_space,
        &response.sparse_vector_space,
        &response.token_vector_space,
    ]
    .map(|space| space.as_ref().map(|space| space.digest.clone()));
    match known {
        Some(known) if *known != found => Err(Failure::dependency(
            "the batches came back in different vector spaces. For int8: put texts, one per line, into calibration.txt in the \
             model's folder, or send all texts at once (--batch)",
        )),
        _ => {
            *known = Some(found);
            Ok(())
        }
    }
}

fn request(args: &EmbedArgs, chunk: &[Record]) -> EncodeRequest {
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
        truncation: args.truncation.into(),
        dimensions: args.dimensions,
        normalise: args.normalise,
        output_dtype: args.dtype.into(),
        priority: Priority::Batch.into(),
        output: match (args.token_vectors, args.outputs.is_empty()) {
            (true, _) => OutputKind::TokenVectors,
            (false, true) => OutputKind::TextVector,
            (false, false) => OutputKind::Unspecified,
        }
        .into(),
        outputs: args.outputs.iter().map(|output| (*output).into()).collect(),
        max_active_dimensions: args.max_active_dimensions,
        ..EncodeRequest::default()
    }
}

#[cfg(test)]
mod tests {
    use isomer_proto::common::v1::VectorSpace;

    use super::*;

    #[test]
    fn batches_of_different_spaces_are_not_put_into_one_output() {
        let space = |digest: &str| {
            Some(VectorSpace {
                digest: digest.into(),
                ..VectorSpace::default()
            })
        };
        let answer = |dense: &str, sparse: &str| EncodeResponse {
            vector_space: space(dense),
            sparse_vector_space: space(sparse),
            ..EncodeResponse::default()
        };
        let mut known = None;
        assert!(same_spaces(&mut known, &answer("a", "s")).is_ok());
        assert!(same_spaces(&mut known, &answer("a", "s")).is_ok());
        assert!(same_spaces(&mut known, &answer("b", "s")).is_err());
        assert!(same_spaces(&mut known, &answer("a", "t")).is_err());
    }
}
