//! The attempts on one text. Each attempt is one call, or two calls if the second uses the output
//! of the first.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use isomer_transformations::Answer;

use super::{
    Call, Finished, GuardMode, Job, Outcome, Plan,
    cache_access::{CacheAccess, Dispatch},
    generation::{About, generation},
    inflight::{How, Inflight, ProduceError, Produced},
    plan::Step,
};
use crate::{
    cache::{Cache, Key, KeyParts},
    checks::{self, Check},
    clean::clean,
    distractors,
    error::TransformError,
    generator::{Bounded, GeneratorError, Request},
    language::{self, Language},
    prompt::Purpose,
    seed,
};

/// After an answer was cut off, the maximum length of the next attempt is multiplied by this
/// factor, up to a limit.
pub(super) const PATIENCE: u32 = 4;
const MAX_REASONING_TOKENS: u32 = 16_384;

/// The data that all attempts of a request share.
#[derive(Clone, Copy)]
pub(super) struct AttemptContext<'a> {
    pub(super) plan: &'a Plan,
    pub(super) generator: &'a Arc<Bounded>,
    pub(super) cache: &'a Arc<Cache>,
    pub(super) inflight: &'a Inflight,
}

/// The sampling parameters of an attempt.
#[derive(Clone, Copy)]
struct Sampling {
    temperature: f64,
    seed: u64,
    /// Factor on the maximum number of tokens of an answer.
    patience: u32,
}

#[derive(Clone, Copy)]
struct StepCall<'a> {
    step: &'a Step,
    text: &'a str,
    language: Option<Language>,
    sampling: Sampling,
}

/// The result of an attempt.
#[derive(Default)]
struct Attempt {
    text: String,
    /// Whether the answer was cut off, during its reasoning or later.
    unfinished: bool,
    fresh: bool,
}

/// Attempts a text until its checks pass or the attempts are used up. An error of the generator
/// ends the text immediately, because the generator has already retried. While guards request
/// another attempt, the best text that passed the checks is kept.
pub(super) async fn until_checks_pass(means: AttemptContext<'_>, job: &Job) -> Result<Finished, TransformError> {
    let plan = means.plan;
    let mut finished = Finished::new(plan.seed, plan.language_of(job));
    finished.languages.extend(job.drawn.map(Language::code));
    let mut patience = 1;
    let mut best: Option<Finished> = None;
    for attempt in 0..plan.max_attempts {
        finished.retried.append(&mut finished.failed);
        finished.trail.clear();
        finished.attempts += 1;
        finished.seed = seed::of_attempt(plan.seed, &job.text, attempt);
        let sampling = Sampling {
            temperature: temperature(plan, attempt),
            seed: finished.seed,
            patience,
        };
        match means.attempt(job, sampling, &mut finished).await {
            Ok(attempted) => {
                finished.fresh_attempts += u32::from(attempted.fresh);
                let (texts, fired) = look(plan, job, &attempted, &mut finished);
                if attempted.unfinished {
                    patience = patience.saturating_mul(PATIENCE);
                }
                let unfinished = attempted.unfinished;
                if attempt == 0 {
                    finished.first.clone_from(&fired);
                }
                if attempted.fresh {
                    finished.fresh_checks.extend(&fired);
                }
                if fired.is_empty() {
                    let mut passed = finished.clone();
                    passed.outcome = if attempt == 0 { Outcome::Ok } else { Outcome::Recovered };
                    match texts {
                        Some(texts) => passed.texts = texts,
                        None => passed.text = attempted.text,
                    }
                    if plan.guards != GuardMode::Retry {
                        return Ok(passed);
                    }
                    let passed = passed.guarded(plan, job);
                    let good = passed.guarded.fired.is_empty();
                    best = Some(better(best, passed));
                    if good {
                        break;
                    }
                } else if fired == [Check::Identical] && !plan.retry_identical {
                    finished.failed = fired;
                    finished.outcome = Outcome::Unchanged;
                    break;
                }
                finished.failed = fired;
                if !unfinished && is_futile(plan, means.generator, attempt + 1) {
                    break;
                }
            }
            Err(ProduceError::Cache(error)) => return Err(TransformError::SharedCache(error)),
            Err(ProduceError::Generator { error, waited, fresh }) => {
                finished.waited += waited;
                finished.done_calls = finished.trail.len();
                if fresh {
                    // If the budget is spent or the server is unreachable, the generator was not
                    // called.
                    finished.fresh_attempts += u32::from(error.calls() > 0);
                    finished.calls += u64::from(error.calls());
                }
                return Ok(settled(best, end(finished, means.generator, error, fresh)?));
            }
        }
    }
    Ok(settled(best, finished))
}

/// The text on which fewer guards fired; the earlier one if equal. The guards that fired on the
/// other text are recorded.
fn better(best: Option<Finished>, new: Finished) -> Finished {
    let Some(best) = best else { return new };
    let fewer = new.guarded.fired.len() < best.guarded.fired.len();
    let (mut kept, left) = if fewer { (new, best) } else { (best, new) };
    kept.retried_guards.extend(left.retried_guards);
    kept.retried_guards.extend(left.guarded.fired);
    kept
}

/// The text that was kept, with the cost of all attempts; the last attempt if no text was kept.
fn settled(best: Option<Finished>, last: Finished) -> Finished {
    let Some(best) = best else { return last };
    let mut retried = last.retried;
    retried.extend(last.failed);
    Finished {
        retried,
        attempts: last.attempts,
        fresh_attempts: last.fresh_attempts,
        fresh_checks: last.fresh_checks,
        calls: last.calls,
        prompt_tokens: last.prompt_tokens,
        generated_tokens: last.generated_tokens,
        tokens_estimated: last.tokens_estimated,
        waited: last.waited,
        missing: last.missing,
        done_calls: last.done_calls,
        ..best
    }
}

/// Whether another attempt can only repeat the last one: it is greedy, and the generator's greedy
/// output does not depend on the seed.
pub(super) fn is_futile(plan: &Plan, generator: &Bounded, attempt: u32) -> bool {
    let greedy = |attempt| temperature(plan, attempt) == 0.0;
    generator.greedy_ignores_seed() && greedy(attempt) && greedy(attempt.saturating_sub(1))
}

pub(super) fn temperature(plan: &Plan, attempt: u32) -> f64 {
    if attempt == 0 {
        plan.temperature
    } else {
        plan.temperature.max(plan.retry_temperature)
    }
}

/// Runs the checks on an attempt's text, or on its set of texts. Also records the detector's
/// verdict.
fn look(plan: &Plan, job: &Job, attempted: &Attempt, finished: &mut Finished) -> (Option<Vec<String>>, Vec<Check>) {
    let expected = plan.language_of(job);
    let (texts, mut fired) = if plan.kind().gives_several {
        let set = distractors::read(plan.kind(), &job.text, &attempted.text, plan.count() as usize, expected);
        finished.language_check = set.language;
        (Some(set.texts), set.failed)
    } else {
        finished.language_check = expected
            .filter(|_| !attempted.text.is_empty())
            .map(|expected| language::check(&attempted.text, expected));
        let fired = checks::run_told(plan.kind(), &job.text, &attempted.text, finished.language_check);
        (None, fired)
    };
    if attempted.unfinished && !fired.contains(&Check::Truncated) {
        fired.push(Check::Truncated);
        fired.sort_unstable();
    }
    (texts, fired)
}

/// The consequence of a generator's error: the end of the request, or of this text.
pub(super) fn end(
    mut finished: Finished,
    generator: &Bounded,
    error: GeneratorError,
    fresh: bool,
) -> Result<Finished, TransformError> {
    let id = generator.identity().id.clone();
    match error {
        GeneratorError::Unreachable { message, .. } => Err(TransformError::Unreachable { id, message }),
        GeneratorError::Refused { message, hint, .. } => Err(TransformError::Refused { id, message, hint }),
        GeneratorError::Paused { wait, .. } => Err(TransformError::Paused { id, wait }),
        GeneratorError::NotCached => {
            finished.failed = vec![Check::GeneratorError];
            finished.missing = true;
            Ok(finished)
        }
        GeneratorError::Withheld { .. } | GeneratorError::Failed { .. } | GeneratorError::Budget { .. } => {
            let check = match error {
                GeneratorError::Withheld { check, .. } => check,
                _ => Check::GeneratorError,
            };
            finished.failed = vec![check];
            if fresh {
                finished.fresh_checks.push(check);
            }
            finished.error = error.to_string();
            Ok(finished)
        }
    }
}

/// Maximum number of tokens of an answer to a text.
pub(super) fn max_tokens(plan: &Plan, purpose: Purpose, text: &str, patience: u32) -> u32 {
    patient(plan, plan.max_tokens_for(purpose, text), patience)
}

/// `tokens` times the patience, if the request sets no limit of its own.
pub(super) fn patient(plan: &Plan, tokens: u32, patience: u32) -> u32 {
    match plan.max_tokens {
        None if patience > 1 => tokens.saturating_mul(patience).min(MAX_REASONING_TOKENS),
        _ => tokens,
    }
}

impl AttemptContext<'_> {
    /// The calls of one attempt. If a call returns no text, no further call is made and the checks
    /// receive an empty text.
    async fn attempt(self, job: &Job, sampling: Sampling, finished: &mut Finished) -> Result<Attempt, ProduceError> {
        let mut attempted = Attempt {
            text: job.text.clone(),
            ..Attempt::default()
        };
        for step in &self.plan.steps {
            let language = self.plan.step_language(step, job);
            let source = std::mem::take(&mut attempted.text);
            let (key, produced) = self.produce(step, &source, language, sampling).await;
            finished.key = Some(key);
            let produced = produced?;
            attempted.fresh |= produced.fresh;
            finished.calls += u64::from(produced.calls);
            finished.waited += produced.waited;
            if produced.fresh {
                finished.prompt_tokens += produced.entry.prompt_tokens;
                finished.generated_tokens += produced.entry.generated_tokens;
                finished.tokens_estimated |= produced.entry.tokens_estimated;
            }
            let prompt = &step.prompt;
            let cleaned = clean(prompt.purpose(), &source, &produced.entry.output, prompt.delimiters());
            finished.trail.push(Call {
                prompt: Arc::clone(prompt),
                language,
                key,
                text: cleaned.text.clone(),
                prompt_tokens: produced.entry.prompt_tokens,
                generated_tokens: produced.entry.generated_tokens,
                tokens_estimated: produced.entry.tokens_estimated,
                fingerprint: produced.entry.fingerprint.clone(),
            });
            attempted.text = cleaned.text;
            attempted.unfinished |= cleaned.unfinished || produced.entry.cut;
            if attempted.text.is_empty() {
                break;
            }
        }
        Ok(attempted)
    }

    /// One call's text, from the cache or the generator, and its content address. If the request
    /// asks for it, a stored text of another model version is generated again.
    async fn produce(
        self,
        step: &Step,
        text: &str,
        language: Option<Language>,
        sampling: Sampling,
    ) -> (Key, Result<Produced, ProduceError>) {
        let plan = self.plan;
        let call = StepCall {
            step,
            text,
            language,
            sampling,
        };
        let identity = self.generator.identity().cache_key.as_str();
        let (key, found) = self.produce_as(call, identity, plan.access).await;
        let (Some(version), Ok(stored)) = (&plan.version, &found) else {
            return (key, found);
        };
        if stored.fresh {
            return (key, found);
        }
        let asking = AtomicU32::new(0);
        let asked = version.get_or_try_init(|| async {
            let fresh = self.produce_as(call, identity, CacheAccess::Bypass).await.1?;
            asking.store(fresh.calls, Ordering::Relaxed);
            Ok(fresh.entry.fingerprint)
        });
        let (key, found) = match asked.await {
            Ok(version) if *version == stored.entry.fingerprint => (key, found),
            Ok(version) => {
                let generator = format!("{identity}#version={version}");
                self.produce_as(call, &generator, plan.access).await
            }
            Err(error) => (key, Err(error)),
        };
        let with_calls = |produced: Produced| Produced {
            calls: produced.calls + asking.into_inner(),
            ..produced
        };
        (key, found.map(with_calls))
    }

    /// Like `produce`, for this name of the generator and this use of the caches.
    async fn produce_as(
        self,
        call: StepCall<'_>,
        generator: &str,
        access: CacheAccess,
    ) -> (Key, Result<Produced, ProduceError>) {
        let plan = self.plan;
        let StepCall {
            step,
            text,
            language,
            sampling,
        } = call;
        let purpose = step.prompt.purpose();
        let max_tokens = max_tokens(plan, purpose, text, sampling.patience);
        let request = Request {
            messages: Vec::new(),
            temperature: sampling.temperature,
            top_p: plan.top_p,
            top_k: plan.top_k,
            max_tokens,
            seed: sampling.seed,
        };
        let seedless = sampling.temperature == 0.0 && self.generator.greedy_ignores_seed();
        // The key covers the question, not its purpose: a translation is the same whether it is the
        // whole transformation or a step of a backtranslation.
        let mut prompt_key = step.prompt.digest().to_owned();
        if purpose.answer() == Answer::List {
            prompt_key.push_str(&format!("#{}", plan.count()));
        }
        if let Some(most) = plan.top_k {
            prompt_key.push_str(&format!("#top_k={most}"));
        }
        let parts = KeyParts {
            text,
            transformation: purpose.name(),
            language: language.map_or("", Language::code),
            prompt: &prompt_key,
            generator,
            temperature: sampling.temperature,
            top_p: plan.top_p,
            max_tokens,
            seed: (!seedless).then_some(request.seed),
            tenant: plan.caller.scope(),
        };
        let (key, made) = (parts.key(), parts.made());
        let make = |urgency| {
            let (prompt, count) = (Arc::clone(&step.prompt), plan.count());
            let about = About {
                source: text.to_owned(),
                kind: purpose.name().to_owned(),
                prompt: prompt.tag(),
                language: language.map_or("", Language::code).to_owned(),
                made,
                dispatch: plan.caller.dispatch.as_ref().map(Dispatch::id),
            };
            generation(Arc::clone(self.generator), about, urgency, move |text| Request {
                messages: prompt.render(text, language, count),
                ..request
            })
        };
        let how = How {
            location: self.generator.location(),
            access,
            caller: &plan.caller,
            priority: plan.priority,
        };
        let produced = self.inflight.produce(key, self.cache, how, make).await;
        (key, produced)
    }
}
