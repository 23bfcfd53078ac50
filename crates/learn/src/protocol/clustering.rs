//! Clustering: many clusterings of samples (mteb's current form), or one a set (the older form,
//! HTEB's too).

use rayon::prelude::*;

use super::mean_and_std;
use crate::{
    LearnError, Vectors,
    kmeans::MiniBatchKMeans,
    labels::Classes,
    metrics::{Agreement, agreement},
    random::PythonRandom,
};

/// mteb's clustering of samples (`AbsTaskClustering`, "fast", v2).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FastClustering {
    /// Share of the documents that are clustered; `None` with `max_documents` `None` takes all.
    pub max_fraction: Option<f64>,
    /// Documents that are clustered, instead of a share.
    pub max_documents: Option<usize>,
    /// Clusterings of each level.
    pub clusterings: usize,
    /// Documents drawn, with replacement, for each.
    pub documents_per_clustering: usize,
    /// Mini-batch of the k-means.
    pub batch_size: usize,
    /// Levels of labels at most.
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

/// A label that may be missing on a level, told as mteb tells it.
pub trait LevelLabel: Ord + Clone + std::fmt::Display {
    /// What stands for a missing label: mteb puts -1, which it leaves out where labels are numbers
    /// and takes for a class of its own, `-1`, where they are strings.
    fn missing() -> Option<Self>;
    /// Whether this label means "leave the document out".
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
    /// As mteb names it: `Level 0` and so on.
    pub name: String,
    /// Per clustering.
    pub v_measures: Vec<f64>,
    /// Per clustering.
    pub ami_scores: Vec<f64>,
    /// Per clustering: which documents (of those clustered, after those left out) were drawn, and
    /// their clusters.
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
    /// The levels; one without a name's meaning, `Level 0`, in the older form.
    pub levels: Vec<Level>,
}

impl FastClustering {
    /// The documents to encode and cluster. mteb keeps one `random.Random(42)` a task and draws on
    /// from it for every split and subset: hand the same `random` to this and then to
    /// [`Self::score`], split after split.
    ///
    /// # Errors
    /// Both limits set.
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

    /// Clusters and scores the documents chosen. `labels` holds each one's labels, from the
    /// coarsest level on.
    ///
    /// # Errors
    /// Vectors and labels that do not match, no labels at all, fewer draws than classes.
    pub fn score<L: LevelLabel>(
        &self,
        random: &mut PythonRandom,
        vectors: Vectors<'_>,
        labels: &[Vec<L>],
    ) -> Result<ClusteringReport, LearnError> {
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
                let clusters = kmeans.fit_rows(vectors, &positions)?.labels;
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

/// Whether a set of the older form has more than one label; where it has not, mteb scores it 1 and
/// encodes nothing.
pub fn legacy_set_needs_vectors<L: Ord>(labels: &[L]) -> bool {
    Classes::of(labels).len() > 1
}

/// V-measure of one set in the older form (`AbsTaskClusteringLegacy`): one k-means with
/// mini-batches of 500. mteb's seed is 42, HTEB's are 1337, 1338 and 1339.
///
/// # Errors
/// Vectors and labels that do not match.
pub fn legacy_set_score<L: Ord>(vectors: Vectors<'_>, labels: &[L], seed: u32) -> Result<f64, LearnError> {
    Ok(clustering_seed_score(vectors, labels, seed)?.0.v_measure)
}

/// One clustering into as many clusters as there are labels, by mini-batches of 500: its agreement
/// with the labels, and each vector's cluster.
///
/// # Errors
/// Vectors and labels that do not match.
pub fn clustering_seed_score<L: Ord>(
    vectors: Vectors<'_>,
    labels: &[L],
    seed: u32,
) -> Result<(Agreement, Vec<usize>), LearnError> {
    const BATCH: usize = 500;
    vectors.check_labels("labels", labels.len())?;
    let classes = Classes::of(labels);
    let clusters = MiniBatchKMeans::new(classes.len(), BATCH, seed).fit(vectors)?.labels;
    Ok((agreement(&classes.numbers(labels), &clusters), clusters))
}

/// The report of the older form from the V-measure of each set.
///
/// # Errors
/// No sets.
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
