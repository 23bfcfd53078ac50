//! Estimates the generator calls of a request without making them.

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::runtime::Handle;

use super::{
    CacheAccess, Engine, Finished, Job, Plan, attempt, continuation,
    generation::prompt_tokens,
    plain_concurrency,
    plan::{MAX_TOKENS, Step},
    task::computed,
};
use isomer_transformations::{Answer, Making};

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
        let looked = stream::iter(jobs)
            .map(|job| {
                let (engine, plan) = (Arc::clone(&self), Arc::clone(&plan));
                // Reading files, checking texts and rendering prompts must not block the runtime's
                // threads.
                let runtime = Handle::current();
                let looked = computed(move || runtime.block_on(engine.look_up(&plan, &job, bypassed)));
                async move { looked.await.unwrap_or(Err(TransformError::ShuttingDown)) }
            })
            .buffer_unordered(plain_concurrency());
        let mut looked = std::pin::pin!(looked);
        while let Some((items, found)) = looked.try_next().await? {
            estimate.texts += items;
            match found {
                Found::NeedsNone => estimate.by_rule += items,
                Found::Cached => estimate.cached += items,
                Found::Lacking(once, most) => {
                    estimate.once.add(once);
                    estimate.most.add(most);
                }
            }
        }
        Ok(estimate)
    }

    /// The number of items that a job covers, and the part of its calls that the caches hold.
    async fn look_up(&self, plan: &Arc<Plan>, job: &Job, bypassed: bool) -> Result<(u64, Found), TransformError> {
        let items = job.members.len() as u64;
        if plan.generator.is_none() || job.refusal.is_some() || job.text.trim().is_empty() {
            return Ok((items, Found::NeedsNone));
        }
        let found = if bypassed {
            Finished {
                missing: true,
                attempts: 1,
                ..Finished::new(plan.seed, job.language)
            }
        } else {
            self.transform(plan, job).await?
        };
        if !found.missing {
            return Ok((items, Found::Cached));
        }
        let (once, most) = lacking(plan, job, &found);
        Ok((items, Found::Lacking(once, most)))
    }
}

/// The result of a cache lookup for a text.
enum Found {
    /// The text needs no generator.
    NeedsNone,
    /// All its calls are cached.
    Cached,
    /// These calls are not cached: with one attempt, and the maximum.
    Lacking(Amount, Amount),
}

/// The remaining calls of a text: for one attempt, and for all attempts.
fn lacking(plan: &Plan, job: &Job, found: &Finished) -> (Amount, Amount) {
    let mut once = Amount::default();
    let mut most = Amount::default();
    let first = found.attempts.saturating_sub(1);
    for attempt in first..plan.max_attempts.max(first + 1) {
        let done = if attempt == first { found.done_calls } else { 0 };
        let (likely, longest) = if matches!(plan.kind().making, Making::Continuation) {
            continued(plan, job, done)
        } else {
            asked(plan, job, attempt, done)
        };
        if attempt == first {
            once.add(likely);
        }
        most.add(longest);
    }
    (once, most)
}

/// The calls of one attempt, starting with the first that is not `done`.
fn asked(plan: &Plan, job: &Job, attempt: u32, done: usize) -> (Amount, Amount) {
    let (mut once, mut most) = (Amount::default(), Amount::default());
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
            once.add(Amount {
                calls: 1,
                prompt_tokens: prompt,
                generated_tokens: likely_answer(plan, step, &job.text).min(longest.into()),
            });
            most.add(Amount {
                calls: 1,
                prompt_tokens: prompt + before,
                generated_tokens: longest.into(),
            });
        }
        before = longest.into();
    }
    (once, most)
}

/// Tokens of an answer as long as its text, multiplied by the number of texts requested.
fn likely_answer(plan: &Plan, step: &Step, text: &str) -> u64 {
    let copies = match step.prompt.purpose().answer() {
        Answer::List => u64::from(plan.count()),
        Answer::Text | Answer::LongText | Answer::Words => 1,
    };
    words::estimated_tokens(text) as u64 * copies
}

/// The cuts of one continuation, starting with the first that is not `done`. A cut has exactly the
/// stride's tokens, and its prompt is the text with the previous cuts.
fn continued(plan: &Plan, job: &Job, done: usize) -> (Amount, Amount) {
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
    (amount, amount)
}
