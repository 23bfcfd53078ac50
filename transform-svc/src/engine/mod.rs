//! Processes the texts of a request: plans it, groups equal texts, and attempts each until its
//! checks pass, with as many in flight as the generator permits. All work belongs to the caller's
//! future: dropping the future cancels it.

mod ask;
mod attempt;
mod cache_access;
mod continuation;
mod estimate;
mod generation;
mod inflight;
mod plan;
mod task;

use std::{num::NonZero, path::Path, sync::Arc, thread, time::Duration};

use futures::stream::{self, Stream, StreamExt};
use isomer_models::Resolver;
use isomer_outbound::shared_limits::SharedLimits;
use isomer_proto::{ProtoEnum, transform::v1 as proto};
use isomer_retention::{Hold, Holder};
use isomer_segment_log::Hourly;
use isomer_transformations::Making;

use crate::{
    cache::{Cache, Key, SharedCache},
    checks::Check,
    config::TransformConfig,
    error::TransformError,
    generator::registry::Registry,
    guards::{self, Guard, Guarded},
    language::{Language, LanguageCheck},
    measures::{Measures, measure},
    prompt::{Prompt, Prompts},
    rules::{Rule, Subject},
};
pub(crate) use ask::Ask;
pub(crate) use cache_access::Dispatch;
pub use cache_access::{CacheAccess, Caller};
pub(crate) use estimate::{Amount, Estimate};
use inflight::Inflight;
pub use isomer_proto::transform::v1::{GuardMode, OnFailure};
pub use plan::{Job, Member, Plan, Step};
pub(crate) use plan::{Requested, joined, read_language};
use task::{computed, in_own_task};

/// Texts processed at once if no generator limits them. They are bound by the cores: more threads
/// would delay every other call.
fn plain_concurrency() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// The outcome of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The first attempt passed.
    Ok,
    /// A retry passed.
    Recovered,
    /// The generator returned the text unchanged, and the request does not ask for a retry in this
    /// case.
    Unchanged,
    /// Every attempt failed.
    Failed,
}

/// One completed call of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub prompt: Arc<Prompt>,
    /// Requested language; `None` if it is the text's own language and unknown.
    pub language: Option<Language>,
    /// Content address.
    pub key: Key,
    /// The cleaned response.
    pub text: String,
    /// Tokens of the prompt, counted when the generator was called, now or when the entry was
    /// cached.
    pub prompt_tokens: u64,
    pub generated_tokens: u64,
    /// Whether these token counts are estimated.
    pub tokens_estimated: bool,
    /// The version of the model that the server named; empty if it named none.
    pub fingerprint: String,
}

/// One completed text.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// The outcome. The plan's policy decides how a failed text is returned.
    pub outcome: Outcome,
    /// The text; empty after a failure, and if there are several texts.
    pub text: String,
    /// The texts, if the transformation gives several.
    pub texts: Vec<String>,
    /// The calls of the last attempt.
    pub trail: Vec<Call>,
    /// The detector's verdict on the last attempt; `None` if it did not run.
    pub language_check: Option<LanguageCheck>,
    /// The distance of the text, or of each of the texts, from the original.
    pub measures: Vec<Measures>,
    /// Checks that fired on the last attempt.
    pub failed: Vec<Check>,
    /// Checks that fired on earlier attempts.
    pub retried: Vec<Check>,
    /// Checks that fired on the first attempt.
    pub first: Vec<Check>,
    /// The guards' findings on the text.
    pub guarded: Guarded,
    /// Guards that fired on attempts whose text is not returned.
    pub retried_guards: Vec<Guard>,
    /// The reason why the generator failed.
    pub error: String,
    /// Number of attempts, including those found in the cache.
    pub attempts: u32,
    /// Attempts that called a generator now.
    pub fresh_attempts: u32,
    /// Checks that fired on attempts made now.
    pub fresh_checks: Vec<Check>,
    /// Seed of the last attempt.
    pub seed: u64,
    /// Content address of the last attempt; `None` if the text is not generated.
    pub key: Option<Key>,
    /// Target of a translation, or else the source language.
    pub language: Option<Language>,
    /// Codes of the languages drawn or requested.
    pub languages: Vec<&'static str>,
    /// Prompt tokens processed now.
    pub prompt_tokens: u64,
    /// Tokens generated now.
    pub generated_tokens: u64,
    /// Whether some of these token counts are estimated because the generator does not report them.
    pub tokens_estimated: bool,
    /// Calls made to the generator now, including its retries.
    pub calls: u64,
    /// Time spent waiting for a permit of the generator.
    pub waited: Duration,
    /// Whether a call of the last attempt is not cached and no generator may be called
    /// ([`CacheAccess::ReadOnly`]).
    pub missing: bool,
    /// Completed calls of the last attempt when a generator failed or must not be called.
    pub done_calls: usize,
}

impl Finished {
    fn new(seed: u64, language: Option<Language>) -> Self {
        Self {
            outcome: Outcome::Failed,
            text: String::new(),
            texts: Vec::new(),
            trail: Vec::new(),
            language_check: None,
            measures: Vec::new(),
            failed: Vec::new(),
            retried: Vec::new(),
            first: Vec::new(),
            guarded: Guarded::default(),
            retried_guards: Vec::new(),
            error: String::new(),
            attempts: 0,
            fresh_attempts: 0,
            fresh_checks: Vec::new(),
            seed,
            key: None,
            language,
            languages: Vec::new(),
            prompt_tokens: 0,
            generated_tokens: 0,
            tokens_estimated: false,
            calls: 0,
            waited: Duration::ZERO,
            missing: false,
            done_calls: 0,
        }
    }

    fn measured(mut self, original: &str) -> Self {
        if matches!(self.outcome, Outcome::Ok | Outcome::Recovered) {
            let one = std::slice::from_ref(&self.text);
            let texts = if self.texts.is_empty() { one } else { &self.texts };
            self.measures = texts.iter().map(|text| measure(original, text)).collect();
        }
        self
    }

    /// If no attempt recorded them, the only attempt was the first.
    fn first(mut self) -> Self {
        if self.attempts <= 1 {
            self.first.clone_from(&self.failed);
        }
        self
    }

    /// Guards are functions of the texts and are never stored, so texts from an older version's
    /// cache get findings too.
    fn guarded(mut self, plan: &Plan, job: &Job) -> Self {
        let made = matches!(self.outcome, Outcome::Ok | Outcome::Recovered) && self.texts.is_empty();
        if made && plan.guards != GuardMode::Off {
            self.guarded = guards::run(plan.kind(), &job.text, &self.text, job.language, plan.language_of(job));
        }
        self
    }

    /// Whether the whole text came from the cache or from work that another request counts.
    pub fn cached(&self) -> bool {
        self.attempts > 0 && self.fresh_attempts == 0 && self.error.is_empty() && !self.missing
    }
}

#[derive(Debug)]
pub struct Engine {
    config: TransformConfig,
    prompts: Prompts,
    registry: Registry,
    cache: Arc<Cache>,
    _aging: Option<Hourly>,
    inflight: Inflight,
}

impl Engine {
    /// Reads the prompts and opens the cache; loads and calls no generator.
    pub fn new(config: TransformConfig, resolver: Resolver) -> Result<Self, TransformError> {
        let prompts = Prompts::load(config.prompts_dir.as_deref())?;
        let home: &Path = &resolver.config().home;
        let cache = Arc::new(Cache::open_bounded(
            &config.cache_directory(home),
            config.cache_bounds(),
        )?);
        let aging = Cache::expire_hourly(&cache)?;
        let stats = cache.stats();
        tracing::debug!(
            entries = stats.entries,
            corrupt_lines = stats.corrupt_lines,
            "opened the cache of transformations"
        );
        let registry = Registry::new(config.clone(), resolver);
        Ok(Self {
            config,
            prompts,
            registry,
            cache,
            _aging: aging,
            inflight: Inflight::default(),
        })
    }

    /// Adds a second level of the cache.
    pub fn with_shared(self, shared: SharedCache) -> Self {
        Self {
            inflight: self.inflight.with_shared(shared),
            ..self
        }
    }

    /// The references of a holder, if there is a second level.
    pub(crate) fn hold(&self, holder: &Holder) -> Option<Hold> {
        self.inflight.hold(holder)
    }

    /// Adds generator limits that hold over all processes of a fleet.
    pub fn with_limits(self, limits: Arc<dyn SharedLimits>) -> Self {
        Self {
            registry: self.registry.with_limits(limits),
            ..self
        }
    }

    /// The prompts in use.
    pub fn prompts(&self) -> &Prompts {
        &self.prompts
    }

    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Validates a request and finds its generator; loads a local generator.
    pub async fn plan(
        &self,
        caller: Caller,
        spec: Option<proto::TransformSpec>,
        items: Vec<proto::TextItem>,
    ) -> Result<(Plan, Vec<Job>), TransformError> {
        let planned = plan::plan(&self.config, &self.prompts, &self.registry, spec, items).await;
        planned.map(|(plan, jobs)| (Plan { caller, ..plan }, jobs))
    }

    /// Runs the jobs of a plan, several at once; each is yielded when it ends. The first error that
    /// affects all jobs ends the stream.
    pub fn run(
        self: Arc<Self>,
        plan: Arc<Plan>,
        jobs: Vec<Job>,
    ) -> impl Stream<Item = Result<(Job, Finished), TransformError>> + Send + 'static {
        let concurrency = plan
            .generator
            .as_ref()
            .map_or_else(plain_concurrency, |generator| generator.concurrency());
        stream::iter(jobs)
            .map(move |job| {
                let (engine, plan) = (Arc::clone(&self), Arc::clone(&plan));
                // Each job is a separate task, so that jobs do not wait for each other.
                let done = in_own_task(async move {
                    let finished = engine.transform(&plan, &job).await?;
                    let looking = Arc::clone(&plan);
                    let looked = computed(move || {
                        let finished = finished.measured(&job.text).guarded(&looking, &job).first();
                        (job, finished)
                    });
                    let (job, finished) = looked.await.ok_or(TransformError::ShuttingDown)?;
                    if finished.outcome == Outcome::Failed && plan.on_failure == OnFailure::Fail {
                        return Err(aborted(&job, &finished));
                    }
                    Ok((job, finished))
                });
                async move { done.await.unwrap_or(Err(TransformError::ShuttingDown)) }
            })
            .buffer_unordered(concurrency)
    }

    async fn transform(&self, plan: &Arc<Plan>, job: &Job) -> Result<Finished, TransformError> {
        // Checked before the text, so that a client can probe with an empty text.
        if let Some(refusal) = &job.refusal {
            let mut finished = Finished::new(plan.seed, plan.language_of(job));
            finished.languages.extend(job.drawn.map(Language::code));
            finished.failed = vec![Check::GeneratorError];
            finished.fresh_checks = vec![Check::GeneratorError];
            finished.error.clone_from(refusal);
            return Ok(finished);
        }
        if job.text.trim().is_empty() {
            let mut finished = Finished::new(plan.seed, job.language);
            finished.failed = vec![Check::Empty];
            finished.fresh_checks = vec![Check::Empty];
            return Ok(finished);
        }
        match &plan.generator {
            Some(generator) if matches!(plan.kind().making, Making::Continuation) => {
                continuation::until_all_cuts(self, plan, job, generator).await
            }
            Some(generator) => {
                let means = attempt::AttemptContext {
                    plan,
                    generator,
                    cache: &self.cache,
                    inflight: &self.inflight,
                };
                attempt::until_checks_pass(means, job).await
            }
            None => {
                let (plan, job) = (Arc::clone(plan), job.clone());
                // A plan without a generator always has a rule.
                let made = computed(move || Some(by_rule(plan.rule.as_deref()?, &plan, &job)));
                made.await.flatten().ok_or(TransformError::ShuttingDown)
            }
        }
    }
}

/// Transformations defined by a rule rather than generated: one attempt, nothing cached. The
/// original never replaces a text that cannot be made.
fn by_rule(rule: &dyn Rule, plan: &Plan, job: &Job) -> Finished {
    let mut finished = Finished::new(plan.seed, job.language);
    // Random draws on the words depend on the id. Without an id, the text is used instead.
    let id = job.members.first().map(|member| member.id.as_str());
    let applied = rule.apply(&Subject {
        text: &job.text,
        language: job.language,
        seed: plan.seed,
        run: &plan.run,
        id: id.filter(|id| !id.is_empty()).unwrap_or(&job.text),
    });
    match applied {
        Ok(texts) if plan.kind().gives_several => {
            finished.outcome = Outcome::Ok;
            finished.texts = texts;
        }
        Ok(texts) => {
            let text = texts.concat();
            finished.failed = crate::checks::run(plan.kind(), &job.text, &text, None);
            if finished.failed.is_empty() {
                finished.outcome = Outcome::Ok;
                finished.text = text;
            }
        }
        Err(refused) => {
            finished.failed = vec![refused.check];
            finished.error = refused.reason;
        }
    }
    finished.fresh_checks.clone_from(&finished.failed);
    finished
}

fn aborted(job: &Job, finished: &Finished) -> TransformError {
    let member = job.members.first().cloned().unwrap_or_default();
    let names: Vec<_> = finished.failed.iter().map(|check| check.name()).collect();
    let attempts = if finished.attempts == 1 { "attempt" } else { "attempts" };
    let mut why = format!("after {} {attempts}: {}", finished.attempts, names.join(", "));
    if !finished.error.is_empty() {
        why = format!("{why} ({})", finished.error);
    }
    TransformError::Aborted {
        index: member.index,
        id: member.id,
        why,
    }
}
