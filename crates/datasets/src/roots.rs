//! Restricts a request's path to the folders that an operator opened, and opens files of data sets.

use std::{
    fs::File,
    io,
    path::{Component, Path, PathBuf},
};

use isomer_config::regular;

use super::DatasetError;

/// A path that a request may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermittedPath {
    /// Absolute and without links, if there is a root.
    pub path: PathBuf,
    /// The folder to which reads are restricted; `None`: the caller may read everything.
    pub root: Option<PathBuf>,
}

/// The resolved path, if it lies below one of the roots; links are followed before the comparison.
/// A relative path is searched below each root in turn. Files opened below the path later are
/// checked again ([`crate::LoadOptions::root`]).
///
/// # Errors
/// If a path is outside every root (the same error whether it exists or not, so that a client
/// cannot probe the file system), or is below a root but does not exist.
pub fn below_roots(path: &Path, roots: &[PathBuf]) -> Result<PermittedPath, DatasetError> {
    let mut missing_below_a_root = false;
    for root in roots {
        let Ok(root) = root.canonicalize() else { continue };
        let wanted = root.join(path);
        match wanted.canonicalize() {
            Ok(path) if path.starts_with(&root) => {
                return Ok(PermittedPath { path, root: Some(root) });
            }
            Ok(_) => {}
            Err(_) => {
                let climbs = path.components().any(|part| part == Component::ParentDir);
                missing_below_a_root |= wanted.starts_with(&root) && !climbs;
            }
        }
    }
    if missing_below_a_root {
        return Err(DatasetError::NotFound {
            path: path.display().to_string(),
        });
    }
    Err(DatasetError::OutsideRoots {
        path: path.display().to_string(),
        roots: roots.iter().map(|r| r.display().to_string()).collect(),
    })
}

/// Opens a file without waiting for a writer. With a root, neither a link nor a folder that is
/// replaced meanwhile leads outside it.
///
/// # Errors
/// If it cannot be opened, lies outside the root, or is a pipe, a socket or a device.
pub(crate) fn open(path: &Path, root: Option<&Path>) -> io::Result<File> {
    match root {
        Some(root) => regular::checked(below(path, root)?),
        None => regular::open(path),
    }
}

/// Names in a folder, which lies below the root if there is one.
pub(crate) fn entries(folder: &Path, root: Option<&Path>) -> io::Result<Vec<String>> {
    let Some(root) = root else {
        return names(folder);
    };
    let opened = below(folder, root)?;
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        names(Path::new(&format!("/proc/self/fd/{}", opened.as_raw_fd())))
    }
    #[cfg(not(target_os = "linux"))]
    {
        drop(opened);
        names(folder)
    }
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let names = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    names.collect()
}

fn outside() -> io::Error {
    let message = "it leads out of the folder that may be read; put a copy of the file there in place of the link";
    io::Error::new(io::ErrorKind::PermissionDenied, message)
}

/// Opens a path below a root. If possible, the system resolves the path below the open root.
#[cfg(target_os = "linux")]
fn below(path: &Path, root: &Path) -> io::Result<File> {
    use rustix::{
        fs::{Mode, OFlags, ResolveFlags, openat2},
        io::Errno,
    };
    let inside = path.strip_prefix(root).map_err(|_| outside())?;
    let inside = if inside.as_os_str().is_empty() {
        Path::new(".")
    } else {
        inside
    };
    let folder = File::open(root)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match openat2(&folder, inside, flags, Mode::empty(), resolve) {
        Ok(opened) => Ok(opened.into()),
        // The system call is unknown to this kernel, or to the sandbox around this process. EXDEV
        // also occurs for an absolute link, which may lead back into the root.
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN | Errno::XDEV) => compared(path, root),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn below(path: &Path, root: &Path) -> io::Result<File> {
    compared(path, root)
}

/// Opens a file and checks that it is the file below the root.
fn compared(path: &Path, root: &Path) -> io::Result<File> {
    let real = path.canonicalize()?;
    if !real.starts_with(root) {
        return Err(outside());
    }
    let file = regular::without_waiting(&real)?;
    // A part of the path may have become a link between the two steps.
    let again = real.canonicalize()?;
    let same = again == real && is_same(&file, &again)?;
    same.then_some(file).ok_or_else(outside)
}

#[cfg(unix)]
fn is_same(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let (opened, named) = (file.metadata()?, std::fs::metadata(path)?);
    Ok((opened.dev(), opened.ino()) == (named.dev(), named.ino()))
}

#[cfg(not(unix))]
fn is_same(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;

    #[test]
    fn only_what_lies_below_a_root_is_served() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("data");
        fs::create_dir(&inside).unwrap();
        fs::write(inside.join("a.jsonl"), "x").unwrap();
        fs::write(folder.path().join("secret"), "x").unwrap();
        let roots = [inside.clone()];
        assert!(below_roots(Path::new("a.jsonl"), &roots).is_ok());
        assert!(below_roots(&inside.join("a.jsonl"), &roots).is_ok());
        assert!(below_roots(Path::new("../secret"), &roots).is_err());
        assert!(below_roots(&folder.path().join("secret"), &roots).is_err());
        assert!(below_roots(Path::new("a.jsonl"), &[]).is_err());
        let kind = |path: &str| below_roots(Path::new(path), &roots).unwrap_err();
        assert!(matches!(kind("none.jsonl"), DatasetError::NotFound { .. }));
        assert!(matches!(kind("../none"), DatasetError::OutsideRoots { .. }));
        assert!(matches!(kind("/none"), DatasetError::OutsideRoots { .. }));
    }

    /// A root with a file, links of every kind inside it and out of it, and a folder outside.
    #[cfg(unix)]
    fn linked() -> (tempfile::TempDir, PathBuf) {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().canonicalize().unwrap();
        let root = place.join("root");
        fs::create_dir_all(root.join("set")).unwrap();
        fs::create_dir(place.join("outside")).unwrap();
        fs::write(place.join("outside/test.jsonl"), "secret").unwrap();
        fs::write(root.join("set/own.jsonl"), "own").unwrap();
        symlink("own.jsonl", root.join("set/relative.jsonl")).unwrap();
        symlink(root.join("set/own.jsonl"), root.join("set/absolute.jsonl")).unwrap();
        symlink("../../outside/test.jsonl", root.join("set/climbs.jsonl")).unwrap();
        symlink(place.join("outside/test.jsonl"), root.join("set/leads.jsonl")).unwrap();
        symlink(place.join("outside"), root.join("elsewhere")).unwrap();
        (folder, root)
    }

    #[cfg(unix)]
    #[test]
    fn no_link_leads_out_of_a_root_and_links_inside_are_followed() {
        let (_folder, root) = linked();
        for open in [open, |path: &Path, root: Option<&Path>| compared(path, root.unwrap())] {
            let read = |name: &str| {
                let file = open(&root.join(name), Some(&root))?;
                io::read_to_string(file)
            };
            for name in ["set/own.jsonl", "set/relative.jsonl", "set/absolute.jsonl"] {
                assert_eq!(read(name).unwrap(), "own", "{name}");
            }
            for name in ["set/climbs.jsonl", "set/leads.jsonl", "elsewhere/test.jsonl"] {
                assert_eq!(
                    read(name).unwrap_err().kind(),
                    io::ErrorKind::PermissionDenied,
                    "{name}"
                );
            }
            let leads = root.join("set/leads.jsonl");
            assert!(super::open(&leads, None).is_ok(), "the owner may read everything");
        }
        assert!(
            entries(&root.join("set"), Some(&root))
                .unwrap()
                .contains(&"own.jsonl".to_owned())
        );
        assert!(entries(&root.join("elsewhere"), Some(&root)).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn pipes_sockets_and_devices_are_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(root.join("pipe.jsonl"))
            .status();
        assert!(made.unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(root.join("socket.jsonl")).unwrap();
        for within in [None, Some(root.as_path())] {
            for name in ["pipe.jsonl", "socket.jsonl"] {
                assert!(open(&root.join(name), within).is_err(), "{name}");
            }
        }
        assert!(open(Path::new("/dev/zero"), None).is_err());
    }
}
