//! Clustering: many clusterings of samples (mteb's current form), or one per set (the older form,
//! also HTEB's).

use ndarray::ArrayView2;
use rayon::prelude::*;

use super::mean_and_std;
use crate::{
    LearnError,
    kmeans::MiniBatchKMeans,
    labels::Classes,
    metrics::{Agreement, agreement},
    random::PythonRandom,
    vectors::{FiniteMatrix, Vectors},
};

/// mteb's clustering of samples (`AbsTaskClustering`, "fast", v2).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FastClustering {
    /// Fraction of the documents that are clustered; if this and `max_documents` are `None`, all
    /// are.
    pub max_fraction: Option<f64>,
    /// Number of documents that are clustered, instead of a fraction.
    pub max_documents: Option<usize>,
    /// Number of clusterings per level.
    pub clusterings: usize,
    /// Documents drawn, with replacement, for each clustering.
    pub documents_per_clustering: usize,
    /// Size of the k-means mini-batches.
    pub batch_size: usize,
    /// Maximum number of label levels.
    pub max_depth: Option<usize>,
    /// Seed of every k-means.
    pub seed: u32,
}

impl Default for FastClustering {
    fn default() -> Self {
        Self {
            max_fraction: Some(0.04),
            max_documents: None,
            clusterings: 10,
            documents_per_clustering: 16_384,
            batch_size: 512,
            max_depth: None,
            seed: 42,
        }
    }
}

/// A label that may be missing on a level, handled as in mteb.
pub trait LevelLabel: Ord + Clone + std::fmt::Display {
    /// The value for a missing label. mteb uses -1. If labels are numbers, it leaves the document
    /// out; if they are strings, it treats `-1` as a separate class.
    fn missing() -> Option<Self>;
    /// Whether this label means that the document is left out.
    fn is_left_out(&self) -> bool;
}

impl LevelLabel for String {
    fn missing() -> Option<Self> {
        Some("-1".to_owned())
    }

    fn is_left_out(&self) -> bool {
        false
    }
}

impl LevelLabel for i64 {
    fn missing() -> Option<Self> {
        None
    }

    fn is_left_out(&self) -> bool {
        *self == -1
    }
}

/// Scores of one level's clusterings.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// mteb's name of the level: `Level 0` and so on.
    pub name: String,
    pub v_measures: Vec<f64>,
    /// Adjusted mutual information of each clustering.
    pub ami_scores: Vec<f64>,
    /// Per clustering: the drawn documents (by index among those clustered, without those left out)
    /// and their clusters.
    pub assignments: Vec<(Vec<usize>, Vec<usize>)>,
}

/// Scores of all clusterings.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusteringReport {
    /// Mean V-measure over levels and clusterings: mteb's main score.
    pub v_measure: f64,
    /// Its population standard deviation.
    pub v_measure_std: f64,
    /// Mean adjusted mutual information; `None` in the older form.
    pub ami: Option<f64>,
    /// Its population standard deviation.
    pub ami_std: Option<f64>,
    /// The levels. The older form has a single one, `Level 0`.
    pub levels: Vec<Level>,
}

impl FastClustering {
    /// The documents to encode and cluster. mteb uses one `random.Random(42)` per task for all
    /// splits and subsets, so pass the same `random` to this method and then to [`Self::score`],
    /// split after split.
    ///
    /// # Errors
    /// If both limits are set.
    pub fn documents(&self, random: &mut PythonRandom, documents: usize) -> Result<Vec<usize>, LearnError> {
        let most = match (self.max_fraction, self.max_documents) {
            (Some(_), Some(_)) => {
                return Err(LearnError::Setting {
                    name: "max_fraction and max_documents",
                    value: "both set".to_owned(),
                    expected: "one of them",
                });
            }
            (None, None) => return Ok((0..documents).collect()),
            (Some(fraction), None) => (fraction * documents as f64) as usize,
            (None, Some(most)) => most,
        };
        Ok(random.sample(documents, most.min(documents)))
    }

    /// Clusters and scores the chosen documents. `labels` contains the labels of each, coarsest
    /// level first.
    ///
    /// # Errors
    /// If vectors and labels do not match, there are no labels, or there are fewer draws than
    /// classes.
    pub fn score<L: LevelLabel>(
        &self,
        random: &mut PythonRandom,
        vectors: ArrayView2<'_, f32>,
        labels: &[Vec<L>],
    ) -> Result<ClusteringReport, LearnError> {
        let vectors = FiniteMatrix::new("vectors", vectors)?;
        let vectors = vectors.vectors();
        vectors.check_labels("labels", labels.len())?;
        let deepest = labels.iter().map(Vec::len).max().unwrap_or(0);
        let depth = self.max_depth.map_or(deepest, |most| most.min(deepest));
        if depth == 0 || self.clusterings == 0 {
            return Err(LearnError::Setting {
                name: "levels × clusterings",
                value: "0".to_owned(),
                expected: "at least 1",
            });
        }
        let levels: Result<Vec<Level>, LearnError> = (0..depth)
            .map(|level| self.level(random, vectors, labels, level))
            .collect();
        Ok(ClusteringReport::new(levels?))
    }

    fn level<L: LevelLabel>(
        &self,
        random: &mut PythonRandom,
        vectors: Vectors<'_>,
        labels: &[Vec<L>],
        level: usize,
    ) -> Result<Level, LearnError> {
        let (rows, labels): (Vec<usize>, Vec<L>) = labels
            .iter()
            .enumerate()
            .filter_map(|(row, labels)| Some((row, labels.get(level).cloned().or_else(L::missing)?)))
            .filter(|(_, label)| !label.is_left_out())
            .unzip();
        if rows.is_empty() {
            return Err(LearnError::Empty {
                what: "documents with a label on this level",
                rows: 0,
                cols: vectors.cols(),
            });
        }
        let classes = Classes::of(&labels);
        let classes_of = classes.numbers(&labels);
        let kmeans = MiniBatchKMeans::new(classes.len(), self.batch_size, self.seed);
        let draws: Vec<Vec<usize>> = (0..self.clusterings)
            .map(|_| random.choices(rows.len(), self.documents_per_clustering))
            .collect();
        let done: Result<Vec<(Agreement, Vec<usize>)>, LearnError> = draws
            .par_iter()
            .map(|drawn| {
                let positions: Vec<usize> = drawn.iter().map(|i| rows[*i]).collect();
                let clusters = kmeans.fit_vectors(vectors, &positions)?.labels;
                let truth: Vec<usize> = drawn.iter().map(|i| classes_of[*i]).collect();
                Ok((agreement(&truth, &clusters), clusters))
            })
            .collect();
        let (scores, clusters): (Vec<Agreement>, Vec<Vec<usize>>) = done?.into_iter().unzip();
        Ok(Level {
            name: format!("Level {level}"),
            v_measures: scores.iter().map(|s| s.v_measure).collect(),
            ami_scores: scores.iter().map(|s| s.ami).collect(),
            assignments: draws.into_iter().zip(clusters).collect(),
        })
    }
}

impl ClusteringReport {
    fn new(levels: Vec<Level>) -> Self {
        let all = |of: fn(&Level) -> &Vec<f64>| mean_and_std(&levels.iter().flat_map(of).copied().collect::<Vec<_>>());
        let (v_measure, v_measure_std) = all(|l| &l.v_measures);
        let (ami, ami_std) = all(|l| &l.ami_scores);
        Self {
            v_measure,
            v_measure_std,
            ami: Some(ami),
            ami_std: Some(ami_std),
            levels,
        }
    }

    /// The scores by mteb's keys.
    pub fn named(&self) -> Vec<(&'static str, f64)> {
        let mut named = vec![("v_measure", self.v_measure), ("v_measure_std", self.v_measure_std)];
        named.extend(self.ami.map(|v| ("ami", v)));
        named.extend(self.ami_std.map(|v| ("ami_std", v)));
        named
    }
}

/// Whether a set of the older form has more than one label. If not, mteb scores it 1 and encodes
/// nothing.
pub fn legacy_set_needs_vectors<L: Ord>(labels: &[L]) -> bool {
    Classes::of(labels).len() > 1
}

/// V-measure of one set in the older form (`AbsTaskClusteringLegacy`): one k-means with
/// mini-batches of 500. mteb's seed is 42, HTEB's are 1337, 1338 and 1339.
///
/// # Errors
/// If vectors and labels do not match.
pub fn legacy_set_score<L: Ord>(vectors: ArrayView2<'_, f32>, labels: &[L], seed: u32) -> Result<f64, LearnError> {
    Ok(clustering_seed_score(vectors, labels, seed)?.0.v_measure)
}

/// One clustering with as many clusters as there are distinct labels, in mini-batches of 500.
/// Returns its agreement with the labels, and each vector's cluster.
///
/// # Errors
/// If vectors and labels do not match.
pub fn clustering_seed_score<L: Ord>(
    vectors: ArrayView2<'_, f32>,
    labels: &[L],
    seed: u32,
) -> Result<(Agreement, Vec<usize>), LearnError> {
    const BATCH: usize = 500;
    let vectors = FiniteMatrix::new("vectors", vectors)?;
    let vectors = vectors.vectors();
    vectors.check_labels("labels", labels.len())?;
    let classes = Classes::of(labels);
    let positions: Vec<usize> = (0..vectors.rows()).collect();
    let kmeans = MiniBatchKMeans::new(classes.len(), BATCH, seed);
    let clusters = kmeans.fit_vectors(vectors, &positions)?.labels;
    Ok((agreement(&classes.numbers(labels), &clusters), clusters))
}

/// The report of the older form from the V-measure of each set.
///
/// # Errors
/// If there are no sets.
pub fn legacy_report(v_measures: Vec<f64>) -> Result<ClusteringReport, LearnError> {
    if v_measures.is_empty() {
        return Err(LearnError::Empty {
            what: "sets to cluster",
            rows: 0,
            cols: 0,
        });
    }
    let (v_measure, v_measure_std) = mean_and_std(&v_measures);
    Ok(ClusteringReport {
        v_measure,
        v_measure_std,
        ami: None,
        ami_std: None,
        levels: vec![Level {
            name: "Level 0".to_owned(),
            v_measures,
            ami_scores: Vec::new(),
            assignments: Vec::new(),
        }],
    })
}
