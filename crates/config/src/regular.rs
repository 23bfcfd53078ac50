//! Opens regular files. A pipe would be waited for, and a device may never end.

use std::{fs::File, io, path::Path};

/// Opens a file to read it.
///
/// # Errors
/// If it cannot be opened, or is a pipe, a socket, a device or a folder.
pub fn open(path: &Path) -> io::Result<File> {
    checked(without_waiting(path)?)
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

/// A file that was opened without waiting, if it is a regular one.
///
/// # Errors
/// If it is a pipe, a socket, a device or a folder.
pub fn checked(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    let message = "it is not a regular file; give a file, not a pipe, a socket, a device or a folder";
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// Opens anything, also a folder, without waiting for the other end of a pipe.
///
/// # Errors
/// If it cannot be opened.
#[cfg(unix)]
pub fn without_waiting(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;

    use rustix::fs::OFlags;

    let flags = OFlags::NONBLOCK.bits();
    File::options()
        .read(true)
        .custom_flags(i32::try_from(flags).unwrap_or_default())
        .open(path)
}

/// Opens a file.
///
/// # Errors
/// If it cannot be opened.
#[cfg(not(unix))]
pub fn without_waiting(path: &Path) -> io::Result<File> {
    File::open(path)
}
