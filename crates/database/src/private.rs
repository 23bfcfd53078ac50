//! Files and folders that only this user may read: the database holds digests of keys, names and
//! the audit log.

use std::{io, path::Path};

/// Creates a folder and its missing parents with the mode 0700. An existing folder keeps its mode.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Options that create a file with the mode 0600.
pub fn private_file() -> std::fs::OpenOptions {
    let mut options = std::fs::OpenOptions::new();
    options.create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a file with the mode 0600 if it is missing. The permissions of an existing file are
/// restricted without opening it: this process may have it open as a database, and would lose
/// SQLite's locks on closing it.
pub(crate) fn create_file(path: &Path) -> io::Result<()> {
    if !path.exists() {
        private_file().append(true).open(path)?;
    }
    #[cfg(unix)]
    {
        use std::{fs, os::unix::fs::PermissionsExt};
        let beside = ["-wal", "-shm"].map(|suffix| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            std::path::PathBuf::from(name)
        });
        let open_to_others = fs::metadata(path)?.permissions().mode() & 0o077 != 0;
        if open_to_others {
            tracing::warn!(path = %path.display(), "the database was readable by other users; its mode is now 0600");
            let beside = beside
                .iter()
                .map(std::path::PathBuf::as_path)
                .filter(|path| path.exists());
            for path in std::iter::once(path).chain(beside) {
                fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
            }
        }
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt;

    use crate::Database;

    fn mode(path: &std::path::Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn the_database_is_readable_by_its_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("home/isomer.sqlite");
        for _ in 0..2 {
            let database = Database::open(path.to_str().unwrap()).await.unwrap();
            database.migrate("t", &["CREATE TABLE t (a BIGINT)"]).await.unwrap();
            assert_eq!(mode(path.parent().unwrap()), 0o700);
            for name in ["isomer.sqlite", "isomer.sqlite-wal", "isomer.sqlite-shm"] {
                let path = path.with_file_name(name);
                if path.exists() {
                    assert_eq!(mode(&path), 0o600, "{name}");
                }
            }
            database.pool().close().await;
            // The state in which an earlier version left the file.
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
    }
}
