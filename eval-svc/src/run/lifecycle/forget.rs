//! Forgetting of texts: they are replaced in the records and reports of runs, and stored
//! measurements that contain one are removed.
//!
//! Numbers are kept: a score is of a whole data set. A changed report has another digest, so
//! attestations of the previous report no longer verify.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use isomer_retention::erasure::{Mode, Texts};

use super::{
    redaction::{Redaction, RunRedactions, document},
    store::{FolderStore, forget_in_ledger},
};
use crate::{config::EvalConfig, run::StoreError};

/// Replaces the texts in all stored data of a configuration's runs, or only reports where they are.
///
/// # Errors
/// If a folder, a file or the ledger cannot be read or written. Completed changes stay, and the
/// next call does the rest.
pub async fn forget(config: &EvalConfig, texts: &Texts, mode: Mode) -> Result<RunRedactions, StoreError> {
    let mut all = RunRedactions::default();
    let folder = config.runs_dir();
    if folder.is_dir() {
        FolderStore::open(&folder)?.forget(texts, mode, &mut all)?;
    }
    if let Some(url) = config.ledger.url.expose() {
        forget_in_ledger(url, texts, mode, &mut all).await?;
    }
    let units = config.units_dir();
    if units.is_dir() {
        all.measurements =
            measurements(&units, texts, mode).map_err(|source| StoreError::File { path: units, source })?;
    }
    Ok(all)
}

/// Removes the files below a folder that contain a text.
fn measurements(folder: &Path, texts: &Texts, mode: Mode) -> io::Result<u64> {
    let (mut found, mut folders) = (0, vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path: PathBuf = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if !matches!(document(&fs::read(&path)?, texts), Redaction::Unchanged) {
                found += 1;
                if mode == Mode::Remove {
                    fs::remove_file(&path)?;
                }
            }
        }
    }
    Ok(found)
}
