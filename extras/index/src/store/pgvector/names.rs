//! A view in place of a table.
//!
//! The name is a view over the serving table, with the columns of a table and the column `space`,
//! which is the same in all rows. A query that gives the space of its own vector finds nothing in
//! another space. The record of each name is a row of `isomer_index_names`, in the same schema. A
//! step changes the view and the row in one transaction.
//!
//! Writers lock their table, then read the record. A step locks both tables against writers, then
//! changes the record. So each batch of a run is written either before a step or after it, and
//! after it the run learns that it must restart.

use std::time::Duration;

use futures::{FutureExt, future::BoxFuture};
use sqlx::{AssertSqlSafe, PgConnection, PgPool};

use super::{create, place};
use crate::{
    digest,
    error::{IndexError, Result},
    mark::Mark,
    name::{Change, State},
    retry,
    sql::{self, Name, failed, literal},
    store::{VectorStore, names},
};

/// The table of the records.
const RECORDS: &str = "isomer_index_names";
/// Queries that arrive while a step waits for a lock also wait, so the wait is short.
const LOCKS: &str = "SET LOCAL lock_timeout = '1s'";

/// The name to which a run writes, and its record when the run began.
#[derive(Debug, Clone)]
pub(super) struct Fence {
    name: String,
    epoch: u64,
}

#[derive(Debug)]
pub(crate) struct Names {
    pool: PgPool,
    name: Name,
    records: Name,
    shown: String,
    patience: Duration,
}

impl Names {
    pub(crate) fn open(address: &str, patience: Duration) -> Result<Self> {
        let (place, name) = place(address)?;
        Ok(Self {
            pool: sql::pool("name", &place)?,
            records: name.beside("name", RECORDS)?,
            name,
            shown: place.shown,
            patience,
        })
    }

    fn table(&self, collection: &str) -> Result<Name> {
        self.name.beside("name", collection)
    }

    fn foreign(&self, message: impl Into<String>) -> IndexError {
        IndexError::Foreign {
            collection: self.shown.clone(),
            message: message.into(),
        }
    }

    async fn run(&self, connection: &mut PgConnection, doing: &str, statements: &[String]) -> Result<()> {
        for statement in statements {
            let done = sqlx::raw_sql(AssertSqlSafe(statement.clone()))
                .execute(&mut *connection)
                .await;
            done.map_err(failed(doing))?;
        }
        Ok(())
    }

    async fn read(&self, connection: &mut PgConnection, lock: bool) -> Result<Option<State>> {
        let doing = format!("reading the record of {}", self.shown);
        if !create::there(&mut *connection, &self.records, &self.shown).await? {
            return Ok(None);
        }
        let lock = if lock { " FOR UPDATE" } else { "" };
        let statement = format!("SELECT state::text FROM {} WHERE name = $1{lock}", self.records.quoted);
        let text: Option<String> = sqlx::query_scalar(AssertSqlSafe(statement))
            .bind(&self.name.last)
            .fetch_optional(connection)
            .await
            .map_err(failed(&doing))?;
        text.map(|text| State::from_text(&self.shown, &text)).transpose()
    }

    async fn read_once(&self) -> Result<Option<State>> {
        let doing = format!("reading the record of {}", self.shown);
        let mut connection = self.pool.acquire().await.map_err(failed(&doing))?;
        self.read(&mut connection, false).await
    }

    async fn mark_in(&self, connection: &mut PgConnection, collection: &str) -> Result<Mark> {
        let table = self.table(collection)?;
        let mark = create::mark(connection, &table, &self.shown).await?;
        mark.ok_or_else(|| self.foreign(format!("its table `{collection}` is not there, or has no mark")))
    }

    async fn mark_once(&self, collection: &str) -> Result<Mark> {
        let doing = format!("reading the mark of {}", self.shown);
        let mut connection = self.pool.acquire().await.map_err(failed(&doing))?;
        self.mark_in(&mut connection, collection).await
    }

    async fn begin_once(&self, from: Option<&str>, mark: &Mark, now: u64) -> Result<(State, bool)> {
        let doing = format!("beginning a migration of {}", self.shown);
        let mut transaction = self.pool.begin().await.map_err(failed(&doing))?;
        let connection: &mut PgConnection = &mut transaction;
        for name in [&self.records, &self.name] {
            create::alone(&mut *connection, name, &self.shown).await?;
        }
        self.run(connection, &doing, &[LOCKS.to_owned(), self.records_table()])
            .await?;
        let state = match self.read(&mut *connection, true).await? {
            Some(state) if state.migration.is_some() => return Ok((state, false)),
            Some(state) => {
                if from.is_some_and(|from| from != state.serving) {
                    return Err(IndexError::Setting {
                        field: "from",
                        message: format!("{} leads to `{}` already", self.shown, state.serving),
                        hint: "leave --from out",
                    });
                }
                state
            }
            None => self.adopt(&mut *connection, &doing, from).await?,
        };
        let new = format!("{}_{}", self.name.last, state.made + 1);
        let table = self.table(&new)?;
        if create::there(&mut *connection, &table, &self.shown).await? {
            return Err(self.foreign(format!(
                "the new collection is to be the table `{new}`, and there is one of this name; rename or drop that one"
            )));
        }
        // Writers under other names end first; later ones see the record.
        let old = self.table(&state.serving)?.quoted;
        self.run(connection, &doing, &[format!("LOCK TABLE {old} IN SHARE MODE")])
            .await?;
        let serving = self.mark_in(&mut *connection, &state.serving).await?;
        if serving == *mark {
            return Err(IndexError::Setting {
                field: "model",
                message: format!("`{}` holds vectors of these settings already", state.serving),
                hint: "name the encoder, prompt, augmentation or chunks of the new collection",
            });
        }
        create::table(&mut *connection, &table, &self.shown, mark).await?;
        let state = state.start(&new, now);
        self.store(&mut *connection, &doing, &state, &serving).await?;
        transaction.commit().await.map_err(failed(&doing))?;
        Ok((state, true))
    }

    fn records_table(&self) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {} (name text PRIMARY KEY, collection text NOT NULL, model text NOT NULL, space text NOT NULL, \
             mark jsonb NOT NULL, collections text[] NOT NULL, epoch bigint NOT NULL, state jsonb NOT NULL)",
            self.records.quoted
        )
    }

    /// Creates the name: over the table `from`, or in place of the table with that name.
    async fn adopt(&self, connection: &mut PgConnection, doing: &str, from: Option<&str>) -> Result<State> {
        let kind = "SELECT relkind::text, relrowsecurity FROM pg_class WHERE oid = to_regclass($1)";
        let of = async |connection: &mut PgConnection, table: &Name| -> Result<Option<(String, bool)>> {
            sqlx::query_as(kind)
                .bind(&table.quoted)
                .fetch_optional(connection)
                .await
                .map_err(failed(doing))
        };
        let own = of(&mut *connection, &self.name).await?;
        let (serving, table, secured) = match (own, from) {
            (Some((kind, _)), _) if !matches!(kind.as_str(), "r" | "p") => {
                return Err(self.foreign("there is a view or index of this name, which has no record"));
            }
            (Some(_), Some(_)) => {
                return Err(IndexError::Setting {
                    field: "from",
                    message: format!("{} is a table itself, whose name a view takes over", self.shown),
                    hint: "leave --from out",
                });
            }
            (Some((_, secured)), None) => (format!("{}_1", self.name.last), self.name.clone(), secured),
            (None, Some(from)) => {
                let table = self.table(from)?;
                let Some((_, secured)) = of(&mut *connection, &table).await? else {
                    return Err(IndexError::NoCollection {
                        collection: format!("{} for the name {}", table.quoted, self.shown),
                    });
                };
                (from.to_owned(), table, secured)
            }
            (None, None) => {
                return Err(IndexError::NoCollection {
                    collection: self.shown.clone(),
                });
            }
        };
        if secured {
            return Err(self.foreign(
                "its table has row-level security, which a view in its place would not apply; make a view and policies of your own, or \
                 end the row-level security",
            ));
        }
        if create::mark(&mut *connection, &table, &self.shown).await?.is_none() {
            return Err(self.foreign("its column `embedding` has no mark"));
        }
        let mut state = State::new(&self.name.last, &serving);
        if table == self.name {
            let renamed = self.table(&serving)?;
            if create::there(&mut *connection, &renamed, &self.shown).await? {
                return Err(self.foreign(format!(
                    "its table is to be renamed `{serving}`, and there is one of this name; rename or drop that one"
                )));
            }
            let rename = format!(
                "ALTER TABLE {} RENAME TO {}",
                self.name.quoted,
                sql::quoted("name", &serving)?
            );
            self.run(&mut *connection, doing, &[rename]).await?;
            state.made = 1;
        }
        Ok(state)
    }

    /// Updates the view and the row to the record.
    async fn store(&self, connection: &mut PgConnection, doing: &str, state: &State, serving: &Mark) -> Result<()> {
        let (view, table) = (&self.name.quoted, self.table(&state.serving)?);
        let made_before = create::there(&mut *connection, &self.name, &self.shown).await?;
        // Without the number of dimensions, the type of the column is the same for each table.
        let over = format!(
            "CREATE OR REPLACE VIEW {view} AS SELECT key, document, digest, text, payload, embedding::vector AS embedding, {}::text AS \
             space FROM {}",
            literal(&serving.space.digest),
            table.quoted
        );
        self.run(&mut *connection, doing, &[over, create::marking(&self.name, serving)])
            .await?;
        if !made_before {
            self.grant(&mut *connection, doing, &table).await?;
        }
        let statement = format!(
            "INSERT INTO {} (name, collection, model, space, mark, collections, epoch, state) VALUES ($1, $2, $3, $4, $5::text::jsonb, \
             $6, $7, $8::text::jsonb) ON CONFLICT (name) DO UPDATE SET collection = excluded.collection, model = excluded.model, \
             space = excluded.space, mark = excluded.mark, collections = excluded.collections, epoch = excluded.epoch, \
             state = excluded.state",
            self.records.quoted
        );
        let claimed: Vec<String> = state.claimed().into_iter().map(str::to_owned).collect();
        sqlx::query(AssertSqlSafe(statement))
            .bind(&self.name.last)
            .bind(&state.serving)
            .bind(&serving.space.model)
            .bind(&serving.space.digest)
            .bind(serving.to_text())
            .bind(claimed)
            .bind(i64::try_from(state.epoch).unwrap_or(i64::MAX))
            .bind(state.to_text())
            .execute(connection)
            .await
            .map(drop)
            .map_err(failed(doing))
    }

    /// Grants the readers of the table access to the view and the record.
    async fn grant(&self, connection: &mut PgConnection, doing: &str, table: &Name) -> Result<()> {
        let statement = "SELECT DISTINCT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END \
                         FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = to_regclass($1) AND a.privilege_type = 'SELECT' \
                         AND a.grantee <> c.relowner";
        let readers: Vec<String> = sqlx::query_scalar(statement)
            .bind(&table.quoted)
            .fetch_all(&mut *connection)
            .await
            .map_err(failed(doing))?;
        for reader in readers {
            let grants =
                [&self.name.quoted, &self.records.quoted].map(|on| format!("GRANT SELECT ON {on} TO {reader}"));
            self.run(&mut *connection, doing, &grants).await?;
        }
        Ok(())
    }

    async fn change_once(&self, before: &State, change: &Change) -> Result<bool> {
        let doing = format!("changing {}", self.shown);
        let mut transaction = self.pool.begin().await.map_err(failed(&doing))?;
        let connection: &mut PgConnection = &mut transaction;
        self.run(connection, &doing, &[LOCKS.to_owned()]).await?;
        let after = &change.after;
        if after.epoch != before.epoch {
            for collection in before.claimed() {
                let lock = format!("LOCK TABLE {} IN SHARE MODE", self.table(collection)?.quoted);
                if let Err(error) = self.run(connection, &doing, &[lock]).await {
                    // If the step was made twice at once, the table may be gone.
                    let now = self.read_once().await?;
                    return match now.is_some_and(|now| now.revision == before.revision) {
                        true => Err(error),
                        false => Ok(false),
                    };
                }
            }
        }
        let now = self.read(&mut *connection, true).await?;
        if now.is_none_or(|now| now.revision != before.revision) {
            return Ok(false);
        }
        if let Some([old, new]) = &change.complete {
            self.complete(&mut *connection, old, new).await?;
        }
        let serving = self.mark_in(&mut *connection, &after.serving).await?;
        if after.epoch != before.epoch {
            self.store(&mut *connection, &doing, after, &serving).await?;
        } else {
            let statement = format!(
                "UPDATE {} SET state = $2::text::jsonb WHERE name = $1",
                self.records.quoted
            );
            let noted = sqlx::query(AssertSqlSafe(statement))
                .bind(&self.name.last)
                .bind(after.to_text())
                .execute(&mut *connection)
                .await;
            noted.map_err(failed(&doing))?;
        }
        if let Some(gone) = &change.drop {
            let drop = format!("DROP TABLE IF EXISTS {}", self.table(gone)?.quoted);
            self.run(connection, &doing, &[drop]).await?;
        }
        transaction.commit().await.map_err(failed(&doing))?;
        Ok(true)
    }

    /// Requires that the new table has the documents of the old one, rows of its own space, and an
    /// index if the old one has one. No writes happen while this is read.
    async fn complete(&self, connection: &mut PgConnection, old: &str, new: &str) -> Result<()> {
        let doing = format!("comparing the tables of {}", self.shown);
        let (old_table, new_table) = (self.table(old)?.quoted, self.table(new)?.quoted);
        let incomplete = |message: String, hint| IndexError::Incomplete {
            collection: new.to_owned(),
            serving: old.to_owned(),
            message,
            hint,
        };
        let statement = format!(
            "SELECT count(*), min(o.document) FROM (SELECT DISTINCT document FROM {old_table}) o \
             WHERE NOT EXISTS (SELECT FROM {new_table} n WHERE n.document = o.document)"
        );
        let (missing, example): (i64, Option<String>) = sqlx::query_as(AssertSqlSafe(statement))
            .fetch_one(&mut *connection)
            .await
            .map_err(failed(&doing))?;
        if missing > 0 {
            return Err(incomplete(
                format!(
                    "it lacks {missing} documents of the other one, e.g. `{}`",
                    example.unwrap_or_default()
                ),
                "`isomer index migrate backfill` writes them; with --delete it removes from both what the source no longer has. Where \
                 several sources fill the collection, backfill from each",
            ));
        }
        let space = digest::space_part(&self.mark_in(&mut *connection, new).await?.space.digest);
        let statement = format!(
            "SELECT count(*) FROM {new_table} WHERE left(digest, {}) <> $1",
            space.len()
        );
        let other: i64 = sqlx::query_scalar(AssertSqlSafe(statement))
            .bind(&space)
            .fetch_one(&mut *connection)
            .await
            .map_err(failed(&doing))?;
        if other > 0 {
            return Err(incomplete(
                format!("{other} of its rows are of another vector space than its own"),
                "something else has written to it; `isomer index migrate backfill` makes these rows again",
            ));
        }
        let statement = "SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam \
                         WHERE i.indrelid = to_regclass($1) AND i.indisvalid AND m.amname IN ('hnsw', 'ivfflat')";
        let mut indexes = [0_i64; 2];
        for (count, table) in indexes.iter_mut().zip([&old_table, &new_table]) {
            *count = sqlx::query_scalar(statement)
                .bind(table)
                .fetch_one(&mut *connection)
                .await
                .map_err(failed(&doing))?;
        }
        if indexes[0] > 0 && indexes[1] == 0 {
            return Err(incomplete(
                "it has no index for approximate search, and the other one has: each query would compare all vectors"
                    .to_owned(),
                "`isomer index migrate backfill --build-index`",
            ));
        }
        Ok(())
    }
}

/// Refuses a write to a table that does not belong to this writer. The table is locked against the
/// steps of a migration until the transaction ends.
pub(super) async fn permit(
    connection: &mut PgConnection,
    table: &Name,
    shown: &str,
    fence: Option<&Fence>,
) -> Result<()> {
    let doing = format!("writing to {shown}");
    let moved = |message: String| IndexError::Moved {
        collection: shown.to_owned(),
        message,
    };
    let lock = format!("LOCK TABLE {} IN ROW EXCLUSIVE MODE", table.quoted);
    sqlx::raw_sql(AssertSqlSafe(lock))
        .execute(&mut *connection)
        .await
        .map_err(failed(&doing))?;
    let records = table.beside("sink", RECORDS)?;
    if !create::there(&mut *connection, &records, shown).await? {
        return match fence {
            None => Ok(()),
            Some(_) => Err(moved("the record of its name is gone".to_owned())),
        };
    }
    let (condition, own) = match fence {
        Some(fence) => ("name = $1", &fence.name),
        None => ("(name = $1 OR $1 = ANY(collections))", &table.last),
    };
    let statement = format!("SELECT name, epoch FROM {} WHERE {condition}", records.quoted);
    let found: Option<(String, i64)> = sqlx::query_as(AssertSqlSafe(statement))
        .bind(own)
        .fetch_optional(connection)
        .await
        .map_err(failed(&doing))?;
    match (found, fence) {
        (None, None) => Ok(()),
        (None, Some(fence)) => Err(moved(format!("the name `{}` is gone", fence.name))),
        (Some((_, epoch)), Some(fence)) if u64::try_from(epoch) == Ok(fence.epoch) => Ok(()),
        (Some((name, _)), Some(_)) => Err(moved(format!("a step of the migration of `{name}` was made"))),
        (Some((name, _)), None) => Err(moved(format!(
            "the name `{name}` leads to it, and a migration has begun; rows go to both of its collections"
        ))),
    }
}

impl names::Names for Names {
    fn shown(&self) -> &str {
        &self.shown
    }

    fn state(&self) -> BoxFuture<'_, Result<Option<State>>> {
        retry::calls(self.patience, || self.read_once()).boxed()
    }

    fn mark<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Mark>> {
        retry::calls(self.patience, || self.mark_once(collection)).boxed()
    }

    fn begin<'a>(&'a self, from: Option<&'a str>, mark: &'a Mark, now: u64) -> BoxFuture<'a, Result<(State, bool)>> {
        retry::calls(self.patience, move || self.begin_once(from, mark, now)).boxed()
    }

    fn change<'a>(&'a self, before: &'a State, change: &'a Change) -> BoxFuture<'a, Result<bool>> {
        retry::calls(self.patience, || self.change_once(before, change)).boxed()
    }

    fn open(&self, state: &State, collection: &str) -> Result<Box<dyn VectorStore>> {
        let shown = match self.shown.rsplit_once('#') {
            Some((before, _)) => format!("{before}#{collection}"),
            None => collection.to_owned(),
        };
        Ok(Box::new(super::Table {
            pool: self.pool.clone(),
            table: self.table(collection)?,
            name: shown,
            patience: self.patience,
            fence: Some(Fence {
                name: self.name.last.clone(),
                epoch: state.epoch,
            }),
        }))
    }
}
