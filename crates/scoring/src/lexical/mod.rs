//! Lexical search: the terms of texts, and BM25 over them.
//!
//! * [`analysis`]: terms of a text in a language.
//! * [`index`]: BM25 over the terms of documents.

pub mod analysis;
pub mod index;

pub use analysis::Analysis;
pub use index::LexicalIndex;
