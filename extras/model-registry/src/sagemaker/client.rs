//! Requests to SageMaker, signed with AWS Signature Version 4.

use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use http::{HeaderValue, Method, Request, header::CONTENT_TYPE};
use isomer_outbound::{
    body::{self, BodyError},
    client,
    said::cause,
};
use isomer_service_kit::config::ConfigError;
use object_store::{
    aws::{AmazonS3Builder, AwsAuthorizer, AwsCredentialProvider},
    client::HttpRequestBody,
};
use reqwest::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use super::wire::ErrorBody;
use crate::error::{RegistryError, Result};

/// Maximum silence of the server within an answer.
const SILENCE: Duration = Duration::from_secs(60);
/// Maximum bytes of an answer.
const MOST_ANSWER: usize = 16 << 20;
/// How often a request is sent, and the first pause in between.
const TRIES: usize = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Maximum length of the server's message inside our own.
const MOST_WORDS: usize = 500;
const SERVICE: &str = "sagemaker";

/// A client of one region.
#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    endpoint: Url,
    region: String,
    credentials: AwsCredentialProvider,
}

impl Client {
    /// The region and the credentials of the environment, as read by `object_store`: keys, web
    /// identity (EKS), the roles of tasks and instances.
    pub(super) fn from_env() -> Result<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
        let region = region.ok_or_else(|| {
            let hint = "give the region of the registry, e.g. AWS_REGION=eu-central-1";
            ConfigError::new("AWS_REGION", "is not set", hint)
        })?;
        let endpoint = variable("AWS_ENDPOINT_URL_SAGEMAKER").or_else(|| variable("AWS_ENDPOINT_URL"));
        let domain = if region.starts_with("cn-") {
            "amazonaws.com.cn"
        } else {
            "amazonaws.com"
        };
        let endpoint = endpoint.unwrap_or_else(|| format!("https://api.sagemaker.{region}.{domain}/"));
        let refused = |message: String| {
            let hint =
                "leave AWS_ENDPOINT_URL_SAGEMAKER and AWS_ENDPOINT_URL out, or give an address like https://host/";
            RegistryError::from(ConfigError::new("AWS_ENDPOINT_URL_SAGEMAKER", message, hint))
        };
        let endpoint = Url::parse(&endpoint).map_err(|error| refused(format!("cannot be read: {error}")))?;
        if !matches!(endpoint.scheme(), "http" | "https") || endpoint.host_str().is_none() {
            return Err(refused(format!("begins with `{}:`", endpoint.scheme())));
        }
        let http = client::builder()
            .read_timeout(SILENCE)
            .build()
            .map_err(|error| refused(cause(&error)))?;
        // Only its credentials are needed; the bucket is not accessed.
        let store = AmazonS3Builder::from_env()
            .with_region(&region)
            .with_bucket_name("unused")
            .build()
            .map_err(|error| refused(cause(&error)))?;
        Ok(Self {
            http,
            endpoint,
            credentials: store.credentials().clone(),
            region,
        })
    }

    /// Calls an operation. All operations used here are repeatable.
    pub(super) async fn call<T: DeserializeOwned>(&self, doing: &str, operation: &str, body: &Value) -> Result<T> {
        let once = || self.once(doing, operation, body);
        let pauses = ExponentialBuilder::default()
            .with_min_delay(FIRST_PAUSE)
            .with_max_times(TRIES - 1);
        once.retry(pauses)
            .when(|error| matches!(error, RegistryError::Unavailable { .. }))
            .await
    }

    async fn once<T: DeserializeOwned>(&self, doing: &str, operation: &str, body: &Value) -> Result<T> {
        let unavailable = |message: String| RegistryError::Unavailable {
            doing: doing.to_owned(),
            message,
        };
        let (headers, content) = self.signed(operation, body).await.map_err(&unavailable)?;
        let request = self.http.post(self.endpoint.clone()).headers(headers).body(content);
        let mut answer = request.send().await.map_err(|error| unavailable(cause(&error)))?;
        let status = answer.status();
        let content = match body::read_by_status(&mut answer, MOST_ANSWER).await {
            Ok(content) => content,
            Err(BodyError::Broken(error)) => return Err(unavailable(cause(&error))),
            Err(error) => return Err(unreadable(doing, error.to_string())),
        };
        if status.is_success() {
            return serde_json::from_slice(&content).map_err(|error| unreadable(doing, error.to_string()));
        }
        let error_body: ErrorBody = serde_json::from_slice(&content).unwrap_or_default();
        let message = match error_body.message.is_empty() {
            true => String::from_utf8_lossy(&content).into_owned(),
            false => error_body.message,
        };
        let message: String = message.trim().chars().take(MOST_WORDS).collect();
        // `namespace#Code`.
        let code = error_body.kind.rsplit('#').next().unwrap_or_default().to_owned();
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS || code.contains("Throttling") {
            return Err(unavailable(format!("SageMaker answered {status} ({code}): {message}")));
        }
        // It answers a wrong signature and a missing permission with 400.
        let denied = [
            "AccessDeniedException",
            "UnrecognizedClientException",
            "InvalidSignatureException",
            "ExpiredTokenException",
        ];
        let status = if denied.contains(&code.as_str()) {
            403
        } else {
            status.as_u16()
        };
        Err(RegistryError::Refused {
            doing: doing.to_owned(),
            status,
            code,
            message,
        })
    }

    async fn signed(&self, operation: &str, body: &Value) -> Result<(http::HeaderMap, Vec<u8>), String> {
        let credential = self.credentials.get_credential().await;
        let credential = credential.map_err(|error| format!("no credentials of AWS: {}", cause(&error)))?;
        let content = body.to_string().into_bytes();
        let target = HeaderValue::try_from(format!("SageMaker.{operation}")).map_err(|error| error.to_string())?;
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(self.endpoint.as_str())
            .header(CONTENT_TYPE, "application/x-amz-json-1.1")
            .header("x-amz-target", target)
            .body(HttpRequestBody::from(content.clone()))
            .map_err(|error| error.to_string())?;
        AwsAuthorizer::new(&credential, SERVICE, &self.region)
            .try_authorize(&mut request, None)
            .map_err(|error| cause(&error))?;
        Ok((request.into_parts().0.headers, content))
    }
}

fn unreadable(doing: &str, message: String) -> RegistryError {
    RegistryError::Unreadable {
        doing: doing.to_owned(),
        message,
    }
}
