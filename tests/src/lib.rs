//! Support for the end-to-end tests: the `isomer` binary, its home, a running server, workers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

pub mod fleet;
pub mod folder;
pub mod home;
pub mod process;

use std::path::{Path, PathBuf};

/// The folder of the checkout.
pub fn workspace() -> PathBuf {
    // Tests run in the folder of their package. Its path is not compiled in, so that a build serves
    // any checkout.
    let package = std::env::current_dir().expect("a working directory");
    package
        .parent()
        .expect("the tests folder lies in the workspace")
        .to_owned()
}

/// Copies a folder with everything below it.
pub fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}
