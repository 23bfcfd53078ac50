//! Numbers of other programs, in files. The tests of data sets, scoring and eval-svc include this
//! file too.

use std::path::{Path, PathBuf};

use serde_json::Value;

fn root() -> PathBuf {
    let package = std::env::current_dir().unwrap();
    let root = package.ancestors().find(|folder| folder.join("Cargo.lock").exists());
    root.unwrap().to_owned()
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

/// Scores of scikit-learn, scipy and pytrec_eval.
pub(crate) fn golden() -> Value {
    fixture("golden.json")
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
