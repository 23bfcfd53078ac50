//! Measures scores, flips and agreement of lists, by data set and over data sets.

use super::{
    Change, ComparisonInputs, DatasetDiff, DiffError, DiffGroup, DiffOptions, DiffRow, Flips, ListAgreement, Right,
    ScoredItems, ThresholdOf,
    agreement::{self, Lists, lists},
    flips::{self, Tally, tally},
    worst,
};
use crate::{
    DatasetInfo,
    evidence::Evidence,
    items::ScoreKey,
    profile::{LEVEL, Replicates, Sum, over_datasets},
    task::TaskType,
};

/// Data sets with their measurements.
pub(super) struct DatasetMeasurements<'a> {
    /// Labels of the transformations.
    transformations: &'a [String],
    seeds: usize,
    datasets: Vec<DatasetMeasurement>,
}

struct DatasetMeasurement {
    diff: DatasetDiff,
    group: String,
    /// Scores of both encoders in points: the original, then every transformation and seed.
    scores: [Vec<f64>; 2],
    /// The same scores, old then new, over resamples of the items; absent without items.
    replicates: Option<Replicates>,
    /// One entry for the originals and for each transformation; empty without flips.
    tallies: Vec<Tally>,
    /// One entry for the originals and for each transformation; empty without result lists.
    lists: Vec<Lists>,
}

impl<'a> DatasetMeasurements<'a> {
    pub(super) fn new(inputs: &'a ComparisonInputs<'a>) -> Result<Self, DiffError> {
        let report = inputs.sides[0].report;
        let of = |name: &String| {
            let info = report.datasets.iter().find(|info| info.name == *name);
            info.map(|info| dataset(inputs, info))
        };
        Ok(Self {
            transformations: &inputs.shared.transformations,
            seeds: inputs.shared.seeds.len(),
            datasets: inputs.shared.datasets.iter().filter_map(of).collect::<Result<_, _>>()?,
        })
    }

    pub(super) fn datasets(self) -> Vec<DatasetDiff> {
        self.datasets.into_iter().map(|own| own.diff).collect()
    }

    pub(super) fn rows_of_all(&self) -> Vec<DiffRow> {
        self.rows(&self.datasets.iter().collect::<Vec<_>>())
    }

    /// The rows of each language; empty if there is only one.
    pub(super) fn groups(&self) -> Vec<DiffGroup> {
        let mut languages: Vec<&str> = self.datasets.iter().map(|own| own.diff.language.as_str()).collect();
        languages.sort_unstable();
        languages.dedup();
        if languages.len() < 2 {
            return Vec::new();
        }
        let group = |language: &str| {
            let own: Vec<&DatasetMeasurement> = self
                .datasets
                .iter()
                .filter(|own| own.diff.language == language)
                .collect();
            DiffGroup {
                language: language.to_owned(),
                datasets: own.iter().map(|own| own.diff.dataset.clone()).collect(),
                rows: self.rows(&own),
            }
        };
        languages.into_iter().map(group).collect()
    }

    /// Rows over some data sets: members of a group are averaged first, then groups, as in the
    /// profile. Decisions are added up.
    fn rows(&self, datasets: &[&DatasetMeasurement]) -> Vec<DiffRow> {
        let variants = std::iter::once(None).chain(self.transformations.iter().map(Some));
        variants
            .enumerate()
            .map(|(v, label)| {
                let variant = v.checked_sub(1);
                let average = |of: &dyn Fn(&DatasetMeasurement) -> f64| -> f64 {
                    let groups = members(datasets);
                    let means = groups
                        .iter()
                        .map(|own| own.iter().map(|d| of(datasets[*d])).sum::<f64>() / own.len() as f64);
                    means.sum::<f64>() / groups.len() as f64
                };
                let all: Option<Vec<&Replicates>> = datasets.iter().map(|own| own.replicates.as_ref()).collect();
                let interval = |sum: &Sum| {
                    let resampled = over_datasets(&members(datasets), all.as_deref()?, sum)?;
                    Some(resampled.interval(LEVEL))
                };
                let score = |side: usize, variant| average(&|own| on(&own.scores[side], &level(self, variant)));
                let mut row = numbers(self, variant, label, &score, &interval);
                row.flips = flips_over(datasets, v);
                row.lists = lists_over(datasets, v);
                row
            })
            .collect()
    }
}

/// The positions of the members of each group.
fn members(datasets: &[&DatasetMeasurement]) -> Vec<Vec<usize>> {
    let mut members: Vec<Vec<usize>> = Vec::new();
    for (d, own) in datasets.iter().enumerate() {
        match members.iter_mut().find(|known| datasets[known[0]].group == own.group) {
            Some(known) => known.push(d),
            None => members.push(vec![d]),
        }
    }
    members
}

/// One factor for each score of an encoder, which gives the variant's mean over seeds.
fn level(measurements: &DatasetMeasurements<'_>, variant: Option<usize>) -> Vec<f64> {
    let seeds = measurements.seeds;
    let mut terms = vec![0.0; 1 + measurements.transformations.len() * seeds];
    match variant {
        None => terms[0] = 1.0,
        Some(t) => terms[1 + t * seeds..1 + (t + 1) * seeds].fill(1.0 / seeds as f64),
    }
    terms
}

fn on(scores: &[f64], terms: &[f64]) -> f64 {
    let counted = terms.iter().zip(scores).filter(|(term, _)| **term != 0.0);
    counted.map(|(term, score)| term * score).sum()
}

/// The scores of a row, and their differences.
fn numbers(
    measurements: &DatasetMeasurements<'_>,
    variant: Option<usize>,
    label: Option<&String>,
    score: &dyn Fn(usize, Option<usize>) -> f64,
    interval: &dyn Fn(&Sum) -> Option<crate::evidence::interval::DeltaInterval>,
) -> DiffRow {
    let own = level(measurements, variant);
    let change = Sum(own.iter().map(|term| -term).chain(own.iter().copied()).collect());
    let (old, new) = (score(0, variant), score(1, variant));
    let mut row = DiffRow {
        transformation: label.cloned(),
        old,
        new,
        change: Change {
            value: new - old,
            interval: interval(&change),
        },
        old_drop: None,
        new_drop: None,
        drop_change: None,
        flips: None,
        lists: None,
    };
    if variant.is_some() {
        let drop: Vec<f64> = level(measurements, None)
            .iter()
            .zip(&own)
            .map(|(original, own)| original - own)
            .collect();
        let sum = Sum(drop.iter().map(|term| -term).chain(drop.iter().copied()).collect());
        let (old_drop, new_drop) = (score(0, None) - old, score(1, None) - new);
        (row.old_drop, row.new_drop) = (Some(old_drop), Some(new_drop));
        row.drop_change = Some(Change {
            value: new_drop - old_drop,
            interval: interval(&sum),
        });
    }
    row
}

/// Measures a data set.
fn dataset(inputs: &ComparisonInputs<'_>, info: &DatasetInfo) -> Result<DatasetMeasurement, DiffError> {
    let ComparisonInputs { shared, options, .. } = *inputs;
    let refuse = |side, why: String| DiffError::Items { side, why };
    let variants: Vec<Option<&String>> = std::iter::once(None)
        .chain(shared.transformations.iter().map(Some))
        .collect();
    let keys: Vec<Vec<ScoreKey<'_>>> = variants
        .iter()
        .map(|label| match label {
            None => vec![(info.name.as_str(), None, None)],
            Some(label) => {
                let of_seed = |seed: &u64| (info.name.as_str(), Some(label.as_str()), Some(*seed));
                shared.seeds.iter().map(of_seed).collect()
            }
        })
        .collect();
    let names = ["OLD", "NEW"];
    let mut scores: [Vec<f64>; 2] = Default::default();
    let mut items: [Vec<Vec<ScoredItems<'_>>>; 2] = Default::default();
    for side in 0..2 {
        for own in &keys {
            let mut of_variant = Vec::with_capacity(own.len());
            for key in own {
                let lacking = || refuse(names[side], format!("{} has no score of some of its texts", info.name));
                let row = inputs.rows[side].get(key).ok_or_else(lacking)?;
                scores[side].push(row.main_score * 100.0);
                of_variant.push(inputs.scored(side, info.task, *key).ok_or_else(lacking)?);
            }
            items[side].push(of_variant);
        }
    }
    let clusters = match inputs.sides.map(|side| side.items.dataset(&info.name)) {
        [Some(old), Some(new)] if old.clusters == new.clusters => &old.clusters,
        [Some(_), Some(_)] => {
            return Err(refuse(
                "NEW",
                format!("the items of {} are grouped differently", info.name),
            ));
        }
        [None, _] => return Err(refuse("OLD", format!("the items of {} are not kept", info.name))),
        [_, None] => return Err(refuse("NEW", format!("the items of {} are not kept", info.name))),
    };
    if info.task == TaskType::Retrieval {
        for side in 0..2 {
            if items[side].iter().flatten().any(|one| one.lists.is_none()) {
                let why = format!("the result lists of {} are not kept; run the check again", info.name);
                return Err(refuse(names[side], why));
            }
        }
    }
    let replicates = joint(&items, &scores, clusters, &info.name);
    let right = rules(&items, options);
    let mut own = DatasetMeasurement {
        diff: DatasetDiff {
            dataset: info.name.clone(),
            task: info.task,
            language: language(info),
            main_score: info.main_score.clone(),
            items: clusters.len(),
            clusters: clusters.iter().collect::<std::collections::HashSet<_>>().len(),
            right_old: right.as_ref().ok().map(|right| right[0]),
            right_new: right.as_ref().ok().map(|right| right[1]),
            no_flips: right.as_ref().err().cloned(),
            no_lists: None,
            no_intervals: replicates.as_ref().err().cloned(),
            rows: Vec::new(),
            worst: Vec::new(),
        },
        group: if info.group.is_empty() {
            info.name.clone()
        } else {
            info.group.clone()
        },
        scores,
        replicates: replicates.ok(),
        tallies: Vec::new(),
        lists: Vec::new(),
    };
    for (old, new) in items[0].iter().zip(&items[1]) {
        if let Ok(right) = &right {
            let tally = tally(right, old, new, clusters);
            let lacking = || refuse("NEW", format!("the decisions on {} do not fit its items", info.name));
            own.tallies.push(tally.ok_or_else(lacking)?);
        }
        if info.task == TaskType::Retrieval && own.diff.no_lists.is_none() {
            match lists(old, new, options, clusters, &info.name) {
                Ok(agreement) => own.lists.push(agreement),
                Err(why) => own.diff.no_lists = Some(why),
            }
        }
    }
    if own.diff.no_lists.is_some() {
        own.lists.clear();
    }
    let measurements = DatasetMeasurements {
        transformations: &shared.transformations,
        seeds: shared.seeds.len(),
        datasets: vec![own],
    };
    let rows = measurements.rows_of_all();
    let mut own = measurements
        .datasets
        .into_iter()
        .next()
        .ok_or_else(|| refuse("NEW", "no data set".to_owned()))?;
    own.diff.rows = rows;
    own.diff.worst = worst::items(inputs, &info.name, right.as_ref().ok(), &items, &keys);
    Ok(own)
}

/// The language of a data set, or the two languages of its pairs.
pub(crate) fn language(info: &DatasetInfo) -> String {
    match (info.languages.as_slice(), &info.language) {
        ([], None) => "not known".to_owned(),
        ([], Some(language)) => language.clone(),
        (languages, _) => languages.join("–"),
    }
}

/// All scores of both encoders over the same resamples, old first.
fn joint(
    items: &[Vec<Vec<ScoredItems<'_>>>; 2],
    scores: &[Vec<f64>; 2],
    clusters: &[u32],
    name: &str,
) -> Result<Replicates, String> {
    let evidence: Option<Vec<&Evidence>> = items.iter().flatten().flatten().map(|one| one.evidence).collect();
    let evidence = evidence.ok_or_else(|| "its main score is not made of items".to_owned())?;
    let used: Vec<bool> = evidence.first().map(|first| first.used()).unwrap_or_default();
    if evidence.iter().any(|one| one.used() != used) {
        return Err("its scores are made of different items".to_owned());
    }
    Replicates::of(scores.concat(), &evidence, clusters, name)
}

/// The definition of a right item, for each encoder.
fn rules(items: &[Vec<Vec<ScoredItems<'_>>>; 2], options: DiffOptions) -> Result<[Right; 2], String> {
    let original = |side: usize| items[side].first().and_then(|own| own.first()).copied();
    let (Some(old), Some(new)) = (original(0), original(1)) else {
        return Err("it has no items".to_owned());
    };
    let first = Right::on(old, options.k)?;
    match (first, options.threshold) {
        (Right::Threshold { .. }, ThresholdOf::Each) => {
            Ok([first, Right::on(new, options.k).map_err(|why| format!("NEW: {why}"))?])
        }
        _ => Ok([first, first]),
    }
}

fn flips_over(datasets: &[&DatasetMeasurement], variant: usize) -> Option<Flips> {
    let tallies: Vec<&Tally> = datasets.iter().filter_map(|own| own.tallies.get(variant)).collect();
    (!tallies.is_empty()).then(|| flips::summary(&tallies))
}

fn lists_over(datasets: &[&DatasetMeasurement], variant: usize) -> Option<ListAgreement> {
    let own: Vec<&DatasetMeasurement> = datasets
        .iter()
        .copied()
        .filter(|own| own.lists.len() > variant)
        .collect();
    let all: Vec<&Lists> = own.iter().map(|own| &own.lists[variant]).collect();
    agreement::over(&all, &members(&own))
}
