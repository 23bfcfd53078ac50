//! Stage: every distinct text is transformed once per transformation and seed, for all datasets and
//! encoders together.

pub(super) mod allowance;
pub(super) mod answers;
pub(super) mod copies;
pub(super) mod pairs;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Instant,
};

use futures::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use isomer_proto::{
    ProtoEnum,
    common::v1::Usage,
    transform::v1::{Check, Guard, Outcome as ProtoOutcome, TransformResult},
};
pub use isomer_report::terms::Outcome;
use isomer_service_kit::Fault;
use isomer_transformations::Draw;
use parking_lot::Mutex;

use self::{
    allowance::{Answers, admitted},
    answers::{Answer, Order, answers},
};
use crate::{
    change::Change,
    profile::Axis,
    run::{
        RunContext, RunError,
        plan::{
            Plan, Variant,
            requests::{Chunk, chunks, spec},
            rounds::Round,
            table::{Corpus, TextRequest},
            transformations::PlannedTransformation,
        },
        progress::{Meter, RunProgress},
        record::Counters,
    },
    work::{Batching, RequestKind},
};

/// Maximum number of requests in flight to a transform service of this process: while the last
/// texts of one are slow, the next is already queued.
const IN_FLIGHT: usize = 2;

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
    pub guards_untold: Vec<&'static str>,
    /// Word-level edit distance, Jaccard similarity and length ratio against the original, if
    /// reported.
    pub measures: Option<(f64, f64, f64)>,
    /// The target language of a translation.
    pub target: Option<Box<str>>,
}

/// The results of all texts.
#[derive(Debug, Default)]
pub(crate) struct TextResults {
    /// `[transformation][seed][request]`; `None` if it has not been requested.
    results: Vec<Vec<Vec<Option<TextResult>>>>,
    /// Generators that were used: id, and digest of the weights if known.
    pub generators: BTreeMap<String, String>,
}

impl TextResults {
    /// Space for all texts of a plan, with no results yet.
    pub(crate) fn new(plan: &Plan) -> Self {
        let requests = |planned| vec![None; plan.requests.of(planned).len()];
        Self {
            results: plan
                .transformations
                .iter()
                .map(|planned| vec![requests(planned); plan.suite.seeds.len()])
                .collect(),
            generators: BTreeMap::new(),
        }
    }

    /// Space for all texts of a plan, with the results of an earlier plan that has the same
    /// transformations and seeds.
    pub(crate) fn reused(plan: &mut Plan, earlier: &Plan, from: Self) -> Self {
        let mut all = Self::new(plan);
        for (t, planned) in plan.transformations.iter().enumerate() {
            let asked = earlier.requests.of(planned);
            let key = |corpus: &Corpus, request: &TextRequest| {
                let text: Box<str> = corpus.get(request.text).into();
                (request.id.clone(), text, request.language.clone())
            };
            let known: HashMap<_, usize> = asked
                .iter()
                .enumerate()
                .map(|(position, request)| (key(&earlier.corpus, request), position))
                .collect();
            for (request, wanted) in plan.requests.of(planned).iter().enumerate() {
                let Some(position) = known.get(&key(&plan.corpus, wanted)) else {
                    continue;
                };
                for s in 0..plan.suite.seeds.len() {
                    if let Some(result) = from.get(t, s, *position) {
                        let text = plan.corpus.intern(earlier.corpus.get(result.text));
                        all.results[t][s][request] = Some(TextResult { text, ..result.clone() });
                    }
                }
            }
        }
        all.generators = from.generators;
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

    /// The result of a request.
    pub(crate) fn get(&self, transformation: usize, seed: usize, request: usize) -> Option<&TextResult> {
        self.results.get(transformation)?.get(seed)?.get(request)?.as_ref()
    }
}

/// Runs the stage for the texts that a round adds.
pub(crate) async fn transform(
    sender: &mut RequestSender<'_>,
    plan: &mut Plan,
    round: &Round,
    text_results: &mut TextResults,
) -> Result<(), RunError> {
    let mut passes = Vec::new();
    for t in 0..plan.transformations.len() {
        for s in 0..round.seeds {
            passes.push((t, s, lacking(plan, round, text_results, t, s)));
        }
    }
    let texts: usize = passes.iter().map(|(_, _, lacking)| lacking.len()).sum();
    sender.expect(texts);
    // Requests that differ only in their seed are sent afterwards: a generator that takes no seed
    // gives the same answer to both, so the second is found in the caches. All other requests
    // follow without a pause.
    for seed in 0..round.seeds {
        let of_seed = passes
            .iter()
            .filter(|(_, s, lacking)| *s == seed && !lacking.is_empty());
        generate(sender, plan, text_results, &of_seed.collect::<Vec<_>>()).await?;
    }
    Ok(())
}

/// Requests of the round's data sets that have not been sent.
fn lacking(plan: &Plan, round: &Round, text_results: &TextResults, t: usize, s: usize) -> Vec<usize> {
    let Some(planned) = plan.transformations.get(t) else {
        return Vec::new();
    };
    let wanted: BTreeSet<usize> = round
        .tables
        .iter()
        .filter_map(|table| plan.tables.get(*table))
        .flat_map(|table| table.requests.of(planned).iter().flatten().copied())
        .filter(|request| text_results.get(t, s, *request).is_none())
        .collect();
    wanted.into_iter().collect()
}

/// Transforms texts (positions of requests), each under a transformation and seed.
async fn generate(
    sender: &mut RequestSender<'_>,
    plan: &mut Plan,
    text_results: &mut TextResults,
    wanted: &[&(usize, usize, Vec<usize>)],
) -> Result<(), RunError> {
    let passes: Vec<Pass> = wanted
        .iter()
        .map(|(t, s, lacking)| Pass {
            order: order(plan, *t, *s),
            texts: lacking.len(),
        })
        .collect();
    let Plan {
        corpus,
        requests,
        transformations,
        ..
    } = plan;
    let asked: Vec<&[TextRequest]> = wanted
        .iter()
        .map(|(t, ..)| requests.of(&transformations[*t]).as_slice())
        .collect();
    // Read when requests are created, and written at the end of a pass.
    let corpus = Mutex::new(corpus);
    let chunks = |pass: usize, most: usize| {
        let of_pass = wanted[pass].2.iter().filter_map(|request| asked[pass].get(*request));
        chunks(&of_pass.collect::<Vec<_>>(), &corpus.lock(), most)
    };
    let mut handle = |pass: usize, results: Vec<TransformResult>| {
        let (t, s, lacking) = wanted[pass];
        refuse_silence(&results, &passes[pass].order.what)?;
        let planned = &transformations[*t];
        for (request, result) in lacking.iter().copied().zip(results) {
            text_results.note_generator(&result);
            let target = target(planned, &result);
            let mut result = record(&mut corpus.lock(), asked[pass][request].text, result);
            // A dose decides how much of a text changes, and a draw may change nothing.
            if planned.axis == Axis::Noise && result.outcome == Outcome::Ok {
                result.change = Change::Changed;
            }
            text_results.results[*t][*s][request] = Some(TextResult { target, ..result });
        }
        Ok(())
    };
    sender.gather(&passes, &chunks, &mut handle).await
}

/// The request to the service for one transformation and seed.
fn order(plan: &Plan, t: usize, s: usize) -> Order {
    let planned = &plan.transformations[t];
    Order {
        spec: spec(plan, t, s),
        producer: plan.producers.get(&planned.label).cloned().unwrap_or_default(),
        what: plan.describe(Variant::Transformed {
            transformation: t,
            seed: s,
        }),
        needs_generator: planned.needs_generator,
        count: tally_outcome,
        ceiling: plan.ceiling,
    }
}

/// An order with its number of texts.
pub(crate) struct Pass {
    pub order: Order,
    pub texts: usize,
}

/// The requests of a pass, each of at most a given number of texts.
type Chunks<'a> = &'a (dyn Fn(usize, usize) -> Vec<Chunk> + Sync);

/// Takes the results of a pass.
type PassHandler<'a> = &'a mut (dyn FnMut(usize, Vec<TransformResult>) -> Result<(), RunError> + Send);

/// Sends texts to the transform service, and reports the progress.
pub(crate) struct RequestSender<'a> {
    pub context: &'a RunContext,
    pub progress: &'a RunProgress,
    pub meter: &'a mut Meter,
}

impl RequestSender<'_> {
    /// Counts texts that will be sent.
    pub(crate) fn expect(&mut self, texts: usize) {
        self.progress.count(|counters| counters.texts_planned += texts as u64);
        self.meter.grow(texts as u64);
    }

    /// Sends the texts of passes, one pass after the other. The next pass starts while the last
    /// texts of the previous one are still being generated, so that nothing idles between them.
    /// `chunks` returns the requests of a pass, each of at most a given number of texts; `handle`
    /// receives the results of each pass in the order of its texts, pass by pass. Counts and
    /// progress are reported as results arrive.
    pub(crate) async fn gather(
        &mut self,
        passes: &[Pass],
        chunks: Chunks<'_>,
        handle: PassHandler<'_>,
    ) -> Result<(), RunError> {
        let Self {
            context,
            progress,
            meter,
        } = self;
        let own = Batching {
            items: context.config.transform_batch_items,
            in_flight: IN_FLIGHT,
        };
        let batching = context.work.batching(RequestKind::Transform, own);
        let sent = sent(context, progress, passes, chunks, batching.items);
        let mut events = sent.flatten_unordered(batching.in_flight);
        let mut all: VecDeque<PassResults> = passes.iter().map(|pass| PassResults::of(pass.texts)).collect();
        let begin = |meter: &mut Meter, pass: usize| {
            if let Some(Pass { order, .. }) = passes.get(pass) {
                meter.detail(&order.what);
                progress.tell(meter);
            }
        };
        let mut first = 0;
        begin(meter, first);
        while let Some((number, answer)) = events.try_next().await? {
            let order = &passes[number].order;
            match answer {
                Answer::Text(position, result) => {
                    let cached = result.provenance.as_ref().is_some_and(|p| p.cache_hit);
                    if let Some(usage) = &result.usage {
                        progress.count(|counters| spend(counters, usage));
                    }
                    let of_pass = number.checked_sub(first).and_then(|at| all.get_mut(at));
                    if let Some(results) = of_pass.filter(|results| results.is_new(position)) {
                        progress.count(|counters| {
                            tally_source(counters, cached, order.needs_generator);
                            (order.count)(counters, &result);
                        });
                        meter.add(1, u64::from(cached), Instant::now());
                        meter.fail(u64::from(gives_no_text(&result)));
                        progress.tell(meter);
                        results.add(position, *result);
                    }
                }
                Answer::End(rest) => progress.count(|counters| spend(counters, &rest)),
            }
            order.ceiling.hold(&progress.counters())?;
            while all.front().is_some_and(|results| results.left == 0) {
                let results = all.pop_front().unwrap_or_default().results;
                handle(first, results.into_iter().flatten().collect())?;
                first += 1;
                begin(meter, first);
            }
        }
        match passes.get(first) {
            None => Ok(()),
            Some(Pass { order, .. }) => Err(RunError::Transform {
                what: order.what.clone(),
                fault: Box::new(Fault::internal(
                    "the transform service ended its answer before every text had an outcome",
                )),
            }),
        }
    }
}

/// The requests of all passes, each as its responses with the number of its pass. A pass is laid
/// out when the requests of the previous pass have been sent.
fn sent<'a>(
    context: &'a RunContext,
    progress: &'a RunProgress,
    passes: &'a [Pass],
    chunks: Chunks<'a>,
    most: usize,
) -> BoxStream<'a, BoxStream<'a, Result<(usize, Answer), RunError>>> {
    let reserved = Arc::default();
    let of_pass = move |(number, Pass { order, .. }): (usize, &'a Pass)| {
        let chunks = chunks(number, most);
        let sent: BoxStream<'a, Answers<'a>> = match order.ceiling.any() && order.needs_generator {
            true => admitted(context, progress, order, chunks, Arc::clone(&reserved)),
            false => {
                let send = |chunk| -> Answers<'a> {
                    answers(
                        &context.work,
                        &order.producer,
                        order.spec.clone(),
                        chunk,
                        order.what.clone(),
                    )
                };
                stream::iter(chunks).map(send).boxed()
            }
        };
        sent.map(move |answers| answers.map_ok(move |answer| (number, answer)).boxed())
    };
    stream::iter(passes.iter().enumerate()).flat_map(of_pass).boxed()
}

/// Results of a pass so far.
#[derive(Default)]
struct PassResults {
    /// Results in the order of the texts; no space is allocated before the first result.
    results: Vec<Option<TransformResult>>,
    texts: usize,
    left: usize,
}

impl PassResults {
    fn of(texts: usize) -> Self {
        Self {
            results: Vec::new(),
            texts,
            left: texts,
        }
    }

    fn is_new(&self, position: usize) -> bool {
        position < self.texts && self.results.get(position).is_none_or(Option::is_none)
    }

    fn add(&mut self, position: usize, result: TransformResult) {
        self.results.resize(self.texts, None);
        self.results[position] = Some(result);
        self.left -= 1;
    }
}

fn spend(counters: &mut Counters, usage: &Usage) {
    counters.generator_calls = counters.generator_calls.saturating_add(usage.generator_calls);
    counters.generator_tokens = counters.generator_tokens.saturating_add(usage.tokens);
    counters.generated_tokens = counters.generated_tokens.saturating_add(usage.generated_tokens);
    counters.tokens_estimated |= usage.tokens_estimated;
}

fn tally_source(counters: &mut Counters, cached: bool, needs_generator: bool) {
    match (cached, needs_generator) {
        (true, _) => counters.texts_cached += 1,
        (false, true) => counters.texts_generated += 1,
        (false, false) => counters.texts_by_rule += 1,
    }
}

/// Whether no attempt at a text was accepted.
fn gives_no_text(result: &TransformResult) -> bool {
    !matches!(result.outcome(), ProtoOutcome::Ok | ProtoOutcome::Recovered)
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
        guards_untold: guards(&result.guards_untold),
        measures: result.measures.map(|m| (m.edit_distance, m.jaccard, m.length_ratio)),
        target: None,
    }
}
