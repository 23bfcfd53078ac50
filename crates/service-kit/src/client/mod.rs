//! The channel every generated client runs over.

mod cancel;
mod dial;
mod span;
mod spread;
mod tls;

/// For calls that are made without a [`GrpcChannel`].
pub use crate::trace_context::{carry as carry_trace, join as join_trace};
pub use dial::Resolve;
pub use tls::ClientTls;

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt, TryFutureExt, future::BoxFuture};
use http::{HeaderValue, header};
use serde::{Deserialize, Serialize};
use tonic::{
    Code, Status,
    body::Body,
    codegen::StdError,
    transport::{Channel, Endpoint},
};
use tower::Service;
use tracing::Instrument;

use crate::{
    Fault,
    config::{ConfigError, Secret, Validate},
    tenant::{TENANT, Tenant},
    trace_context, wire,
};
use dial::{Dialer, System};
use spread::Spread;
use tls::Encryption;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a server is and how to trust it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClientConfig {
    /// `host:port`, `http://host:port` or `https://host:port`.
    pub address: String,
    /// Client side of TLS; used with `https`.
    pub tls: Option<ClientTls>,
    /// Sent with every call as `authorization: Bearer …`; absent: none.
    pub api_key: Secret,
    /// Whether the key may travel in plain text to another machine, where anyone on the way can
    /// read and use it.
    pub api_key_over_plain_text: bool,
}

impl ClientConfig {
    pub fn plain(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            ..Self::default()
        }
    }

    /// The same address with a key.
    #[must_use]
    pub fn with_api_key(mut self, key: Secret) -> Self {
        self.api_key = key;
        self
    }

    fn url(&self) -> String {
        if self.address.contains("://") {
            self.address.clone()
        } else if self.tls.is_some() {
            format!("https://{}", self.address)
        } else {
            format!("http://{}", self.address)
        }
    }
}

impl Validate for ClientConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        let bad = |message: String| ConfigError::new("address", message, "give host:port or an http(s) URL");
        if self.address.is_empty() {
            return Err(bad("is empty".to_owned()));
        }
        let uri: http::Uri = self
            .url()
            .parse()
            .map_err(|error| bad(format!("`{}`: {error}", self.address)))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
            return Err(bad(format!("`{}` does not name a server", self.address)));
        }
        // The key is never sent in plain text if TLS was requested.
        if self.tls.is_some() && uri.scheme_str() == Some("http") {
            let hint = "write https:// in the address, or remove the tls section";
            return Err(ConfigError::new(
                "tls",
                format!("`{}` is a plain-text address", self.address),
                hint,
            ));
        }
        if !self.api_key.is_empty()
            && uri.scheme_str() == Some("http")
            && !self.api_key_over_plain_text
            && !is_loopback(&uri)
        {
            return Err(ConfigError::new(
                "api_key",
                format!("would travel to `{}` in plain text", self.address),
                "write https:// in the address; or set api_key_over_plain_text = true where nobody else can read the traffic",
            ));
        }
        bearer(&self.api_key).map(drop)
    }
}

fn is_loopback(uri: &http::Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

/// The header that carries a key, marked so that it is never printed.
fn bearer(key: &Secret) -> Result<Option<HeaderValue>, ConfigError> {
    let Some(key) = key.expose() else { return Ok(None) };
    let mut value = HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| {
        // The error does not repeat a key that cannot be sent.
        ConfigError::new(
            "api_key",
            "holds characters that a key cannot have",
            "copy the key alone, without line breaks",
        )
    })?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// A cheaply cloned channel to a gRPC server, across a network or inside this process. Each call
/// carries the W3C trace context of the current span and the configured key. It is cancelled on the
/// server when its answer is dropped. A call fails with `UNAVAILABLE` if its connection cannot be
/// made or breaks before the answer; the message names the server and the cause. If a host name has
/// several addresses, all of them count as one server: each call goes to the address with the
/// fewest calls in flight, and the name is resolved again from time to time. Use the channel with
/// any generated client: `EncoderServiceClient::new(channel)`.
#[derive(Clone, Debug)]
pub struct GrpcChannel {
    way: Transport,
    authorization: Option<HeaderValue>,
    /// The tenant of all calls. `None`: each call keeps the tenant that it names.
    tenant: Option<HeaderValue>,
    /// The server's name in error messages.
    place: Arc<str>,
    /// The server as spans name it; `None` if it is in this process.
    server: Option<span::Server>,
}

/// The transport to the server.
#[derive(Clone, Debug)]
enum Transport {
    /// In this process.
    Memory(Channel),
    Network(Spread),
}

impl GrpcChannel {
    /// A channel to services of this process.
    pub(crate) fn here(inner: Channel) -> Self {
        Self {
            way: Transport::Memory(inner),
            authorization: None,
            tenant: None,
            place: "this process".into(),
            server: None,
        }
    }

    /// The same channel for calls that are made for a tenant.
    #[must_use]
    pub fn for_tenant(&self, tenant: &Tenant) -> Self {
        Self {
            tenant: tenant.header(),
            ..self.clone()
        }
    }

    fn of(config: &ClientConfig, spread: Spread) -> Result<Self, Fault> {
        Ok(Self {
            way: Transport::Network(spread),
            authorization: bearer(&config.api_key)?,
            tenant: None,
            place: config.address.as_str().into(),
            server: config.url().parse().ok().as_ref().and_then(span::Server::at),
        })
    }
}

/// Connects, and fails at once if the server does not answer. If the connection is lost later, the
/// next call reconnects.
///
/// # Errors
/// When the address or the TLS files are unusable, or the server does not answer.
pub async fn connect(config: &ClientConfig) -> Result<GrpcChannel, Fault> {
    let (dialer, endpoint) = prepare(config, Box::new(System))?;
    let spread = Spread::connected(dialer, endpoint).await.map_err(|e| {
        Fault::unavailable(
            "SERVER_UNAVAILABLE",
            format!("no Isomer server at {}: {}", config.address, root(&e)),
        )
        .hint("start one with `isomer serve`, or correct the address")
        .with("address", &config.address)
    })?;
    GrpcChannel::of(config, spread)
}

/// Connects at the first call, and reconnects after the connection is lost.
///
/// # Errors
/// When the address or the TLS files are unusable.
pub fn connect_lazy(config: &ClientConfig) -> Result<GrpcChannel, Fault> {
    connect_lazy_to(config, Box::new(System))
}

/// Like [`connect_lazy`], but connects to the addresses that `resolver` finds. The resolver may
/// leave out addresses that are not permitted.
///
/// # Errors
/// When the address or the TLS files are unusable.
pub fn connect_lazy_to(config: &ClientConfig, resolver: Box<dyn Resolve>) -> Result<GrpcChannel, Fault> {
    let (dialer, endpoint) = prepare(config, resolver)?;
    GrpcChannel::of(config, Spread::lazy(dialer, endpoint))
}

fn prepare(config: &ClientConfig, resolver: Box<dyn Resolve>) -> Result<(Dialer, Endpoint), Fault> {
    config.validate()?;
    let bad = |error: &dyn std::error::Error| Fault::invalid("address", format!("`{}`: {error}", config.address));
    let url: http::Uri = config.url().parse().map_err(|error| bad(&error))?;
    let secure = url.scheme_str() == Some("https");
    let host = url.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let encryption = secure
        .then(|| Encryption::new(config.tls.as_ref(), &host, &config.address))
        .transpose()?;
    let dialer = Dialer {
        resolver,
        host,
        port: url.port_u16().unwrap_or(if secure { 443 } else { 80 }),
        encryption,
    };
    // The dialer makes the connection, including TLS. tonic would add its own TLS to `https`, so it
    // gets an address without that scheme, while requests carry the right one.
    let plain = config.url().replacen("https://", "http://", 1);
    let endpoint = Endpoint::from_shared(plain)
        .map_err(|error| bad(&error))?
        .origin(url)
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .initial_stream_window_size(wire::STREAM_WINDOW)
        .initial_connection_window_size(wire::CONNECTION_WINDOW)
        .max_frame_size(wire::FRAME)
        .http2_keep_alive_interval(Duration::from_secs(30));
    Ok((dialer, endpoint))
}

/// The innermost cause: "connection refused" instead of "transport error".
fn root(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

/// The status of a call whose connection could not be made or broke before the answer. tonic
/// recognises a connection that could not be made. It reports a connection that broke later as an
/// unknown error, for example if the server closed it because it does not trust the client's
/// certificate (in TLS 1.3 that happens after the client's own handshake).
fn lost(place: &str, error: tonic::transport::Error) -> Status {
    let cause = root(&error);
    let (message, error) = match Status::try_from_error(error.into()) {
        Ok(status) if !matches!(status.code(), Code::Unavailable | Code::Unknown) => return status,
        Ok(status) if status.code() == Code::Unavailable => {
            (format!("{place} cannot be reached: {cause}"), StdError::from(status))
        }
        Ok(status) => (format!("the connection to {place} broke: {cause}"), status.into()),
        Err(error) => (format!("the connection to {place} broke: {cause}"), error),
    };
    let fault = Fault::unavailable("SERVER_UNAVAILABLE", message)
        .hint(
            "check that it runs, that the address is right and, with TLS, that each side trusts the other's certificate",
        )
        .with("address", place);
    let mut status = Status::from(fault);
    status.set_source(error.into());
    status
}

impl Service<http::Request<Body>> for GrpcChannel {
    type Response = http::Response<Body>;
    type Error = Status;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        match &mut self.way {
            Transport::Memory(channel) => Service::poll_ready(channel, cx).map_err(|error| lost(&self.place, error)),
            // The subchannel is chosen at the time of the call.
            Transport::Network(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let path = request.uri().path();
        let mut call = span::Call::start(path, self.server.as_ref());
        // Within the process the server's span is a direct child of the caller's.
        let carried = match self.server {
            None if !span::is_health(path) => tracing::Span::current(),
            _ => call.span(),
        };
        trace_context::carry(&carried, request.headers_mut());
        if let Some(authorization) = &self.authorization {
            request
                .headers_mut()
                .insert(header::AUTHORIZATION, authorization.clone());
        }
        if let Some(name) = &self.tenant {
            request.headers_mut().insert(TENANT, name.clone());
        }
        let (parts, body) = request.into_parts();
        let (body, tie) = cancel::tie(body);
        let request = http::Request::from_parts(parts, body);
        let answer = match &mut self.way {
            Transport::Memory(channel) => Service::call(channel, request).map_ok(|answer| (answer, None)).boxed(),
            Transport::Network(spread) => spread
                .call(request)
                .map_ok(|(answer, in_flight)| (answer, Some(in_flight)))
                .boxed(),
        };
        let (place, span) = (Arc::clone(&self.place), call.span());
        let answer = async move {
            match answer.await {
                Ok((answer, in_flight)) => Ok(call.follow(answer).map(|body| tie.hold(body, in_flight))),
                Err(error) => {
                    let lost = lost(&place, error);
                    call.end(lost.code());
                    Err(lost)
                }
            }
        };
        Box::pin(answer.instrument(span))
    }
}
