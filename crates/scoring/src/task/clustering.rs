//! Clustering: do clusters of vectors follow labels?

use std::collections::BTreeMap;

use isomer_learn::{
    protocol::{self, FastClustering},
    random::PythonRandom,
};
use ndarray::{ArrayView2, Axis};

use super::{Profile, ScoreError, Scores, TaskType};
use crate::{
    evidence::{Clustering, Evidence},
    stats::{describe::population_sd, mean},
};

/// mteb's seed.
const SEED: u32 = 42;
/// Seeds of HTEB's three runs.
const HTEB_SEEDS: [u32; 3] = [1337, 1338, 1339];

#[derive(Debug, Clone, Copy)]
pub struct ClusteringInput<'a> {
    /// One vector per document.
    pub vectors: ArrayView2<'a, f32>,
    pub labels: &'a [String],
    /// Documents of each set, for data whose rows are sets. Empty: the documents are one set.
    pub sets: &'a [usize],
    /// Use the older form under `mteb-v2` too, for data of single documents.
    pub legacy: bool,
    /// Current form: fraction of the documents that are clustered; `None`: mteb's 0.04.
    pub max_fraction: Option<f64>,
}

/// Scores clustering by V-measure.
///
/// * `mteb-v2`, documents: ten mini-batch k-means on documents drawn with replacement from a
///   fraction of them; `v_measure` and `ami` with population standard deviations.
/// * `mteb-v2`, sets, and `mteb-v1`: one mini-batch k-means per set.
/// * `hteb`: the same with each of the seeds 1337, 1338 and 1339, averaged; `v_measure_std` is over
///   the seeds.
///
/// # Errors
/// If vectors, labels and sets do not match, there are no documents, or there is only one label.
pub fn score_clustering(input: &ClusteringInput<'_>, profile: Profile) -> Result<Scores, ScoreError> {
    let task = TaskType::Clustering;
    let main_key = task
        .main_score(profile)
        .ok_or(ScoreError::NotServed { task, profile })?;
    if input.labels.is_empty() {
        return Err(ScoreError::none(main_key, "documents"));
    }
    ScoreError::rows("labels", input.vectors.nrows(), input.labels.len())?;
    if input.labels.windows(2).all(|w| w[0] == w[1]) {
        let reason = format!("all {} labels are `{}`", input.labels.len(), input.labels[0]);
        return Err(ScoreError::Undefined {
            metric: main_key,
            reason,
        });
    }
    let whole = [input.labels.len()];
    let sets = if input.sets.is_empty() { &whole[..] } else { input.sets };
    ScoreError::rows("documents of all sets", input.labels.len(), sets.iter().sum())?;
    if let Some(index) = sets.iter().position(|size| *size == 0) {
        let problem = "it has no documents".to_owned();
        return Err(ScoreError::Item {
            what: "sets",
            index,
            problem,
        });
    }
    match profile {
        Profile::MtebV2 if input.sets.is_empty() && !input.legacy => fast(input, main_key),
        Profile::MtebV2 | Profile::MtebV1 => {
            let (values, clusterings) = per_set(input, sets, SEED)?;
            let report = protocol::legacy_report(values.clone())?;
            let all = report
                .named()
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect();
            let items = BTreeMap::from([("v_measure".to_owned(), values)]);
            let scores = Scores::new(main_key, all, sets.len())?.with_items(items);
            Ok(scores.with_evidence(evidence(input.labels, clusterings)))
        }
        Profile::Hteb => {
            let runs: Vec<(Vec<f64>, Vec<Clustering>)> = HTEB_SEEDS
                .iter()
                .map(|seed| per_set(input, sets, *seed))
                .collect::<Result<_, _>>()?;
            let (runs, clusterings): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
            let means: Vec<f64> = runs.iter().filter_map(|run| mean(run)).collect();
            let all = BTreeMap::from([
                ("v_measure".to_owned(), mean(&means).unwrap_or(f64::NAN)),
                ("v_measure_std".to_owned(), population_sd(&means).unwrap_or(0.0)),
            ]);
            let of_set = |set: usize| runs.iter().map(|run| run[set]).sum::<f64>() / runs.len() as f64;
            let items = BTreeMap::from([("v_measure".to_owned(), (0..sets.len()).map(of_set).collect())]);
            let scores = Scores::new(main_key, all, sets.len())?.with_items(items);
            Ok(scores.with_evidence(evidence(input.labels, clusterings.concat())))
        }
    }
}

/// V-measure of each set, and its clusters. A set with one label scores 1, as in mteb.
fn per_set(input: &ClusteringInput<'_>, sets: &[usize], seed: u32) -> Result<(Vec<f64>, Vec<Clustering>), ScoreError> {
    let (mut rest, mut labels, mut first) = (input.vectors, input.labels, 0);
    let mut values = Vec::with_capacity(sets.len());
    let mut clusterings = Vec::with_capacity(sets.len());
    for size in sets {
        let (own, others) = rest.split_at(Axis(0), *size);
        let (own_labels, other_labels) = labels.split_at(*size);
        (rest, labels) = (others, other_labels);
        let (value, clusters) = if protocol::legacy_set_needs_vectors(own_labels) {
            let (agreement, clusters) = protocol::clustering_seed_score(own, own_labels, seed)?;
            (agreement.v_measure, clusters)
        } else {
            (1.0, vec![0; *size])
        };
        values.push(value);
        clusterings.push(Clustering {
            items: (first..first + size).map(number).collect(),
            clusters: clusters.into_iter().map(number).collect(),
            counts: Vec::new(),
        });
        first += size;
    }
    Ok((values, clusterings))
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Documents' numbered labels, with their clusters.
fn evidence(labels: &[String], clusterings: Vec<Clustering>) -> Evidence {
    let mut distinct: Vec<&String> = labels.iter().collect();
    distinct.sort_unstable();
    distinct.dedup();
    Evidence::VMeasure {
        classes: labels
            .iter()
            .map(|label| distinct.binary_search(&label).map_or(u32::MAX, number))
            .collect(),
        clusterings,
    }
}

/// The documents of each clustering, their clusters, and how often each was drawn.
fn drawn(chosen: &[usize], assignments: &[(Vec<usize>, Vec<usize>)]) -> Vec<Clustering> {
    let one = |(drawn, clusters): &(Vec<usize>, Vec<usize>)| {
        // Every draw of a document has the same vector and therefore the same cluster.
        let mut counts: BTreeMap<(usize, usize), u32> = BTreeMap::new();
        for (draw, cluster) in drawn.iter().zip(clusters) {
            *counts.entry((chosen[*draw], *cluster)).or_default() += 1;
        }
        Clustering {
            items: counts.keys().map(|(document, _)| number(*document)).collect(),
            clusters: counts.keys().map(|(_, cluster)| number(*cluster)).collect(),
            counts: counts.into_values().collect(),
        }
    };
    assignments.iter().map(one).collect()
}

/// mteb's current form.
fn fast(input: &ClusteringInput<'_>, main_key: &'static str) -> Result<Scores, ScoreError> {
    let default = FastClustering::default();
    let clustering = FastClustering {
        max_fraction: input.max_fraction.or(default.max_fraction),
        ..default
    };
    let mut random = PythonRandom::new(u64::from(SEED));
    let chosen = clustering.documents(&mut random, input.labels.len())?;
    if chosen.is_empty() {
        let share = clustering.max_fraction.unwrap_or(1.0);
        let reason = format!(
            "a share of {share} of {} documents is less than one document; raise max_fraction or give more documents",
            input.labels.len()
        );
        return Err(ScoreError::Undefined {
            metric: main_key,
            reason,
        });
    }
    let vectors = input.vectors.select(Axis(0), &chosen);
    let labels: Vec<Vec<String>> = chosen.iter().map(|row| vec![input.labels[*row].clone()]).collect();
    let report = clustering.score(&mut random, vectors.view(), &labels)?;
    let all = report
        .named()
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    let runs = report
        .levels
        .iter()
        .flat_map(|level| level.v_measures.iter().copied())
        .collect();
    let items = BTreeMap::from([("v_measure".to_owned(), runs)]);
    // The items here are the clusterings, because a document has no V-measure.
    let clusterings = clustering.clusterings;
    let assignments: Vec<_> = report
        .levels
        .iter()
        .flat_map(|level| level.assignments.clone())
        .collect();
    let scores = Scores::new(main_key, all, clusterings)?.with_items(items);
    Ok(scores.with_evidence(evidence(input.labels, drawn(&chosen, &assignments))))
}
