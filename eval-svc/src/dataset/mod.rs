//! Datasets: read, checked row by row, and turned into texts to encode and labels to score against.
//!
//! * [`Source`]: where a dataset lies: shipped with us, a path, or bytes sent with a request.
//! * `layout`: which files hold the split and language asked for.
//! * `rows`: lines of JSON, each fault named by file, line and field.
//! * `pairs`, `retrieval`: the rows of each kind of task.
//! * `digest`: what a dataset is, whatever file it came from.

mod builtin;
mod digest;
mod error;
mod gold;
mod layout;
mod pairs;
mod retrieval;
mod roots;
mod rows;
mod source;

pub use builtin::BUILTIN_NAMES;
pub use error::DatasetError;
pub use roots::below_roots;
pub use source::{InlineFile, Source};

use crate::{
    metric::{Similarity, VectorMatrix},
    task::{
        Profile, RetrievalInput, ScoreError, Scores, TaskType, score_pair_classification, score_retrieval, score_sts,
    },
};

/// Which part of a dataset to load, and what to call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadOptions {
    /// Split, e.g. `test`.
    pub split: String,
    /// Language subset, e.g. `de` for `test.de.jsonl`. `None`: the file without a language in its name, or the only one.
    pub language: Option<String>,
    /// Only the first so many pairs or queries. A retrieval corpus is always whole.
    pub limit: Option<usize>,
    /// Name shown in reports. `None`: from the source.
    pub name: Option<String>,
    /// Retrieval: a document with the query's own id does not count as found (mteb sets it for ArguAna, FEVER, FiQA,
    /// Quora, MSMARCO and others).
    pub ignore_identical_ids: bool,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            split: "test".to_owned(),
            language: None,
            limit: None,
            name: None,
            ignore_identical_ids: false,
        }
    }
}

/// What part a text plays in its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// First text of a pair.
    First,
    /// Second text of a pair.
    Second,
    /// A query.
    Query,
    /// A document of the corpus.
    Document,
}

/// A text to encode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetText {
    /// Names it within the dataset: `12:sentence1` (row from 0), `query:<id>`, `document:<id>`.
    pub id: String,
    /// The text as the encoder sees it.
    pub text: String,
    /// Its part.
    pub role: Role,
    /// Whether a robustness check transforms it: every text of a pair, only the queries of retrieval.
    pub transformable: bool,
}

/// A loaded and checked dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    name: String,
    task: TaskType,
    split: String,
    language: Option<String>,
    digest: String,
    texts: Vec<DatasetText>,
    labels: Labels,
    notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
enum Labels {
    /// A gold score per pair.
    Sts(Vec<f64>),
    /// A label per pair, true for a positive.
    PairClassification(Vec<bool>),
    Retrieval(retrieval::Labels),
}

/// Loads a dataset and checks every row.
///
/// # Errors
/// A task that is not served yet, a source that is not there, a split or language that is missing or must be chosen, a
/// broken row (file, line and field named), data that the main metric is undefined on (constant gold scores, one class
/// only).
pub fn load(task: TaskType, source: &Source, options: &LoadOptions) -> Result<Dataset, DatasetError> {
    if options.limit == Some(0) {
        return Err(DatasetError::ZeroLimit);
    }
    let files = source.files()?;
    let chosen = layout::choose(task, &files, options)?;
    let (texts, labels, notes) = match task {
        TaskType::Sts => {
            let (texts, gold) = pairs::read_sts(&files, chosen.rows()?, options.limit)?;
            (texts, Labels::Sts(gold), Vec::new())
        }
        TaskType::PairClassification => {
            let (texts, labels) = pairs::read_pair_classification(&files, chosen.rows()?, options.limit)?;
            (texts, Labels::PairClassification(labels), Vec::new())
        }
        TaskType::Retrieval => {
            let (texts, labels, notes) = retrieval::read(&files, chosen.retrieval()?, options)?;
            (texts, Labels::Retrieval(labels), notes)
        }
        _ => return Err(DatasetError::NotServed { task }),
    };
    Ok(Dataset {
        name: options.name.clone().unwrap_or_else(|| source.name()),
        task,
        split: options.split.clone(),
        language: chosen.language,
        digest: digest::of(task, &texts, &labels),
        texts,
        labels,
        notes,
    })
}

impl Dataset {
    /// Name shown in reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Kind of task.
    pub fn task(&self) -> TaskType {
        self.task
    }

    /// Split it was loaded from.
    pub fn split(&self) -> &str {
        &self.split
    }

    /// BLAKE3 (hex) of the task and of every text and label, in order. Equal content has an equal digest, whatever file
    /// it came from; fields that no task reads do not count.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Rows scored: pairs, or queries.
    pub fn items(&self) -> usize {
        match &self.labels {
            Labels::Sts(gold) => gold.len(),
            Labels::PairClassification(labels) => labels.len(),
            Labels::Retrieval(labels) => labels.query_ids.len(),
        }
    }

    /// Language subset, where the files name one.
    pub fn language(&self) -> Option<&str> {
        self.language.as_deref()
    }

    /// Every text to encode, in a fixed order: pairs as first, second, first, second …; retrieval as queries, then
    /// documents. Equal texts are listed as often as they occur.
    pub fn texts(&self) -> &[DatasetText] {
        &self.texts
    }

    /// What a person should know about how it was read, e.g. queries left out.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Scores vectors, one row per entry of [`Dataset::texts`], comparing them by cosine.
    ///
    /// # Errors
    /// A number of vectors that does not match; a metric that is undefined on them.
    pub fn score(&self, vectors: &VectorMatrix, profile: Profile) -> Result<Scores, ScoreError> {
        self.score_with(vectors, profile, Similarity::Cosine)
    }

    /// As [`Dataset::score`], with the similarity that the encoder's vectors are meant for. It decides retrieval and the
    /// scores that mteb computes with the model's own similarity.
    ///
    /// # Errors
    /// As [`Dataset::score`].
    pub fn score_with(&self, vectors: &VectorMatrix, profile: Profile, own: Similarity) -> Result<Scores, ScoreError> {
        if vectors.rows() != self.texts.len() {
            return Err(ScoreError::Rows {
                what: "texts",
                expected: self.texts.len(),
                found: vectors.rows(),
            });
        }
        match &self.labels {
            Labels::Sts(gold) => {
                let (first, second) = pairs::split(vectors);
                score_sts(first.view(), second.view(), gold, own, profile)
            }
            Labels::PairClassification(labels) => {
                let (first, second) = pairs::split(vectors);
                score_pair_classification(first.view(), second.view(), labels, own, profile)
            }
            Labels::Retrieval(labels) => {
                let (queries, documents) = vectors.split_at(labels.query_ids.len());
                let input = RetrievalInput {
                    queries,
                    query_ids: &labels.query_ids,
                    documents,
                    document_ids: &labels.document_ids,
                    judgements: &labels.judgements,
                    ignore_identical_ids: labels.ignore_identical_ids,
                };
                score_retrieval(&input, own, profile)
            }
        }
    }
}
