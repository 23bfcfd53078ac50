//! A repository of the hub: its addresses there, and its folder in the cache that is shared with
//! Python's libraries.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A repository at a revision.
#[derive(Debug, Clone)]
pub(super) struct Repository {
    pub(super) kind: Kind,
    /// `org/name`.
    pub(super) id: String,
    /// Commit, tag or branch.
    pub(super) revision: String,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Model,
    Dataset,
}

impl Kind {
    fn plural(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Dataset => "datasets",
        }
    }
}

impl Repository {
    /// Address of the list of its files.
    pub(super) fn listing(&self, endpoint: &str) -> String {
        let (kind, revision) = (self.kind.plural(), self.revision.replace('/', "%2F"));
        format!("{endpoint}/api/{kind}/{}/revision/{revision}", self.id)
    }

    /// Address of a file at a commit.
    pub(super) fn file(&self, endpoint: &str, commit: &str, file: &str) -> String {
        let kind = match self.kind {
            Kind::Model => "",
            Kind::Dataset => "datasets/",
        };
        format!("{endpoint}/{kind}{}/resolve/{commit}/{file}", self.id)
    }

    /// Name of its folder in the cache.
    pub(super) fn folder_name(&self) -> String {
        format!("{}--{}", self.kind.plural(), self.id).replace('/', "--")
    }

    pub(super) fn within(&self, cache: &Path) -> CachedRepository {
        CachedRepository(cache.join(self.folder_name()))
    }
}

/// The folder of a repository in the hub's cache: `blobs/<etag>` has the contents,
/// `snapshots/<commit>/<file>` links to them, `refs/<branch>` has the commit of a branch.
#[derive(Debug, Clone)]
pub(super) struct CachedRepository(PathBuf);

impl CachedRepository {
    pub(super) fn blob(&self, etag: &str) -> PathBuf {
        self.0.join("blobs").join(etag)
    }

    pub(super) fn snapshot(&self, commit: &str) -> PathBuf {
        self.0.join("snapshots").join(commit)
    }

    /// The last known commit of a branch.
    pub(super) fn commit(&self, revision: &str) -> Option<String> {
        let commit = fs::read_to_string(self.reference(revision)).ok()?;
        Some(commit.trim().to_owned())
    }

    /// Records the commit of a branch.
    pub(super) fn record(&self, revision: &str, commit: &str) -> io::Result<()> {
        let reference = self.reference(revision);
        // A branch may contain slashes.
        if let Some(folder) = reference.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(reference, commit)
    }

    fn reference(&self, revision: &str) -> PathBuf {
        self.0.join("refs").join(revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_folders_are_those_of_pythons_libraries() {
        let repository = |kind| Repository {
            kind,
            id: "org/name".to_owned(),
            revision: "refs/convert/parquet".to_owned(),
        };
        let (model, dataset) = (repository(Kind::Model), repository(Kind::Dataset));
        assert_eq!(
            model.listing("https://hub"),
            "https://hub/api/models/org/name/revision/refs%2Fconvert%2Fparquet"
        );
        assert_eq!(
            dataset.listing("https://hub"),
            "https://hub/api/datasets/org/name/revision/refs%2Fconvert%2Fparquet"
        );
        assert_eq!(
            model.file("https://hub", "c0", "a/b.json"),
            "https://hub/org/name/resolve/c0/a/b.json"
        );
        assert_eq!(
            dataset.file("https://hub", "c0", "b.json"),
            "https://hub/datasets/org/name/resolve/c0/b.json"
        );
        let cached = model.within(Path::new("cache"));
        assert_eq!(cached.blob("e1"), Path::new("cache/models--org--name/blobs/e1"));
        assert_eq!(cached.snapshot("c0"), Path::new("cache/models--org--name/snapshots/c0"));
        assert_eq!(dataset.folder_name(), "datasets--org--name");
    }
}
