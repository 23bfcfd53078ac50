//! Task metrics, pure, each as the named reference library defines it.
//!
//! * [`matrix`]: vectors as rows of `ndarray` matrices, one a text.
//! * [`similarity`]: similarities of pairs of vectors, in f32 as mteb computes them.
//! * [`sts`], [`pair_classification`]: the pair tasks.
//! * [`nearest`]: nearest neighbours scored as predictions (bitext).
//! * [`summarisation`]: machine summaries against human ones.
//! * [`discrimination`]: a translation against its distractors (CLSD).
//! * [`search`]: the best documents of each query, blocked and parallel.
//! * [`approximate`]: the same through a graph, with its recall; [`hnsw`]: that graph.
//! * [`ranking`]: nDCG, MAP, recall, precision, MRR, hit rate, as trec_eval and mteb define them.
//! * [`overlap`]: how far two result lists agree.
//! * [`abstention`]: normalised area under the abstention curve.
//! * [`rounding`]: decimal rounding as Python does it.

pub mod abstention;
pub mod approximate;
pub mod discrimination;
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
