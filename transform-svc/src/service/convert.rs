//! Our types as messages.

use isomer_proto::{common::v1::Provenance, transform::v1 as proto};

use crate::{
    catalogue::Entry,
    checks::Check,
    engine::{Finished, Job, Member, OnFailure, Outcome, Plan},
    language::Language,
    measures::{self, Measures},
    prompt::Prompts,
};

pub(super) fn check(check: Check) -> proto::Check {
    match check {
        Check::Identical => proto::Check::Identical,
        Check::Empty => proto::Check::Empty,
        Check::Ellipsis => proto::Check::Ellipsis,
        Check::Structured => proto::Check::Structured,
        Check::ReasoningLeak => proto::Check::ReasoningLeak,
        Check::InstructionPrefix => proto::Check::InstructionPrefix,
        Check::WrongLanguage => proto::Check::WrongLanguage,
        Check::Runaway => proto::Check::Runaway,
        Check::Truncated => proto::Check::Truncated,
        Check::SummaryLonger => proto::Check::SummaryLonger,
        Check::GeneratorError => proto::Check::GeneratorError,
    }
}

pub(super) fn measures(measures: Measures) -> proto::Measures {
    proto::Measures {
        edit_distance: measures.edit_distance,
        jaccard: measures.jaccard,
        length_ratio: measures.length_ratio,
    }
}

pub(super) fn info(entry: &Entry, prompts: &Prompts) -> proto::TransformationInfo {
    let prompt = entry.kind.purposes().first().map(|purpose| prompts.get(*purpose, ""));
    let prompt = prompt.as_ref();
    proto::TransformationInfo {
        name: entry.name.to_owned(),
        axis: entry.axis.into(),
        description: entry.description.to_owned(),
        needs_generator: entry.kind.needs_generator(),
        prompt_version: prompt.map(|prompt| prompt.tag()).unwrap_or_default(),
        prompt_digest: prompt.map(|prompt| prompt.digest().to_owned()).unwrap_or_default(),
        served: entry.served,
        calls: entry.calls,
    }
}

/// The results of a job: one for each item that holds its text. The first stands for the work; the others found it done.
pub(crate) fn results(plan: &Plan, job: &Job, finished: &Finished) -> Vec<proto::TransformResult> {
    job.members
        .iter()
        .enumerate()
        .map(|(nth, member)| result(plan, job, finished, member, nth > 0))
        .collect()
}

fn result(plan: &Plan, job: &Job, finished: &Finished, member: &Member, repeated: bool) -> proto::TransformResult {
    let generated = plan.kind.needs_generator();
    let (outcome, text, language) = match (finished.outcome, plan.on_failure) {
        (Outcome::Ok, _) => (proto::Outcome::Ok, Some(&finished.text), finished.language),
        (Outcome::Recovered, _) => (proto::Outcome::Recovered, Some(&finished.text), finished.language),
        (Outcome::Failed, OnFailure::KeepOriginal) => (proto::Outcome::KeptOriginal, Some(&job.text), job.language),
        (Outcome::Failed, OnFailure::Drop | OnFailure::Fail) => (proto::Outcome::Failed, None, None),
    };
    let cache_hit = finished.cached() || (repeated && generated && finished.attempts > 0);
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
        prompt_version: plan.prompt.as_ref().map(|prompt| prompt.tag()).unwrap_or_default(),
        prompt_digest: plan
            .prompt
            .as_ref()
            .map(|prompt| prompt.digest().to_owned())
            .unwrap_or_default(),
        seed: finished.seed,
        attempts: if cache_hit { 0 } else { finished.attempts },
        cache_hit,
        content_key: finished.key.map(hex::encode).unwrap_or_default(),
        languages: finished.languages.iter().map(|code| (*code).to_owned()).collect(),
    };
    let codes = |checks: &[Check]| checks.iter().map(|fired| check(*fired).into()).collect();
    proto::TransformResult {
        index: member.index,
        id: member.id.clone(),
        text: text.cloned().unwrap_or_default(),
        texts: Vec::new(),
        outcome: outcome.into(),
        failed_checks: codes(&finished.failed),
        retried_checks: codes(&finished.retried),
        measures: text.map(|text| measures(measures::measure(&job.text, text))),
        provenance: Some(provenance),
        language: language.map(Language::code).unwrap_or_default().to_owned(),
        error: finished.error.clone(),
    }
}
