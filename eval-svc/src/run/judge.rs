//! Stage: a language model rates the transformed texts through the transform service, which caches
//! every answer.

use std::{
    collections::{BTreeSet, HashMap},
    time::Instant,
};

use futures::{StreamExt, stream};
use isomer_proto::transform::v1::{JudgeRequest, Transformation, judge_request::Pair as ProtoPair};
use isomer_service_kit::Fault;
use isomer_transformations::wire::message;

use crate::{
    judging::{Judging, Probe, ProbeResult, Scale, draw, inseparable, probes, results},
    run::{
        RunError,
        encode::inputs::Inputs,
        plan::{
            Plan, Variant,
            judge::{PlannedJudge, Rating, base_request, outcome, spend},
        },
        progress::{Meter, RunProgress},
        record::{JudgeCounters, Stage},
        transform::{
            TextResults,
            pairs::{Pair, pairs_of, requests},
        },
        wire,
    },
    work::{Batching, RequestKind},
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
#[derive(Debug, Default)]
pub(crate) struct Ratings {
    /// The samples, by transformation, data set and seed.
    pub samples: Vec<RatingSample>,
    /// Ratings by scale, position of the transformation, and pair.
    pub by_pair: HashMap<(Scale, usize, Pair), Rating>,
    /// Similarity of the pairs with a known rating; empty if similarity is not rated.
    pub probes: Vec<(Probe, Rating)>,
}

impl Ratings {
    /// The reason why the ratings are not used; `None` if they are.
    pub(crate) fn refusal(&self, judge: &PlannedJudge) -> Option<String> {
        if !judge.judging.scales.contains(&Scale::Similarity) {
            return Some("the judge does not rate how similar the rewrites are".to_owned());
        }
        inseparable(&self.probe_results(judge))
    }

    /// The judge's results on the pairs with a known rating.
    pub(crate) fn probe_results(&self, judge: &PlannedJudge) -> Vec<ProbeResult> {
        if self.probes.is_empty() {
            return Vec::new();
        }
        let score = |rating: &Rating| match rating {
            Rating::Score(score) => Some(*score),
            Rating::Unreadable | Rating::Failed => None,
        };
        let rated: Vec<(Probe, Option<f64>)> = self
            .probes
            .iter()
            .map(|(probe, rating)| (*probe, score(rating)))
            .collect();
        results(&rated, judge.judging.accept)
    }

    /// Whether the rating of a rewrite is at least `threshold`; `None` if it has no rating.
    pub(crate) fn accepts(&self, transformation: usize, pair: Pair, threshold: f64) -> Option<bool> {
        match self.by_pair.get(&(Scale::Similarity, transformation, pair)) {
            Some(Rating::Score(score)) => Some(*score >= threshold),
            Some(Rating::Unreadable | Rating::Failed) | None => None,
        }
    }
}

/// Chooses the transformed texts to be rated.
fn samples(plan: &Plan, text_results: &TextResults, judging: &Judging) -> Vec<RatingSample> {
    let seed = plan.first_seed();
    let mut all = Vec::new();
    for (t, planned) in plan.transformations.iter().enumerate() {
        for (d, table) in plan.tables.iter().enumerate() {
            let asked = requests(table, planned).len() as u64;
            for s in 0..plan.suite.seeds.len() {
                let variant = Variant::Transformed {
                    transformation: t,
                    seed: s,
                };
                let mut pairs = pairs_of(plan, text_results, d, variant);
                pairs.retain(|(original, rewrite)| original != rewrite);
                let texts: Vec<(&str, &str)> = pairs
                    .iter()
                    .map(|(original, rewrite)| (plan.corpus.get(*original), plan.corpus.get(*rewrite)))
                    .collect();
                all.push(RatingSample {
                    table: d,
                    transformation: t,
                    seed: s,
                    texts: asked,
                    changed: pairs.len() as u64,
                    pairs: draw(seed, &texts, judging.sample)
                        .into_iter()
                        .map(|i| pairs[i])
                        .collect(),
                });
            }
        }
    }
    all
}

/// Runs the stage over all transformed texts; `None` without a judge.
pub(crate) async fn judge(inputs: Inputs<'_>) -> Result<Option<Ratings>, RunError> {
    let (plan, text_results, progress) = (inputs.plan, inputs.text_results, inputs.progress);
    let Some(judge) = &plan.judge else { return Ok(None) };
    let mut ratings = Ratings {
        samples: samples(plan, text_results, &judge.judging),
        ..Ratings::default()
    };
    let mut passes = Vec::new();
    for scale in &judge.judging.scales {
        for t in 0..plan.transformations.len() {
            let own = ratings.samples.iter().filter(|one| one.transformation == t);
            let pairs: BTreeSet<Pair> = own.flat_map(|one| one.pairs.iter().copied()).collect();
            passes.push(RatingPass {
                scale: *scale,
                transformation: t,
                pairs: pairs.into_iter().collect(),
            });
        }
    }
    let known = if judge.judging.scales.contains(&Scale::Similarity) {
        probes()
    } else {
        Vec::new()
    };
    let total: usize = known.len() + passes.iter().map(|pass| pass.pairs.len()).sum::<usize>();
    count(progress, |counters| {
        counters.ratings_planned = (total - known.len()) as u64
    });
    let mut meter = Meter::new(Stage::Judge, total as u64, Instant::now());
    probe_pass(inputs, judge, &mut meter, &mut ratings, &known).await?;
    for pass in passes {
        one_pass(inputs, judge, &mut meter, &mut ratings, &pass).await?;
    }
    let failed = ratings
        .by_pair
        .values()
        .filter(|rating| **rating == Rating::Failed)
        .count();
    if failed > 0 && failed == ratings.by_pair.len() {
        return Err(RunError::JudgeSilent {
            id: judge.id.clone(),
            pairs: failed,
        });
    }
    Ok(Some(ratings))
}

fn count(progress: &RunProgress, count: impl FnOnce(&mut JudgeCounters)) {
    progress.count(|counters| count(counters.judge.get_or_insert_default()));
}

/// Rates the pairs with a known rating on the similarity scale.
async fn probe_pass(
    inputs: Inputs<'_>,
    judge: &PlannedJudge,
    meter: &mut Meter,
    ratings: &mut Ratings,
    probes: &[Probe],
) -> Result<(), RunError> {
    if probes.is_empty() {
        return Ok(());
    }
    let base = JudgeRequest {
        transformation: Some(Transformation::named("paraphrase")),
        ..base_request(&inputs.plan.suite, &judge.judging, Scale::Similarity)
    };
    let texts: Vec<(&str, &str)> = probes.iter().map(|probe| (probe.original, probe.beside)).collect();
    let what = "similarity of probes".to_owned();
    // Probes are not texts of the run: their calls and tokens are counted, their ratings are not.
    let known = rate(inputs, judge, meter, base, what, &texts, |_, _| {}).await?;
    ratings.probes = probes.iter().copied().zip(known).collect();
    Ok(())
}

/// Rates the pairs of one transformation on one scale.
async fn one_pass(
    inputs: Inputs<'_>,
    judge: &PlannedJudge,
    meter: &mut Meter,
    ratings: &mut Ratings,
    pass: &RatingPass,
) -> Result<(), RunError> {
    let (plan, scale, t) = (inputs.plan, pass.scale, pass.transformation);
    let planned = &plan.transformations[t];
    let base = JudgeRequest {
        transformation: Some(message(&planned.transformation)),
        ..base_request(&plan.suite, &judge.judging, scale)
    };
    let text = |number: u32| plan.corpus.get(number);
    let texts: Vec<(&str, &str)> = pass
        .pairs
        .iter()
        .map(|(original, rewrite)| (text(*original), text(*rewrite)))
        .collect();
    let what = format!("{} of {}", scale.name(), planned.label);
    let tally = |counters: &mut JudgeCounters, counts: &RatingCounts| {
        counters.ratings_made += counts.known - counts.cached;
        counters.ratings_cached += counts.cached;
        counters.ratings_missing += counts.missing;
    };
    let of_pairs = rate(inputs, judge, meter, base, what, &texts, tally).await?;
    let of_pairs = pass.pairs.iter().zip(of_pairs);
    ratings
        .by_pair
        .extend(of_pairs.map(|(pair, rating)| ((scale, t, *pair), rating)));
    Ok(())
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

/// Rates pairs of texts and returns the ratings in their order; `tally` counts each response.
async fn rate(
    inputs: Inputs<'_>,
    judge: &PlannedJudge,
    meter: &mut Meter,
    base: JudgeRequest,
    what: String,
    pairs: &[(&str, &str)],
    tally: impl Fn(&mut JudgeCounters, &RatingCounts),
) -> Result<Vec<Rating>, RunError> {
    let (context, plan, progress) = (inputs.context, inputs.plan, inputs.progress);
    meter.detail(&what);
    progress.tell(meter);
    let failed = |fault: Fault| RunError::Transform {
        what: format!("the judge {}, {what}", judge.id),
        fault: Box::new(fault),
    };
    let own = Batching {
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
    let request = |(chunk, pairs): (usize, &[(&str, &str)])| {
        let texts = pairs.iter().map(|(original, rewrite)| ProtoPair {
            id: String::new(),
            original: (*original).to_owned(),
            transformed: (*rewrite).to_owned(),
        });
        let request = JudgeRequest {
            pairs: texts.collect(),
            ..base.clone()
        };
        (chunk * size, pairs.len(), request)
    };
    let requests: Vec<(usize, usize, JudgeRequest)> = pairs.chunks(size).enumerate().map(request).collect();
    let mut answers = stream::iter(requests)
        .map(|(first, pairs, request)| {
            let answer = context.work.judge(&producer, request);
            async move { (first, pairs, answer.await) }
        })
        .buffer_unordered(batching.in_flight);
    let mut ratings: Vec<Option<Rating>> = vec![None; pairs.len()];
    while let Some((first, asked, answer)) = answers.next().await {
        let answer = answer.map_err(failed)?;
        let mut counts = RatingCounts::default();
        for rating in &answer.ratings {
            let position = rating.index as usize;
            let place = ratings.get_mut(first + position).filter(|_| position < asked);
            let Some(place) = place else {
                return Err(failed(Fault::internal(format!(
                    "the transform service rated pair {position} of {asked}"
                ))));
            };
            let outcome = outcome(rating, plan.suite.attempts);
            let fresh = place.replace(outcome).is_none();
            counts.known += u64::from(fresh);
            counts.cached += u64::from(fresh && rating.provenance.as_ref().is_some_and(|p| p.cache_hit));
            counts.missing += u64::from(fresh && !matches!(outcome, Rating::Score(_)));
        }
        if counts.known != asked as u64 {
            return Err(failed(Fault::internal(
                "the transform service answered before every pair had a rating",
            )));
        }
        count(progress, |counters| {
            tally(counters, &counts);
            spend(counters, &answer.usage.unwrap_or_default());
        });
        meter.add(counts.known, counts.cached, Instant::now());
        meter.fail(counts.missing);
        progress.tell(meter);
    }
    // Every request was answered in full; otherwise the loop would have returned an error.
    Ok(ratings.into_iter().flatten().collect())
}
