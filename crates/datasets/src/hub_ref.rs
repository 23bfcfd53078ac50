//! References to data sets on the Hugging Face hub.

use isomer_config::spelling::is_repository;

/// A data set on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubRef {
    /// `org/name`.
    pub repo: String,
    /// Configuration; absent: the one named by the language, or the only one.
    pub config: Option<String>,
    /// Commit, tag or branch; absent: `main`.
    pub revision: Option<String>,
}

impl HubRef {
    /// Reads `org/name`, `org/name:configuration`, `org/name@revision`,
    /// `org/name:configuration@revision`.
    pub fn parse(text: &str) -> Option<Self> {
        let (text, revision) = match text.split_once('@') {
            Some((text, revision)) => (text, Some(revision)),
            None => (text, None),
        };
        let (repo, config) = match text.split_once(':') {
            Some((repo, config)) => (repo, Some(config)),
            None => (text, None),
        };
        if !is_repository(repo, revision) || config.is_some_and(str::is_empty) {
            return None;
        }
        Some(Self {
            repo: repo.to_owned(),
            config: config.map(str::to_owned),
            revision: revision.map(str::to_owned),
        })
    }
}

impl std::fmt::Display for HubRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.repo)?;
        self.config.iter().try_for_each(|config| write!(f, ":{config}"))?;
        self.revision.iter().try_for_each(|revision| write!(f, "@{revision}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_in_all_their_forms() {
        let read = |text: &str| HubRef::parse(text).map(|found| (found.repo, found.config, found.revision));
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(read("mteb/sts17"), Some(("mteb/sts17".into(), None, None)));
        assert_eq!(
            read("mteb/sts17:en-en@abc"),
            Some(("mteb/sts17".into(), some("en-en"), some("abc")))
        );
        for wrong in ["sts17", "a/b:", "a/b@../c", "../b/c"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
