//! Calls to an OpenAI-compatible server with async-openai's client: each request is sent once, its
//! response is read up to a size limit, and errors are classified as retryable or not.

use std::{
    borrow::Cow,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use async_openai::{Client, config::Config, error::OpenAIError, middleware::HttpRequestFactory};
use futures::future::BoxFuture;
use http::{HeaderMap, StatusCode, header};
use isomer_outbound::{
    body::{self, BodyError},
    said::{ErrorBody, cause, hide, presentable, retry_after, shows},
    secret::{SecretError, SecretSource, bearer},
};
use isomer_service_kit::config::Secret;
use parking_lot::Mutex;
use secrecy::SecretString;
use serde_json::Value;
use tracing::{Dispatch, dispatcher, instrument::WithSubscriber};

use super::{
    Request,
    notices::Notices,
    parameters::{OmittedParameters, Parameter},
    reply::{Reply, WithheldText},
    wire,
};
use crate::{
    checks::Check,
    config::{GeneratorConfig, Structured},
};

/// Maximum size of a response, in bytes.
const MAX_ANSWER: usize = 16 << 20;

/// The reason why one exchange returned no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CallError {
    /// The API key of requests cannot be read.
    #[error(transparent)]
    NoKey(#[from] SecretError),
    /// No connection.
    #[error("no connection: {0}")]
    Connect(String),
    /// A connection that broke.
    #[error("{0}")]
    Broken(String),
    /// No response in time.
    #[error("the server did not answer in time")]
    Late,
    /// 429, 5xx and similar statuses.
    #[error("the server answered {status}{}", detail(.message))]
    Busy {
        status: u16,
        message: String,
        retry_after: Option<Duration>,
    },
    /// A response that is not a completion.
    #[error("the server's answer is not a completion: {0}")]
    Malformed(String),
    /// A status that applies to every request until a quota is renewed.
    #[error("the server answered {status}{}", detail(.message))]
    Refused {
        status: u16,
        message: String,
        renewed_after: Option<Duration>,
    },
    /// The permit of the call was lost: another process of the fleet may have it.
    #[error("the lease of the fleet's concurrent calls was lost")]
    PermitLost,
    /// The server's filter or the model withholds the text.
    #[error("{reason}")]
    Withheld { check: Check, reason: String },
    /// The server read fewer tokens than the prompt has.
    #[error(
        "the server read {reported} tokens of a prompt of about {estimated}, so it cut the text: raise num_ctx (Ollama), \
         --ctx-size (llama.cpp) or --max-model-len (vLLM)"
    )]
    PromptCut {
        reported: u64,
        estimated: u64,
        /// Whether another call with the same prompt showed the same.
        is_confirmed: bool,
    },
    /// A parameter that the server refuses, and that later calls omit.
    #[error("the server refuses the parameter {}", .0.name())]
    Unsupported(Parameter),
    /// A status that concerns this request only.
    #[error("the server answered {status}{}", detail(.message))]
    Rejected {
        status: u16,
        message: String,
        /// The parameter named in the response.
        parameter: Option<Parameter>,
    },
}

impl CallError {
    /// The time during which the server asks not to be called.
    pub(super) fn pause(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after, .. } => *retry_after,
            Self::Refused { renewed_after, .. } => *renewed_after,
            _ => None,
        }
    }

    /// Whether it says something about the server and nothing about the text.
    pub(super) fn is_of_any_text(&self) -> bool {
        matches!(
            self,
            Self::Busy { .. } | Self::Broken(_) | Self::Late | Self::Malformed(_)
        )
    }

    /// The error's name in traces: one of a bounded set.
    pub(super) fn kind(&self) -> Cow<'static, str> {
        match self {
            Self::NoKey(_) => "key_missing".into(),
            Self::Connect(_) => "connect".into(),
            Self::Broken(_) => "connection_broken".into(),
            Self::Late => "timeout".into(),
            Self::PermitLost => "permit_lost".into(),
            Self::Malformed(_) => "malformed_answer".into(),
            Self::Withheld { .. } => "withheld".into(),
            Self::PromptCut { .. } => "prompt_cut".into(),
            Self::Unsupported(_) => "unsupported_parameter".into(),
            Self::Busy { status, .. } | Self::Refused { status, .. } | Self::Rejected { status, .. } => {
                status.to_string().into()
            }
        }
    }
}

fn detail(message: &str) -> String {
    if message.is_empty() {
        String::new()
    } else {
        format!(": {message}")
    }
}

/// The configuration of async-openai for one call, with nothing read from the environment.
struct Endpoint {
    base: String,
    headers: HeaderMap,
    key: SecretString,
}

impl Config for Endpoint {
    fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    fn query(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }

    fn api_base(&self) -> &str {
        &self.base
    }

    fn api_key(&self) -> &SecretString {
        &self.key
    }
}

/// Sends a request once and reads the response up to a size limit. It replaces async-openai's
/// transport.
#[derive(Clone)]
struct Transport {
    client: reqwest::Client,
    key: Arc<Secret>,
    log: Dispatch,
}

impl tower::Service<HttpRequestFactory> for Transport {
    type Response = reqwest::Response;
    type Error = OpenAIError;
    type Future = BoxFuture<'static, Result<reqwest::Response, OpenAIError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequestFactory) -> Self::Future {
        let Self { client, key, log } = self.clone();
        let exchange = async move {
            let request = request.build().await?;
            let answer = exchange(&client, &key, request).await;
            answer.map_err(|error| OpenAIError::Boxed(Box::new(error)))
        };
        Box::pin(exchange.with_subscriber(log))
    }
}

/// A server. Its API key is read again for each call.
pub(super) struct Server {
    client: reqwest::Client,
    base: String,
    key: SecretSource,
    structured: Structured,
    /// Parameters that the configuration omits, and those that the server has refused so far.
    omitted: Mutex<OmittedParameters>,
    notices: Notices,
}

impl Server {
    pub(super) fn new(client: reqwest::Client, base: String, config: &GeneratorConfig) -> Self {
        let unstructured = (config.structured == Structured::Off).then_some(Parameter::ResponseFormat);
        let omitted = config.parameters.omitted().into_iter().chain(unstructured);
        Self {
            client,
            base,
            key: config.key(),
            structured: config.structured,
            omitted: Mutex::new(omitted.collect()),
            notices: Notices::default(),
        }
    }

    /// Omits a parameter that the server refused from later calls. `sent` is the set of parameters
    /// that the refused request already omitted: if the parameter is among them, omitting it does
    /// not help.
    fn without(&self, error: CallError, sent: OmittedParameters) -> CallError {
        let CallError::Rejected {
            status: 400 | 422,
            parameter: Some(parameter),
            message,
        } = &error
        else {
            return error;
        };
        let is_required = *parameter == Parameter::ResponseFormat && self.structured == Structured::JsonSchema;
        if is_required || sent.has(*parameter) {
            return error;
        }
        let mut omitted = self.omitted.lock();
        if !omitted.has(*parameter) {
            omitted.add(*parameter);
            tracing::warn!(
                server = self.base,
                parameter = parameter.name(),
                message,
                "the server refuses a parameter: {}",
                parameter.remedy()
            );
        }
        CallError::Unsupported(*parameter)
    }

    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Requests a completion of a conversation or of a text.
    pub(super) async fn complete(&self, model: &str, request: &Request) -> Result<Reply, CallError> {
        let omitted = *self.omitted.lock();
        let key = Arc::new(self.key.read()?);
        let authorization = bearer(&key).map_err(|error| CallError::Malformed(error.to_string()))?;
        let endpoint = Endpoint {
            base: self.base.clone(),
            headers: authorization
                .map(|value| (header::AUTHORIZATION, value))
                .into_iter()
                .collect(),
            key: key.expose().unwrap_or_default().into(),
        };
        let transport = Transport {
            client: self.client.clone(),
            key: key.clone(),
            log: dispatcher::get_default(Dispatch::clone),
        };
        let client = Client::build(self.client.clone(), endpoint).with_http_service(transport);
        let reply = async {
            match request.text_to_continue() {
                Some(text) => {
                    client
                        .completions()
                        .create_byot(wire::continuation(model, text, request, omitted))
                        .await
                }
                None => {
                    client
                        .chat()
                        .create_byot(wire::conversation(model, request, omitted))
                        .await
                }
            }
        };
        // async-openai logs responses that it cannot read. They may contain the key and texts.
        let mut reply: Reply = reply
            .with_subscriber(Dispatch::none())
            .await
            .map_err(|error| of_client(error, &key))
            .map_err(|error| self.without(error, omitted))?;
        if let Some(error) = reply.error() {
            return Err(self.without(of_body(error, &key), omitted));
        }
        if request.is_one_text && !omitted.has(Parameter::ResponseFormat) {
            reply.unpack();
        }
        if let Some(WithheldText { check, reason }) = reply.withheld() {
            let reason = presentable(&reason, &key);
            return Err(CallError::Withheld { check, reason });
        }
        if let Some(problem) = reply.problem() {
            return Err(CallError::Malformed(presentable(&problem, &key)));
        }
        if reply.texts().any(|text| shows(text, &key)) {
            // Otherwise the key would be stored in the cache.
            return Err(CallError::Malformed("its text repeats the key".into()));
        }
        self.notices.log(&self.base, &reply, &key);
        Ok(reply)
    }
}

/// The error in a response with status 200: classified by its code, or treated as a server error if
/// it has none.
fn of_body(error: &Value, key: &Secret) -> CallError {
    let code = error.get("code").and_then(|code| match code {
        Value::Number(number) => number.as_u64().and_then(|code| u16::try_from(code).ok()),
        Value::String(text) => text.parse().ok(),
        _ => None,
    });
    let status = code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.filter(|status| status.is_client_error() || status.is_server_error());
    let body = serde_json::json!({ "error": error }).to_string();
    of_status(status.unwrap_or(StatusCode::BAD_GATEWAY), body.as_bytes(), None, key)
}

async fn exchange(
    client: &reqwest::Client,
    key: &Secret,
    request: reqwest::Request,
) -> Result<reqwest::Response, CallError> {
    let mut response = client.execute(request).await.map_err(|error| of_reqwest(&error))?;
    let status = response.status();
    let retry_after = retry_after(response.headers());
    let body = match body::read_by_status(&mut response, MAX_ANSWER).await {
        Ok(body) => body,
        Err(BodyError::Broken(error)) => return Err(of_reqwest(&error)),
        Err(error) => return Err(CallError::Malformed(error.to_string())),
    };
    if !status.is_success() {
        return Err(of_status(status, &body, retry_after, key));
    }
    Ok(http::Response::new(body).into())
}

fn of_client(error: OpenAIError, key: &Secret) -> CallError {
    match error {
        OpenAIError::JSONDeserialize(error, _) => CallError::Malformed(hide(&error.to_string(), key)),
        OpenAIError::Boxed(inner) => match inner.downcast::<CallError>() {
            Ok(error) => *error,
            Err(other) => CallError::Broken(other.to_string()),
        },
        other => CallError::Broken(other.to_string()),
    }
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
    let error = ErrorBody::read(body, key);
    let no_quota = error.no_quota();
    let ErrorBody { message, parameter, .. } = error;
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
            parameter: Parameter::named_by(&parameter, &message),
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
