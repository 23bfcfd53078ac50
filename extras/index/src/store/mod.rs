//! Stores of vectors: one interface, one file per store.

mod alias;
mod chroma;
mod elastic;
mod milvus;
mod names;
mod parquet;
mod pgvector;
mod qdrant;

use std::{fmt, path::PathBuf, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use serde_json::{Map, Value};

use crate::{
    encode::{Additional, AdditionalVectors},
    error::{IndexError, Result},
    http::Http,
    mark::Mark,
};

pub use crate::http::Credentials;
pub use names::Names;

/// Prefix of our names among a row's fields, for stores with a single name space.
pub(crate) const OURS: &str = "isomer_";
pub(crate) const KEY: &str = "isomer_key";
pub(crate) const DOCUMENT: &str = "isomer_document";
pub(crate) const DIGEST: &str = "isomer_digest";
pub(crate) const TEXT: &str = "text";

#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its key: the document's, or the document's with the number of the chunk.
    pub key: String,
    /// Key of the document.
    pub document: String,
    /// The digest of its inputs.
    pub digest: String,
    /// The text, if the collection keeps texts.
    pub text: Option<String>,
    /// The fields stored beside the vector.
    pub payload: Map<String, Value>,
    pub vector: Vec<f32>,
    /// The vectors beside it.
    pub additional: Additional,
}

/// A stored row without its vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRow {
    pub key: String,
    /// Key of the document.
    pub document: String,
    /// The digest of its inputs.
    pub digest: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StoredVector {
    pub key: String,
    /// The vector as returned by the store.
    pub vector: Vec<f32>,
    /// The vectors beside it, as returned by the store.
    pub additional: Additional,
    /// Its text, if the collection keeps texts.
    pub text: Option<String>,
    /// The fields stored beside the vector.
    pub payload: Map<String, Value>,
}

/// Some rows of a collection.
#[derive(Debug, Clone, Default)]
pub struct Page {
    pub rows: Vec<StoredRow>,
    /// The start of the next page; `None` on the last.
    pub next: Option<String>,
}

/// A row that a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// Key of the document.
    pub document: String,
    /// Higher is nearer; only the order matters.
    pub score: f64,
}

/// A collection of vectors. All operations are idempotent: a row that is written twice exists once.
pub trait VectorStore: Send + Sync + fmt::Debug {
    /// Its name in messages, without secrets.
    fn name(&self) -> &str;

    /// Whether a search compares all vectors.
    fn is_exact(&self) -> bool;

    /// Vectors that the store can keep beside dense ones.
    fn additional(&self) -> AdditionalVectors {
        AdditionalVectors::default()
    }

    /// Whether the store keeps the lengths of vectors; if not, they are scaled to unit length.
    fn keeps_lengths(&self, mark: &Mark) -> bool;

    /// The mark of the collection; `None` if the collection does not exist or has no mark.
    fn mark(&self) -> BoxFuture<'_, Result<Option<Mark>>>;

    /// Creates the collection with its mark. An existing one keeps its own mark, which the caller
    /// reads afterwards.
    ///
    /// # Errors
    /// Also if a collection of this name exists that was not created by Isomer.
    fn create<'a>(&'a self, mark: &'a Mark) -> BoxFuture<'a, Result<()>>;

    fn rows_of<'a>(&'a self, documents: &'a [String]) -> BoxFuture<'a, Result<Vec<StoredRow>>>;

    /// Writes rows, replacing rows with the same keys, then removes rows by their keys.
    fn write<'a>(&'a self, rows: &'a [Row], gone: &'a [String]) -> BoxFuture<'a, Result<()>>;

    /// All rows, page by page. Nothing may be written between two pages.
    fn scan<'a>(&'a self, from: Option<&'a str>) -> BoxFuture<'a, Result<Page>>;

    /// The vectors of rows, in any order; missing rows are left out.
    fn vectors<'a>(&'a self, keys: &'a [String]) -> BoxFuture<'a, Result<Vec<StoredVector>>>;

    /// The nearest rows to a vector, best first, as found by the index.
    fn search<'a>(&'a self, mark: &'a Mark, vector: &'a [f32], most: usize) -> BoxFuture<'a, Result<Vec<Hit>>>;

    /// Like [`VectorStore::search`], but compares every vector; `None` if the store does not
    /// support that.
    fn search_exactly<'a>(
        &'a self,
        mark: &'a Mark,
        vector: &'a [f32],
        most: usize,
    ) -> BoxFuture<'a, Result<Option<Vec<Hit>>>> {
        async move {
            match self.is_exact() {
                true => self.search(mark, vector, most).await.map(Some),
                false => Ok(None),
            }
        }
        .boxed()
    }

    /// The store's settings for searches of this many rows, in words; `None`: no setting.
    fn search_depth(&self, _most: usize) -> BoxFuture<'_, Result<Option<String>>> {
        async { Ok(None) }.boxed()
    }

    /// Makes written rows visible to every reader. A run ends with it.
    fn settle(&self) -> BoxFuture<'_, Result<()>>;

    /// Builds an index for approximate search over the existing rows, if the store does not do that
    /// itself. Returns whether there was one to build.
    fn build_index<'a>(&'a self, mark: &'a Mark) -> BoxFuture<'a, Result<bool>>;
}

/// The collection at an address: `postgres://…#TABLE`, `qdrant+http://…#COLLECTION`,
/// `chroma+http://…#COLLECTION`, `milvus+http://…#COLLECTION`, `opensearch+https://…#INDEX`,
/// `elasticsearch+https://…#INDEX`, or a folder of Parquet files. It does not connect yet.
///
/// # Errors
/// If the address cannot be used.
pub fn open(address: &str, credentials: &Credentials, patience: Duration) -> Result<Box<dyn VectorStore>> {
    let Some((scheme, _)) = address.split_once("://") else {
        return Ok(Box::new(parquet::Folder::new(PathBuf::from(address))));
    };
    if matches!(scheme, "postgres" | "postgresql") {
        return Ok(Box::new(pgvector::Table::open(address, patience)?));
    }
    let (kind, rest) = server_of(scheme, address)?;
    let http = |scheme| Http::open(rest, scheme, credentials, patience);
    Ok(match kind {
        Kind::Qdrant => Box::new(qdrant::Collection::new(http("api-key")?)?),
        Kind::Chroma => Box::new(chroma::Collection::new(http("x-chroma-token")?)?),
        Kind::Milvus => Box::new(milvus::Collection::new(milvus::Server::open(
            rest,
            credentials,
            patience,
        )?)),
        Kind::Elastic(engine) => Box::new(elastic::Index::new(http("authorization")?, engine)?),
    })
}

/// The name at an address, if the store has names that move atomically; `None` otherwise. It does
/// not connect yet.
///
/// # Errors
/// If the address cannot be used.
pub fn names(address: &str, credentials: &Credentials, patience: Duration) -> Result<Option<Box<dyn Names>>> {
    let Some((scheme, _)) = address.split_once("://") else {
        return Ok(None);
    };
    if matches!(scheme, "postgres" | "postgresql") {
        return Ok(Some(Box::new(pgvector::Names::open(address, patience)?)));
    }
    let (kind, rest) = server_of(scheme, address)?;
    let http = |scheme| Http::open(rest, scheme, credentials, patience);
    Ok(match kind {
        Kind::Chroma => None,
        Kind::Qdrant => Some(Box::new(alias::AliasNames {
            aliases: alias::qdrant::Alias::new(http("api-key")?),
        })),
        Kind::Milvus => Some(Box::new(alias::AliasNames {
            aliases: alias::milvus::Alias::new(milvus::Server::open(rest, credentials, patience)?),
        })),
        Kind::Elastic(engine) => Some(Box::new(alias::AliasNames {
            aliases: alias::elastic::Alias::new(http("authorization")?, engine),
        })),
    })
}

/// A store that is a server with an HTTP address: JSON requests, or gRPC for Milvus.
enum Kind {
    Qdrant,
    Chroma,
    Milvus,
    Elastic(elastic::Engine),
}

/// The kind of store that a scheme names, and the address of its server.
fn server_of<'a>(scheme: &str, address: &'a str) -> Result<(Kind, &'a str)> {
    let unknown = || IndexError::Setting {
        field: "sink",
        message: format!("`{scheme}://` is not a supported kind of store"),
        hint: "write postgres://, qdrant+http://, chroma+http://, milvus+http://, opensearch+http:// or elasticsearch+http:// (or \
               +https://), or a folder for Parquet files",
    };
    let (name, protocol) = scheme.split_once('+').ok_or_else(unknown)?;
    let kind = match name {
        "qdrant" => Kind::Qdrant,
        "chroma" => Kind::Chroma,
        "milvus" => Kind::Milvus,
        "opensearch" => Kind::Elastic(elastic::Engine::OpenSearch),
        "elasticsearch" => Kind::Elastic(elastic::Engine::Elasticsearch),
        _ => return Err(unknown()),
    };
    if !matches!(protocol, "http" | "https") {
        return Err(unknown());
    }
    let server = address.strip_prefix(name).and_then(|rest| rest.strip_prefix('+'));
    Ok((kind, server.unwrap_or(address)))
}

/// Fields of a row in a store with a single name space: the payload's, then ours.
///
/// # Errors
/// If the payload uses one of our names.
pub(crate) fn fields(row: &Row) -> Result<Map<String, Value>> {
    if let Some(name) = row
        .payload
        .keys()
        .find(|name| name.starts_with(OURS) || *name == TEXT && row.text.is_some())
    {
        return Err(IndexError::Setting {
            field: "payload",
            message: format!("the column `{name}` has a name that the stored row has for itself"),
            hint: "leave it out, or rename it in a query (--source-query)",
        });
    }
    let mut fields = row.payload.clone();
    for (name, value) in [(KEY, &row.key), (DOCUMENT, &row.document), (DIGEST, &row.digest)] {
        fields.insert(name.to_owned(), Value::String(value.clone()));
    }
    if let Some(text) = &row.text {
        fields.insert(TEXT.to_owned(), Value::String(text.clone()));
    }
    Ok(fields)
}

/// A row from the fields that [`fields`] wrote; `None` if one of ours is missing.
pub(crate) fn stored(fields: &Value) -> Option<StoredRow> {
    let field = |name: &str| Some(fields.get(name)?.as_str()?.to_owned());
    Some(StoredRow {
        key: field(KEY)?,
        document: field(DOCUMENT)?,
        digest: field(DIGEST)?,
    })
}

/// The payload among the fields that [`fields`] wrote; `with_text` states whether the collection
/// keeps texts.
pub(crate) fn payload(fields: &Value, with_text: bool) -> Map<String, Value> {
    let mut payload = fields.as_object().cloned().unwrap_or_default();
    payload.retain(|name, _| !(name.starts_with(OURS) || with_text && name == TEXT));
    payload
}

/// A vector of JSON numbers.
pub(crate) fn vector(value: &Value) -> Option<Vec<f32>> {
    #[allow(clippy::cast_possible_truncation)]
    value
        .as_array()?
        .iter()
        .map(|number| Some(number.as_f64()? as f32))
        .collect()
}
