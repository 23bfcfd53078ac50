//! Replaces texts in the folder of runs.

use std::{fs, io};

use isomer_retention::erasure::{Mode, Texts};

use super::{FolderStore, RECORD, SUITE, at};
use crate::run::{
    StoreError,
    lifecycle::redaction::{self, Redaction, RunRedaction, RunRedactions},
};

impl FolderStore {
    /// Replaces texts in the runs that have ended, or only reports where they are.
    ///
    /// # Errors
    /// If the disk refuses the write.
    pub(in crate::run) fn forget(&self, texts: &Texts, mode: Mode, all: &mut RunRedactions) -> Result<(), StoreError> {
        for id in self.ids()? {
            // A run whose process died is marked as ended here.
            match self.outline(&id) {
                Ok(Some(record)) if record.is_active() => {
                    all.active.push(id);
                    continue;
                }
                Ok(None) => continue,
                // A record of another version is cleaned as a document.
                Ok(Some(_)) | Err(_) => {}
            }
            let read = |name: &str| self.read_file(&id, name);
            let found = redaction::files_of_run(&id, texts, read)?;
            let (mut redaction, mut changed) = found.unwrap_or_else(|| (RunRedaction::of(&id), Vec::new()));
            if let Some(record) = self.read_file(&id, RECORD)? {
                match redaction::document(&record, texts) {
                    Redaction::Unchanged => {}
                    Redaction::Changed(content, places) => {
                        redaction.places += places;
                        redaction.files.push(RECORD.to_owned());
                        changed.push((RECORD.to_owned(), Some(content)));
                    }
                    Redaction::Unreadable => {
                        let path = self.folder(&id).join(RECORD);
                        let message = "holds a text to forget and cannot be read; remove the run's folder";
                        return Err(at(&path)(io::Error::new(io::ErrorKind::InvalidData, message)));
                    }
                }
            }
            if let Some(content) = self.read_file(&id, SUITE)?
                && let Some((content, places)) = redaction::suite(&String::from_utf8_lossy(&content), texts)
            {
                redaction.places += places;
                redaction.files.push(SUITE.to_owned());
                changed.push((SUITE.to_owned(), Some(content.into_bytes())));
            }
            if redaction.places == 0 {
                continue;
            }
            if mode == Mode::Remove {
                for (name, content) in &changed {
                    match content {
                        Some(content) => self.write_file(&id, name, content)?,
                        None => {
                            let path = self.folder(&id).join(name);
                            fs::remove_file(&path).map_err(at(&path))?;
                        }
                    }
                }
                // Their digests are of data with the text.
                self.retain_attempts(|one| one.run != id)?;
            }
            all.runs.push(redaction);
        }
        Ok(())
    }
}
