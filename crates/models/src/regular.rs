//! Opens regular files. A pipe or a device would be waited for, or would never end.

use std::{fs::File, io, path::Path};

/// Opens a file.
///
/// # Errors
/// If it cannot be opened, or is a pipe, a socket, a device or a folder.
pub fn open(path: &Path) -> io::Result<File> {
    if !std::fs::metadata(path)?.is_file() {
        let message = "it is not a regular file; give a file, not a pipe, a socket, a device or a folder";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    File::open(path)
}

/// Reads a file.
///
/// # Errors
/// As [`open`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut open(path)?, &mut bytes)?;
    Ok(bytes)
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::process::Command;

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
