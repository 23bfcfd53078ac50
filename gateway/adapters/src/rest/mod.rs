//! Calls over HTTP with JSON: the guarded client, the headers of each call, and the mapping of
//! failures.

pub(crate) mod failure;
mod span;

use std::sync::OnceLock;

use http::{HeaderMap, StatusCode, header};
use isomer_outbound::{
    body::{self, BodyError},
    client,
    guard::Resolver,
    said::{cause, presentable},
};
use isomer_service_kit::{Fault, WorkMemory, client::carry_trace, config::Secret, off_runtime};
use reqwest::{Client, RequestBuilder};
use serde::{Serialize, de::DeserializeOwned};
use tonic::Code;
use tracing::Instrument;
use url::Url;

use crate::{
    answered::unread,
    limits::{AnswerLimit, Deadline, within},
    target::{Target, authorization, read_secret},
};

/// A server with an HTTP API in JSON.
#[derive(Debug)]
pub(crate) struct Rest {
    pub(crate) target: Target,
    client: Client,
    /// The base URL of requests. If TLS expects another name, the URL contains that name.
    base: Url,
}

/// An answer with the facts from its headers.
#[derive(Debug)]
pub(crate) struct RestAnswer<T> {
    pub(crate) headers: HeaderMap,
    pub(crate) body: T,
}

/// The limit on an answer's memory, and the memory that it takes until it is parsed.
#[derive(Debug)]
struct Room {
    limit: AnswerLimit,
    memory: WorkMemory,
}

impl Room {
    fn new(limit: AnswerLimit) -> Self {
        Self {
            limit,
            memory: WorkMemory::new(),
        }
    }
}

impl Rest {
    /// Connects at the first call.
    pub(crate) fn new(target: Target) -> Result<Self, Fault> {
        let mut base = target.url.clone();
        let mut host = None;
        let mut builder = client::builder();
        if let Some(tls) = &target.tls {
            builder = client::with_tls(builder, tls).map_err(|error| {
                Fault::invalid(format!("provider.tls.{}", error.field), error.to_string())
                    .hint("give a readable PEM file of the right kind")
            })?;
            if let Some(name) = &tls.server_name {
                // Requests name the host of the certificate, but connect to the provider's address.
                host = target.url.host_str().map(ToOwned::to_owned);
                base.set_host(Some(name)).map_err(|error| {
                    Fault::invalid("provider.tls.server_name", format!("{name:?}: {error}")).hint("give a host's name")
                })?;
            }
        }
        let resolver = Resolver {
            guard: target.guard.clone(),
            host,
        };
        let client = client::guarded(builder, resolver)
            .build()
            .map_err(|error| Fault::invalid("provider.tls", cause(&error)).hint("check the TLS files"))?;
        Ok(Self { target, client, base })
    }

    /// The URL of a path of the protocol. A first segment that is already part of the address
    /// (`/v1`) is not added twice.
    pub(crate) fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        if path.is_empty() {
            return url;
        }
        let base = url.path().trim_end_matches('/').to_owned();
        let path = match path.split_once('/') {
            Some((first, rest)) if base.rsplit('/').next() == Some(first) => rest,
            _ => path,
        };
        url.set_path(&format!("{base}/{path}"));
        url
    }

    pub(crate) async fn post<T: DeserializeOwned + Send + 'static>(
        &self,
        url: Url,
        body: &impl Serialize,
        limit: AnswerLimit,
        deadline: Deadline,
    ) -> Result<RestAnswer<T>, Fault> {
        self.json(self.client.post(url).json(body), limit, deadline).await
    }

    pub(crate) async fn get<T: DeserializeOwned + Send + 'static>(
        &self,
        url: Url,
        deadline: Deadline,
    ) -> Result<RestAnswer<T>, Fault> {
        self.json(self.client.get(url), AnswerLimit::FACTS, deadline).await
    }

    /// Whether the server answers at all: with success, or with an error for an unknown path.
    pub(crate) async fn answers(&self, url: Url) -> Result<(), Fault> {
        let mut room = Room::new(AnswerLimit::FACTS);
        match self.exchange(self.client.get(url), &mut room, None).await {
            Err(fault) if fault.reason == failure::NOTHING_THERE => Ok(()),
            other => other.map(drop),
        }
    }

    async fn json<T: DeserializeOwned + Send + 'static>(
        &self,
        request: RequestBuilder,
        limit: AnswerLimit,
        deadline: Deadline,
    ) -> Result<RestAnswer<T>, Fault> {
        let mut room = Room::new(limit);
        let RestAnswer { headers, body } = self.exchange(request, &mut room, deadline).await?;
        let read = off_runtime(body.len(), move || serde_json::from_slice(&body)).await?;
        let read = read.map_err(|error| {
            let secret = read_secret(&self.target.secret).unwrap_or_default();
            let said = presentable(&error.to_string(), &secret);
            self.bad_answer(format!("the answer cannot be read: {said}"))
        });
        Ok(RestAnswer { headers, body: read? })
    }

    /// The fault for an answer that does not fit the request.
    pub(crate) fn bad_answer(&self, what: impl std::fmt::Display) -> Fault {
        bad_answer(&self.target.id, what)
    }

    async fn exchange(
        &self,
        request: RequestBuilder,
        room: &mut Room,
        deadline: Deadline,
    ) -> Result<RestAnswer<Vec<u8>>, Fault> {
        let target = &self.target;
        let secret = read_secret(&target.secret)?;
        let mut headers = target.headers.clone();
        if let Some(value) = authorization(&secret)? {
            headers.insert(header::AUTHORIZATION, value);
        }
        headers.insert(header::ACCEPT, header::HeaderValue::from_static("application/json"));
        let (client, request) = request.build_split();
        let request = request.map_err(|error| failure::of_connection(&target.id, &error, &secret))?;
        let span = span::of(&request);
        carry_trace(&span, &mut headers);
        let request = RequestBuilder::from_parts(client, request).headers(headers);
        let status = OnceLock::new();
        let call = self.send(request, room, &secret, &status).instrument(span.clone());
        let outcome = within(&target.id, target.timeout, deadline, call).await;
        span::ended(&span, status.get().copied(), outcome.as_ref().err());
        outcome
    }

    /// `answered` is set to the status of the answer as soon as it arrives.
    async fn send(
        &self,
        request: RequestBuilder,
        room: &mut Room,
        secret: &Secret,
        answered: &OnceLock<StatusCode>,
    ) -> Result<RestAnswer<Vec<u8>>, Fault> {
        let id = &self.target.id;
        let broken = |error: reqwest::Error| failure::of_connection(id, &error, secret);
        let mut response = request.send().await.map_err(broken)?;
        let (status, headers) = (response.status(), response.headers().clone());
        // A call is answered only once.
        let _ = answered.set(status);
        let most = room.limit.0.min(self.target.max_message_bytes);
        let body = match body::read_by_status_in_memory(&mut response, most, &mut room.memory).await {
            Ok(body) => body,
            Err(BodyError::Broken(error)) => return Err(broken(error)),
            Err(BodyError::NoMemory(fault)) => return Err(unread(fault)),
            Err(error) => {
                let hint = "send fewer texts at once, or set limits.max_batch_items";
                return Err(self.bad_answer(error).hint(hint));
            }
        };
        if status.is_success() {
            return Ok(RestAnswer { headers, body });
        }
        Err(failure::of_status(id, status, &headers, &body, secret))
    }
}

/// `DATA_LOSS`: an answer that does not fit the request.
pub(crate) fn bad_answer(id: &str, what: impl std::fmt::Display) -> Fault {
    Fault::new(Code::DataLoss, "PROVIDER_ANSWER", format!("provider `{id}`: {what}"))
        .hint("check the provider with CheckProvider")
        .with("provider", id)
}
