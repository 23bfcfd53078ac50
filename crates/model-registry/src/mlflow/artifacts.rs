//! Where MLflow keeps files: behind its own server, or in S3.

use std::{collections::VecDeque, io::Write as _, path::Path};

use futures::{StreamExt, TryStreamExt};
use isomer_outbound::said::cause;
use object_store::{ObjectStore, ObjectStoreExt, aws::AmazonS3Builder, path::Path as Key};
use url::Url;

use super::{
    client::{Client, unavailable},
    wire::FilesAnswer,
};
use crate::{
    error::{RegistryError, Result},
    registry::StoredFile,
};

/// Most files, and most folders, that are listed of one version.
const MOST_LISTED: usize = 20_000;

/// A folder of files.
#[derive(Debug)]
pub(super) enum Store {
    /// Behind the server: a path below its root of artifacts.
    Served(String),
    /// In a bucket: the key that all keys begin with.
    S3(Box<dyn ObjectStore>, Key),
}

impl Store {
    /// The folder that a URI of artifacts names.
    pub(super) fn of(client: &Client, uri: &str) -> Result<Self> {
        let refused = |message: &str| RegistryError::Store {
            uri: uri.to_owned(),
            message: message.to_owned(),
        };
        let url = Url::parse(uri).map_err(|_| refused("is not a URI"))?;
        match url.scheme() {
            "mlflow-artifacts" => {
                if url.host_str().is_some_and(|host| !host.is_empty()) && !client.is_at(&url) {
                    return Err(refused("is behind another server than --tracking-uri"));
                }
                let path = percent_decoded(url.path());
                let leaves = |part: &str| part == ".." || part == ".";
                if path.split('/').any(leaves) {
                    return Err(refused("leaves its folder"));
                }
                Ok(Self::Served(path.trim_matches('/').to_owned()))
            }
            "s3" => {
                isomer_service_kit::tls::install_crypto();
                let mut builder = AmazonS3Builder::from_env().with_url(uri);
                // The variable of MLflow's own client.
                if let Ok(endpoint) = std::env::var("MLFLOW_S3_ENDPOINT_URL") {
                    let plain = endpoint.starts_with("http://");
                    builder = builder.with_endpoint(endpoint).with_allow_http(plain);
                }
                let store = builder.build().map_err(|error| refused(&cause(&error)))?;
                let key = Key::from_url_path(url.path()).map_err(|error| refused(&error.to_string()))?;
                Ok(Self::S3(Box::new(store), key))
            }
            other => Err(refused(&format!(
                "`{other}` is not read here: start MLflow with --serve-artifacts, or keep artifacts in S3"
            ))),
        }
    }

    /// All files, in order of their paths.
    pub(super) async fn list(&self, client: &Client) -> Result<Vec<StoredFile>> {
        let mut files = match self {
            Self::Served(root) => served(client, root).await?,
            Self::S3(store, prefix) => {
                let listed = store.list(Some(prefix)).take(MOST_LISTED + 1);
                let all: Vec<_> = listed
                    .try_collect()
                    .await
                    .map_err(|error| of_bucket("listing files", &error))?;
                let below = |key: &Key| {
                    let parts: Vec<String> = key.prefix_match(prefix)?.map(|part| part.as_ref().to_owned()).collect();
                    Some(parts.join("/"))
                };
                all.into_iter()
                    .filter_map(|one| {
                        Some(StoredFile {
                            path: below(&one.location).filter(|path| !path.is_empty())?,
                            size: Some(one.size),
                        })
                    })
                    .collect()
            }
        };
        files.sort();
        Ok(files)
    }

    /// Writes a file to `to`: `None` if it is longer than `most`.
    pub(super) async fn download(&self, client: &Client, file: &str, to: &Path, most: u64) -> Result<Option<u64>> {
        let doing = format!("fetching {file}");
        let mut output = std::fs::File::create(to).map_err(RegistryError::io("writing", to))?;
        let mut size = 0_u64;
        let mut write = |bytes: &[u8]| -> Result<bool> {
            size = size.saturating_add(bytes.len() as u64);
            if size > most {
                return Ok(false);
            }
            output.write_all(bytes).map_err(RegistryError::io("writing", to))?;
            Ok(true)
        };
        match self {
            Self::Served(root) => {
                let url = client.url(&format!("api/2.0/mlflow-artifacts/artifacts/{root}/{file}"));
                let mut answer = client.open(&doing, url).await?;
                while let Some(bytes) = answer
                    .chunk()
                    .await
                    .map_err(|error| unavailable(&doing, cause(&error)))?
                {
                    if !write(&bytes)? {
                        return Ok(None);
                    }
                }
            }
            Self::S3(store, prefix) => {
                let key = key(prefix, file);
                let found = store.get(&key).await.map_err(|error| of_bucket(&doing, &error))?;
                let mut stream = found.into_stream();
                while let Some(bytes) = stream.try_next().await.map_err(|error| of_bucket(&doing, &error))? {
                    if !write(&bytes)? {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(Some(size))
    }

    /// Writes a file, in place of one of the same name.
    pub(super) async fn upload(&self, client: &Client, file: &str, content: &[u8]) -> Result<()> {
        let doing = format!("storing {file}");
        match self {
            Self::Served(root) => {
                let url = client.url(&format!("api/2.0/mlflow-artifacts/artifacts/{root}/{file}"));
                client.put(&doing, url, content).await
            }
            Self::S3(store, prefix) => {
                let put = store.put(&key(prefix, file), content.to_vec().into()).await;
                put.map(drop).map_err(|error| of_bucket(&doing, &error))
            }
        }
    }
}

/// The files behind the server, folder by folder: it lists one at a time.
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
            // The server gives the last part of the path.
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
                });
            }
        }
    }
    Ok(files)
}

fn key(prefix: &Key, file: &str) -> Key {
    let parts = prefix.parts().chain(file.split('/').map(Into::into));
    Key::from_iter(parts)
}

fn of_bucket(doing: &str, error: &object_store::Error) -> RegistryError {
    use object_store::Error;
    match error {
        Error::NotFound { .. } => RegistryError::Refused {
            doing: doing.to_owned(),
            status: 404,
            code: "RESOURCE_DOES_NOT_EXIST".to_owned(),
            message: error.to_string(),
        },
        _ => unavailable(doing, cause(error)),
    }
}

fn percent_decoded(path: &str) -> String {
    // `Url` keeps the path of an unknown scheme as it was written, but for blanks and the like.
    url::form_urlencoded::parse(format!("p={}", path.replace('+', "%2B").replace('&', "%26")).as_bytes())
        .next()
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}
