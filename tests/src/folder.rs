//! Copies of model folders with changed settings.

use std::{fs, path::Path};

use serde_json::Value;

/// Copies a folder with everything in it.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from)
        .expect("a folder")
        .map(|entry| entry.expect("an entry"))
    {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).expect("a copy");
        }
    }
}

/// Changes a JSON file of a folder; a missing file is an empty object.
pub fn edit(folder: &Path, file: &str, change: impl FnOnce(&mut Value)) {
    let path = folder.join(file);
    let bytes = fs::read(&path).unwrap_or_else(|_| b"{}".to_vec());
    let mut value: Value = serde_json::from_slice(&bytes).expect("JSON");
    change(&mut value);
    fs::remove_file(&path).ok();
    fs::write(&path, value.to_string()).expect("a file");
}
