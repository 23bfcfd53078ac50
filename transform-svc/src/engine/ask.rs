//! Questions to a generator other than transformations of a text. They use the same cache and the
//! same single-flight table.

use std::{sync::Arc, time::Duration};

use isomer_outbound::AddressGuard;
use isomer_service_kit::{Fault, priority::Priority};

use super::{
    CacheAccess, Engine,
    cache_access::{Caller, Dispatch},
    generation::{About, generation},
    inflight::{How, ProduceError},
};
use crate::{
    cache::{Key, KeyParts},
    error::TransformError,
    generator::{Bounded, GeneratorError, Request},
    prompt::Message,
};

/// One question. Its cache key covers every field except the messages, which follow from the
/// prompt's digest and the content.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) generator: &'a Arc<Bounded>,
    /// Kind of the question, for example `judge/similarity`: never the name of a transformation.
    pub(crate) kind: &'a str,
    /// An unambiguous representation of the question's content.
    pub(crate) content: String,
    /// Id and version of the prompt.
    pub(crate) prompt: String,
    pub(crate) prompt_digest: &'a str,
    /// The conversation.
    pub(crate) messages: Vec<Message>,
    /// 0 is greedy.
    pub(crate) temperature: f64,
    /// Maximum number of tokens of the answer.
    pub(crate) max_tokens: u32,
    /// Seed of the sampling.
    pub(crate) seed: u64,
    /// How the caches are used.
    pub(crate) access: CacheAccess,
    /// The caller that the question belongs to.
    pub(crate) caller: &'a Caller,
    /// The priority of the question among waiting calls.
    pub(crate) priority: Priority,
}

/// The answer to a question, with its usage.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Content address of the answer.
    pub(crate) key: Key,
    /// The text as the generator returned it, or the error.
    pub(crate) text: Result<String, GeneratorError>,
    /// Whether the answer was generated now and is counted for this request.
    pub(crate) fresh: bool,
    /// Calls made to the generator now.
    pub(crate) calls: u64,
    /// Prompt tokens processed now.
    pub(crate) prompt_tokens: u64,
    /// Tokens generated now.
    pub(crate) generated_tokens: u64,
    /// Whether the token counts are estimated because the generator does not report them.
    pub(crate) tokens_estimated: bool,
    /// Time spent waiting for a permit of the generator.
    pub(crate) waited: Duration,
}

impl Engine {
    /// Calls the generator, unless the answer is in the cache or in flight. Only a failure of the
    /// cache is an error here.
    pub(crate) async fn ask(&self, ask: Ask<'_>) -> Result<Answer, TransformError> {
        let top_p = 1.0;
        let seedless = ask.temperature == 0.0 && ask.generator.greedy_ignores_seed();
        let parts = KeyParts {
            text: &ask.content,
            transformation: ask.kind,
            language: "",
            prompt: ask.prompt_digest,
            generator: &ask.generator.identity().cache_key,
            temperature: ask.temperature,
            top_p,
            max_tokens: ask.max_tokens,
            seed: (!seedless).then_some(ask.seed),
            tenant: ask.caller.scope(),
        };
        let (key, made) = (parts.key(), parts.made());
        let about = About {
            source: ask.content,
            kind: ask.kind.to_owned(),
            prompt: ask.prompt,
            language: String::new(),
            made,
            dispatch: ask.caller.dispatch.as_ref().map(Dispatch::id),
        };
        let make = |urgency| {
            generation(Arc::clone(ask.generator), about, urgency, move |_| Request {
                messages: ask.messages,
                temperature: ask.temperature,
                top_p,
                top_k: None,
                max_tokens: ask.max_tokens,
                seed: ask.seed,
            })
        };
        let how = How {
            location: ask.generator.location(),
            access: ask.access,
            caller: ask.caller,
            priority: ask.priority,
        };
        let produced = self.inflight.produce(key, &self.cache, how, make).await;
        match produced {
            Ok(produced) => Ok(Answer {
                key,
                text: Ok(produced.entry.output),
                fresh: produced.fresh,
                calls: produced.calls.into(),
                prompt_tokens: if produced.fresh {
                    produced.entry.prompt_tokens
                } else {
                    0
                },
                generated_tokens: if produced.fresh {
                    produced.entry.generated_tokens
                } else {
                    0
                },
                tokens_estimated: produced.fresh && produced.entry.tokens_estimated,
                waited: produced.waited,
            }),
            Err(ProduceError::Cache(error)) => Err(TransformError::SharedCache(error)),
            Err(ProduceError::Generator { error, waited, fresh }) => Ok(Answer {
                key,
                calls: if fresh { error.calls().into() } else { 0 },
                text: Err(error),
                fresh,
                prompt_tokens: 0,
                generated_tokens: 0,
                tokens_estimated: false,
                waited,
            }),
        }
    }

    /// The generator with this id; an empty id selects the default. For `none`, the error says that
    /// `what` needs a generator.
    pub(crate) async fn generator(&self, id: &str, field: &str, what: &str) -> Result<Arc<Bounded>, TransformError> {
        self.registry.get(id).await?.ok_or_else(|| {
            TransformError::invalid(
                field,
                format!("{what} needs a generator and this is `none`"),
                format!("name one: {}", crate::error::GENERATOR_FORMS),
            )
        })
    }

    /// Maximum length of a text of a request, in characters.
    pub(crate) fn max_text_chars(&self) -> usize {
        self.config.max_text_chars
    }

    /// The guard that checks addresses named by a request; `None` if the caller owns this process.
    pub(crate) fn guard(&self) -> Result<Option<AddressGuard>, Fault> {
        if self.config.by_owner {
            return Ok(None);
        }
        let guard = AddressGuard::new(&self.config.addresses);
        guard
            .map(Some)
            .map_err(|error| Fault::invalid("addresses", error.to_string()))
    }

    /// Whether a request may name addresses that this process connects to.
    pub(crate) fn allows_specs(&self) -> bool {
        self.config.allow_specs
    }
}
