//! The attempts on one text. Each attempt is one call, or two calls if the second uses the output
//! of the first.

use std::sync::Arc;

use isomer_transformations::AnswerForm;

use super::{
    Call, GuardMode, Job, JobResult, MadeTexts, Outcome, Plan, Provenance,
    cache_access::{CacheAccess, Dispatch},
    generation::{EntryFields, generation},
    inflight::{CallContext, GenerationResult, Inflight, ProduceError, generator_calls},
    plan::Step,
    version::of_version,
};
use crate::{
    cache::{Cache, Key, KeyParts},
    checks::{self, Check},
    clean::clean,
    distractors,
    error::TransformError,
    generator::{BoundedGenerator, GeneratorError, Request},
    language::{self, Language, LanguageCheck},
    prompt::Purpose,
    seed,
};

/// After an answer was cut off, the maximum length of the next attempt is multiplied by this
/// factor, up to a limit.
pub(crate) const PATIENCE: u32 = 4;
const MAX_REASONING_TOKENS: u32 = 16_384;

/// The data that all attempts of a request share.
#[derive(Clone, Copy)]
pub(super) struct AttemptContext<'a> {
    pub(super) plan: &'a Plan,
    pub(super) generator: &'a Arc<BoundedGenerator>,
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

/// The texts of an attempt with the findings of the checks.
struct CheckedTexts {
    /// One text, or several if the transformation gives several.
    texts: Vec<String>,
    /// Checks that fired.
    fired: Vec<Check>,
    language: Option<LanguageCheck>,
}

/// Attempts a text until its checks pass or the attempts are used up. An error of the generator
/// ends the text immediately, because the generator has already retried. While guards request
/// another attempt, the best text that passed the checks is kept.
pub(super) async fn until_checks_pass(context: AttemptContext<'_>, job: &Job) -> Result<JobResult, TransformError> {
    let plan = context.plan;
    let mut result = JobResult::new(plan.seed, plan.language_of(job));
    result.provenance.languages.extend(job.drawn.map(Language::code));
    let mut patience = 1;
    let mut best: Option<JobResult> = None;
    for attempt in 0..plan.max_attempts {
        let sampling = Sampling {
            temperature: temperature(plan, attempt),
            seed: seed::of_attempt(plan.seed, &job.text, attempt),
            patience,
        };
        result.begin_attempt(sampling.seed);
        match context.attempt(job, sampling, &mut result).await {
            Ok(attempted) => {
                let (fresh, unfinished) = (attempted.fresh, attempted.unfinished);
                result.cost.fresh_attempts += u32::from(fresh);
                let CheckedTexts { texts, fired, language } = check(plan, job, attempted);
                result.provenance.language_check = language;
                if unfinished {
                    patience = patience.saturating_mul(PATIENCE);
                }
                if fired.is_empty() {
                    let mut made = MadeTexts::new(texts, attempt > 0);
                    if plan.guards != GuardMode::Retry {
                        result.outcome = Outcome::Made(made);
                        return Ok(result);
                    }
                    made.run_guards(plan, job);
                    let good = made.guards.fired.is_empty();
                    result.outcome = Outcome::Made(made);
                    best = Some(preferred(best, result.clone()));
                    if good {
                        break;
                    }
                } else {
                    let unchanged = fired == [Check::Identical] && !plan.retry_identical;
                    result.fail(fired, String::new(), fresh);
                    if unchanged {
                        result.outcome = Outcome::Unchanged;
                        break;
                    }
                }
                if !unfinished && is_futile(plan, context.generator, attempt + 1) {
                    break;
                }
            }
            Err(ProduceError::Cache(error)) => return Err(TransformError::SharedCache(error)),
            Err(ProduceError::Generator { error, waited, fresh }) => {
                // If the budget is spent or the server is unreachable, the generator was not
                // called.
                let calls = if fresh { error.calls() } else { 0 };
                result.cost.add(&generator_calls(calls), waited);
                result.cost.fresh_attempts += u32::from(calls > 0);
                let done_calls = result.provenance.trail.len();
                let last = end(result, context.generator, error, fresh, done_calls)?;
                return Ok(final_result(best, last));
            }
        }
    }
    Ok(final_result(best, result))
}

/// The result on which fewer guards fired; the earlier one if equal. The guards that fired on the
/// other text are recorded.
fn preferred(best: Option<JobResult>, new: JobResult) -> JobResult {
    let Some(best) = best else { return new };
    let fewer = new.outcome.fired_guards().len() < best.outcome.fired_guards().len();
    let (mut kept, other) = if fewer { (new, best) } else { (best, new) };
    let retried = &mut kept.provenance.retried_guards;
    retried.extend(&other.provenance.retried_guards);
    retried.extend(other.outcome.fired_guards());
    kept
}

/// The best text, with the attempts and the cost of all attempts; the last attempt if no text
/// passed the checks, or if a further call is missing.
fn final_result(best: Option<JobResult>, last: JobResult) -> JobResult {
    let Some(best) = best.filter(|_| !last.is_missing()) else {
        return last;
    };
    let mut retried_checks = last.provenance.retried_checks;
    retried_checks.extend(last.outcome.checks());
    JobResult {
        outcome: best.outcome,
        provenance: Provenance {
            attempts: last.provenance.attempts,
            retried_checks,
            ..best.provenance
        },
        cost: last.cost,
    }
}

/// Whether another attempt can only repeat the last one: it is greedy, and the generator's greedy
/// output does not depend on the seed.
pub(super) fn is_futile(plan: &Plan, generator: &BoundedGenerator, attempt: u32) -> bool {
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

/// Runs the checks on an attempt's text, or on its set of texts.
fn check(plan: &Plan, job: &Job, attempted: Attempt) -> CheckedTexts {
    let expected = plan.language_of(job);
    let mut checked = if plan.kind().gives_several {
        let set = distractors::read(plan.kind(), &job.text, &attempted.text, plan.count() as usize, expected);
        CheckedTexts {
            texts: set.texts,
            fired: set.failed,
            language: set.language,
        }
    } else {
        let language = expected
            .filter(|_| !attempted.text.is_empty())
            .map(|expected| language::check(&attempted.text, expected));
        CheckedTexts {
            fired: checks::run_with_language(plan.kind(), &job.text, &attempted.text, language),
            texts: vec![attempted.text],
            language,
        }
    };
    if attempted.unfinished && !checked.fired.contains(&Check::Truncated) {
        checked.fired.push(Check::Truncated);
        checked.fired.sort_unstable();
    }
    checked
}

/// The consequence of a generator's error: the end of the request, or of this text. `done_calls`:
/// completed calls of the attempt.
pub(super) fn end(
    mut result: JobResult,
    generator: &BoundedGenerator,
    error: GeneratorError,
    fresh: bool,
    done_calls: usize,
) -> Result<JobResult, TransformError> {
    let id = generator.identity().id.clone();
    match error {
        GeneratorError::Unreachable { message, .. } => Err(TransformError::Unreachable { id, message }),
        GeneratorError::Refused { message, hint, .. } => Err(TransformError::Refused { id, message, hint }),
        GeneratorError::Paused { wait, .. } => Err(TransformError::Paused { id, wait }),
        GeneratorError::NotCached => {
            result.outcome = Outcome::NotCached { done_calls };
            Ok(result)
        }
        GeneratorError::Withheld { .. } | GeneratorError::Failed { .. } | GeneratorError::Budget { .. } => {
            let check = match error {
                GeneratorError::Withheld { check, .. } => check,
                _ => Check::GeneratorError,
            };
            result.fail(vec![check], error.to_string(), fresh);
            Ok(result)
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
        None if patience > 1 => with_room(tokens, patience),
        _ => tokens,
    }
}

/// Maximum number of tokens after answers were cut off.
pub(crate) fn with_room(tokens: u32, patience: u32) -> u32 {
    tokens.saturating_mul(patience).min(MAX_REASONING_TOKENS)
}

impl AttemptContext<'_> {
    /// The calls of one attempt. If a call returns no text, no further call is made and the checks
    /// receive an empty text.
    async fn attempt(self, job: &Job, sampling: Sampling, result: &mut JobResult) -> Result<Attempt, ProduceError> {
        let mut attempted = Attempt {
            text: job.text.clone(),
            ..Attempt::default()
        };
        for step in &self.plan.steps {
            let language = self.plan.step_language(step, job);
            let source = std::mem::take(&mut attempted.text);
            let (key, produced) = self.produce(step, &source, language, sampling).await;
            result.provenance.key = Some(key);
            let produced = produced?;
            attempted.fresh |= produced.fresh;
            result.cost.add(&produced.usage, produced.waited);
            let prompt = &step.prompt;
            let cleaned = clean(prompt.purpose(), &source, &produced.entry.output, prompt.delimiters());
            result.provenance.trail.push(Call {
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
    ) -> (Key, Result<GenerationResult, ProduceError>) {
        let plan = self.plan;
        let call = StepCall {
            step,
            text,
            language,
            sampling,
        };
        let identity = self.generator.identity().cache_key.as_str();
        let produce = |generator: String, access| async move { self.produce_as(call, &generator, access).await };
        of_version(&plan.version, identity, plan.access, produce).await
    }

    /// Like `produce`, for this name of the generator and this use of the caches.
    async fn produce_as(
        self,
        call: StepCall<'_>,
        generator: &str,
        access: CacheAccess,
    ) -> (Key, Result<GenerationResult, ProduceError>) {
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
            is_one_text: purpose.answer() != AnswerForm::List,
        };
        let seedless = sampling.temperature == 0.0 && self.generator.greedy_ignores_seed();
        // The key covers the question, not its purpose: a translation is the same whether it is the
        // whole transformation or a step of a backtranslation.
        let mut prompt_key = step.prompt.digest().to_owned();
        if purpose.answer() == AnswerForm::List {
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
            let fields = EntryFields {
                source: text.to_owned(),
                kind: purpose.name().to_owned(),
                prompt: prompt.tag(),
                language: language.map_or("", Language::code).to_owned(),
                made,
                dispatch: plan.caller.dispatch.as_ref().map(Dispatch::id),
            };
            generation(Arc::clone(self.generator), fields, urgency, move |text| Request {
                messages: prompt.render(text, language, count),
                ..request
            })
        };
        let context = CallContext {
            location: self.generator.location(),
            access,
            caller: &plan.caller,
            priority: plan.priority,
        };
        let produced = self.inflight.produce(key, self.cache, context, make).await;
        (key, produced)
    }
}
