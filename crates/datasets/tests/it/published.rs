//! The locations of published data sets. The tests of eval-svc and transform-svc include this file
//! too.

use std::path::PathBuf;

fn root() -> PathBuf {
    let package = std::env::current_dir().unwrap();
    let root = package.ancestors().find(|folder| folder.join("Cargo.lock").exists());
    root.unwrap().to_owned()
}

/// A folder or file of `tests/data`.
pub(crate) fn published(path: &str) -> PathBuf {
    root().join("tests/data").join(path)
}

/// A data set whose licence forbids a copy in this repository: in the folder `ISOMER_SHARED`, else
/// in `shared` next to the checkout. Only tests that are ignored by default read it.
pub(crate) fn shared(path: &str) -> PathBuf {
    let shared = std::env::var_os("ISOMER_SHARED").map_or_else(|| root().join("../shared"), PathBuf::from);
    let path = shared.join("data").join(path);
    assert!(path.exists(), "{} is missing: see tests/data/README.md", path.display());
    path
}
