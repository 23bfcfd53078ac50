//! Aliases of OpenSearch and Elasticsearch.

use futures::{FutureExt, future::BoxFuture};
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    super::{
        VectorStore,
        elastic::{Engine, Index},
    },
    Aliases, RECORD,
};
use crate::{
    error::{IndexError, Result},
    http::Http,
};

#[derive(Debug, Clone)]
pub(crate) struct Alias {
    http: Http,
    engine: Engine,
}

impl Alias {
    pub(crate) fn new(http: Http, engine: Engine) -> Self {
        Self { http, engine }
    }

    async fn find(&self) -> Result<Option<String>> {
        let path = ["_alias", self.http.collection.as_str()];
        let found = match self.http.find("reading", Method::GET, &path, None).await {
            // A key for one index may not have permission to list aliases.
            Err(IndexError::Refused { .. }) => return Ok(None),
            found => found?,
        };
        let Some(indexes) = found.as_ref().and_then(Value::as_object) else {
            return Ok(None);
        };
        match indexes.keys().collect::<Vec<_>>().as_slice() {
            [] => Ok(None),
            [index] => Ok(Some((*index).clone())),
            several => Err(IndexError::Foreign {
                collection: self.http.shown.clone(),
                message: format!("the alias leads to {} indexes", several.len()),
            }),
        }
    }

    async fn turn(&self, from: Option<&str>, to: &str) -> Result<()> {
        let alias = &self.http.collection;
        let mut actions = Vec::new();
        if let Some(from) = from {
            actions.push(json!({ "remove": { "index": from, "alias": alias } }));
        }
        actions.push(json!({ "add": { "index": to, "alias": alias } }));
        let body = json!({ "actions": actions });
        self.http
            .send("moving", Method::POST, &["_aliases"], Some(&body))
            .await
            .map(drop)
    }

    async fn meta(&self, index: &str) -> Result<Option<Value>> {
        let found = self
            .http
            .find("reading", Method::GET, &[index, "_mapping"], None)
            .await?;
        let mappings = found
            .as_ref()
            .and_then(Value::as_object)
            .and_then(|answer| answer.values().next());
        Ok(mappings.map(|index| index.pointer("/mappings/_meta").cloned().unwrap_or_default()))
    }

    async fn write(&self, index: &str, record: &str) -> Result<()> {
        // The given content replaces the existing content, which includes the mark.
        let mut meta = self.meta(index).await?.filter(Value::is_object).unwrap_or(json!({}));
        meta[RECORD] = record.into();
        let body = json!({ "_meta": meta });
        self.http
            .send("writing to", Method::PUT, &[index, "_mapping"], Some(&body))
            .await
            .map(drop)
    }
}

impl Aliases for Alias {
    fn shown(&self) -> &str {
        &self.http.shown
    }

    fn name(&self) -> &str {
        &self.http.collection
    }

    fn target(&self) -> BoxFuture<'_, Result<Option<String>>> {
        self.find().boxed()
    }

    fn point<'a>(&'a self, from: Option<&'a str>, to: &'a str) -> BoxFuture<'a, Result<()>> {
        self.turn(from, to).boxed()
    }

    fn record<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Option<String>>> {
        async move {
            let meta = self.meta(collection).await?.unwrap_or_default();
            Ok(meta[RECORD].as_str().map(str::to_owned))
        }
        .boxed()
    }

    fn keep<'a>(&'a self, collection: &'a str, record: &'a str) -> BoxFuture<'a, Result<()>> {
        self.write(collection, record).boxed()
    }

    fn remove<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<()>> {
        async move {
            self.http
                .find("removing", Method::DELETE, &[collection], None)
                .await
                .map(drop)
        }
        .boxed()
    }

    fn store(&self, collection: &str) -> Result<Box<dyn VectorStore>> {
        Ok(Box::new(Index::new(self.http.of(collection), self.engine)?))
    }
}
