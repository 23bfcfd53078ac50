//! One HTTP exchange with an OpenAI-compatible server: sent once, read under a limit, sorted into what may be tried again
//! and what may not. It stands where async-openai would put its own retrying transport.
//!
//! Some servers repeat the key they refuse. What a server says is passed on in errors and logs, so the key is taken out of
//! it here, where it comes in.

use std::{
    borrow::Cow,
    task::{Context, Poll},
    time::Duration,
};

use async_openai::{error::OpenAIError, middleware::HttpRequestFactory};
use futures::future::BoxFuture;
use http::{StatusCode, header};
use isomer_service_kit::config::Secret;
use serde::{Deserialize, Serialize};

/// Largest answer that is read, in bytes.
const MAX_ANSWER: usize = 16 << 20;
/// Most of an error's text that is passed on, in characters.
const EXCERPT: usize = 300;
/// What stands where a server repeated the key.
const HIDDEN: &str = "[key]";
/// Keys shorter than this, in bytes, are placeholders (`none`, `EMPTY`) that may be ordinary words of a message.
const SHORTEST_KEY: usize = 8;

/// What we read of a completion, of a conversation or of a text. Servers differ in the rest.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Reply {
    choices: Vec<Choice>,
    #[serde(default)]
    pub(super) usage: Option<Usage>,
}

/// One of these, by what was asked for.
#[derive(Debug, Serialize, Deserialize)]
struct Choice {
    /// The next message of a conversation.
    #[serde(default)]
    message: Option<ReplyMessage>,
    /// How a text goes on.
    #[serde(default)]
    text: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ReplyMessage {
    #[serde(default)]
    content: Option<String>,
}

impl Choice {
    fn content(&self) -> Option<&str> {
        match &self.message {
            Some(message) => message.content.as_deref(),
            None => self.text.as_deref(),
        }
    }
}

impl Reply {
    /// The first choice's text; a model that says nothing has none.
    pub(super) fn content(&self) -> Option<&str> {
        self.choices.first()?.content()
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Usage {
    #[serde(default)]
    pub(super) prompt_tokens: u64,
    #[serde(default)]
    pub(super) completion_tokens: u64,
}

/// Why one exchange gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CallError {
    /// No connection.
    #[error("no connection: {0}")]
    Connect(String),
    /// A connection that broke.
    #[error("{0}")]
    Broken(String),
    /// Nothing in time.
    #[error("the server did not answer in time")]
    Late,
    /// 429, 5xx and the like.
    #[error("the server answered {status}{}", told(.message))]
    Busy {
        status: u16,
        message: String,
        retry_after: Option<Duration>,
    },
    /// An answer that is no completion.
    #[error("the server's answer is no completion: {0}")]
    Malformed(String),
    /// A status that will be the same for every request.
    #[error("the server answered {status}{}", told(.message))]
    Refused { status: u16, message: String },
    /// A status that is about this request alone.
    #[error("the server answered {status}{}", told(.message))]
    Rejected { status: u16, message: String },
}

impl CallError {
    /// Its name in traces: one of a bounded set.
    pub(super) fn kind(&self) -> Cow<'static, str> {
        match self {
            Self::Connect(_) => "connect".into(),
            Self::Broken(_) => "connection_broken".into(),
            Self::Late => "timeout".into(),
            Self::Malformed(_) => "malformed_answer".into(),
            Self::Busy { status, .. } | Self::Refused { status, .. } | Self::Rejected { status, .. } => {
                status.to_string().into()
            }
        }
    }
}

fn told(message: &str) -> String {
    if message.is_empty() {
        String::new()
    } else {
        format!(": {message}")
    }
}

/// The transport that async-openai is given.
#[derive(Debug, Clone)]
pub(super) struct Transport {
    client: reqwest::Client,
    key: Secret,
}

impl Transport {
    /// `key` is what the requests carry.
    pub(super) fn new(client: reqwest::Client, key: Secret) -> Self {
        Self { client, key }
    }
}

/// Whether a text holds the key.
fn shows(text: &str, key: &Secret) -> bool {
    secret_part(key).is_some_and(|key| text.contains(key))
}

/// A text without the key.
fn hide(text: &str, key: &Secret) -> String {
    secret_part(key).map_or_else(|| text.to_owned(), |key| text.replace(key, HIDDEN))
}

fn secret_part(key: &Secret) -> Option<&str> {
    key.expose().map(str::trim).filter(|key| key.len() >= SHORTEST_KEY)
}

impl tower::Service<HttpRequestFactory> for Transport {
    type Response = reqwest::Response;
    type Error = OpenAIError;
    type Future = BoxFuture<'static, Result<reqwest::Response, OpenAIError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequestFactory) -> Self::Future {
        let Self { client, key } = self.clone();
        Box::pin(async move {
            let request = request.build().await?;
            exchange(&client, &key, request)
                .await
                .map_err(|error| OpenAIError::Boxed(Box::new(error)))
        })
    }
}

async fn exchange(
    client: &reqwest::Client,
    key: &Secret,
    request: reqwest::Request,
) -> Result<reqwest::Response, CallError> {
    let mut response = client.execute(request).await.map_err(|error| of_reqwest(&error))?;
    let status = response.status();
    let retry_after = response
        .headers()
        .get(header::RETRY_AFTER)
        .and_then(|value| retry_after(value.to_str().ok()?));
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| of_reqwest(&error))? {
        if body.len() + chunk.len() > MAX_ANSWER {
            return Err(CallError::Malformed(format!("it is longer than {MAX_ANSWER} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    if !status.is_success() {
        return Err(of_status(status, &body, retry_after, key));
    }
    // Read here, so that async-openai never logs an answer it cannot read.
    let reply: Reply =
        serde_json::from_slice(&body).map_err(|error| CallError::Malformed(hide(&error.to_string(), key)))?;
    if reply.choices.is_empty() {
        return Err(CallError::Malformed("it has no choices".into()));
    }
    if reply
        .choices
        .iter()
        .any(|choice| choice.message.is_none() && choice.text.is_none())
    {
        return Err(CallError::Malformed("a choice has neither a message nor a text".into()));
    }
    let mut texts = reply.choices.iter().filter_map(Choice::content);
    if texts.any(|text| shows(text, key)) {
        // Kept, it would stand in the cache.
        return Err(CallError::Malformed("its text repeats the key".into()));
    }
    Ok(http::Response::new(body).into())
}

fn of_reqwest(error: &reqwest::Error) -> CallError {
    // The causes say more than the outermost message, which repeats the URL.
    let mut causes = Vec::new();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        causes.push(inner.to_string());
        cause = inner.source();
    }
    let message = causes.pop().unwrap_or_else(|| "the request failed".into());
    match error {
        error if error.is_connect() => CallError::Connect(message),
        error if error.is_timeout() => CallError::Late,
        _ => CallError::Broken(format!("the connection broke: {message}")),
    }
}

fn of_status(status: StatusCode, body: &[u8], retry_after: Option<Duration>, key: &Secret) -> CallError {
    let (message, code) = read_error(body, key);
    let status_code = status.as_u16();
    let no_quota = code == "insufficient_quota" || code == "billing_hard_limit_reached";
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND | StatusCode::PAYMENT_REQUIRED => {
            CallError::Refused {
                status: status_code,
                message,
            }
        }
        StatusCode::TOO_MANY_REQUESTS if no_quota => CallError::Refused {
            status: status_code,
            message,
        },
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT | StatusCode::TOO_EARLY => {
            CallError::Busy {
                status: status_code,
                message,
                retry_after,
            }
        }
        status if status.is_server_error() => CallError::Busy {
            status: status_code,
            message,
            retry_after,
        },
        _ => CallError::Rejected {
            status: status_code,
            message,
        },
    }
}

/// The message and code of an error's body, in OpenAI's shape or as plain text, without the key and cut short.
fn read_error(body: &[u8], key: &Secret) -> (String, String) {
    let json: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let error = json.get("error").unwrap_or(&json);
    let text = |value: Option<&serde_json::Value>| value.and_then(serde_json::Value::as_str).map(str::to_owned);
    let message = text(error.get("message"))
        .or_else(|| text(Some(error)))
        .unwrap_or_else(|| {
            if json.is_null() {
                String::from_utf8_lossy(body).into_owned()
            } else {
                String::new()
            }
        });
    // Before it is cut, lest half a key is left.
    let message = hide(&message, key);
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    (
        message.chars().take(EXCERPT).collect(),
        text(error.get("code")).unwrap_or_default(),
    )
}

/// `Retry-After` in either form: seconds, or a date. A date gone by is no wait.
fn retry_after(value: &str) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    let wait = date.duration_since(jiff::Timestamp::now());
    Some(Duration::try_from(wait).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn status(code: u16, body: &str) -> CallError {
        of_status(
            StatusCode::from_u16(code).unwrap(),
            body.as_bytes(),
            None,
            &Secret::default(),
        )
    }

    #[test]
    fn statuses_are_sorted_by_what_trying_again_can_change() {
        for code in [429, 500, 502, 503, 504, 408] {
            assert!(matches!(status(code, ""), CallError::Busy { .. }), "{code}");
        }
        for code in [401, 402, 403, 404] {
            assert!(matches!(status(code, ""), CallError::Refused { .. }), "{code}");
        }
        for code in [400, 413, 422] {
            assert!(matches!(status(code, ""), CallError::Rejected { .. }), "{code}");
        }
        let broke = r#"{"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}"#;
        assert!(matches!(status(429, broke), CallError::Refused { .. }));
    }

    #[test]
    fn an_errors_message_is_found_in_the_shapes_that_servers_use() {
        for body in [
            r#"{"error": {"message": "bad  model", "code": null}}"#,
            r#"{"error": "bad model"}"#,
            r#"{"message": "bad model"}"#,
            "bad\nmodel",
        ] {
            assert_eq!(read_error(body.as_bytes(), &Secret::default()).0, "bad model", "{body}");
        }
        let none = Secret::default();
        assert_eq!(
            read_error("é".repeat(1000).as_bytes(), &none).0.chars().count(),
            EXCERPT
        );
        assert_eq!(read_error(b"", &none).0, "");
    }

    #[test]
    fn a_key_that_the_server_repeats_is_hidden_also_where_the_message_is_cut() {
        let key = Secret::new(" sk-hunter2 ");
        assert_eq!(
            read_error(br#"{"error": {"message": "wrong key: sk\u002dhunter2."}}"#, &key).0,
            "wrong key: [key]."
        );
        let long = format!("{}sk-hunter2", "x".repeat(EXCERPT - 4));
        assert!(!read_error(long.as_bytes(), &key).0.contains("sk-"));
        // What a server without keys is given is no secret.
        assert_eq!(
            read_error(b"no model named none", &Secret::new("none")).0,
            "no model named none"
        );
    }

    #[test]
    fn retry_after_is_read_as_seconds_or_as_a_date() {
        assert_eq!(retry_after("2"), Some(Duration::from_secs(2)));
        assert_eq!(retry_after(" 0.5 "), Some(Duration::from_millis(500)));
        assert_eq!(retry_after("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert_eq!(retry_after("soon"), None);
        assert_eq!(retry_after("-1"), None);
        let later = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(100);
        let text = jiff::fmt::rfc2822::to_string(&later.to_zoned(jiff::tz::TimeZone::UTC)).unwrap();
        let wait = retry_after(&text).unwrap().as_secs();
        assert!((95..=100).contains(&wait), "{wait}");
    }
}
