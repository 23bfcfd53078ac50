//! Keeps a request's path below the folders an operator opened.

use std::path::{Path, PathBuf};

use super::DatasetError;

/// The path, resolved, if it lies below one of the roots; links are followed before the comparison. A relative path is
/// looked for below each root in turn.
///
/// # Errors
/// A path that is not there or lies outside every root. Both are said in the same words as far as a path outside goes,
/// so that a client cannot probe the file system.
pub fn below_roots(path: &Path, roots: &[PathBuf]) -> Result<PathBuf, DatasetError> {
    for root in roots {
        let Ok(root) = root.canonicalize() else { continue };
        if let Ok(found) = root.join(path).canonicalize()
            && found.starts_with(&root)
        {
            return Ok(found);
        }
    }
    Err(DatasetError::OutsideRoots {
        path: path.display().to_string(),
        roots: roots.iter().map(|r| r.display().to_string()).collect(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_what_lies_below_a_root_is_served() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("data");
        std::fs::create_dir(&inside).unwrap();
        std::fs::write(inside.join("a.jsonl"), "x").unwrap();
        std::fs::write(folder.path().join("secret"), "x").unwrap();
        let roots = [inside.clone()];
        assert!(below_roots(Path::new("a.jsonl"), &roots).is_ok());
        assert!(below_roots(&inside.join("a.jsonl"), &roots).is_ok());
        assert!(below_roots(Path::new("../secret"), &roots).is_err());
        assert!(below_roots(&folder.path().join("secret"), &roots).is_err());
        assert!(below_roots(Path::new("a.jsonl"), &[]).is_err());
    }
}
