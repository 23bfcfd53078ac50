//! A repository of a registry: manifests and blobs.

use std::{io::Write as _, path::Path, time::Duration};

use backon::{ExponentialBuilder, Retryable};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE},
};
use isomer_outbound::{
    body::{self, BodyError},
    client,
    said::{cause, presentable},
};
use reqwest::Response;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use url::Url;

use crate::{
    credentials::Credentials,
    error::{OciError, Result},
    reference::{Reference, is_digest},
};

/// Media types of manifests and indexes.
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFESTS: [&str; 4] = [
    MANIFEST,
    INDEX,
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];

/// Maximum silence of a registry within an answer.
const SILENCE: Duration = Duration::from_secs(60);
/// Maximum bytes of a manifest: the registries' own bound.
const MOST_MANIFEST: usize = 4 << 20;
/// How often a request is sent, and the first pause in between.
const TRIES: usize = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Maximum number of redirects from a blob to its bytes.
const MOST_REDIRECTS: usize = 3;

#[derive(Debug)]
pub struct Repository {
    http: reqwest::Client,
    base: Url,
    name: String,
    credentials: Credentials,
    /// The authorization of requests, known after the first refused one.
    authorization: Mutex<Option<HeaderValue>>,
}

/// A manifest or an index, as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    pub bytes: Vec<u8>,
    pub media_type: String,
    /// The digest of the bytes.
    pub digest: String,
}

/// `sha256:…` of bytes.
pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

impl Repository {
    /// The repository of a reference. Registries of this machine are accessed without TLS, and so
    /// are others if `plain_http` is set.
    ///
    /// # Errors
    /// If the host is invalid.
    pub fn new(reference: &Reference, credentials: Credentials, plain_http: bool) -> Result<Self> {
        let scheme = if plain_http || reference.is_loopback() {
            "http"
        } else {
            "https"
        };
        let bad = |message: String| OciError::Unreadable {
            doing: format!("the address of {}", reference.host),
            message,
        };
        let base = Url::parse(&format!("{scheme}://{}/v2/", reference.host)).map_err(|error| bad(error.to_string()))?;
        let http = client::builder()
            .read_timeout(SILENCE)
            .build()
            .map_err(|error| bad(cause(&error)))?;
        Ok(Self {
            http,
            base,
            name: reference.repository.clone(),
            credentials,
            authorization: Mutex::default(),
        })
    }

    /// A manifest or an index by its tag or digest; `None` if it does not exist.
    ///
    /// # Errors
    /// If the registry fails or refuses, or the bytes do not match the digest.
    pub async fn manifest(&self, version: &str) -> Result<Option<Manifest>> {
        let doing = format!("fetching the manifest {version}");
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, header(&doing, &MANIFESTS.join(", "))?);
        let url = self.url(&doing, &format!("manifests/{version}"))?;
        let mut answer = match self.send(&doing, Method::GET, url, &headers, &[]).await {
            Err(OciError::Refused { status: 404, .. }) => return Ok(None),
            answer => answer?,
        };
        let media_type = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media_type = media_type.map(|value| value.split(';').next().unwrap_or_default().trim().to_owned());
        let bytes = read(&doing, &mut answer, MOST_MANIFEST).await?;
        let found = digest(&bytes);
        if is_digest(version) && found != version {
            return Err(unreadable(&doing, format!("its bytes have the digest {found}")));
        }
        Ok(Some(Manifest {
            digest: found,
            media_type: media_type.unwrap_or_default(),
            bytes,
        }))
    }

    /// Writes a manifest at a tag or its digest. Returns the digest of the subject if the registry
    /// reports that it has recorded the manifest as one of its referrers.
    ///
    /// # Errors
    /// If the registry fails or refuses.
    pub async fn put_manifest(&self, version: &str, media_type: &str, bytes: &[u8]) -> Result<Option<String>> {
        let doing = format!("writing the manifest {version}");
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, header(&doing, media_type)?);
        let url = self.url(&doing, &format!("manifests/{version}"))?;
        let answer = self.send(&doing, Method::PUT, url, &headers, bytes).await?;
        let noted = answer.headers().get("oci-subject");
        Ok(noted.and_then(|value| value.to_str().ok()).map(str::to_owned))
    }

    /// Writes a blob, unless it exists.
    ///
    /// # Errors
    /// If the registry fails or refuses.
    pub async fn put_blob(&self, bytes: &[u8]) -> Result<String> {
        let digest = digest(bytes);
        let doing = "writing a blob";
        let none = HeaderMap::new();
        let url = self.url(doing, &format!("blobs/{digest}"))?;
        match self.send(doing, Method::HEAD, url, &none, &[]).await {
            Ok(_) => return Ok(digest),
            Err(OciError::Refused { status: 404, .. }) => {}
            Err(error) => return Err(error),
        }
        let url = self.url(doing, "blobs/uploads/")?;
        let answer = self.send(doing, Method::POST, url.clone(), &none, &[]).await?;
        let mut upload = location(doing, &url, answer.headers())?;
        upload.query_pairs_mut().append_pair("digest", &digest);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        self.send(doing, Method::PUT, upload, &headers, bytes).await?;
        Ok(digest)
    }

    /// Writes a blob to a file, and verifies its digest. Returns `false` if it is longer than
    /// `most`.
    ///
    /// # Errors
    /// If the registry fails or refuses, the bytes do not match the digest, or the file cannot be
    /// written.
    pub async fn blob(&self, wanted: &str, to: &Path, most: u64) -> Result<bool> {
        let doing = format!("fetching the blob {wanted}");
        let mut url = self.url(&doing, &format!("blobs/{wanted}"))?;
        let mut answer = None;
        for _ in 0..=MOST_REDIRECTS {
            let one = self
                .send(&doing, Method::GET, url.clone(), &HeaderMap::new(), &[])
                .await?;
            if !one.status().is_redirection() {
                answer = Some(one);
                break;
            }
            url = location(&doing, &url, one.headers())?;
        }
        let mut answer = answer.ok_or_else(|| unreadable(&doing, "it is redirected in a circle".to_owned()))?;
        let io = |source| OciError::Io {
            path: to.to_owned(),
            source,
        };
        let mut output = std::fs::File::create(to).map_err(io)?;
        let (mut hash, mut size) = (Sha256::new(), 0_u64);
        while let Some(bytes) = answer
            .chunk()
            .await
            .map_err(|error| unavailable(&doing, cause(&error)))?
        {
            size = size.saturating_add(bytes.len() as u64);
            if size > most {
                return Ok(false);
            }
            hash.update(&bytes);
            output.write_all(&bytes).map_err(io)?;
        }
        let found = format!("sha256:{}", hex::encode(hash.finalize()));
        if found != wanted {
            return Err(unreadable(&doing, format!("its bytes have the digest {found}")));
        }
        Ok(true)
    }

    /// The answer of the referrers API for a digest; `None` if the registry has no such API.
    ///
    /// # Errors
    /// If the registry fails or refuses.
    pub async fn referrers(&self, digest: &str) -> Result<Option<Vec<u8>>> {
        let doing = format!("asking for the referrers of {digest}");
        let url = self.url(&doing, &format!("referrers/{digest}"))?;
        match self.send(&doing, Method::GET, url, &HeaderMap::new(), &[]).await {
            // A registry that does not know the path may treat it as an invalid name.
            Err(OciError::Refused {
                status: 400 | 404 | 405,
                ..
            }) => Ok(None),
            answer => {
                let mut answer = answer?;
                read(&doing, &mut answer, MOST_MANIFEST).await.map(Some)
            }
        }
    }

    fn url(&self, doing: &str, path: &str) -> Result<Url> {
        self.base
            .join(&format!("{}/{path}", self.name))
            .map_err(|error| unreadable(doing, error.to_string()))
    }

    /// Sends a request, and repeats it with authorization if the registry requires that. Blobs and
    /// manifests are written by content, so every request is repeatable.
    async fn send(&self, doing: &str, method: Method, url: Url, headers: &HeaderMap, body: &[u8]) -> Result<Response> {
        let once = || async {
            let answer = self.try_send(doing, &method, &url, headers, body).await?;
            let status = answer.status();
            if status != StatusCode::UNAUTHORIZED || !self.is_own(&url) {
                return self.checked(doing, answer).await;
            }
            let challenge = answer.headers().get_all(WWW_AUTHENTICATE).iter();
            let challenges: Vec<String> = challenge
                .filter_map(|value| value.to_str().ok().map(str::to_owned))
                .collect();
            let authorization = self.authenticate(doing, &challenges).await?;
            *self.authorization.lock().await = Some(authorization);
            let answer = self.try_send(doing, &method, &url, headers, body).await?;
            self.checked(doing, answer).await
        };
        let pauses = ExponentialBuilder::default()
            .with_min_delay(FIRST_PAUSE)
            .with_max_times(TRIES - 1);
        once.retry(pauses)
            .when(|error| matches!(error, OciError::Unavailable { .. }))
            .await
    }

    async fn try_send(
        &self,
        doing: &str,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Response> {
        let mut request = self.http.request(method.clone(), url.clone()).headers(headers.clone());
        // If bytes are stored elsewhere, their address is signed; the registry's token is not sent
        // there.
        if self.is_own(url)
            && let Some(value) = self.authorization.lock().await.clone()
        {
            request = request.header(AUTHORIZATION, value);
        }
        if *method == Method::PUT || *method == Method::POST {
            request = request.body(body.to_vec());
        }
        request.send().await.map_err(|error| unavailable(doing, cause(&error)))
    }

    fn is_own(&self, url: &Url) -> bool {
        url.origin() == self.base.origin()
    }

    async fn checked(&self, doing: &str, mut answer: Response) -> Result<Response> {
        let status = answer.status();
        if status.is_success() || status.is_redirection() {
            return Ok(answer);
        }
        let content = body::read_by_status(&mut answer, MOST_MANIFEST)
            .await
            .unwrap_or_default();
        let body: Errors = serde_json::from_slice(&content).unwrap_or_default();
        let words = body.errors.first().map(|one| format!("{} ({})", one.message, one.code));
        let words = words.unwrap_or_else(|| String::from_utf8_lossy(&content).into_owned());
        let message = presentable(&words, &self.credentials.password);
        let doing = doing.to_owned();
        Err(match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => OciError::Denied { doing, message },
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => OciError::Unavailable { doing, message },
            status if status.is_server_error() => OciError::Unavailable {
                message: format!("the registry answered {status}: {message}"),
                doing,
            },
            status => OciError::Refused {
                doing,
                status: status.as_u16(),
                message,
            },
        })
    }

    /// The authorization that the registry's challenge requires: a user and a password, or a token
    /// for this repository.
    async fn authenticate(&self, doing: &str, challenges: &[String]) -> Result<HeaderValue> {
        let denied = |message: &str| OciError::Denied {
            doing: doing.to_owned(),
            message: message.to_owned(),
        };
        let parsed: Vec<_> = challenges
            .iter()
            .filter_map(|text| http_auth::parse_challenges(text).ok())
            .flatten()
            .collect();
        let of = |scheme: &str| parsed.iter().find(|one| one.scheme.eq_ignore_ascii_case(scheme));
        if let Some(bearer) = of("Bearer") {
            let parameter = |name: &str| {
                let found = bearer.params.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
                found.map(|(_, value)| value.to_unescaped())
            };
            let realm = parameter("realm").ok_or_else(|| denied("its challenge names no realm"))?;
            let mut url = Url::parse(&realm).map_err(|_| denied("the realm of its challenge is not an address"))?;
            if url.scheme() != "https" && self.base.scheme() != "http" {
                return Err(denied("it asks for the password without TLS"));
            }
            // The challenge may request less than is needed, such as read access only.
            let scope = format!("repository:{}:pull,push", self.name);
            url.query_pairs_mut().append_pair("scope", &scope);
            if let Some(service) = parameter("service") {
                url.query_pairs_mut().append_pair("service", &service);
            }
            let mut request = self.http.get(url);
            if let Some(basic) = self.basic() {
                request = request.header(AUTHORIZATION, basic);
            }
            let answer = request
                .send()
                .await
                .map_err(|error| unavailable(doing, cause(&error)))?;
            let mut answer = self.checked("asking for a token", answer).await?;
            let token: Token = serde_json::from_slice(&read(doing, &mut answer, MOST_MANIFEST).await?)
                .map_err(|error| unreadable("asking for a token", error.to_string()))?;
            let token = token
                .token
                .or(token.access_token)
                .ok_or_else(|| denied("it gave no token"))?;
            return secret_header(&format!("Bearer {token}")).ok_or_else(|| denied("its token is not one"));
        }
        match of("Basic") {
            Some(_) => self
                .basic()
                .ok_or_else(|| denied("it wants a user and a password, and none is known")),
            None => Err(denied("it asks for a kind of authentication that is not known here")),
        }
    }

    fn basic(&self) -> Option<HeaderValue> {
        let password = self
            .credentials
            .password
            .expose()
            .filter(|_| !self.credentials.is_none())?;
        secret_header(&format!(
            "Basic {}",
            STANDARD.encode(format!("{}:{password}", self.credentials.username))
        ))
    }
}

#[derive(Debug, Default, Deserialize)]
struct Errors {
    #[serde(default)]
    errors: Vec<ErrorEntry>,
}

#[derive(Debug, Deserialize)]
struct ErrorEntry {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

async fn read(doing: &str, answer: &mut Response, most: usize) -> Result<Vec<u8>> {
    match body::read(answer, most).await {
        Ok(bytes) => Ok(bytes),
        Err(BodyError::Broken(error)) => Err(unavailable(doing, cause(&error))),
        Err(error) => Err(unreadable(doing, error.to_string())),
    }
}

/// The location of the next request, which may be relative. It must not lead from https to http.
fn location(doing: &str, from: &Url, headers: &HeaderMap) -> Result<Url> {
    let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
    let location =
        location.ok_or_else(|| unreadable(doing, "the registry does not say where to continue".to_owned()))?;
    let url = from
        .join(location)
        .map_err(|error| unreadable(doing, error.to_string()))?;
    match url.scheme() {
        "https" => Ok(url),
        "http" if from.scheme() == "http" => Ok(url),
        scheme => Err(unreadable(doing, format!("the registry leads to `{scheme}://`"))),
    }
}

fn header(doing: &str, text: &str) -> Result<HeaderValue> {
    HeaderValue::try_from(text).map_err(|error| unreadable(doing, error.to_string()))
}

fn secret_header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn unavailable(doing: &str, message: String) -> OciError {
    OciError::Unavailable {
        doing: doing.to_owned(),
        message,
    }
}

pub(crate) fn unreadable(doing: &str, message: String) -> OciError {
    OciError::Unreadable {
        doing: doing.to_owned(),
        message,
    }
}
