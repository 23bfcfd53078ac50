//! Buckets of S3, GCS and Azure.

use std::sync::Arc;

use object_store::{
    ObjectStore, RetryConfig, aws::AmazonS3Builder, azure::MicrosoftAzureBuilder, gcp::GoogleCloudStorageBuilder,
    path::Path, prefix::PrefixStore,
};
use url::Url;

use crate::config::{StoreConfig, Vendor};

pub(crate) fn open(vendor: Vendor, url: &Url, config: &StoreConfig) -> object_store::Result<Arc<dyn ObjectStore>> {
    isomer_service_kit::tls::install_crypto();
    let retry = RetryConfig {
        max_retries: usize::MAX,
        retry_timeout: config.retry(),
        ..RetryConfig::default()
    };
    Ok(match vendor {
        Vendor::Amazon => {
            let mut builder = AmazonS3Builder::from_env().with_url(url.as_str());
            if let Some(endpoint) = &config.endpoint {
                builder = builder
                    .with_endpoint(endpoint)
                    .with_allow_http(endpoint.starts_with("http://"));
            }
            below(builder.with_retry(retry).build()?, url.path())
        }
        Vendor::Google => {
            let builder = GoogleCloudStorageBuilder::from_env().with_url(url.as_str());
            below(builder.with_retry(retry).build()?, url.path())
        }
        Vendor::Microsoft => {
            let builder = MicrosoftAzureBuilder::from_env().with_url(url.as_str());
            below(builder.with_retry(retry).build()?, url.path())
        }
    })
}

/// The part of a store below a path.
fn below(store: impl ObjectStore, path: &str) -> Arc<dyn ObjectStore> {
    match path.trim_matches('/') {
        "" => Arc::new(store),
        prefix => Arc::new(PrefixStore::new(store, Path::from(prefix))),
    }
}
