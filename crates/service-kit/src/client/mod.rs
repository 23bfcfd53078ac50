//! The channel every generated client runs over.

mod cancel;
mod span;

/// For calls that are made without a [`GrpcChannel`].
pub use crate::trace_context::{carry as carry_trace, join as join_trace};

use std::{
    path::PathBuf,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{HeaderValue, header};
use serde::{Deserialize, Serialize};
use tonic::{
    Code, Status,
    body::Body,
    codegen::StdError,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};
use tower::Service;
use tracing::Instrument;

use crate::{
    config::{ConfigError, Secret, Validate},
    error::Fault,
    trace_context, wire,
};

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

/// Client side of TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClientTls {
    /// PEM file with the authorities to trust; absent: the platform's.
    pub ca_file: Option<PathBuf>,
    /// PEM file with the client's certificate (mTLS).
    pub certificate_file: Option<PathBuf>,
    /// PEM file with its key.
    pub key_file: Option<PathBuf>,
    /// Name expected in the server's certificate; absent: the address's host.
    pub server_name: Option<String>,
}

impl ClientConfig {
    /// A plain-text address.
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
        // Never in plain text where TLS was asked for.
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
        // A key that cannot be sent is not repeated in the error.
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
/// carries the W3C trace context of the current span and the key of the configuration, and is
/// cancelled on the server when its answer is dropped. A call whose connection cannot be made, or
/// breaks before the answer, fails with `UNAVAILABLE`; the message names the server and the cause.
/// Use the channel with any generated client: `EncoderServiceClient::new(channel)`.
#[derive(Clone, Debug)]
pub struct GrpcChannel {
    inner: Channel,
    authorization: Option<HeaderValue>,
    /// The server, as error messages name it.
    place: Arc<str>,
    /// The server, as spans name it; none where it is in this process.
    server: Option<span::Server>,
}

impl GrpcChannel {
    /// A channel to services of this process.
    pub(crate) fn here(inner: Channel) -> Self {
        Self {
            inner,
            authorization: None,
            place: "this process".into(),
            server: None,
        }
    }

    fn of(config: &ClientConfig, inner: Channel) -> Result<Self, Fault> {
        Ok(Self {
            inner,
            authorization: bearer(&config.api_key)?,
            place: config.address.as_str().into(),
            server: config.url().parse().ok().as_ref().and_then(span::Server::at),
        })
    }
}

/// Connects, and fails at once if the server does not answer. A connection that is lost later is
/// made again at the next call.
///
/// # Errors
/// When the address or the TLS files are unusable, or the server does not answer.
pub async fn connect(config: &ClientConfig) -> Result<GrpcChannel, Fault> {
    let channel = endpoint(config)?.connect().await.map_err(|e| {
        Fault::unavailable(
            "SERVER_UNAVAILABLE",
            format!("no Isomer server at {}: {}", config.address, root(&e)),
        )
        .hint("start one with `isomer serve`, or correct the address")
        .with("address", &config.address)
    })?;
    GrpcChannel::of(config, channel)
}

/// Connects at the first call, and again after the connection was lost.
///
/// # Errors
/// When the address or the TLS files are unusable.
pub fn connect_lazy(config: &ClientConfig) -> Result<GrpcChannel, Fault> {
    GrpcChannel::of(config, endpoint(config)?.connect_lazy())
}

/// [`connect_lazy`] over connections that the caller makes, for example to check an address before
/// connecting to it. TLS is added on top of them as the configuration says.
///
/// # Errors
/// When the address or the TLS files are unusable.
pub fn connect_lazy_through<C>(config: &ClientConfig, connector: C) -> Result<GrpcChannel, Fault>
where
    C: Service<http::Uri> + Send + 'static,
    C::Response: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    StdError: From<C::Error>,
{
    GrpcChannel::of(config, endpoint(config)?.connect_with_connector_lazy(connector))
}

fn endpoint(config: &ClientConfig) -> Result<Endpoint, Fault> {
    config.validate()?;
    let url = config.url();
    let bad = |e: tonic::transport::Error| Fault::invalid("address", format!("`{}`: {}", config.address, root(&e)));
    let mut endpoint = Endpoint::from_shared(url.clone())
        .map_err(bad)?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .initial_stream_window_size(wire::STREAM_WINDOW)
        .initial_connection_window_size(wire::CONNECTION_WINDOW)
        .http2_keep_alive_interval(Duration::from_secs(30));
    if url.starts_with("https://") {
        crate::tls::install_crypto();
        endpoint = endpoint.tls_config(client_tls(config.tls.as_ref())?).map_err(bad)?;
    }
    Ok(endpoint)
}

fn client_tls(tls: Option<&ClientTls>) -> Result<ClientTlsConfig, Fault> {
    let mut config = ClientTlsConfig::new();
    let Some(tls) = tls else {
        return Ok(config.with_enabled_roots());
    };
    config = match &tls.ca_file {
        Some(file) => config.ca_certificate(Certificate::from_pem(crate::tls::read("tls.ca_file", file)?)),
        None => config.with_enabled_roots(),
    };
    if let Some(name) = &tls.server_name {
        config = config.domain_name(name);
    }
    match (&tls.certificate_file, &tls.key_file) {
        (Some(certificate), Some(key)) => {
            let certificate = crate::tls::read("tls.certificate_file", certificate)?;
            Ok(config.identity(Identity::from_pem(certificate, crate::tls::read("tls.key_file", key)?)))
        }
        (None, None) => Ok(config),
        _ => Err(Fault::invalid("tls", "certificate_file and key_file go together").hint("give both or neither")),
    }
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
/// recognises a connection that could not be made, but reports one that broke later as an unknown
/// error, for example one that the server closed because it does not trust the client's certificate
/// (in TLS 1.3 that happens after the client's own handshake).
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
        Service::poll_ready(&mut self.inner, cx).map_err(|error| lost(&self.place, error))
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
        let (parts, body) = request.into_parts();
        let (body, tie) = cancel::tie(body);
        let answer = Service::call(&mut self.inner, http::Request::from_parts(parts, body));
        let (place, span) = (Arc::clone(&self.place), call.span());
        let answer = async move {
            match answer.await {
                Ok(answer) => Ok(call.follow(answer).map(|body| tie.hold(body))),
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
