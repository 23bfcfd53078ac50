//! Finds a named data set: in a folder of this machine, else on the hub.
//!
//! This module does the I/O: it queries the hub, and [`crate::load`] then reads only local files.

mod choose;
mod hub;
mod rules;

use std::path::{Path, PathBuf};

pub use rules::{HubAccess, HubRules, MAX_FILE_BYTES};

use isomer_models::{Progress, Resolver, hub::Terms, progress::LogProgress};

use isomer_scoring::task::TaskType;

use crate::{DatasetError, HubFiles, HubRef, LoadOptions, PermittedPath, Source, catalogue, holds};

/// The places where data sets are searched.
#[derive(Debug, Clone, Default)]
pub struct DatasetLocator {
    /// Folders that hold data sets under their catalogue names.
    pub folders: Vec<PathBuf>,
    /// Access to the hub and its cache; `None`: the hub is not used.
    pub hub: Option<Resolver>,
    /// The rules for fetching from the hub.
    pub rules: HubRules,
}

/// A request for a data set.
#[derive(Debug, Clone)]
pub struct DatasetRequest {
    /// Kind of task; `None`: the catalogue's.
    pub task: Option<TaskType>,
    pub source: Source,
    /// The split; `None`: the catalogue's or the default.
    pub split: Option<String>,
    /// All other options. Their split is ignored.
    pub options: LoadOptions,
}

/// The input of [`crate::load`]: all files are on this machine.
#[derive(Debug, Clone, PartialEq)]
pub struct DatasetLocation {
    pub task: TaskType,
    /// Files on this machine.
    pub source: Source,
    /// The options, with the catalogue's additions.
    pub options: LoadOptions,
}

impl DatasetLocator {
    /// Like [`DatasetLocator::locate_with`], but logs each download.
    ///
    /// # Errors
    /// Those of [`DatasetLocator::locate_with`].
    pub async fn locate(&self, request: DatasetRequest) -> Result<DatasetLocation, DatasetError> {
        self.locate_with(request, &LogProgress::default()).await
    }

    /// Finds the source and makes its files available; `progress` is called for each download. A
    /// name in the catalogue supplies task, split, columns and options that the request does not
    /// set.
    ///
    /// # Errors
    /// If the name is unknown, the data set is for another task, or its files are neither on this
    /// machine nor on the hub. In the last case the error lists the places searched and the remedy.
    pub async fn locate_with(
        &self,
        request: DatasetRequest,
        progress: &dyn Progress,
    ) -> Result<DatasetLocation, DatasetError> {
        let DatasetRequest {
            task,
            source,
            split,
            mut options,
        } = request;
        let entry = match &source {
            Source::Catalogue(name) => Some(catalogue::find(name).ok_or_else(|| DatasetError::UnknownName {
                name: name.clone(),
                nearest: catalogue::nearest_name(name).map(str::to_owned),
            })?),
            _ => None,
        };
        options.split = split
            .or_else(|| entry.map(|entry| entry.split.clone()))
            .unwrap_or_else(|| LoadOptions::default().split);
        if let Some(entry) = entry {
            if let Some(asked) = task.filter(|asked| *asked != entry.task) {
                return Err(DatasetError::OtherTask {
                    name: entry.name.clone(),
                    task: entry.task,
                    asked,
                });
            }
            entry.apply(&mut options);
            let (source, root) = self.entry(entry, &options, progress).await?;
            options.root = root;
            return Ok(DatasetLocation {
                task: entry.task,
                source,
                options,
            });
        }
        let task = task.ok_or(DatasetError::NoTask)?;
        let source = match source {
            Source::Hub(request) => {
                if options.language.is_none() {
                    // A configuration is often a language. In that case it is also mteb's name of
                    // the subset.
                    options.language = request.config.clone().filter(|config| is_language(config));
                }
                let terms = self.rules.named();
                Source::Fetched(self.fetched(&request, terms, task, &options, progress).await?)
            }
            Source::Path(path) if path.is_dir() => {
                let source = Source::Path(path.clone());
                match holds(task, &source, &options) {
                    // The folder does not have our layout, so it may be a copy of a hub repository.
                    Err(missing @ DatasetError::MissingFile { .. }) => match hub::copy(&path, task, &options) {
                        Ok(copy) => Source::Fetched(copy),
                        Err(_) => return Err(missing),
                    },
                    _ => source,
                }
            }
            source => source,
        };
        Ok(DatasetLocation { task, source, options })
    }

    /// Locates a data set of the catalogue: a folder of its name if that contains the split and
    /// language, else the hub. For a folder, also returns the folder to which reads are restricted.
    async fn entry(
        &self,
        entry: &catalogue::Entry,
        options: &LoadOptions,
        progress: &dyn Progress,
    ) -> Result<(Source, Option<PathBuf>), DatasetError> {
        let mut tried = Vec::new();
        for folder in &self.folders {
            let path = folder.join(&entry.name);
            if !path.is_dir() {
                tried.push(format!("{} is not there", path.display()));
                continue;
            }
            let PermittedPath { path, root } = self.permitted(folder, path);
            let source = Source::Path(path);
            let bounded = LoadOptions {
                root: root.clone(),
                ..options.clone()
            };
            match holds(entry.task, &source, &bounded) {
                Ok(()) => return Ok((source, root)),
                // There are several languages and none was chosen; the hub would return the same
                // error.
                Err(error @ DatasetError::Language { .. }) if options.language.is_none() => return Err(error),
                Err(error) => tried.push(error.to_string()),
            }
        }
        if options.language.is_none() && entry.subsets.len() > 1 {
            return Err(DatasetError::Language {
                place: entry.name.clone(),
                split: options.split.clone(),
                problem: "choose a language".to_owned(),
                languages: entry.subsets.clone(),
            });
        }
        let request = entry.hub();
        match self
            .fetched(&request, self.rules.catalogued(), entry.task, options, progress)
            .await
        {
            Ok(fetched) => Ok((Source::Fetched(fetched), None)),
            Err(error) => {
                tried.push(error.to_string());
                let folder = match self.folders.first() {
                    Some(folder) => folder.join(&entry.name).display().to_string(),
                    None => format!("{} below a folder of data sets (--data-root)", entry.name),
                };
                Err(DatasetError::Unreachable {
                    name: entry.name.clone(),
                    tried,
                    hint: format!(
                        "put its files into {folder}, or fetch them where the hub can be reached: hf download --repo-type \
                         dataset {} --revision {}",
                        request.repo,
                        request.revision.as_deref().unwrap_or("main"),
                    ),
                })
            }
        }
    }

    /// The path of a data set in a folder. Unless the caller is the owner of this process, nothing
    /// is read outside the folder, or outside the target of the operator's link.
    fn permitted(&self, folder: &Path, path: PathBuf) -> PermittedPath {
        if self.rules.owner {
            return PermittedPath { path, root: None };
        }
        let path = path.canonicalize().unwrap_or(path);
        let root = folder.canonicalize().ok().filter(|folder| path.starts_with(folder));
        PermittedPath {
            root: root.or_else(|| Some(path.clone())),
            path,
        }
    }

    async fn fetched(
        &self,
        request: &HubRef,
        terms: Result<Terms, &'static str>,
        task: TaskType,
        options: &LoadOptions,
        progress: &dyn Progress,
    ) -> Result<HubFiles, DatasetError> {
        let terms = terms.map_err(|message| DatasetError::HubClosed {
            dataset: request.to_string(),
            message,
        })?;
        let Some(resolver) = &self.hub else {
            return Err(DatasetError::Hub {
                dataset: request.to_string(),
                message: "this service has no access to the hub".to_owned(),
            });
        };
        // Boxed, because few requests reach this point but all of them would carry its size.
        Box::pin(hub::fetch(request, task, options, resolver, terms, progress)).await
    }

    /// The folder of a catalogue data set on this machine, if it exists. Its contents are not
    /// checked.
    pub fn folder_of(&self, name: &str) -> Option<PathBuf> {
        self.folders
            .iter()
            .map(|folder| folder.join(name))
            .find(|path| path.is_dir())
    }
}

/// Two or three letters, with variants or a second language after hyphens.
fn is_language(config: &str) -> bool {
    let mut parts = config.split('-');
    let code = |part: &str| matches!(part.len(), 2 | 3) && part.bytes().all(|b| b.is_ascii_lowercase());
    parts.next().is_some_and(code) && parts.all(|part| part.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Number of configurations in the card of a data set. For the fuzz targets of `tests/fuzz` only.
#[doc(hidden)]
pub fn configurations_of(text: &str) -> usize {
    crate::card::configurations(text).len()
}
