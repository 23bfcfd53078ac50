//! Folders and files with restricted permissions, because they contain texts of all tenants, and
//! their vectors.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

/// Creates a folder and its missing parents with the mode 0700. The permissions of an existing
/// folder are restricted to its user and group, which also protects files that an older version
/// left in it. The group keeps access, because processes of several users may share a cache.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(folder)?.permissions().mode();
        if mode & 0o007 != 0 {
            match fs::set_permissions(folder, fs::Permissions::from_mode(mode & 0o7770)) {
                Ok(()) => {
                    tracing::warn!(folder = %folder.display(), "the cache was readable by every user; it no longer is")
                }
                Err(error) => tracing::warn!(folder = %folder.display(), %error, "the cache is readable by every user"),
            }
        }
    }
    Ok(())
}

/// Creates a file that its user and group may read.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.append(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o640);
    options.open(path)
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_new_cache_and_one_of_an_older_version_are_closed_to_other_users() {
        let home = tempfile::tempdir().unwrap();
        let new = home.path().join("cache/transform");
        create_folder(&new).unwrap();
        assert_eq!((mode(&new), mode(new.parent().unwrap())), (0o700, 0o700));
        let file = new.join("segment");
        create_file(&file).unwrap();
        assert_eq!(mode(&file) & 0o007, 0);

        let old = home.path().join("old");
        fs::create_dir(&old).unwrap();
        fs::set_permissions(&old, fs::Permissions::from_mode(0o775)).unwrap();
        create_folder(&old).unwrap();
        assert_eq!(mode(&old), 0o770);
    }
}
