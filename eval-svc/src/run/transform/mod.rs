//! Stage: every distinct text is transformed once per transformation and seed, for all datasets and
//! encoders together.

pub(super) mod allowance;
pub(super) mod copies;
pub(super) mod pairs;
pub(super) mod responses;
pub(super) mod sender;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use isomer_proto::{
    ProtoEnum,
    transform::v1::{Check, Guard, Measures, Outcome as ProtoOutcome, TransformResult},
};
pub use isomer_report::terms::Outcome;
use isomer_transformations::Draw;
use parking_lot::Mutex;

use self::{
    responses::{TransformOrder, gives_no_text},
    sender::{Pass, RequestSender},
};
use crate::{
    change::Change,
    profile::Axis,
    run::{
        RunError,
        plan::{
            Layout, Variant,
            requests::chunks,
            rounds::Round,
            table::{Corpus, TextRequest},
            transform::TransformPlan,
            transformations::PlannedTransformation,
        },
        record::Counters,
    },
};

/// The result of one text.
#[derive(Debug, Clone)]
pub(crate) struct TextResult {
    /// The text, by its number in the corpus.
    pub text: u32,
    /// The outcome of the text.
    pub outcome: Outcome,
    /// Whether and how it differs from the original.
    pub change: Change,
    /// Checks that fired on the last attempt.
    pub failed_checks: Vec<&'static str>,
    /// Checks that fired on earlier attempts.
    pub retried_checks: Vec<&'static str>,
    /// Checks that fired on the first attempt.
    pub first_checks: Vec<&'static str>,
    /// Meaning guards that fired on the text.
    pub guards: Vec<&'static str>,
    /// Meaning guards that could not decide.
    pub undecided_guards: Vec<&'static str>,
    /// Distance from the original, if reported.
    pub measures: Option<Measures>,
    /// The target language of a translation.
    pub target: Option<Box<str>>,
    /// The version of the model that wrote it, by its number; absent if no text was made or the
    /// generator names none.
    version: Option<usize>,
}

/// A version of a generator's model, as its server names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ModelVersion {
    generator: String,
    fingerprint: String,
}

/// The results of all texts.
#[derive(Debug, Default)]
pub(crate) struct TextResults {
    /// `[transformation][seed][request]`; `None` if it has not been requested.
    results: Vec<Vec<Vec<Option<TextResult>>>>,
    /// Generators that were used: id, and digest of the weights if known.
    pub generators: BTreeMap<String, String>,
    versions: Vec<ModelVersion>,
}

impl TextResults {
    /// Space for all texts of a run, with no results yet.
    pub(crate) fn new(layout: &Layout) -> Self {
        let requests = |planned| vec![None; layout.requests.of(planned).len()];
        Self {
            results: layout
                .transformations
                .iter()
                .map(|planned| vec![requests(planned); layout.suite.seeds.len()])
                .collect(),
            generators: BTreeMap::new(),
            versions: Vec::new(),
        }
    }

    /// Space for all texts of a run, with the results of an earlier layout that has the same
    /// transformations and seeds.
    pub(crate) fn reused(layout: &mut Layout, earlier: &Layout, from: Self) -> Self {
        let mut all = Self::new(layout);
        for (t, planned) in layout.transformations.iter().enumerate() {
            let requests = earlier.requests.of(planned);
            let key = |corpus: &Corpus, request: &TextRequest| {
                let text: Box<str> = corpus.get(request.text).into();
                (request.id.clone(), text, request.language.clone())
            };
            let known: HashMap<_, usize> = requests
                .iter()
                .enumerate()
                .map(|(position, request)| (key(&earlier.corpus, request), position))
                .collect();
            for (request, own) in layout.requests.of(planned).iter().enumerate() {
                let Some(position) = known.get(&key(&layout.corpus, own)) else {
                    continue;
                };
                for s in 0..layout.suite.seeds.len() {
                    if let Some(result) = from.get(t, s, *position) {
                        let text = layout.corpus.intern(earlier.corpus.get(result.text));
                        all.results[t][s][request] = Some(TextResult { text, ..result.clone() });
                    }
                }
            }
        }
        all.generators = from.generators;
        all.versions = from.versions;
        all
    }

    /// Number of results: each transformation and seed of a text counts.
    pub(crate) fn count(&self) -> usize {
        self.results.iter().flatten().flatten().flatten().count()
    }

    /// Records the generator that a result names.
    pub(crate) fn note_generator(&mut self, result: &TransformResult) {
        if let Some(provenance) = &result.provenance
            && !provenance.generator_id.is_empty()
        {
            self.generators
                .insert(provenance.generator_id.clone(), provenance.generator_digest.clone());
        }
    }

    /// The number of the version that wrote a text.
    fn version(&mut self, result: &TransformResult) -> Option<usize> {
        let fingerprint = &result.calls.last()?.fingerprint;
        if fingerprint.is_empty() || gives_no_text(result) {
            return None;
        }
        let version = ModelVersion {
            generator: result.provenance.as_ref()?.generator_id.clone(),
            fingerprint: fingerprint.clone(),
        };
        let known = self.versions.iter().position(|known| *known == version);
        Some(known.unwrap_or_else(|| {
            self.versions.push(version);
            self.versions.len() - 1
        }))
    }

    /// Number of texts that each version of a generator's model wrote.
    pub(crate) fn versions(&self, generator: &str) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for result in self.results.iter().flatten().flatten().flatten() {
            let version = result.version.and_then(|number| self.versions.get(number));
            if let Some(version) = version.filter(|version| version.generator == generator) {
                *counts.entry(version.fingerprint.clone()).or_default() += 1;
            }
        }
        counts
    }

    /// The result of a request.
    pub(crate) fn get(&self, transformation: usize, seed: usize, request: usize) -> Option<&TextResult> {
        self.results.get(transformation)?.get(seed)?.get(request)?.as_ref()
    }
}

/// The texts of a round under a transformation and seed that have no result yet.
struct PendingTexts {
    transformation: usize,
    seed: usize,
    /// Positions of their requests.
    requests: Vec<usize>,
}

/// Runs the stage for the texts that a round adds.
pub(crate) async fn transform(
    sender: &mut RequestSender<'_>,
    layout: &mut Layout,
    round: &Round,
    text_results: &mut TextResults,
) -> Result<(), RunError> {
    let mut pending = Vec::new();
    for transformation in 0..layout.transformations.len() {
        for seed in 0..round.seeds {
            pending.push(PendingTexts {
                transformation,
                seed,
                requests: missing(layout, round, text_results, transformation, seed),
            });
        }
    }
    sender.expect(pending.iter().map(|one| one.requests.len()).sum());
    // Requests that differ only in their seed are sent afterwards: a generator that takes no seed
    // gives the same answer to both, so the second is found in the caches. All other requests
    // follow without a pause.
    for seed in 0..round.seeds {
        let of_seed = pending
            .iter()
            .filter(|one| one.seed == seed && !one.requests.is_empty());
        generate(sender, layout, text_results, &of_seed.collect::<Vec<_>>()).await?;
    }
    Ok(())
}

/// Requests of the round's data sets that have no result.
fn missing(layout: &Layout, round: &Round, text_results: &TextResults, t: usize, s: usize) -> Vec<usize> {
    let Some(planned) = layout.transformations.get(t) else {
        return Vec::new();
    };
    let requests: BTreeSet<usize> = round
        .tables
        .iter()
        .filter_map(|table| layout.tables.get(*table))
        .flat_map(|table| table.requests.of(planned).iter().flatten().copied())
        .filter(|request| text_results.get(t, s, *request).is_none())
        .collect();
    requests.into_iter().collect()
}

/// Transforms texts and records their results.
async fn generate(
    sender: &mut RequestSender<'_>,
    layout: &mut Layout,
    text_results: &mut TextResults,
    pending: &[&PendingTexts],
) -> Result<(), RunError> {
    let passes: Vec<Pass> = pending
        .iter()
        .map(|one| Pass {
            order: order(sender.plan, layout, one),
            texts: one.requests.len(),
        })
        .collect();
    let Layout {
        corpus,
        requests,
        transformations,
        ..
    } = layout;
    let texts: Vec<&[TextRequest]> = pending
        .iter()
        .map(|one| requests.of(&transformations[one.transformation]).as_slice())
        .collect();
    // Read when requests are created, and written at the end of a pass.
    let corpus = Mutex::new(corpus);
    let chunks = |pass: usize, most: usize| {
        let of_pass = pending[pass].requests.iter();
        let of_pass = of_pass.filter_map(|request| texts[pass].get(*request));
        chunks(&of_pass.collect::<Vec<_>>(), &corpus.lock(), most)
    };
    let mut handle = |pass: usize, results: Vec<TransformResult>| {
        let own = pending[pass];
        refuse_silence(&results, &passes[pass].order.what)?;
        let planned = &transformations[own.transformation];
        for (request, result) in own.requests.iter().copied().zip(results) {
            text_results.note_generator(&result);
            let (target, version) = (target(planned, &result), text_results.version(&result));
            let mut result = record(&mut corpus.lock(), texts[pass][request].text, result);
            // A dose decides how much of a text changes, and a draw may change nothing.
            if planned.axis == Axis::Noise && result.outcome == Outcome::Ok {
                result.change = Change::Changed;
            }
            text_results.results[own.transformation][own.seed][request] = Some(TextResult {
                target,
                version,
                ..result
            });
        }
        Ok(())
    };
    sender.gather(&passes, &chunks, &mut handle).await
}

/// The request to the service for the texts under one transformation and seed.
fn order(plan: &TransformPlan, layout: &Layout, texts: &PendingTexts) -> TransformOrder {
    let (t, s) = (texts.transformation, texts.seed);
    let planned = &layout.transformations[t];
    TransformOrder {
        spec: plan.spec(layout, t, s),
        producer: plan.producers.get(&planned.label).cloned().unwrap_or_default(),
        what: layout.describe(Variant::transformed(t, s)),
        needs_generator: planned.needs_generator,
        count: tally_outcome,
        ceiling: plan.ceiling,
    }
}

fn tally_outcome(counters: &mut Counters, result: &TransformResult) {
    match result.outcome() {
        ProtoOutcome::KeptOriginal => counters.kept_original += 1,
        ProtoOutcome::Failed | ProtoOutcome::Unspecified => counters.failed_texts += 1,
        ProtoOutcome::Ok | ProtoOutcome::Recovered => {}
    }
}

/// Refuses a pass in which the generator returned nothing, because all its texts would be the
/// originals again.
fn refuse_silence(results: &[TransformResult], what: &str) -> Result<(), RunError> {
    let silent = |result: &TransformResult| {
        gives_no_text(result) && result.failed_checks().any(|check| check == Check::GeneratorError)
    };
    let Some(first) = results.first() else {
        return Ok(());
    };
    if !results.iter().all(silent) {
        return Ok(());
    }
    let reason = if first.error.is_empty() {
        "it gave no reason".to_owned()
    } else {
        first.error.clone()
    };
    Err(RunError::GeneratorSilent {
        what: what.to_owned(),
        texts: results.len(),
        reason,
    })
}

/// The target language of a translation, as the service reports it. Other transformations have no
/// target language or draw one for each text.
fn target(planned: &PlannedTransformation, result: &TransformResult) -> Option<Box<str>> {
    if planned.transformation.declaration().draw != Draw::Target {
        return None;
    }
    let language = result.provenance.as_ref()?.languages.last()?;
    Some(language.as_str().into())
}

fn record(corpus: &mut Corpus, original: u32, result: TransformResult) -> TextResult {
    let outcome = result.outcome().among(Outcome::ALL, Outcome::name);
    let outcome = outcome.unwrap_or(Outcome::Failed);
    let (text, change) = match outcome {
        Outcome::Ok | Outcome::Recovered => (
            corpus.intern(result.text.as_str()),
            Change::of(corpus.get(original), &result.text),
        ),
        // As in HTEB, a text that could not be transformed stays unchanged and is counted.
        Outcome::KeptOriginal | Outcome::Failed => (original, Change::Unchanged),
    };
    let checks = |all: &[i32]| all.iter().map(|check| Check::name_of(*check)).collect();
    let guards = |all: &[i32]| all.iter().map(|guard| Guard::name_of(*guard)).collect();
    TextResult {
        text,
        outcome,
        change,
        failed_checks: checks(&result.failed_checks),
        retried_checks: checks(&result.retried_checks),
        first_checks: checks(&result.first_checks),
        guards: guards(&result.guards),
        undecided_guards: guards(&result.guards_untold),
        measures: result.measures,
        target: None,
        version: None,
    }
}
