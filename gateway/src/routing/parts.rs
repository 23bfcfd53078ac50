//! Long requests in parts.
//!
//! Each part is a separate request with its own attempts and time limits. Its answer is kept while
//! another part is repeated. With a cache, answers are kept longer, so that a caller that retries
//! after a failure pays only for the missing parts.

use std::ops::Range;

use futures::{StreamExt, TryStreamExt, stream};
use isomer_encoder_client::{client, join};
use isomer_proto::{
    common::v1::Dtype,
    encoder::v1::{EncodeRequest, EncodeResponse},
};
use isomer_service_kit::Fault;

/// Parts in flight per provider: one is processed while one waits.
const FOR_EACH: usize = 2;

/// Splits inputs into runs of at most `most` estimated tokens. A larger input is sent alone. There
/// is one run if `most` is 0, and for int8, whose ranges may come from all texts of a request.
pub(super) fn cut(request: &EncodeRequest, most: u64) -> Vec<Range<usize>> {
    let count = request.inputs.len();
    if most == 0 || request.output_dtype() == Dtype::Int8 {
        return std::iter::once(0..count).collect();
    }
    let mut parts = Vec::new();
    let (mut first, mut tokens) = (0, 0_u64);
    for (at, input) in request.inputs.iter().enumerate() {
        let more = client::tokens(input);
        if at > first && tokens.saturating_add(more) > most {
            parts.push(first..at);
            (first, tokens) = (at, 0);
        }
        tokens = tokens.saturating_add(more);
    }
    parts.push(first..count);
    parts
}

/// Sends the parts with `send`, several at once, and joins the answers.
///
/// # Errors
/// The first error of `send`; an error if the answers are of different vector spaces.
pub(super) async fn send<F, Fut>(
    request: &EncodeRequest,
    parts: Vec<Range<usize>>,
    providers: usize,
    send: F,
) -> Result<EncodeResponse, Fault>
where
    F: Fn(EncodeRequest) -> Fut,
    Fut: Future<Output = Result<EncodeResponse, Fault>>,
{
    let call = |part: Range<usize>| {
        send(EncodeRequest {
            inputs: request.inputs[part].to_vec(),
            encoder_id: request.encoder_id.clone(),
            prompt: request.prompt.clone(),
            outputs: request.outputs.clone(),
            ..*request
        })
    };
    let answers = stream::iter(parts.clone())
        .map(call)
        .buffered(FOR_EACH * providers.max(1));
    let answers: Vec<EncodeResponse> = answers.try_collect().await?;
    join::joined(&format!("encoder `{}`", request.encoder_id), &parts, answers)
}
