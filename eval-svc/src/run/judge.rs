//! Stage: a language model rates the transformed texts through the transform service, which caches
//! every answer.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Instant,
};

use futures::{StreamExt, stream};
use isomer_proto::transform::v1::{JudgeRequest, JudgeResponse, Transformation, judge_request::Pair as ProtoPair};
use isomer_service_kit::Fault;
use isomer_transformations::wire::message;

use crate::{
    judging::{JudgeSettings, Probe, ProbeResult, ProbeScore, Scale, draw, inseparable, probes, results},
    run::{
        RunError,
        encode::inputs::Inputs,
        plan::{
            JudgePlan, Layout, Variant,
            judge::{Rating, base_request, outcome, spend},
        },
        progress::{Meter, RunProgress},
        record::{JudgeCounters, Stage},
        transform::{
            TextResults,
            pairs::{Pair, pairs_of, requests},
        },
        wire,
    },
    work::{BatchLimits, RequestKind},
};

/// Maximum number of requests to the judge in flight: while the last pairs of one are slow, the
/// next is already queued.
const IN_FLIGHT: usize = 2;
/// Pairs per request. The response arrives when all are rated, so progress is reported in steps of
/// this size.
const PAIRS: usize = 8;
/// The pairs of a data set to be rated, under one transformation and seed.
#[derive(Debug, Clone)]
pub(crate) struct RatingSample {
    /// Position of the data set.
    pub table: usize,
    /// Position of the transformation.
    pub transformation: usize,
    /// Position of the seed.
    pub seed: usize,
    /// Texts to be transformed.
    pub texts: u64,
    /// Of these, texts that passed the checks and changed.
    pub changed: u64,
    /// Of these, distinct texts that were drawn.
    pub pairs: Vec<Pair>,
}

/// The pairs of a transformation to be rated on one scale.
struct RatingPass {
    scale: Scale,
    transformation: usize,
    pairs: Vec<Pair>,
}

/// The results of the stage.
#[derive(Debug)]
pub(crate) struct Ratings {
    pub judge: JudgePlan,
    /// The samples, by transformation, data set and seed.
    pub samples: Vec<RatingSample>,
    /// Ratings by scale, position of the transformation, and pair.
    pub by_pair: HashMap<(Scale, usize, Pair), Rating>,
    /// Number of ratings of each version of the judge's model, as its server names it.
    pub versions: BTreeMap<String, u64>,
    /// Similarity of the pairs with a known rating; empty if similarity is not rated.
    pub probes: Vec<(Probe, Rating)>,
}

impl Ratings {
    /// The reason why the ratings are not used; `None` if they are.
    pub(crate) fn refusal(&self) -> Option<String> {
        if !self.judge.judging.scales.contains(&Scale::Similarity) {
            return Some("the judge does not rate how similar the rewrites are".to_owned());
        }
        inseparable(&self.probe_results())
    }

    /// The judge's results on the pairs with a known rating.
    pub(crate) fn probe_results(&self) -> Vec<ProbeResult> {
        if self.probes.is_empty() {
            return Vec::new();
        }
        let score = |(probe, rating): &(Probe, Rating)| ProbeScore {
            probe: *probe,
            score: rating.score(),
        };
        let rated: Vec<ProbeScore> = self.probes.iter().map(score).collect();
        results(&rated, self.judge.judging.accept)
    }

    /// Whether the judge accepts a rewrite; `None` if it has no rating.
    pub(crate) fn accepts(&self, transformation: usize, pair: Pair) -> Option<bool> {
        let rating = self.by_pair.get(&(Scale::Similarity, transformation, pair))?;
        Some(rating.score()? >= self.judge.judging.accept)
    }
}

/// Chooses the transformed texts to be rated.
fn samples(layout: &Layout, text_results: &TextResults, judging: &JudgeSettings) -> Vec<RatingSample> {
    let seed = layout.first_seed();
    let mut all = Vec::new();
    for (t, planned) in layout.transformations.iter().enumerate() {
        for (d, table) in layout.tables.iter().enumerate() {
            let texts = requests(table, planned).len() as u64;
            for s in 0..layout.suite.seeds.len() {
                let variant = Variant::transformed(t, s);
                let mut pairs = pairs_of(layout, text_results, d, variant);
                pairs.retain(|(original, rewrite)| original != rewrite);
                let contents: Vec<(&str, &str)> = pairs
                    .iter()
                    .map(|(original, rewrite)| (layout.corpus.get(*original), layout.corpus.get(*rewrite)))
                    .collect();
                all.push(RatingSample {
                    table: d,
                    transformation: t,
                    seed: s,
                    texts,
                    changed: pairs.len() as u64,
                    pairs: draw(seed, &contents, judging.sample)
                        .into_iter()
                        .map(|i| pairs[i])
                        .collect(),
                });
            }
        }
    }
    all
}

/// Runs the stage over all transformed texts.
pub(crate) async fn judge(inputs: Inputs<'_>, judge: JudgePlan) -> Result<Ratings, RunError> {
    let Inputs { layout, progress, .. } = inputs;
    let samples = samples(layout, inputs.text_results, &judge.judging);
    let mut passes = Vec::new();
    for scale in &judge.judging.scales {
        for t in 0..layout.transformations.len() {
            let own = samples.iter().filter(|one| one.transformation == t);
            let pairs: BTreeSet<Pair> = own.flat_map(|one| one.pairs.iter().copied()).collect();
            passes.push(RatingPass {
                scale: *scale,
                transformation: t,
                pairs: pairs.into_iter().collect(),
            });
        }
    }
    let probes = if judge.judging.scales.contains(&Scale::Similarity) {
        probes()
    } else {
        Vec::new()
    };
    let planned: usize = passes.iter().map(|pass| pass.pairs.len()).sum();
    count(progress, |counters| counters.ratings_planned = planned as u64);
    let mut rater = Rater {
        inputs,
        judge: &judge,
        versions: BTreeMap::new(),
        meter: Meter::new(Stage::Judge, (probes.len() + planned) as u64, Instant::now()),
    };
    let probes = rater.rate_probes(probes).await?;
    let mut by_pair = HashMap::new();
    for pass in passes {
        let ratings = rater.rate_pass(&pass).await?;
        let (scale, t) = (pass.scale, pass.transformation);
        by_pair.extend(pass.pairs.into_iter().map(|pair| (scale, t, pair)).zip(ratings));
    }
    let versions = rater.versions;
    let failed = by_pair.values().filter(|rating| **rating == Rating::Failed).count();
    if failed > 0 && failed == by_pair.len() {
        return Err(RunError::JudgeSilent {
            id: judge.id,
            pairs: failed,
        });
    }
    Ok(Ratings {
        judge,
        samples,
        by_pair,
        versions,
        probes,
    })
}

fn count(progress: &RunProgress, count: impl FnOnce(&mut JudgeCounters)) {
    progress.count(|counters| count(counters.judge.get_or_insert_default()));
}

/// Pairs of texts to rate, with what their requests share.
struct RatingOrder<'a> {
    /// A request without pairs.
    base: JudgeRequest,
    /// The order's description.
    what: String,
    pairs: Vec<(&'a str, &'a str)>,
    /// Whether the ratings are those of the run's texts. Probes are not: their calls and tokens are
    /// counted, their ratings are not.
    counted: bool,
}

/// The request for some pairs of an order, or its response.
struct PairChunk<T> {
    /// Position of the first pair.
    first: usize,
    pairs: usize,
    content: T,
}

/// Counts of the ratings in one response of the judge.
#[derive(Debug, Default)]
struct RatingCounts {
    /// Pairs.
    known: u64,
    /// Of these, found in the cache.
    cached: u64,
    /// Of these, without a rating.
    missing: u64,
}

/// Sends pairs to the judge, and reports the progress.
struct Rater<'a> {
    inputs: Inputs<'a>,
    judge: &'a JudgePlan,
    versions: BTreeMap<String, u64>,
    meter: Meter,
}

impl Rater<'_> {
    /// Rates the pairs with a known rating on the similarity scale.
    async fn rate_probes(&mut self, probes: Vec<Probe>) -> Result<Vec<(Probe, Rating)>, RunError> {
        if probes.is_empty() {
            return Ok(Vec::new());
        }
        let order = RatingOrder {
            base: JudgeRequest {
                transformation: Some(Transformation::named("paraphrase")),
                ..base_request(&self.inputs.layout.suite, &self.judge.judging, Scale::Similarity)
            },
            what: "similarity of probes".to_owned(),
            pairs: probes.iter().map(|probe| (probe.original, probe.beside)).collect(),
            counted: false,
        };
        let ratings = self.rate(order).await?;
        Ok(probes.into_iter().zip(ratings).collect())
    }

    /// Rates the pairs of one transformation on one scale.
    async fn rate_pass(&mut self, pass: &RatingPass) -> Result<Vec<Rating>, RunError> {
        let layout = self.inputs.layout;
        let planned = &layout.transformations[pass.transformation];
        let text = |number: u32| layout.corpus.get(number);
        let pairs = pass.pairs.iter();
        self.rate(RatingOrder {
            base: JudgeRequest {
                transformation: Some(message(&planned.transformation)),
                ..base_request(&layout.suite, &self.judge.judging, pass.scale)
            },
            what: format!("{} of {}", pass.scale.name(), planned.label),
            pairs: pairs
                .map(|(original, rewrite)| (text(*original), text(*rewrite)))
                .collect(),
            counted: true,
        })
        .await
    }

    /// Rates the pairs of an order and returns the ratings in their order.
    async fn rate(&mut self, order: RatingOrder<'_>) -> Result<Vec<Rating>, RunError> {
        let Self {
            inputs,
            judge,
            versions,
            meter,
        } = self;
        let Inputs {
            context,
            layout,
            progress,
            ..
        } = *inputs;
        let RatingOrder {
            base,
            what,
            pairs,
            counted,
        } = order;
        meter.detail(&what);
        progress.report(meter);
        let failed = |fault: Fault| RunError::Transform {
            what: format!("the judge {}, {what}", judge.id),
            fault: Box::new(fault),
        };
        let own = BatchLimits {
            items: context.config.transform_batch_items.clamp(1, PAIRS),
            in_flight: IN_FLIGHT,
        };
        let batching = context.work.batching(RequestKind::Judge, own);
        let size = batching.items;
        let scale = base.scale();
        let known = judge
            .producers
            .iter()
            .find(|(own, _)| wire::judge_scale(**own) == scale);
        let producer = known.map(|(_, producer)| producer.clone()).unwrap_or_default();
        let request = |(number, pairs): (usize, &[(&str, &str)])| {
            let texts = pairs.iter().map(|(original, rewrite)| ProtoPair {
                id: String::new(),
                original: (*original).to_owned(),
                transformed: (*rewrite).to_owned(),
            });
            PairChunk {
                first: number * size,
                pairs: pairs.len(),
                content: JudgeRequest {
                    pairs: texts.collect(),
                    ..base.clone()
                },
            }
        };
        let requests: Vec<PairChunk<JudgeRequest>> = pairs.chunks(size).enumerate().map(request).collect();
        let mut responses = stream::iter(requests)
            .map(|PairChunk { first, pairs, content }| {
                let response = context.work.judge(&producer, content);
                async move {
                    let content: Result<JudgeResponse, Fault> = response.await;
                    PairChunk { first, pairs, content }
                }
            })
            .buffer_unordered(batching.in_flight);
        let mut ratings: Vec<Option<Rating>> = vec![None; pairs.len()];
        while let Some(PairChunk { first, pairs, content }) = responses.next().await {
            let response = content.map_err(failed)?;
            let mut counts = RatingCounts::default();
            for rating in &response.ratings {
                let position = rating.index as usize;
                let slot = ratings.get_mut(first + position).filter(|_| position < pairs);
                let Some(slot) = slot else {
                    return Err(failed(Fault::internal(format!(
                        "the transform service rated pair {position} of {pairs}"
                    ))));
                };
                let outcome = outcome(rating, layout.suite.attempts);
                let fresh = slot.replace(outcome).is_none();
                counts.known += u64::from(fresh);
                counts.cached += u64::from(fresh && rating.provenance.as_ref().is_some_and(|p| p.cache_hit));
                counts.missing += u64::from(fresh && outcome.score().is_none());
            }
            if counts.known != pairs as u64 {
                return Err(failed(Fault::internal(
                    "the transform service answered before every pair had a rating",
                )));
            }
            if counted {
                for (version, ratings) in response.summary.unwrap_or_default().fingerprints {
                    *versions.entry(version).or_default() += ratings;
                }
            }
            count(progress, |counters| {
                if counted {
                    counters.ratings_made += counts.known - counts.cached;
                    counters.ratings_cached += counts.cached;
                    counters.ratings_missing += counts.missing;
                }
                spend(counters, &response.usage.unwrap_or_default());
            });
            meter.add(counts.known, counts.cached, Instant::now());
            meter.fail(counts.missing);
            progress.report(meter);
        }
        // Every request was answered in full; otherwise the loop would have returned an error.
        Ok(ratings.into_iter().flatten().collect())
    }
}
