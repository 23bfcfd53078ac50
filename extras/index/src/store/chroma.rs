//! A collection of Chroma, over its REST API (version 2).
//!
//! The mark is in the collection's metadata. Values of metadata are scalars, so lists and objects
//! in a payload are stored as JSON text.

use futures::{FutureExt, future::BoxFuture};
use reqwest::Method;
use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;

use super::{DOCUMENT, Hit, Page, Row, StoredRow, StoredVector, TEXT, VectorStore, fields, payload, stored, vector};
use crate::{
    encode::Additional,
    error::{IndexError, Result},
    http::Http,
    mark::Mark,
};

/// Name of the mark in the metadata.
const MARK: &str = "isomer_index";
/// Number of rows per page.
const PAGE: usize = 1_000;
const TENANT: &str = "default_tenant";
const DATABASE: &str = "default_database";

#[derive(Debug)]
pub(super) struct Collection {
    http: Http,
    /// The tenant and database, from a name `TENANT/DATABASE/COLLECTION`.
    place: [String; 3],
    id: OnceCell<String>,
    most_rows: OnceCell<usize>,
}

impl Collection {
    pub(super) fn new(http: Http) -> Result<Self> {
        let parts: Vec<String> = http.collection.split('/').map(str::to_owned).collect();
        let place = match <[String; 3]>::try_from(parts) {
            Ok(place) => place,
            Err(parts) if parts.len() == 1 => [TENANT.to_owned(), DATABASE.to_owned(), http.collection.clone()],
            Err(_) => {
                return Err(IndexError::Setting {
                    field: "sink",
                    message: format!("`{}` is not a collection of Chroma", http.collection),
                    hint: "write COLLECTION or TENANT/DATABASE/COLLECTION behind the #",
                });
            }
        };
        Ok(Self {
            http,
            place,
            id: OnceCell::new(),
            most_rows: OnceCell::new(),
        })
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        let [tenant, database, _] = &self.place;
        [
            "api",
            "v2",
            "tenants",
            tenant.as_str(),
            "databases",
            database.as_str(),
            "collections",
        ]
        .iter()
        .chain(rest)
        .copied()
        .collect()
    }

    fn unreadable(&self, what: &str) -> IndexError {
        IndexError::Refused {
            doing: format!("reading {}", self.http.shown),
            message: what.to_owned(),
        }
    }

    async fn described(&self) -> Result<Option<Value>> {
        self.http
            .find("reading", Method::GET, &self.path(&[self.place[2].as_str()]), None)
            .await
    }

    /// The id for reading and writing rows.
    async fn id(&self) -> Result<&str> {
        let found = self.id.get_or_try_init(|| async {
            let answer = self.described().await?.ok_or_else(|| IndexError::NoCollection {
                collection: self.http.shown.clone(),
            })?;
            let id = answer["id"].as_str().map(str::to_owned);
            id.ok_or_else(|| self.unreadable("the collection has no id"))
        });
        found.await.map(String::as_str)
    }

    /// Maximum number of rows in a write.
    async fn most_rows(&self) -> Result<usize> {
        let most = self.most_rows.get_or_try_init(|| async {
            let path = ["api", "v2", "pre-flight-checks"];
            let answer = self
                .http
                .find("reading", Method::GET, &path, None)
                .await?
                .unwrap_or_default();
            let most = answer["max_batch_size"]
                .as_u64()
                .and_then(|most| usize::try_from(most).ok());
            Ok::<_, IndexError>(most.unwrap_or(PAGE).max(1))
        });
        most.await.copied()
    }

    async fn call(&self, doing: &str, what: &str, body: &Value) -> Result<Value> {
        let id = self.id().await?;
        self.http
            .send(doing, Method::POST, &self.path(&[id, what]), Some(body))
            .await
    }

    async fn read_mark(&self) -> Result<Option<Mark>> {
        let Some(answer) = self.described().await? else {
            return Ok(None);
        };
        match answer["metadata"].get(MARK).and_then(Value::as_str) {
            Some(text) => Mark::from_text(&self.http.shown, text).map(Some),
            None => Ok(None),
        }
    }

    async fn make(&self, mark: &Mark) -> Result<()> {
        let foreign = || IndexError::Foreign {
            collection: self.http.shown.clone(),
            message: "there is a collection of this name, whose metadata has no mark".to_owned(),
        };
        if self.described().await?.is_some() {
            return self.read_mark().await?.map(drop).ok_or_else(foreign);
        }
        let space = match mark.similarity.as_str() {
            "dot" => "ip",
            "euclidean" => "l2",
            "manhattan" => {
                return Err(IndexError::Refused {
                    doing: format!("creating {}", self.http.shown),
                    message: "Chroma does not compare by Manhattan distance, which this encoder's vectors are made for"
                        .to_owned(),
                });
            }
            _ => "cosine",
        };
        let body = json!({
            "name": self.place[2],
            "metadata": { MARK: mark.to_text() },
            "configuration": { "hnsw": { "space": space } },
            "get_or_create": false,
        });
        match self
            .http
            .send("creating", Method::POST, &self.path(&[]), Some(&body))
            .await
        {
            // Another run has created it first.
            Err(IndexError::Refused { .. }) if self.read_mark().await?.is_some() => Ok(()),
            other => other.map(drop),
        }
    }

    async fn put(&self, rows: &[Row], gone: &[String]) -> Result<()> {
        let most = self.most_rows().await?;
        for rows in rows.chunks(most) {
            let with_texts = rows.iter().any(|row| row.text.is_some());
            let metadatas: Result<Vec<Value>> = rows.iter().map(|row| Ok(Value::Object(flat(fields(row)?)))).collect();
            let mut body = json!({
                "ids": rows.iter().map(|row| &row.key).collect::<Vec<_>>(),
                "embeddings": rows.iter().map(|row| &row.vector).collect::<Vec<_>>(),
                "metadatas": metadatas?,
            });
            if with_texts {
                body["documents"] = rows.iter().map(|row| row.text.clone()).collect();
            }
            self.call("writing to", "upsert", &body).await?;
        }
        for gone in gone.chunks(most) {
            self.call("deleting from", "delete", &json!({ "ids": gone })).await?;
        }
        Ok(())
    }

    /// Rows that match a condition, from an offset in their order.
    async fn page(&self, condition: Option<&Value>, from: usize) -> Result<Vec<StoredRow>> {
        let mut body = json!({ "include": ["metadatas"], "limit": PAGE, "offset": from });
        if let Some(condition) = condition {
            body["where"] = condition.clone();
        }
        let answer = self.call("reading", "get", &body).await?;
        let found = answer["metadatas"]
            .as_array()
            .ok_or_else(|| self.unreadable("the answer has no metadata"))?;
        let foreign = || IndexError::Foreign {
            collection: self.http.shown.clone(),
            message: "a row of it has no key, document or digest of ours".to_owned(),
        };
        found.iter().map(|fields| stored(fields).ok_or_else(foreign)).collect()
    }

    async fn some(&self, keys: &[String]) -> Result<Vec<StoredVector>> {
        let body = json!({ "ids": keys, "include": ["embeddings", "metadatas"] });
        let answer = self.call("reading", "get", &body).await?;
        let lists = || {
            Some((
                answer["ids"].as_array()?,
                answer["embeddings"].as_array()?,
                answer["metadatas"].as_array()?,
            ))
        };
        let (ids, vectors, metadatas) = lists().ok_or_else(|| self.unreadable("the answer has no vectors"))?;
        ids.iter()
            .zip(vectors)
            .zip(metadatas)
            .map(|((id, numbers), fields)| {
                let row = || {
                    Some(StoredVector {
                        additional: Additional::default(),
                        key: id.as_str()?.to_owned(),
                        vector: vector(numbers)?,
                        text: fields[TEXT].as_str().map(str::to_owned),
                        payload: payload(fields, fields[TEXT].is_string()),
                    })
                };
                row().ok_or_else(|| self.unreadable("a row has no vector"))
            })
            .collect()
    }

    async fn nearest(&self, query: &[f32], most: usize) -> Result<Vec<Hit>> {
        let body = json!({ "query_embeddings": [query], "n_results": most, "include": ["metadatas", "distances"] });
        let answer = self.call("searching", "query", &body).await?;
        let lists = || Some((answer["metadatas"][0].as_array()?, answer["distances"][0].as_array()?));
        let (metadatas, distances) = lists().ok_or_else(|| self.unreadable("the answer has no hits"))?;
        metadatas
            .iter()
            .zip(distances)
            .map(|(fields, distance)| {
                let hit = || {
                    Some(Hit {
                        document: fields[DOCUMENT].as_str()?.to_owned(),
                        score: -distance.as_f64()?,
                    })
                };
                hit().ok_or_else(|| self.unreadable("a hit has no document or distance"))
            })
            .collect()
    }
}

/// Fields without lists and objects, which become JSON text, and without nulls, which cannot be
/// stored.
fn flat(fields: Map<String, Value>) -> Map<String, Value> {
    let scalar = |value: Value| match value {
        Value::Array(_) | Value::Object(_) => Value::String(value.to_string()),
        other => other,
    };
    fields
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name, scalar(value)))
        .collect()
}

impl VectorStore for Collection {
    fn name(&self) -> &str {
        &self.http.shown
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn keeps_lengths(&self, _: &Mark) -> bool {
        true
    }

    fn mark(&self) -> BoxFuture<'_, Result<Option<Mark>>> {
        self.read_mark().boxed()
    }

    fn create<'a>(&'a self, mark: &'a Mark) -> BoxFuture<'a, Result<()>> {
        self.make(mark).boxed()
    }

    fn rows_of<'a>(&'a self, documents: &'a [String]) -> BoxFuture<'a, Result<Vec<StoredRow>>> {
        async move {
            let condition = json!({ DOCUMENT: { "$in": documents } });
            let mut rows = Vec::new();
            loop {
                let page = self.page(Some(&condition), rows.len()).await?;
                let last = page.len() < PAGE;
                rows.extend(page);
                if last {
                    return Ok(rows);
                }
            }
        }
        .boxed()
    }

    fn write<'a>(&'a self, rows: &'a [Row], gone: &'a [String]) -> BoxFuture<'a, Result<()>> {
        self.put(rows, gone).boxed()
    }

    fn scan<'a>(&'a self, from: Option<&'a str>) -> BoxFuture<'a, Result<Page>> {
        async move {
            let from: usize = from.and_then(|from| from.parse().ok()).unwrap_or_default();
            let rows = self.page(None, from).await?;
            let next = (rows.len() == PAGE).then(|| (from + PAGE).to_string());
            Ok(Page { rows, next })
        }
        .boxed()
    }

    fn vectors<'a>(&'a self, keys: &'a [String]) -> BoxFuture<'a, Result<Vec<StoredVector>>> {
        self.some(keys).boxed()
    }

    fn search<'a>(&'a self, _: &'a Mark, vector: &'a [f32], most: usize) -> BoxFuture<'a, Result<Vec<Hit>>> {
        self.nearest(vector, most).boxed()
    }

    fn settle(&self) -> BoxFuture<'_, Result<()>> {
        async { Ok(()) }.boxed()
    }

    fn build_index<'a>(&'a self, _: &'a Mark) -> BoxFuture<'a, Result<bool>> {
        // The store indexes written rows by itself.
        async { Ok(false) }.boxed()
    }
}
