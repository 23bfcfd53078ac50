//! Pure task metrics, each as defined by the named reference library.
//!
//! * [`matrix`]: vectors as rows of `ndarray` matrices, one per text.
//! * [`similarity`]: similarities of pairs of vectors, in f32 like mteb.
//! * [`sts`], [`pair_classification`]: the pair tasks.
//! * [`nearest`]: nearest neighbours scored as predictions (bitext).
//! * [`summarisation`]: machine summaries against human ones.
//! * [`discrimination`]: a translation against its distractors (CLSD).
//! * [`search`]: the best documents for each query, blocked and parallel.
//! * [`approximate`]: the same through a graph, with its recall; [`hnsw`]: that graph.
//! * [`fusion`]: the hits of several searches as one list.
//! * [`ranking`]: nDCG, MAP, recall, precision, MRR and hit rate, as defined by trec_eval and mteb.
//! * [`overlap`]: the agreement of two result lists.
//! * [`abstention`]: normalised area under the abstention curve.
//! * [`rounding`]: decimal rounding as in Python.

pub mod abstention;
pub mod approximate;
pub mod discrimination;
pub mod fusion;
pub mod hnsw;
pub mod matrix;
pub mod nearest;
pub mod overlap;
pub mod pair_classification;
pub mod ranking;
pub mod rounding;
pub mod search;
pub mod similarity;
pub mod sts;
pub mod summarisation;

pub use approximate::ApproximateReport;
pub use hnsw::HnswOptions;
pub use matrix::{MatrixError, vector_matrix};
pub use similarity::Similarity;
