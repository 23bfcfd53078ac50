//! Questions to a generator other than transformations of a text. They use the same cache and the
//! same single-flight table.

use std::{sync::Arc, time::Duration};

use isomer_outbound::AddressGuard;
use isomer_proto::common::v1::Usage;
use isomer_service_kit::{Fault, priority::Priority};

use super::{
    CacheAccess, CurrentVersion, Engine,
    cache_access::{Caller, Dispatch},
    generation::{EntryFields, generation},
    inflight::{CallContext, GenerationResult, ProduceError, generator_calls},
    version::of_version,
};
use crate::{
    cache::{Key, KeyParts},
    error::TransformError,
    generator::{BoundedGenerator, GeneratorError, Request},
    prompt::Message,
};

/// One question. Its cache key covers every field except the messages, which follow from the
/// prompt's digest and the content.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) generator: &'a Arc<BoundedGenerator>,
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
    /// How stored answers of other versions of the model are used.
    pub(crate) version: &'a CurrentVersion,
    /// The caller that the question belongs to.
    pub(crate) caller: &'a Caller,
    /// The priority of the question among waiting calls.
    pub(crate) priority: Priority,
}

/// The answer to a question, with its usage.
#[derive(Debug)]
pub(crate) struct Reply {
    /// Content address of the answer.
    pub(crate) key: Key,
    /// The text as the generator returned it, or the error.
    pub(crate) text: Result<String, GeneratorError>,
    /// Whether the text is incomplete.
    pub(crate) is_cut: bool,
    /// The version of the model that the server named; empty if it named none.
    pub(crate) fingerprint: String,
    /// Whether the answer was generated now and is counted for this request.
    pub(crate) fresh: bool,
    /// Calls made to the generator now, and their tokens.
    pub(crate) usage: Usage,
    /// Time spent waiting for a permit of the generator.
    pub(crate) waited: Duration,
}

impl Engine {
    /// Calls the generator, unless the answer is in the cache or in flight. Only a failure of the
    /// cache is an error here.
    pub(crate) async fn ask(&self, question: &Question<'_>) -> Result<Reply, TransformError> {
        let identity = question.generator.identity().cache_key.as_str();
        let produce =
            |generator: String, access| async move { self.produce_answer(question, &generator, access).await };
        let (key, produced) = of_version(question.version, identity, question.access, produce).await;
        match produced {
            Ok(produced) => Ok(Reply {
                key,
                fresh: produced.fresh,
                usage: produced.usage,
                text: Ok(produced.entry.output),
                is_cut: produced.entry.cut,
                fingerprint: produced.entry.fingerprint,
                waited: produced.waited,
            }),
            Err(ProduceError::Cache(error)) => Err(TransformError::SharedCache(error)),
            Err(ProduceError::Generator { error, waited, fresh }) => Ok(Reply {
                key,
                usage: generator_calls(if fresh { error.calls() } else { 0 }),
                text: Err(error),
                is_cut: false,
                fingerprint: String::new(),
                fresh,
                waited,
            }),
        }
    }

    /// The answer for this name of the generator and this use of the caches.
    async fn produce_answer(
        &self,
        question: &Question<'_>,
        generator: &str,
        access: CacheAccess,
    ) -> (Key, Result<GenerationResult, ProduceError>) {
        let top_p = 1.0;
        let seedless = question.temperature == 0.0 && question.generator.greedy_ignores_seed();
        let parts = KeyParts {
            text: &question.content,
            transformation: question.kind,
            language: "",
            prompt: question.prompt_digest,
            generator,
            temperature: question.temperature,
            top_p,
            max_tokens: question.max_tokens,
            seed: (!seedless).then_some(question.seed),
            tenant: question.caller.scope(),
        };
        let (key, made) = (parts.key(), parts.made());
        let make = |urgency| {
            let fields = EntryFields {
                source: question.content.clone(),
                kind: question.kind.to_owned(),
                prompt: question.prompt.clone(),
                language: String::new(),
                made,
                dispatch: question.caller.dispatch.as_ref().map(Dispatch::id),
            };
            let request = Request {
                messages: question.messages.clone(),
                temperature: question.temperature,
                top_p,
                top_k: None,
                max_tokens: question.max_tokens,
                seed: question.seed,
                is_one_text: false,
            };
            generation(Arc::clone(question.generator), fields, urgency, move |_| request)
        };
        let context = CallContext {
            location: question.generator.location(),
            access,
            caller: question.caller,
            priority: question.priority,
        };
        (key, self.inflight.produce(key, &self.cache, context, make).await)
    }

    /// The generator with this id; an empty id selects the default. For `none`, the error says that
    /// `what` needs a generator.
    pub(crate) async fn generator(
        &self,
        id: &str,
        field: &str,
        what: &str,
    ) -> Result<Arc<BoundedGenerator>, TransformError> {
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
