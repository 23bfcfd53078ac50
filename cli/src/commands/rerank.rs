//! `isomer rerank`: documents sorted by their relevance to a query.

use std::{io::Write, process::ExitCode};

use isomer_models::ModelKind;
use isomer_proto::encoder::v1::{
    RerankRequest, encoder_service_client::EncoderServiceClient, rerank_response::Result as Scored,
};
use serde_json::json;

use super::stdout_failure;
use crate::{
    args::RerankArgs,
    connect::{MAX_MESSAGE_BYTES, Session},
    exit::Failure,
    input as texts,
    progress::{Display, Step},
};

pub(super) async fn run(session: &Session, args: RerankArgs) -> Result<ExitCode, Failure> {
    let display = Display::new(session.global.quiet);
    let documents = texts::read(args.input.as_deref())?;
    let connection = session.connect().await?;
    connection.prefetch(&args.model, ModelKind::Encoder, &display).await?;
    let mut client = EncoderServiceClient::new(connection.channel.clone())
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);

    // A pair's score depends on that pair only, so documents can be scored in parts.
    let (mut scored, mut labels): (Vec<Scored>, Vec<String>) = (Vec::new(), Vec::new());
    for (part, first) in documents
        .chunks(args.batch as usize)
        .zip((0..).step_by(args.batch as usize))
    {
        let request = RerankRequest {
            encoder_id: args.model.clone(),
            query: args.query.clone(),
            documents: part.iter().map(|document| document.text.clone()).collect(),
            top_n: args.top,
            label: args.label.clone().unwrap_or_default(),
            ..RerankRequest::default()
        };
        let answer = client.rerank(request).await;
        let of_document = |status| Failure::from(status).after_items("documents", first as usize);
        let answer = answer.map_err(of_document)?.into_inner();
        labels = answer.labels;
        scored.extend(answer.results.into_iter().map(|result| Scored {
            index: result.index + first,
            ..result
        }));
        let done = (first as usize + part.len()) as u64;
        display.step(
            "rerank",
            &Step {
                done,
                total: Some(documents.len() as u64),
                ..Step::default()
            },
        );
    }
    scored.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.index.cmp(&b.index)));
    let mut out = std::io::stdout().lock();
    for result in scored.iter().take(args.top.map_or(usize::MAX, |top| top as usize)) {
        let Some(document) = documents.get(result.index as usize) else {
            return Err(Failure::dependency(
                "the encoder scored a document that it was not sent",
            ));
        };
        let mut line = json!({
            "index": result.index,
            "score": result.score,
            "tokens": result.token_count,
            "truncated": result.truncated,
            "text": document.text,
        });
        if let Some(id) = &document.id {
            line["id"] = json!(id);
        }
        if !result.label_scores.is_empty() {
            line["labels"] = labels
                .iter()
                .cloned()
                .zip(result.label_scores.iter().map(|score| json!(score)))
                .collect();
        }
        writeln!(out, "{line}").map_err(|e| stdout_failure(&e))?;
    }
    out.flush().map_err(|e| stdout_failure(&e))?;
    Ok(ExitCode::SUCCESS)
}
