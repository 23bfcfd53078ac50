//! Runs over every kind of store: Parquet and pgvector for real, servers over HTTP as far as their
//! protocol goes (`tests/search/run` has real ones).
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod compared;
mod interleaved;
mod killed;
mod migrated;
mod milvus;
mod older;
mod promises;
mod servers;
mod sources;
mod support;
