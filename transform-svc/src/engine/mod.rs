//! Processes the texts of a request: plans it, groups equal texts, and attempts each until its
//! checks pass, with as many in flight as the generator permits. All work belongs to the caller's
//! future: dropping the future cancels it.

mod attempt;
mod cache_access;
mod continuation;
mod estimate;
mod generation;
mod inflight;
mod plan;
mod question;
mod result;
mod task;
mod version;

use std::{num::NonZero, path::Path, sync::Arc, thread};

use futures::stream::{self, Stream, StreamExt};
use isomer_models::Resolver;
use isomer_outbound::shared_limits::SharedLimits;
use isomer_proto::{ProtoEnum, transform::v1 as proto};
use isomer_retention::{Hold, Holder};
use isomer_segment_log::Hourly;
use isomer_transformations::Mechanism;

use crate::{
    cache::{Cache, SharedCache},
    checks::Check,
    config::TransformConfig,
    error::TransformError,
    generator::registry::Registry,
    language::Language,
    prompt::Prompts,
    rules::{Rule, Subject},
};
pub(crate) use attempt::{PATIENCE, with_room};
pub(crate) use cache_access::Dispatch;
pub use cache_access::{CacheAccess, Caller};
pub(crate) use estimate::{Amount, Estimate};
use inflight::Inflight;
pub use isomer_proto::transform::v1::{GuardMode, OnFailure};
pub use plan::{Job, Member, Plan, Step};
pub(crate) use plan::{TransformationRequest, joined, read_language};
pub(crate) use question::Question;
pub use result::{Call, Cost, Failure, JobResult, MadeTexts, Outcome, Provenance};
use task::{computed, in_own_task};
pub(crate) use version::{CurrentVersion, current_version};

/// Texts processed at once if no generator limits them. They are bound by the cores: more threads
/// would delay every other call.
fn plain_concurrency() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
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
    ) -> impl Stream<Item = Result<(Job, JobResult), TransformError>> + Send + 'static {
        let concurrency = plan
            .generator
            .as_ref()
            .map_or_else(plain_concurrency, |generator| generator.concurrency());
        stream::iter(jobs)
            .map(move |job| {
                let (engine, plan) = (Arc::clone(&self), Arc::clone(&plan));
                // Each job is a separate task, so that jobs do not wait for each other.
                let done = in_own_task(async move {
                    let result = engine.transform(&plan, &job).await?;
                    let own = Arc::clone(&plan);
                    let measured = computed(move || {
                        let result = result.measured(&own, &job);
                        (job, result)
                    });
                    let (job, result) = measured.await.ok_or(TransformError::ShuttingDown)?;
                    let failed = matches!(result.outcome, Outcome::Failed(_) | Outcome::NotCached { .. });
                    if failed && plan.on_failure == OnFailure::Fail {
                        return Err(aborted(&job, &result));
                    }
                    Ok((job, result))
                });
                async move { done.await.unwrap_or(Err(TransformError::ShuttingDown)) }
            })
            .buffer_unordered(concurrency)
    }

    async fn transform(&self, plan: &Arc<Plan>, job: &Job) -> Result<JobResult, TransformError> {
        // Checked before the text, so that a client can probe with an empty text.
        if let Some(refusal) = &job.refusal {
            let mut result = JobResult::new(plan.seed, plan.language_of(job));
            result.provenance.languages.extend(job.drawn.map(Language::code));
            result.fail(vec![Check::GeneratorError], refusal.clone(), true);
            return Ok(result);
        }
        if job.text.trim().is_empty() {
            let mut result = JobResult::new(plan.seed, job.language);
            result.fail(vec![Check::Empty], String::new(), true);
            return Ok(result);
        }
        match &plan.generator {
            Some(generator) if matches!(plan.kind().making, Mechanism::Continuation) => {
                continuation::until_all_cuts(self, plan, job, generator).await
            }
            Some(generator) => {
                let context = attempt::AttemptContext {
                    plan,
                    generator,
                    cache: &self.cache,
                    inflight: &self.inflight,
                };
                attempt::until_checks_pass(context, job).await
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
fn by_rule(rule: &dyn Rule, plan: &Plan, job: &Job) -> JobResult {
    let mut result = JobResult::new(plan.seed, job.language);
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
        Ok(texts) if plan.kind().gives_several => result.outcome = Outcome::Made(MadeTexts::new(texts, false)),
        Ok(texts) => {
            let text = texts.concat();
            let fired = crate::checks::run(plan.kind(), &job.text, &text, None);
            if fired.is_empty() {
                result.outcome = Outcome::Made(MadeTexts::new(vec![text], false));
            } else {
                result.fail(fired, String::new(), true);
            }
        }
        Err(refused) => result.fail(vec![refused.check], refused.reason, true),
    }
    result
}

fn aborted(job: &Job, result: &JobResult) -> TransformError {
    let member = job.members.first().cloned().unwrap_or_default();
    let names: Vec<_> = result.outcome.checks().iter().map(|check| check.name()).collect();
    let (attempts, error) = (result.provenance.attempts, result.outcome.error());
    let unit = if attempts == 1 { "attempt" } else { "attempts" };
    let mut why = format!("after {attempts} {unit}: {}", names.join(", "));
    if !error.is_empty() {
        why = format!("{why} ({error})");
    }
    TransformError::Aborted {
        index: member.index,
        id: member.id,
        why,
    }
}
