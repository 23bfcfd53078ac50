//! The result of a job: its outcome, its provenance and its cost.

use std::{sync::Arc, time::Duration};

use isomer_proto::{common::v1::Usage, transform::v1::GuardMode};
use isomer_usage::sum;

use super::plan::{Job, Plan};
use crate::{
    cache::Key,
    checks::Check,
    guards::{self, Guard, GuardFindings},
    language::{Language, LanguageCheck},
    measures::{Measures, measure},
    prompt::Prompt,
};

/// A completed job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobResult {
    pub outcome: Outcome,
    pub provenance: Provenance,
    pub cost: Cost,
}

/// The outcome of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Texts that passed the checks.
    Made(MadeTexts),
    /// The generator returned the text unchanged, and the request does not ask for a retry in this
    /// case.
    Unchanged,
    /// Every attempt failed. The plan's policy decides how the text is returned.
    Failed(Failure),
    /// A call of the last attempt is not cached, and no generator may be called
    /// ([`CacheAccess::ReadOnly`](super::CacheAccess::ReadOnly)).
    NotCached {
        /// Completed calls of that attempt.
        done_calls: usize,
    },
}

/// Texts that passed the checks.
#[derive(Debug, Clone, PartialEq)]
pub struct MadeTexts {
    /// One text, or several if the transformation gives several.
    pub texts: Vec<String>,
    /// Whether an earlier attempt failed.
    pub recovered: bool,
    /// The distance of each text from the original.
    pub measures: Vec<Measures>,
    /// The guards' findings on the text; empty for several texts.
    pub guards: GuardFindings,
}

/// The reason why a job has no text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failure {
    /// Checks that fired on the last attempt.
    pub checks: Vec<Check>,
    /// The error of the generator or the rule; empty if there was none.
    pub error: String,
}

/// The attempts and calls behind an outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The calls of the last attempt.
    pub trail: Vec<Call>,
    /// Number of attempts, including those found in the cache.
    pub attempts: u32,
    /// Seed of the last attempt.
    pub seed: u64,
    /// Content address of the last attempt; `None` if the text is not generated.
    pub key: Option<Key>,
    /// Target of a translation, or else the source language.
    pub language: Option<Language>,
    /// Codes of the languages drawn or requested.
    pub languages: Vec<&'static str>,
    /// The detector's verdict on the last attempt; `None` if it did not run.
    pub language_check: Option<LanguageCheck>,
    /// Checks that fired on the first attempt.
    pub first_checks: Vec<Check>,
    /// Checks that fired on attempts before the last.
    pub retried_checks: Vec<Check>,
    /// Guards that fired on attempts whose text is not returned.
    pub retried_guards: Vec<Guard>,
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

/// The work of a generator that is counted for the current request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cost {
    /// Calls, including the generator's retries, and their tokens.
    pub usage: Usage,
    /// Time spent waiting for a permit of the generator.
    pub waited: Duration,
    /// Attempts that called a generator now.
    pub fresh_attempts: u32,
    /// Checks that fired on attempts made now.
    pub fresh_checks: Vec<Check>,
}

impl JobResult {
    /// A job without attempts.
    pub(super) fn new(seed: u64, language: Option<Language>) -> Self {
        Self {
            outcome: Outcome::Failed(Failure::default()),
            provenance: Provenance {
                seed,
                language,
                ..Provenance::default()
            },
            cost: Cost::default(),
        }
    }

    /// Starts another attempt.
    pub(super) fn begin_attempt(&mut self, seed: u64) {
        self.provenance.retried_checks.extend(self.outcome.checks());
        self.outcome = Outcome::Failed(Failure::default());
        self.provenance.trail.clear();
        self.provenance.attempts += 1;
        self.provenance.seed = seed;
    }

    /// Records the checks that fired on the current attempt. `fresh`: it was made now.
    fn record_checks(&mut self, checks: &[Check], fresh: bool) {
        if self.provenance.attempts <= 1 {
            self.provenance.first_checks = checks.to_vec();
        }
        if fresh {
            self.cost.fresh_checks.extend(checks);
        }
    }

    /// Ends the current attempt with a failure.
    pub(super) fn fail(&mut self, checks: Vec<Check>, error: String, fresh: bool) {
        self.record_checks(&checks, fresh);
        self.outcome = Outcome::Failed(Failure { checks, error });
    }

    /// Measures the texts and runs the guards on them.
    pub(super) fn measured(mut self, plan: &Plan, job: &Job) -> Self {
        if let Outcome::Made(made) = &mut self.outcome {
            made.measures = made.texts.iter().map(|text| measure(&job.text, text)).collect();
            made.run_guards(plan, job);
        }
        self
    }

    /// Whether the whole text came from the cache or from work that another request counts.
    pub fn cached(&self) -> bool {
        self.provenance.attempts > 0
            && self.cost.fresh_attempts == 0
            && self.outcome.error().is_empty()
            && !self.is_missing()
    }

    /// Whether a call is not cached and no generator may be called.
    pub fn is_missing(&self) -> bool {
        matches!(self.outcome, Outcome::NotCached { .. })
    }
}

impl Outcome {
    /// Checks that fired on the last attempt.
    pub fn checks(&self) -> &[Check] {
        match self {
            Self::Made(_) => &[],
            Self::Unchanged => &[Check::Identical],
            Self::Failed(failure) => &failure.checks,
            Self::NotCached { .. } => &[Check::GeneratorError],
        }
    }

    /// The error of the generator or the rule; empty if there was none.
    pub fn error(&self) -> &str {
        match self {
            Self::Failed(failure) => &failure.error,
            Self::Made(_) | Self::Unchanged | Self::NotCached { .. } => "",
        }
    }

    /// The texts, if they passed the checks.
    pub fn made(&self) -> Option<&MadeTexts> {
        match self {
            Self::Made(made) => Some(made),
            Self::Unchanged | Self::Failed(_) | Self::NotCached { .. } => None,
        }
    }

    /// Guards that fired on the text.
    pub fn fired_guards(&self) -> &[Guard] {
        self.made().map_or(&[], |made| made.guards.fired.as_slice())
    }
}

impl MadeTexts {
    pub(super) fn new(texts: Vec<String>, recovered: bool) -> Self {
        Self {
            texts,
            recovered,
            measures: Vec::new(),
            guards: GuardFindings::default(),
        }
    }

    /// Guards are functions of the texts and are never stored, so texts from an older version's
    /// cache get findings too.
    pub(super) fn run_guards(&mut self, plan: &Plan, job: &Job) {
        if let [text] = self.texts.as_slice()
            && !plan.kind().gives_several
            && plan.guards != GuardMode::Off
        {
            self.guards = guards::run(plan.kind(), &job.text, text, job.language, plan.language_of(job));
        }
    }
}

impl Cost {
    pub(crate) fn add(&mut self, usage: &Usage, waited: Duration) {
        sum::add(&mut self.usage, usage);
        self.waited += waited;
    }
}
