//! Data sets on the hub.

use std::path::PathBuf;

use isomer_config::spelling::is_repository;
use parking_lot::Mutex;

use super::{
    Hub, HubFailure, Snapshot, Terms,
    repository::{Kind, Repository},
};
use crate::{
    error::ModelError,
    progress::{Progress, Reporter, drive},
    resolver::Resolver,
};

/// A data set's repository.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HubDataset {
    /// `org/name`.
    pub repo: String,
    /// Commit, tag or branch; absent = `main`.
    pub revision: Option<String>,
}

impl HubDataset {
    /// `None` if either is not a plain name (`org/name`; a revision may have slashes, like
    /// `refs/convert/parquet`).
    pub fn new(repo: &str, revision: Option<&str>) -> Option<Self> {
        is_repository(repo, revision).then(|| Self {
            repo: repo.to_owned(),
            revision: revision.map(str::to_owned),
        })
    }

    fn repository(&self) -> Repository {
        Repository {
            kind: Kind::Dataset,
            id: self.repo.clone(),
            revision: self.revision.clone().unwrap_or_else(|| "main".into()),
        }
    }
}

impl std::fmt::Display for HubDataset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.repo)?;
        self.revision.iter().try_for_each(|revision| write!(f, "@{revision}"))
    }
}

/// The repository does not contain the requested files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChooseError {
    /// The missing content.
    pub message: String,
    pub hint: String,
}

impl Hub {
    async fn fetch_dataset(
        &self,
        dataset: &HubDataset,
        terms: Terms,
        choose: impl Fn(&[String]) -> Result<Vec<String>, ChooseError>,
        reporter: &Reporter,
    ) -> Result<Snapshot, HubFailure> {
        let all = Mutex::new(Vec::new());
        let choose = |listed: &[String]| {
            listed.clone_into(&mut all.lock());
            choose(listed).map_err(|ChooseError { message, hint }| HubFailure::Refused { message, hint })
        };
        let repository = dataset.repository();
        let fetched = self.fetch_now(&repository, dataset, terms, choose, |_| None, reporter);
        let snapshot = self.unless_resting(fetched).await?;
        let all = all.into_inner();
        // Without the listing, the hub is only queried again.
        if let Err(error) = self.note(dataset, &snapshot.commit, &all) {
            tracing::debug!(%error, "what is in a data set could not be noted");
        }
        Ok(snapshot)
    }

    /// The file with the names of all files of a data set. The hub's cache contains only requested
    /// files, so without the list a missing shard would go unnoticed.
    fn note_path(&self, dataset: &HubDataset, commit: &str) -> PathBuf {
        let folder = dataset.repository().folder_name();
        self.listings.join(format!("{folder}@{commit}.json"))
    }

    fn note(&self, dataset: &HubDataset, commit: &str, all: &[String]) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.listings)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.listings)?;
        serde_json::to_writer(&mut file, all)?;
        file.persist(self.note_path(dataset, commit))?;
        Ok(())
    }

    /// The files of a data set in the hub's cache. Without a list of all names (if Python fetched
    /// the data set), `choose` sees only the names in the cache.
    fn cached_dataset(
        &self,
        dataset: &HubDataset,
        choose: impl Fn(&[String]) -> Result<Vec<String>, ChooseError>,
        online: bool,
    ) -> Option<Snapshot> {
        let (folder, commit, present) = self.snapshot(&dataset.repository())?;
        let noted = std::fs::read(self.note_path(dataset, &commit)).ok();
        let all = noted.and_then(|json| serde_json::from_slice::<Vec<String>>(&json).ok());
        let files = choose(all.as_ref().unwrap_or(&present)).ok()?;
        // No file was chosen from a possibly incomplete list. The hub has the complete one, if it
        // can be reached.
        let certain = !files.is_empty() || all.is_some() || !online;
        let complete = certain && files.iter().all(|file| folder.join(file).is_file());
        complete.then_some(Snapshot { folder, commit, files })
    }
}

impl Resolver {
    /// Makes files of a data set on the hub available, in the cache that Python's libraries use
    /// too. `choose` selects them from the names of all files there. If this process is offline or
    /// the hub cannot be reached, it selects from the names in the cache.
    ///
    /// # Errors
    /// [`ModelError::Hub`] with `choose`'s message if it refuses; [`ModelError::Offline`].
    pub async fn dataset(
        &self,
        dataset: &HubDataset,
        terms: Terms,
        choose: impl Fn(&[String]) -> Result<Vec<String>, ChooseError>,
        progress: &dyn Progress,
    ) -> Result<Snapshot, ModelError> {
        let (hub, config) = (&self.inner.hub, &self.inner.config);
        // A commit does not change, so its files in the cache are used without querying the hub.
        let is_commit = |revision: &String| revision.len() == 40 && revision.bytes().all(|b| b.is_ascii_hexdigit());
        let online = config.hub && !config.offline;
        if (!online || dataset.revision.as_ref().is_some_and(is_commit))
            && let Some(snapshot) = hub.cached_dataset(dataset, &choose, online)
        {
            return Ok(snapshot);
        }
        if !online {
            let revision = dataset
                .revision
                .as_ref()
                .map(|r| format!(" --revision {r}"))
                .unwrap_or_default();
            return Err(ModelError::DatasetOffline {
                id: dataset.to_string(),
                cache: config.hub_cache(),
                command: format!("hf download --repo-type dataset {}{revision}", dataset.repo),
            });
        }
        let fetched = drive(progress, |reporter| {
            let choose = &choose;
            async move { hub.fetch_dataset(dataset, terms, choose, &reporter).await }
        })
        .await;
        match fetched {
            Ok(snapshot) => Ok(snapshot),
            Err(HubFailure::Unreachable(why)) => match hub.cached_dataset(dataset, &choose, false) {
                Some(snapshot) => {
                    tracing::warn!(%dataset, commit = snapshot.commit, why, "the hub is out of reach; its cache is used");
                    Ok(snapshot)
                }
                None => Err(HubFailure::Unreachable(why).into_error(hub.endpoint(), dataset)),
            },
            Err(failure) => Err(failure.into_error(hub.endpoint(), dataset)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_data_sets() {
        assert!(HubDataset::new("mteb/sts17", Some("refs/convert/parquet")).is_some());
        for (repo, revision) in [
            ("sts17", None),
            ("../sts17", None),
            ("a/b", Some("../c")),
            ("a/b/c", None),
        ] {
            assert_eq!(HubDataset::new(repo, revision), None, "{repo}");
        }
    }
}
