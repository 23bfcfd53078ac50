//! Regular files, see [`isomer_config::regular`].

pub use isomer_config::regular::{open, read};

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{path::Path, process::Command};

    use super::*;

    #[test]
    fn pipes_and_devices_are_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("model.safetensors");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(open(&pipe).is_err());
        assert!(open(Path::new("/dev/zero")).is_err());
        assert!(crate::digest::file(&pipe).is_err());
        assert!(crate::digest::tensors(&pipe, &[]).is_err());
        std::fs::write(folder.path().join("config.json"), "{}").unwrap();
        assert_eq!(read(&folder.path().join("config.json")).unwrap(), b"{}");
    }
}
