//! Files that are complete or absent.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
};

/// Writes to a temporary file beside the target and renames it, so that neither a reader nor a
/// crash sees half a file.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(content)?;
    file.as_file().sync_data()?;
    file.persist(path).map_err(|error| error.error)?;
    // The folder stores the new name, so it is synced too.
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    Ok(())
}
