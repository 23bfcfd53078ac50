//! A collection of Qdrant, over its REST API.
//!
//! Points have numeric ids, so a row's id is derived from its key. The mark is in the collection's
//! metadata, which Qdrant has from 1.16.

use futures::{FutureExt, future::BoxFuture};
use isomer_proto::encoder::v1::SparseVector;
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    DIGEST, DOCUMENT, Hit, KEY, Page, Row, StoredRow, StoredVector, TEXT, VectorStore, fields, payload, stored, vector,
};
use crate::{
    encode::{Additional, AdditionalVectors},
    error::{IndexError, Result},
    http::Http,
    mark::Mark,
};

/// Name of the mark in the metadata.
const MARK: &str = "isomer_index";
/// Names of the vectors of a collection with sparse vectors or vectors of tokens. A collection of
/// dense vectors alone has one vector without a name.
const DENSE: &str = "dense";
const SPARSE: &str = "sparse";
const TOKENS: &str = "tokens";
/// Number of points per page.
const PAGE: usize = 1_000;

#[derive(Debug)]
pub(super) struct Collection {
    http: Http,
}

impl Collection {
    pub(super) fn new(http: Http) -> Result<Self> {
        Ok(Self { http })
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        ["collections", self.http.collection.as_str()]
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

    /// A page of points; `next` is the id of the point at which the next page begins, as JSON.
    async fn scroll(&self, mut body: Value, from: Option<&str>) -> Result<(Vec<Value>, Option<String>)> {
        body["limit"] = json!(PAGE);
        if let Some(from) = from {
            body["offset"] = serde_json::from_str(from).map_err(|_| self.unreadable("a page begins nowhere"))?;
        }
        let answer = self
            .http
            .send("reading", Method::POST, &self.path(&["points", "scroll"]), Some(&body))
            .await?;
        let points = answer.pointer("/result/points").and_then(Value::as_array).cloned();
        let points = points.ok_or_else(|| self.unreadable("the answer has no points"))?;
        let next = answer
            .pointer("/result/next_page_offset")
            .filter(|next| !next.is_null());
        Ok((points, next.map(Value::to_string)))
    }

    fn row(&self, point: &Value) -> Result<StoredRow> {
        stored(&point["payload"]).ok_or_else(|| IndexError::Foreign {
            collection: self.http.shown.clone(),
            message: format!("its point {} has no key, document or digest of ours", point["id"]),
        })
    }

    async fn read_mark(&self) -> Result<Option<Mark>> {
        let Some(answer) = self.http.find("reading", Method::GET, &self.path(&[]), None).await? else {
            return Ok(None);
        };
        let mark = answer
            .pointer("/result/config/metadata")
            .and_then(|metadata| metadata.get(MARK));
        match mark.and_then(Value::as_str) {
            Some(text) => Mark::from_text(&self.http.shown, text).map(Some),
            None => Ok(None),
        }
    }

    async fn make(&self, mark: &Mark) -> Result<()> {
        if self
            .http
            .find("reading", Method::GET, &self.path(&[]), None)
            .await?
            .is_some()
        {
            return match self.read_mark().await? {
                Some(_) => Ok(()),
                None => Err(IndexError::Foreign {
                    collection: self.http.shown.clone(),
                    message: "there is a collection of this name, whose metadata has no mark".to_owned(),
                }),
            };
        }
        let distance = match mark.similarity.as_str() {
            "dot" => "Dot",
            "euclidean" => "Euclid",
            "manhattan" => "Manhattan",
            _ => "Cosine",
        };
        let mut body = json!({
            "vectors": { "size": mark.space.dimensions, "distance": distance },
            "metadata": { MARK: mark.to_text() },
        });
        if !mark.additional().is_none() {
            body["vectors"] = json!({ DENSE: body["vectors"] });
        }
        if let Some(tokens) = &mark.tokens {
            // Late interaction ranks what another vector found, so it needs no graph.
            body["vectors"][TOKENS] = json!({
                "size": tokens.dimensions, "distance": distance,
                "multivector_config": { "comparator": "max_sim" }, "hnsw_config": { "m": 0 },
            });
        }
        if mark.sparse.is_some() {
            body["sparse_vectors"] = json!({ SPARSE: {} });
        }
        match self
            .http
            .send("creating", Method::PUT, &self.path(&[]), Some(&body))
            .await
        {
            // Another run has created it first.
            Err(IndexError::Refused { .. }) if self.read_mark().await?.is_some() => return Ok(()),
            other => drop(other?),
        }
        if self.read_mark().await?.is_none() {
            return Err(IndexError::Refused {
                doing: format!("creating {}", self.http.shown),
                message: "the server kept no metadata of the collection, which holds its mark; Qdrant 1.16 or newer is needed. \
                          Remove the collection, which is empty"
                    .to_owned(),
            });
        }
        // Without it, a server scans all points for those of a document.
        let index = json!({ "field_name": DOCUMENT, "field_schema": "keyword" });
        let path = self.path(&["index", "?wait=true"]);
        self.http
            .send("creating", Method::PUT, &path, Some(&index))
            .await
            .map(drop)
    }

    async fn put(&self, rows: &[Row], gone: &[String]) -> Result<()> {
        if !rows.is_empty() {
            let points: Result<Vec<Value>> = rows
                .iter()
                .map(|row| Ok(json!({ "id": id(&row.key), "vector": named(row), "payload": fields(row)? })))
                .collect();
            let path = self.path(&["points", "?wait=true"]);
            self.http
                .send("writing to", Method::PUT, &path, Some(&json!({ "points": points? })))
                .await?;
        }
        if !gone.is_empty() {
            let ids: Vec<String> = gone.iter().map(|key| id(key)).collect();
            let path = self.path(&["points", "delete", "?wait=true"]);
            self.http
                .send("deleting from", Method::POST, &path, Some(&json!({ "points": ids })))
                .await?;
        }
        Ok(())
    }

    async fn some(&self, keys: &[String]) -> Result<Vec<StoredVector>> {
        let ids: Vec<String> = keys.iter().map(|key| id(key)).collect();
        let body = json!({ "ids": ids, "with_vector": true, "with_payload": true });
        let answer = self
            .http
            .send("reading", Method::POST, &self.path(&["points"]), Some(&body))
            .await?;
        let points = answer["result"]
            .as_array()
            .ok_or_else(|| self.unreadable("the answer has no points"))?;
        points
            .iter()
            .map(|point| {
                let key = point["payload"][KEY]
                    .as_str()
                    .ok_or_else(|| self.unreadable("a point has no key"))?;
                let vectors = &point["vector"];
                let dense = if vectors.is_object() { &vectors[DENSE] } else { vectors };
                Ok(StoredVector {
                    key: key.to_owned(),
                    vector: vector(dense).ok_or_else(|| self.unreadable("a point has no vector"))?,
                    additional: Additional {
                        sparse: vectors.get(SPARSE).and_then(sparse),
                        tokens: vectors.get(TOKENS).and_then(rows),
                    },
                    text: point["payload"][TEXT].as_str().map(str::to_owned),
                    payload: payload(&point["payload"], point["payload"][TEXT].is_string()),
                })
            })
            .collect()
    }

    async fn nearest(&self, mark: &Mark, query: &[f32], most: usize, exact: bool) -> Result<Vec<Hit>> {
        let mut body = json!({ "query": query, "limit": most, "with_payload": [DOCUMENT] });
        if !mark.additional().is_none() {
            body["using"] = json!(DENSE);
        }
        if exact {
            body["params"] = json!({ "exact": true });
        }
        let answer = self
            .http
            .send("searching", Method::POST, &self.path(&["points", "query"]), Some(&body))
            .await?;
        let points = answer.pointer("/result/points").and_then(Value::as_array);
        // Distances are returned unchanged: smaller is nearer.
        let sign = if matches!(mark.similarity.as_str(), "euclidean" | "manhattan") {
            -1.0
        } else {
            1.0
        };
        let points = points.ok_or_else(|| self.unreadable("the answer has no points"))?;
        points
            .iter()
            .map(|point| {
                let hit = || {
                    Some(Hit {
                        document: point["payload"][DOCUMENT].as_str()?.to_owned(),
                        score: point["score"].as_f64()? * sign,
                    })
                };
                hit().ok_or_else(|| self.unreadable("a found point has no document or score"))
            })
            .collect()
    }
}

/// The vectors of a row: the dense one alone, or each by its name.
fn named(row: &Row) -> Value {
    let Additional { sparse, tokens } = &row.additional;
    if sparse.is_none() && tokens.is_none() {
        return json!(row.vector);
    }
    let mut vectors = json!({ DENSE: row.vector });
    if let Some(SparseVector { indices, values }) = sparse {
        vectors[SPARSE] = json!({ "indices": indices, "values": values });
    }
    // Qdrant refuses a multi-vector without rows.
    if let Some(tokens) = tokens.as_ref().filter(|tokens| !tokens.is_empty()) {
        vectors[TOKENS] = json!(tokens);
    }
    vectors
}

fn sparse(value: &Value) -> Option<SparseVector> {
    let indices = value["indices"].as_array()?.iter();
    Some(SparseVector {
        indices: indices
            .map(|index| index.as_u64().and_then(|index| index.try_into().ok()))
            .collect::<Option<_>>()?,
        values: vector(&value["values"])?,
    })
}

fn rows(value: &Value) -> Option<Vec<Vec<f32>>> {
    value.as_array()?.iter().map(vector).collect()
}

/// The id of a row's point.
fn id(key: &str) -> String {
    let hash = blake3::hash(key.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_bytes()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
}

impl VectorStore for Collection {
    fn name(&self) -> &str {
        &self.http.shown
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn additional(&self) -> AdditionalVectors {
        AdditionalVectors {
            sparse: true,
            tokens: true,
        }
    }

    fn keeps_lengths(&self, mark: &Mark) -> bool {
        mark.similarity != "cosine"
    }

    fn mark(&self) -> BoxFuture<'_, Result<Option<Mark>>> {
        self.read_mark().boxed()
    }

    fn create<'a>(&'a self, mark: &'a Mark) -> BoxFuture<'a, Result<()>> {
        self.make(mark).boxed()
    }

    fn rows_of<'a>(&'a self, documents: &'a [String]) -> BoxFuture<'a, Result<Vec<StoredRow>>> {
        async move {
            let filter = json!({ "must": [{ "key": DOCUMENT, "match": { "any": documents } }] });
            let (mut rows, mut from) = (Vec::new(), None);
            loop {
                let body = json!({ "filter": filter, "with_payload": [KEY, DOCUMENT, DIGEST], "with_vector": false });
                let (points, next) = self.scroll(body, from.as_deref()).await?;
                for point in &points {
                    rows.push(self.row(point)?);
                }
                match next {
                    Some(next) => from = Some(next),
                    None => return Ok(rows),
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
            let body = json!({ "with_payload": [KEY, DOCUMENT, DIGEST], "with_vector": false });
            let (points, next) = self.scroll(body, from).await?;
            let rows = points.iter().map(|point| self.row(point)).collect::<Result<_>>()?;
            Ok(Page { rows, next })
        }
        .boxed()
    }

    fn vectors<'a>(&'a self, keys: &'a [String]) -> BoxFuture<'a, Result<Vec<StoredVector>>> {
        self.some(keys).boxed()
    }

    fn search<'a>(&'a self, mark: &'a Mark, vector: &'a [f32], most: usize) -> BoxFuture<'a, Result<Vec<Hit>>> {
        self.nearest(mark, vector, most, false).boxed()
    }

    fn search_exactly<'a>(
        &'a self,
        mark: &'a Mark,
        vector: &'a [f32],
        most: usize,
    ) -> BoxFuture<'a, Result<Option<Vec<Hit>>>> {
        async move { self.nearest(mark, vector, most, true).await.map(Some) }.boxed()
    }

    fn settle(&self) -> BoxFuture<'_, Result<()>> {
        // Each write waited until it was applied.
        async { Ok(()) }.boxed()
    }

    fn build_index<'a>(&'a self, _: &'a Mark) -> BoxFuture<'a, Result<bool>> {
        // The store indexes written rows by itself.
        async { Ok(false) }.boxed()
    }
}
