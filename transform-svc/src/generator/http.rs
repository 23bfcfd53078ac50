//! One HTTP exchange with an OpenAI-compatible server: sent once, read under a limit, its errors
//! sorted into retryable and not. It replaces async-openai's own retrying transport.

use std::{
    borrow::Cow,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use async_openai::{error::OpenAIError, middleware::HttpRequestFactory};
use futures::future::BoxFuture;
use http::{StatusCode, header};
use isomer_outbound::{
    body::{self, Unread},
    said::{ErrorBody, cause, hide, retry_after, shows},
    secret::{Missing, SecretSource, bearer},
};
use isomer_service_kit::config::Secret;
use serde::{Deserialize, Serialize};

/// Largest answer that is read, in bytes.
const MAX_ANSWER: usize = 16 << 20;

/// The fields we read of a completion, whether of a conversation or of a text. Servers differ in
/// the rest.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Reply {
    choices: Vec<Choice>,
    #[serde(default)]
    pub(super) usage: Option<Usage>,
}

/// One choice; which field is set depends on what was asked for.
#[derive(Debug, Serialize, Deserialize)]
struct Choice {
    /// The next message of a conversation.
    #[serde(default)]
    message: Option<ReplyMessage>,
    /// The continuation of a text.
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
    /// The first choice's text; `None` if the model returned none.
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
    /// The key that requests must carry cannot be read.
    #[error(transparent)]
    NoKey(#[from] Missing),
    /// No connection.
    #[error("no connection: {0}")]
    Connect(String),
    /// A connection that broke.
    #[error("{0}")]
    Broken(String),
    /// No answer in time.
    #[error("the server did not answer in time")]
    Late,
    /// 429, 5xx and similar statuses.
    #[error("the server answered {status}{}", told(.message))]
    Busy {
        status: u16,
        message: String,
        retry_after: Option<Duration>,
    },
    /// An answer that is not a completion.
    #[error("the server's answer is not a completion: {0}")]
    Malformed(String),
    /// A status that will be the same for every request, until a quota is renewed.
    #[error("the server answered {status}{}", told(.message))]
    Refused {
        status: u16,
        message: String,
        renewed_after: Option<Duration>,
    },
    /// The permit of the call was lost: another process of the fleet may have it.
    #[error("the lease of the fleet's concurrent calls was lost")]
    PermitLost,
    /// A status that is about this request alone.
    #[error("the server answered {status}{}", told(.message))]
    Rejected { status: u16, message: String },
}

impl CallError {
    /// How long the server asks not to be called.
    pub(super) fn pause(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after, .. } => *retry_after,
            Self::Refused { renewed_after, .. } => *renewed_after,
            _ => None,
        }
    }

    /// Its name in traces: one of a bounded set.
    pub(super) fn kind(&self) -> Cow<'static, str> {
        match self {
            Self::NoKey(_) => "key_missing".into(),
            Self::Connect(_) => "connect".into(),
            Self::Broken(_) => "connection_broken".into(),
            Self::Late => "timeout".into(),
            Self::PermitLost => "permit_lost".into(),
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
    key: Arc<SecretSource>,
}

impl Transport {
    /// `key` is the key that requests carry. It is read anew for each request.
    pub(super) fn new(client: reqwest::Client, key: Arc<SecretSource>) -> Self {
        Self { client, key }
    }
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
    key: &SecretSource,
    mut request: reqwest::Request,
) -> Result<reqwest::Response, CallError> {
    let key = &key.read()?;
    let authorization = bearer(key).map_err(|error| CallError::Malformed(error.to_string()))?;
    request
        .headers_mut()
        .extend(authorization.map(|value| (header::AUTHORIZATION, value)));
    let mut response = client.execute(request).await.map_err(|error| of_reqwest(&error))?;
    let status = response.status();
    let retry_after = retry_after(response.headers());
    let body = match body::read_by_status(&mut response, MAX_ANSWER).await {
        Ok(body) => body,
        Err(Unread::Broken(error)) => return Err(of_reqwest(&error)),
        Err(error) => return Err(CallError::Malformed(error.to_string())),
    };
    if !status.is_success() {
        return Err(of_status(status, &body, retry_after, key));
    }
    // Read here, so that async-openai never logs an answer that it cannot parse.
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
        // If kept, the key would be in the cache.
        return Err(CallError::Malformed("its text repeats the key".into()));
    }
    Ok(http::Response::new(body).into())
}

fn of_reqwest(error: &reqwest::Error) -> CallError {
    let message = cause(error);
    match error {
        error if error.is_connect() => CallError::Connect(message),
        error if error.is_timeout() => CallError::Late,
        _ => CallError::Broken(format!("the connection broke: {message}")),
    }
}

fn of_status(status: StatusCode, body: &[u8], retry_after: Option<Duration>, key: &Secret) -> CallError {
    let told = ErrorBody::read(body, key);
    let (no_quota, message) = (told.no_quota(), told.message);
    let status_code = status.as_u16();
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND | StatusCode::PAYMENT_REQUIRED => {
            CallError::Refused {
                status: status_code,
                message,
                renewed_after: None,
            }
        }
        StatusCode::TOO_MANY_REQUESTS if no_quota => CallError::Refused {
            status: status_code,
            message,
            renewed_after: retry_after,
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
}
