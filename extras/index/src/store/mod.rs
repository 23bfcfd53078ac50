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

/// A collection's kind of store, and its address there.
struct Location<'a> {
    kind: &'static StoreKind,
    address: &'a str,
    credentials: &'a Credentials,
    patience: Duration,
}

impl Location<'_> {
    /// A server over HTTP that takes its key in this header.
    fn http(&self, key: &'static str) -> Result<Http> {
        Http::open(self.address, key, self.credentials, self.patience)
    }

    fn milvus(&self) -> Result<milvus::Server> {
        milvus::Server::open(self.address, self.credentials, self.patience)
    }
}

/// A row of [`KINDS`].
struct StoreKind {
    /// The form of its addresses. The words before `://` or `+http` name the kind; a form without
    /// them is a folder.
    address: &'static str,
    open: fn(&Location<'_>) -> Result<Box<dyn VectorStore>>,
    /// `None` if it has no names that move atomically.
    names: Option<fn(&Location<'_>) -> Result<Box<dyn Names>>>,
}

const KINDS: [StoreKind; 7] = [
    StoreKind {
        address: "postgres://USER@HOST/DATABASE#TABLE",
        open: |at| Ok(Box::new(pgvector::Table::open(at.address, at.patience)?)),
        names: Some(|at| Ok(Box::new(pgvector::Names::open(at.address, at.patience)?))),
    },
    StoreKind {
        address: "qdrant+http://HOST:6333#COLLECTION",
        open: |at| Ok(Box::new(qdrant::Collection::new(at.http("api-key")?)?)),
        names: Some(|at| alias::names(alias::qdrant::Alias::new(at.http("api-key")?))),
    },
    StoreKind {
        address: "chroma+http://HOST:8000#COLLECTION",
        open: |at| Ok(Box::new(chroma::Collection::new(at.http("x-chroma-token")?)?)),
        names: None,
    },
    StoreKind {
        address: "milvus+http://HOST:19530#COLLECTION",
        open: |at| Ok(Box::new(milvus::Collection::new(at.milvus()?))),
        names: Some(|at| alias::names(alias::milvus::Alias::new(at.milvus()?))),
    },
    StoreKind {
        address: "opensearch+https://HOST:9200#INDEX",
        open: |at| elastic(at, elastic::Engine::OpenSearch),
        names: Some(|at| elastic_names(at, elastic::Engine::OpenSearch)),
    },
    StoreKind {
        address: "elasticsearch+https://HOST:9200#INDEX",
        open: |at| elastic(at, elastic::Engine::Elasticsearch),
        names: Some(|at| elastic_names(at, elastic::Engine::Elasticsearch)),
    },
    StoreKind {
        address: "a folder for Parquet files",
        open: |at| Ok(Box::new(parquet::Folder::new(PathBuf::from(at.address)))),
        names: None,
    },
];

fn elastic(at: &Location<'_>, engine: elastic::Engine) -> Result<Box<dyn VectorStore>> {
    Ok(Box::new(elastic::Index::new(at.http("authorization")?, engine)?))
}

fn elastic_names(at: &Location<'_>, engine: elastic::Engine) -> Result<Box<dyn Names>> {
    alias::names(alias::elastic::Alias::new(at.http("authorization")?, engine))
}

/// The forms of addresses, in a sentence.
pub fn addresses() -> String {
    let [others @ .., last] = KINDS.map(|kind| kind.address);
    format!("{}, or {last}", others.join(", "))
}

impl StoreKind {
    /// The part of an address that the store reads; `None` if it is another kind's.
    fn location<'a>(&self, address: &'a str) -> Option<&'a str> {
        let (scheme, given) = (scheme(self.address), scheme(address));
        let Some(server) = scheme.strip_suffix("http").or_else(|| scheme.strip_suffix("https")) else {
            // PostgreSQL's own clients read both schemes.
            return (scheme == given.replace("postgresql", "postgres")).then_some(address);
        };
        let http = address.strip_prefix(server)?;
        (http.starts_with("http://") || http.starts_with("https://")).then_some(http)
    }
}

/// The part of an address before `://`; nothing if it is a path.
fn scheme(address: &str) -> &str {
    address.split_once("://").map_or("", |(scheme, _)| scheme)
}

fn locate<'a>(address: &'a str, credentials: &'a Credentials, patience: Duration) -> Result<Location<'a>> {
    let found = KINDS.iter().find_map(|kind| Some((kind, kind.location(address)?)));
    let (kind, address) = found.ok_or_else(|| IndexError::Setting {
        field: "sink",
        message: format!("`{}://` is not a kind of store: {}", scheme(address), addresses()),
        hint: "give an address of one of these forms",
    })?;
    Ok(Location {
        kind,
        address,
        credentials,
        patience,
    })
}

/// The collection at an address of one of the forms in [`addresses`]. It does not connect yet.
///
/// # Errors
/// If the address cannot be used.
pub fn open(address: &str, credentials: &Credentials, patience: Duration) -> Result<Box<dyn VectorStore>> {
    let at = locate(address, credentials, patience)?;
    (at.kind.open)(&at)
}

/// The name at an address, if the store has names that move atomically; `None` otherwise. It does
/// not connect yet.
///
/// # Errors
/// If the address cannot be used.
pub fn names(address: &str, credentials: &Credentials, patience: Duration) -> Result<Option<Box<dyn Names>>> {
    let at = locate(address, credentials, patience)?;
    at.kind.names.map(|names| names(&at)).transpose()
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn found(address: &str) -> Option<&'static str> {
        let credentials = Credentials::default();
        locate(address, &credentials, Duration::ZERO)
            .map(|at| at.kind.address)
            .ok()
    }

    #[test]
    fn an_address_belongs_to_one_kind_or_is_refused() {
        for kind in KINDS {
            assert_eq!(found(kind.address), Some(kind.address));
        }
        assert_eq!(found("postgresql://me@h/db#t"), found("postgres://me@h/db#t"));
        assert_eq!(found("qdrant+https://h#c"), found("qdrant+http://h#c"));
        for address in ["qdrant://h#c", "qdrant+grpc://h#c", "weaviate+http://h#c", "http://h#c"] {
            assert_eq!(found(address), None, "{address}");
        }
    }

    #[test]
    fn the_guide_to_search_names_every_kind_of_store() {
        let guide = std::fs::read_to_string("../../docs/how-to/search.md").unwrap();
        for kind in KINDS.iter().filter(|kind| !scheme(kind.address).is_empty()) {
            assert!(guide.contains(&format!("`{}`", kind.address)), "{}", kind.address);
        }
    }
}
