//! Counts over a request.

use std::time::Duration;

use isomer_proto::{
    ProtoEnum,
    common::v1::{Timing, Usage},
    transform::v1::{LanguageCheck, Outcome, TransformResult, TransformSummary},
};
use isomer_usage::sum;

use crate::engine::{JobResult, Plan};

/// Running totals of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    pub(crate) summary: TransformSummary,
    usage: Usage,
    waited: Duration,
}

impl Totals {
    /// Counts a job and its results.
    pub(crate) fn add(&mut self, plan: &Plan, done: &JobResult, results: &[TransformResult]) {
        for result in results {
            let outcome = result.outcome();
            let count = match outcome {
                Outcome::Ok => &mut self.summary.ok,
                Outcome::Recovered => &mut self.summary.recovered,
                Outcome::KeptOriginal => &mut self.summary.kept_original,
                Outcome::Failed | Outcome::Unspecified => &mut self.summary.failed,
            };
            *count += 1;
            self.summary.language_too_short += u64::from(result.language_check() == LanguageCheck::TooShort);
            metrics::counter!(crate::metric_names::TEXTS, "transformation" => plan.kind().name, "outcome" => outcome.name())
                .increment(1);
            self.usage.texts += 1;
            self.summary.cache_hits += u64::from(
                result
                    .provenance
                    .as_ref()
                    .is_some_and(|provenance| provenance.cache_hit),
            );
        }
        let last = done.provenance.trail.last().filter(|_| plan.counts_versions);
        if let Some(call) = last.filter(|call| !call.fingerprint.is_empty()) {
            *self.summary.fingerprints.entry(call.fingerprint.clone()).or_default() += results.len() as u64;
        }
        for guard in done.outcome.fired_guards() {
            *self.summary.guard_counts.entry(guard.name().into()).or_default() += results.len() as u64;
        }
        for check in &done.cost.fresh_checks {
            *self.summary.check_counts.entry(check.name().into()).or_default() += 1;
            metrics::counter!(crate::metric_names::CHECKS, "check" => check.name()).increment(1);
        }
        self.summary.generator_calls += u64::from(done.cost.fresh_attempts);
        sum::add(&mut self.usage, &done.cost.usage);
        self.waited = self.waited.max(done.cost.waited);
    }

    pub(crate) fn merge(&mut self, other: Self) {
        let (into, from) = (&mut self.summary, other.summary);
        into.ok += from.ok;
        into.recovered += from.recovered;
        into.kept_original += from.kept_original;
        into.failed += from.failed;
        into.cache_hits += from.cache_hits;
        into.language_too_short += from.language_too_short;
        into.generator_calls += from.generator_calls;
        for (guard, count) in from.guard_counts {
            *into.guard_counts.entry(guard).or_default() += count;
        }
        for (fingerprint, count) in from.fingerprints {
            *into.fingerprints.entry(fingerprint).or_default() += count;
        }
        for (check, count) in from.check_counts {
            *into.check_counts.entry(check).or_default() += count;
        }
        sum::add(&mut self.usage, &other.usage);
        self.waited = self.waited.max(other.waited);
    }

    /// Tokens as reported by the generator, or estimated if it reports none; retries after overload
    /// count as calls too.
    pub(crate) fn usage(&self) -> Usage {
        Usage {
            cached_texts: self.summary.cache_hits,
            ..self.usage
        }
    }

    /// The total time, and the maximum time that one text waited for a permit of the generator.
    pub(crate) fn timing(&self, total: Duration) -> Timing {
        let message = |duration: Duration| prost_types::Duration::try_from(duration).ok();
        Timing {
            queue: message(self.waited),
            tokenise: None,
            compute: message(total.saturating_sub(self.waited)),
            total: message(total),
        }
    }
}
