//! Configuration of the store.

use std::{path::PathBuf, time::Duration};

use isomer_config::{ConfigError, Validate};
use serde::{Deserialize, Serialize};
use url::Url;

/// The supported schemes.
const FORMS: &str = "a folder (/mnt/isomer or file:///mnt/isomer), s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or \
                     az://CONTAINER/PREFIX";

/// Settings of [`crate::BlobStore`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// A folder, `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`. Empty: no
    /// store. Credentials come from the environment under the names that the vendor's own tools use
    /// (`AWS_…`, `GOOGLE_…`, `AZURE_…`).
    pub url: String,
    /// Address of a server that speaks S3, where it is not Amazon's, e.g. `http://127.0.0.1:9000`.
    pub endpoint: Option<String>,
    /// Seconds for which a request is repeated while the store fails (503 and the like).
    pub retry_seconds: u64,
    /// Days without a sign of life after which a run no longer keeps what it relied on, for `isomer
    /// store gc`; 0: each run keeps it until the run is deleted. At least 2. Nothing is removed
    /// but by that command.
    pub keep_runs_days: u32,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            url: String::new(),
            endpoint: None,
            retry_seconds: 120,
            keep_runs_days: 0,
        }
    }
}

/// Whose bucket a URL names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vendor {
    Amazon,
    Google,
    Microsoft,
}

/// The store that a URL names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Location {
    Folder(PathBuf),
    Bucket(Vendor, Url),
}

impl Vendor {
    fn of(scheme: &str) -> Option<Self> {
        match scheme {
            "s3" => Some(Self::Amazon),
            "gs" => Some(Self::Google),
            "az" => Some(Self::Microsoft),
            _ => None,
        }
    }
}

impl StoreConfig {
    pub fn is_set(&self) -> bool {
        !self.url.is_empty()
    }

    /// How long a request is retried.
    pub(crate) fn retry(&self) -> Duration {
        Duration::from_secs(self.retry_seconds)
    }

    pub(crate) fn location(&self) -> Result<Location, ConfigError> {
        let refused = |message: String| ConfigError::new("url", message, format!("name {FORMS}"));
        if !self.url.contains("://") {
            return Ok(Location::Folder(PathBuf::from(&self.url)));
        }
        let url = Url::parse(&self.url).map_err(|error| refused(format!("cannot be read: {error}")))?;
        if !url.username().is_empty() || url.password().is_some() {
            let message = "holds a user or a password, which would appear wherever the address is shown";
            return Err(ConfigError::new(
                "url",
                message,
                "leave them out and give credentials in the environment (AWS_ACCESS_KEY_ID and the like)",
            ));
        }
        if url.scheme() == "file" {
            let path = url.to_file_path();
            return path
                .map(Location::Folder)
                .map_err(|()| refused("is not a path of this machine".to_owned()));
        }
        match Vendor::of(url.scheme()) {
            Some(_) if url.host_str().is_none_or(str::is_empty) => Err(refused("does not name a bucket".to_owned())),
            Some(vendor) => Ok(Location::Bucket(vendor, url)),
            None => Err(refused(format!(
                "begins with `{}://`, which is not a store",
                url.scheme()
            ))),
        }
    }
}

/// Refuses a bucket in a build that can only use folders.
#[cfg(not(feature = "object-stores"))]
pub(crate) fn no_buckets(url: &Url) -> ConfigError {
    ConfigError::new(
        "url",
        format!(
            "names a bucket (`{}://`), and this build can only use folders",
            url.scheme()
        ),
        "name a folder, or build with `--features fleet`",
    )
}

impl Validate for StoreConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        if self.keep_runs_days == 1 {
            return Err(ConfigError::new(
                "keep_runs_days",
                "is 1, and an active run gives a sign of life every few hours: one that is cut off for a day would be forgotten",
                "give 2 or more, or 0 to keep what runs rely on until they are deleted",
            ));
        }
        if !self.is_set() {
            return match &self.endpoint {
                Some(_) => Err(ConfigError::new(
                    "endpoint",
                    "is given without `url`",
                    "name the bucket, e.g. url = \"s3://bucket/prefix\", or leave the endpoint out",
                )),
                None => Ok(()),
            };
        }
        let location = self.location()?;
        #[cfg(not(feature = "object-stores"))]
        if let Location::Bucket(_, url) = &location {
            return Err(no_buckets(url));
        }
        if let Some(endpoint) = &self.endpoint {
            if !matches!(location, Location::Bucket(Vendor::Amazon, _)) {
                let message = "is only for S3 servers, but `url` names another kind of store";
                return Err(ConfigError::new(
                    "endpoint",
                    message,
                    "leave it out, or write url = \"s3://…\"",
                ));
            }
            let scheme = Url::parse(endpoint).map(|url| url.scheme().to_owned());
            if !matches!(scheme.as_deref(), Ok("http" | "https")) {
                return Err(ConfigError::new(
                    "endpoint",
                    "is not an http:// or https:// address",
                    "write it in full, e.g. https://minio.example:9000",
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn of(url: &str) -> StoreConfig {
        StoreConfig {
            url: url.to_owned(),
            ..StoreConfig::default()
        }
    }

    #[test]
    fn each_form_is_read_and_another_is_refused_with_the_forms() {
        assert_eq!(of("/mnt/x").location().unwrap(), Location::Folder("/mnt/x".into()));
        assert_eq!(
            of("file:///mnt/x").location().unwrap(),
            Location::Folder("/mnt/x".into())
        );
        for (url, says) in [
            ("redis://h", "redis"),
            ("s3://", "does not name a bucket"),
            ("s3://me:pw@b", "password"),
        ] {
            let error = of(url).validate().unwrap_err();
            assert_eq!(error.field(), "url", "{url}");
            assert!(error.to_string().contains(says), "{url}: {error}");
        }
    }

    #[test]
    fn buckets_of_three_vendors_are_known() {
        for (url, vendor) in [
            ("s3://b/p", Vendor::Amazon),
            ("gs://b", Vendor::Google),
            ("az://c/p", Vendor::Microsoft),
        ] {
            let location = of(url).location().unwrap();
            assert_eq!(location, Location::Bucket(vendor, Url::parse(url).unwrap()));
        }
    }

    #[test]
    #[cfg(not(feature = "object-stores"))]
    fn a_build_without_object_stores_refuses_a_bucket() {
        for url in ["s3://b/p", "gs://b", "az://c/p"] {
            let error = of(url).validate().unwrap_err();
            assert_eq!(error.field(), "url");
            assert!(error.hint().contains("--features fleet"), "{error}");
        }
    }

    #[test]
    #[cfg(feature = "object-stores")]
    fn an_endpoint_belongs_to_a_bucket() {
        let with = |url: &str, endpoint: &str| StoreConfig {
            endpoint: Some(endpoint.to_owned()),
            ..of(url)
        };
        for url in ["s3://b", "S3://b"] {
            with(url, "http://127.0.0.1:9000").validate().unwrap();
        }
        for (url, endpoint) in [("", "http://h"), ("/mnt", "http://h"), ("s3://b", "h:9000")] {
            assert_eq!(with(url, endpoint).validate().unwrap_err().field(), "endpoint", "{url}");
        }
        StoreConfig::default().validate().unwrap();
        let forgetful = StoreConfig {
            keep_runs_days: 1,
            ..StoreConfig::default()
        };
        assert_eq!(forgetful.validate().unwrap_err().field(), "keep_runs_days");
    }
}
