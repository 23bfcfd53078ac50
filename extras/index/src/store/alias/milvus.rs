//! Aliases of Milvus.

use futures::{FutureExt, future::BoxFuture};

use super::{
    super::{
        VectorStore,
        milvus::{
            Collection, Server,
            messages::{AlterAlias, AlterCollection, CreateAlias, DescribeAlias, DropCollection, KeyValue},
        },
    },
    Aliases, RECORD,
};
use crate::error::{IndexError, Result};

#[derive(Debug, Clone)]
pub(crate) struct Alias {
    server: Server,
}

impl Alias {
    pub(crate) fn new(server: Server) -> Self {
        Self { server }
    }

    async fn find(&self) -> Result<Option<String>> {
        let call = DescribeAlias {
            db_name: self.server.database.clone(),
            alias: self.server.collection.clone(),
        };
        match self.server.find("reading", &call).await {
            // A role for one collection may not have permission to read aliases.
            Err(IndexError::Refused { .. }) => Ok(None),
            found => Ok(found?.map(|found| found.collection)),
        }
    }

    async fn turn(&self, from: Option<&str>, to: &str) -> Result<()> {
        let (db_name, alias) = (self.server.database.clone(), self.server.collection.clone());
        let collection_name = to.to_owned();
        let done = match from {
            Some(_) => {
                let call = AlterAlias {
                    db_name,
                    collection_name,
                    alias,
                };
                self.server.send("moving", &call).await
            }
            None => {
                let call = CreateAlias {
                    db_name,
                    collection_name,
                    alias,
                };
                self.server.send("creating", &call).await
            }
        };
        done.map(drop)
    }

    async fn write(&self, collection: &str, record: &str) -> Result<()> {
        let call = AlterCollection {
            db_name: self.server.database.clone(),
            collection_name: collection.to_owned(),
            properties: vec![KeyValue::new(RECORD, record)],
        };
        self.server.of(collection).send("writing to", &call).await.map(drop)
    }
}

impl Aliases for Alias {
    fn shown(&self) -> &str {
        &self.server.shown
    }

    fn name(&self) -> &str {
        &self.server.collection
    }

    fn target(&self) -> BoxFuture<'_, Result<Option<String>>> {
        self.find().boxed()
    }

    fn point<'a>(&'a self, from: Option<&'a str>, to: &'a str) -> BoxFuture<'a, Result<()>> {
        self.turn(from, to).boxed()
    }

    fn record<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Option<String>>> {
        async move {
            let found = self.server.of(collection).describe().await?;
            let record = found.as_ref().and_then(|found| found.property(RECORD));
            Ok(record.map(str::to_owned))
        }
        .boxed()
    }

    fn keep<'a>(&'a self, collection: &'a str, record: &'a str) -> BoxFuture<'a, Result<()>> {
        self.write(collection, record).boxed()
    }

    fn remove<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<()>> {
        async move {
            let call = DropCollection {
                db_name: self.server.database.clone(),
                collection_name: collection.to_owned(),
            };
            self.server.of(collection).find("removing", &call).await.map(drop)
        }
        .boxed()
    }

    fn store(&self, collection: &str) -> Result<Box<dyn VectorStore>> {
        Ok(Box::new(Collection::new(self.server.of(collection))))
    }
}
