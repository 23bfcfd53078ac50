//! Zip archives that are unpacked without writing outside the target folder.

use std::{
    fs::File,
    io::{self, BufReader, Read, Write},
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use zip::ZipArchive;

use crate::{
    error::ModelError,
    progress::{REPORT_EVERY, Reporter},
};

/// An open zip archive (a wheel is one).
#[derive(Debug)]
pub struct Archive {
    path: PathBuf,
    zip: ZipArchive<BufReader<File>>,
    names: Vec<String>,
}

impl Archive {
    /// Opens an archive and checks every member. If a member's name is absolute or leaves the
    /// folder with `..`, or the member is a link, the whole archive is refused.
    ///
    /// # Errors
    /// [`ModelError::Io`]; [`ModelError::Archive`] if it is not a zip archive, is truncated, or is
    /// unsafe.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let file = crate::regular::open(path).map_err(ModelError::io("reading", path))?;
        let mut zip = ZipArchive::new(BufReader::new(file))
            .map_err(|error| ModelError::archive(path, format!("not a sound zip archive: {error}")))?;
        let mut names = Vec::with_capacity(zip.len());
        for index in 0..zip.len() {
            let member = zip
                .by_index_raw(index)
                .map_err(|error| ModelError::archive(path, format!("member #{index}: {error}")))?;
            let name = member
                .name()
                .map_err(|error| ModelError::archive(path, format!("name of member #{index}: {error}")))?
                .into_owned();
            if !stays_inside(&name) {
                return Err(ModelError::archive(
                    path,
                    format!("member `{name}` would be written outside its folder"),
                ));
            }
            if member.is_symlink() {
                return Err(ModelError::archive(
                    path,
                    format!("member `{name}` is a link, which is not unpacked"),
                ));
            }
            names.push(name);
        }
        Ok(Self {
            path: path.to_path_buf(),
            zip,
            names,
        })
    }

    /// Where the archive is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names of all members, folders ending in `/`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Writes a member's contents to `out`, and checks its CRC.
    pub(crate) fn copy(&mut self, name: &str, out: &mut impl Write, reporter: &Reporter) -> Result<(), ModelError> {
        let wrong = |error: String| ModelError::archive(&self.path, format!("member `{name}`: {error}"));
        let mut member = self.zip.by_name(name).map_err(|error| wrong(error.to_string()))?;
        let total = member.size();
        let what: Arc<str> = format!("unpacking {}", name.rsplit('/').next().unwrap_or(name)).into();
        let mut buffer = vec![0_u8; 1 << 18];
        let (mut done, mut reported_at) = (0_u64, Instant::now());
        loop {
            let n = match member.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(wrong(error.to_string())),
            };
            out.write_all(&buffer[..n])
                .map_err(|error| wrong(format!("writing: {error}")))?;
            done += n as u64;
            if reported_at.elapsed() >= REPORT_EVERY {
                reported_at = Instant::now();
                reporter.at(Arc::clone(&what), done, Some(total));
            }
        }
        if done == total {
            Ok(())
        } else {
            Err(wrong(format!("{done} bytes, {total} announced")))
        }
    }

    /// Writes the member `name` to `folder/relative`.
    pub(crate) fn extract(
        &mut self,
        name: &str,
        relative: &str,
        folder: &Path,
        reporter: &Reporter,
    ) -> Result<(), ModelError> {
        let to = folder.join(relative);
        make_parent(&to)?;
        let mut out = File::create(&to).map_err(ModelError::io("writing", &to))?;
        self.copy(name, &mut out, reporter)?;
        out.sync_all().map_err(ModelError::io("writing", &to))
    }
}

/// Whether there are only plain names between the slashes: no root, no drive, no `..`, no backslash
/// that another system would treat as a slash.
fn stays_inside(name: &str) -> bool {
    !name.is_empty()
        && !name.contains(['\\', '\0'])
        && Path::new(name)
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

pub(crate) fn make_parent(path: &Path) -> Result<(), ModelError> {
    match path.parent() {
        Some(parent) => std::fs::create_dir_all(parent).map_err(ModelError::io("creating", parent)),
        None => Ok(()),
    }
}
