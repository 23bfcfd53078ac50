//! Names that lead readers to a collection, and move at once.

use std::fmt;

use futures::future::BoxFuture;

use super::VectorStore;
use crate::{
    error::Result,
    mark::Mark,
    name::{Change, State},
};

/// A name in a store. All operations may be repeated.
pub trait Names: Send + Sync + fmt::Debug {
    /// The name in messages, without secrets.
    fn shown(&self) -> &str;

    /// The record of the name; `None` if there is no such name.
    fn state(&self) -> BoxFuture<'_, Result<Option<State>>>;

    /// The mark of a collection behind the name.
    fn mark<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Mark>>;

    /// Begins a migration, as one change: the name is made if there is none, over `from` or in the
    /// place of the collection that has the name; the new collection is made with its mark.
    /// Returns the record, and whether it was this call that began: a migration in progress stays.
    ///
    /// # Errors
    /// If there is nothing to migrate from.
    fn begin<'a>(&'a self, from: Option<&'a str>, mark: &'a Mark, now: u64) -> BoxFuture<'a, Result<(State, bool)>>;

    /// Changes the record and what follows from it, where the record is still `before`. Returns
    /// whether it was.
    ///
    /// # Errors
    /// Also if a collection is not complete that must be; nothing has changed then.
    fn change<'a>(&'a self, before: &'a State, change: &'a Change) -> BoxFuture<'a, Result<bool>>;

    /// A collection behind the name, for a run that began with this record. Once another one holds
    /// where its rows go, each write fails with [`crate::IndexError::Moved`].
    fn open(&self, state: &State, collection: &str) -> Result<Box<dyn VectorStore>>;
}
