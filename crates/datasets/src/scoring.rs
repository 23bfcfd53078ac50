//! Divides the vectors of a dataset's texts by role, and scores them.

use std::collections::HashSet;

use super::{Dataset, Labels, pairs};
use isomer_scoring::{
    metric::{Similarity, search::Hit},
    task::{
        ClassificationInput, ClsdInput, ClusteringInput, Profile, RerankingInput, RetrievalInput, RetrievalLabels,
        ScoreError, Scores, SearchMode, SummarisationInput, score_bitext, score_classification, score_clsd,
        score_clustering, score_found, score_graded_ranking, score_pair_classification, score_reranking,
        score_retrieval, score_sts, score_summarisation,
    },
};
use ndarray::{ArrayView2, Axis};
use serde::{Deserialize, Serialize};

impl Dataset {
    /// Scores vectors, one row per entry of [`Dataset::texts`], comparing them by cosine.
    ///
    /// # Errors
    /// If the number of vectors does not match, or a metric is undefined on them.
    pub fn score(&self, vectors: ArrayView2<'_, f32>, profile: Profile) -> Result<Scores, ScoreError> {
        self.score_with(vectors, profile, Similarity::Cosine)
    }

    /// Like [`Dataset::score`], with the similarity for which the encoder's vectors are meant. It
    /// affects retrieval and the scores that mteb computes with the model's own similarity.
    ///
    /// # Errors
    /// Those of [`Dataset::score`].
    pub fn score_with(
        &self,
        vectors: ArrayView2<'_, f32>,
        profile: Profile,
        own: Similarity,
    ) -> Result<Scores, ScoreError> {
        self.score_searching(vectors, profile, own, SearchMode::Exact)
    }

    /// Like [`Dataset::score_with`], with a search method for the documents of retrieval; other
    /// tasks ignore it.
    ///
    /// # Errors
    /// Those of [`Dataset::score`]; also if an index cannot be built.
    pub fn score_searching(
        &self,
        vectors: ArrayView2<'_, f32>,
        profile: Profile,
        own: Similarity,
        search: SearchMode,
    ) -> Result<Scores, ScoreError> {
        if vectors.nrows() != self.texts.len() {
            return Err(ScoreError::Rows {
                what: "texts",
                expected: self.texts.len(),
                found: vectors.nrows(),
            });
        }
        let scores = self.labels.score(vectors, profile, own, search)?;
        match self.own_main_score(profile) {
            Some(main) => scores.with_main(main),
            None => Ok(scores),
        }
    }

    /// The main score, if it differs from the default for the kind of task. mteb defines such a
    /// score for a few data sets, the other profiles for none.
    pub fn own_main_score(&self, profile: Profile) -> Option<&'static str> {
        let entry = self.entry.filter(|_| profile == Profile::MtebV2)?;
        (self.task.main_score(profile) != Some(entry.metric.as_str())).then_some(entry.metric.as_str())
    }

    /// The labels of its retrieval; `None` for other tasks. Its texts are the queries, then the
    /// documents.
    pub fn retrieval(&self) -> Option<RetrievalLabels<'_>> {
        let Labels::Retrieval(labels) = &self.labels else {
            return None;
        };
        Some(RetrievalLabels {
            query_ids: &labels.query_ids,
            document_ids: &labels.document_ids,
            judgements: &labels.judgements,
            ignore_identical_ids: labels.ignore_identical_ids,
        })
    }

    /// Like [`Dataset::score_with`] for retrieval, from the documents that an exact search found
    /// for each query under [`RetrievalLabels::terms`].
    ///
    /// # Errors
    /// If the task is another one; otherwise those of [`score_found`].
    pub fn score_found(&self, hits: Vec<Vec<Hit>>, profile: Profile) -> Result<Scores, ScoreError> {
        self.score_labels(profile, |labels| score_found(labels, hits, profile))
    }

    /// The scores that `score` computes from the labels of retrieval, with the data set's own main
    /// score.
    ///
    /// # Errors
    /// If the task is another one; otherwise those of `score`.
    pub fn score_labels(
        &self,
        profile: Profile,
        score: impl FnOnce(&RetrievalLabels<'_>) -> Result<Scores, ScoreError>,
    ) -> Result<Scores, ScoreError> {
        let labels = self.retrieval().ok_or(ScoreError::NotServed {
            task: self.task,
            profile,
        })?;
        let scores = score(&labels)?;
        match self.own_main_score(profile) {
            Some(main) => scores.with_main(main),
            None => Ok(scores),
        }
    }

    /// The labels against which its vectors are scored.
    pub fn scoring(&self) -> Scoring {
        Scoring {
            texts: self.texts.len(),
            labels: self.labels.clone(),
        }
    }

    /// Approximate number of multiplications and additions to score vectors with this many
    /// dimensions, in addition to a few for each value of the vectors.
    pub fn operations(&self, dimensions: usize) -> u64 {
        let product = |factors: &[usize]| factors.iter().fold(1_u64, |all, one| all.saturating_mul(*one as u64));
        match &self.labels {
            Labels::Retrieval(labels) => product(&[labels.query_ids.len(), labels.document_ids.len(), dimensions]),
            Labels::Bitext(rows) => product(&[*rows, *rows, dimensions]),
            // Each fit reads its train rows some fifty times, then labels the test rows.
            Labels::Classification {
                labels: [train, test],
                samples_per_label,
                experiments,
            } => {
                let classes = train.iter().collect::<HashSet<_>>().len();
                let rows = (samples_per_label * classes).min(train.len());
                product(&[*experiments, 50 * rows + test.len(), classes, dimensions])
            }
            // Ten clusterings of some ten rounds.
            Labels::Clustering { labels, .. } => {
                let classes = labels.labels.iter().collect::<HashSet<_>>().len();
                product(&[100, labels.labels.len(), classes, dimensions])
            }
            Labels::Sts(_)
            | Labels::PairClassification(_)
            | Labels::Reranking(_)
            | Labels::Summarisation(_)
            | Labels::Clsd(_)
            | Labels::GradedRanking(_) => 0,
        }
    }
}

/// The labels of a data set without its texts and name, which another process needs to score
/// vectors. The main score is that of the kind of task; see [`Dataset::own_main_score`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scoring {
    texts: usize,
    labels: Labels,
}

impl Scoring {
    /// Scores vectors, one row per text of the data set.
    ///
    /// # Errors
    /// Those of [`Dataset::score`].
    pub fn score(&self, vectors: ArrayView2<'_, f32>, profile: Profile, own: Similarity) -> Result<Scores, ScoreError> {
        if vectors.nrows() != self.texts {
            return Err(ScoreError::Rows {
                what: "texts",
                expected: self.texts,
                found: vectors.nrows(),
            });
        }
        self.labels.score(vectors, profile, own, SearchMode::Exact)
    }
}

impl Labels {
    fn score(
        &self,
        vectors: ArrayView2<'_, f32>,
        profile: Profile,
        own: Similarity,
        search: SearchMode,
    ) -> Result<Scores, ScoreError> {
        match self {
            Labels::Sts(gold) => {
                let (first, second) = pairs::split(vectors);
                score_sts(first, second, gold, own, profile)
            }
            Labels::PairClassification(labels) => {
                let (first, second) = pairs::split(vectors);
                score_pair_classification(first, second, labels, own, profile)
            }
            Labels::Classification {
                labels: [train_labels, test_labels],
                samples_per_label,
                experiments,
            } => {
                let (train, test) = split(vectors, train_labels.len());
                let input = ClassificationInput {
                    train,
                    train_labels,
                    test,
                    test_labels,
                    samples_per_label: *samples_per_label,
                    experiments: *experiments,
                };
                score_classification(&input, profile)
            }
            Labels::Clustering {
                labels,
                legacy,
                max_fraction,
            } => {
                let input = ClusteringInput {
                    vectors,
                    labels: &labels.labels,
                    sets: &labels.sets,
                    legacy: *legacy,
                    max_fraction: *max_fraction,
                };
                score_clustering(&input, profile)
            }
            Labels::Bitext(_) => {
                let (first, second) = pairs::split(vectors);
                score_bitext(first, second, own, profile)
            }
            Labels::Reranking(labels) => {
                let items = &labels.items;
                let (queries, documents) = split(vectors, items.iter().map(|i| i.queries).sum());
                let input = RerankingInput {
                    queries,
                    documents,
                    items,
                    document_ids: &labels.document_ids,
                };
                score_reranking(&input, own, profile)
            }
            Labels::Summarisation(texts) => {
                let (human, machine) = split(vectors, texts.iter().map(|t| t.human).sum());
                score_summarisation(&SummarisationInput { human, machine, texts }, own, profile)
            }
            Labels::Clsd(labels) => {
                let (sources, rest) = split(vectors, labels.counts.len());
                let (targets, distractors) = split(rest, labels.counts.len());
                let input = ClsdInput {
                    sources,
                    targets,
                    distractors,
                    counts: &labels.counts,
                    same_as_target: &labels.same_as_target,
                    one_word: &labels.one_word,
                };
                score_clsd(&input, own, profile)
            }
            Labels::GradedRanking(counts) => {
                let (anchors, candidates) = split(vectors, counts.len());
                score_graded_ranking(anchors, candidates, counts, own, profile)
            }
            Labels::Retrieval(labels) => {
                let (queries, documents) = split(vectors, labels.query_ids.len());
                let input = RetrievalInput {
                    queries,
                    query_ids: &labels.query_ids,
                    documents,
                    document_ids: &labels.document_ids,
                    judgements: &labels.judgements,
                    ignore_identical_ids: labels.ignore_identical_ids,
                    search,
                };
                score_retrieval(&input, own, profile)
            }
        }
    }
}

/// Splits the vectors into the first `rows`, or as many as there are, and the rest.
fn split(vectors: ArrayView2<'_, f32>, rows: usize) -> (ArrayView2<'_, f32>, ArrayView2<'_, f32>) {
    vectors.split_at(Axis(0), rows.min(vectors.nrows()))
}
