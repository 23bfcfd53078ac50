//! Sends the requests of passes to the transform service, within the limits of the run.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use futures::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use isomer_proto::{common::v1::Usage, transform::v1::TransformResult};
use isomer_service_kit::Fault;

use super::{
    allowance::{Responses, admitted},
    responses::{ResponseEvent, TransformOrder, gives_no_text, responses},
};
use crate::{
    run::{
        RunContext, RunError,
        plan::{requests::Chunk, transform::TransformPlan},
        progress::{Meter, RunProgress},
        record::Counters,
    },
    work::{BatchLimits, RequestKind},
};

/// Maximum number of requests in flight to a transform service of this process: while the last
/// texts of one are slow, the next is already queued.
const IN_FLIGHT: usize = 2;

/// An order with its number of texts.
pub(crate) struct Pass {
    pub order: TransformOrder,
    pub texts: usize,
}

/// The requests of a pass, each of at most a given number of texts.
type Chunks<'a> = &'a (dyn Fn(usize, usize) -> Vec<Chunk> + Sync);

/// Takes the results of a pass.
type PassHandler<'a> = &'a mut (dyn FnMut(usize, Vec<TransformResult>) -> Result<(), RunError> + Send);

/// Sends texts to the transform service, and reports the progress.
pub(crate) struct RequestSender<'a> {
    pub context: &'a RunContext,
    pub plan: &'a TransformPlan,
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
            ..
        } = self;
        let own = BatchLimits {
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
                progress.report(meter);
            }
        };
        let mut first = 0;
        begin(meter, first);
        while let Some((number, event)) = events.try_next().await? {
            let order = &passes[number].order;
            match event {
                ResponseEvent::Text(position, result) => {
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
                        progress.report(meter);
                        results.add(position, *result);
                    }
                }
                ResponseEvent::End(rest) => progress.count(|counters| spend(counters, &rest)),
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
) -> BoxStream<'a, BoxStream<'a, Result<(usize, ResponseEvent), RunError>>> {
    let reserved = Arc::default();
    let of_pass = move |(number, Pass { order, .. }): (usize, &'a Pass)| {
        let chunks = chunks(number, most);
        let sent: BoxStream<'a, Responses<'a>> = match order.ceiling.any() && order.needs_generator {
            true => admitted(context, progress, order, chunks, Arc::clone(&reserved)),
            false => {
                let send = |chunk| -> Responses<'a> {
                    responses(
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
        sent.map(move |events| events.map_ok(move |event| (number, event)).boxed())
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
