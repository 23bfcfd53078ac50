//! The attempts of all runs of a folder: `<state_dir>/attempts.jsonl`, written under a lock of its
//! own.

use std::{fs, io};

use super::{FolderStore, StoreError, at, open_lock};
use crate::run::{atomic_file::write_atomically, record::AttemptRecord};

const ATTEMPTS: &str = "attempts.jsonl";
const LOCK: &str = "attempts.lock";

impl FolderStore {
    /// Records an attempt, unless it is recorded, and returns all of its subject and owner.
    pub(super) fn attempt(&self, own: &AttemptRecord) -> Result<Vec<AttemptRecord>, StoreError> {
        let mut all = self.change_attempts(|all| {
            let known = all
                .iter()
                .any(|one| (&one.subject, &one.run) == (&own.subject, &own.run));
            if !known {
                all.push(own.clone());
            }
            !known
        })?;
        all.retain(|one| (&one.subject, &one.owner) == (&own.subject, &own.owner));
        Ok(all)
    }

    /// Keeps only some attempts.
    pub(super) fn retain_attempts(&self, keep: impl Fn(&AttemptRecord) -> bool) -> Result<(), StoreError> {
        self.change_attempts(|all| {
            let before = all.len();
            all.retain(keep);
            all.len() < before
        })?;
        Ok(())
    }

    /// Reads all attempts, and writes them if a function says that it changed them.
    fn change_attempts(
        &self,
        change: impl FnOnce(&mut Vec<AttemptRecord>) -> bool,
    ) -> Result<Vec<AttemptRecord>, StoreError> {
        let (path, lock) = (self.root.join(ATTEMPTS), self.root.join(LOCK));
        let guard = open_lock(&lock).map_err(at(&lock))?;
        guard.lock().map_err(at(&lock))?;
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(at(&path)(error)),
        };
        let parsed: Result<Vec<AttemptRecord>, _> = text.lines().map(serde_json::from_str).collect();
        let mut all = parsed.map_err(|error| at(&path)(error.into()))?;
        if change(&mut all) {
            let lines: Result<Vec<String>, _> = all.iter().map(serde_json::to_string).collect();
            let lines = lines.map_err(|error| at(&path)(error.into()))?;
            let text: String = lines.into_iter().map(|line| line + "\n").collect();
            write_atomically(&path, text.as_bytes()).map_err(at(&path))?;
        }
        Ok(all)
    }
}
