//! A table with its mark.

use sqlx::{AssertSqlSafe, PgConnection};

use crate::{
    error::{IndexError, Result},
    mark::Mark,
    sql::{Name, failed, literal, quoted},
};

/// Prefix of a comment that contains a mark.
const MARKED: &str = "isomer index: ";

/// The comment of the column `embedding`; `None` if the table, the column or the comment does not
/// exist.
async fn comment<'e>(executor: impl sqlx::PgExecutor<'e>, table: &Name, shown: &str) -> Result<Option<String>> {
    let statement = "SELECT col_description(attrelid, attnum) FROM pg_attribute WHERE attrelid = to_regclass($1) \
                     AND attname = 'embedding' AND NOT attisdropped";
    let found: Option<Option<String>> = sqlx::query_scalar(statement)
        .bind(&table.quoted)
        .fetch_optional(executor)
        .await
        .map_err(failed(&format!("reading the mark of {shown}")))?;
    Ok(found.flatten())
}

/// The mark of a table or view; `None` if it does not exist or has no mark.
pub(super) async fn mark<'e>(executor: impl sqlx::PgExecutor<'e>, table: &Name, shown: &str) -> Result<Option<Mark>> {
    let comment = comment(executor, table, shown).await?;
    match comment.as_deref().and_then(|comment| comment.strip_prefix(MARKED)) {
        Some(text) => Mark::from_text(shown, text).map(Some),
        None => Ok(None),
    }
}

/// The statement that gives the column `embedding` of a table or view its mark.
pub(super) fn marking(table: &Name, mark: &Mark) -> String {
    let comment = literal(&format!("{MARKED}{}", mark.to_text()));
    format!("COMMENT ON COLUMN {}.embedding IS {comment}", table.quoted)
}

/// Creates the table with its mark; an existing table keeps its own.
pub(super) async fn table(connection: &mut PgConnection, table: &Name, shown: &str, mark: &Mark) -> Result<()> {
    let doing = format!("creating {shown}");
    let quoted_table = &table.quoted;
    alone(&mut *connection, table, shown).await?;
    if there(&mut *connection, table, shown).await? {
        if comment(&mut *connection, table, shown)
            .await?
            .is_some_and(|comment| comment.starts_with(MARKED))
        {
            return Ok(());
        }
        return Err(IndexError::Foreign {
            collection: shown.to_owned(),
            message: "there is a table of this name, whose column `embedding` has no mark".to_owned(),
        });
    }
    let extension = sqlx::raw_sql("CREATE EXTENSION IF NOT EXISTS vector")
        .execute(&mut *connection)
        .await;
    extension.map_err(failed(&format!(
        "creating {shown}: the extension pgvector is needed, and cannot be created by this user"
    )))?;
    let known: bool = sqlx::query_scalar("SELECT to_regtype('vector') IS NOT NULL")
        .fetch_one(&mut *connection)
        .await
        .map_err(failed(&doing))?;
    if !known {
        return Err(IndexError::Refused {
            doing,
            message: "the extension pgvector is in a schema that is not looked through; add it in the address, e.g. \
                      ?options[search_path]=public,extensions"
                .to_owned(),
        });
    }
    let index = quoted("sink", &truncated(&format!("{}_document", table.last)))?;
    let dimensions = mark.space.dimensions;
    let sparse = match &mark.sparse {
        None => String::new(),
        Some(space) if space.dimensions == 0 => {
            return Err(IndexError::Refused {
                doing,
                message: "the encoder does not say how large its vocabulary is, which a sparsevec column needs"
                    .to_owned(),
            });
        }
        Some(space) => format!(", sparse sparsevec({})", space.dimensions),
    };
    for statement in [
        format!(
            "CREATE TABLE {quoted_table} (key text COLLATE \"C\" PRIMARY KEY, document text COLLATE \"C\" NOT NULL, digest text NOT NULL, \
             text text, payload jsonb NOT NULL, embedding vector({dimensions}) NOT NULL{sparse})"
        ),
        format!("CREATE INDEX {index} ON {quoted_table} (document)"),
        marking(table, mark),
    ] {
        let done = sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut *connection).await;
        done.map_err(failed(&doing))?;
    }
    Ok(())
}

/// Serialises the creation of a table or a name: one process creates it, and the others find it.
pub(super) async fn alone(connection: &mut PgConnection, table: &Name, shown: &str) -> Result<()> {
    let locked = sqlx::query("SELECT pg_advisory_xact_lock(hashtext($1))")
        .bind(format!("isomer index {}", table.quoted))
        .execute(connection)
        .await;
    locked.map(drop).map_err(failed(&format!("creating {shown}")))
}

/// Whether a table, view or index of this name exists.
pub(super) async fn there(connection: &mut PgConnection, table: &Name, shown: &str) -> Result<bool> {
    sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL")
        .bind(&table.quoted)
        .fetch_one(connection)
        .await
        .map_err(failed(&format!("reading {shown}")))
}

/// The name, truncated to PostgreSQL's limit.
pub(super) fn truncated(name: &str) -> String {
    if name.len() <= 63 {
        return name.to_owned();
    }
    let hash = blake3::hash(name.as_bytes()).to_hex();
    format!("{}_{}", &name[..name.floor_char_boundary(46)], &hash[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_of_an_index_stays_its_own() {
        let (one, two) = (
            truncated(&format!("{}_hnsw", "ö".repeat(31))),
            truncated(&format!("{}_document", "ö".repeat(31))),
        );
        assert!(one.len() <= 63 && two.len() <= 63 && one != two);
        assert_eq!(truncated("docs_hnsw"), "docs_hnsw");
    }
}
