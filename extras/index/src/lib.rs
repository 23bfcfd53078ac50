//! The texts of a source as the vectors of a search index: filled, followed, checked, compared.
//!
//! * [`source`]: files of rows, PostgreSQL in the order of a key, and collections that keep texts.
//! * [`store`]: pgvector, Qdrant, Chroma, Milvus, OpenSearch, Elasticsearch and Parquet behind one
//!   interface.
//! * [`chunk`]: long texts in pieces. [`digest`]: what a stored row was made of.
//! * [`mark`]: what all vectors of a collection have in common, kept in the collection.
//! * [`encode`]: texts through an encoder, plain or augmented.
//! * [`mod@run`]: fills a collection and follows its source. [`mod@plan`]: what that would take.
//! * [`mod@verify`]: recomputes a sample of what is stored. [`mod@compare`]: two collections on the
//!   same queries.
//! * [`name`]: what a name stands for while it moves, and which step is due. [`mod@migrate`]: the
//!   steps.
//!
//! **Invariant: the store is the only record.** Each row carries the digest of what it was made of,
//! a run asks the store for the digests of each batch and writes what differs. So a run that was
//! killed anywhere is gone on with by the same command: nothing is missing and nothing is there
//! twice.
//!
//! **Invariant: a collection holds vectors of one space.** Its mark is written before the first
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
