//! Fixtures and shared data.

use std::path::PathBuf;

use isomer_eval::metric::VectorMatrix;
use serde_json::Value;

pub(crate) fn manifest() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A file of `eval-svc/fixtures`; the script beside it made it.
pub(crate) fn fixture(name: &str) -> Value {
    let path = manifest().join("fixtures").join(name);
    serde_json::from_slice(&std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))).unwrap()
}

/// A file of the shared folder beside the repository, or `None` (said) where there is none.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("ISOMER_SHARED").map_or_else(|| manifest().join("../../shared"), PathBuf::from);
    let path = root.join(path);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: no data ({})", path.display());
    None
}

pub(crate) fn matrix(rows: &Value) -> VectorMatrix {
    let rows: Vec<Vec<f32>> = serde_json::from_value(rows.clone()).unwrap();
    VectorMatrix::new(rows.len(), rows[0].len(), rows.concat()).unwrap()
}

pub(crate) fn floats(value: &Value) -> Vec<f64> {
    serde_json::from_value(value.clone()).unwrap()
}

pub(crate) fn strings(value: &Value) -> Vec<String> {
    serde_json::from_value(value.clone()).unwrap()
}

#[track_caller]
pub(crate) fn close(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!(
        (found - expected).abs() <= tolerance,
        "{what}: {found} is not {expected} (± {tolerance})"
    );
}
