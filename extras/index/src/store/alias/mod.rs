//! Names that are aliases in a store that is a server.
//!
//! The store moves an alias from one collection to another atomically. The record of a name is
//! stored beside the mark of each of the name's collections. The record with the most changes is
//! valid, but the alias determines the serving collection. Changes are not one transaction: a step
//! that was killed is made again from its beginning, and two steps must not be made at the same
//! time.

pub(super) mod elastic;
pub(super) mod milvus;
pub(super) mod qdrant;

use std::{collections::HashSet, fmt::Debug};

use futures::{FutureExt, future::BoxFuture};

use super::{Hit, Names, Page, Row, StoredRow, StoredVector, VectorStore};
use crate::{
    digest,
    error::{IndexError, Result},
    mark::Mark,
    name::{Change, State},
};

/// Name of the record beside the mark.
pub(crate) const RECORD: &str = "isomer_index_name";

/// A store's operations on an alias and the collections behind it.
pub(crate) trait Aliases: Send + Sync + Debug {
    /// The alias in messages.
    fn shown(&self) -> &str;
    fn name(&self) -> &str;
    /// The collection to which the alias leads; also `None` without permission to read it.
    fn target(&self) -> BoxFuture<'_, Result<Option<String>>>;
    /// Moves the alias atomically, or creates it.
    fn point<'a>(&'a self, from: Option<&'a str>, to: &'a str) -> BoxFuture<'a, Result<()>>;
    /// The record in a collection; `None` if there is none.
    fn record<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Option<String>>>;
    fn keep<'a>(&'a self, collection: &'a str, record: &'a str) -> BoxFuture<'a, Result<()>>;
    /// Removes a collection, which may already be gone.
    fn remove<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<()>>;
    fn store(&self, collection: &str) -> Result<Box<dyn VectorStore>>;
}

#[derive(Debug, Clone)]
struct AliasNames<A> {
    aliases: A,
}

/// The name that is this alias.
pub(super) fn names(aliases: impl Aliases + Clone + 'static) -> Result<Box<dyn Names>> {
    Ok(Box::new(AliasNames { aliases }))
}

impl<A: Aliases + Clone + 'static> AliasNames<A> {
    fn foreign(&self, message: String) -> IndexError {
        IndexError::Foreign {
            collection: self.aliases.shown().to_owned(),
            message,
        }
    }

    async fn record(&self, collection: &str) -> Result<Option<State>> {
        let text = self.aliases.record(collection).await?;
        let state = text
            .map(|text| State::from_text(self.aliases.shown(), &text))
            .transpose()?;
        Ok(state.filter(|state| state.name == self.aliases.name()))
    }

    /// The newest record that can be found, starting from a collection.
    async fn read(&self, from: &str) -> Result<Option<State>> {
        let Some(mut state) = self.record(from).await? else {
            return Ok(None);
        };
        let others: Vec<String> = state.claimed().into_iter().map(str::to_owned).collect();
        for other in others.iter().filter(|other| *other != from) {
            if let Some(found) = self.record(other).await?
                && found.revision > state.revision
            {
                state = found;
            }
        }
        Ok(Some(state))
    }

    async fn state(&self) -> Result<Option<State>> {
        let Some(target) = self.aliases.target().await? else {
            return self.no_alias().await;
        };
        let mut state = self.read(&target).await?;
        if let Some(state) = &mut state {
            let started = state.migration.as_ref().map(|migration| migration.started);
            if let Some(migration) = state.migration.as_mut().filter(|migration| migration.new == target) {
                // A step was killed after the move of the alias.
                migration.switched = migration.switched.or(started);
            }
            state.serving = target;
        }
        Ok(state)
    }

    /// A collection with this name, rather than an alias, may be behind an alias.
    async fn no_alias(&self) -> Result<Option<State>> {
        let text = self.aliases.record(self.aliases.name()).await?;
        let state = text
            .map(|text| State::from_text(self.aliases.shown(), &text))
            .transpose()?;
        if let Some(state) = state.as_ref().filter(|state| state.name == self.aliases.name()) {
            return Err(IndexError::Refused {
                doing: format!("reading where {} leads", self.aliases.shown()),
                message: format!(
                    "it is the name of `{}`, and this key may not list aliases",
                    state.serving
                ),
            });
        }
        match state.filter(|state| state.claimed().contains(&self.aliases.name())) {
            None => Ok(None),
            Some(state) => Err(IndexError::Moved {
                collection: self.aliases.shown().to_owned(),
                message: format!(
                    "the name `{}` leads to it, and a migration has begun; rows go to both of its collections",
                    state.name
                ),
            }),
        }
    }

    async fn mark_of(&self, collection: &str) -> Result<Mark> {
        let mark = self.aliases.store(collection)?.mark().await?;
        mark.ok_or_else(|| self.foreign(format!("its collection `{collection}` is not there, or has no mark")))
    }

    async fn start(&self, from: Option<&str>, mark: &Mark, now: u64) -> Result<(State, bool)> {
        let target = self.aliases.target().await?;
        let serving = match (&target, from) {
            (Some(target), Some(from)) if target != from => {
                return Err(IndexError::Setting {
                    field: "from",
                    message: format!("{} leads to `{target}` already", self.aliases.shown()),
                    hint: "leave --from out",
                });
            }
            (Some(target), _) => target.clone(),
            (None, Some(from)) => from.to_owned(),
            (None, None) => {
                return Err(IndexError::Setting {
                    field: "from",
                    message: format!("there is no alias {}", self.aliases.shown()),
                    hint: "name the collection that it is to lead to (--from); an alias cannot have the name of a collection",
                });
            }
        };
        let own = self.mark_of(&serving).await?;
        let mut state = match self.read(&serving).await? {
            Some(state) => state,
            None => State::new(self.aliases.name(), &serving),
        };
        state.serving.clone_from(&serving);
        if state.migration.is_some() {
            if target.is_none() {
                self.aliases.point(None, &serving).await?;
            }
            return Ok((state, false));
        }
        if own == *mark {
            return Err(IndexError::Setting {
                field: "model",
                message: format!("`{serving}` holds vectors of these settings already"),
                hint: "name the encoder, prompt, augmentation or chunks of the new collection",
            });
        }
        let new = format!("{}_{}", self.aliases.name(), state.made + 1);
        let store = self.aliases.store(&new)?;
        if let Some(there) = store.mark().await? {
            // A collection from a beginning that was killed has no rows.
            if there != *mark || !store.scan(None).await?.rows.is_empty() {
                return Err(self.foreign(format!(
                    "the new collection is to be `{new}`, and there is one of this name; remove that one"
                )));
            }
        }
        store.create(mark).await?;
        let state = state.start(&new, now);
        // The record in the serving collection begins the migration.
        for collection in [&new, &serving] {
            self.aliases.keep(collection, &state.to_text()).await?;
        }
        if target.is_none() {
            self.aliases.point(None, &serving).await?;
        }
        Ok((state, true))
    }

    async fn make(&self, before: &State, change: &Change) -> Result<bool> {
        let now = self.state().await?;
        if now.is_none_or(|now| now.revision != before.revision || now.serving != before.serving) {
            return Ok(false);
        }
        if let Some([old, new]) = &change.complete {
            self.complete(old, new).await?;
        }
        let after = &change.after;
        if after.serving != before.serving {
            self.aliases.point(Some(&before.serving), &after.serving).await?;
        }
        if let Some(gone) = &change.drop {
            self.aliases.remove(gone).await?;
        }
        let mut kept: HashSet<&str> = before.claimed().into_iter().chain(after.claimed()).collect();
        kept.insert(&after.serving);
        for collection in kept {
            if change.drop.as_deref() != Some(collection) {
                self.aliases.keep(collection, &after.to_text()).await?;
            }
        }
        Ok(true)
    }

    /// Requires that the new collection has the documents of the old one, and rows of its own
    /// space.
    async fn complete(&self, old: &str, new: &str) -> Result<()> {
        let incomplete = |message: String, hint| IndexError::Incomplete {
            collection: new.to_owned(),
            serving: old.to_owned(),
            message,
            hint,
        };
        let space = digest::space_part(&self.mark_of(new).await?.space.digest);
        let (mut missing, mut other) = (HashSet::new(), 0_u64);
        rows(self.aliases.store(old)?.as_ref(), |row| {
            missing.insert(digest::key_hash(&row.document));
        })
        .await?;
        rows(self.aliases.store(new)?.as_ref(), |row| {
            missing.remove(&digest::key_hash(&row.document));
            other += u64::from(!row.digest.starts_with(&space));
        })
        .await?;
        if !missing.is_empty() {
            return Err(incomplete(
                format!("it lacks {} documents of the other one", missing.len()),
                "`isomer index migrate backfill` writes them; with --delete it removes from both what the source no longer has. Where \
                 several sources fill the collection, backfill from each",
            ));
        }
        if other > 0 {
            return Err(incomplete(
                format!("{other} of its rows are of another vector space than its own"),
                "something else has written to it; `isomer index migrate backfill` makes these rows again",
            ));
        }
        Ok(())
    }
}

async fn rows(store: &dyn VectorStore, mut each: impl FnMut(&StoredRow)) -> Result<()> {
    let mut from = None;
    loop {
        let page = store.scan(from.as_deref()).await?;
        page.rows.iter().for_each(&mut each);
        match page.next {
            Some(next) => from = Some(next),
            None => return Ok(()),
        }
    }
}

impl<A: Aliases + Clone + 'static> Names for AliasNames<A> {
    fn shown(&self) -> &str {
        self.aliases.shown()
    }

    fn state(&self) -> BoxFuture<'_, Result<Option<State>>> {
        self.state().boxed()
    }

    fn mark<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Mark>> {
        self.mark_of(collection).boxed()
    }

    fn begin<'a>(&'a self, from: Option<&'a str>, mark: &'a Mark, now: u64) -> BoxFuture<'a, Result<(State, bool)>> {
        self.start(from, mark, now).boxed()
    }

    fn change<'a>(&'a self, before: &'a State, change: &'a Change) -> BoxFuture<'a, Result<bool>> {
        self.make(before, change).boxed()
    }

    fn open(&self, state: &State, collection: &str) -> Result<Box<dyn VectorStore>> {
        Ok(Box::new(FencedStore {
            store: self.aliases.store(collection)?,
            names: self.clone(),
            epoch: state.epoch,
        }))
    }
}

/// A collection behind an alias, which is written to only while the record is unchanged.
#[derive(Debug)]
struct FencedStore<A> {
    store: Box<dyn VectorStore>,
    names: AliasNames<A>,
    epoch: u64,
}

impl<A: Aliases + Clone + 'static> VectorStore for FencedStore<A> {
    fn name(&self) -> &str {
        self.store.name()
    }

    fn is_exact(&self) -> bool {
        self.store.is_exact()
    }

    fn keeps_lengths(&self, mark: &Mark) -> bool {
        self.store.keeps_lengths(mark)
    }

    fn mark(&self) -> BoxFuture<'_, Result<Option<Mark>>> {
        self.store.mark()
    }

    fn create<'a>(&'a self, mark: &'a Mark) -> BoxFuture<'a, Result<()>> {
        self.store.create(mark)
    }

    fn rows_of<'a>(&'a self, documents: &'a [String]) -> BoxFuture<'a, Result<Vec<StoredRow>>> {
        self.store.rows_of(documents)
    }

    fn write<'a>(&'a self, rows: &'a [Row], gone: &'a [String]) -> BoxFuture<'a, Result<()>> {
        async move {
            let now = self.names.state().await?;
            if now.is_none_or(|now| now.epoch != self.epoch) {
                return Err(IndexError::Moved {
                    collection: self.store.name().to_owned(),
                    message: format!("a step of the migration of `{}` was made", self.names.aliases.name()),
                });
            }
            self.store.write(rows, gone).await
        }
        .boxed()
    }

    fn scan<'a>(&'a self, from: Option<&'a str>) -> BoxFuture<'a, Result<Page>> {
        self.store.scan(from)
    }

    fn vectors<'a>(&'a self, keys: &'a [String]) -> BoxFuture<'a, Result<Vec<StoredVector>>> {
        self.store.vectors(keys)
    }

    fn search<'a>(&'a self, mark: &'a Mark, vector: &'a [f32], most: usize) -> BoxFuture<'a, Result<Vec<Hit>>> {
        self.store.search(mark, vector, most)
    }

    fn search_exactly<'a>(
        &'a self,
        mark: &'a Mark,
        vector: &'a [f32],
        most: usize,
    ) -> BoxFuture<'a, Result<Option<Vec<Hit>>>> {
        self.store.search_exactly(mark, vector, most)
    }

    fn search_depth(&self, most: usize) -> BoxFuture<'_, Result<Option<String>>> {
        self.store.search_depth(most)
    }

    fn settle(&self) -> BoxFuture<'_, Result<()>> {
        self.store.settle()
    }

    fn build_index<'a>(&'a self, mark: &'a Mark) -> BoxFuture<'a, Result<bool>> {
        self.store.build_index(mark)
    }
}
