//! The endpoint of a remote generator.

use isomer_outbound::{
    client,
    guard::{AddressGuard, Resolver},
};
use url::Url;

use crate::{
    config::{GeneratorConfig, Structured},
    error::TransformError,
};

/// A server, as it is configured or named by a request.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) id: String,
    pub(super) config: GeneratorConfig,
    /// Only addresses that it allows are called.
    pub(super) guard: Option<AddressGuard>,
}

impl Endpoint {
    /// The URL without a slash at its end.
    pub(super) fn base(&self) -> &str {
        self.config.url.as_deref().unwrap_or_default().trim_end_matches('/')
    }

    pub(super) fn url(&self) -> Result<Url, TransformError> {
        Url::parse(self.base()).map_err(|error| self.refused(error.to_string(), "correct the URL"))
    }

    /// The generator's part of a cache key. `digest`: digest of the model, if the server names one.
    pub(super) fn cache_key(&self, digest: Option<&str>) -> String {
        let mut key = format!("openai:{}@{}", self.config.model, self.base());
        if let Some(digest) = digest {
            key.push_str(&format!("@sha256:{digest}"));
        }
        if !self.config.revision.is_empty() {
            key.push_str(&format!("#revision={}", self.config.revision));
        }
        let mut omitted: Vec<&str> = self.config.parameters.omit.iter().map(String::as_str).collect();
        omitted.sort_unstable();
        omitted.dedup();
        if !omitted.is_empty() {
            key.push_str(&format!("#omit={}", omitted.join(",")));
        }
        if self.config.structured != Structured::Off {
            key.push_str(&format!("#structured={}", self.config.structured.name()));
        }
        key
    }

    /// A client for its server.
    pub(super) fn client(&self) -> Result<reqwest::Client, TransformError> {
        let mut builder = client::builder();
        if let Some(guard) = &self.guard {
            if let Some(host) = self.url()?.host() {
                // A literal IP address never reaches the resolver, so the guard checks it here.
                guard.check_literal(&host).map_err(|fault| {
                    self.refused(
                        fault.message,
                        "name a server at a public address, or have transform.addresses allow this one",
                    )
                })?;
            }
            let guard = guard.clone();
            builder = client::guarded(builder, Resolver { guard, host: None });
        }
        let built = builder
            .connect_timeout(self.config.connect_timeout())
            .timeout(self.config.timeout())
            .build();
        built.map_err(|error| {
            self.refused(
                format!("no HTTP client can be made: {error}"),
                "check the TLS certificates of this machine",
            )
        })
    }

    pub(super) fn refused(&self, message: String, hint: &str) -> TransformError {
        TransformError::Refused {
            id: self.id.clone(),
            message,
            hint: hint.into(),
        }
    }
}
