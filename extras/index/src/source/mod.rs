//! The sources of texts.

mod collection;
mod file;
mod postgres;

use std::path::PathBuf;

use futures::stream::BoxStream;
use serde_json::{Map, Value};

use crate::error::Result;

pub use collection::Rows as CollectionRows;
pub use postgres::{Rows as PostgresRows, Selection};

/// Separator between the texts of several columns.
const BETWEEN: &str = "\n";

/// A text to index.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Its id in the source and in the store.
    pub key: String,
    /// The text; empty if its columns are null.
    pub text: String,
    /// The fields stored beside the vector.
    pub payload: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// The key: a unique value for each row.
    pub key: String,
    /// The text; several are joined by a line break.
    pub texts: Vec<String>,
    /// The fields stored beside the vector.
    pub payload: Payload,
}

/// Columns that are stored beside the vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    None,
    /// All columns except the key and the text.
    All,
    /// These.
    Named(Vec<String>),
}

#[derive(Debug, Clone)]
pub enum Source {
    /// Files of rows: JSON lines, CSV, TSV, Parquet, or a folder of them.
    Files { path: PathBuf, columns: Columns },
    /// A table or query of PostgreSQL, in the order of its key.
    Postgres(PostgresRows),
    /// The texts kept by a collection of vectors.
    Collection(CollectionRows),
}

impl Source {
    /// Its name in messages, without secrets.
    pub fn name(&self) -> String {
        match self {
            Self::Files { path, .. } => path.display().to_string(),
            Self::Postgres(rows) => rows.name().to_owned(),
            Self::Collection(rows) => rows.name().to_owned(),
        }
    }

    /// All documents, in batches of at most `most`. Little more than one batch is in memory.
    pub fn batches(&self, most: usize) -> BoxStream<'static, Result<Vec<Document>>> {
        match self {
            Self::Files { path, columns } => file::batches(path.clone(), columns.clone(), most),
            Self::Postgres(rows) => rows.batches(most),
            Self::Collection(rows) => rows.batches(most),
        }
    }
}

/// The joined text of several columns; null values are left out.
fn joined(texts: impl IntoIterator<Item = Option<String>>) -> String {
    let texts: Vec<String> = texts.into_iter().flatten().filter(|text| !text.is_empty()).collect();
    texts.join(BETWEEN)
}
