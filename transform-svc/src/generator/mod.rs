//! Generators, which turn a prompt into a text.

mod adaptive_limit;
mod budget;
mod digest;
mod endpoint;
mod finish;
mod http;
mod latency;
mod local;
mod notices;
mod openai;
mod outage;
mod parameters;
mod prompt_limit;
pub mod registry;
mod reply;
mod structured;
mod usage;
mod wire;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use isomer_service_kit::{priority::Urgency, telemetry::gen_ai::Operation};
use tokio::sync::watch;

use crate::{
    cache::GeneratorLocation,
    checks::Check,
    prompt::{Message, Role},
};
pub use adaptive_limit::{AdaptiveLimit, Permit};
pub use budget::{Budget, BudgetSpent, Spending};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The generator's id in results, for example `local:qwen2.5-coder-0.5b-instruct` or
    /// `openai:gemma@http://host/v1`.
    pub id: String,
    /// Digest of the weights; empty if unknown.
    pub digest: String,
    /// The generator's part of a cache key. Two generators share it if and only if equal requests
    /// give equal (distributions of) texts.
    pub cache_key: String,
}

impl Identity {
    /// BLAKE3 (hex) of the cache key, which may contain an address that must not be shown.
    pub fn fingerprint(&self) -> String {
        blake3::hash(self.cache_key.as_bytes()).to_hex().to_string()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The conversation; the last message is the user's. A single message of [`Role::Text`] is a
    /// text to be continued without a template.
    pub messages: Vec<Message>,
    /// 0 is greedy.
    pub temperature: f64,
    /// Nucleus sampling, 0 to 1.
    pub top_p: f64,
    /// Sample among the k likeliest tokens; `None`: the generator's default.
    pub top_k: Option<u32>,
    pub max_tokens: u32,
    /// Seed of the sampling.
    pub seed: u64,
    /// Whether the answer is one text, which a server may put into JSON.
    pub is_one_text: bool,
}

impl Request {
    /// The text to continue, if the request is a continuation and not a conversation.
    pub fn text_to_continue(&self) -> Option<&str> {
        match self.messages.as_slice() {
            [
                Message {
                    role: Role::Text,
                    content,
                },
            ] => Some(content),
            _ => None,
        }
    }
}

/// The operation of a request, as named in spans.
fn operation(request: &Request) -> Operation {
    match request.text_to_continue() {
        Some(_) => Operation::TextCompletion,
        None => Operation::Chat,
    }
}

/// A generated text with its usage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The text as the model returned it.
    pub text: String,
    pub prompt_tokens: u64,
    pub generated_tokens: u64,
    /// Whether the token counts are estimated from the texts because the generator does not report
    /// them.
    pub tokens_estimated: bool,
    /// Whether the generator stopped at the token limit: the text is incomplete.
    pub cut: bool,
    /// Number of calls, including retries after overload and errors.
    pub calls: u32,
    /// The version of the model that the server names in each response; empty if it names none.
    pub fingerprint: String,
}

/// The reason why a call returned no usable text. The first two kinds end the request, the others
/// one text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GeneratorError {
    /// No server responds at all.
    #[error("{message}")]
    Unreachable {
        /// Description of the error.
        message: String,
        /// Calls that were attempted.
        calls: u32,
    },
    /// The server responds but will refuse every request: wrong key, unknown model, no quota.
    #[error("{message}")]
    Refused {
        /// The server's message.
        message: String,
        /// How to fix it.
        hint: String,
        /// Calls that were attempted.
        calls: u32,
    },
    /// This call failed: an error that outlasted the retries, a deadline, a malformed response.
    #[error("{message}")]
    Failed {
        /// Description of the error.
        message: String,
        /// Calls that were attempted.
        calls: u32,
    },
    /// A filter or the model withholds the text.
    #[error("{message}")]
    Withheld {
        check: Check,
        message: String,
        /// Calls that were attempted.
        calls: u32,
    },
    /// The caches do not hold the text, and no generator may be called.
    #[error("no cache holds it")]
    NotCached,
    /// The server asked all processes of the fleet not to call it for longer than a call waits.
    /// This ends the request, too.
    #[error("the server asked for a pause of another {} s", .wait.as_secs_f64().ceil())]
    Paused {
        /// The remaining pause.
        wait: Duration,
        /// Calls that were attempted.
        calls: u32,
    },
    /// The budget is spent.
    #[error("{spent}")]
    Budget {
        /// The limit that was spent, and how to continue.
        spent: BudgetSpent,
        /// Calls that were attempted.
        calls: u32,
    },
}

impl GeneratorError {
    /// Number of calls that were attempted.
    pub fn calls(&self) -> u32 {
        match self {
            Self::Unreachable { calls, .. }
            | Self::Refused { calls, .. }
            | Self::Failed { calls, .. }
            | Self::Withheld { calls, .. }
            | Self::Paused { calls, .. }
            | Self::Budget { calls, .. } => *calls,
            Self::NotCached => 0,
        }
    }

    /// The same error with earlier calls added.
    fn after(mut self, before: u32) -> Self {
        match &mut self {
            Self::Unreachable { calls, .. }
            | Self::Refused { calls, .. }
            | Self::Failed { calls, .. }
            | Self::Withheld { calls, .. }
            | Self::Paused { calls, .. }
            | Self::Budget { calls, .. } => *calls += before,
            Self::NotCached => {}
        }
        self
    }
}

/// Prices of a million tokens, in the unit of the budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// Price of prompt tokens.
    pub prompt: f64,
    /// Price of generated tokens.
    pub generated: f64,
}

impl Prices {
    /// The cost of these token counts.
    pub fn cost(&self, prompt_tokens: u64, generated_tokens: u64) -> f64 {
        (prompt_tokens as f64 * self.prompt + generated_tokens as f64 * self.generated) / 1e6
    }
}

/// A source of texts. It retries after overload and errors itself; it does not retry after a failed
/// check.
pub trait Generator: Send + Sync {
    fn identity(&self) -> &Identity;

    /// The adaptive limit on its concurrent calls. A generator that can be overloaded reports the
    /// results of its calls to it.
    fn adaptive_limit(&self) -> &Arc<AdaptiveLimit>;

    /// Whether a greedy call (temperature 0) gives the same text for every seed.
    fn greedy_ignores_seed(&self) -> bool;

    /// The prices of its tokens; `None` if unknown.
    fn prices(&self) -> Option<Prices>;

    /// Generates a text. Dropping the future cancels the work.
    fn generate(&self, request: Request, turn: Turn) -> BoxFuture<'_, Result<Completion, GeneratorError>>;
}

/// A call's place in the queue.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The priority of the call among waiting calls.
    pub urgency: Urgency,
    /// Changes when the call's permit is lost, so that the call must end.
    pub(crate) lost: Option<watch::Receiver<u64>>,
}

/// A generator with a limit on calls in flight, over all requests of this process.
pub struct BoundedGenerator {
    generator: Box<dyn Generator>,
}

impl std::fmt::Debug for BoundedGenerator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BoundedGenerator")
            .field("generator", self.identity())
            .finish_non_exhaustive()
    }
}

impl BoundedGenerator {
    /// Limits a generator by its own adaptive limit.
    pub fn new(generator: Box<dyn Generator>) -> Self {
        Self { generator }
    }

    pub fn identity(&self) -> &Identity {
        self.generator.identity()
    }

    /// The place where it computes: a model with weights of its own is in this process.
    pub fn location(&self) -> GeneratorLocation {
        if self.identity().digest.is_empty() {
            GeneratorLocation::Remote
        } else {
            GeneratorLocation::InProcess
        }
    }

    /// Maximum number of calls in flight.
    pub fn concurrency(&self) -> usize {
        self.generator.adaptive_limit().most()
    }

    /// See [`Generator::prices`].
    pub fn prices(&self) -> Option<Prices> {
        self.generator.prices()
    }

    /// See [`Generator::greedy_ignores_seed`].
    pub fn greedy_ignores_seed(&self) -> bool {
        self.generator.greedy_ignores_seed()
    }

    /// Generates a text when a permit is available; also returns the time spent waiting for the
    /// permit. Permits are granted in order of priority and then of arrival.
    pub async fn generate(
        &self,
        request: Request,
        urgency: &Urgency,
    ) -> (Result<Completion, GeneratorError>, Duration) {
        let (mut waited, mut lost_calls) = (Duration::ZERO, 0);
        loop {
            let arrived = Instant::now();
            let permit = self.generator.adaptive_limit().take(urgency).await;
            waited += arrived.elapsed();
            let began = Instant::now();
            let turn = Turn {
                urgency: urgency.clone(),
                lost: permit.lost(),
            };
            let result = self.generator.generate(request.clone(), turn).await;
            metrics::histogram!(crate::metric_names::GENERATION).record(began.elapsed().as_secs_f64());
            let calls = result
                .as_ref()
                .map_or_else(GeneratorError::calls, |completion| completion.calls);
            metrics::counter!(crate::metric_names::CALLS).increment(calls.into());
            match result {
                // The call had to end because the permit was lost, not because it failed.
                Err(GeneratorError::Failed { calls, .. }) if permit.is_lost() => lost_calls += calls,
                Ok(completion) => {
                    let calls = completion.calls + lost_calls;
                    return (Ok(Completion { calls, ..completion }), waited);
                }
                Err(error) => return (Err(error.after(lost_calls)), waited),
            }
        }
    }
}
