//! Restricts a request's path to the folders that an operator opened.

use std::path::{Component, Path, PathBuf};

use super::DatasetError;

/// The path, resolved, if it lies below one of the roots; links are followed before the comparison.
/// A relative path is searched for below each root in turn.
///
/// # Errors
/// If a path is outside every root (the same error whether it exists or not, so that a client
/// cannot probe the file system), or is below a root but does not exist.
pub fn below_roots(path: &Path, roots: &[PathBuf]) -> Result<PathBuf, DatasetError> {
    let mut missing_below_a_root = false;
    for root in roots {
        let Ok(root) = root.canonicalize() else { continue };
        let wanted = root.join(path);
        match wanted.canonicalize() {
            Ok(found) if found.starts_with(&root) => return Ok(found),
            Ok(_) => {}
            Err(_) => {
                let climbs = path.components().any(|part| part == Component::ParentDir);
                missing_below_a_root |= wanted.starts_with(&root) && !climbs;
            }
        }
    }
    if missing_below_a_root {
        return Err(DatasetError::NotFound {
            path: path.display().to_string(),
        });
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
        let kind = |path: &str| below_roots(Path::new(path), &roots).unwrap_err();
        assert!(matches!(kind("none.jsonl"), DatasetError::NotFound { .. }));
        assert!(matches!(kind("../none"), DatasetError::OutsideRoots { .. }));
        assert!(matches!(kind("/none"), DatasetError::OutsideRoots { .. }));
    }
}
