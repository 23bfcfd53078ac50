//! An index of OpenSearch or Elasticsearch, by bulk requests.
//!
//! The mark is in the mapping's `_meta`. Fields of the payload are stored but not indexed, because
//! only those who search by them know their types.

use std::fmt::Write as _;

use futures::{FutureExt, future::BoxFuture};
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    DIGEST, DOCUMENT, Hit, KEY, Page, Row, StoredRow, StoredVector, TEXT, VectorStore, fields, payload, stored, vector,
};
use crate::{
    encode::Additional,
    error::{IndexError, Result},
    http::Http,
    mark::Mark,
};

/// Name of the mark in `_meta`.
const MARK: &str = "isomer_index";
const VECTOR: &str = "embedding";
/// Number of rows per page.
const PAGE: usize = 1_000;
/// Maximum length of a document's id, in bytes.
const LONGEST_ID: usize = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    OpenSearch,
    Elasticsearch,
}

#[derive(Debug)]
pub(super) struct Index {
    http: Http,
    engine: Engine,
}

impl Index {
    pub(super) fn new(http: Http, engine: Engine) -> Result<Self> {
        Ok(Self { http, engine })
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        [self.http.collection.as_str()].iter().chain(rest).copied().collect()
    }

    fn unreadable(&self, what: &str) -> IndexError {
        IndexError::Refused {
            doing: format!("reading {}", self.http.shown),
            message: what.to_owned(),
        }
    }

    /// The mapping's `_meta`; `None` if the index does not exist.
    async fn meta(&self) -> Result<Option<Value>> {
        let answer = self
            .http
            .find("reading", Method::GET, &self.path(&["_mapping"]), None)
            .await?;
        // The name of the index, which differs from ours if ours is an alias.
        let index = answer
            .as_ref()
            .and_then(Value::as_object)
            .and_then(|answer| answer.values().next());
        Ok(index.map(|index| index.pointer("/mappings/_meta").cloned().unwrap_or_default()))
    }

    async fn read_mark(&self) -> Result<Option<Mark>> {
        let meta = self.meta().await?.unwrap_or_default();
        match meta[MARK].as_str() {
            Some(text) => Mark::from_text(&self.http.shown, text).map(Some),
            None => Ok(None),
        }
    }

    async fn make(&self, mark: &Mark) -> Result<()> {
        if self.meta().await?.is_some() {
            let foreign = || IndexError::Foreign {
                collection: self.http.shown.clone(),
                message: "there is an index of this name, whose mapping has no mark".to_owned(),
            };
            return self.read_mark().await?.map(drop).ok_or_else(foreign);
        }
        let keyword = json!({ "type": "keyword" });
        let mut body = json!({ "mappings": {
            "_meta": { MARK: mark.to_text() },
            "dynamic": false,
            "properties": { KEY: keyword, DOCUMENT: keyword, DIGEST: keyword, TEXT: { "type": "text" }, VECTOR: self.field(mark)? },
        }});
        if self.engine == Engine::OpenSearch {
            body["settings"] = json!({ "index": { "knn": true } });
        }
        match self
            .http
            .send("creating", Method::PUT, &self.path(&[]), Some(&body))
            .await
        {
            // Another run has created it first.
            Err(IndexError::Refused { .. }) if self.read_mark().await?.is_some() => Ok(()),
            other => other.map(drop),
        }
    }

    /// The field of the vectors.
    fn field(&self, mark: &Mark) -> Result<Value> {
        let dimensions = mark.space.dimensions;
        let unit = mark.space.normalised;
        match (self.engine, mark.similarity.as_str()) {
            (_, "manhattan") => Err(IndexError::Refused {
                doing: format!("creating {}", self.http.shown),
                message: "approximate search by Manhattan distance, which this encoder's vectors are made for, is not offered there"
                    .to_owned(),
            }),
            (Engine::OpenSearch, similarity) => {
                let space = match similarity {
                    "dot" => "innerproduct",
                    "euclidean" => "l2",
                    _ => "cosinesimil",
                };
                let method = json!({ "name": "hnsw", "engine": "lucene", "space_type": space });
                Ok(json!({ "type": "knn_vector", "dimension": dimensions, "method": method }))
            }
            (Engine::Elasticsearch, similarity) => {
                let similarity = match similarity {
                    // `dot_product` only supports vectors of unit length.
                    "dot" if unit => "dot_product",
                    "dot" => "max_inner_product",
                    "euclidean" => "l2_norm",
                    _ => "cosine",
                };
                Ok(json!({ "type": "dense_vector", "dims": dimensions, "index": true, "similarity": similarity }))
            }
        }
    }

    async fn put(&self, rows: &[Row], gone: &[String]) -> Result<()> {
        let mut lines = String::new();
        for row in rows {
            let mut fields = fields(row)?;
            if fields.insert(VECTOR.to_owned(), json!(row.vector)).is_some() {
                return Err(IndexError::Setting {
                    field: "payload",
                    message: format!("the column `{VECTOR}` has the name of the vector"),
                    hint: "leave it out, or rename it in a query (--source-query)",
                });
            }
            // Writing to a String does not fail.
            let _ = writeln!(
                lines,
                "{}\n{}",
                json!({ "index": { "_id": id(&row.key) } }),
                Value::Object(fields)
            );
        }
        for key in gone {
            let _ = writeln!(lines, "{}", json!({ "delete": { "_id": id(key) } }));
        }
        if lines.is_empty() {
            return Ok(());
        }
        let answer = self
            .http
            .send_lines("writing to", &self.path(&["_bulk"]), &lines)
            .await?;
        self.all_done(&answer)
    }

    /// Checks each part of a bulk request, which as a whole succeeds although parts fail.
    fn all_done(&self, answer: &Value) -> Result<()> {
        let items = answer["items"]
            .as_array()
            .ok_or_else(|| self.unreadable("the answer to a bulk request has no items"))?;
        for item in items.iter().filter_map(Value::as_object).flat_map(|item| item.values()) {
            let status = item["status"].as_u64().unwrap_or(500);
            // A row to delete may already be gone.
            if status < 300 || status == 404 && item["result"] == "not_found" {
                continue;
            }
            let doing = format!("writing to {}", self.http.shown);
            let message = format!(
                "a row was refused with {status}: {}",
                item.pointer("/error/reason").unwrap_or(&item["error"])
            );
            return Err(match status {
                429 | 500.. => IndexError::Unavailable { doing, message },
                _ => IndexError::Refused { doing, message },
            });
        }
        Ok(())
    }

    async fn find(&self, doing: &str, body: &Value) -> Result<Vec<Value>> {
        let answer = self
            .http
            .send(doing, Method::POST, &self.path(&["_search"]), Some(body))
            .await?;
        // With a failed shard, existing rows would seem to be missing.
        let failed = answer.pointer("/_shards/failed").and_then(Value::as_u64).unwrap_or(0);
        if failed > 0 || answer["timed_out"] == true {
            return Err(IndexError::Unavailable {
                doing: format!("{doing} {}", self.http.shown),
                message: format!("{failed} shards failed, or the search timed out"),
            });
        }
        let hits = answer.pointer("/hits/hits").and_then(Value::as_array).cloned();
        hits.ok_or_else(|| self.unreadable("the answer has no hits"))
    }

    /// Rows that match a condition, in the order of their keys.
    async fn page(&self, condition: Value, from: Option<&str>) -> Result<Vec<StoredRow>> {
        let mut body = json!({
            "query": condition, "size": PAGE, "sort": [{ KEY: "asc" }], "_source": [KEY, DOCUMENT, DIGEST],
        });
        if let Some(from) = from {
            body["search_after"] = json!([from]);
        }
        let foreign = || IndexError::Foreign {
            collection: self.http.shown.clone(),
            message: "a row of it has no key, document or digest of ours".to_owned(),
        };
        let hits = self.find("reading", &body).await?;
        hits.iter()
            .map(|hit| stored(&hit["_source"]).ok_or_else(foreign))
            .collect()
    }

    async fn some(&self, keys: &[String]) -> Result<Vec<StoredVector>> {
        let mut found = Vec::with_capacity(keys.len());
        for keys in keys.chunks(PAGE) {
            let mut body = json!({ "query": { "terms": { KEY: keys } }, "size": PAGE, "_source": true });
            if self.engine == Engine::Elasticsearch {
                // From 9.2 on, the source omits vectors.
                body["fields"] = json!([VECTOR]);
            }
            for hit in self.find("reading", &body).await? {
                let source = &hit["_source"];
                let numbers = source.get(VECTOR).or_else(|| hit.pointer("/fields/embedding"));
                let row = || {
                    Some(StoredVector {
                        additional: Additional::default(),
                        key: source[KEY].as_str()?.to_owned(),
                        vector: vector(numbers?)?,
                        text: source[TEXT].as_str().map(str::to_owned),
                        payload: {
                            let mut own = payload(source, source[TEXT].is_string());
                            own.remove(VECTOR);
                            own
                        },
                    })
                };
                found.push(row().ok_or_else(|| self.unreadable("a row has no key or vector"))?);
            }
        }
        Ok(found)
    }

    async fn nearest(&self, query: &[f32], most: usize) -> Result<Vec<Hit>> {
        let body = match self.engine {
            Engine::OpenSearch => json!({
                "size": most, "_source": [DOCUMENT], "query": { "knn": { VECTOR: { "vector": query, "k": most } } },
            }),
            Engine::Elasticsearch => json!({
                "size": most, "_source": [DOCUMENT],
                "knn": { "field": VECTOR, "query_vector": query, "k": most, "num_candidates": (most * 10).min(10_000) },
            }),
        };
        let hits = self.find("searching", &body).await?;
        hits.iter()
            .map(|hit| {
                let found = || {
                    Some(Hit {
                        document: hit["_source"][DOCUMENT].as_str()?.to_owned(),
                        score: hit["_score"].as_f64()?,
                    })
                };
                found().ok_or_else(|| self.unreadable("a hit has no document or score"))
            })
            .collect()
    }
}

/// The id of a row: its key, or a hash of a key that is too long.
fn id(key: &str) -> String {
    match key.len() <= LONGEST_ID {
        true => key.to_owned(),
        false => blake3::hash(key.as_bytes()).to_hex().to_string(),
    }
}

impl VectorStore for Index {
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
        async move {
            let mark = self.read_mark().await?;
            if mark.is_some() {
                // Makes the last writes of a killed run visible to the next run.
                self.settle().await?;
            }
            Ok(mark)
        }
        .boxed()
    }

    fn create<'a>(&'a self, mark: &'a Mark) -> BoxFuture<'a, Result<()>> {
        self.make(mark).boxed()
    }

    fn rows_of<'a>(&'a self, documents: &'a [String]) -> BoxFuture<'a, Result<Vec<StoredRow>>> {
        async move {
            let condition = json!({ "terms": { DOCUMENT: documents } });
            let mut rows: Vec<StoredRow> = Vec::new();
            loop {
                let from = rows.last().map(|row| row.key.clone());
                let page = self.page(condition.clone(), from.as_deref()).await?;
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
        crate::retry::calls(self.http.patience(), || self.put(rows, gone)).boxed()
    }

    fn scan<'a>(&'a self, from: Option<&'a str>) -> BoxFuture<'a, Result<Page>> {
        async move {
            let rows = self.page(json!({ "match_all": {} }), from).await?;
            let next = rows.last().map(|row| row.key.clone()).filter(|_| rows.len() == PAGE);
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
        async move {
            let path = self.path(&["_refresh"]);
            self.http.send("refreshing", Method::POST, &path, None).await.map(drop)
        }
        .boxed()
    }

    fn build_index<'a>(&'a self, _: &'a Mark) -> BoxFuture<'a, Result<bool>> {
        // The store indexes written rows by itself.
        async { Ok(false) }.boxed()
    }
}
