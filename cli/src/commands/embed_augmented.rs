//! `isomer embed --augment`: converts texts to vectors, pooled with those of their variants.

use std::{io::Write, path::Path, process::ExitCode};

use futures::{StreamExt, TryStreamExt, stream};
use isomer_proto::{
    common::v1::Dtype,
    encoder::v1::{EncodeResponse, Truncation},
    transform::v1::{
        EncodeAugmentedRequest, EncodeAugmentedResponse, TextItem, Variants,
        augmentation_service_client::AugmentationServiceClient,
    },
};
use serde_json::json;

use super::{embed::Sink, stdout_failure};
use crate::{
    args::EmbedArgs,
    connect::{Connection, MAX_MESSAGE_BYTES},
    exit::Failure,
    input::Record,
    progress::{Display, Step},
    reasons::Reasons,
};

/// Maximum number of texts of a request: generation is slow, and results are shown as they arrive.
const MOST_TEXTS: usize = 64;
/// Maximum number of requests in flight, so that the generator does not wait for the encoder's last
/// batch.
const IN_FLIGHT: usize = 2;

pub(super) async fn run(
    connection: &Connection,
    args: &EmbedArgs,
    records: &[Record],
    display: &Display,
) -> Result<ExitCode, Failure> {
    check(args)?;
    let spec = args.augmentation.spec(connection, display).await?;
    let client = AugmentationServiceClient::new(connection.channel.clone())
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let wanted = &args.augmentation;
    let requests = records
        .chunks(MOST_TEXTS.min(args.batch as usize))
        .map(|chunk| EncodeAugmentedRequest {
            spec: Some(spec.clone()),
            items: chunk
                .iter()
                .map(|record| TextItem {
                    id: record.id.clone().unwrap_or_default(),
                    text: record.text.clone(),
                    language: record.language.clone(),
                })
                .collect(),
            encoder_id: args.model.clone(),
            pooling: wanted.pooling().into(),
            original_weight: wanted.original_weight,
            normalise_before: Some(wanted.normalise_before),
            normalise_after: args.normalise,
            prompt_name: args.prompt_name.clone().unwrap_or_default(),
            literal_prompt: args.prompt.clone(),
            dimensions: args.dimensions,
            ..EncodeAugmentedRequest::default()
        });
    let mut answers = stream::iter(requests)
        .map(|request| {
            let mut client = client.clone();
            async move { client.encode_augmented(request).await }
        })
        .buffered(IN_FLIGHT);
    let mut output = Output {
        sink: args.output.as_deref().map(|path| Sink::open(Some(path))),
        texts: 0,
        variants: 0,
        missing: 0,
        reasons: Reasons::default(),
    };
    loop {
        let answer = answers.try_next().await;
        let answer = answer.map_err(|status| Failure::from(status).after_items("items", output.texts))?;
        let Some(answer) = answer else { break };
        output.write(args.output.as_deref(), answer.into_inner())?;
        display.step(
            "encode",
            &Step {
                done: output.texts as u64,
                total: Some(records.len() as u64),
                ..Step::default()
            },
        );
    }
    if let Some(sink) = output.sink {
        sink.finish()?;
    }
    display.message(&format!(
        "{} texts pooled with {} variants; {} variants missing",
        output.texts, output.variants, output.missing
    ));
    output.reasons.show(display);
    if output.variants == 0 && output.missing > 0 {
        return Err(Failure::dependency(format!(
            "not one variant was made, so that these are the plain vectors: {}",
            output.reasons.main()
        )));
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses the options of plain encoding that augmented encoding does not support.
fn check(args: &EmbedArgs) -> Result<(), Failure> {
    if args.dtype != Dtype::F32 {
        return Err(Failure::usage(
            "--dtype: augmented vectors are f32; leave --dtype or --augment out",
        ));
    }
    if args.truncation != Truncation::Tail {
        return Err(Failure::usage(
            "--truncation: with --augment texts that are too long lose their end; leave --truncation or --augment out",
        ));
    }
    Ok(())
}

struct Output<'a> {
    /// A matrix file; `None`: lines on stdout.
    sink: Option<Sink<'a>>,
    texts: usize,
    variants: usize,
    missing: usize,
    reasons: Reasons,
}

impl Output<'_> {
    fn write(&mut self, path: Option<&Path>, answer: EncodeAugmentedResponse) -> Result<(), Failure> {
        if let Some(error) = answer.errors.first() {
            let text = self.texts + error.index as usize + 1;
            return Err(Failure::dependency(format!("text {text}: {}", error.message)));
        }
        let matrix = answer
            .embeddings
            .ok_or_else(|| Failure::dependency("the service answered without vectors"))?;
        let rows = matrix.rows as usize;
        self.variants += answer.used.iter().map(|item| item.variants.len()).sum::<usize>();
        self.missing += answer.used.iter().map(|item| item.missing.len()).sum::<usize>();
        for missing in answer.used.iter().flat_map(|item| &item.missing) {
            self.reasons.count(&missing.message);
        }
        match (&mut self.sink, path) {
            (Some(sink), Some(_)) => {
                let plain = EncodeResponse {
                    embeddings: Some(matrix),
                    ..EncodeResponse::default()
                };
                sink.write(self.texts, &plain)?;
            }
            _ => lines(self.texts, matrix.cols as usize, &matrix.data, &answer.used)?,
        }
        self.texts += rows;
        Ok(())
    }
}

fn lines(first: usize, cols: usize, data: &[u8], used: &[Variants]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for (offset, (row, item)) in data.chunks_exact((cols * 4).max(1)).zip(used).enumerate() {
        let values: Vec<f32> = isomer_service_kit::vectors::floats(row).collect();
        let variants: Vec<_> = item
            .variants
            .iter()
            .zip(&item.sources)
            .map(|(variant, source)| json!({"source": source, "text": variant.text}))
            .collect();
        let missing: Vec<_> = item
            .missing
            .iter()
            .map(|missing| json!({"source": missing.source, "why": missing.message}))
            .collect();
        let line = json!({
            "index": first + offset, "variants": variants, "missing": missing, "embedding": values,
        });
        writeln!(out, "{line}").map_err(|error| stdout_failure(&error))?;
    }
    out.flush().map_err(|error| stdout_failure(&error))
}
