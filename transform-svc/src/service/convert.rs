//! Conversions from our types to messages.

use isomer_proto::{
    ProtoEnum as _,
    common::v1::{Provenance, Usage},
    encoder::v1 as encoder,
    transform::v1 as proto,
};
use isomer_service_kit::{choice, priority::Priority};
use isomer_transformations::{Declaration, Parameter, wire};
use serde_json::Value as Json;

use crate::{
    distractors,
    engine::{Amount, Call, Estimate, Job, JobResult, Member, OnFailure, Outcome, Plan, joined},
    error::TransformError,
    language::{Language, TARGETS},
    measures::{self, Measures},
    prompt::{Prompt, Prompts, Purpose},
    rules,
};

pub(crate) fn priority(value: i32) -> Result<Priority, TransformError> {
    Ok(match choice("priority", value)? {
        Some(encoder::Priority::Batch) => Priority::Batch,
        _ => Priority::Interactive,
    })
}

/// Checks or guards in the form of a message.
pub(super) fn numbers<T: Copy + Into<i32>>(values: &[T]) -> Vec<i32> {
    values.iter().map(|value| (*value).into()).collect()
}

pub(super) fn measures(measures: Measures) -> proto::Measures {
    proto::Measures {
        edit_distance: measures.edit_distance,
        jaccard: measures.jaccard,
        length_ratio: measures.length_ratio,
    }
}

pub(super) fn info(row: &Declaration, prompts: &Prompts) -> proto::TransformationInfo {
    let purposes = || row.prompts().iter().copied().map(Purpose::Write);
    let defaults: Vec<_> = purposes().map(|purpose| prompts.get(purpose, "")).collect();
    let mut wordings: Vec<&std::sync::Arc<Prompt>> = purposes().flat_map(|purpose| prompts.of(purpose)).collect();
    // Both steps of a backtranslation use the same prompt.
    wordings.dedup_by(|a, b| a.id() == b.id());
    let parameters = row.parameters.iter().filter(|parameter| parameter.in_requests());
    proto::TransformationInfo {
        name: row.name.to_owned(),
        axis: proto::Axis::named(row.axis.name()).unwrap_or_default().into(),
        description: row.description.to_owned(),
        needs_generator: row.needs_generator(),
        prompt_version: joined(defaults.iter().map(|prompt| prompt.tag())),
        prompt_digest: joined(defaults.iter().map(|prompt| prompt.digest().to_owned())),
        served: true,
        calls: row.calls(),
        target_languages: if row.changes_language() {
            TARGETS.map(str::to_owned).to_vec()
        } else {
            Vec::new()
        },
        parameters: parameters.map(|parameter| parameter_info(row, parameter)).collect(),
        gives_several: row.gives_several,
        prompts: wordings
            .into_iter()
            .map(|prompt| proto::PromptInfo {
                id: prompt.id().to_owned(),
                version: prompt.version().to_owned(),
                digest: prompt.digest().to_owned(),
                generators: prompt.generators().to_vec(),
            })
            .collect(),
    }
}

fn parameter_info(row: &Declaration, parameter: &Parameter) -> proto::ParameterInfo {
    let values = match parameter.name {
        "target_language" | "target_languages" => TARGETS.map(Json::from).to_vec(),
        name => rules::values(row.name, name),
    };
    proto::ParameterInfo {
        name: parameter.name.to_owned(),
        description: parameter.description.to_owned(),
        accepts: parameter.expected(),
        values: values.iter().map(wire::to_proto).collect(),
    }
}

fn call(call: &Call) -> proto::GeneratorCall {
    proto::GeneratorCall {
        prompt_version: call.prompt.tag(),
        prompt_digest: call.prompt.digest().to_owned(),
        language: call.language.map(Language::code).unwrap_or_default().to_owned(),
        text: call.text.clone(),
        content_key: hex::encode(call.key),
        prompt_tokens: call.prompt_tokens,
        generated_tokens: call.generated_tokens,
        tokens_estimated: call.tokens_estimated,
        fingerprint: call.fingerprint.clone(),
    }
}

/// The results of a job: one for each item with its text. The first result carries the usage; the
/// others reuse the work.
pub(crate) fn results(plan: &Plan, job: &Job, done: &JobResult) -> Vec<proto::TransformResult> {
    job.members
        .iter()
        .enumerate()
        .map(|(nth, member)| result(plan, job, done, member, nth > 0))
        .collect()
}

fn result(plan: &Plan, job: &Job, done: &JobResult, member: &Member, repeated: bool) -> proto::TransformResult {
    let (generated, several) = (plan.kind().needs_generator(), plan.kind().gives_several);
    let (of_job, origin, cost) = (&done.outcome, &done.provenance, &done.cost);
    let (outcome, text, language) = match of_job {
        Outcome::Made(made) => {
            let outcome = if made.recovered {
                proto::Outcome::Recovered
            } else {
                proto::Outcome::Ok
            };
            (outcome, made.texts.first().filter(|_| !several), origin.language)
        }
        Outcome::Unchanged => (proto::Outcome::KeptOriginal, Some(&job.text), job.language),
        // An original cannot replace distractors, which must have a different meaning.
        Outcome::Failed(_) | Outcome::NotCached { .. } if plan.on_failure == OnFailure::KeepOriginal && !several => {
            (proto::Outcome::KeptOriginal, Some(&job.text), job.language)
        }
        Outcome::Failed(_) | Outcome::NotCached { .. } => (proto::Outcome::Failed, None, None),
    };
    let made = of_job.made();
    let text_measures = made.map_or(&[][..], |made| made.measures.as_slice());
    let texts = made.filter(|_| several).map_or(&[][..], |made| made.texts.as_slice());
    let untold = made.map_or(&[][..], |made| made.guards.unknown.as_slice());
    let cache_hit = done.cached() || (repeated && generated && origin.attempts > 0);
    let provenance = Provenance {
        generator_id: plan
            .generator
            .as_ref()
            .map(|generator| generator.identity().id.clone())
            .unwrap_or_default(),
        generator_digest: plan
            .generator
            .as_ref()
            .map(|generator| generator.identity().digest.clone())
            .unwrap_or_default(),
        prompt_version: plan.prompt_version(),
        prompt_digest: plan.prompt_digest(),
        seed: origin.seed,
        attempts: if cache_hit { 0 } else { origin.attempts },
        cache_hit,
        content_key: origin.key.map(hex::encode).unwrap_or_default(),
        languages: origin.languages.iter().map(|code| (*code).to_owned()).collect(),
        generator_key: plan
            .generator
            .as_ref()
            .map(|generator| generator.identity().fingerprint())
            .unwrap_or_default(),
    };
    proto::TransformResult {
        index: member.index,
        id: member.id.clone(),
        text: text.cloned().unwrap_or_default(),
        texts: texts.to_vec(),
        outcome: outcome.into(),
        failed_checks: numbers(of_job.checks()),
        retried_checks: numbers(&origin.retried_checks),
        measures: if several {
            distractors::mean(text_measures).map(measures)
        } else if outcome == proto::Outcome::KeptOriginal {
            Some(measures(measures::measure(&job.text, &job.text)))
        } else {
            text_measures.first().copied().map(measures)
        },
        provenance: Some(provenance),
        language: language.map(Language::code).unwrap_or_default().to_owned(),
        error: of_job.error().to_owned(),
        language_check: origin.language_check.unwrap_or_default().into(),
        text_measures: if several {
            text_measures.iter().copied().map(measures).collect()
        } else {
            Vec::new()
        },
        set_jaccard: distractors::set_jaccard(texts),
        calls: origin.trail.iter().map(call).collect(),
        usage: Some(cost.usage).filter(|usage| !repeated && *usage != Usage::default()),
        guards: numbers(of_job.fired_guards()),
        guards_untold: numbers(untold),
        retried_guards: numbers(&origin.retried_guards),
        first_checks: numbers(&origin.first_checks),
    }
}

pub(super) fn estimate(estimate: Estimate) -> proto::GenerationEstimate {
    let cost = |amount: Amount| {
        let prices = estimate.prices?;
        Some(prices.cost(amount.prompt_tokens, amount.generated_tokens))
    };
    let (once, most) = (estimate.once, estimate.most);
    proto::GenerationEstimate {
        texts: estimate.texts,
        cached_texts: estimate.cached,
        texts_by_rule: estimate.by_rule,
        calls: once.calls,
        most_calls: most.calls,
        prompt_tokens: once.prompt_tokens,
        most_prompt_tokens: most.prompt_tokens,
        generated_tokens: once.generated_tokens,
        most_generated_tokens: most.generated_tokens,
        prompt_price: estimate.prices.map(|prices| prices.prompt),
        generated_price: estimate.prices.map(|prices| prices.generated),
        cost: cost(once),
        most_cost: cost(most),
        generator_id: estimate.generator,
    }
}
