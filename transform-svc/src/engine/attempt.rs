//! The attempts on one text.

use std::sync::Arc;

use super::{
    Finished, Job, Outcome, Plan,
    inflight::{Inflight, ProduceError, Produced, alone},
};
use crate::{
    cache::{Cache, Entry, KeyParts},
    checks::{self, Check},
    clean::clean,
    error::TransformError,
    generator::{Bounded, GeneratorError, Request},
    language::Language,
    prompt::Prompt,
    seed,
};

/// Retries sample at least this hot: a greedy model would say the same again.
const RETRY_TEMPERATURE: f64 = 0.7;

/// Attempts a text until its checks pass or the attempts are used up. A generator's error ends the text at once, since
/// the generator has retried already.
pub(super) async fn until_checks_pass(
    plan: &Plan,
    job: &Job,
    generator: &Arc<Bounded>,
    prompt: &Arc<Prompt>,
    cache: &Arc<Cache>,
    inflight: &Inflight,
) -> Result<Finished, TransformError> {
    let language = plan.language_of(job);
    let mut finished = Finished::new(plan.seed, language);
    if plan.kind == crate::catalogue::Kind::Translation {
        finished.languages.extend(language.map(Language::code));
    }
    for attempt in 0..plan.max_attempts {
        finished.retried.append(&mut finished.failed);
        finished.attempts += 1;
        finished.seed = seed::of_attempt(plan.seed, &job.text, attempt);
        let temperature = if attempt == 0 {
            plan.temperature
        } else {
            plan.temperature.max(RETRY_TEMPERATURE)
        };
        let produced = produce(
            plan,
            job,
            generator,
            prompt,
            cache,
            inflight,
            language,
            temperature,
            &mut finished,
        )
        .await;
        match produced {
            Ok(produced) => {
                finished.fresh_attempts += u32::from(produced.fresh);
                finished.calls += u64::from(produced.calls);
                finished.waited += produced.waited;
                if produced.fresh {
                    finished.prompt_tokens += produced.entry.prompt_tokens;
                    finished.generated_tokens += produced.entry.generated_tokens;
                    finished.tokens_estimated |= produced.entry.tokens_estimated;
                }
                let text = clean(&job.text, &produced.entry.output, prompt.delimiters());
                finished.failed = checks::run(plan.kind, &job.text, &text, language);
                if finished.failed.is_empty() {
                    finished.outcome = if attempt == 0 { Outcome::Ok } else { Outcome::Recovered };
                    finished.text = text;
                    return Ok(finished);
                }
                if produced.fresh {
                    finished.fresh_checks.extend(&finished.failed);
                }
            }
            Err(ProduceError::Cache(error)) => return Err(TransformError::SharedCache(error)),
            Err(ProduceError::Generator { error, waited, fresh }) => {
                finished.waited += waited;
                if fresh {
                    finished.calls += u64::from(error.calls());
                    finished.fresh_attempts += 1;
                }
                return end(finished, generator, error, fresh);
            }
        }
    }
    Ok(finished)
}

/// What an error of the generator means: the end of the request, or of this text.
fn end(
    mut finished: Finished,
    generator: &Bounded,
    error: GeneratorError,
    fresh: bool,
) -> Result<Finished, TransformError> {
    let id = generator.identity().id.clone();
    match error {
        GeneratorError::Unreachable { message, .. } => Err(TransformError::Unreachable { id, message }),
        GeneratorError::Refused { message, mend, .. } => Err(TransformError::Refused { id, message, mend }),
        GeneratorError::Failed { .. } | GeneratorError::Budget { .. } => {
            finished.failed = vec![Check::GeneratorError];
            if fresh {
                finished.fresh_checks.push(Check::GeneratorError);
            }
            finished.error = error.to_string();
            Ok(finished)
        }
    }
}

#[allow(clippy::too_many_arguments, reason = "one call's whole context, in one place")]
async fn produce(
    plan: &Plan,
    job: &Job,
    generator: &Arc<Bounded>,
    prompt: &Arc<Prompt>,
    cache: &Arc<Cache>,
    inflight: &Inflight,
    language: Option<Language>,
    temperature: f64,
    finished: &mut Finished,
) -> Result<Produced, ProduceError> {
    let request = Request {
        messages: Vec::new(),
        temperature,
        top_p: plan.top_p,
        max_tokens: plan.max_tokens_for(&job.text),
        seed: finished.seed,
    };
    let seedless = temperature == 0.0 && generator.greedy_ignores_seed();
    let parts = KeyParts {
        text: &job.text,
        transformation: plan.kind.name(),
        language: language.map_or("", Language::code),
        prompt: prompt.digest(),
        generator: &generator.identity().cache_key,
        temperature,
        top_p: plan.top_p,
        max_tokens: request.max_tokens,
        seed: (!seedless).then_some(request.seed),
    };
    let (key, made) = (parts.key(), parts.made());
    finished.key = Some(key);
    let make = || {
        let (generator, prompt, text) = (Arc::clone(generator), Arc::clone(prompt), job.text.clone());
        let transformation = plan.kind.name();
        Box::pin(async move {
            let request = Request {
                messages: prompt.render(&text, language, 0),
                ..request
            };
            let seed = request.seed;
            let (completion, waited) = generator.generate(request).await;
            let completion = completion.map_err(|error| ProduceError::Generator {
                error,
                waited,
                fresh: true,
            })?;
            let entry = Entry {
                output: completion.text,
                seed,
                prompt_tokens: completion.prompt_tokens,
                generated_tokens: completion.generated_tokens,
                tokens_estimated: completion.tokens_estimated,
                source: text,
                transformation: transformation.to_owned(),
                generator: generator.identity().id.clone(),
                prompt: prompt.tag(),
                language: language.map_or("", Language::code).to_owned(),
                made: Some(made),
            };
            Ok(Produced {
                entry,
                calls: completion.calls,
                fresh: true,
                waited,
            })
        }) as futures::future::BoxFuture<'static, _>
    };
    if plan.bypass_cache {
        return alone(make()).await;
    }
    inflight.produce(key, cache, make).await
}
