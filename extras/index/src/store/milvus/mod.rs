//! A collection of Milvus, over gRPC.
//!
//! Fields: `key`, `document`, `digest`, `payload` (JSON), `embedding`, and `text` if texts are
//! kept. The mark is a property of the collection. Milvus reads the rows of a collection only while
//! it is loaded, and loads it only with an index of its vectors. Both are done when the collection
//! is created, and again if a run was killed in between. Our own reads wait for all earlier writes
//! (strong consistency), because a run must see the last writes of the previous run.
//!
//! `server`: calls. `messages`: their messages. `columns`: rows as messages.

mod columns;
pub(crate) mod messages;
mod server;

use std::time::Duration;

use futures::{FutureExt, future::BoxFuture};
use tokio::time::Instant;

use super::{Hit, Page, Row, StoredRow, StoredVector, VectorStore};
use crate::{
    error::{IndexError, Result},
    mark::Mark,
};
use columns::{Columns, any_of, columns, literal, placeholder, schema};
use messages::{
    Call, CreateCollection, CreateIndex, Delete, DescribeIndex, EXPRESSION, GetLoadState, KeyValue, LoadCollection,
    Query, Search, Upsert, consistency, load_state,
};
use server::Outcome;

pub(crate) use server::Server;

/// Name of the mark among the properties.
const MARK: &str = "isomer_index";
const KEY: &str = "key";
const DOCUMENT: &str = "document";
const DIGEST: &str = "digest";
const PAYLOAD: &str = "payload";
const TEXT: &str = "text";
const EMBEDDING: &str = "embedding";
/// Maximum length of a row's text or JSON, in bytes.
const LONGEST_TEXT: usize = 65_535;
/// Number of rows per page, and of keys per expression.
const PAGE: usize = 1_000;
/// Number of rows per write: a request has at most 64 MiB.
const WRITE: usize = 250;
/// Maximum time for loading a collection.
const LONGEST_LOAD: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) struct Collection {
    server: Server,
}

impl Collection {
    pub(super) fn new(server: Server) -> Self {
        Self { server }
    }

    fn unreadable(&self, what: &str) -> IndexError {
        IndexError::Refused {
            doing: format!("reading {}", self.server.shown),
            message: what.to_owned(),
        }
    }

    fn missing(&self) -> IndexError {
        IndexError::NoCollection {
            collection: self.server.shown.clone(),
        }
    }

    /// The names of the database and of the collection, which each request contains.
    fn named(&self) -> (String, String) {
        (self.server.database.clone(), self.server.collection.clone())
    }

    async fn read_mark(&self) -> Result<Option<Mark>> {
        let description = self.server.describe().await?;
        let mark = description.as_ref().and_then(|description| description.property(MARK));
        mark.map(|text| Mark::from_text(&self.server.shown, text)).transpose()
    }

    async fn make(&self, mark: &Mark) -> Result<()> {
        let metric = metric(mark).ok_or_else(|| IndexError::Refused {
            doing: format!("creating {}", self.server.shown),
            message: "Milvus does not compare by Manhattan distance, which this encoder's vectors are made for"
                .to_owned(),
        })?;
        match self.server.describe().await? {
            None => self.create_collection(mark).await?,
            Some(description) if description.property(MARK).is_none() => {
                return Err(IndexError::Foreign {
                    collection: self.server.shown.clone(),
                    message: "there is a collection of this name, whose properties have no mark".to_owned(),
                });
            }
            Some(_) => {}
        }
        self.create_indexes(metric).await?;
        self.load().await
    }

    async fn create_collection(&self, mark: &Mark) -> Result<()> {
        let (db_name, collection_name) = self.named();
        let call = CreateCollection {
            schema: schema(&collection_name, mark),
            db_name,
            collection_name,
            consistency_level: consistency::BOUNDED,
            properties: vec![KeyValue::new(MARK, mark.to_text())],
        };
        match self.server.send("creating", &call).await {
            // Another run has created it first.
            Err(IndexError::Refused { .. }) if self.read_mark().await?.is_some() => return Ok(()),
            other => drop(other?),
        }
        match self.read_mark().await? {
            Some(_) => Ok(()),
            None => Err(IndexError::Refused {
                doing: format!("creating {}", self.server.shown),
                message: "the server kept no properties of the collection, which hold its mark; Milvus 2.4 or newer is needed. \
                          Remove the collection, which is empty"
                    .to_owned(),
            }),
        }
    }

    /// Creates indexes of the vectors, and of the documents, whose rows each batch requests.
    /// Existing indexes of others are kept.
    async fn create_indexes(&self, metric: &str) -> Result<()> {
        let (db_name, collection_name) = self.named();
        let of_vectors = vec![
            KeyValue::new("index_type", "AUTOINDEX"),
            KeyValue::new("metric_type", metric),
        ];
        let of_documents = vec![KeyValue::new("index_type", "INVERTED")];
        let call = DescribeIndex {
            db_name: db_name.clone(),
            collection_name: collection_name.clone(),
        };
        let there = self.server.find("reading", &call).await?.unwrap_or_default().indexes;
        for (field, params) in [(EMBEDDING, of_vectors), (DOCUMENT, of_documents)] {
            if there.iter().any(|index| index.field_name == field) {
                continue;
            }
            let call = CreateIndex {
                db_name: db_name.clone(),
                collection_name: collection_name.clone(),
                field_name: field.to_owned(),
                extra_params: params,
            };
            self.server.send("creating an index of", &call).await?;
        }
        Ok(())
    }

    /// Loads the collection and waits until it is loaded.
    async fn load(&self) -> Result<()> {
        let (db_name, collection_name) = self.named();
        let begun = Instant::now();
        let mut asked = false;
        loop {
            let call = GetLoadState {
                db_name: db_name.clone(),
                collection_name: collection_name.clone(),
            };
            match self.server.send("loading", &call).await?.state {
                load_state::LOADED => return Ok(()),
                load_state::MISSING => return Err(self.missing()),
                load_state::NOT_LOADED if !asked => {
                    asked = true;
                    let call = LoadCollection {
                        db_name: db_name.clone(),
                        collection_name: collection_name.clone(),
                    };
                    self.server.send("loading", &call).await?;
                }
                _ if begun.elapsed() > LONGEST_LOAD => {
                    return Err(IndexError::Unavailable {
                        doing: format!("loading {}", self.server.shown),
                        message: format!("it was not loaded after {} seconds", LONGEST_LOAD.as_secs()),
                    });
                }
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// A call that reads rows. A collection that is not loaded is loaded first: it was released, or
    /// the server was restarted and loads nothing by itself (Milvus Lite).
    async fn read<C: Call>(&self, doing: &str, call: &C) -> Result<C::Answer> {
        match self.server.call(doing, call).await? {
            Outcome::Done(answer) => return Ok(answer),
            Outcome::Missing => return Err(self.missing()),
            Outcome::NotLoaded => self.load().await?,
        }
        self.server.send(doing, call).await
    }

    async fn query(&self, expression: String, fields: &[&str], params: Vec<KeyValue>) -> Result<Columns> {
        let (db_name, collection_name) = self.named();
        let call = Query {
            db_name,
            collection_name,
            expr: expression,
            output_fields: fields.iter().map(|field| (*field).to_owned()).collect(),
            query_params: params,
            consistency_level: consistency::STRONG,
        };
        Ok(Columns(self.read("reading", &call).await?.fields_data))
    }

    /// Rows that match a condition, in the order of their keys.
    async fn page(&self, condition: Option<&str>, from: Option<&str>) -> Result<Vec<StoredRow>> {
        let after = from.map(|key| format!("{KEY} > {}", literal(key)));
        let conditions: Vec<&str> = after.as_deref().into_iter().chain(condition).collect();
        let params = vec![
            KeyValue::new("limit", PAGE.to_string()),
            // Together they give the first rows by key, like Milvus's own iterators.
            KeyValue::new("iterator", "True"),
            KeyValue::new("reduce_stop_for_best", "True"),
        ];
        let found = self
            .query(conditions.join(" and "), &[KEY, DOCUMENT, DIGEST], params)
            .await?;
        found
            .rows()
            .ok_or_else(|| self.unreadable("a row has no key, document or digest"))
    }

    async fn put(&self, rows: &[Row], gone: &[String]) -> Result<()> {
        let (db_name, collection_name) = self.named();
        for rows in rows.chunks(WRITE) {
            let call = Upsert {
                db_name: db_name.clone(),
                collection_name: collection_name.clone(),
                fields_data: columns(rows)?,
                num_rows: u32::try_from(rows.len()).unwrap_or(u32::MAX),
            };
            let failed = self.server.send("writing to", &call).await?.err_index.len();
            if failed > 0 {
                return Err(IndexError::Refused {
                    doing: format!("writing to {}", self.server.shown),
                    message: format!("{failed} of {} rows were not written", rows.len()),
                });
            }
        }
        for gone in gone.chunks(PAGE) {
            let call = Delete {
                db_name: db_name.clone(),
                collection_name: collection_name.clone(),
                expr: any_of(KEY, gone),
            };
            self.server.send("deleting from", &call).await?;
        }
        Ok(())
    }

    async fn some(&self, keys: &[String]) -> Result<Vec<StoredVector>> {
        let mut found = Vec::with_capacity(keys.len());
        for keys in keys.chunks(PAGE) {
            let columns = self.query(any_of(KEY, keys), &["*"], Vec::new()).await?;
            let rows = columns.vectors();
            found.extend(rows.ok_or_else(|| self.unreadable("a row has no key, payload or vector"))?);
        }
        Ok(found)
    }

    async fn nearest(&self, mark: &Mark, query: &[f32], most: usize) -> Result<Vec<Hit>> {
        let (db_name, collection_name) = self.named();
        let call = Search {
            db_name,
            collection_name,
            placeholder_group: placeholder(query),
            dsl_type: EXPRESSION,
            output_fields: vec![DOCUMENT.to_owned()],
            search_params: vec![
                KeyValue::new("anns_field", EMBEDDING),
                KeyValue::new("topk", most.to_string()),
                KeyValue::new("metric_type", metric(mark).unwrap_or_default()),
                KeyValue::new("params", "{}"),
            ],
            nq: 1,
            use_default_consistency: true,
        };
        let found = self.read("searching", &call).await?.results.unwrap_or_default();
        // Distances are returned unchanged: smaller is nearer.
        let sign = if mark.similarity == "euclidean" { -1.0 } else { 1.0 };
        let columns = Columns(found.fields_data);
        let documents = columns.texts(DOCUMENT);
        if documents.len() != found.scores.len() {
            return Err(self.unreadable("a hit has no document or score"));
        }
        let hits = documents.iter().zip(&found.scores).map(|(document, score)| Hit {
            document: document.clone(),
            score: f64::from(*score) * sign,
        });
        Ok(hits.collect())
    }
}

/// Milvus's name for the similarity; `None` if it has none.
fn metric(mark: &Mark) -> Option<&'static str> {
    match mark.similarity.as_str() {
        "dot" => Some("IP"),
        "euclidean" => Some("L2"),
        "manhattan" => None,
        _ => Some("COSINE"),
    }
}

impl VectorStore for Collection {
    fn name(&self) -> &str {
        &self.server.shown
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
            let mut rows: Vec<StoredRow> = Vec::new();
            for documents in documents.chunks(PAGE) {
                let condition = any_of(DOCUMENT, documents);
                let mut from: Option<String> = None;
                loop {
                    let page = self.page(Some(&condition), from.as_deref()).await?;
                    let last = page.len() < PAGE;
                    from = page.last().map(|row| row.key.clone());
                    rows.extend(page);
                    if last {
                        break;
                    }
                }
            }
            Ok(rows)
        }
        .boxed()
    }

    fn write<'a>(&'a self, rows: &'a [Row], gone: &'a [String]) -> BoxFuture<'a, Result<()>> {
        self.put(rows, gone).boxed()
    }

    fn scan<'a>(&'a self, from: Option<&'a str>) -> BoxFuture<'a, Result<Page>> {
        async move {
            let rows = self.page(None, from).await?;
            let next = rows.last().map(|row| row.key.clone()).filter(|_| rows.len() == PAGE);
            Ok(Page { rows, next })
        }
        .boxed()
    }

    fn vectors<'a>(&'a self, keys: &'a [String]) -> BoxFuture<'a, Result<Vec<StoredVector>>> {
        self.some(keys).boxed()
    }

    fn search<'a>(&'a self, mark: &'a Mark, vector: &'a [f32], most: usize) -> BoxFuture<'a, Result<Vec<Hit>>> {
        self.nearest(mark, vector, most).boxed()
    }

    fn settle(&self) -> BoxFuture<'_, Result<()>> {
        // A read that waits for all writes makes them visible to other readers, which then need not
        // wait themselves.
        async move { self.query(String::new(), &["count(*)"], Vec::new()).await.map(drop) }.boxed()
    }

    fn build_index<'a>(&'a self, _: &'a Mark) -> BoxFuture<'a, Result<bool>> {
        // The store indexes written rows by itself.
        async { Ok(false) }.boxed()
    }
}
