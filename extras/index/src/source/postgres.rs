//! A table or query of PostgreSQL, page by page in the order of its key.

use std::time::Duration;

use futures::{StreamExt, stream, stream::BoxStream};
use serde_json::{Map, Value};
use sqlx::{AssertSqlSafe, PgPool, Row};

use super::{Columns, Document, Payload, joined};
use crate::{
    address::StoreAddress,
    error::{IndexError, Result},
    retry,
    sql::{self, Name, failed, literal, quoted},
};

/// The rows to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// A table or view, with or without its schema in front.
    Table(String),
    /// A user's own query.
    Query(String),
}

/// Rows of PostgreSQL.
#[derive(Debug, Clone)]
pub struct Rows {
    pool: PgPool,
    name: String,
    /// The FROM clause of the statements.
    from: String,
    columns: Columns,
    patience: Duration,
}

impl Rows {
    /// The rows of a table (behind `#` in the address) or of a query. It does not connect yet.
    ///
    /// # Errors
    /// If the address or a name cannot be used.
    pub fn open(address: &str, query: Option<&str>, columns: Columns, patience: Duration) -> Result<Self> {
        let place = StoreAddress::read("source", address)?;
        let from = match (query, &place.fragment) {
            (Some(query), None) => format!("({}) AS", query.trim().trim_end_matches(';')),
            (None, Some(table)) => Name::table("source", table)?.quoted,
            (Some(_), Some(_)) => {
                return Err(setting(
                    "names a table, and there is a query too",
                    "leave one of them out",
                ));
            }
            (None, None) => {
                return Err(setting(
                    "names no table",
                    "write postgres://USER@HOST/DATABASE#TABLE, or give --source-query",
                ));
            }
        };
        Ok(Self {
            pool: sql::pool("source", &place)?,
            name: place.shown,
            from,
            columns,
            patience,
        })
    }

    /// The address, without secrets.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn batches(&self, most: usize) -> BoxStream<'static, Result<Vec<Document>>> {
        let rows = self.clone();
        let begin = async move {
            let statements = retry::calls(rows.patience, || rows.statements()).await;
            match statements {
                Ok(statements) => stream::try_unfold(
                    (rows, statements, Some(None::<String>)),
                    move |(rows, statements, at)| async move {
                        let Some(after) = at else { return Ok(None) };
                        let (batch, next) =
                            retry::calls(rows.patience, || rows.page(&statements, after.as_deref(), most)).await?;
                        let more = next.map(Some);
                        Ok((!batch.is_empty()).then_some((batch, (rows, statements, more))))
                    },
                )
                .boxed(),
                Err(error) => stream::iter([Err(error)]).boxed(),
            }
        };
        stream::once(begin).flatten().boxed()
    }

    /// The statements for the first page and for the next ones. A row with a null key would only be
    /// found on the first page, so null keys are not permitted.
    async fn statements(&self) -> Result<[String; 2]> {
        let doing = format!("reading {}", self.name);
        let key = format!("q.{}", quoted("key", &self.columns.key)?);
        let from = format!("{} q", self.from);
        let texts: Result<Vec<String>> = self
            .columns
            .texts
            .iter()
            .map(|column| Ok(format!("q.{}::text", quoted("text", column)?)))
            .collect();
        let payload = match &self.columns.payload {
            Payload::None => "'{}'".to_owned(),
            Payload::All => {
                let own = [&self.columns.key].into_iter().chain(&self.columns.texts);
                let own: Vec<String> = own.map(|column| literal(column)).collect();
                format!("(to_jsonb(q) - ARRAY[{}])::text", own.join(", "))
            }
            Payload::Named(names) => {
                let pairs: Result<Vec<String>> = names
                    .iter()
                    .map(|name| Ok(format!("{}::text, q.{}", literal(name), quoted("payload", name)?)))
                    .collect();
                format!("jsonb_build_object({})::text", pairs?.join(", "))
            }
        };
        let selected = format!(
            "SELECT {key}::text, ARRAY[{}]::text[], {payload} FROM {from}",
            texts?.join(", ")
        );
        // The key's type is read before the first page, because the statements depend on it.
        let kind = format!("SELECT format_type(pg_typeof({key}), NULL) FROM {from} LIMIT 1");
        let kind: Option<String> = sqlx::query_scalar(AssertSqlSafe(kind))
            .fetch_optional(&self.pool)
            .await
            .map_err(failed(&doing))?;
        let order = format!("ORDER BY {key} LIMIT $1");
        let Some(kind) = kind else {
            return Ok([format!("{selected} {order}"), String::new()]);
        };
        let null = format!("SELECT EXISTS (SELECT 1 FROM {from} WHERE {key} IS NULL)");
        let null: bool = sqlx::query_scalar(AssertSqlSafe(null))
            .fetch_one(&self.pool)
            .await
            .map_err(failed(&doing))?;
        if null {
            return Err(self.wrong(format!("the key `{}` is null in some rows", self.columns.key)));
        }
        Ok([
            format!("{selected} {order}"),
            format!("{selected} WHERE {key} > $2::text::{kind} {order}"),
        ])
    }

    /// A page, and the key after which the next one begins. One more row than the page is read:
    /// otherwise a key that occurs twice, once on each page, would be missed.
    async fn page(
        &self,
        statements: &[String; 2],
        after: Option<&str>,
        most: usize,
    ) -> Result<(Vec<Document>, Option<String>)> {
        let limit = i64::try_from(most.saturating_add(1)).unwrap_or(i64::MAX);
        let rows = match after {
            None => {
                sqlx::query(AssertSqlSafe(statements[0].clone()))
                    .bind(limit)
                    .fetch_all(&self.pool)
                    .await
            }
            Some(key) => {
                let query = sqlx::query(AssertSqlSafe(statements[1].clone()))
                    .bind(limit)
                    .bind(key.to_owned());
                query.fetch_all(&self.pool).await
            }
        };
        let rows = rows.map_err(failed(&format!("reading {}", self.name)))?;
        let mut documents = Vec::with_capacity(rows.len());
        for row in &rows {
            documents.push(self.document(row)?);
        }
        if documents.len() <= most {
            return Ok((documents, None));
        }
        let first_of_next = documents.pop();
        let last = documents.last().map(|document| document.key.clone());
        if last.is_some() && first_of_next.map(|document| document.key) == last {
            return Err(IndexError::SameKey {
                key: last.unwrap_or_default(),
            });
        }
        Ok((documents, last))
    }

    fn document(&self, row: &sqlx::postgres::PgRow) -> Result<Document> {
        let unreadable = |error: sqlx::Error| self.wrong(format!("a row cannot be read: {error}"));
        let key: Option<String> = row.try_get(0).map_err(unreadable)?;
        let texts: Vec<Option<String>> = row.try_get(1).map_err(unreadable)?;
        let payload: String = row.try_get(2).map_err(unreadable)?;
        let payload: Map<String, Value> =
            serde_json::from_str(&payload).map_err(|error| self.wrong(format!("a payload cannot be read: {error}")))?;
        match key.filter(|key| !key.is_empty()) {
            Some(key) => Ok(Document {
                key,
                text: joined(texts),
                payload,
            }),
            None => Err(self.wrong(format!("the key `{}` is empty in a row", self.columns.key))),
        }
    }

    fn wrong(&self, message: String) -> IndexError {
        IndexError::Source {
            source_name: self.name.clone(),
            message,
        }
    }
}

fn setting(message: &str, hint: &'static str) -> IndexError {
    IndexError::Setting {
        field: "source",
        message: message.to_owned(),
        hint,
    }
}
