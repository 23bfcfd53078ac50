//! Forgetting of texts in the runs of a ledger. The ledger is opened as a database: this process
//! does not become one of its replicas.

use isomer_database::{Database, failed};
use isomer_retention::erasure::{Mode, Texts};
use sqlx::AnyConnection;

use super::{number, packed, text, unpacked, unreadable};
use crate::run::lifecycle::{
    redaction::{Redaction, RunRedaction, RunRedactions, document, files_of_run},
    store::StoreError,
};

/// The key columns of a row, and its document.
const DOCUMENTS: [(&str, &str, &str); 2] = [
    (
        "events",
        "SELECT sequence, event FROM eval_run_events WHERE run = $1 ORDER BY sequence",
        "UPDATE eval_run_events SET event = $1 WHERE run = $2 AND sequence = $3",
    ),
    (
        "looks",
        "SELECT number, look FROM eval_run_looks WHERE run = $1 ORDER BY number",
        "UPDATE eval_run_looks SET look = $1 WHERE run = $2 AND number = $3",
    ),
];

/// Replaces texts in the runs that have ended, or only reports where they are.
///
/// # Errors
/// If the database fails or contains unreadable data.
pub(in crate::run) async fn forget(
    url: &str,
    texts: &Texts,
    mode: Mode,
    all: &mut RunRedactions,
) -> Result<(), StoreError> {
    let database = Database::open(url).await?;
    database.migrate("eval_runs", super::schema::STEPS).await?;
    let mut connection = database.pool().acquire().await.map_err(failed)?;
    let sqlite = !url.starts_with("postgres");
    if sqlite {
        // Overwritten data is then also overwritten in the file.
        run(&mut connection, "PRAGMA secure_delete = ON").await?;
    }
    let runs = sqlx::query("SELECT id, active, record FROM eval_runs ORDER BY id")
        .fetch_all(&mut *connection)
        .await
        .map_err(failed)?;
    for row in &runs {
        let (id, active) = (text(row, 0)?, number(row, 1)?);
        if active != 0 {
            all.active.push(id);
            continue;
        }
        let redaction = of_run(&mut connection, &id, &text(row, 2)?, texts, mode).await?;
        all.runs.extend(redaction);
    }
    if mode == Mode::Remove {
        // Otherwise the old rows stay in the file, and here in the write-ahead log.
        if sqlite {
            run(&mut connection, "VACUUM").await?;
            run(&mut connection, "PRAGMA wal_checkpoint(TRUNCATE)").await?;
        } else {
            let tables = "VACUUM eval_runs, eval_run_events, eval_run_looks, eval_run_files, eval_attempts";
            run(&mut connection, tables).await?;
        }
    }
    Ok(())
}

async fn run(connection: &mut AnyConnection, statement: &'static str) -> Result<(), StoreError> {
    sqlx::raw_sql(statement).execute(connection).await.map_err(failed)?;
    Ok(())
}

async fn of_run(
    connection: &mut AnyConnection,
    id: &str,
    record: &str,
    texts: &Texts,
    mode: Mode,
) -> Result<Option<RunRedaction>, StoreError> {
    let rows = sqlx::query("SELECT name, content FROM eval_run_files WHERE run = $1")
        .bind(id)
        .fetch_all(&mut *connection)
        .await
        .map_err(failed)?;
    let mut files = std::collections::HashMap::new();
    for row in &rows {
        files.insert(text(row, 0)?, unpacked(&text(row, 1)?)?);
    }
    let found = files_of_run(id, texts, |name| Ok(files.get(name).cloned()))?;
    let (mut redaction, changed) = found.unwrap_or_else(|| (RunRedaction::of(id), Vec::new()));
    let record = redacted(record, texts, &mut redaction, "record")?;
    let mut documents = Vec::new();
    for (what, select, update) in DOCUMENTS {
        let rows = sqlx::query(select)
            .bind(id)
            .fetch_all(&mut *connection)
            .await
            .map_err(failed)?;
        for row in &rows {
            if let Some(document) = redacted(&text(row, 1)?, texts, &mut redaction, what)? {
                documents.push((update, number(row, 0)?, document));
            }
        }
    }
    if redaction.places == 0 {
        return Ok(None);
    }
    if mode == Mode::Remove {
        for (name, content) in changed {
            let query = match &content {
                Some(_) => "UPDATE eval_run_files SET content = $3 WHERE run = $1 AND name = $2",
                None => "DELETE FROM eval_run_files WHERE run = $1 AND name = $2",
            };
            let mut query = sqlx::query(query).bind(id).bind(&name);
            if let Some(content) = content {
                query = query.bind(packed(&content)?);
            }
            query.execute(&mut *connection).await.map_err(failed)?;
        }
        if let Some(record) = record {
            let query = "UPDATE eval_runs SET record = $1 WHERE id = $2 AND active = 0";
            let query = sqlx::query(query).bind(record).bind(id);
            query.execute(&mut *connection).await.map_err(failed)?;
        }
        // Their digests are of data with the text.
        let query = sqlx::query("DELETE FROM eval_attempts WHERE run = $1").bind(id);
        query.execute(&mut *connection).await.map_err(failed)?;
        for (update, number, document) in documents {
            let query = sqlx::query(update).bind(document).bind(id).bind(number);
            query.execute(&mut *connection).await.map_err(failed)?;
        }
    }
    Ok(Some(redaction))
}

/// A document without the texts; `None` if it contains none.
fn redacted(
    content: &str,
    texts: &Texts,
    redaction: &mut RunRedaction,
    what: &str,
) -> Result<Option<String>, StoreError> {
    match document(content.as_bytes(), texts) {
        Redaction::Unchanged => Ok(None),
        Redaction::Unreadable => Err(unreadable(&"a document that holds a text to forget is not JSON")),
        Redaction::Changed(content, places) => {
            redaction.places += places;
            if redaction.files.iter().all(|known| known != what) {
                redaction.files.push(what.to_owned());
            }
            String::from_utf8(content).map(Some).map_err(|error| unreadable(&error))
        }
    }
}
