//! Downloads a data set from the Hugging Face hub into the hub's cache.

use std::path::Path;

use isomer_models::{
    Progress, Resolver,
    hub::{HubDataset, Terms},
    manifest::files_under,
};

use super::choose::Choice;
use isomer_scoring::task::TaskType;

use crate::{
    DatasetError, HubFiles, HubRef, LoadOptions,
    card::{self, CARD, configurations},
};

/// Downloads the files of a data set that a task needs into the hub's cache. If the revision is a
/// commit, existing files are not requested again.
///
/// # Errors
/// If the repository lacks a needed file (the error names its configurations and splits), or the
/// hub cannot be reached.
pub(super) async fn fetch(
    wanted: &HubRef,
    task: TaskType,
    options: &LoadOptions,
    resolver: &Resolver,
    terms: Terms,
    progress: &dyn Progress,
) -> Result<HubFiles, DatasetError> {
    let failed = |message: String| DatasetError::Hub {
        dataset: wanted.to_string(),
        message,
    };
    let repository = HubDataset::new(&wanted.repo, wanted.revision.as_deref())
        .ok_or_else(|| failed("`org/name` is expected, or org/name:configuration@revision".to_owned()))?;
    // First the card is fetched, at the current commit; then the files, at the same commit.
    let card = |listed: &[String]| Ok(listed.iter().filter(|name| *name == CARD).cloned().collect());
    let first = resolver.dataset(&repository, terms, card, progress).await;
    let first = first.map_err(|error| failed(error.to_string()))?;
    let card = match first.files.first() {
        Some(name) => {
            std::fs::read_to_string(first.folder.join(name)).map_err(|error| failed(format!("{name}: {error}")))?
        }
        None => String::new(),
    };
    let configurations = configurations(&card);
    let pinned = HubDataset {
        repo: wanted.repo.clone(),
        revision: Some(first.commit),
    };
    let choice = Choice {
        configurations: &configurations,
        task,
        split: &options.split,
        config: wanted.config.as_deref(),
        language: options.language.as_deref(),
    };
    let files = |listed: &[String]| {
        let tables = choice.tables(listed)?;
        Ok(tables.into_iter().flat_map(|(_, files)| files).collect())
    };
    let snapshot = resolver.dataset(&pinned, terms, files, progress).await;
    let snapshot = snapshot.map_err(|error| failed(error.to_string()))?;
    let tables = choice
        .tables(&snapshot.files)
        .map_err(|error| failed(format!("{}; {}", error.message, error.hint)))?;
    let config = wanted
        .config
        .as_ref()
        .map(|config| format!(":{config}"))
        .unwrap_or_default();
    Ok(HubFiles {
        id: format!("{}{config}", wanted.repo),
        commit: Some(snapshot.commit),
        folder: snapshot.folder,
        tables,
    })
}

/// Tables of a folder that is a copy of a repository. Its card or the usual names determine their
/// files, as on the hub.
///
/// # Errors
/// If the folder lacks a needed file.
pub(super) fn copy(folder: &Path, task: TaskType, options: &LoadOptions) -> Result<HubFiles, DatasetError> {
    let listed = files_under(folder).map_err(|error| DatasetError::Broken {
        file: folder.display().to_string(),
        problem: error.to_string(),
    })?;
    let configurations = configurations(&card::of_folder(folder, options.root.as_deref()));
    let choice = Choice {
        configurations: &configurations,
        task,
        split: &options.split,
        config: None,
        language: options.language.as_deref(),
    };
    let tables = choice.tables(&listed).map_err(|error| DatasetError::MissingFile {
        place: folder.display().to_string(),
        missing: error.message,
        hint: error.hint,
    })?;
    let name = folder
        .canonicalize()
        .ok()
        .and_then(|f| Some(f.file_name()?.to_string_lossy().into_owned()));
    Ok(HubFiles {
        id: name.unwrap_or_else(|| folder.display().to_string()),
        commit: None,
        folder: folder.to_owned(),
        tables,
    })
}
