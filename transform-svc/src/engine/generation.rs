//! One call to a generator as work for the table of what is under way: its answer becomes an entry of the cache.

use std::sync::Arc;

use super::inflight::{ProduceError, Produced, Work};
use crate::{
    cache::{Entry, Made},
    generator::{Bounded, Request},
};

/// What the entry says of an answer beside the answer.
pub(super) struct About {
    /// What was asked about: a text, or the content of a question.
    pub(super) source: String,
    /// The transformation, or the kind of question.
    pub(super) kind: String,
    /// Id and version of the prompt.
    pub(super) prompt: String,
    /// Code of the language asked for; empty: none.
    pub(super) language: String,
    pub(super) made: Made,
}

/// The call. The request is written from the source when the work begins, not before.
pub(super) fn generation(
    generator: Arc<Bounded>,
    about: About,
    request: impl FnOnce(&str) -> Request + Send + 'static,
) -> Work {
    Box::pin(async move {
        let request = request(&about.source);
        let seed = request.seed;
        let (completion, waited) = generator.generate(request).await;
        let completion = completion.map_err(|error| ProduceError::Generator {
            error,
            waited,
            fresh: true,
        })?;
        Ok(Produced {
            entry: Entry {
                output: completion.text,
                seed,
                prompt_tokens: completion.prompt_tokens,
                generated_tokens: completion.generated_tokens,
                tokens_estimated: completion.tokens_estimated,
                source: about.source,
                transformation: about.kind,
                generator: generator.identity().id.clone(),
                prompt: about.prompt,
                language: about.language,
                made: Some(about.made),
            },
            calls: completion.calls,
            fresh: true,
            waited,
        })
    })
}
