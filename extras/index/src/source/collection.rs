//! A collection of vectors as a source: the texts and payloads that it keeps.

use std::sync::Arc;

use futures::{StreamExt, stream, stream::BoxStream};
use serde_json::Map;

use super::{Document, Payload};
use crate::{
    chunk::Chunking,
    error::{IndexError, Result},
    store::{StoredVector, VectorStore},
};

#[derive(Debug, Clone)]
pub struct Rows {
    store: Arc<dyn VectorStore>,
    payload: Payload,
}

impl Rows {
    /// The rows of a collection; `None` if no collection with a mark exists.
    ///
    /// # Errors
    /// If the collection keeps no texts, or only pieces of them.
    pub async fn open(store: Box<dyn VectorStore>, payload: Payload) -> Result<Option<Self>> {
        let Some(mark) = store.mark().await? else {
            return Ok(None);
        };
        let refused = |message: String, hint| IndexError::Setting {
            field: "source",
            message,
            hint,
        };
        if !mark.with_text {
            return Err(refused(
                format!(
                    "{} stores no texts, which are needed to make other vectors",
                    store.name()
                ),
                "name the source that it was filled from; a collection that was filled with --with-text can be a source",
            ));
        }
        if mark.chunking()? != Chunking::Whole {
            return Err(refused(
                format!(
                    "{} stores pieces of texts ({}), which do not give the whole text",
                    store.name(),
                    mark.chunking
                ),
                "name the source that it was filled from",
            ));
        }
        Ok(Some(Self {
            store: store.into(),
            payload,
        }))
    }

    /// The address, without secrets.
    pub fn name(&self) -> &str {
        self.store.name()
    }

    pub(super) fn batches(&self, most: usize) -> BoxStream<'static, Result<Vec<Document>>> {
        let begin = (self.clone(), Vec::<String>::new(), Some(None::<String>));
        let next = move |(rows, mut waiting, mut page): (Self, Vec<String>, Option<Option<String>>)| async move {
            while waiting.len() < most {
                let Some(from) = page else { break };
                let found = rows.store.scan(from.as_deref()).await?;
                waiting.extend(found.rows.into_iter().map(|row| row.key));
                page = found.next.map(Some);
            }
            if waiting.is_empty() {
                return Ok(None);
            }
            let rest = waiting.split_off(most.min(waiting.len()));
            let batch = rows.documents(&waiting).await?;
            Ok(Some((batch, (rows, rest, page))))
        };
        stream::try_unfold(begin, next).boxed()
    }

    /// The documents with these keys, in the same order. A document that was removed since its key
    /// was read is left out.
    async fn documents(&self, keys: &[String]) -> Result<Vec<Document>> {
        let mut stored = self.store.vectors(keys).await?;
        let place = |row: &StoredVector| keys.iter().position(|key| *key == row.key);
        stored.sort_by_cached_key(place);
        stored.into_iter().map(|row| self.document(row)).collect()
    }

    fn document(&self, mut row: StoredVector) -> Result<Document> {
        let wrong = |message: String| IndexError::Source {
            source_name: self.store.name().to_owned(),
            message,
        };
        let text = row.text.take().ok_or_else(|| {
            wrong(format!(
                "the row `{}` has no text, and the collection keeps texts",
                row.key
            ))
        })?;
        let payload = match &self.payload {
            Payload::None => Map::new(),
            Payload::All => row.payload,
            Payload::Named(names) => {
                let mut payload = Map::new();
                for name in names {
                    let value = row.payload.remove(name);
                    let value =
                        value.ok_or_else(|| wrong(format!("the payload of the row `{}` has no `{name}`", row.key)))?;
                    payload.insert(name.clone(), value);
                }
                payload
            }
        };
        Ok(Document {
            key: row.key,
            text,
            payload,
        })
    }
}
