//! INSTRUCTOR (Su et al. 2023) excludes its instruction from the pooling. The published folders do
//! not say so: sentence-transformers recognises the repositories by name, and so does this module.

use std::path::Path;

const REPOSITORIES: [&str; 3] = [
    "hkunlp/instructor-base",
    "hkunlp/instructor-large",
    "hkunlp/instructor-xl",
];

/// Whether `source` (`hub:org/name@commit`) is a repository of INSTRUCTOR.
pub(super) fn is_repository(source: &str) -> bool {
    let name = source.strip_prefix("hub:").unwrap_or_default();
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    REPOSITORIES.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// A warning about another folder that pools the prompt and is named after INSTRUCTOR.
pub(super) fn warning(root: &Path) -> Option<String> {
    let name = root.file_name()?.to_string_lossy().to_lowercase();
    name.contains("instructor").then(|| {
        format!(
            "{} pools the instruction with the text, which INSTRUCTOR does not: set \"include_prompt\": false in \
             1_Pooling/config.json if it is a copy of such a model",
            root.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_repositories_are_known_at_any_commit() {
        for source in [
            "hub:hkunlp/instructor-large@54e5ffb8d484de506e59443b07dc819fb15c7233",
            "hub:HKUNLP/instructor-xl",
        ] {
            assert!(is_repository(source), "{source}");
        }
        for other in [
            "folder",
            "hub:someone/instructor-large@1",
            "pypi:instructor-base==1",
            "",
        ] {
            assert!(!is_repository(other), "{other}");
        }
    }

    #[test]
    fn a_copy_by_that_name_is_warned_about() {
        assert!(warning(Path::new("/models/My-Instructor-Base")).is_some());
        assert!(warning(Path::new("/instructor/gtr")).is_none());
    }
}
