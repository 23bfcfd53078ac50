//! Summarises ratings for the report. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::{
    judging::{LEAST_TEXTS, Scale, inseparable},
    report::{DriftRating, JudgeReport, JudgedRewrite, JudgedScale, RatingRow},
    run::{
        decide::results::RunResults,
        judge::{RatingSample, Ratings},
        plan::{JudgePlan, Layout, Variant, judge::Rating},
        score::drift::DriftEntry,
        transform::{
            TextResults,
            pairs::{Pair, pairs_of},
        },
    },
    stats,
};

/// The judge's ratings, and the drift of the rated texts under each encoder.
pub(crate) fn report(results: &RunResults, ratings: &Ratings) -> JudgeReport {
    let (layout, encoders, judge) = (&results.layout, &results.encoders, &ratings.judge);
    let scales = &judge.judging.scales;
    let probes = ratings.probe_results();
    let mut report = JudgeReport {
        id: judge.id.clone(),
        digest: judge.digest.clone(),
        seed: layout.first_seed(),
        attempts: layout.suite.attempts,
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
        own_texts: own_texts(judge, &results.text_results),
        versions: ratings.versions.clone(),
        accept: Some(judge.judging.accept),
        inseparable: inseparable(&probes),
        probes,
        ratings: Vec::new(),
        drift: Vec::new(),
    };
    let drifts = pair_drifts(results);
    for &scale in scales {
        let rows = scopes(layout, scale).map(|scope| rating_row(layout, ratings, scope));
        report.ratings.extend(rows);
        for (encoder, id) in encoders.ids().enumerate() {
            for scope in scopes(layout, scale) {
                let row = DriftRating {
                    encoder: id.to_owned(),
                    transformation: scope.label(layout),
                    dataset: scope.dataset(layout),
                    ..rated_drifts(ratings, &drifts, encoder, scope)
                };
                // A single data set gets a row only with enough texts. The row over all data sets
                // is always shown; if it has no number, it states the reason.
                if scope.table.is_none() || row.texts >= LEAST_TEXTS as u64 {
                    report.drift.push(row);
                }
            }
        }
    }
    report
}

/// The pairs that a row covers.
#[derive(Clone, Copy)]
struct RowScope {
    scale: Scale,
    transformation: usize,
    /// A data set; `None`: all of them.
    table: Option<usize>,
}

/// For each transformation all data sets together, and each of them if there are several.
fn scopes(layout: &Layout, scale: Scale) -> impl Iterator<Item = RowScope> {
    let several = layout.tables.len() > 1;
    let each = (0..layout.tables.len()).map(Some).filter(move |_| several);
    let tables = std::iter::once(None).chain(each);
    (0..layout.transformations.len()).flat_map(move |transformation| {
        tables.clone().map(move |table| RowScope {
            scale,
            transformation,
            table,
        })
    })
}

/// Generators that are the same model as the judge: by id, by weights, or by the model's name on
/// any server.
fn own_texts(judge: &JudgePlan, text_results: &TextResults) -> Vec<String> {
    let model = |id: &str| {
        id.split_once(':')
            .map(|(kind, rest)| (kind.to_owned(), served(kind, rest)))
    };
    let same = |(id, digest): &(&String, &String)| {
        let served = model(id).is_some_and(|own| Some(own) == model(&judge.id));
        **id == judge.id || (!digest.is_empty() && **digest == judge.digest) || served
    };
    let all = text_results.generators.iter().filter(same);
    all.map(|(id, _)| id.clone()).collect()
}

/// `MODEL` of `MODEL@URL`.
fn served(kind: &str, rest: &str) -> String {
    match rest.rsplit_once('@') {
        Some((model, _)) if kind == "openai" => model.to_owned(),
        _ => rest.to_owned(),
    }
}

impl RowScope {
    /// The pairs that were drawn for a row.
    fn samples(self, ratings: &Ratings) -> impl Iterator<Item = &RatingSample> {
        let all = ratings.samples.iter();
        let of_table = move |table: usize| self.table.is_none_or(|own| own == table);
        all.filter(move |one| one.transformation == self.transformation && of_table(one.table))
    }

    fn label(self, layout: &Layout) -> String {
        layout.transformations[self.transformation].label.clone()
    }

    /// Name of the data set, unless the row covers all of them.
    fn dataset(self, layout: &Layout) -> Option<String> {
        self.table.map(|table| layout.tables[table].dataset.name().to_owned())
    }

    /// The rating of a pair.
    fn rating(self, ratings: &Ratings, pair: Pair) -> Option<Rating> {
        let known = ratings.by_pair.get(&(self.scale, self.transformation, pair));
        known.copied()
    }
}

fn rating_row(layout: &Layout, ratings: &Ratings, scope: RowScope) -> RatingRow {
    let samples: Vec<&RatingSample> = scope.samples(ratings).collect();
    let sum = |of: fn(&RatingSample) -> u64| samples.iter().map(|one| of(one)).sum::<u64>();
    let (mut unreadable, mut failed, mut accepted) = (0, 0, 0);
    let accept = ratings.judge.judging.accept;
    let mut texts: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for pair in samples.iter().flat_map(|one| &one.pairs) {
        match scope.rating(ratings, *pair) {
            Some(Rating::Score(score)) => {
                accepted += u64::from(score >= accept);
                texts.entry(pair.0).or_default().push(score);
            }
            Some(Rating::Unreadable) => unreadable += 1,
            Some(Rating::Failed) | None => failed += 1,
        }
    }
    let means: Vec<f64> = texts.values().filter_map(|seeds| stats::mean(seeds)).collect();
    RatingRow {
        scale: scope.scale,
        transformation: scope.label(layout),
        dataset: scope.dataset(layout),
        asked: sum(|one| one.texts),
        unchanged: sum(|one| one.texts - one.changed),
        drawn: sum(|one| one.pairs.len() as u64),
        unreadable,
        failed,
        accepted: (scope.scale == Scale::Similarity).then_some(accepted),
        texts: means.len() as u64,
        mean: stats::mean(&means),
        sd: stats::sample_sd(&means),
    }
}

/// The rewrites that the judge was asked about, each once, with its drift. `number` gives the
/// position of a text in the file of items.
pub(crate) fn judged_rewrites(
    results: &RunResults,
    ratings: &Ratings,
    mut number: impl FnMut(u32) -> u32,
) -> Vec<JudgedRewrite> {
    let (layout, encoders) = (&results.layout, &results.encoders);
    let mut drifts: HashMap<(usize, Pair), BTreeMap<usize, Vec<f64>>> = HashMap::new();
    for ((encoder, _, transformation, _), pairs) in pair_drifts(results) {
        for (pair, drift) in pairs {
            let own = drifts.entry((transformation, pair)).or_default();
            own.entry(encoder).or_default().push(drift);
        }
    }
    let samples = ratings.samples.iter();
    let pairs: BTreeSet<(usize, Pair)> = samples
        .flat_map(|one| one.pairs.iter().map(|pair| (one.transformation, *pair)))
        .collect();
    let rewrite = |(transformation, pair): (usize, Pair)| {
        let rating = |scale: &Scale| {
            let rating = ratings.by_pair.get(&(*scale, transformation, pair))?;
            Some((*scale, rating.score()?))
        };
        let of_encoders = drifts.get(&(transformation, pair)).into_iter().flatten();
        JudgedRewrite {
            transformation: layout.transformations[transformation].label.clone(),
            original: number(pair.0),
            rewrite: number(pair.1),
            ratings: Scale::ALL.iter().filter_map(rating).collect(),
            drift: of_encoders
                .filter_map(|(encoder, drifts)| Some((encoders.id(*encoder).to_owned(), mean_of(drifts)?)))
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
type PairDrifts = HashMap<(usize, usize, usize, usize), HashMap<Pair, f64>>;

fn pair_drifts(results: &RunResults) -> PairDrifts {
    let one = |one: &DriftEntry| {
        let variant = Variant::transformed(one.transformation, one.seed);
        let pairs = pairs_of(&results.layout, &results.text_results, one.table, variant);
        let drift = pairs.into_iter().zip(&one.drift);
        let drift = drift.filter_map(|(pair, drift)| Some((pair, f64::from((*drift)?))));
        ((one.encoder, one.table, one.transformation, one.seed), drift.collect())
    };
    results.drifts.iter().map(one).collect()
}

/// Drift against rating of each text, averaged over its seeds; the caller names the row.
fn rated_drifts(ratings: &Ratings, drifts: &PairDrifts, encoder: usize, scope: RowScope) -> DriftRating {
    // Seed by seed.
    let mut texts: BTreeMap<u32, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for one in scope.samples(ratings) {
        let Some(drift) = drifts.get(&(encoder, one.table, one.transformation, one.seed)) else {
            continue;
        };
        for pair in &one.pairs {
            if let (Some(Rating::Score(score)), Some(drift)) = (scope.rating(ratings, *pair), drift.get(pair)) {
                let (drifts, scores) = texts.entry(pair.0).or_default();
                drifts.push(*drift);
                scores.push(score);
            }
        }
    }
    let averaged = texts
        .values()
        .filter_map(|(drifts, scores)| Some((stats::mean(drifts)?, stats::mean(scores)?)));
    let (drifts, scores): (Vec<_>, Vec<_>) = averaged.unzip();
    DriftRating::of(scope.scale, &drifts, &scores)
}

#[cfg(test)]
mod tests {
    use isomer_proto::common::v1::Usage;

    use super::*;
    use crate::judging::JudgeSettings;

    fn judge(id: &str, digest: &str) -> JudgePlan {
        JudgePlan {
            judging: JudgeSettings {
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
        let mut text_results = TextResults::default();
        for (id, digest) in [
            ("local:a", "77"),
            ("openai:gemma3:27b@http://one/v1", ""),
            ("house", ""),
        ] {
            text_results.generators.insert(id.to_owned(), digest.to_owned());
        }
        let own = |id: &str, digest: &str| own_texts(&judge(id, digest), &text_results);
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
