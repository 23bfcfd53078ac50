//! Support for the end-to-end tests: the `isomer` binary, its home, a running server, workers,
//! reference data.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

pub mod fleet;
pub mod home;
pub mod process;

use std::path::{Path, PathBuf};

/// The folder of the checkout.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests folder lies in the workspace")
        .to_owned()
}

/// Reference data and numbers: `ISOMER_SHARED`, else `shared` beside the checkout. `None` prints
/// why the test is skipped.
pub fn shared() -> Option<PathBuf> {
    let folder = std::env::var_os("ISOMER_SHARED").map_or_else(|| workspace().join("../shared"), PathBuf::from);
    if folder.is_dir() {
        Some(folder)
    } else {
        println!("skipped: no data at {}", folder.display());
        None
    }
}
