//! One call to a generator as a task of the single-flight table. Its response becomes a cache
//! entry.

use std::sync::Arc;

use isomer_service_kit::priority::Urgency;
use uuid::Uuid;

use super::inflight::{GenerationFuture, GenerationResult, ProduceError, entry_usage, generator_calls};
use isomer_proto::common::v1::Usage;

use crate::{
    cache::{Entry, GenerationKey},
    generator::{BoundedGenerator, Request},
    prompt::Message,
};

/// Assumed bytes of text per token if the generator reported no counts.
const BYTES_PER_TOKEN: u64 = 4;

/// The fields of an entry other than the answer.
pub(super) struct EntryFields {
    /// The source: a text, or the content of a question.
    pub(super) source: String,
    /// The transformation, or the kind of question.
    pub(super) kind: String,
    /// Id and version of the prompt.
    pub(super) prompt: String,
    /// Code of the requested language; empty if none.
    pub(super) language: String,
    pub(super) made: GenerationKey,
    /// The dispatch that the call belongs to.
    pub(super) dispatch: Option<Uuid>,
}

/// Estimates the tokens of a prompt from its bytes.
pub(super) fn prompt_tokens(messages: &[Message]) -> u64 {
    let bytes: usize = messages.iter().map(|message| message.content.len()).sum();
    (bytes as u64).div_ceil(BYTES_PER_TOKEN)
}

/// An upper bound on the usage of a call. Its prompt is estimated, because only the generator can
/// count it.
fn bound(request: &Request) -> Usage {
    Usage {
        tokens: prompt_tokens(&request.messages),
        generated_tokens: request.max_tokens.into(),
        generator_calls: 1,
        tokens_estimated: true,
        ..Usage::default()
    }
}

/// The future of the call. The request is built from the source when the future is first polled,
/// not earlier.
pub(super) fn generation(
    generator: Arc<BoundedGenerator>,
    fields: EntryFields,
    urgency: Urgency,
    request: impl FnOnce(&str) -> Request + Send + 'static,
) -> GenerationFuture {
    Box::pin(async move {
        let request = request(&fields.source);
        let seed = request.seed;
        // The call is counted here, where it is made, so that it counts even if no caller waits for
        // its response any more.
        let open = isomer_usage::begin(bound(&request));
        let (completion, waited) = generator.generate(request, &urgency).await;
        let completion = match completion {
            Ok(completion) => completion,
            Err(error) => {
                open.end(&generator_calls(error.calls()));
                return Err(ProduceError::Generator {
                    error,
                    waited,
                    fresh: true,
                });
            }
        };
        let entry = Entry {
            output: completion.text,
            seed,
            prompt_tokens: completion.prompt_tokens,
            generated_tokens: completion.generated_tokens,
            tokens_estimated: completion.tokens_estimated,
            cut: completion.cut,
            fingerprint: completion.fingerprint,
            source: fields.source,
            transformation: fields.kind,
            generator: generator.identity().id.clone(),
            prompt: fields.prompt,
            language: fields.language,
            made: Some(fields.made),
            dispatch: fields.dispatch.map(|id| id.to_string()),
        };
        let usage = entry_usage(&entry, completion.calls);
        open.end(&usage);
        Ok(GenerationResult {
            entry,
            usage,
            fresh: true,
            waited,
        })
    })
}
