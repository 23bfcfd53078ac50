//! Estimates the generator calls of a request without making them.

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::runtime::Handle;

use super::{
    CacheAccess, Engine, Job, Outcome, Plan, attempt, continuation,
    generation::prompt_tokens,
    plain_concurrency,
    plan::{MAX_TOKENS, Step},
    task::computed,
};
use isomer_transformations::{AnswerForm, Mechanism};

use crate::{error::TransformError, generator::Prices, words};

/// A number of calls and tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    /// Calls to the generator.
    pub(crate) calls: u64,
    pub(crate) prompt_tokens: u64,
    /// Tokens of their answers.
    pub(crate) generated_tokens: u64,
}

impl Amount {
    fn add(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.prompt_tokens = self.prompt_tokens.saturating_add(other.prompt_tokens);
        self.generated_tokens = self.generated_tokens.saturating_add(other.generated_tokens);
    }
}

/// Calls that the caches lack: with one attempt, and the maximum.
#[derive(Debug, Clone, Copy, Default)]
struct MissingCalls {
    once: Amount,
    most: Amount,
}

/// The estimated generator calls of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Estimate {
    /// Items of the request.
    pub(crate) texts: u64,
    /// Items of which the caches hold every call.
    pub(crate) cached: u64,
    /// Items that need no generator.
    pub(crate) by_rule: u64,
    /// For the other items, with one attempt each.
    pub(crate) once: Amount,
    /// For the other items, the maximum.
    pub(crate) most: Amount,
    /// Token prices, if known.
    pub(crate) prices: Option<Prices>,
    /// The generator's id; empty if none is needed.
    pub(crate) generator: String,
}

impl Engine {
    /// Looks up every text in the caches, attempt by attempt, and adds up the missing calls. No
    /// generator is called and nothing is stored.
    ///
    /// # Errors
    /// If a cache cannot be read.
    pub(crate) async fn estimate(self: Arc<Self>, mut plan: Plan, jobs: Vec<Job>) -> Result<Estimate, TransformError> {
        let bypassed = plan.access == CacheAccess::Bypass;
        plan.access = CacheAccess::ReadOnly;
        let plan = Arc::new(plan);
        let generator = plan.generator.as_ref();
        let mut estimate = Estimate {
            prices: generator.and_then(|generator| generator.prices()),
            generator: generator.map_or_else(String::new, |generator| generator.identity().id.clone()),
            ..Estimate::default()
        };
        let lookups =
            stream::iter(jobs)
                .map(|job| {
                    let (engine, plan, items) = (Arc::clone(&self), Arc::clone(&plan), job.members.len() as u64);
                    // Reading files, checking texts and rendering prompts must not block the
                    // runtime's threads.
                    let runtime = Handle::current();
                    let lookup = computed(move || runtime.block_on(engine.look_up(&plan, &job, bypassed)));
                    async move {
                        Ok::<_, TransformError>((items, lookup.await.unwrap_or(Err(TransformError::ShuttingDown))?))
                    }
                })
                .buffer_unordered(plain_concurrency());
        let mut lookups = std::pin::pin!(lookups);
        while let Some((items, lookup)) = lookups.try_next().await? {
            estimate.texts += items;
            match lookup {
                Lookup::ByRule => estimate.by_rule += items,
                Lookup::Cached => estimate.cached += items,
                Lookup::Missing(calls) => {
                    estimate.once.add(calls.once);
                    estimate.most.add(calls.most);
                }
            }
        }
        Ok(estimate)
    }

    /// The part of a job's calls that the caches hold.
    async fn look_up(&self, plan: &Arc<Plan>, job: &Job, bypassed: bool) -> Result<Lookup, TransformError> {
        if plan.generator.is_none() || job.refusal.is_some() || job.text.trim().is_empty() {
            return Ok(Lookup::ByRule);
        }
        if bypassed {
            return Ok(Lookup::Missing(missing_calls(plan, job, 0, 0)));
        }
        let found = self.transform(plan, job).await?;
        Ok(match found.outcome {
            Outcome::NotCached { done_calls } => {
                let attempt = found.provenance.attempts.saturating_sub(1);
                Lookup::Missing(missing_calls(plan, job, attempt, done_calls))
            }
            Outcome::Made(_) | Outcome::Unchanged | Outcome::Failed(_) => Lookup::Cached,
        })
    }
}

/// The result of a cache lookup for a text.
enum Lookup {
    /// The text needs no generator.
    ByRule,
    /// All its calls are cached.
    Cached,
    Missing(MissingCalls),
}

/// The remaining calls of a text from attempt `first` on, of which `done_calls` are cached.
fn missing_calls(plan: &Plan, job: &Job, first: u32, done_calls: usize) -> MissingCalls {
    let mut missing = MissingCalls::default();
    for attempt in first..plan.max_attempts.max(first + 1) {
        let done = if attempt == first { done_calls } else { 0 };
        let calls = if matches!(plan.kind().making, Mechanism::Continuation) {
            continuation_calls(plan, job, done)
        } else {
            attempt_calls(plan, job, attempt, done)
        };
        if attempt == first {
            missing.once.add(calls.once);
        }
        missing.most.add(calls.most);
    }
    missing
}

/// The calls of one attempt, starting with the first that is not `done`.
fn attempt_calls(plan: &Plan, job: &Job, attempt: u32, done: usize) -> MissingCalls {
    let mut calls = MissingCalls::default();
    let patience = attempt::PATIENCE.saturating_pow(attempt);
    // The longest text that a call may receive: the job's own, then the previous answer.
    let mut before = 0;
    for (at, step) in plan.steps.iter().enumerate() {
        let longest = if at == 0 {
            attempt::max_tokens(plan, step.prompt.purpose(), &job.text, patience)
        } else {
            attempt::patient(plan, plan.max_tokens.unwrap_or(MAX_TOKENS as u32), patience)
        };
        if at >= done {
            let prompt = prompt_tokens(
                &step
                    .prompt
                    .render(&job.text, plan.step_language(step, job), plan.count()),
            );
            calls.once.add(Amount {
                calls: 1,
                prompt_tokens: prompt,
                generated_tokens: likely_answer(plan, step, &job.text).min(longest.into()),
            });
            calls.most.add(Amount {
                calls: 1,
                prompt_tokens: prompt + before,
                generated_tokens: longest.into(),
            });
        }
        before = longest.into();
    }
    calls
}

/// Tokens of an answer as long as its text, multiplied by the number of texts requested.
fn likely_answer(plan: &Plan, step: &Step, text: &str) -> u64 {
    let copies = match step.prompt.purpose().answer() {
        AnswerForm::List => u64::from(plan.count()),
        AnswerForm::Text | AnswerForm::LongText | AnswerForm::Words => 1,
    };
    words::estimated_tokens(text) as u64 * copies
}

/// The cuts of one continuation, starting with the first that is not `done`. A cut has exactly the
/// stride's tokens, and its prompt is the text with the previous cuts.
fn continuation_calls(plan: &Plan, job: &Job, done: usize) -> MissingCalls {
    let opening = prompt_tokens(&[continuation::message(continuation::opening(&job.text))]);
    let mut amount = Amount::default();
    let (stride, cuts) = (plan.parameters().whole("stride"), plan.parameters().whole("cuts"));
    for cut in done as u64..u64::from(cuts) {
        amount.add(Amount {
            calls: 1,
            prompt_tokens: opening + cut * u64::from(stride),
            generated_tokens: stride.into(),
        });
    }
    MissingCalls {
        once: amount,
        most: amount,
    }
}
