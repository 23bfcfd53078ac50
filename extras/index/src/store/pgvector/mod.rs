//! A table of PostgreSQL with pgvector's type.
//!
//! Columns: `key`, `document`, `digest`, `text`, `payload` (jsonb), `embedding`, and `sparse`
//! (sparsevec) if the collection keeps sparse vectors. The mark is the
//! comment of the column `embedding`: it is included in dumps, and describes the vectors rather
//! than the table.
//!
//! `names`: a view in place of a table, for migrations. `create`: a table and its mark.

mod create;
mod names;
mod sparse;

use std::{fmt::Write as _, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgPool, Row as _, postgres::PgRow};

use super::{Hit, Page, Row, StoredRow, StoredVector, VectorStore};
use crate::{
    address::StoreAddress,
    encode::{Additional, AdditionalVectors},
    error::{IndexError, Result},
    mark::Mark,
    retry,
    sql::{self, Name, failed, quoted},
};

pub(super) use names::Names;

/// Number of rows up to which a search changes no setting: pgvector's own hnsw.ef_search.
const OWN_DEPTH: usize = 40;
/// Number of rows per page.
const PAGE: i64 = 5_000;
/// Columns that identify a table as ours.
const COLUMNS: &str = "key, document, digest, text, payload, embedding";

#[derive(Debug)]
pub(super) struct Table {
    pool: PgPool,
    table: Name,
    name: String,
    patience: Duration,
    /// The name of the run, if the run writes to a table behind a name.
    fence: Option<names::Fence>,
}

impl Table {
    pub(super) fn open(address: &str, patience: Duration) -> Result<Self> {
        let (place, table) = place(address)?;
        Ok(Self {
            pool: sql::pool("sink", &place)?,
            table,
            name: place.shown,
            patience,
            fence: None,
        })
    }

    fn doing(&self, what: &str) -> String {
        format!("{what} {}", self.name)
    }

    async fn read_mark(&self) -> Result<Option<Mark>> {
        create::mark(&self.pool, &self.table, &self.name).await
    }

    /// Columns of the table's sparse vectors; 0 if it keeps none.
    async fn sparse_dimensions(&self) -> Result<u32> {
        let mark = self.read_mark().await?;
        Ok(mark.and_then(|mark| mark.sparse).map_or(0, |space| space.dimensions))
    }

    async fn make(&self, mark: &Mark) -> Result<()> {
        let doing = self.doing("creating");
        let mut transaction = self.pool.begin().await.map_err(failed(&doing))?;
        create::table(&mut transaction, &self.table, &self.name, mark).await?;
        transaction.commit().await.map_err(failed(&doing))
    }

    async fn put(&self, rows: &[Row], gone: &[String]) -> Result<()> {
        let doing = self.doing("writing to");
        let mut columns: [Vec<String>; 4] = Default::default();
        let (mut texts, mut vectors) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        let with_sparse = rows.iter().any(|row| row.additional.sparse.is_some());
        let dimensions = match with_sparse {
            true => self.sparse_dimensions().await?,
            false => 0,
        };
        for row in rows {
            let payload = Value::Object(row.payload.clone());
            let nul = [&row.key, &row.document, row.text.as_ref().unwrap_or(&row.key)];
            if nul.iter().any(|text| text.contains('\0')) || has_nul(&payload) {
                return Err(IndexError::Refused {
                    doing: format!("{doing}, row `{}`", row.key.escape_debug()),
                    message: "its key, text or payload holds the character NUL, which PostgreSQL cannot store"
                        .to_owned(),
                });
            }
            let payload = payload.to_string();
            for (column, value) in columns.iter_mut().zip([&row.key, &row.document, &row.digest, &payload]) {
                column.push(value.clone());
            }
            texts.push(row.text.clone());
            vectors.push(vector_text(&row.vector));
        }
        let [keys, documents, digests, payloads] = columns;
        let table = &self.table.quoted;
        let mut transaction = self.pool.begin().await.map_err(failed(&doing))?;
        names::permit(&mut transaction, &self.table, &self.name, self.fence.as_ref()).await?;
        if !rows.is_empty() {
            let statement = sparse::insert(table, with_sparse);
            let query = sqlx::query(AssertSqlSafe(statement))
                .bind(keys)
                .bind(documents)
                .bind(digests)
                .bind(texts)
                .bind(payloads)
                .bind(vectors);
            let query = match with_sparse {
                true => query.bind(sparse::texts(rows, &doing, dimensions)?),
                false => query,
            };
            query.execute(&mut *transaction).await.map_err(failed(&doing))?;
        }
        if !gone.is_empty() {
            sqlx::query(AssertSqlSafe(format!("DELETE FROM {table} WHERE key = ANY($1)")))
                .bind(gone)
                .execute(&mut *transaction)
                .await
                .map_err(failed(&doing))?;
        }
        transaction.commit().await.map_err(failed(&doing))
    }

    async fn rows(&self, doing: &str, statement: String, bind: QueryParameter<'_>) -> Result<Vec<PgRow>> {
        let doing = self.doing(doing);
        retry::calls(self.patience, || async {
            let query = sqlx::query(AssertSqlSafe(statement.clone()));
            let query = match &bind {
                QueryParameter::Texts(texts) => query.bind(*texts),
                QueryParameter::From(from) => query.bind(*from).bind(PAGE),
                QueryParameter::Nearest(vector, most) => query.bind(vector.as_str()).bind(*most),
            };
            query.fetch_all(&self.pool).await.map_err(failed(&doing))
        })
        .await
    }

    fn unreadable(&self) -> impl Fn(sqlx::Error) -> IndexError {
        let doing = self.doing("reading");
        move |error| IndexError::Refused {
            doing: doing.clone(),
            message: format!("a row cannot be read: {error}"),
        }
    }

    fn stored(&self, row: &PgRow) -> Result<StoredRow> {
        let unreadable = self.unreadable();
        Ok(StoredRow {
            key: row.try_get(0).map_err(&unreadable)?,
            document: row.try_get(1).map_err(&unreadable)?,
            digest: row.try_get(2).map_err(&unreadable)?,
        })
    }

    /// The nearest rows: as found by the index, or with every vector compared.
    async fn nearest(&self, mark: &Mark, vector: &[f32], most: usize, exact: bool) -> Result<Vec<Hit>> {
        let statement = format!(
            "SELECT document, -(embedding {operator} $1::vector) FROM {table} ORDER BY embedding {operator} $1::vector LIMIT $2",
            operator = operator(mark).0,
            table = self.table.quoted,
        );
        let (text, limit) = (vector_text(vector), i64::try_from(most).unwrap_or(i64::MAX));
        let setting = match exact {
            true => {
                "SELECT set_config('enable_indexscan', 'off', true), set_config('enable_indexonlyscan', 'off', true), \
                 set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'on', true)"
                    .to_owned()
            }
            false => format!("SELECT set_config('hnsw.ef_search', ({})::text, true)", depth(most)),
        };
        let rows = if exact || most > OWN_DEPTH {
            let doing = self.doing("searching");
            retry::calls(self.patience, || async {
                let mut transaction = self.pool.begin().await.map_err(failed(&doing))?;
                self.load_pgvector(&mut *transaction).await?;
                sqlx::query(AssertSqlSafe(setting.clone()))
                    .execute(&mut *transaction)
                    .await
                    .map_err(failed(&doing))?;
                let rows = sqlx::query(AssertSqlSafe(statement.clone()))
                    .bind(&text)
                    .bind(limit)
                    .fetch_all(&mut *transaction)
                    .await
                    .map_err(failed(&doing))?;
                transaction.commit().await.map_err(failed(&doing))?;
                Ok(rows)
            })
            .await?
        } else {
            self.rows("searching", statement, QueryParameter::Nearest(text, limit))
                .await?
        };
        let unreadable = self.unreadable();
        rows.iter()
            .map(|row| {
                Ok(Hit {
                    document: row.try_get(0).map_err(&unreadable)?,
                    score: row.try_get(1).map_err(&unreadable)?,
                })
            })
            .collect()
    }

    /// Loads pgvector in the session, so that its settings are known.
    async fn load_pgvector<'e>(&self, executor: impl sqlx::PgExecutor<'e>) -> Result<()> {
        sqlx::query("SELECT '[1]'::vector::text")
            .execute(executor)
            .await
            .map(drop)
            .map_err(failed(&self.doing("searching")))
    }

    /// The setting of a search for this many rows, in words.
    async fn depth_in_words(&self, most: usize) -> Result<Option<String>> {
        if most <= OWN_DEPTH {
            return Ok(None);
        }
        let doing = self.doing("reading settings of");
        let mut connection = self.pool.acquire().await.map_err(failed(&doing))?;
        self.load_pgvector(&mut *connection).await?;
        let (own, wanted): (i32, i32) = sqlx::query_as(AssertSqlSafe(format!(
            "SELECT current_setting('hnsw.ef_search')::int, {}",
            depth(most)
        )))
        .fetch_one(&mut *connection)
        .await
        .map_err(failed(&doing))?;
        Ok((wanted > own).then(|| {
            format!("hnsw.ef_search was raised from {own} to {wanted} for these searches; your own have {own}")
        }))
    }

    async fn index(&self, mark: &Mark) -> Result<bool> {
        let name = quoted("sink", &create::truncated(&format!("{}_hnsw", self.table.last)))?;
        let statement = format!(
            "CREATE INDEX IF NOT EXISTS {name} ON {} USING hnsw (embedding {})",
            self.table.quoted,
            operator(mark).1
        );
        let doing = self.doing("building the index of");
        sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(&self.pool)
            .await
            .map_err(failed(&doing))?;
        Ok(true)
    }
}

/// The address of a table, and its name.
fn place(address: &str) -> Result<(StoreAddress, Name)> {
    let place = StoreAddress::read("sink", address)?;
    let Some(table) = &place.fragment else {
        return Err(IndexError::Setting {
            field: "sink",
            message: format!("{} names no table", place.shown),
            hint: "write it behind a #, e.g. postgres://USER@HOST/DATABASE#docs_vectors",
        });
    };
    let name = Name::table("sink", table)?;
    Ok((place, name))
}

/// hnsw.ef_search of a search for this many rows, as SQL: the session's own value, or the number of
/// rows if that is larger. pgvector's limit is 1000.
fn depth(most: usize) -> String {
    format!("GREATEST(current_setting('hnsw.ef_search')::int, {})", most.min(1_000))
}

/// Parameters of a statement that reads.
enum QueryParameter<'a> {
    Texts(&'a [String]),
    From(&'a str),
    Nearest(String, i64),
}

/// pgvector's operator and operator class.
fn operator(mark: &Mark) -> (&'static str, &'static str) {
    match mark.similarity.as_str() {
        "dot" => ("<#>", "vector_ip_ops"),
        "euclidean" => ("<->", "vector_l2_ops"),
        "manhattan" => ("<+>", "vector_l1_ops"),
        _ => ("<=>", "vector_cosine_ops"),
    }
}

/// A vector in pgvector's notation: the shortest decimals of the same 32-bit floats.
fn vector_text(vector: &[f32]) -> String {
    let mut text = String::with_capacity(vector.len() * 12 + 2);
    text.push('[');
    for (index, value) in vector.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        // Writing to a String does not fail.
        let _ = write!(text, "{value:e}");
    }
    text.push(']');
    text
}

fn read_vector(text: &str) -> Option<Vec<f32>> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    inner.split(',').map(|number| number.parse().ok()).collect()
}

/// Whether a text or name in JSON contains the character that PostgreSQL cannot store.
fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(has_nul),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || has_nul(value)),
        _ => false,
    }
}

impl VectorStore for Table {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn additional(&self) -> AdditionalVectors {
        AdditionalVectors {
            sparse: true,
            tokens: false,
        }
    }

    fn keeps_lengths(&self, _: &Mark) -> bool {
        true
    }

    fn mark(&self) -> BoxFuture<'_, Result<Option<Mark>>> {
        retry::calls(self.patience, || self.read_mark()).boxed()
    }

    fn create<'a>(&'a self, mark: &'a Mark) -> BoxFuture<'a, Result<()>> {
        retry::calls(self.patience, || self.make(mark)).boxed()
    }

    fn rows_of<'a>(&'a self, documents: &'a [String]) -> BoxFuture<'a, Result<Vec<StoredRow>>> {
        async move {
            let table = &self.table.quoted;
            let statement = format!("SELECT key, document, digest FROM {table} WHERE document = ANY($1)");
            let rows = self
                .rows("reading", statement, QueryParameter::Texts(documents))
                .await?;
            rows.iter().map(|row| self.stored(row)).collect()
        }
        .boxed()
    }

    fn write<'a>(&'a self, rows: &'a [Row], gone: &'a [String]) -> BoxFuture<'a, Result<()>> {
        retry::calls(self.patience, || self.put(rows, gone)).boxed()
    }

    fn scan<'a>(&'a self, from: Option<&'a str>) -> BoxFuture<'a, Result<Page>> {
        async move {
            let table = &self.table.quoted;
            let statement = format!("SELECT key, document, digest FROM {table} WHERE key > $1 ORDER BY key LIMIT $2");
            // No key is empty.
            let rows = self
                .rows("reading", statement, QueryParameter::From(from.unwrap_or_default()))
                .await?;
            let rows: Vec<StoredRow> = rows.iter().map(|row| self.stored(row)).collect::<Result<_>>()?;
            let next = rows.last().map(|row| row.key.clone());
            Ok(Page {
                next: next.filter(|_| rows.len() as i64 == PAGE),
                rows,
            })
        }
        .boxed()
    }

    fn vectors<'a>(&'a self, keys: &'a [String]) -> BoxFuture<'a, Result<Vec<StoredVector>>> {
        async move {
            let table = &self.table.quoted;
            let sparse = match retry::calls(self.patience, || self.sparse_dimensions()).await? {
                0 => "NULL",
                _ => "sparse::text",
            };
            let statement =
                format!("SELECT key, embedding::text, text, payload::text, {sparse} FROM {table} WHERE key = ANY($1)");
            let rows = self.rows("reading", statement, QueryParameter::Texts(keys)).await?;
            let unreadable = self.unreadable();
            rows.iter()
                .map(|row| {
                    let vector: String = row.try_get(1).map_err(&unreadable)?;
                    let payload: String = row.try_get(3).map_err(&unreadable)?;
                    let sparse: Option<String> = row.try_get(4).map_err(&unreadable)?;
                    Ok(StoredVector {
                        key: row.try_get(0).map_err(&unreadable)?,
                        additional: Additional {
                            sparse: sparse.as_deref().and_then(sparse::read),
                            tokens: None,
                        },
                        vector: read_vector(&vector).unwrap_or_default(),
                        text: row.try_get(2).map_err(&unreadable)?,
                        payload: serde_json::from_str(&payload).map_err(|error| IndexError::Refused {
                            doing: self.doing("reading"),
                            message: format!("the payload of a row is not an object: {error}"),
                        })?,
                    })
                })
                .collect()
        }
        .boxed()
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

    fn search_depth(&self, most: usize) -> BoxFuture<'_, Result<Option<String>>> {
        retry::calls(self.patience, move || self.depth_in_words(most)).boxed()
    }

    fn settle(&self) -> BoxFuture<'_, Result<()>> {
        async { Ok(()) }.boxed()
    }

    fn build_index<'a>(&'a self, mark: &'a Mark) -> BoxFuture<'a, Result<bool>> {
        self.index(mark).boxed()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_vector_comes_back_to_the_bit(vector in prop::collection::vec(prop::num::f32::NORMAL | prop::num::f32::SUBNORMAL | prop::num::f32::ZERO, 1..20)) {
            let back = read_vector(&vector_text(&vector)).unwrap();
            let bits = |vector: &[f32]| vector.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&back), bits(&vector));
        }
    }
}
