//! Files in S3, below a prefix.

use std::{io::Write as _, path::Path};

use futures::{StreamExt, TryStreamExt};
use isomer_outbound::said::cause;
use object_store::{ObjectStore, ObjectStoreExt, aws::AmazonS3Builder, path::Path as Key};
use url::Url;

use crate::{
    error::{RegistryError, Result},
    registry::StoredFile,
};

/// Maximum number of files that are listed.
pub(crate) const MOST_LISTED: usize = 20_000;

/// A prefix of a bucket, shared by all keys.
#[derive(Debug)]
pub(crate) struct Bucket {
    store: Box<dyn ObjectStore>,
    prefix: Key,
}

impl Bucket {
    /// The prefix of a URI (`s3://…`). Region and credentials come from the usual environment
    /// variables; `endpoint` is for servers other than AWS.
    pub(crate) fn of(uri: &str, endpoint: Option<String>) -> Result<Self> {
        let refused = |message: String| RegistryError::Store {
            uri: uri.to_owned(),
            message,
        };
        let url = Url::parse(uri).map_err(|_| refused("is not a URI".to_owned()))?;
        isomer_service_kit::tls::install_crypto();
        let mut builder = AmazonS3Builder::from_env().with_url(uri);
        if let Some(endpoint) = endpoint {
            let plain = endpoint.starts_with("http://");
            builder = builder.with_endpoint(endpoint).with_allow_http(plain);
        }
        let store = builder.build().map_err(|error| refused(cause(&error)))?;
        let prefix = Key::from_url_path(url.path()).map_err(|error| refused(error.to_string()))?;
        Ok(Self {
            store: Box::new(store),
            prefix,
        })
    }

    /// All files; their tags change with their content.
    pub(crate) async fn list(&self) -> Result<Vec<StoredFile>> {
        let listed = self.store.list(Some(&self.prefix)).take(MOST_LISTED + 1);
        let all: Vec<_> = listed
            .try_collect()
            .await
            .map_err(|error| registry_error("listing files", &error))?;
        let below = |key: &Key| {
            let parts: Vec<String> = key
                .prefix_match(&self.prefix)?
                .map(|part| part.as_ref().to_owned())
                .collect();
            Some(parts.join("/"))
        };
        let files = all.into_iter().filter_map(|one| {
            Some(StoredFile {
                path: below(&one.location).filter(|path| !path.is_empty())?,
                size: Some(one.size),
                tag: one.e_tag,
            })
        });
        Ok(files.collect())
    }

    /// Writes a file to `to`, or the file at the prefix itself if `file` is empty. `None` if it is
    /// longer than `most`.
    pub(crate) async fn download(&self, file: &str, to: &Path, most: u64) -> Result<Option<u64>> {
        let doing = format!("fetching {}", if file.is_empty() { "the archive" } else { file });
        let mut output = std::fs::File::create(to).map_err(RegistryError::io("writing", to))?;
        let found = self.store.get(&self.key(file)).await;
        let mut stream = found.map_err(|error| registry_error(&doing, &error))?.into_stream();
        let mut size = 0_u64;
        while let Some(bytes) = stream
            .try_next()
            .await
            .map_err(|error| registry_error(&doing, &error))?
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
    pub(crate) async fn upload(&self, file: &str, content: &[u8]) -> Result<()> {
        let put = self.store.put(&self.key(file), content.to_vec().into()).await;
        put.map(drop)
            .map_err(|error| registry_error(&format!("storing {file}"), &error))
    }

    fn key(&self, file: &str) -> Key {
        let below = file.split('/').filter(|part| !part.is_empty());
        Key::from_iter(self.prefix.parts().chain(below.map(Into::into)))
    }
}

fn registry_error(doing: &str, error: &object_store::Error) -> RegistryError {
    use object_store::Error;
    match error {
        Error::NotFound { .. } => RegistryError::Refused {
            doing: doing.to_owned(),
            status: 404,
            code: "RESOURCE_DOES_NOT_EXIST".to_owned(),
            message: error.to_string(),
        },
        _ => RegistryError::Unavailable {
            doing: doing.to_owned(),
            message: cause(error),
        },
    }
}
