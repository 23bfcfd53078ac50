//! Any server with OpenAI's completions API: vLLM, Ollama, llama.cpp, OpenAI itself. Conversations
//! are sent to `/chat/completions`. A text to continue ([`crate::prompt::Role::Text`]) is sent to
//! `/completions`, which applies no chat template.
//!
//! async-openai implements the protocol ([`super::wire`], [`super::reply`]). The only retry policy
//! is the one here: [`super::http`] replaces async-openai's transport, which also retries. These
//! errors are retried, with exponential backoff or after the time in `Retry-After`: no connection,
//! a broken one, a timeout, 408, 409, 425, 429, 5xx, a response that is not a completion. A
//! parameter that the server refuses by name is omitted from the retry and from all later calls.
//! These errors are not retried: 401, 402, 403, 404 and a spent quota (they end the request), a
//! text that a filter or the model withholds, and any other status (they end the text). An error
//! with status 200 is treated according to its code. A prompt that the server seems to have cut is
//! sent once more ([`super::prompt_limit`]).
//!
//! A server that fails on every call ends the request after at most 20 calls ([`super::outage`]).
//!
//! 429, 503 and timeouts halve the number of calls in flight (see [`super::adaptive_limit`]). A
//! slow call may be hedged with a second one (`hedge`). Each call is counted against the budget
//! before it is made. In a fleet, limits and budget hold for all processes together
//! ([`shared_limits`]), and a `Retry-After` pauses all of them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use backon::{ExponentialBuilder, Retryable};
use futures::future::{BoxFuture, Either, select};
use isomer_outbound::{
    rate_limiter::{RateLimiter, TurnError},
    shared_limits::{self, SharedLimit, SharedLimits, Spending},
};
use isomer_service_kit::{
    priority::Priority,
    telemetry::gen_ai::{ModelCall, Provider},
};
use tokio::sync::watch;
use tracing::Instrument;

use super::{
    AdaptiveLimit, Budget, BudgetSpent, Completion, Generator, GeneratorError, Identity, Prices, Request, Turn,
    endpoint::Endpoint,
    http::{CallError, Server},
    latency::Latency,
    operation,
    outage::Outage,
    prompt_limit::{PromptFinding, PromptLimit},
    reply::{Reply, Usage},
    usage::{completion, estimated_prompt, tokens},
};
use crate::{checks::Check, config::GeneratorConfig, error::TransformError};

/// Maximum pause of the backoff.
const MAX_DELAY: Duration = Duration::from_secs(20);
/// Maximum wait for the rate limiter of `requests_per_second` and `tokens_per_second`.
const LONGEST_TURN: Duration = Duration::from_secs(3600);
/// A remote generator.
pub(super) struct OpenAi {
    identity: Identity,
    model: String,
    key_place: String,
    server: Server,
    limits: GeneratorConfig,
    adaptive_limit: Arc<AdaptiveLimit>,
    limiter: RateLimiter,
    budget: Budget,
    /// The limits of all processes of a fleet.
    fleet: Option<Arc<dyn SharedLimit>>,
    latency: Latency,
    outage: Outage,
    prompt_limit: PromptLimit,
    provider: Provider,
}

/// The reason why a try returned no response.
#[derive(Debug)]
enum TryError {
    Call(CallError),
    Budget(BudgetSpent),
    Turn(TurnError),
    /// The pause of the fleet is longer than the maximum wait of a call.
    Paused(Duration),
}

impl std::fmt::Display for TryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Call(error) => error.fmt(f),
            Self::Budget(spent) => spent.fmt(f),
            Self::Turn(no_turn) => no_turn.fmt(f),
            Self::Paused(wait) => write!(f, "the server asked for a pause of another {wait:?}"),
        }
    }
}

impl OpenAi {
    /// Creates a client; nothing is called yet. `digest`: digest of the model, if the server names
    /// one. With `limits`, it obeys the limits of all processes of a fleet.
    pub(super) fn new(
        endpoint: &Endpoint,
        digest: Option<&str>,
        limits: Option<&dyn SharedLimits>,
    ) -> Result<Self, TransformError> {
        let (id, config) = (&endpoint.id, &endpoint.config);
        let url = endpoint.url()?;
        // The key is checked now rather than at the first text; each request reads it again.
        config
            .key()
            .read()
            .map_err(|missing| endpoint.refused(missing.message, missing.hint))?;
        let limiter = RateLimiter::new(config.rates(), LONGEST_TURN)
            .map_err(|bad| endpoint.refused(bad.to_string(), "give a number above 0, or 0 for no limit"))?;
        let identity = Identity {
            id: id.clone(),
            // A digest of weights stands for a model in this process.
            digest: String::new(),
            cache_key: endpoint.cache_key(digest),
        };
        let fleet = limits.map(|limits| limits.open(&identity.fingerprint(), id, config.terms()));
        Ok(Self {
            adaptive_limit: AdaptiveLimit::within(id, config.min_concurrency, config.concurrency, fleet.clone()),
            fleet,
            limiter,
            budget: Budget::new(id, config.budget),
            latency: Latency::default(),
            outage: Outage::default(),
            prompt_limit: PromptLimit::default(),
            provider: Provider::server(
                "openai",
                url.host_str().unwrap_or_default().trim_matches(['[', ']']),
                url.port_or_known_default().unwrap_or_default(),
            ),
            identity,
            model: config.model.clone(),
            key_place: config.key_place(),
            server: Server::new(endpoint.client()?, endpoint.base().to_owned(), config),
            limits: config.clone(),
        })
    }

    /// One call, charged to the budget and reported to the adaptive limit and the latencies.
    async fn counted(&self, request: &Request, turn: &Turn, calls: &AtomicU32) -> Result<Reply, TryError> {
        let mut lost = turn.lost.clone();
        let is_lost = |lost: &watch::Receiver<u64>| lost.has_changed().unwrap_or(true);
        if lost.as_ref().is_some_and(is_lost) {
            return Err(TryError::Call(CallError::PermitLost));
        }
        self.budget.take().map_err(TryError::Budget)?;
        calls.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        let span = ModelCall::start(operation(request), &self.provider, &self.model);
        let permit_lost = async {
            match &mut lost {
                // The channel closes with the limit, which this call keeps alive.
                Some(lost) => drop(lost.changed().await),
                None => std::future::pending().await,
            }
        };
        let reply = tokio::select! {
            reply = self.server.complete(&self.model, request).instrument(span.span()) => reply,
            () = permit_lost => Err(CallError::PermitLost),
        };
        self.report_to_fleet(request, &reply);
        match &reply {
            Ok(reply) => {
                if let Some(usage) = &reply.usage {
                    if let Some(tokens) = usage.prompt_tokens {
                        span.input_tokens(tokens);
                    }
                    if let Some(tokens) = usage.completion_tokens {
                        span.output_tokens(tokens);
                    }
                }
                self.outage.answered();
                self.adaptive_limit.went_well();
                self.latency.add(began.elapsed());
                let (prompt, generated, _) = tokens(request, reply);
                self.budget.pay(prompt, generated);
            }
            Err(CallError::Busy { status: 429 | 503, .. } | CallError::Late) => {
                self.adaptive_limit.was_overloaded(began)
            }
            // An error response or a malformed response gives no information about the server's
            // capacity.
            Err(_) => {}
        }
        if reply.as_ref().is_err_and(CallError::is_of_any_text) {
            self.outage.failed();
        }
        if let Err(error) = &reply {
            span.failed(&error.kind());
        }
        reply.map_err(TryError::Call)
    }

    /// Reports a call's usage, and a pause that the server requests, to all processes of the fleet.
    fn report_to_fleet(&self, request: &Request, reply: &Result<Reply, CallError>) {
        let Some(fleet) = &self.fleet else { return };
        let mut spent = Spending {
            requests: 1,
            ..Spending::default()
        };
        match reply {
            Ok(reply) => (spent.prompt_tokens, spent.generated_tokens, _) = tokens(request, reply),
            Err(error) => {
                if let Some(pause) = error.pause() {
                    fleet.pause(pause, &error.to_string());
                }
            }
        }
        fleet.pay(&spent);
    }

    /// Maximum pause that a call waits for.
    fn patience(&self) -> Duration {
        Duration::from_secs_f64(self.limits.max_retry_after_seconds)
    }

    /// Waits until the rates and the budget permit a call of `most` tokens.
    async fn permitted(&self, most: u64, turn: &Turn) -> Result<(), TryError> {
        let own = match turn.urgency.priority() {
            Priority::Interactive => self.limiter.turn(most, None).await.map(drop),
            Priority::Batch => self.limiter.turn_of_batch(most).await,
        };
        own.map_err(TryError::Turn)?;
        let Some(fleet) = &self.fleet else { return Ok(()) };
        let turn = fleet.turn(most, &turn.urgency, self.patience()).await;
        turn.map_err(|refused| match refused {
            shared_limits::Denial::Spent(reached) => {
                TryError::Budget(BudgetSpent::of_fleet(&self.identity.id, reached))
            }
            shared_limits::Denial::Paused(wait) => TryError::Paused(wait),
        })
    }

    /// Makes a call when the rate limiter permits it, and hedges it with a second one if it is
    /// slow: the first response is used.
    async fn hedged(&self, request: &Request, turn: &Turn, calls: &AtomicU32) -> Result<Reply, TryError> {
        let most = estimated_prompt(request) + u64::from(request.max_tokens);
        self.permitted(most, turn).await?;
        let Some(delay) = self.latency.hedge_after(self.limits.hedge) else {
            return self.counted(request, turn, calls).await;
        };
        let first = Box::pin(self.counted(request, turn, calls));
        let first = match select(first, Box::pin(tokio::time::sleep(delay))).await {
            Either::Left((reply, _)) => return reply,
            Either::Right(((), first)) => first,
        };
        // Only a free permit is taken, never one that another call is waiting for.
        let Some(_permit) = self.adaptive_limit.try_take() else {
            return first.await;
        };
        if self.fleet.as_ref().is_some_and(|fleet| !fleet.try_turn()) {
            return first.await;
        }
        // A hedge does not wait for the rate limiter, because the first call would be answered in
        // the meantime.
        if !self.limiter.try_turn(most) {
            return first.await;
        }
        let count = |end: &'static str| {
            metrics::counter!(crate::metric_names::HEDGES, "end" => end).increment(1);
        };
        let second = Box::pin(self.counted(request, turn, calls));
        match select(first, second).await {
            Either::Left((Ok(reply), _)) => {
                count("first");
                Ok(reply)
            }
            Either::Right((Ok(reply), _)) => {
                count("second");
                Ok(reply)
            }
            Either::Left((Err(_), second)) => {
                count("second");
                second.await
            }
            Either::Right((Err(_), first)) => {
                count("first");
                first.await
            }
        }
    }

    async fn generate_with_retries(&self, request: Request, turn: Turn) -> Result<Completion, GeneratorError> {
        let calls = AtomicU32::new(0);
        let began = Instant::now();
        let longest_wait = self.patience();
        let (trial, suspected) = (parking_lot::Mutex::new(None), parking_lot::Mutex::new(None));
        let backoff = ExponentialBuilder::default()
            .with_min_delay(Duration::from_secs_f64(self.limits.retry_delay_seconds))
            .with_max_delay(MAX_DELAY)
            .with_jitter()
            .with_max_times(self.limits.max_tries - 1);
        let reply = (|| async {
            // The text keeps its turn until all its tries are made.
            let needs_turn = calls.load(Ordering::Relaxed) > 0 && trial.lock().is_none();
            if needs_turn {
                let turn = self.outage.trial().await;
                *trial.lock() = turn;
            }
            let reply = self.hedged(&request, &turn, &calls).await?;
            self.with_whole_prompt(&request, reply, &mut suspected.lock())
        })
        .retry(backoff)
        .when(|error| match error {
            TryError::Call(error) => self.may_retry(error, began.elapsed()),
            TryError::Budget(_) | TryError::Turn(_) | TryError::Paused(_) => false,
        })
        .adjust(|error, delay| match error {
            TryError::Call(CallError::Unsupported(_) | CallError::PromptCut { .. }) => delay.and(Some(Duration::ZERO)),
            // The pause requested by the server is used, unless it exceeds our limit: then the
            // text fails.
            TryError::Call(error) => match error.pause() {
                Some(asked) => delay.and((asked <= longest_wait).then_some(asked)),
                None => delay,
            },
            _ => delay,
        })
        .notify(|error, delay| {
            metrics::counter!(crate::metric_names::RETRIES).increment(1);
            tracing::debug!(generator = %self.identity.id, %error, ?delay, "the generator is asked again");
        })
        .await;
        let calls = calls.into_inner();
        match reply {
            Ok(reply) => Ok(completion(&request, &reply, calls)),
            Err(TryError::Call(error)) => Err(self.classify(error, request.text_to_continue().is_some(), calls)),
            Err(TryError::Budget(spent)) => Err(GeneratorError::Budget { spent, calls }),
            Err(TryError::Paused(wait)) => Err(GeneratorError::Paused { wait, calls }),
            Err(TryError::Turn(no_turn)) => Err(GeneratorError::Failed {
                message: format!("{no_turn}: raise requests_per_second and tokens_per_second, or ask for less"),
                calls,
            }),
        }
    }

    /// Refuses the answer to a prompt that the server has cut. `suspected`: the count of prompt
    /// tokens of an earlier call with the same prompt that was suspicious.
    fn with_whole_prompt(
        &self,
        request: &Request,
        reply: Reply,
        suspected: &mut Option<u64>,
    ) -> Result<Reply, TryError> {
        let Some(reported) = reply.usage.as_ref().and_then(Usage::prompt) else {
            return Ok(reply);
        };
        match self.prompt_limit.finding(request, reported, *suspected) {
            PromptFinding::Whole => Ok(reply),
            // A second call is not permitted.
            PromptFinding::Suspect if self.limits.max_tries == 1 => Ok(reply),
            finding => {
                *suspected = Some(reported);
                Err(TryError::Call(CallError::PromptCut {
                    reported,
                    estimated: estimated_prompt(request),
                    is_confirmed: finding == PromptFinding::Cut,
                }))
            }
        }
    }

    fn may_retry(&self, error: &CallError, elapsed: Duration) -> bool {
        match error {
            // An unreachable server is reported after the connect timeout, not after all retries.
            CallError::Connect(_) => elapsed < self.limits.connect_timeout(),
            // After a hang, at most one more full timeout is spent on the server.
            CallError::Broken(_) | CallError::Late => elapsed < self.limits.timeout() * 2,
            CallError::Busy { .. } | CallError::Malformed(_) | CallError::Unsupported(_) => true,
            CallError::PromptCut { is_confirmed, .. } => !is_confirmed,
            // If the whole fleet pauses, the call waits until the quota is renewed.
            CallError::Refused { .. } => self.fleet.is_some() && error.pause().is_some(),
            CallError::NoKey(_) | CallError::PermitLost | CallError::Withheld { .. } | CallError::Rejected { .. } => {
                false
            }
        }
    }

    fn classify(&self, error: CallError, continues: bool, calls: u32) -> GeneratorError {
        let message = error.to_string();
        let longer = error.pause().filter(|wait| *wait > self.patience());
        if let (Some(_), Some(wait)) = (&self.fleet, longer) {
            return GeneratorError::Paused { wait, calls };
        }
        if let Some(failed) = self.outage.failed_calls().filter(|_| error.is_of_any_text()) {
            return GeneratorError::Refused {
                message: format!("{failed} calls in a row failed, the last one because {message}"),
                hint: "see why the server fails; texts that it has answered are in the cache".to_owned(),
                calls,
            };
        }
        match error {
            // The address contains no password: such URLs are refused.
            CallError::Connect(_) => GeneratorError::Unreachable {
                message: format!("{message} (at {})", self.server.base()),
                calls,
            },
            CallError::NoKey(missing) => GeneratorError::Refused {
                message,
                hint: missing.hint.to_owned(),
                calls,
            },
            CallError::Refused { status, .. } => {
                let hint = match status {
                    401 | 403 => format!("put a valid key into {}", self.key_place),
                    404 if continues => format!(
                        "check the URL (it usually ends in /v1), and that the server has a model `{}` and serves /completions for \
                         it, as vLLM and llama.cpp's server do: a conversation cannot stand in for a text to go on with",
                        self.model
                    ),
                    404 => format!(
                        "check the URL (it usually ends in /v1) and that the server has a model `{}`",
                        self.model
                    ),
                    _ => "check the quota and billing of the account".to_owned(),
                };
                GeneratorError::Refused { message, hint, calls }
            }
            CallError::Withheld { check, .. } => GeneratorError::Withheld { check, message, calls },
            CallError::PromptCut { .. } => GeneratorError::Withheld {
                check: Check::PromptCut,
                message,
                calls,
            },
            CallError::Broken(_)
            | CallError::PermitLost
            | CallError::Late
            | CallError::Busy { .. }
            | CallError::Malformed(_)
            | CallError::Unsupported(_)
            | CallError::Rejected { .. } => {
                let tries = if calls == 1 {
                    "1 try".to_owned()
                } else {
                    format!("{calls} tries")
                };
                GeneratorError::Failed {
                    message: format!("{message} ({tries})"),
                    calls,
                }
            }
        }
    }
}

impl Generator for OpenAi {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn prices(&self) -> Option<Prices> {
        self.budget.prices()
    }

    fn adaptive_limit(&self) -> &Arc<AdaptiveLimit> {
        &self.adaptive_limit
    }

    /// Batching on a server changes rounding, so a greedy response may still vary: each seed has a
    /// separate entry.
    fn greedy_ignores_seed(&self) -> bool {
        false
    }

    fn generate(&self, request: Request, turn: Turn) -> BoxFuture<'_, Result<Completion, GeneratorError>> {
        Box::pin(self.generate_with_retries(request, turn))
    }
}
