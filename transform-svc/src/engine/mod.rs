//! From a request to its texts: plan it, group equal texts, and attempt each until its checks pass,
//! with as many in flight as the generator permits. All work belongs to the caller's future:
//! dropping the future cancels it.

mod ask;
mod attempt;
mod cache_access;
mod continuation;
mod estimate;
mod generation;
mod inflight;
mod plan;
mod task;

use std::{path::Path, sync::Arc, time::Duration};

use futures::stream::{self, Stream, StreamExt};
use isomer_models::Resolver;
use isomer_outbound::shared_limits::SharedLimits;
use isomer_proto::{ProtoEnum, transform::v1 as proto};
use isomer_retention::{Hold, Holder};
use isomer_segment_log::Hourly;

use crate::{
    cache::{Cache, Key, SharedCache},
    catalogue::Kind,
    checks::Check,
    config::TransformConfig,
    error::TransformError,
    generator::registry::Registry,
    guards::{self, Guard, Guarded},
    language::{Language, LanguageCheck},
    measures::{Measures, measure},
    plain::{multi_swap, random_keywords::random_keywords, stopwords},
    prompt::{Prompt, Prompts},
};
pub(crate) use ask::Ask;
pub(crate) use cache_access::Dispatch;
pub use cache_access::{CacheAccess, Caller};
pub(crate) use estimate::{Amount, Estimate};
use inflight::Inflight;
pub use isomer_proto::transform::v1::{GuardMode, OnFailure};
pub use plan::{Job, Member, Plan, Step};
pub(crate) use plan::{joined, kind_of, read_language, target_of};
use task::{computed, in_own_task};

/// Texts processed at once if no generator bounds them.
const PLAIN_CONCURRENCY: usize = 32;

/// How a text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Passed at the first attempt.
    Ok,
    /// Passed after retries.
    Recovered,
    /// The generator returned the text unchanged, and the request does not ask for a retry of that.
    Unchanged,
    /// Every attempt failed.
    Failed,
}

/// One call of an attempt, done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What was asked.
    pub prompt: Arc<Prompt>,
    /// Language asked for; `None` when it is that of the text and unknown.
    pub language: Option<Language>,
    /// Content address.
    pub key: Key,
    /// What came back, cleaned.
    pub text: String,
    /// Tokens of the prompt, counted when the generator was called, now or for the cache.
    pub prompt_tokens: u64,
    /// Tokens generated, likewise.
    pub generated_tokens: u64,
    /// Whether these tokens are estimated.
    pub tokens_estimated: bool,
    /// The version of the model, as the server named it; empty if it names none.
    pub fingerprint: String,
}

/// One text, done.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// How it ended. The plan's policy decides what a failure turns into.
    pub outcome: Outcome,
    /// The text; empty after a failure, and where there are several.
    pub text: String,
    /// The texts, where the transformation gives several.
    pub texts: Vec<String>,
    /// The calls of the last attempt.
    pub trail: Vec<Call>,
    /// What the detector says of the last attempt; `None` if it did not run.
    pub language_check: Option<LanguageCheck>,
    /// How far the text, or each of the texts, is from the original.
    pub measures: Vec<Measures>,
    /// Checks that fired on the last attempt.
    pub failed: Vec<Check>,
    /// Checks that fired on earlier attempts.
    pub retried: Vec<Check>,
    /// Checks that fired on the first attempt.
    pub first: Vec<Check>,
    /// What the guards say of the text.
    pub guarded: Guarded,
    /// Guards that fired on attempts whose text is not returned.
    pub retried_guards: Vec<Guard>,
    /// Why the generator failed.
    pub error: String,
    /// Attempts made, those found in the cache included.
    pub attempts: u32,
    /// Attempts that reached a generator now.
    pub fresh_attempts: u32,
    /// Checks that fired on attempts made now.
    pub fresh_checks: Vec<Check>,
    /// Seed of the last attempt.
    pub seed: u64,
    /// Content address of the last attempt; `None` for what is not generated.
    pub key: Option<Key>,
    /// Target of a translation, or else the source language.
    pub language: Option<Language>,
    /// Language codes drawn or asked for.
    pub languages: Vec<&'static str>,
    /// Prompt tokens processed now.
    pub prompt_tokens: u64,
    /// Tokens generated now.
    pub generated_tokens: u64,
    /// Whether some of these tokens are estimated, since the generator does not count them.
    pub tokens_estimated: bool,
    /// Calls to the generator now, its retries included.
    pub calls: u64,
    /// Time waited for a permit of the generator.
    pub waited: Duration,
    /// Whether the caches lack a call of the last attempt and no generator may be asked
    /// ([`CacheAccess::ReadOnly`]).
    pub missing: bool,
    /// Calls of the last attempt that were done when a generator failed or was not to be asked.
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

    /// If no attempt recorded it, the only attempt was the first.
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
            self.guarded = guards::run(plan.kind, &job.text, &self.text, job.language, plan.language_of(job));
        }
        self
    }

    /// Whether everything came from the cache or from work that another request counts.
    pub fn cached(&self) -> bool {
        self.attempts > 0 && self.fresh_attempts == 0 && self.error.is_empty() && !self.missing
    }
}

/// The parts of the service.
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

    /// The same with a second level of the cache.
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

    /// The same with limits of generators that hold over all processes of a fleet.
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

    /// The cache.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Checks a request and finds its generator (loading a local one).
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
    /// concerns all of them ends the stream.
    pub fn run(
        self: Arc<Self>,
        plan: Arc<Plan>,
        jobs: Vec<Job>,
    ) -> impl Stream<Item = Result<(Job, Finished), TransformError>> + Send + 'static {
        let concurrency = plan
            .generator
            .as_ref()
            .map_or(PLAIN_CONCURRENCY, |generator| generator.concurrency());
        stream::iter(jobs)
            .map(move |job| {
                let (engine, plan) = (Arc::clone(&self), Arc::clone(&plan));
                // One task per job, so that jobs do not wait for each other.
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
        // Checked before the text itself, so that a client can probe with an empty text.
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
            Some(generator) if plan.kind == Kind::Continuation => {
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
                let made = computed(move || without_generator(&plan, &job));
                made.await.ok_or(TransformError::ShuttingDown)
            }
        }
    }
}

/// The texts that a rule makes of a text, or the check that fails, with the reason. No copy takes
/// the place of a text that cannot be made.
fn by_rule(plan: &Plan, job: &Job) -> Result<Vec<String>, (Check, String)> {
    let refused = |problem| (Check::GeneratorError, problem);
    // Random draws on the words depend on the id; without an id, the text replaces it.
    let id = job.members.first().map(|member| member.id.as_str());
    let id = id.filter(|id| !id.is_empty()).unwrap_or(&job.text);
    let text = match plan.kind {
        Kind::MultiSwap => {
            let tagger = multi_swap::tagger_for(job.language).map_err(refused)?;
            return multi_swap::multi_swap(&tagger, &job.text, plan.swaps as usize, plan.seed, &plan.run, id)
                .map_err(|error| (Check::TooFew, error.to_string()));
        }
        Kind::Noise => {
            let noise = plan
                .noise
                .ok_or_else(|| refused("no channel of noise is planned".to_owned()))?;
            noise.apply(&job.text, job.language, plan.seed)?
        }
        Kind::RandomKeywords => random_keywords(&job.text, plan.keep_ratio, plan.seed, id),
        Kind::StopwordRemoval => {
            let language = job.language.or_else(|| Language::parse("en"));
            let removed = language.and_then(|language| stopwords::remove(&job.text, language));
            removed.ok_or_else(|| {
                let name = job.language.map_or("this language", Language::name);
                refused(format!(
                    "there is no list of function words for {name}; there is one for {}",
                    stopwords::LANGUAGES
                ))
            })?
        }
        Kind::Paraphrase
        | Kind::Backtranslation
        | Kind::StyleChange
        | Kind::Expansion
        | Kind::Summarisation
        | Kind::SummarisedExpansion
        | Kind::Translation
        | Kind::CrossTranslation
        | Kind::Keywords
        | Kind::Distractors
        | Kind::Continuation => return Err(refused(format!("`{}` needs a generator", plan.kind.name()))),
    };
    Ok(vec![text])
}

/// Transformations defined by a rule rather than generated: one attempt, nothing cached.
fn without_generator(plan: &Plan, job: &Job) -> Finished {
    let mut finished = Finished::new(plan.seed, job.language);
    match by_rule(plan, job) {
        Ok(texts) if plan.kind.gives_several() => {
            finished.outcome = Outcome::Ok;
            finished.texts = texts;
        }
        Ok(texts) => {
            let text = texts.concat();
            finished.failed = crate::checks::run(plan.kind, &job.text, &text, None);
            if finished.failed.is_empty() {
                finished.outcome = Outcome::Ok;
                finished.text = text;
            }
        }
        Err((check, error)) => {
            finished.failed = vec![check];
            finished.error = error;
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
