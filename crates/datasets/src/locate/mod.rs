//! Where a named data set lies: in a folder of this machine, else on the hub.
//!
//! At the edge: the hub is asked here, and what [`crate::load`] then reads is files of this
//! machine.

mod card;
mod choose;
mod hub;
mod rules;

use std::path::PathBuf;

pub use rules::{HubAccess, HubRules, MAX_FILE_BYTES};

use isomer_models::{Progress, Resolver, hub::Terms, progress::LogProgress};

use isomer_scoring::task::TaskType;

use crate::{DatasetError, Fetched, HubRef, LoadOptions, Source, catalogue, holds};

/// Where data sets are looked for.
#[derive(Debug, Clone, Default)]
pub struct DatasetLocator {
    /// Folders that hold data sets under their catalogue names.
    pub folders: Vec<PathBuf>,
    /// The way to the hub and its cache; absent: it is not asked.
    pub hub: Option<Resolver>,
    /// What may be fetched from there.
    pub rules: HubRules,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Kind of task; absent: the one the catalogue says.
    pub task: Option<TaskType>,
    /// Where from.
    pub source: Source,
    /// Split; absent: the one the catalogue says, else `test`.
    pub split: Option<String>,
    /// Everything else. Its split does not count.
    pub options: LoadOptions,
}

/// What [`crate::load`] needs: everything is on this machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Located {
    /// Kind of task.
    pub task: TaskType,
    /// Files of this machine.
    pub source: Source,
    /// With what the catalogue adds.
    pub options: LoadOptions,
}

impl DatasetLocator {
    /// As [`DatasetLocator::locate_with`]; each file that is fetched is logged.
    ///
    /// # Errors
    /// As there.
    pub async fn locate(&self, wanted: Wanted) -> Result<Located, DatasetError> {
        self.locate_with(wanted, &LogProgress::default()).await
    }

    /// Finds the source and makes its files present; `progress` hears of what is fetched. A name of
    /// the catalogue brings its task, split, columns and options along, where the request does not
    /// name its own.
    ///
    /// # Errors
    /// A name that nobody knows; a task that the data set is not for; files that are neither here
    /// nor on the hub, with every place that was looked at and how to get them.
    pub async fn locate_with(&self, wanted: Wanted, progress: &dyn Progress) -> Result<Located, DatasetError> {
        let Wanted {
            task,
            source,
            split,
            mut options,
        } = wanted;
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
            let source = self.entry(entry, &options, progress).await?;
            return Ok(Located {
                task: entry.task,
                source,
                options,
            });
        }
        let task = task.ok_or(DatasetError::NoTask)?;
        let source = match source {
            Source::Hub(wanted) => {
                if options.language.is_none() {
                    // A configuration is often a language, and then mteb's name of the subset.
                    options.language = wanted.config.clone().filter(|config| is_language(config));
                }
                let terms = self.rules.named();
                Source::Fetched(self.fetched(&wanted, terms, task, &options, progress).await?)
            }
            Source::Path(path) if path.is_dir() => {
                let source = Source::Path(path.clone());
                match holds(task, &source, &options) {
                    // Not laid out as ours: perhaps a copy of a repository of the hub.
                    Err(missing @ DatasetError::MissingFile { .. }) => match hub::copy(&path, task, &options) {
                        Ok(copy) => Source::Fetched(copy),
                        Err(_) => return Err(missing),
                    },
                    _ => source,
                }
            }
            source => source,
        };
        Ok(Located { task, source, options })
    }

    /// A data set of the catalogue: a folder of its name that holds the split and language, else
    /// the hub's.
    async fn entry(
        &self,
        entry: &catalogue::Entry,
        options: &LoadOptions,
        progress: &dyn Progress,
    ) -> Result<Source, DatasetError> {
        let mut tried = Vec::new();
        for folder in &self.folders {
            let path = folder.join(&entry.name);
            if !path.is_dir() {
                tried.push(format!("{} is not there", path.display()));
                continue;
            }
            let source = Source::Path(path);
            match holds(entry.task, &source, options) {
                Ok(()) => return Ok(source),
                // Several languages and none chosen: the same on the hub.
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
        let wanted = entry.hub();
        match self
            .fetched(&wanted, self.rules.catalogued(), entry.task, options, progress)
            .await
        {
            Ok(fetched) => Ok(Source::Fetched(fetched)),
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
                        wanted.repo,
                        wanted.revision.as_deref().unwrap_or("main"),
                    ),
                })
            }
        }
    }

    async fn fetched(
        &self,
        wanted: &HubRef,
        terms: Result<Terms, &'static str>,
        task: TaskType,
        options: &LoadOptions,
        progress: &dyn Progress,
    ) -> Result<Fetched, DatasetError> {
        let terms = terms.map_err(|message| DatasetError::HubClosed {
            dataset: wanted.to_string(),
            message,
        })?;
        let Some(resolver) = &self.hub else {
            return Err(DatasetError::Hub {
                dataset: wanted.to_string(),
                message: "this service was not given a way to the hub".to_owned(),
            });
        };
        // Boxed: few requests come here, and all of them would carry its size.
        Box::pin(hub::fetch(wanted, task, options, resolver, terms, progress)).await
    }

    /// Where a data set of the catalogue lies on this machine, if its folder is there; whether it
    /// holds what will be asked of it is not looked at.
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

/// How many configurations the card of a data set names. For the fuzz targets of `tests/fuzz` only.
#[doc(hidden)]
pub fn configurations_of(text: &str) -> usize {
    card::configurations(text).len()
}
