//! Calls to an encoder service.

use isomer_proto::{
    common::v1::Usage,
    encoder::v1::{
        EncodeRequest, EncodeResponse, Encoder, GetEncoderRequest, Input, RerankRequest, encode_request::Prompt,
        encoder_service_client::EncoderServiceClient, input,
    },
};
use isomer_service_kit::{GrpcChannel, limits::INNER_MESSAGE};
use isomer_usage::report::{CallBound, ReportingChannel};
use tonic::{Request, Response, Status};

use crate::retry;

/// Bytes of text assumed per token if no tokens were counted.
const BYTES_PER_TOKEN: u64 = 4;

/// An encoder service. Calls follow the single retry rule of [`retry`], and their usage is added to
/// the count of the current call.
#[derive(Debug, Clone)]
pub struct EncoderClient(EncoderServiceClient<ReportingChannel<GrpcChannel>>);

impl EncoderClient {
    /// The service behind a channel.
    pub fn new(channel: GrpcChannel) -> Self {
        Self(EncoderServiceClient::new(ReportingChannel(channel)).max_decoding_message_size(INNER_MESSAGE))
    }

    /// Fetches the description of an encoder; `None` if the service returns none.
    ///
    /// # Errors
    /// The status of the last attempt.
    pub async fn describe(&self, id: &str) -> Result<Option<Encoder>, Status> {
        let answer = retry::calls(|| {
            let mut client = self.0.clone();
            async move { client.get_encoder(GetEncoderRequest { id: id.to_owned() }).await }
        });
        Ok(answer.await?.into_inner().encoder)
    }

    /// Encodes.
    ///
    /// # Errors
    /// The status of the last attempt.
    pub async fn encode(&self, request: EncodeRequest) -> Result<EncodeResponse, Status> {
        let request = &request;
        let answer = retry::calls(|| {
            let mut client = self.0.clone();
            async move {
                let provisional = CallBound::begin(estimate(request));
                let mut call = Request::new(request.clone());
                call.extensions_mut().insert(provisional.clone());
                let answer = client.encode(call).await;
                let used = answer.as_ref().ok().and_then(|answer| answer.get_ref().usage);
                provisional.end(&used.unwrap_or_default());
                answer
            }
        });
        answer.await.map(Response::into_inner)
    }
}

/// An upper bound on a request's usage, estimated from its texts. Each text is read together with
/// the prompt.
pub fn estimate(request: &EncodeRequest) -> Usage {
    let texts = request.inputs.len() as u64;
    let prompt = match &request.prompt {
        Some(Prompt::LiteralPrompt(prompt)) => of_bytes(prompt.len()),
        _ => 0,
    };
    Usage {
        texts,
        tokens: request
            .inputs
            .iter()
            .map(tokens)
            .fold(prompt.saturating_mul(texts), u64::saturating_add),
        tokens_estimated: true,
        ..Usage::default()
    }
}

/// An upper bound on a request's usage, estimated from its texts. The query is read with each
/// document.
pub fn estimate_rerank(request: &RerankRequest) -> Usage {
    let query = request.query.len();
    let documents = request.documents.iter();
    Usage {
        texts: request.documents.len() as u64,
        tokens: documents
            .map(|document| of_bytes(document.len().saturating_add(query)))
            .fold(0, u64::saturating_add),
        tokens_estimated: true,
        ..Usage::default()
    }
}

fn of_bytes(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES_PER_TOKEN)
}

/// Tokens of an input, estimated.
pub fn tokens(input: &Input) -> u64 {
    match &input.input {
        Some(input::Input::Text(text)) => of_bytes(text.len()),
        Some(input::Input::TokenIds(ids)) => ids.ids.len() as u64,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_prompt_counts_with_every_text() {
        let input = |text: &str| Input {
            input: Some(input::Input::Text(text.to_owned())),
        };
        let mut request = EncodeRequest {
            inputs: vec![input("four"), input("fourfour")],
            ..EncodeRequest::default()
        };
        assert_eq!(estimate(&request).tokens, 3);
        request.prompt = Some(Prompt::LiteralPrompt("x".repeat(400)));
        assert_eq!(estimate(&request).tokens, 203);
    }
}
