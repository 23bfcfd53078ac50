//! MLflow's storage of files: behind its own server, or in S3.

use std::{collections::VecDeque, io::Write as _, path::Path};

use isomer_outbound::said::cause;
use url::Url;

use super::{
    client::{Client, unavailable},
    wire::FilesAnswer,
};
use crate::{
    bucket::{Bucket, MOST_LISTED},
    error::{RegistryError, Result},
    registry::StoredFile,
};

/// A folder of files.
#[derive(Debug)]
pub(super) enum Store {
    /// Behind the server: a path below its root of artifacts.
    Served(String),
    S3(Bucket),
}

impl Store {
    /// The folder at a URI of artifacts.
    pub(super) fn of(client: &Client, uri: &str) -> Result<Self> {
        let refused = |message: &str| RegistryError::Store {
            uri: uri.to_owned(),
            message: message.to_owned(),
        };
        let url = Url::parse(uri).map_err(|_| refused("is not a URI"))?;
        match url.scheme() {
            "mlflow-artifacts" => {
                if url.host_str().is_some_and(|host| !host.is_empty()) && !client.is_at(&url) {
                    return Err(refused("is not behind the server of --tracking-uri"));
                }
                let path = percent_decoded(url.path());
                let leaves = |part: &str| part == ".." || part == ".";
                if path.split('/').any(leaves) {
                    return Err(refused("leaves its folder"));
                }
                Ok(Self::Served(path.trim_matches('/').to_owned()))
            }
            // The variable of MLflow's own client.
            "s3" => Bucket::of(uri, std::env::var("MLFLOW_S3_ENDPOINT_URL").ok()).map(Self::S3),
            other => Err(refused(&format!(
                "files at `{other}:` are not read here: start MLflow with --serve-artifacts, or keep artifacts in S3"
            ))),
        }
    }

    /// All files, in order of their paths.
    pub(super) async fn list(&self, client: &Client) -> Result<Vec<StoredFile>> {
        let mut files = match self {
            Self::Served(root) => served(client, root).await?,
            Self::S3(bucket) => bucket.list().await?,
        };
        files.sort();
        Ok(files)
    }

    /// Writes a file to `to`: `None` if it is longer than `most`.
    pub(super) async fn download(&self, client: &Client, file: &str, to: &Path, most: u64) -> Result<Option<u64>> {
        let root = match self {
            Self::S3(bucket) => return bucket.download(file, to, most).await,
            Self::Served(root) => root,
        };
        let doing = format!("fetching {file}");
        let mut output = std::fs::File::create(to).map_err(RegistryError::io("writing", to))?;
        let mut size = 0_u64;
        let url = client.url(&format!("api/2.0/mlflow-artifacts/artifacts/{root}/{file}"));
        let mut answer = client.open(&doing, url).await?;
        while let Some(bytes) = answer
            .chunk()
            .await
            .map_err(|error| unavailable(&doing, cause(&error)))?
        {
            size = size.saturating_add(bytes.len() as u64);
            if size > most {
                return Ok(None);
            }
            output.write_all(&bytes).map_err(RegistryError::io("writing", to))?;
        }
        Ok(Some(size))
    }

    /// Writes a file, replacing one with the same name.
    pub(super) async fn upload(&self, client: &Client, file: &str, content: &[u8]) -> Result<()> {
        let doing = format!("storing {file}");
        match self {
            Self::Served(root) => {
                let url = client.url(&format!("api/2.0/mlflow-artifacts/artifacts/{root}/{file}"));
                client.put(&doing, url, content).await
            }
            Self::S3(bucket) => bucket.upload(file, content).await,
        }
    }
}

/// The files behind the server. They are listed folder by folder, because the server lists one at a
/// time.
async fn served(client: &Client, root: &str) -> Result<Vec<StoredFile>> {
    let mut files = Vec::new();
    let mut folders = VecDeque::from([String::new()]);
    let mut listed = 0;
    while let Some(folder) = folders.pop_front() {
        let mut url = client.url("api/2.0/mlflow-artifacts/artifacts");
        let path = [root, folder.as_str()].into_iter().filter(|part| !part.is_empty());
        url.query_pairs_mut()
            .append_pair("path", &path.collect::<Vec<_>>().join("/"));
        let answer: FilesAnswer = client.get_url("listing files", url).await?;
        for one in answer.files {
            // The server returns the last part of the path.
            let name = one.path.rsplit('/').next().unwrap_or_default();
            if name.is_empty() || name == "." || name == ".." {
                continue;
            }
            let path = match folder.as_str() {
                "" => name.to_owned(),
                folder => format!("{folder}/{name}"),
            };
            listed += 1;
            if listed > MOST_LISTED {
                return Ok(files);
            }
            if one.is_dir {
                folders.push_back(path);
            } else {
                files.push(StoredFile {
                    path,
                    size: one.file_size,
                    // The server does not report tags of the content.
                    tag: None,
                });
            }
        }
    }
    Ok(files)
}

fn percent_decoded(path: &str) -> String {
    // `Url` keeps the path of an unknown scheme unchanged, except for blanks and the like.
    url::form_urlencoded::parse(format!("p={}", path.replace('+', "%2B").replace('&', "%26")).as_bytes())
        .next()
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}
