//! A shard of a corpus, the search in it, and the results.

use std::{
    borrow::Cow,
    collections::HashSet,
    ops::Range,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use isomer_proto::{common::v1::Usage, encoder::v1::Encoder};
use isomer_retention::Digest;
use ndarray::Array2;
use prost::Message;

use crate::{
    dataset::Dataset,
    metric::{search::Hit, vector_matrix},
    prompts::RequestPrompt,
    task::SearchTerms,
};

/// Documents of a corpus with their ids; stored by their digest, for units of all encoders.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Documents {
    #[prost(string, repeated, tag = "1")]
    pub(crate) ids: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) texts: Vec<String>,
}

/// Vectors, for example of queries; stored by their digest.
#[derive(Clone, PartialEq, Message)]
pub(super) struct VectorRows {
    #[prost(uint64, tag = "1")]
    pub(super) rows: u64,
    #[prost(float, repeated, tag = "2")]
    pub(super) values: Vec<f32>,
}

impl From<&Array2<f32>> for VectorRows {
    fn from(matrix: &Array2<f32>) -> Self {
        Self {
            rows: matrix.nrows() as u64,
            values: matrix.iter().copied().collect(),
        }
    }
}

impl VectorRows {
    /// The vectors as a matrix.
    ///
    /// # Errors
    /// The problem with the rows.
    pub(super) fn matrix(self) -> Result<Array2<f32>, String> {
        let rows = usize::try_from(self.rows).unwrap_or(usize::MAX);
        let cols = self.values.len() / rows.max(1);
        vector_matrix(rows, cols, self.values).map_err(|error| error.to_string())
    }
}

/// Consecutive documents of a corpus, with their ids.
#[derive(Debug)]
pub(crate) enum Shard {
    /// Texts of a data set, by their rows; its documents begin at `first`.
    Of {
        dataset: Arc<Dataset>,
        rows: Range<usize>,
        first: usize,
    },
    /// The form in which a worker reads them.
    Given(Documents),
}

/// The vectors of queries, which are the same for every shard of a corpus.
#[derive(Debug)]
pub(crate) struct Queries {
    matrix: Array2<f32>,
    /// The queries as a message with its digest, created when workers need it.
    message: OnceLock<(Digest, Bytes)>,
}

/// The parameters for encoding and searching a shard; the same for every shard of a corpus.
#[derive(Debug)]
pub(crate) struct ShardSearch {
    /// The encoder, as it was described when the run was planned.
    pub(crate) encoder: Encoder,
    /// The prompt of documents; `None`: the encoder's default.
    pub(crate) prompt: Option<RequestPrompt>,
    pub(crate) queries: Queries,
    /// The search parameters.
    pub(crate) terms: SearchTerms,
}

/// Facts about a document other than its place among the hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DocumentFacts {
    /// Whether its text was truncated at the encoder's maximum length; `None` if the encoder does
    /// not report it.
    pub(crate) cut: Option<bool>,
    /// BLAKE3 of its vector.
    pub(crate) vector: [u8; blake3::OUT_LEN],
}

/// The results of a search in a shard.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ShardHits {
    /// The best documents of each query, by row in the shard.
    pub(crate) hits: Vec<Vec<Hit>>,
    /// One per document.
    pub(crate) facts: Vec<DocumentFacts>,
    /// Texts that were encoded: equal documents once.
    pub(crate) encoded: u64,
    /// The usage that the encoder reported.
    pub(crate) usage: Usage,
}

impl Queries {
    /// The vectors, one per query.
    pub(super) fn matrix(&self) -> &Array2<f32> {
        &self.matrix
    }

    /// Copies rows of vectors, all with the same number of columns.
    pub(crate) fn new(matrix: Array2<f32>) -> Self {
        Self {
            matrix,
            message: OnceLock::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.matrix.nrows()
    }

    pub(super) fn message(&self) -> &(Digest, Bytes) {
        self.message.get_or_init(|| digested(&VectorRows::from(&self.matrix)))
    }
}

impl Shard {
    /// Number of documents.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Of { rows, .. } => rows.len(),
            Self::Given(documents) => documents.texts.len(),
        }
    }

    /// Its documents: a copy, unless they are a worker's.
    pub(super) fn documents(&self) -> Cow<'_, Documents> {
        match self {
            Self::Given(documents) => Cow::Borrowed(documents),
            Self::Of { dataset, rows, first } => {
                let ids = dataset
                    .retrieval()
                    .map(|labels| labels.document_ids)
                    .unwrap_or_default();
                let texts = dataset.texts().get(rows.clone()).unwrap_or_default();
                let ids = ids.get(rows.start - first..rows.end - first).unwrap_or_default();
                Cow::Owned(Documents {
                    ids: ids.to_vec(),
                    texts: texts.iter().map(|text| text.text.to_string()).collect(),
                })
            }
        }
    }

    pub(super) fn message(&self) -> (Digest, Bytes) {
        digested(&*self.documents())
    }
}

pub(super) fn digested(message: &impl Message) -> (Digest, Bytes) {
    let bytes = Bytes::from(message.encode_to_vec());
    (Digest::from(*blake3::hash(&bytes).as_bytes()), bytes)
}

/// BLAKE3 of a vector's values.
pub(crate) fn digest_of_vector(vector: &[f32]) -> [u8; blake3::OUT_LEN] {
    let mut hasher = blake3::Hasher::new();
    for value in vector {
        hasher.update(&value.to_le_bytes());
    }
    *hasher.finalize().as_bytes()
}

impl ShardHits {
    /// Checks a worker's answer.
    ///
    /// # Errors
    /// The problem.
    pub(crate) fn check(&self, documents: usize, wanted: &ShardSearch) -> Result<(), String> {
        if self.hits.len() != wanted.queries.len() || self.facts.len() != documents {
            return Err(format!(
                "answered {} queries of {} and {} documents of {}",
                self.hits.len(),
                wanted.queries.len(),
                self.facts.len(),
                documents
            ));
        }
        let whole = wanted.terms.k.min(documents);
        for (query, hits) in self.hits.iter().enumerate() {
            // A similarity that is not a number is never among the best.
            if hits.len() != whole || hits.iter().any(|hit| hit.score.is_nan()) {
                return Err(format!(
                    "the similarity of query {} of those searched for and a document is not a number",
                    query + 1
                ));
            }
            let mut seen = HashSet::with_capacity(hits.len());
            if let Some(hit) = hits
                .iter()
                .find(|hit| hit.document >= documents || !seen.insert(hit.document))
            {
                return Err(format!(
                    "document {} of {documents} was found twice, or is none",
                    hit.document
                ));
            }
        }
        Ok(())
    }
}
