//! Support for the end-to-end tests: the `isomer` binary, its home, a running server, workers.
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
