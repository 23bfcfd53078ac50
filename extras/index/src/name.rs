//! The collections behind a name, and the order of the steps of a migration. Pure.
//!
//! A name leads readers to one collection. During a migration it has two: the old one and the new
//! one. Runs write to both; readers use the serving one. The record of a name is in the store, and
//! a step is one change of it.

use serde::{Deserialize, Serialize};

use crate::error::{IndexError, Result};

/// The version of the record.
const VERSION: u32 = 1;

/// The record of a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Version of this format.
    pub version: u32,
    pub name: String,
    /// Counts every change of the record.
    pub revision: u64,
    /// Counts the changes after which an earlier run must not continue.
    pub epoch: u64,
    /// Number of collections created under this name so far.
    pub made: u32,
    /// The collection that readers use.
    pub serving: String,
    /// The migration in progress.
    pub migration: Option<Migration>,
    /// The migration that ended last.
    pub ended: Option<PastMigration>,
}

/// A migration in progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Migration {
    /// The collection that served before.
    pub old: String,
    /// The collection that should serve.
    pub new: String,
    /// When it began, in seconds since 1970.
    pub started: u64,
    /// How often a run could write only to the serving collection.
    pub skipped: u64,
    /// Whether a run over the whole source has written to both since this was last `false`.
    pub level: bool,
    /// The agreement of both lists, if they were compared.
    pub agreement: Option<Agreement>,
    /// When readers first used the new collection, in seconds since 1970.
    pub switched: Option<u64>,
}

/// The agreement of both collections' lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    pub queries: u64,
    /// Number of documents in a list.
    pub k: u64,
    /// Mean share of documents that both lists contain.
    pub overlap: f64,
    /// Mean rank-biased overlap.
    pub rank_biased_overlap: f64,
    /// The time, in seconds since 1970.
    pub at: u64,
}

/// A migration that ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PastMigration {
    /// The collection that served before.
    pub old: String,
    /// The collection that should have served.
    pub new: String,
    /// Whether the old one was dropped rather than the new one.
    pub finished: bool,
    /// The time, in seconds since 1970.
    pub at: u64,
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "each step makes one, and no list holds them")]
pub enum Next {
    /// It had already been made.
    Already,
    /// The record changes.
    Change(Change),
}

/// A change of a record, made atomically with its consequences.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The record afterwards.
    pub after: State,
    /// The collection to drop.
    pub drop: Option<String>,
    /// Two collections: the second must contain all documents of the first.
    pub complete: Option<[String; 2]>,
}

impl Change {
    /// A change that only affects the record.
    fn of(after: State) -> Self {
        Self {
            after,
            drop: None,
            complete: None,
        }
    }
}

impl State {
    /// The record of a name that leads to a collection.
    pub fn new(name: &str, serving: &str) -> Self {
        Self {
            version: VERSION,
            name: name.to_owned(),
            revision: 0,
            epoch: 0,
            made: 0,
            serving: serving.to_owned(),
            migration: None,
            ended: None,
        }
    }

    /// Parses a record.
    ///
    /// # Errors
    /// If it is not a record, or a newer version wrote it.
    pub fn from_text(name: &str, text: &str) -> Result<Self> {
        let foreign = |message: String| IndexError::Foreign {
            collection: name.to_owned(),
            message,
        };
        let state: Self =
            serde_json::from_str(text).map_err(|error| foreign(format!("its record cannot be read: {error}")))?;
        if state.version != VERSION {
            return Err(foreign(format!(
                "its record has version {}, this isomer knows {VERSION}",
                state.version
            )));
        }
        Ok(state)
    }

    /// The stored form.
    pub fn to_text(&self) -> String {
        // A structure of texts and finite numbers has no value that JSON lacks.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The collection that is written in addition to the serving one.
    pub fn other(&self) -> Option<&str> {
        let migration = self.migration.as_ref()?;
        Some(match self.serving == migration.old {
            true => &migration.new,
            false => &migration.old,
        })
    }

    /// Collections that only runs under this name may write to.
    pub fn claimed(&self) -> Vec<&str> {
        self.migration
            .iter()
            .flat_map(|migration| [migration.old.as_str(), migration.new.as_str()])
            .collect()
    }

    /// Begins a migration to a new collection.
    pub fn start(&self, new: &str, now: u64) -> State {
        let mut after = self.changed(true);
        after.made += 1;
        after.migration = Some(Migration {
            old: self.serving.clone(),
            new: new.to_owned(),
            started: now,
            skipped: 0,
            level: false,
            agreement: None,
            switched: None,
        });
        after
    }

    /// Records that a row is written only to the serving collection.
    ///
    /// # Errors
    /// If no migration is in progress.
    pub fn skip(&self) -> Result<Next> {
        self.with_migration("write to both collections of", |migration| {
            migration.skipped += 1;
            migration.level = false;
        })
    }

    /// Records that a run over the whole source has written to both; `skipped` is the count at the
    /// run's beginning.
    ///
    /// # Errors
    /// If no migration is in progress.
    pub fn levelled(&self, skipped: u64) -> Result<Next> {
        let migration = self.migration("write to both collections of")?;
        if migration.level || migration.skipped != skipped {
            return Ok(Next::Already);
        }
        self.with_migration("write to both collections of", |migration| migration.level = true)
    }

    /// Requires that the lists of both collections may be compared.
    ///
    /// # Errors
    /// If no migration is in progress, or the other collection is not filled.
    pub fn comparable(&self) -> Result<&Migration> {
        let migration = self.migration("compare")?;
        if !migration.level {
            return Err(self.not_level("compare"));
        }
        Ok(migration)
    }

    /// Records that the lists of both were compared.
    ///
    /// # Errors
    /// If no migration is in progress.
    pub fn agree(&self, agreement: Agreement) -> Result<Next> {
        self.with_migration("compare", |migration| migration.agreement = Some(agreement))
    }

    /// Lets readers use the new collection.
    ///
    /// # Errors
    /// If no migration is in progress, the new collection is not filled, or the lists were not
    /// compared (unless `uncompared`).
    pub fn switch(&self, uncompared: bool, now: u64) -> Result<Next> {
        let migration = self.migration("switch")?;
        if self.serving == migration.new {
            return Ok(Next::Already);
        }
        if !migration.level {
            return Err(self.not_level("switch"));
        }
        if migration.agreement.is_none() && !uncompared {
            return Err(self.order(
                "switch",
                format!("the lists of {} and {} were not compared", migration.old, migration.new),
                "compare first: `isomer index migrate compare`; or give --uncompared",
            ));
        }
        let mut after = self.changed(true);
        let pair = [migration.old.clone(), migration.new.clone()];
        after.serving.clone_from(&migration.new);
        if let Some(own) = &mut after.migration {
            own.switched.get_or_insert(now);
        }
        Ok(Next::Change(Change {
            complete: Some(pair),
            ..Change::of(after)
        }))
    }

    /// Lets readers use the old collection again.
    ///
    /// # Errors
    /// If no migration is in progress, or no switch was made.
    pub fn roll_back(&self) -> Result<Next> {
        let migration = self.migration("roll back")?;
        if self.serving == migration.old {
            return match migration.switched {
                Some(_) => Ok(Next::Already),
                None => Err(self.order(
                    "roll back",
                    format!("readers get {} already: nothing was switched", migration.old),
                    "`isomer index migrate abandon` ends the migration and drops the new collection",
                )),
            };
        }
        let mut after = self.changed(true);
        after.serving.clone_from(&migration.old);
        Ok(Next::Change(Change::of(after)))
    }

    /// Ends the migration with the new collection; the old one is dropped.
    ///
    /// # Errors
    /// If no migration is in progress, or readers use the old collection.
    pub fn finish(&self, now: u64) -> Result<Next> {
        self.end(true, now)
    }

    /// Ends the migration with the old collection; the new one is dropped.
    ///
    /// # Errors
    /// If no migration is in progress, or readers use the new collection.
    pub fn abandon(&self, now: u64) -> Result<Next> {
        self.end(false, now)
    }

    fn end(&self, finish: bool, now: u64) -> Result<Next> {
        let step = if finish { "finish" } else { "abandon" };
        if self.migration.is_none() && self.ended.as_ref().is_some_and(|ended| ended.finished == finish) {
            return Ok(Next::Already);
        }
        let migration = self.migration(step)?;
        let (kept, dropped) = match finish {
            true => (&migration.new, &migration.old),
            false => (&migration.old, &migration.new),
        };
        if self.serving != *kept {
            let message = format!("readers get {}, which this step drops", self.serving);
            return Err(self.order(
                step,
                message,
                match finish {
                    true => {
                        "`isomer index migrate switch` first; or end the migration with `isomer index migrate abandon`"
                    }
                    false => {
                        "`isomer index migrate roll-back` first; or end the migration with `isomer index migrate finish`"
                    }
                },
            ));
        }
        let mut after = self.changed(true);
        after.migration = None;
        after.ended = Some(PastMigration {
            old: migration.old.clone(),
            new: migration.new.clone(),
            finished: finish,
            at: now,
        });
        Ok(Next::Change(Change {
            drop: Some(dropped.clone()),
            ..Change::of(after)
        }))
    }

    fn changed(&self, epoch: bool) -> State {
        State {
            revision: self.revision + 1,
            epoch: self.epoch + u64::from(epoch),
            ..self.clone()
        }
    }

    fn with_migration(&self, step: &'static str, change: impl FnOnce(&mut Migration)) -> Result<Next> {
        self.migration(step)?;
        let mut after = self.changed(false);
        if let Some(migration) = &mut after.migration {
            change(migration);
        }
        Ok(Next::Change(Change::of(after)))
    }

    /// The migration in progress, which a step needs.
    ///
    /// # Errors
    /// If there is none.
    pub fn migration(&self, step: &'static str) -> Result<&Migration> {
        let none = || {
            self.order(
                step,
                "there is no migration in progress".to_owned(),
                "begin one: `isomer index migrate start`",
            )
        };
        self.migration.as_ref().ok_or_else(none)
    }

    fn not_level(&self, step: &'static str) -> IndexError {
        self.order(
            step,
            format!("{} does not have all rows yet", self.other().unwrap_or_default()),
            "fill it first: `isomer index migrate backfill`, until it ends without a failure",
        )
    }

    fn order(&self, step: &'static str, message: String, hint: &'static str) -> IndexError {
        IndexError::Order {
            name: self.name.clone(),
            step,
            message,
            hint,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn done(next: Result<Next>) -> State {
        match next.unwrap() {
            Next::Change(change) => change.after,
            Next::Already => panic!("nothing changed"),
        }
    }

    fn refusal(next: Result<Next>) -> String {
        match next.unwrap_err() {
            IndexError::Order { message, hint, .. } => format!("{message}; {hint}"),
            other => panic!("{other}"),
        }
    }

    fn agreement() -> Agreement {
        Agreement {
            queries: 10,
            k: 10,
            overlap: 0.7,
            rank_biased_overlap: 0.6,
            at: 2,
        }
    }

    #[test]
    fn each_step_is_refused_before_its_turn_with_the_remedy_and_may_be_repeated_after_it() {
        let idle = State::new("docs", "docs_1");
        for refused in [
            idle.switch(true, 1),
            idle.roll_back(),
            idle.finish(1),
            idle.abandon(1),
            idle.agree(agreement()),
        ] {
            assert!(refusal(refused).contains("migrate start"));
        }
        let started = idle.start("docs_2", 1);
        assert_eq!(
            (started.serving.as_str(), started.other(), started.claimed()),
            ("docs_1", Some("docs_2"), vec!["docs_1", "docs_2"])
        );
        assert!(refusal(started.switch(true, 2)).contains("migrate backfill"));
        assert!(started.comparable().unwrap_err().to_string().contains("docs_2"));
        assert!(refusal(started.roll_back()).contains("migrate abandon"));
        assert!(refusal(started.finish(2)).contains("migrate switch"));
        let filled = done(started.levelled(0));
        assert_eq!(filled.levelled(0).unwrap(), Next::Already);
        filled.comparable().unwrap();
        assert!(refusal(filled.switch(false, 2)).contains("migrate compare"));
        assert_eq!(done(filled.switch(true, 2)).serving, "docs_2");
        let compared = done(filled.agree(agreement()));
        let Next::Change(switch) = compared.switch(false, 3).unwrap() else {
            panic!("nothing changed")
        };
        assert_eq!(switch.complete, Some(["docs_1".to_owned(), "docs_2".to_owned()]));
        let switched = switch.after;
        assert_eq!(
            (switched.serving.as_str(), switched.other()),
            ("docs_2", Some("docs_1"))
        );
        assert_eq!(switched.switch(false, 4).unwrap(), Next::Already);
        assert!(refusal(switched.abandon(4)).contains("migrate roll-back"));
        let back = done(switched.roll_back());
        assert_eq!(back.serving, "docs_1");
        assert_eq!(back.roll_back().unwrap(), Next::Already);
        let Next::Change(abandoned) = back.abandon(5).unwrap() else {
            panic!("nothing changed")
        };
        assert_eq!(abandoned.drop.as_deref(), Some("docs_2"));
        assert_eq!(abandoned.after.abandon(6).unwrap(), Next::Already);
        assert!(refusal(abandoned.after.finish(6)).contains("migrate start"));
        let Next::Change(finished) = switched.finish(5).unwrap() else {
            panic!("nothing changed")
        };
        assert_eq!(finished.drop.as_deref(), Some("docs_1"));
        assert_eq!(finished.after.finish(6).unwrap(), Next::Already);
        assert_eq!(finished.after.claimed(), Vec::<&str>::new());
        // The next migration has its own name.
        assert_eq!(finished.after.start("docs_3", 9).made, 2);
    }

    #[test]
    fn a_run_that_another_one_overtook_does_not_call_both_level() {
        let started = State::new("docs", "docs_1").start("docs_2", 1);
        let skipped = done(started.skip());
        assert_eq!(skipped.levelled(0).unwrap(), Next::Already);
        assert!(refusal(skipped.switch(true, 2)).contains("migrate backfill"));
        let level = done(skipped.levelled(1));
        assert!(level.migration.as_ref().unwrap().level);
        // A later row that only one of them received resets it.
        let behind = done(level.skip());
        assert!(refusal(behind.switch(true, 2)).contains("migrate backfill"));
    }

    #[test]
    fn runs_outlive_what_is_noted_and_not_what_changes_where_they_write() {
        let started = State::new("docs", "docs_1").start("docs_2", 1);
        let noted = [
            done(started.skip()),
            done(started.levelled(0)),
            done(started.agree(agreement())),
        ];
        assert!(
            noted
                .iter()
                .all(|state| state.epoch == started.epoch && state.revision == started.revision + 1)
        );
        let level = &noted[1];
        let switched = done(level.switch(true, 2));
        let moved = [
            switched.clone(),
            done(switched.roll_back()),
            done(switched.finish(3)),
            done(started.abandon(3)),
        ];
        assert!(moved.iter().all(|state| state.epoch > started.epoch));
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let state = State::new("docs", "docs_1").start("docs_2", 1);
        assert_eq!(State::from_text("docs", &state.to_text()).unwrap(), state);
        let newer = state.to_text().replace("\"version\":1", "\"version\":2");
        assert!(
            State::from_text("docs", &newer)
                .unwrap_err()
                .to_string()
                .contains("version 2")
        );
        assert!(State::from_text("docs", "{}").is_err());
    }
}
