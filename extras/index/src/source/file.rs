//! Files of rows, read on a separate thread.

use std::path::PathBuf;

use futures::{StreamExt, stream, stream::BoxStream};
use isomer_datasets::{DatasetError, FileRow, read_rows};
use serde_json::{Map, Value};
use tokio::sync::mpsc::{Sender, channel};

use super::{Columns, Document, Payload, joined};
use crate::error::{IndexError, Result};

pub(super) fn batches(path: PathBuf, columns: Columns, most: usize) -> BoxStream<'static, Result<Vec<Document>>> {
    let (sender, receiver) = channel(1);
    tokio::task::spawn_blocking(move || {
        if let Err(error) = read(&path, &columns, most.max(1), &sender) {
            // A reader that has gone needs no error either.
            let _ = sender.blocking_send(Err(error));
        }
    });
    stream::unfold(receiver, |mut receiver| async move {
        let batch = receiver.recv().await?;
        Some((batch, receiver))
    })
    .boxed()
}

fn read(path: &std::path::Path, columns: &Columns, most: usize, to: &Sender<Result<Vec<Document>>>) -> Result<()> {
    let mut batch = Vec::with_capacity(most);
    let mut open = true;
    read_rows(path, |row| {
        batch.push(document(row, columns)?);
        if batch.len() == most {
            open = to.blocking_send(Ok(std::mem::take(&mut batch))).is_ok();
        }
        Ok::<_, IndexError>(open)
    })?;
    if !batch.is_empty() && open {
        let _ = to.blocking_send(Ok(batch));
    }
    Ok(())
}

fn document(mut row: FileRow, columns: &Columns) -> Result<Document, DatasetError> {
    let wrong = |row: &FileRow, field: &str, expected: &str| {
        let found = match row.fields.get(field) {
            None => {
                let there: Vec<&str> = row.fields.keys().map(String::as_str).collect();
                format!("missing; the row has {}", there.join(", "))
            }
            Some(value) => format!("{} where {expected} is expected", kind(value)),
        };
        row.error(Some(field), found)
    };
    let key = match row.fields.get(&columns.key) {
        Some(Value::String(key)) if !key.is_empty() => key.clone(),
        Some(Value::Number(number)) if number.is_i64() || number.is_u64() => number.to_string(),
        _ => {
            return Err(wrong(
                &row,
                &columns.key,
                "a key (text that is not empty, or a whole number)",
            ));
        }
    };
    let mut texts = Vec::with_capacity(columns.texts.len());
    for column in &columns.texts {
        texts.push(match row.fields.get(column) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Null) => None,
            _ => return Err(wrong(&row, column, "a text")),
        });
    }
    let payload = match &columns.payload {
        Payload::None => Map::new(),
        Payload::All => {
            row.fields.remove(&columns.key);
            for column in &columns.texts {
                row.fields.remove(column);
            }
            row.fields
        }
        Payload::Named(names) => {
            let mut payload = Map::new();
            for name in names {
                let value = row.fields.get(name).ok_or_else(|| wrong(&row, name, "a value"))?;
                payload.insert(name.clone(), value.clone());
            }
            payload
        }
    };
    Ok(Document {
        key,
        text: joined(texts),
        payload,
    })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures::TryStreamExt;

    use super::*;

    fn columns(texts: &[&str], payload: Payload) -> Columns {
        Columns {
            key: "id".to_owned(),
            texts: texts.iter().map(|text| (*text).to_owned()).collect(),
            payload,
        }
    }

    async fn all(text: &str, columns: Columns, most: usize) -> Result<Vec<Vec<Document>>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        std::fs::write(&path, text).unwrap();
        batches(path, columns, most).try_collect().await
    }

    #[tokio::test]
    async fn rows_become_documents_in_batches() {
        let rows = "{\"id\": 1, \"t\": \"a\", \"b\": \"x\", \"n\": 2}\n{\"id\": \"two\", \"t\": null, \"b\": \"y\", \"n\": {\"m\": 1}}\n{\"id\": 3, \"t\": \"\", \"b\": null, \"n\": 0}\n";
        let found = all(rows, columns(&["t", "b"], Payload::All), 2).await.unwrap();
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        let all: Vec<(&str, &str)> = found
            .iter()
            .flatten()
            .map(|d| (d.key.as_str(), d.text.as_str()))
            .collect();
        assert_eq!(all, [("1", "a\nx"), ("two", "y"), ("3", "")]);
        assert_eq!(
            Value::Object(found[0][1].payload.clone()).to_string(),
            r#"{"n":{"m":1}}"#
        );
    }

    #[tokio::test]
    async fn a_row_without_key_text_or_payload_is_named_with_its_line() {
        let good = "{\"id\": 1, \"t\": \"a\"}\n";
        for (bad, part) in [
            ("{\"id\": \"\", \"t\": \"a\"}", "`id`"),
            ("{\"id\": 1.5, \"t\": \"a\"}", "a number where a key"),
            ("{\"id\": 2}", "`t`: missing; the row has id"),
            ("{\"id\": 2, \"t\": 3}", "`t`: a number"),
        ] {
            let error = all(&format!("{good}{bad}\n"), columns(&["t"], Payload::None), 9)
                .await
                .unwrap_err()
                .to_string();
            assert!(error.contains("line 2") && error.contains(part), "{error}");
        }
        let named = columns(&["t"], Payload::Named(vec!["lang".to_owned()]));
        let error = all(good, named, 9).await.unwrap_err().to_string();
        assert!(error.contains("`lang`"), "{error}");
    }
}
