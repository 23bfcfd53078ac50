//! Names that lead readers to a collection, and move atomically.

use std::fmt;

use futures::future::BoxFuture;

use super::VectorStore;
use crate::{
    error::Result,
    mark::Mark,
    name::{Change, State},
};

/// A name in a store. All operations are idempotent.
pub trait Names: Send + Sync + fmt::Debug {
    /// The name in messages, without secrets.
    fn shown(&self) -> &str;

    /// The record of the name; `None` if the name does not exist.
    fn state(&self) -> BoxFuture<'_, Result<Option<State>>>;

    /// The mark of a collection behind the name.
    fn mark<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Mark>>;

    /// Begins a migration, as one change. The name is created if it does not exist, over `from` or
    /// in place of the collection with that name. The new collection is created with its mark.
    /// Returns the record, and whether this call began the migration: a migration in progress is
    /// kept.
    ///
    /// # Errors
    /// If there is nothing to migrate from.
    fn begin<'a>(&'a self, from: Option<&'a str>, mark: &'a Mark, now: u64) -> BoxFuture<'a, Result<(State, bool)>>;

    /// Changes the record and its consequences if the record is still `before`. Returns whether it
    /// was.
    ///
    /// # Errors
    /// Also if a collection that must be complete is not; in that case nothing has changed.
    fn change<'a>(&'a self, before: &'a State, change: &'a Change) -> BoxFuture<'a, Result<bool>>;

    /// A collection behind the name, for a run that began with this record. Once another record
    /// determines the destination of its rows, each write fails with [`crate::IndexError::Moved`].
    fn open(&self, state: &State, collection: &str) -> Result<Box<dyn VectorStore>>;
}
