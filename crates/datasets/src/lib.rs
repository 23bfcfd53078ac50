//! Datasets: read, validated row by row, and converted to texts to encode and labels to score
//! against.
//!
//! * [`Source`]: the location of a dataset: shipped, at a path, or sent with a request.
//! * `files`, `format`: the tables of a source, in files of JSON lines, separated cells or Parquet.
//! * `layout`: the tables of the requested split and language.
//! * `quotes`: the meaning of quotes in a table.
//! * `rows`, `row`: one row at a time; each error names file, line and field. [`read_rows`]: the
//!   same for callers without a task.
//! * `sample`: a proportional sample of the rows.
//! * `pairs`, `lists`, `labelled`, `retrieval`: the rows of each kind of task.
//! * `sides`: the language of each side.
//! * `scoring`: divides the vectors of a dataset's texts by role and scores them.
//! * `audit`: misleading rows: leaks, texts with two labels, empty texts.
//! * `digest`: the identity of a dataset, independent of its file.
//! * [`catalogue`]: the data sets of the papers, each with its repository, revision and columns.
//! * `locate` (feature `locate`): finds a named data set in a folder of this machine, else on the
//!   hub.
//!
//! Everything except `locate` is pure: no async, no network, no clock. This crate does not know
//! encoders, suites or runs.

mod audit;
mod bounds;
mod builtin;
mod card;
pub mod catalogue;
mod clsd;
mod digest;
mod error;
mod files;
mod format;
mod gold;
mod hub_ref;
mod items;
mod labelled;
mod language_group;
mod layout;
mod lists;
mod load;
#[cfg(feature = "locate")]
pub mod locate;
mod pairs;
mod quotes;
mod retrieval;
mod roots;
mod row;
mod rows;
mod sample;
mod scoring;
mod sides;
mod source;
mod table;
mod text;
mod unrolled;

pub use audit::{RowAudit, case_folded};
pub use builtin::BUILTIN_NAMES;
pub use error::{DatasetError, Unit};
#[cfg(feature = "locate")]
pub use format::is_readable;
pub use hub_ref::HubRef;
pub use language_group::{LanguageGroup, is_english};
#[cfg(feature = "locate")]
pub(crate) use load::holds;
pub use load::load;
pub use roots::{PermittedPath, below_roots};
pub use row::FieldMap;
pub use sample::{DEFAULT_SAMPLE_SEED, Draw, Sample};
pub use scoring::Scoring;
pub use source::{HubFiles, InlineFile, Source};
pub use table::{FileRow, read_rows};
pub use text::Text;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use isomer_scoring::task::{Scores, SummarisedText, TaskType};

/// The part of a dataset to load, and its name.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadOptions {
    /// Split, e.g. `test`.
    pub split: String,
    /// Language subset, e.g. `de` for `test.de.jsonl`. `None`: the file without a language in its
    /// name, or the only file.
    pub language: Option<String>,
    /// Languages of its texts (BCP-47): one, or those of the two sides. Empty: the catalogue's,
    /// else those of the subset's name, else the one of the data set's card.
    pub languages: Vec<String>,
    /// Maximum size of the sample in rows (pairs, queries, texts, groups). The sample is
    /// proportional to labels or gold scores if rows have them. A retrieval corpus and a train
    /// split are always whole.
    pub limit: Option<usize>,
    /// Classification: maximum number of train rows in the sample.
    pub train_limit: Option<usize>,
    pub sample_seed: u64,
    /// How rows are drawn. A train split is always drawn in proportion to labels.
    pub draw: Draw,
    /// Columns whose names differ from ours.
    pub fields: FieldMap,
    /// Name shown in reports. `None`: derived from the source.
    pub name: Option<String>,
    /// Retrieval: a document with the query's own id does not count as a result (mteb sets it for
    /// ArguAna, FEVER, FiQA, Quora, MSMARCO and others).
    pub ignore_identical_ids: bool,
    /// Classification: train rows per label in each of mteb's ten fits. `None`: 8.
    pub samples_per_label: Option<usize>,
    /// Classification: number of these fits. `None`: 10.
    pub experiments: Option<usize>,
    /// Nothing outside this folder is read, whatever the target of a link; `None`: no restriction.
    pub root: Option<std::path::PathBuf>,
    /// Clustering: use the older form under mteb-v2 too, for data of single documents.
    pub legacy_clustering: bool,
    /// Clustering: number of sets into which single documents are cut, in their order. `None`: the
    /// catalogue's, else one. Rows that are sets stay as they are.
    pub sets: Option<usize>,
    /// The catalogue's entry, if the data set was found there by name.
    pub entry: Option<&'static catalogue::Entry>,
    /// Clustering, current form: fraction of the documents that are clustered. `None`: mteb's 0.04.
    pub max_fraction: Option<f64>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            split: "test".to_owned(),
            language: None,
            languages: Vec::new(),
            limit: None,
            train_limit: None,
            sample_seed: DEFAULT_SAMPLE_SEED,
            draw: Draw::default(),
            fields: FieldMap::new(),
            name: None,
            ignore_identical_ids: false,
            samples_per_label: None,
            experiments: None,
            root: None,
            legacy_clustering: false,
            max_fraction: None,
            sets: None,
            entry: None,
        }
    }
}

/// The role of a text in its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// First text of a pair; a source; an anchor.
    First,
    /// Second text of a pair; a target.
    Second,
    Query,
    /// A document of the corpus.
    Document,
    /// A candidate to rank: for a query, for an anchor, or a distractor.
    Candidate,
    /// A text with a label.
    Labelled,
    /// A summary written by a person.
    HumanSummary,
    /// A summary written by a machine.
    MachineSummary,
}

/// A text to encode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetText {
    /// Its id within the dataset: `12:sentence1` (row from 0), `query:<id>`, `document:<id>`.
    pub id: Text,
    /// The text as the encoder sees it.
    pub text: Text,
    pub role: Role,
    /// Whether a robustness check transforms it: every text of a pair and every summary; only the
    /// queries of retrieval and reranking; only the first side of bitext, the sources of clsd, the
    /// anchors of graded-ranking.
    pub transformable: bool,
}

/// A loaded and checked dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    name: String,
    task: TaskType,
    split: String,
    language: Option<String>,
    sides: sides::Sides,
    digest: String,
    source_digest: String,
    texts: Vec<DatasetText>,
    labels: Labels,
    audit: RowAudit,
    notes: Vec<String>,
    measures: BTreeMap<String, f64>,
    sample: Option<Sample>,
    order: Option<Vec<u32>>,
    revision: Option<String>,
    entry: Option<&'static catalogue::Entry>,
    remarks: BTreeMap<&'static str, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Labels {
    /// A gold score per pair.
    Sts(Vec<f64>),
    /// A label per pair, true for a positive.
    PairClassification(Vec<bool>),
    Retrieval(retrieval::Labels),
    /// Number of pairs that are translations of each other.
    Bitext(usize),
    Classification {
        /// Labels of the train rows, then of the test rows.
        labels: [Vec<String>; 2],
        samples_per_label: usize,
        experiments: usize,
    },
    Clustering {
        labels: labelled::ClusteringLabels,
        legacy: bool,
        max_fraction: Option<f64>,
    },
    Reranking(lists::RerankingLabels),
    Summarisation(Vec<SummarisedText>),
    Clsd(clsd::ClsdLabels),
    /// Number of candidates of each anchor.
    GradedRanking(Vec<usize>),
}

impl Dataset {
    /// Name shown in reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn task(&self) -> TaskType {
        self.task
    }

    /// Split it was loaded from.
    pub fn split(&self) -> &str {
        &self.split
    }

    /// BLAKE3 (hex) of the task and of every text and label, in order. Equal content has an equal
    /// digest, whatever its file; fields that no task reads are ignored.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// BLAKE3 (hex) of the task and of the unpacked files that the rows were drawn from. It does
    /// not depend on the sample.
    pub fn source_digest(&self) -> &str {
        &self.source_digest
    }

    /// Number of scored rows: pairs, queries, texts or groups.
    pub fn items(&self) -> usize {
        match &self.labels {
            Labels::Classification { labels: [_, test], .. } => test.len(),
            Labels::Clustering { labels, .. } => labels.labels.len(),
            Labels::Bitext(rows) => *rows,
            Labels::Reranking(labels) => labels.items.len(),
            Labels::Summarisation(texts) => texts.len(),
            Labels::Clsd(labels) => labels.counts.len(),
            Labels::GradedRanking(counts) => counts.len(),
            Labels::Sts(gold) => gold.len(),
            Labels::PairClassification(labels) => labels.len(),
            Labels::Retrieval(labels) => labels.query_ids.len(),
        }
    }

    /// Number of rows that [`LoadOptions::limit`] counts: the items, or the sets of a clustering
    /// whose rows are sets.
    pub fn rows(&self) -> usize {
        match &self.labels {
            Labels::Clustering { labels, .. } if labels.rows_are_sets() => labels.sets.len(),
            _ => self.items(),
        }
    }

    /// The rank of each item in the order of the draw, if rows were drawn one by one
    /// ([`Draw::OneByOne`]).
    pub fn order(&self) -> Option<&[u32]> {
        self.order.as_deref()
    }

    /// Language subset, if the files name one. For the languages of the texts see
    /// [`Dataset::sides`].
    pub fn language(&self) -> Option<&str> {
        self.language.as_deref()
    }

    /// Every text to encode, in a fixed order: pairs as first, second, first, second …; retrieval
    /// and reranking as queries, then documents; summarisation as human summaries, then machine
    /// summaries; clsd as sources, targets, distractors; graded-ranking as anchors, then
    /// candidates. Equal texts are listed as often as they occur.
    pub fn texts(&self) -> &[DatasetText] {
        &self.texts
    }

    /// Notes for users about reading the data, e.g. that queries were left out.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Counts of misleading rows. The notes mention them too.
    pub fn audit(&self) -> &RowAudit {
        &self.audit
    }

    /// Adds a note for users.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Adds an entry to mteb's document beside the scores, under one of our names (`isomer_…`).
    pub fn remark(&mut self, key: &'static str, value: Value) {
        self.remarks.insert(key, value);
    }

    /// The entries of mteb's document beside the scores.
    pub fn remarks(&self) -> &BTreeMap<&'static str, Value> {
        &self.remarks
    }

    /// How its rows were drawn, if a limit excluded some.
    pub fn sample(&self) -> Option<&Sample> {
        self.sample.as_ref()
    }

    /// The hub's commit, if the data set came from there.
    pub fn revision(&self) -> Option<&str> {
        self.revision.as_deref()
    }

    /// mteb's codes of its languages (`eng-Latn`), if the catalogue gives them.
    pub fn languages(&self) -> Option<&[String]> {
        self.entry?.languages_of(self.language())
    }

    /// mteb's name of its task, for prompts: the catalogue's, or else its own.
    pub fn prompt_name(&self) -> &str {
        self.entry.map_or(&self.name, |entry| &entry.name)
    }

    /// Measures of the data itself, independent of the encoder: `lexical_overlap` of anchors with
    /// their best candidates (graded-ranking). They are computed from the texts as loaded, before a
    /// run transforms them.
    pub fn measures(&self) -> &BTreeMap<String, f64> {
        &self.measures
    }

    /// Names of the scored items: the query's id in retrieval, elsewhere a number from 0 (of the
    /// row or, in clustering, of the set or the clustering).
    pub fn item_ids(&self, scores: &Scores) -> Vec<String> {
        match &self.labels {
            Labels::Retrieval(labels) => labels.query_ids.clone(),
            _ => (0..scores.items).map(|row| row.to_string()).collect(),
        }
    }
}
