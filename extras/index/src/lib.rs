//! Fills, follows, checks and compares search indexes: the texts of a source as vectors.
//!
//! * [`source`]: files of rows, PostgreSQL in the order of a key, and collections that keep texts.
//! * [`store`]: pgvector, Qdrant, Chroma, Milvus, OpenSearch, Elasticsearch and Parquet behind one
//!   interface.
//! * [`chunk`]: splits long texts into pieces. [`digest`]: the inputs of a stored row.
//! * [`mark`]: the common properties of a collection's vectors, stored in the collection.
//! * [`encode`]: encodes texts, plain or augmented.
//! * [`mod@run`]: fills a collection and follows its source. [`mod@plan`]: estimates the work.
//! * [`mod@verify`]: recomputes a sample of the stored vectors. [`mod@compare`]: two collections on
//!   the same queries.
//! * [`name`]: the collections behind a name during a migration, and the due step. [`mod@migrate`]:
//!   the steps.
//!
//! **Invariant: the store is the only record.** Each row carries the digest of its inputs. A run
//! reads the digests of each batch from the store and writes the rows that differ. So the same
//! command resumes a run that was killed at any point: nothing is missing and nothing is
//! duplicated.
//!
//! **Invariant: a collection contains vectors of one space.** Its mark is written before the first
//! row; a run whose encoder answers in another space writes nothing.

mod address;
pub mod chunk;
pub mod compare;
pub mod digest;
pub mod encode;
mod error;
mod http;
pub mod mark;
pub mod migrate;
pub mod name;
pub mod plan;
mod recipe;
mod retry;
pub mod run;
pub mod source;
mod sql;
pub mod store;
pub mod verify;

pub use error::{IndexError, Result};
pub use isomer_datasets::read_rows;
