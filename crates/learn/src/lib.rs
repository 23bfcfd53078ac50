//! Classifiers, clusterings and random streams equal to those of scikit-learn 1.8, numpy and
//! CPython. They are the building blocks of mteb's classification and clustering tasks. All are
//! pure functions over vectors and labels; they run in parallel, with the same bits whatever the
//! number of threads.
//!
//! # How to call it
//!
//! Vectors are the rows of an [`ndarray::ArrayView2`] of f32 values. Each function checks on entry
//! that they are finite, and copies a view only if it is not in standard layout (row-major,
//! contiguous). Labels may be any ordered type (`String`, `i64`).
//!
//! ```
//! use isomer_learn::protocol::FewShot;
//! use ndarray::array;
//!
//! # fn main() -> Result<(), isomer_learn::LearnError> {
//! let train = array![[0.0, 1.0], [0.1, 0.9], [1.0, 0.0], [0.9, 0.1]];
//! let test = array![[0.0, 0.8], [0.7, 0.0]];
//! let report = FewShot::default().score(
//!     train.view(),
//!     &["left", "left", "right", "right"],
//!     test.view(),
//!     &["left", "right"],
//! )?;
//! assert_eq!(report.mean.accuracy, 1.0);
//! assert_eq!(report.mean.named()[0].0, "accuracy");
//! # Ok(())
//! # }
//! ```
//!
//! * Classification, profiles mteb-v1 and mteb-v2: [`protocol::FewShot`].
//!   [`FewShot::selections`](protocol::FewShot::selections) gives the train rows that need
//!   encoding, and [`FewShot::score_needed`](protocol::FewShot::score_needed) takes only their
//!   vectors. Profile hteb: [`protocol::whole_train`]. Tasks marked as cross-validation:
//!   [`protocol::CrossValidation`]. Callers should warn about
//!   [`ClassificationReport::not_converged`](protocol::ClassificationReport::not_converged).
//! * Clustering, mteb's current form: [`protocol::FastClustering`] with one
//!   [`random::PythonRandom`] (seed 42) per task; call `documents` and then `score` for split after
//!   split. The older form and HTEB's: [`protocol::legacy_set_score`] per set, then
//!   [`protocol::legacy_report`].
//! * Multilabel: [`protocol::Multilabel`] with one [`random::NumpyGenerator`] (seed 42) per task.
//!
//! Reports have `named()`: the scores by mteb's keys.
//!
//! # The meaning of "equal"
//!
//! Random streams are equal bit for bit. The logistic regression follows the same iterates up to
//! rounding: the number of iterations and the predictions are equal, and coefficients agree to
//! about 1e-6. k-means does its arithmetic in f32 in the order of numpy and OpenBLAS on AVX2. With
//! another BLAS, scikit-learn's own labels can differ for a vector that lies exactly between two
//! clusters, up to the last bit.

mod error;
pub mod kmeans;
mod labels;
mod linalg;
pub mod logistic;
pub mod metrics;
pub mod neighbours;
pub mod protocol;
pub mod random;
mod vectors;

pub use error::LearnError;
pub use vectors::{first_not_finite, row_major};
