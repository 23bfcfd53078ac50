//! Summarises ratings for the report. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    drift::{Drifted, Pair, pairs_of},
    judge::{Drawn, Judged, PlannedJudge, Rating},
    plan::{Plan, Variant},
    transform::Transformed,
};
use crate::{
    judging::{LEAST_TEXTS, Probe, ProbeResult, Scale, inseparable, results},
    report::{DriftRating, JudgeReport, JudgedRewrite, JudgedScale, RatingRow},
    stats,
};

/// The judge's ratings, and the drift of the rated texts under each encoder.
pub(super) fn report(
    plan: &Plan,
    transformed: &Transformed,
    judge: &PlannedJudge,
    judged: &Judged,
    drifted: &[Drifted],
) -> JudgeReport {
    let scales = &judge.judging.scales;
    let probes = probed(judge, judged);
    let mut report = JudgeReport {
        id: judge.id.clone(),
        digest: judge.digest.clone(),
        seed: plan.suite.seeds.first().copied().unwrap_or_default(),
        attempts: plan.suite.attempts,
        sample: judge.judging.sample,
        scales: scales
            .iter()
            .zip(&judge.prompts)
            .map(|(scale, (version, digest))| {
                let (low, high) = scale.range();
                JudgedScale {
                    scale: *scale,
                    low,
                    high,
                    prompt_version: version.clone(),
                    prompt_digest: digest.clone(),
                }
            })
            .collect(),
        own_texts: own_texts(judge, transformed),
        accept: Some(judge.judging.accept),
        inseparable: inseparable(&probes),
        probes,
        ratings: Vec::new(),
        drift: Vec::new(),
    };
    let moved = moved(plan, transformed, drifted);
    for scale in scales {
        for t in 0..plan.transformations.len() {
            for table in scopes(plan) {
                report.ratings.push(rating_row(plan, judged, (*scale, t, table)));
            }
        }
        for e in 0..plan.encoders.len() {
            for t in 0..plan.transformations.len() {
                for table in scopes(plan) {
                    let row = drift_row(plan, judged, &moved, (*scale, e, t, table));
                    // A single data set gets a row only with enough texts. The row over all data
                    // sets is always shown; if it has no number, it states the reason.
                    if table.is_none() || row.texts >= LEAST_TEXTS as u64 {
                        report.drift.push(row);
                    }
                }
            }
        }
    }
    report
}

/// The reason why the ratings are not used; `None` if they are.
pub(super) fn refused(judge: &PlannedJudge, judged: &Judged) -> Option<String> {
    if !judge.judging.scales.contains(&Scale::Similarity) {
        return Some("the judge does not rate how similar the rewrites are".to_owned());
    }
    inseparable(&probed(judge, judged))
}

/// The judge's results on the pairs with a known rating.
fn probed(judge: &PlannedJudge, judged: &Judged) -> Vec<ProbeResult> {
    if judged.probes.is_empty() {
        return Vec::new();
    }
    let score = |rating: &Rating| match rating {
        Rating::Score(score) => Some(*score),
        Rating::Unreadable | Rating::Failed => None,
    };
    let rated: Vec<(Probe, Option<f64>)> = judged
        .probes
        .iter()
        .map(|(probe, rating)| (*probe, score(rating)))
        .collect();
    results(&rated, judge.judging.accept)
}

/// All data sets together (`None`), and each of them if there are several.
fn scopes(plan: &Plan) -> Vec<Option<usize>> {
    let each = (0..plan.tables.len()).map(Some).filter(|_| plan.tables.len() > 1);
    std::iter::once(None).chain(each).collect()
}

/// Generators that are the same model as the judge: by id, by weights, or by the model's name on
/// any server.
fn own_texts(judge: &PlannedJudge, transformed: &Transformed) -> Vec<String> {
    let model = |id: &str| {
        id.split_once(':')
            .map(|(kind, rest)| (kind.to_owned(), served(kind, rest)))
    };
    let same = |(id, digest): &(&String, &String)| {
        let served = model(id).is_some_and(|own| Some(own) == model(&judge.id));
        **id == judge.id || (!digest.is_empty() && **digest == judge.digest) || served
    };
    let all = transformed.generators.iter().filter(same);
    all.map(|(id, _)| id.clone()).collect()
}

/// `MODEL` of `MODEL@URL`.
fn served(kind: &str, rest: &str) -> String {
    match rest.rsplit_once('@') {
        Some((model, _)) if kind == "openai" => model.to_owned(),
        _ => rest.to_owned(),
    }
}

/// The pairs drawn for a transformation, over all data sets or of one.
fn drawn_of(judged: &Judged, t: usize, table: Option<usize>) -> impl Iterator<Item = &Drawn> {
    let all = judged.drawn.iter();
    all.filter(move |one| one.transformation == t && table.is_none_or(|table| one.table == table))
}

fn rating_row(plan: &Plan, judged: &Judged, (scale, t, table): (Scale, usize, Option<usize>)) -> RatingRow {
    let drawn: Vec<&Drawn> = drawn_of(judged, t, table).collect();
    let sum = |of: fn(&Drawn) -> u64| drawn.iter().map(|one| of(one)).sum::<u64>();
    let rated = drawn.iter().flat_map(|one| &one.pairs);
    let (mut unreadable, mut failed, mut accepted) = (0, 0, 0);
    let accept = plan.judge.as_ref().map_or(f64::INFINITY, |judge| judge.judging.accept);
    let mut texts: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for pair in rated {
        match judged.ratings.get(&(scale, t, *pair)) {
            Some(Rating::Score(score)) => {
                accepted += u64::from(*score >= accept);
                texts.entry(pair.0).or_default().push(*score);
            }
            Some(Rating::Unreadable) => unreadable += 1,
            Some(Rating::Failed) | None => failed += 1,
        }
    }
    let means: Vec<f64> = texts.values().filter_map(|seeds| stats::mean(seeds)).collect();
    RatingRow {
        scale,
        transformation: plan.transformations[t].label.clone(),
        dataset: table.map(|table| plan.tables[table].dataset.name().to_owned()),
        asked: sum(|one| one.texts),
        unchanged: sum(|one| one.texts - one.changed),
        drawn: sum(|one| one.pairs.len() as u64),
        unreadable,
        failed,
        accepted: (scale == Scale::Similarity).then_some(accepted),
        texts: means.len() as u64,
        mean: stats::mean(&means),
        sd: stats::sample_sd(&means),
    }
}

/// The rewrites that the judge was asked about, each once, with its drift. `number` gives the
/// position of a text in the file of items.
pub(super) fn judged_rewrites(
    plan: &Plan,
    transformed: &Transformed,
    judged: &Judged,
    drifted: &[Drifted],
    mut number: impl FnMut(u32) -> u32,
) -> Vec<JudgedRewrite> {
    let mut drifts: HashMap<(usize, Pair), BTreeMap<usize, Vec<f64>>> = HashMap::new();
    for ((encoder, _, transformation, _), pairs) in moved(plan, transformed, drifted) {
        for (pair, drift) in pairs {
            let own = drifts.entry((transformation, pair)).or_default();
            own.entry(encoder).or_default().push(drift);
        }
    }
    let drawn = judged.drawn.iter();
    let pairs: BTreeSet<(usize, Pair)> = drawn
        .flat_map(|one| one.pairs.iter().map(|pair| (one.transformation, *pair)))
        .collect();
    let rewrite = |(transformation, pair): (usize, Pair)| {
        let rating = |scale: &Scale| match judged.ratings.get(&(*scale, transformation, pair)) {
            Some(Rating::Score(score)) => Some((*scale, *score)),
            Some(Rating::Unreadable | Rating::Failed) | None => None,
        };
        let moved = drifts.get(&(transformation, pair)).into_iter().flatten();
        JudgedRewrite {
            transformation: plan.transformations[transformation].label.clone(),
            original: number(pair.0),
            rewrite: number(pair.1),
            ratings: Scale::ALL.iter().filter_map(rating).collect(),
            drift: moved
                .filter_map(|(encoder, drifts)| Some((plan.encoders[*encoder].id.clone(), mean_of(drifts)?)))
                .collect(),
        }
    };
    pairs.into_iter().map(rewrite).collect()
}

/// The mean, whatever the order of the values.
fn mean_of(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    stats::mean(&sorted)
}

/// Drift of each pair by encoder, data set, transformation and seed.
type Moved = HashMap<(usize, usize, usize, usize), HashMap<Pair, f64>>;

fn moved(plan: &Plan, transformed: &Transformed, drifted: &[Drifted]) -> Moved {
    let one = |one: &Drifted| {
        let variant = Variant::Transformed {
            transformation: one.transformation,
            seed: one.seed,
        };
        let pairs = pairs_of(plan, transformed, one.table, variant);
        let drift = pairs.into_iter().zip(&one.drift);
        let drift = drift.filter_map(|(pair, drift)| Some((pair, f64::from((*drift)?))));
        ((one.encoder, one.table, one.transformation, one.seed), drift.collect())
    };
    drifted.iter().map(one).collect()
}

fn drift_row(
    plan: &Plan,
    judged: &Judged,
    moved: &Moved,
    (scale, e, t, table): (Scale, usize, usize, Option<usize>),
) -> DriftRating {
    // Rating and drift of each text, seed by seed.
    let mut texts: BTreeMap<u32, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for one in drawn_of(judged, t, table) {
        let Some(drift) = moved.get(&(e, one.table, t, one.seed)) else {
            continue;
        };
        for pair in &one.pairs {
            if let (Some(Rating::Score(score)), Some(drift)) = (judged.ratings.get(&(scale, t, *pair)), drift.get(pair))
            {
                let (drifts, scores) = texts.entry(pair.0).or_default();
                drifts.push(*drift);
                scores.push(*score);
            }
        }
    }
    let averaged = texts
        .values()
        .filter_map(|(drifts, scores)| Some((stats::mean(drifts)?, stats::mean(scores)?)));
    let (drifts, scores): (Vec<f64>, Vec<f64>) = averaged.unzip();
    DriftRating {
        encoder: plan.encoders[e].id.clone(),
        transformation: plan.transformations[t].label.clone(),
        dataset: table.map(|table| plan.tables[table].dataset.name().to_owned()),
        ..DriftRating::of(scale, &drifts, &scores)
    }
}

#[cfg(test)]
mod tests {
    use isomer_proto::common::v1::Usage;

    use super::*;
    use crate::judging::Judging;

    fn judge(id: &str, digest: &str) -> PlannedJudge {
        PlannedJudge {
            judging: Judging {
                generator: id.to_owned(),
                sample: 50,
                scales: vec![Scale::Similarity],
                accept: 3.0,
            },
            id: id.to_owned(),
            digest: digest.to_owned(),
            prompts: Vec::new(),
            producers: std::collections::BTreeMap::new(),
            trial: Usage::default(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn a_judge_is_a_generator_of_the_texts_by_id_by_weights_or_by_the_models_name_on_another_server() {
        let mut transformed = Transformed::default();
        for (id, digest) in [
            ("local:a", "77"),
            ("openai:gemma3:27b@http://one/v1", ""),
            ("house", ""),
        ] {
            transformed.generators.insert(id.to_owned(), digest.to_owned());
        }
        let own = |id: &str, digest: &str| own_texts(&judge(id, digest), &transformed);
        assert_eq!(own("local:a", ""), ["local:a"]);
        assert_eq!(own("local:/models/copy-of-a.gguf", "77"), ["local:a"]);
        assert_eq!(
            own("openai:gemma3:27b@http://two/v1", ""),
            ["openai:gemma3:27b@http://one/v1"]
        );
        assert_eq!(own("house", ""), ["house"]);
        for (id, digest) in [
            ("local:b", "78"),
            ("openai:gemma3:4b@http://one/v1", ""),
            ("other house", ""),
        ] {
            assert_eq!(own(id, digest), Vec::<String>::new(), "{id}");
        }
    }
}
