//! Requests to the hub.

use reqwest::{
    RequestBuilder, Response,
    header::{AUTHORIZATION, CONTENT_RANGE, ETAG, HeaderValue, LOCATION, RANGE},
    redirect::Policy,
};
use serde::Deserialize;

/// As many redirects as browsers follow.
const MOST_REDIRECTS: usize = 10;

/// A client of the hub. Its token is sent only to the hub: it is dropped on a redirect to another
/// server.
#[derive(Debug, Clone)]
pub(super) struct Client {
    authorization: Option<HeaderValue>,
    /// Follows redirects.
    everywhere: reqwest::Client,
    /// Follows redirects within the hub. If the hub redirects to a store of large files, the hub's
    /// own response is returned, because only that one has the digest.
    within: reqwest::Client,
}

/// The commit of a repository and the names of its files.
#[derive(Debug, Deserialize)]
pub(super) struct Listing {
    pub(super) sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Debug, Deserialize)]
struct Sibling {
    rfilename: String,
}

impl Listing {
    pub(super) fn files(self) -> Vec<String> {
        self.siblings.into_iter().map(|sibling| sibling.rfilename).collect()
    }
}

/// The answer to a request for the first byte of a file.
#[derive(Debug)]
pub(super) struct Metadata {
    /// The sha256 of a large file, or another digest of a small one.
    pub(super) etag: String,
    pub(super) size: u64,
}

/// The reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("request error: {0}")]
    Request(#[from] reqwest::Error),
    #[error("its answer has no valid header `{0}`")]
    Header(&'static str),
}

impl Client {
    /// # Errors
    /// If the token is not a valid header or TLS cannot be set up.
    pub(super) fn new(token: Option<&str>) -> Result<Self, String> {
        let authorization = token.map(|token| HeaderValue::try_from(format!("Bearer {token}")));
        let mut authorization = authorization
            .transpose()
            .map_err(|_| "the token has characters that a header cannot have".to_owned())?;
        if let Some(value) = &mut authorization {
            value.set_sensitive(true);
        }
        // An error means that a provider is installed already, which is sufficient.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let build = |policy| {
            reqwest::Client::builder()
                .user_agent(concat!("isomer/", env!("CARGO_PKG_VERSION")))
                .redirect(policy)
                .build()
                .map_err(|error| error.to_string())
        };
        let within = Policy::custom(|attempt| {
            let same = attempt
                .previous()
                .last()
                .is_none_or(|last| last.origin() == attempt.url().origin());
            match attempt.previous().len() {
                hops if hops > MOST_REDIRECTS => attempt.error("too many redirects"),
                _ if same => attempt.follow(),
                _ => attempt.stop(),
            }
        });
        Ok(Self {
            authorization,
            everywhere: build(Policy::limited(MOST_REDIRECTS))?,
            within: build(within)?,
        })
    }

    pub(super) async fn list(&self, url: &str) -> Result<Listing, reqwest::Error> {
        let answer = self.authorized(self.everywhere.get(url)).send().await?;
        answer.error_for_status()?.json().await
    }

    pub(super) async fn metadata(&self, url: &str) -> Result<Metadata, RequestError> {
        let first = "bytes=0-0";
        let asked = self.authorized(self.within.get(url)).header(RANGE, first).send();
        let answer = asked.await?.error_for_status()?;
        let etag = header(&answer, "x-linked-etag").or_else(|| header(&answer, ETAG.as_str()));
        let etag = etag.ok_or(RequestError::Header("etag"))?.replace('"', "");
        let stored = if answer.status().is_redirection() {
            let location = header(&answer, LOCATION.as_str()).and_then(|location| answer.url().join(location).ok());
            let location = location.ok_or(RequestError::Header("location"))?;
            let asked = self.everywhere.get(location).header(RANGE, first).send();
            asked.await?.error_for_status()?
        } else {
            answer
        };
        let size = header(&stored, CONTENT_RANGE.as_str())
            .and_then(|range| range.rsplit('/').next()?.parse().ok())
            .ok_or(RequestError::Header("content-range"))?;
        Ok(Metadata { etag, size })
    }

    /// The bytes of a file between two positions, both included.
    pub(super) async fn range(&self, url: &str, from: u64, to: u64) -> Result<Response, reqwest::Error> {
        let asked = self.authorized(self.everywhere.get(url));
        let answer = asked.header(RANGE, format!("bytes={from}-{to}")).send().await?;
        answer.error_for_status()
    }

    fn authorized(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.authorization {
            Some(value) => request.header(AUTHORIZATION, value.clone()),
            None => request,
        }
    }
}

fn header<'a>(answer: &'a Response, name: &str) -> Option<&'a str> {
    answer.headers().get(name)?.to_str().ok()
}
