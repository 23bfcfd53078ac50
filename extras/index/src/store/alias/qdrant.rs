//! Aliases of Qdrant.

use futures::{FutureExt, future::BoxFuture};
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    super::{VectorStore, qdrant::Collection},
    Aliases, RECORD,
};
use crate::{
    error::{IndexError, Result},
    http::Http,
};

#[derive(Debug, Clone)]
pub(crate) struct Alias {
    http: Http,
}

impl Alias {
    pub(crate) fn new(http: Http) -> Self {
        Self { http }
    }

    async fn find(&self) -> Result<Option<String>> {
        let answer = match self.http.send("reading", Method::GET, &["aliases"], None).await {
            // A key for one collection may not have permission to list aliases.
            Err(IndexError::Refused { .. }) => return Ok(None),
            answer => answer?,
        };
        let aliases = answer.pointer("/result/aliases").and_then(Value::as_array);
        let own = aliases
            .into_iter()
            .flatten()
            .find(|alias| alias["alias_name"] == self.http.collection.as_str());
        Ok(own
            .and_then(|alias| alias["collection_name"].as_str())
            .map(str::to_owned))
    }

    async fn turn(&self, from: Option<&str>, to: &str) -> Result<()> {
        let alias = &self.http.collection;
        let mut actions = Vec::new();
        if from.is_some() {
            actions.push(json!({ "delete_alias": { "alias_name": alias } }));
        }
        actions.push(json!({ "create_alias": { "collection_name": to, "alias_name": alias } }));
        let body = json!({ "actions": actions });
        self.http
            .send("moving", Method::POST, &["collections", "aliases"], Some(&body))
            .await
            .map(drop)
    }

    async fn read(&self, collection: &str) -> Result<Option<String>> {
        let found = self
            .http
            .find("reading", Method::GET, &["collections", collection], None)
            .await?;
        let record = found
            .as_ref()
            .and_then(|answer| answer.pointer("/result/config/metadata"))
            .and_then(|metadata| metadata[RECORD].as_str());
        Ok(record.map(str::to_owned))
    }

    async fn write(&self, collection: &str, record: &str) -> Result<()> {
        // The given content is merged with the existing content.
        let body = json!({ "metadata": { RECORD: record } });
        self.http
            .send("writing to", Method::PATCH, &["collections", collection], Some(&body))
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
        self.read(collection).boxed()
    }

    fn keep<'a>(&'a self, collection: &'a str, record: &'a str) -> BoxFuture<'a, Result<()>> {
        self.write(collection, record).boxed()
    }

    fn remove<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<()>> {
        async move {
            let path = ["collections", collection];
            self.http.find("removing", Method::DELETE, &path, None).await.map(drop)
        }
        .boxed()
    }

    fn store(&self, collection: &str) -> Result<Box<dyn VectorStore>> {
        Ok(Box::new(Collection::new(self.http.of(collection))?))
    }
}
