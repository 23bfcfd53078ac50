//! Downloads one file of a repository into the hub's cache, in the layout of Python's libraries:
//! `blobs/<etag>` and a link to it in `snapshots/<commit>/<file>`.
//!
//! The server names the content, and a malicious server could choose a name that points anywhere.
//! It may also answer each request differently, so checking an answer beforehand does not help.
//! Every name is checked before it becomes part of a path.

use std::{
    io::Write,
    path::{Component, Path, PathBuf},
};

use isomer_config::spelling::is_plain_name;

use super::{
    DownloadProgress, HubFailure,
    client::{Client, RequestError},
    failure,
    repository::CachedRepository,
};
use crate::catalogue::read::is_inside;

/// The limits of a download.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terms {
    /// Do not send the token of this process, for repositories that a client chose.
    pub anonymous: bool,
    /// Maximum bytes of one file; `None`: no bound.
    pub max_file_bytes: Option<u64>,
}

pub(super) struct FileDownload {
    pub(super) client: Client,
    pub(super) cached: CachedRepository,
    /// Its address at the commit.
    pub(super) url: String,
    pub(super) commit: String,
    pub(super) file: String,
    /// The repository's name in errors.
    pub(super) name: String,
    pub(super) max_bytes: Option<u64>,
}

/// Refuses names that point outside the cache.
pub(super) fn check_listed(names: &[String]) -> Result<(), HubFailure> {
    match names.iter().find(|name| !is_inside(name)) {
        None => Ok(()),
        Some(name) => Err(lying(format!(
            "it lists a file `{}`, which is not a path inside a repository",
            shown(name)
        ))),
    }
}

/// Whether this is a valid name of a file's content, which becomes part of a path.
pub(crate) fn is_etag(etag: &str) -> bool {
    is_plain_name(etag) && etag.len() <= 200
}

fn lying(message: String) -> HubFailure {
    HubFailure::refused(message, "is HF_ENDPOINT a Hugging Face hub? Nothing was written")
}

/// The beginning of a server's answer, safe to print.
fn shown(text: &str) -> String {
    text.chars().take(100).flat_map(char::escape_default).collect()
}

impl FileDownload {
    /// Fetches the file, or resumes an interrupted download.
    pub(super) async fn fetch(self, mut progress: DownloadProgress) -> Result<(), HubFailure> {
        let asked = self.client.metadata(&self.url).await;
        let metadata = asked.map_err(|error| failure(error, &self.name))?;
        let etag = self.etag(&metadata.etag)?;
        let size = metadata.size;
        if let Some(most) = self.max_bytes.filter(|most| size > *most) {
            return Err(HubFailure::refused(
                format!("{} has {size} bytes; at most {most} are fetched", self.file),
                "choose a smaller data set, or raise eval.max_hub_file_bytes",
            ));
        }
        progress.begin(size, &self.file);
        let blob = self.cached.blob(&etag);
        let pointer = self.cached.snapshot(&self.commit).join(&self.file);
        if !blob.is_file() {
            self.fill(&blob, size, &progress).await?;
        }
        let linked = tokio::task::spawn_blocking(move || link(&blob, &pointer)).await;
        let linked = linked.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        linked.map_err(|error| self.disk(&error))?;
        progress.finish();
        Ok(())
    }

    /// The name of the file's content, which the server chooses.
    fn etag(&self, etag: &str) -> Result<String, HubFailure> {
        let etag = etag.strip_prefix("W/").unwrap_or(etag);
        if !is_etag(etag) {
            return Err(lying(format!("{}: it answered the etag `{}`", self.file, shown(etag))));
        }
        Ok(etag.to_owned())
    }

    fn disk(&self, error: &std::io::Error) -> HubFailure {
        HubFailure::refused(
            format!("{}: it cannot be kept: {error}", self.file),
            "check the space and the permissions of the hub's cache",
        )
    }

    /// Writes the content to a temporary file and renames it, so that an existing blob is always
    /// complete.
    async fn fill(&self, blob: &Path, size: u64, progress: &DownloadProgress) -> Result<(), HubFailure> {
        let part = PathBuf::from(format!("{}.isomer-part", blob.display()));
        let opened = tokio::task::spawn_blocking({
            let part = part.clone();
            move || open_part(&part)
        });
        let opened = opened.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        let mut file = opened.map_err(|error| self.disk(&error))?;
        if blob.is_file() {
            // Another process has already created it.
            return Ok(());
        }
        let mut done = file.metadata().map_err(|error| self.disk(&error))?.len();
        if done > size {
            file.set_len(0).map_err(|error| self.disk(&error))?;
            done = 0;
        }
        progress.advance(done);
        while done < size {
            let before = done;
            let failed = |error| failure(RequestError::Request(error), &self.name);
            let asked = self.client.range(&self.url, done, size - 1).await;
            let mut answer = asked.map_err(failed)?;
            if answer.status().as_u16() != 206 && done > 0 {
                // Restart from the beginning.
                file.set_len(0).map_err(|error| self.disk(&error))?;
                done = 0;
            }
            loop {
                let Some(chunk) = answer.chunk().await.map_err(failed)? else {
                    break;
                };
                done += chunk.len() as u64;
                if done > size {
                    return Err(lying(format!(
                        "{}: more bytes came than the {size} it announced",
                        self.file
                    )));
                }
                // Written synchronously: short writes into the page cache are much cheaper than
                // tokio::fs, which performs them on another thread.
                file.write_all(&chunk).map_err(|error| self.disk(&error))?;
                progress.advance(chunk.len() as u64);
            }
            if done <= before {
                return Err(HubFailure::Unreachable(format!(
                    "{}: the answer ended at byte {done} of {size}",
                    self.file
                )));
            }
        }
        let kept = {
            let blob = blob.to_owned();
            tokio::task::spawn_blocking(move || {
                file.sync_all()?;
                std::fs::rename(part, blob)
            })
        };
        let kept = kept.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        kept.map_err(|error| self.disk(&error))
    }
}

/// Opens the download's partial file with an exclusive lock.
fn open_part(part: &Path) -> std::io::Result<std::fs::File> {
    if let Some(folder) = part.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let file = std::fs::OpenOptions::new().create(true).append(true).open(part)?;
    // If another process is fetching the same file, wait for it.
    file.lock()?;
    Ok(file)
}

/// Links the file into its snapshot. An existing file is kept.
fn link(blob: &Path, pointer: &Path) -> std::io::Result<()> {
    if let Some(folder) = pointer.parent() {
        std::fs::create_dir_all(folder)?;
    }
    if pointer.exists() {
        return Ok(());
    }
    #[cfg(unix)]
    {
        // A dangling link would prevent this.
        let _ = std::fs::remove_file(pointer);
        std::os::unix::fs::symlink(relative(blob, pointer), pointer)
    }
    #[cfg(not(unix))]
    {
        std::fs::rename(blob, pointer)
    }
}

/// The relative path from the folder of `from` to `to`; both have a common beginning.
#[cfg(unix)]
fn relative(to: &Path, from: &Path) -> PathBuf {
    let common = to
        .components()
        .zip(from.components())
        .take_while(|(a, b)| a == b)
        .count();
    let up = from.components().count().saturating_sub(common + 1);
    std::iter::repeat_n(Component::ParentDir, up)
        .chain(to.components().skip(common))
        .collect()
}
