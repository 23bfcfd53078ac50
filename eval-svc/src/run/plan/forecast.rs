//! Estimates the cost of a run before it starts: the transform service looks up every text in its
//! caches and adds up the missing calls.

use futures::{StreamExt, TryStreamExt, stream};
use isomer_proto::{
    eval::v1::{PlannedDesign, PlannedRule},
    transform::v1::{GenerationEstimate, TextItem, TransformSpec},
};

use super::{
    Layout, Plan,
    ceiling::{Ceiling, TokenPrices},
    copies,
    requests::{chunks, estimate_items},
    table::{Corpus, TextRequest},
};
use crate::{
    judging::{JudgeSettings, Scale, probes},
    limits::Limits,
    run::{RunContext, RunError, record::Generation},
    separation::Kind,
};

/// Maximum number of requests in flight.
const IN_FLIGHT: usize = 4;

/// The estimated usage of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Forecast {
    /// Estimates by transformation or kind of changed copies.
    pub generations: Vec<(String, GenerationEstimate)>,
    /// The sum of the estimates.
    pub total: GenerationEstimate,
    /// Encoders, and the maximum number of texts that each encodes.
    pub encodings: Vec<(String, u64)>,
    /// Maximum number of ratings by the judge.
    pub most_ratings: u64,
    /// The generation times of the latest runs with this generator; absent without such a run.
    pub measured: Option<Generation>,
    /// The reason why the limits refuse the run; empty if they do not.
    pub refusal: String,
    /// The expected decisions of the rules on drops over items.
    pub rules: Vec<PlannedRule>,
    /// The items for a wanted probability of a pass, if one was given and there is such a rule.
    pub design: Option<PlannedDesign>,
}

impl Forecast {
    /// Duration of the calls with one attempt for each text, in seconds, at the measured rate.
    pub fn seconds(&self) -> Option<f64> {
        let measured = self.measured.as_ref().filter(|measured| measured.texts > 0)?;
        let total = &self.total;
        let missing = total
            .texts
            .saturating_sub(total.cached_texts.saturating_add(total.texts_by_rule));
        Some(measured.seconds * missing as f64 / measured.texts as f64)
    }
}

/// Estimates the usage of a plan.
pub(crate) async fn forecast(
    context: &RunContext,
    plan: &Plan,
    judging: Option<&JudgeSettings>,
) -> Result<Forecast, RunError> {
    let mut forecast = Forecast::default();
    let (layout, transform) = (&plan.layout, &plan.stages.transform);
    for (t, planned) in layout.transformations.iter().enumerate() {
        let requests: Vec<&TextRequest> = layout.requests.of(planned).iter().collect();
        let mut all = GenerationEstimate::default();
        for s in 0..layout.suite.seeds.len() {
            let spec = transform.spec(layout, t, s);
            let one = estimate(context, &layout.corpus, spec, &requests, &planned.label).await?;
            add(&mut all, &one);
        }
        forecast.generations.push((planned.label.clone(), all));
    }
    let kinds = layout
        .suite
        .separation
        .settled()
        .map(|settled| settled.kinds)
        .unwrap_or_default();
    for kind in kinds.iter().copied().filter(|kind| kind.needs_generator()) {
        let requests = copies::generator_candidates(layout);
        let requests: Vec<&TextRequest> = requests.iter().collect();
        let what = copies::what(kind);
        let one = estimate(
            context,
            &layout.corpus,
            transform.copy_spec(layout, kind),
            &requests,
            &what,
        )
        .await?;
        forecast.generations.push((what, one));
    }
    for (_, one) in &forecast.generations {
        add(&mut forecast.total, one);
    }
    let texts = most_encoded(layout, &kinds);
    // Stored forms are made of their encoder's vectors.
    let ids = plan.encoders.ids().enumerate();
    let ids = ids.filter(|(e, _)| plan.encoders.source(*e) == *e);
    forecast.encodings = ids.map(|(_, id)| (id.to_owned(), texts)).collect();
    forecast.most_ratings = judging.map_or(0, |judging| most_ratings(layout, judging));
    forecast.refusal = refusal(layout.suite.limits, &forecast.total, judging.is_some()).unwrap_or_default();
    Ok(forecast)
}

/// The limits of a run whose forecast they permit.
///
/// # Errors
/// [`RunError::OverLimit`].
pub(crate) fn ceiling(limits: Limits, forecast: &Forecast) -> Result<Ceiling, RunError> {
    if !forecast.refusal.is_empty() {
        return Err(RunError::OverLimit(forecast.refusal.clone()));
    }
    let total = &forecast.total;
    let prices = TokenPrices {
        prompt: total.prompt_price.unwrap_or_default(),
        generated: total.generated_price.unwrap_or_default(),
    };
    Ok(Ceiling::new(limits, prices))
}

async fn estimate(
    context: &RunContext,
    corpus: &Corpus,
    spec: TransformSpec,
    requests: &[&TextRequest],
    what: &str,
) -> Result<GenerationEstimate, RunError> {
    let request = |chunk: Vec<(usize, TextItem)>| {
        let items = chunk.into_iter().map(|(_, item)| item).collect();
        estimate_items(context, &spec, items, what)
    };
    let chunks = chunks(requests, corpus, context.config.transform_batch_items);
    let mut answers = stream::iter(chunks).map(request).buffer_unordered(IN_FLIGHT);
    let mut all = GenerationEstimate::default();
    while let Some(one) = answers.try_next().await? {
        add(&mut all, &one);
    }
    Ok(all)
}

/// Adds an estimate. Prices and id of the sum are the generator's, if one is needed.
fn add(all: &mut GenerationEstimate, one: &GenerationEstimate) {
    let both = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
    if all.generator_id.is_empty() {
        all.generator_id.clone_from(&one.generator_id);
        (all.prompt_price, all.generated_price) = (one.prompt_price, one.generated_price);
        (all.cost, all.most_cost) = (one.cost, one.most_cost);
    } else if !one.generator_id.is_empty() {
        all.cost = both(all.cost, one.cost);
        all.most_cost = both(all.most_cost, one.most_cost);
    }
    for (sum, part) in [
        (&mut all.texts, one.texts),
        (&mut all.cached_texts, one.cached_texts),
        (&mut all.texts_by_rule, one.texts_by_rule),
        (&mut all.calls, one.calls),
        (&mut all.most_calls, one.most_calls),
        (&mut all.prompt_tokens, one.prompt_tokens),
        (&mut all.most_prompt_tokens, one.most_prompt_tokens),
        (&mut all.generated_tokens, one.generated_tokens),
        (&mut all.most_generated_tokens, one.most_generated_tokens),
    ] {
        *sum = sum.saturating_add(part);
    }
}

/// Maximum number of texts sent to an encoder: the distinct texts of the data sets, every rewrite,
/// and the changed copies.
fn most_encoded(layout: &Layout, kinds: &[Kind]) -> u64 {
    let tables: Vec<usize> = (0..layout.tables.len()).collect();
    let copies = kinds
        .iter()
        .map(|kind| copies::most_texts(layout, Some(*kind), &tables))
        .sum::<u64>();
    (layout.corpus.len() + layout.texts_planned()) as u64 + copies
}

/// Maximum number of ratings: the drawn texts of each data set, transformation and seed, and the
/// pairs with a known rating, on each scale.
fn most_ratings(layout: &Layout, judging: &JudgeSettings) -> u64 {
    let drawn: usize = layout
        .tables
        .iter()
        .flat_map(|table| {
            layout
                .transformations
                .iter()
                .map(move |planned| table.requests.of(planned))
        })
        .map(|requests| {
            let texts = requests.iter().flatten().count();
            match judging.sample {
                0 => texts,
                sample => texts.min(sample as usize),
            }
        })
        .sum();
    let known = if judging.scales.contains(&Scale::Similarity) {
        probes().len()
    } else {
        0
    };
    (drawn * layout.suite.seeds.len() * judging.scales.len() + known) as u64
}

/// The reason why limits refuse the estimated usage with one attempt for each text.
fn refusal(limits: Limits, total: &GenerationEstimate, judged: bool) -> Option<String> {
    if let Some(limit) = limits.generator_calls.filter(|limit| total.calls > *limit) {
        return Some(format!(
            "the run would call the generator {} times with one attempt for each text (at most {} times), and \
             limits.generator_calls is {limit}",
            total.calls, total.most_calls
        ));
    }
    let limit = limits.cost?;
    // Fully cached texts cost nothing, whatever the prices.
    let cost = match total.calls {
        0 => Some(0.0),
        _ => total.cost,
    };
    match cost {
        None => Some(format!(
            "limits.cost is {limit}, and generator `{}` has no prices: what it would cost is unknown",
            total.generator_id
        )),
        _ if judged => Some(format!(
            "limits.cost is {limit}, and the run has a judge, whose calls are not priced"
        )),
        Some(cost) if cost > limit => Some(format!(
            "the run would cost {cost:.4} with one attempt for each text (at most {:.4}), and limits.cost is {limit}",
            total.most_cost.unwrap_or(f64::INFINITY)
        )),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(calls: u64, cost: Option<f64>) -> GenerationEstimate {
        GenerationEstimate {
            texts: calls + 1,
            cached_texts: 1,
            calls,
            most_calls: 3 * calls,
            cost,
            most_cost: cost.map(|cost| 9.0 * cost),
            generator_id: "big".to_owned(),
            ..GenerationEstimate::default()
        }
    }

    fn limits(generator_calls: Option<u64>, cost: Option<f64>) -> Limits {
        Limits { generator_calls, cost }
    }

    #[test]
    fn a_limit_refuses_more_and_takes_as_much() {
        let two = total(2, Some(0.5));
        assert_eq!(refusal(limits(None, None), &two, true), None);
        assert_eq!(refusal(limits(Some(2), Some(0.5)), &two, false), None);
        let said = refusal(limits(Some(1), None), &two, false).unwrap_or_default();
        assert!(said.contains("2 times") && said.contains("6 times"), "{said}");
        let said = refusal(limits(None, Some(0.4)), &two, false).unwrap_or_default();
        assert!(said.contains("0.5000") && said.contains("limits.cost is 0.4"), "{said}");
    }

    #[test]
    fn what_has_no_price_is_refused_under_a_limit_of_money() {
        let said = refusal(limits(None, Some(1e9)), &total(1, None), false).unwrap_or_default();
        assert!(said.contains("no prices"), "{said}");
        let said = refusal(limits(None, Some(1e9)), &total(1, Some(0.1)), true).unwrap_or_default();
        assert!(said.contains("judge"), "{said}");
        // Fully cached texts cost nothing.
        assert_eq!(refusal(limits(None, Some(0.01)), &total(0, None), false), None);
    }

    #[test]
    fn a_sum_has_a_cost_only_where_each_part_has_one() {
        let mut all = GenerationEstimate::default();
        let rule = GenerationEstimate {
            texts: 4,
            texts_by_rule: 4,
            ..GenerationEstimate::default()
        };
        add(&mut all, &rule);
        add(&mut all, &total(2, Some(0.5)));
        add(&mut all, &rule);
        assert_eq!((all.texts, all.cost, all.most_cost), (11, Some(0.5), Some(4.5)));
        add(&mut all, &total(2, Some(0.25)));
        assert_eq!(all.cost, Some(0.75));
        add(&mut all, &total(2, None));
        assert_eq!((all.cost, all.calls), (None, 6));
    }
}
