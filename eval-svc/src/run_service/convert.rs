//! Conversions between protos and the domain's run.

use std::path::PathBuf;

use isomer_proto::{ProtoEnum, eval::v1 as proto, transform::v1::OnFingerprintChange};
use isomer_service_kit::{Fault, choice};
use jiff::Timestamp;

use super::duration;
use crate::{
    run::{Counters, Event, EventKind, RunRecord, RunRequest, StageProgress, SuiteChoice},
    suite::MOST_ITEMS,
};

/// Reads the request for a run.
pub(super) fn request(spec: Option<proto::RunSpec>) -> Result<RunRequest, Fault> {
    let spec = spec.ok_or_else(|| Fault::invalid("spec", "is missing; give the specification of the run"))?;
    for (field, length) in [
        ("encoder_ids", spec.encoder_ids.len()),
        ("forms", spec.forms.len()),
        ("prompt_variants", spec.prompt_variants.len()),
        ("seeds", spec.seeds.len()),
        ("transformations", spec.transformations.len()),
        ("prompts", spec.prompts.len()),
        ("gate.rules", spec.gate.as_ref().map_or(0, |gate| gate.rules.len())),
        (
            "judge.scales",
            spec.judge.as_ref().map_or(0, |judge| judge.scales.len()),
        ),
        (
            "separation.kinds",
            spec.separation.as_ref().map_or(0, |separation| separation.kinds.len()),
        ),
    ] {
        if length > MOST_ITEMS {
            let message = format!("has {length} entries, at most {MOST_ITEMS}");
            return Err(Fault::invalid(format!("spec.{field}"), message));
        }
    }
    let on_change: Option<OnFingerprintChange> = choice("spec.on_fingerprint_change", spec.on_fingerprint_change)?;
    Ok(RunRequest {
        suite: suite(spec.suite)?,
        encoders: spec.encoder_ids,
        forms: spec.forms,
        prompt_variants: spec.prompt_variants,
        generator: filled(spec.generator_id),
        seeds: spec.seeds,
        temperature: spec.temperature,
        on_fingerprint_change: on_change.map(|on_change| on_change.name().to_owned()),
        limit: spec.limit,
        total_items: spec.total_items,
        sample_seed: spec.sample_seed,
        baseline: filled(spec.baseline_encoder_id),
        transformations: spec.transformations,
        gate: super::gate::gate(spec.gate)?,
        judge: super::judge::judge(spec.judge)?,
        prompts: crate::task_service::prompts::read("spec.prompts", spec.prompts)?,
        separation: super::separation::separation(spec.separation)?,
        limits: super::limits::limits(spec.limits)?,
    })
}

fn filled(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn suite(suite: Option<proto::SuiteRef>) -> Result<SuiteChoice, Fault> {
    let Some(suite) = suite else {
        return Ok(SuiteChoice::default());
    };
    match suite.source {
        None => Err(Fault::invalid(
            "spec.suite",
            "names no source; give `builtin` or `toml`",
        )),
        Some(proto::suite_ref::Source::Builtin(name)) => Ok(SuiteChoice::Builtin { name }),
        Some(proto::suite_ref::Source::Toml(text)) => Ok(SuiteChoice::Toml {
            text,
            file_name: suite.file_name,
            base_dir: filled(suite.base_dir).map(PathBuf::from),
        }),
    }
}

pub(super) fn run(record: RunRecord) -> proto::Run {
    let failure = record.failure.unwrap_or(crate::run::Failure {
        code: 0,
        message: String::new(),
    });
    proto::Run {
        id: record.id,
        state: record.state.into(),
        spec: Some(spec(record.request)),
        create_time: Some(timestamp(record.created)),
        start_time: record.started.map(timestamp),
        end_time: record.ended.map(timestamp),
        progress: record.progress.into_iter().map(progress).collect(),
        error: failure.message,
        error_code: failure.code,
        verdict: record
            .gate
            .map_or(proto::Verdict::Unspecified, |gate| super::gate::verdict(gate.verdict))
            .into(),
        blocked: record.gate.is_some_and(|gate| gate.blocked),
        undecided: record
            .gate
            .map_or(proto::GateUndecided::Unspecified, |gate| {
                super::gate::on_undecided(gate.undecided)
            })
            .into(),
        counters: Some(counters(record.counters)),
    }
}

fn spec(request: RunRequest) -> proto::RunSpec {
    let suite = match request.suite {
        SuiteChoice::Builtin { name } => proto::SuiteRef {
            source: Some(proto::suite_ref::Source::Builtin(name)),
            ..proto::SuiteRef::default()
        },
        SuiteChoice::Toml {
            text,
            file_name,
            base_dir,
        } => proto::SuiteRef {
            source: Some(proto::suite_ref::Source::Toml(text)),
            base_dir: base_dir.map(|folder| folder.display().to_string()).unwrap_or_default(),
            file_name,
        },
    };
    proto::RunSpec {
        suite: Some(suite),
        encoder_ids: request.encoders,
        forms: request.forms,
        prompt_variants: request.prompt_variants,
        generator_id: request.generator.unwrap_or_default(),
        seeds: request.seeds,
        temperature: request.temperature,
        on_fingerprint_change: request
            .on_fingerprint_change
            .and_then(|name| OnFingerprintChange::named(&name))
            .unwrap_or_default()
            .into(),
        limit: request.limit,
        total_items: request.total_items,
        sample_seed: request.sample_seed,
        baseline_encoder_id: request.baseline.unwrap_or_default(),
        transformations: request.transformations,
        gate: super::gate::proto(&request.gate),
        judge: super::judge::proto(&request.judge),
        prompts: request
            .prompts
            .into_iter()
            .map(|given| proto::EncoderPrompt {
                role: given.role,
                text: given.text,
                encoder_id: given.encoder.unwrap_or_default(),
            })
            .collect(),
        separation: super::separation::proto(&request.separation),
        limits: super::limits::proto(&request.limits),
    }
}

fn progress(progress: StageProgress) -> proto::StageProgress {
    proto::StageProgress {
        stage: progress.stage.into(),
        done: progress.done,
        total: progress.total,
        cached: progress.cached,
        remaining: progress.remaining_seconds.and_then(duration),
        detail: progress.detail,
    }
}

fn counters(counters: Counters) -> proto::RunCounters {
    let judge = counters.judge.unwrap_or_default();
    proto::RunCounters {
        texts_planned: counters.texts_planned,
        texts_generated: counters.texts_generated,
        texts_by_rule: counters.texts_by_rule,
        texts_cached: counters.texts_cached,
        generator_calls: counters.generator_calls,
        texts_encoded: counters.texts_encoded,
        tokens_encoded: counters.tokens_encoded,
        scores_computed: counters.scores_computed,
        scores_cached: counters.scores_cached,
        kept_original: counters.kept_original,
        failed_texts: counters.failed_texts,
        ratings_planned: judge.ratings_planned,
        ratings_made: judge.ratings_made,
        ratings_cached: judge.ratings_cached,
        ratings_missing: judge.ratings_missing,
        judge_calls: judge.calls,
        generator_tokens: counters.generator_tokens,
        generated_tokens: counters.generated_tokens,
        judge_tokens: judge.tokens,
        judge_generated_tokens: judge.generated_tokens,
        tokens_estimated: counters.tokens_estimated || judge.tokens_estimated,
        cost_nano_usd: counters.cost_nano_usd,
    }
}

fn timestamp(time: Timestamp) -> prost_types::Timestamp {
    let mut stamp = prost_types::Timestamp {
        seconds: time.as_second(),
        nanos: time.subsec_nanosecond(),
    };
    // Before 1970 jiff's fraction is negative, unlike a proto's.
    stamp.normalize();
    stamp
}

pub(super) fn event(event: Event) -> proto::WatchRunResponse {
    use proto::watch_run_response::Event as Kind;
    let kind = match event.kind {
        EventKind::Progress(moved) => Kind::Progress(progress(moved)),
        EventKind::Message(text) => Kind::Message(text),
        EventKind::Ended(record) => Kind::Ended(run(*record)),
    };
    proto::WatchRunResponse {
        sequence: event.sequence,
        time: Some(timestamp(event.time)),
        event: Some(kind),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_list_of_a_request_is_bounded() {
        let most = MOST_ITEMS + 1;
        let texts = || vec!["x".to_owned(); most];
        let suite = Some(proto::SuiteRef {
            source: Some(proto::suite_ref::Source::Builtin("quick".to_owned())),
            ..proto::SuiteRef::default()
        });
        let plain = || proto::RunSpec {
            suite: suite.clone(),
            ..proto::RunSpec::default()
        };
        let gate = proto::Gate {
            rules: vec![proto::GateRule::default(); most],
            ..proto::Gate::default()
        };
        let judge = proto::Judge {
            scales: vec![1; most],
            ..proto::Judge::default()
        };
        let separation = proto::Separation {
            kinds: texts(),
            ..proto::Separation::default()
        };
        #[rustfmt::skip]
        let cases = [
            ("spec.encoder_ids", proto::RunSpec { encoder_ids: texts(), ..plain() }),
            ("spec.forms", proto::RunSpec { forms: texts(), ..plain() }),
            ("spec.prompt_variants", proto::RunSpec { prompt_variants: texts(), ..plain() }),
            ("spec.seeds", proto::RunSpec { seeds: vec![1; most], ..plain() }),
            ("spec.transformations", proto::RunSpec { transformations: texts(), ..plain() }),
            ("spec.prompts", proto::RunSpec { prompts: vec![proto::EncoderPrompt::default(); most], ..plain() }),
            ("spec.gate.rules", proto::RunSpec { gate: Some(gate), ..plain() }),
            ("spec.judge.scales", proto::RunSpec { judge: Some(judge), ..plain() }),
            ("spec.separation.kinds", proto::RunSpec { separation: Some(separation), ..plain() }),
        ];
        for (field, spec) in cases {
            assert_eq!(request(Some(spec)).unwrap_err().field.as_deref(), Some(field));
        }
        assert!(request(Some(plain())).is_ok());
    }
}
