//! Stage: a language model rates the transformed texts through the transform service, which caches
//! every answer.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Instant,
};

use futures::{StreamExt, stream};
use isomer_proto::{
    common::v1::Usage,
    transform::v1::{
        JudgeRequest, Transformation, judge_request::Pair as ProtoPair, judge_response::Rating as ProtoRating,
        transform_service_client::TransformServiceClient,
    },
};
use isomer_service_kit::Fault;
use isomer_transformations::wire::message;
use isomer_usage::sum;

use super::{
    RunContext, RunError,
    drift::{Pair, pairs_of},
    inputs::Inputs,
    live::Live,
    plan::{Plan, Variant},
    progress::Meter,
    record::{JudgeCounters, Stage},
    transform::Transformed,
    wire,
};
use crate::{
    judging::{Judging, Probe, Scale, draw, probes},
    suite::Suite,
    work::{Batching, Producer, RequestKind},
};

/// Maximum number of requests to the judge in flight: while the last pairs of one are slow, the
/// next is already queued.
const IN_FLIGHT: usize = 2;
/// Pairs per request. The response arrives when all are rated, so progress is reported in steps of
/// this size.
const PAIRS: usize = 8;
/// The pair used to test a judge before anything is generated.
const TRIAL: (&str, &str) = ("The shop opens at nine.", "At nine the shop opens its doors.");

/// A judge that has rated the trial pair.
#[derive(Debug, Clone)]
pub(super) struct PlannedJudge {
    /// The judge's settings: generator, scales and sample.
    pub judging: Judging,
    /// The judge's id, as it reported.
    pub id: String,
    /// Digest of its weights, if known.
    pub digest: String,
    /// Version and digest of the prompt of each of the scales.
    pub prompts: Vec<(String, String)>,
    /// The generator and prompt that rate on each scale.
    pub producers: BTreeMap<Scale, Producer>,
    /// Usage of the trial.
    pub trial: Usage,
    /// Warnings from the trial, for a human reader.
    pub warnings: Vec<String>,
}

/// The result of rating a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rating {
    /// A rating in the scale's own unit.
    Score(f64),
    /// No answer was a rating.
    Unreadable,
    /// The judge failed.
    Failed,
}

/// The pairs of a data set to be rated, under one transformation and seed.
#[derive(Debug, Clone)]
pub(super) struct Drawn {
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

/// The results of the stage.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// The pairs drawn, by transformation, data set and seed.
    pub drawn: Vec<Drawn>,
    /// Ratings by scale, position of the transformation, and pair.
    pub ratings: HashMap<(Scale, usize, Pair), Rating>,
    /// Similarity of the pairs with a known rating; empty if similarity is not rated.
    pub probes: Vec<(Probe, Rating)>,
}

impl Judged {
    /// Whether the rating of a rewrite is at least `threshold`; `None` if it has no rating.
    pub(super) fn accepts(&self, transformation: usize, pair: Pair, threshold: f64) -> Option<bool> {
        match self.ratings.get(&(Scale::Similarity, transformation, pair)) {
            Some(Rating::Score(score)) => Some(*score >= threshold),
            Some(Rating::Unreadable | Rating::Failed) | None => None,
        }
    }
}

/// Has the judge rate the trial pair on each scale, bypassing the cache. This shows, before
/// anything is generated, that the judge is reachable, has its model and responds, and which model
/// it is. `field` is the field that names the judge.
pub(super) async fn probe(
    context: &RunContext,
    suite: &Suite,
    judging: Judging,
    field: &str,
) -> Result<PlannedJudge, RunError> {
    let failed = |fault: Fault| RunError::Judge {
        id: judging.generator.clone(),
        field: field.to_owned(),
        fault: Box::new(fault),
    };
    let mut planned = PlannedJudge {
        judging: judging.clone(),
        id: judging.generator.clone(),
        digest: String::new(),
        prompts: Vec::with_capacity(judging.scales.len()),
        producers: BTreeMap::new(),
        trial: Usage::default(),
        warnings: Vec::new(),
    };
    for scale in &judging.scales {
        let request = JudgeRequest {
            bypass_cache: true,
            pairs: vec![ProtoPair {
                id: String::new(),
                original: TRIAL.0.to_owned(),
                transformed: TRIAL.1.to_owned(),
            }],
            ..asking(suite, &judging, *scale)
        };
        let mut client = TransformServiceClient::new(context.clients.transform.clone());
        let answer = client.judge(request).await;
        let answer = answer
            .map_err(|status| failed(Fault::from_status(&status)))?
            .into_inner();
        let Some(rating) = answer.ratings.into_iter().next() else {
            return Err(failed(Fault::internal(
                "the transform service answered without a rating",
            )));
        };
        match outcome(&rating, suite.attempts) {
            Rating::Score(_) => {}
            Rating::Unreadable => planned.warnings.push(format!(
                "the judge {} was tried with one pair, and no answer was a rating ({}, {}). Such pairs are counted and \
                 left out; a stronger model rates more of them",
                judging.generator,
                scale.name(),
                rating.error
            )),
            Rating::Failed => {
                let fault = Fault::unavailable("JUDGE_FAILED", format!("it could not rate a pair: {}", rating.error));
                return Err(failed(fault.hint("check the judge's address, model and key")));
            }
        }
        let provenance = rating.provenance.unwrap_or_default();
        planned.producers.insert(*scale, Producer::from(&provenance));
        if !provenance.generator_id.is_empty() {
            planned.id = provenance.generator_id;
        }
        planned.digest = provenance.generator_digest;
        planned
            .prompts
            .push((provenance.prompt_version, provenance.prompt_digest));
        sum::add(&mut planned.trial, &answer.usage.unwrap_or_default());
    }
    Ok(planned)
}

/// The fields that all requests for a scale share. The seed is the run's first, so later rounds do
/// not change a rating.
fn asking(suite: &Suite, judging: &Judging, scale: Scale) -> JudgeRequest {
    JudgeRequest {
        scale: wire::judge_scale(scale).into(),
        generator_id: judging.generator.clone(),
        seed: suite.seeds.first().copied(),
        max_attempts: Some(suite.attempts),
        ..JudgeRequest::default()
    }
}

fn outcome(rating: &ProtoRating, attempts: u32) -> Rating {
    match rating.score {
        Some(score) if score.is_finite() => Rating::Score(score),
        _ if rating.unreadable >= attempts => Rating::Unreadable,
        _ => Rating::Failed,
    }
}

/// Chooses the transformed texts to be rated.
fn drawn(plan: &Plan, transformed: &Transformed, judging: &Judging) -> Vec<Drawn> {
    let seed = plan.suite.seeds.first().copied().unwrap_or_default();
    let mut all = Vec::new();
    for (t, planned) in plan.transformations.iter().enumerate() {
        for (d, table) in plan.tables.iter().enumerate() {
            let asked: BTreeSet<usize> = table.requests.of(planned).iter().flatten().copied().collect();
            for s in 0..plan.suite.seeds.len() {
                let variant = Variant::Transformed {
                    transformation: t,
                    seed: s,
                };
                let mut pairs = pairs_of(plan, transformed, d, variant);
                pairs.retain(|(original, made)| original != made);
                let texts: Vec<(&str, &str)> = pairs
                    .iter()
                    .map(|(original, made)| (plan.corpus.get(*original), plan.corpus.get(*made)))
                    .collect();
                all.push(Drawn {
                    table: d,
                    transformation: t,
                    seed: s,
                    texts: asked.len() as u64,
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
pub(super) async fn judge(inputs: Inputs<'_>) -> Result<Option<Judged>, RunError> {
    let Inputs {
        plan,
        transformed,
        live,
        ..
    } = inputs;
    let Some(judge) = &plan.judge else { return Ok(None) };
    let mut judged = Judged {
        drawn: drawn(plan, transformed, &judge.judging),
        ..Judged::default()
    };
    let mut passes = Vec::new();
    for scale in &judge.judging.scales {
        for t in 0..plan.transformations.len() {
            let own = judged.drawn.iter().filter(|one| one.transformation == t);
            let pairs: BTreeSet<Pair> = own.flat_map(|one| one.pairs.iter().copied()).collect();
            passes.push((*scale, t, pairs.into_iter().collect::<Vec<Pair>>()));
        }
    }
    let known = if judge.judging.scales.contains(&Scale::Similarity) {
        probes()
    } else {
        Vec::new()
    };
    let total: usize = known.len() + passes.iter().map(|(_, _, pairs)| pairs.len()).sum::<usize>();
    count(live, |counters| counters.ratings_planned = (total - known.len()) as u64);
    let mut meter = Meter::new(Stage::Judge, total as u64, Instant::now());
    probe_pass(inputs, judge, &mut meter, &mut judged, &known).await?;
    for (scale, t, pairs) in passes {
        one_pass(inputs, judge, &mut meter, &mut judged, (scale, t), &pairs).await?;
    }
    let failed = judged
        .ratings
        .values()
        .filter(|rating| **rating == Rating::Failed)
        .count();
    if failed > 0 && failed == judged.ratings.len() {
        return Err(RunError::JudgeSilent {
            id: judge.id.clone(),
            pairs: failed,
        });
    }
    Ok(Some(judged))
}

fn count(live: &Live, count: impl FnOnce(&mut JudgeCounters)) {
    live.count(|counters| count(counters.judge.get_or_insert_default()));
}

fn spend(counters: &mut JudgeCounters, usage: &Usage) {
    counters.calls = counters.calls.saturating_add(usage.generator_calls);
    counters.tokens = counters.tokens.saturating_add(usage.tokens);
    counters.generated_tokens = counters.generated_tokens.saturating_add(usage.generated_tokens);
    counters.tokens_estimated |= usage.tokens_estimated;
}

/// The counters of a run before its start: those of its judge's trial.
pub(super) fn tried(plan: &Plan) -> Option<JudgeCounters> {
    let mut counters = JudgeCounters::default();
    spend(&mut counters, &plan.judge.as_ref()?.trial);
    Some(counters)
}

/// Rates the pairs with a known rating on the similarity scale.
async fn probe_pass(
    inputs: Inputs<'_>,
    judge: &PlannedJudge,
    meter: &mut Meter,
    judged: &mut Judged,
    probes: &[Probe],
) -> Result<(), RunError> {
    if probes.is_empty() {
        return Ok(());
    }
    let base = JudgeRequest {
        transformation: Some(Transformation::named("paraphrase")),
        ..asking(&inputs.plan.suite, &judge.judging, Scale::Similarity)
    };
    let texts: Vec<(&str, &str)> = probes.iter().map(|probe| (probe.original, probe.beside)).collect();
    let what = "similarity of probes".to_owned();
    // Probes are not texts of the run: their calls and tokens are counted, their ratings are not.
    let ratings = rate(inputs, judge, meter, base, what, &texts, |_, _| {}).await?;
    judged.probes = probes.iter().copied().zip(ratings).collect();
    Ok(())
}

/// Rates the pairs of one transformation on one scale.
async fn one_pass(
    inputs: Inputs<'_>,
    judge: &PlannedJudge,
    meter: &mut Meter,
    judged: &mut Judged,
    (scale, t): (Scale, usize),
    pairs: &[Pair],
) -> Result<(), RunError> {
    let plan = inputs.plan;
    let planned = &plan.transformations[t];
    let base = JudgeRequest {
        transformation: Some(message(&planned.transformation)),
        ..asking(&plan.suite, &judge.judging, scale)
    };
    let text = |number: u32| plan.corpus.get(number);
    let texts: Vec<(&str, &str)> = pairs
        .iter()
        .map(|(original, made)| (text(*original), text(*made)))
        .collect();
    let what = format!("{} of {}", scale.name(), planned.label);
    let tally = |counters: &mut JudgeCounters, rated: &Rated| {
        counters.ratings_made += rated.known - rated.cached;
        counters.ratings_cached += rated.cached;
        counters.ratings_missing += rated.missing;
    };
    let ratings = rate(inputs, judge, meter, base, what, &texts, tally).await?;
    let rated = pairs
        .iter()
        .zip(ratings)
        .map(|(pair, rating)| ((scale, t, *pair), rating));
    judged.ratings.extend(rated);
    Ok(())
}

/// Counts of the ratings in one response of the judge.
#[derive(Debug, Default)]
struct Rated {
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
    tally: impl Fn(&mut JudgeCounters, &Rated),
) -> Result<Vec<Rating>, RunError> {
    let Inputs {
        context, plan, live, ..
    } = inputs;
    meter.detail(&what);
    live.tell(meter);
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
        let texts = pairs.iter().map(|(original, made)| ProtoPair {
            id: String::new(),
            original: (*original).to_owned(),
            transformed: (*made).to_owned(),
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
        let mut rated = Rated::default();
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
            rated.known += u64::from(fresh);
            rated.cached += u64::from(fresh && rating.provenance.as_ref().is_some_and(|p| p.cache_hit));
            rated.missing += u64::from(fresh && !matches!(outcome, Rating::Score(_)));
        }
        if rated.known != asked as u64 {
            return Err(failed(Fault::internal(
                "the transform service answered before every pair had a rating",
            )));
        }
        count(live, |counters| {
            tally(counters, &rated);
            spend(counters, &answer.usage.unwrap_or_default());
        });
        meter.add(rated.known, rated.cached, Instant::now());
        meter.fail(rated.missing);
        live.tell(meter);
    }
    // Every request was answered in full; otherwise the loop would have returned an error.
    Ok(ratings.into_iter().flatten().collect())
}
