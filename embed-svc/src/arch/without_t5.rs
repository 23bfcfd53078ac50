//! Replaces `t5.rs` in builds without the feature `t5`.

use std::convert::Infallible;

use super::Architecture;
use crate::{device::Device, error::EmbedError, folder::ModelFolder, weights::Weights};

/// Refuses the folder.
///
/// # Errors
/// Always.
pub(super) fn load(folder: &ModelFolder, _: &Weights, device: &Device) -> Result<Box<dyn Architecture>, EmbedError> {
    check(folder, device).map(|never| match never {})
}

/// Refuses the folder, and names the build that supports it.
///
/// # Errors
/// Always.
pub(super) fn check(folder: &ModelFolder, _: &Device) -> Result<Infallible, EmbedError> {
    Err(EmbedError::file(
        &folder.config_file(),
        "architecture `t5` is left out of this build",
        "build with feature `t5`: `cargo build --release -p isomer --features t5`",
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use crate::{device::Device, model::Model};

    #[test]
    fn a_build_without_t5_says_how_to_get_one() {
        let folder = Path::new(".").join("tests/fixtures/sentence_t5");
        let error = Model::load(&folder, &Device::Cpu).err().unwrap().to_string();
        assert!(error.contains("--features t5") && !error.contains('\n'), "{error}");
    }
}
