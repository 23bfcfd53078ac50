//! Requests to stores with a JSON API over HTTP.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION};
use isomer_outbound::{
    body::{self, BodyError},
    client,
    said::{ErrorBody, cause, presentable},
};
use isomer_service_kit::config::Secret;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::Value;
use url::Url;

use crate::{
    address::StoreAddress,
    error::{IndexError, Result},
    retry,
};

/// Maximum silence of a store within an answer.
const SILENCE: Duration = Duration::from_secs(120);
/// Maximum bytes of an answer: a page of rows, or vectors.
const MOST_ANSWER: usize = 256 << 20;

/// The credentials for stores that are servers.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// `ISOMER_SINK_API_KEY`.
    pub api_key: Secret,
    /// `ISOMER_SINK_USER`.
    pub user: String,
    /// `ISOMER_SINK_PASSWORD`.
    pub password: Secret,
}

impl Credentials {
    /// Credentials from the environment for a collection that is read as a source. It may be on
    /// another server, which must not receive the sink's credentials.
    pub fn for_source() -> Self {
        Self {
            api_key: Secret::from_env("ISOMER_SOURCE_API_KEY"),
            user: std::env::var("ISOMER_SOURCE_USER").unwrap_or_default(),
            password: Secret::from_env("ISOMER_SOURCE_PASSWORD"),
        }
    }

    /// Credentials from the environment.
    pub fn from_env() -> Self {
        Self {
            api_key: Secret::from_env("ISOMER_SINK_API_KEY"),
            user: std::env::var("ISOMER_SINK_USER").unwrap_or_default(),
            password: Secret::from_env("ISOMER_SINK_PASSWORD"),
        }
    }
}

/// A store's server, and the collection.
#[derive(Debug, Clone)]
pub(crate) struct Http {
    client: reqwest::Client,
    base: Url,
    pub(crate) collection: String,
    pub(crate) shown: String,
    secrets: [Secret; 2],
    patience: Duration,
}

impl Http {
    /// The server at `http(s)://HOST:PORT#COLLECTION`. `key_header` is the header for the key; in
    /// `authorization` it is an `ApiKey`.
    pub(crate) fn open(
        address: &str,
        key_header: &'static str,
        credentials: &Credentials,
        patience: Duration,
    ) -> Result<Self> {
        let refused = |message: String, hint| IndexError::Setting {
            field: "sink",
            message,
            hint,
        };
        let (place, collection) = StoreAddress::read_store(address)?;
        let mut base = place.url;
        if !base.path().ends_with('/') {
            let path = format!("{}/", base.path());
            base.set_path(&path);
        }
        let mut headers = HeaderMap::new();
        if let Some((name, value)) = login(key_header, credentials) {
            let mut value = HeaderValue::try_from(value).map_err(|_| {
                refused(
                    "the key or password has characters that a header cannot hold".to_owned(),
                    "give it alone in ISOMER_SINK_API_KEY or ISOMER_SINK_PASSWORD",
                )
            })?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let built = client::builder().read_timeout(SILENCE).default_headers(headers).build();
        let client = built.map_err(|error| refused(cause(&error), "check the platform's TLS certificates"))?;
        Ok(Self {
            client,
            base,
            collection,
            shown: place.shown,
            secrets: [credentials.api_key.clone(), credentials.password.clone()],
            patience,
        })
    }

    /// Another collection of the same server.
    pub(crate) fn of(&self, collection: &str) -> Self {
        let server = self
            .shown
            .split_once('#')
            .map_or(self.shown.as_str(), |(server, _)| server);
        Self {
            collection: collection.to_owned(),
            shown: format!("{server}#{collection}"),
            ..self.clone()
        }
    }

    /// How long transient failures are retried.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// Sends and receives JSON. A repeatable request is retried while its failure may be transient.
    /// `None` for a 404 answer.
    pub(crate) async fn find(
        &self,
        doing: &str,
        method: Method,
        path: &[&str],
        body: Option<&Value>,
    ) -> Result<Option<Value>> {
        let url = self.url(path);
        self.call(doing, &|| {
            let request = self.client.request(method.clone(), url.clone());
            match body {
                Some(body) => request.json(body),
                None => request,
            }
        })
        .await
    }

    /// [`Http::find`] for objects that must exist.
    pub(crate) async fn send(&self, doing: &str, method: Method, path: &[&str], body: Option<&Value>) -> Result<Value> {
        self.found(self.find(doing, method, path, body).await?)
    }

    /// Sends lines of JSON.
    pub(crate) async fn send_lines(&self, doing: &str, path: &[&str], lines: &str) -> Result<Value> {
        let url = self.url(path);
        let request = || {
            let request = self
                .client
                .post(url.clone())
                .header("content-type", "application/x-ndjson");
            request.body(lines.to_owned())
        };
        self.found(self.call(doing, &request).await?)
    }

    fn found(&self, answer: Option<Value>) -> Result<Value> {
        answer.ok_or_else(|| IndexError::NoCollection {
            collection: self.shown.clone(),
        })
    }

    /// The address of a path. Each segment is escaped, and the part after `?` in the last is a
    /// query.
    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        let mut query = None;
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty();
            for part in path {
                match part.strip_prefix('?') {
                    Some(rest) => query = Some(rest),
                    None => drop(segments.push(part)),
                }
            }
        }
        url.set_query(query);
        url
    }

    async fn call(&self, doing: &str, request: &(dyn Fn() -> RequestBuilder + Sync)) -> Result<Option<Value>> {
        let doing = format!("{doing} {}", self.shown);
        retry::calls(self.patience, || self.once(&doing, request)).await
    }

    async fn once(&self, doing: &str, request: &(dyn Fn() -> RequestBuilder + Sync)) -> Result<Option<Value>> {
        let unavailable = |message: String| IndexError::Unavailable {
            doing: doing.to_owned(),
            message,
        };
        let refused = |message: String| IndexError::Refused {
            doing: doing.to_owned(),
            message,
        };
        let mut answer = request().send().await.map_err(|error| unavailable(cause(&error)))?;
        let status = answer.status();
        let body = match body::read_by_status(&mut answer, MOST_ANSWER).await {
            Ok(body) => body,
            Err(BodyError::Broken(error)) => return Err(unavailable(cause(&error))),
            Err(error) => return Err(refused(error.to_string())),
        };
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        if status.is_success() {
            if body.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some(Value::Null));
            }
            let read = serde_json::from_slice(&body);
            return read
                .map(Some)
                .map_err(|error| refused(format!("the answer is not JSON: {error}")));
        }
        let message = format!("the store answered {status}: {}", self.words(&body));
        if status.is_server_error() || matches!(status.as_u16(), 408 | 429) {
            return Err(unavailable(message));
        }
        Err(refused(message))
    }

    /// The message of an error, without our secrets.
    fn words(&self, body: &[u8]) -> String {
        let [key, password] = &self.secrets;
        let mut message = ErrorBody::read(body, key).message;
        if message.is_empty() {
            message = presentable(&String::from_utf8_lossy(body), key);
        }
        presentable(&message, password)
    }
}

/// The header with the credentials, if there are any.
fn login(key_header: &'static str, credentials: &Credentials) -> Option<(HeaderName, String)> {
    if let Some(password) = credentials.password.expose().filter(|_| !credentials.user.is_empty()) {
        let pair = STANDARD.encode(format!("{}:{password}", credentials.user));
        return Some((AUTHORIZATION, format!("Basic {pair}")));
    }
    let key = credentials.api_key.expose()?;
    let value = match key_header {
        "authorization" => format!("ApiKey {key}"),
        _ => key.to_owned(),
    };
    Some((HeaderName::from_static(key_header), value))
}
