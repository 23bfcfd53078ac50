//! Requests to an MLflow server.

use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use isomer_outbound::{
    body::{self, BodyError},
    client,
    said::cause,
    secret::bearer,
};
use isomer_service_kit::config::{ConfigError, Secret};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use super::wire::ErrorBody;
use crate::error::{RegistryError, Result};

/// Maximum silence of a server within an answer.
const SILENCE: Duration = Duration::from_secs(60);
/// Maximum bytes of an answer that is not a file.
const MOST_ANSWER: usize = 64 << 20;
/// How often a repeatable request is sent, and the first pause in between.
const TRIES: usize = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Maximum length of a server's message inside our own.
const MOST_WORDS: usize = 500;

/// The credentials for a tracking server, with the names of MLflow's own client.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// `MLFLOW_TRACKING_TOKEN`.
    pub token: Secret,
    /// `MLFLOW_TRACKING_USERNAME`.
    pub username: String,
    /// `MLFLOW_TRACKING_PASSWORD`.
    pub password: Secret,
}

impl Credentials {
    /// Credentials from the environment.
    pub fn from_env() -> Self {
        Self {
            token: Secret::from_env("MLFLOW_TRACKING_TOKEN"),
            username: std::env::var("MLFLOW_TRACKING_USERNAME").unwrap_or_default(),
            password: Secret::from_env("MLFLOW_TRACKING_PASSWORD"),
        }
    }

    fn header(&self) -> Option<Result<HeaderValue, http::header::InvalidHeaderValue>> {
        if !self.token.is_empty() {
            return bearer(&self.token).transpose();
        }
        let password = self.password.expose().filter(|_| !self.username.is_empty())?;
        let pair = STANDARD.encode(format!("{}:{password}", self.username));
        Some(HeaderValue::try_from(format!("Basic {pair}")).map(|mut value| {
            value.set_sensitive(true);
            value
        }))
    }
}

/// A client of one server.
#[derive(Debug, Clone)]
pub(super) struct Client {
    http: reqwest::Client,
    base: Url,
}

impl Client {
    pub(super) fn new(tracking_uri: &str, credentials: &Credentials) -> Result<Self> {
        let refused = |message: String| {
            let hint = "give the address of the tracking server, e.g. http://127.0.0.1:5000";
            RegistryError::from(ConfigError::new("tracking_uri", message, hint))
        };
        let mut base = Url::parse(tracking_uri).map_err(|error| refused(format!("cannot be read: {error}")))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(refused(format!("begins with `{}://`", base.scheme())));
        }
        if !base.username().is_empty() || base.password().is_some() {
            let hint = "give them in MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD";
            let message = "holds a user or a password, which would be shown with it";
            return Err(ConfigError::new("tracking_uri", message, hint).into());
        }
        if !base.path().ends_with('/') {
            let path = format!("{}/", base.path());
            base.set_path(&path);
        }
        let mut headers = HeaderMap::new();
        if let Some(value) = credentials.header() {
            let unfit = |_| {
                let message = "has characters that a header cannot hold";
                ConfigError::new("MLFLOW_TRACKING_TOKEN", message, "give the token alone")
            };
            headers.insert(AUTHORIZATION, value.map_err(unfit)?);
        }
        let http = client::builder()
            .read_timeout(SILENCE)
            .default_headers(headers)
            .build()
            .map_err(|error| refused(cause(&error)))?;
        Ok(Self { http, base })
    }

    /// The address of a path below the server's; each segment is escaped.
    pub(super) fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments
                .pop_if_empty()
                .extend(path.split('/').filter(|part| !part.is_empty()));
        }
        url
    }

    /// Whether a host and port are those of the server.
    pub(super) fn is_at(&self, other: &Url) -> bool {
        self.base.host_str() == other.host_str() && (other.port().is_none() || self.base.port() == other.port())
    }

    /// `GET` of the REST API.
    pub(super) async fn get<T: DeserializeOwned>(&self, doing: &str, path: &str, query: &[(&str, &str)]) -> Result<T> {
        let mut url = self.api(path);
        url.query_pairs_mut().extend_pairs(query);
        self.read(doing, || self.http.get(url.clone()), TRIES).await
    }

    /// A repeatable request: setting the same value again changes nothing.
    pub(super) async fn send<T: DeserializeOwned>(
        &self,
        doing: &str,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<T> {
        let url = self.api(path);
        self.read(
            doing,
            || self.http.request(method.clone(), url.clone()).json(body),
            TRIES,
        )
        .await
    }

    /// A request that creates something new each time.
    pub(super) async fn create<T: DeserializeOwned>(&self, doing: &str, path: &str, body: &Value) -> Result<T> {
        let url = self.api(path);
        self.read(doing, || self.http.post(url.clone()).json(body), 1).await
    }

    /// `GET` of any path; the answer is read piece by piece.
    pub(super) async fn open(&self, doing: &str, url: Url) -> Result<Response> {
        self.answer(doing, || self.http.get(url.clone()), TRIES).await
    }

    /// `GET` of any path.
    pub(super) async fn get_url<T: DeserializeOwned>(&self, doing: &str, url: Url) -> Result<T> {
        self.read(doing, || self.http.get(url.clone()), TRIES).await
    }

    /// `PUT` of bytes.
    pub(super) async fn put(&self, doing: &str, url: Url, body: &[u8]) -> Result<()> {
        let request = || self.http.put(url.clone()).body(body.to_vec());
        self.answer(doing, request, TRIES).await.map(drop)
    }

    fn api(&self, path: &str) -> Url {
        self.url(&format!("api/2.0/mlflow/{path}"))
    }

    async fn read<T: DeserializeOwned>(
        &self,
        doing: &str,
        request: impl Fn() -> RequestBuilder,
        tries: usize,
    ) -> Result<T> {
        let mut answer = self.answer(doing, request, tries).await?;
        let body = match body::read(&mut answer, MOST_ANSWER).await {
            Ok(body) => body,
            Err(BodyError::Broken(error)) => return Err(unavailable(doing, cause(&error))),
            Err(error) => return Err(unreadable(doing, error.to_string())),
        };
        serde_json::from_slice(&body).map_err(|error| unreadable(doing, error.to_string()))
    }

    async fn answer(&self, doing: &str, request: impl Fn() -> RequestBuilder, tries: usize) -> Result<Response> {
        let send = || async {
            match request().send().await {
                Ok(answer) if answer.status().is_success() => Ok(answer),
                Ok(answer) => Err(refusal(doing, answer).await),
                Err(error) => Err(unavailable(doing, cause(&error))),
            }
        };
        let pauses = ExponentialBuilder::default()
            .with_min_delay(FIRST_PAUSE)
            .with_max_times(tries.saturating_sub(1));
        send.retry(pauses)
            .when(|error| matches!(error, RegistryError::Unavailable { .. }))
            .await
    }
}

async fn refusal(doing: &str, mut answer: Response) -> RegistryError {
    let status = answer.status();
    let body = body::read_by_status(&mut answer, MOST_ANSWER).await.unwrap_or_default();
    let error_body: ErrorBody = serde_json::from_slice(&body).unwrap_or_default();
    let message = match error_body.message.is_empty() {
        true => String::from_utf8_lossy(&body).into_owned(),
        false => error_body.message,
    };
    let message: String = message.trim().chars().take(MOST_WORDS).collect();
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::REQUEST_TIMEOUT {
        return unavailable(doing, format!("the registry answered {status}: {message}"));
    }
    RegistryError::Refused {
        doing: doing.to_owned(),
        status: status.as_u16(),
        code: error_body.error_code,
        message,
    }
}

pub(super) fn unavailable(doing: &str, message: String) -> RegistryError {
    RegistryError::Unavailable {
        doing: doing.to_owned(),
        message,
    }
}

fn unreadable(doing: &str, message: String) -> RegistryError {
    RegistryError::Unreadable {
        doing: doing.to_owned(),
        message,
    }
}
