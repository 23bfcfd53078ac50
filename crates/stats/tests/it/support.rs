//! Numbers of other programs, in files. The tests of data sets, scoring and eval-svc include this
//! file too.

use std::path::{Path, PathBuf};

use serde_json::Value;

fn root() -> &'static Path {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder
        .ancestors()
        .find(|folder| folder.join("Cargo.lock").exists())
        .unwrap()
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))).unwrap()
}

/// The folder `eval-svc/fixtures`; the scripts in it made its files.
pub(crate) fn fixtures() -> PathBuf {
    root().join("eval-svc/fixtures")
}

pub(crate) fn fixture(name: &str) -> Value {
    read(&fixtures().join(name))
}

/// A file of the shared folder beside the repository, or `None` (said) where there is none.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let shared = std::env::var_os("ISOMER_SHARED").map_or_else(|| root().join("../shared"), PathBuf::from);
    let path = shared.join(path);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: no data ({})", path.display());
    None
}

/// The reference numbers of the shared folder, where it is there.
pub(crate) fn golden() -> Option<Value> {
    shared("goldens/golden-sklearn1.8.0.json").map(|path| read(&path))
}

pub(crate) fn floats(value: &Value) -> Vec<f64> {
    serde_json::from_value(value.clone()).unwrap()
}

#[track_caller]
pub(crate) fn close(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!(
        (found - expected).abs() <= tolerance,
        "{what}: {found} is not {expected} (± {tolerance})"
    );
}
