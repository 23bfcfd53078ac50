//! Settings that a client needs before its first call.

use std::{env, future::Future, path::PathBuf, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use isomer_encoder_client::{
    batches::{Bounds, MOST_REQUEST_BYTES},
    retry::Policy,
};
use isomer_service_kit::{
    Fault,
    client::{self, ClientConfig, ClientTls},
    config::{ConfigError, Secret, Validate},
};

use crate::{
    Channel, Client, Error, Token, TokenSource,
    batching::BatchOptions,
    call::Calls,
    channel::{Interceptor, Shared},
    error::reasons,
    token::CachedToken,
};

/// Address of a server with default settings.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:50051";

/// Time for one request, its retries included.
const TIMEOUT: Duration = Duration::from_secs(120);

/// TLS towards the server, by PEM files, which are read again for every connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// The authorities to trust; absent: the system's.
    pub ca_file: Option<PathBuf>,
    /// The client's certificate chain (mTLS).
    pub certificate_file: Option<PathBuf>,
    /// The certificate's private key.
    pub key_file: Option<PathBuf>,
    /// The name expected in the server's certificate; absent: the address's host.
    pub server_name: Option<String>,
}

/// A client that is still to be made: [`Client::builder`].
#[must_use]
pub struct Builder {
    config: ClientConfig,
    token: Option<Box<dyn TokenSource>>,
    metadata: Vec<(String, String)>,
    interceptors: Vec<Interceptor>,
    timeout: Option<Duration>,
    retries: Policy,
    in_flight: usize,
    bounds: Bounds,
    check_spaces: bool,
}

impl Client {
    /// A client of the server at an address: `host:port`, `http://host:port`, or `https://host`
    /// (TLS; port 443 unless given). It sends nothing: the first call connects. It is made within
    /// a tokio runtime.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] where the address cannot be used.
    pub fn new(address: impl Into<String>) -> Result<Self, Error> {
        Self::builder(address).build()
    }

    /// Settings for a client of the server at an address.
    pub fn builder(address: impl Into<String>) -> Builder {
        Builder::new(address.into())
    }

    /// A client of the server in `ISOMER_SERVER`, with the key in `ISOMER_API_KEY`, as the command
    /// line has it.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn from_environment() -> Result<Self, Error> {
        let named = |name| env::var(name).ok().filter(|value: &String| !value.is_empty());
        let address = named("ISOMER_SERVER").unwrap_or_else(|| DEFAULT_ADDRESS.to_owned());
        Self::builder(address)
            .key(named("ISOMER_API_KEY").unwrap_or_default())
            .build()
    }
}

impl Builder {
    pub(crate) fn new(address: String) -> Self {
        // gRPC's own names, as providers and clients in other languages have them.
        let address = match address.split_once("://") {
            Some(("grpc", rest)) => format!("http://{rest}"),
            Some(("grpcs", rest)) => format!("https://{rest}"),
            _ => address,
        };
        Self {
            config: ClientConfig::plain(address),
            token: None,
            metadata: Vec::new(),
            interceptors: Vec::new(),
            timeout: Some(TIMEOUT),
            retries: Policy::OUTER,
            in_flight: 4,
            bounds: Bounds {
                items: 256,
                bytes: MOST_REQUEST_BYTES,
            },
            check_spaces: true,
        }
    }

    /// Calls the server with TLS, also where the address does not begin with `https://`.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.config.tls = Some(ClientTls {
            ca_file: tls.ca_file,
            certificate_file: tls.certificate_file,
            key_file: tls.key_file,
            server_name: tls.server_name,
        });
        self
    }

    /// Sends an API key with each call.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        let key: String = key.into();
        self.config.api_key = if key.is_empty() {
            Secret::default()
        } else {
            Secret::new(key)
        };
        self
    }

    /// Sends tokens of an identity provider in place of a key.
    pub fn token_source(mut self, source: impl TokenSource + 'static) -> Self {
        self.token = Some(Box::new(source));
        self
    }

    /// [`Builder::token_source`] of an async closure.
    pub fn tokens<F, A>(self, source: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<Token, Error>> + Send + 'static,
    {
        self.token_source(source)
    }

    /// Sends a further name and value with each call.
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.push((name.into(), value.into()));
        self
    }

    /// Sees and changes the headers of every attempt, a stream's included: `traceparent`, for
    /// programs whose traces are not those of `tracing`.
    pub fn interceptor(mut self, interceptor: impl Fn(&mut HeaderMap) + Send + Sync + 'static) -> Self {
        self.interceptors.push(Arc::new(interceptor));
        self
    }

    /// The time for one request, its retries included; 120 s unless it is given. [`Client::within`]
    /// bounds a whole call.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Lets a request take as long as the server lets it.
    pub fn no_timeout(mut self) -> Self {
        self.timeout = None;
        self
    }

    /// How often a request is made again; [`RetryPolicy::OUTER`](Policy::OUTER) unless it is given.
    pub fn retries(mut self, policy: Policy) -> Self {
        self.retries = policy;
        self
    }

    /// Maximum number of concurrent requests of one call; default 4.
    pub fn in_flight(mut self, count: usize) -> Self {
        self.in_flight = count;
        self
    }

    /// Maximum number of texts in one request; default 256. The encoder's own limit goes before.
    pub fn batch_items(mut self, items: usize) -> Self {
        self.bounds.items = items;
        self
    }

    /// Maximum bytes of text in one request; default 1 MiB.
    pub fn batch_bytes(mut self, bytes: usize) -> Self {
        self.bounds.bytes = bytes;
        self
    }

    /// Lets a key or token travel in plain text to another machine, where anyone on the way can
    /// read and use it.
    pub fn secret_over_plain_text(mut self) -> Self {
        self.config.api_key_over_plain_text = true;
        self
    }

    /// Takes answers of an encoder to the same question in another vector space than before, which
    /// otherwise are [`Error::SpaceMismatch`].
    pub fn no_space_check(mut self) -> Self {
        self.check_spaces = false;
        self
    }

    /// The client. Nothing is sent: the first call connects.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] with the field that cannot be used, or `runtime` outside of a
    /// tokio runtime.
    pub fn build(self) -> Result<Client, Error> {
        self.made(client::connect_lazy)
    }

    /// The client, once its server answers.
    ///
    /// # Errors
    /// As [`Builder::build`]; [`Error::Unavailable`] where no server answers.
    pub async fn connect(self) -> Result<Client, Error> {
        self.check()?;
        let channel = client::connect(&self.config).await?;
        self.made(|_| Ok(channel))
    }

    fn made(
        mut self,
        connect: impl FnOnce(&ClientConfig) -> Result<isomer_service_kit::GrpcChannel, Fault>,
    ) -> Result<Client, Error> {
        let metadata = self.check()?;
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(Error::invalid(
                "runtime",
                "is missing: connections live in one of tokio's",
                "make the client in an async function, e.g. under #[tokio::main]",
            ));
        }
        let channel = connect(&self.config)?;
        let shared = Shared {
            metadata,
            token: self.token.take().map(CachedToken::new),
            interceptors: self.interceptors,
        };
        let calls = Calls {
            channel: Channel::new(channel, shared),
            retries: self.retries,
            timeout: self.timeout,
            until: None,
        };
        let batching = BatchOptions {
            in_flight: self.in_flight,
            bounds: self.bounds,
            check_spaces: self.check_spaces,
        };
        Ok(Client::of(calls, batching))
    }

    /// Says what cannot be meant, before anything is sent.
    fn check(&self) -> Result<HeaderMap, Error> {
        if !self.config.api_key.is_empty() && self.token.is_some() {
            return Err(Error::invalid(
                "token",
                "a key and a token source are both given",
                "give one of the two",
            ));
        }
        // The rule for keys is the rule for tokens.
        let mut config = self.config.clone();
        if self.token.is_some() {
            config.api_key = Secret::new("token");
        }
        config.validate().map_err(|error| self.unusable(&error))?;
        for (field, value) in [
            ("in_flight", self.in_flight),
            ("batch_items", self.bounds.items),
            ("batch_bytes", self.bounds.bytes),
        ] {
            if value == 0 {
                return Err(Error::invalid(field, "is 0", "give 1 or more"));
            }
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(Error::invalid("timeout", "is 0", "give more, or call no_timeout"));
        }
        self.headers()
    }

    fn headers(&self) -> Result<HeaderMap, Error> {
        const SECRETS: [HeaderName; 3] = [
            header::AUTHORIZATION,
            HeaderName::from_static("x-api-key"),
            HeaderName::from_static("api-key"),
        ];
        let mut headers = HeaderMap::new();
        for (name, value) in &self.metadata {
            let hint = "give a name in lower case and a value in ASCII; a key is given by Builder::key";
            let bad = |what: &str| Error::invalid("metadata", format!("`{name}` {what}"), hint);
            let header =
                HeaderName::from_lowercase(name.as_bytes()).map_err(|_| bad("is not a valid name of metadata"))?;
            let has_secret = !self.config.api_key.is_empty() || self.token.is_some();
            if has_secret && SECRETS.contains(&header) {
                return Err(bad("is where the key goes"));
            }
            let value = HeaderValue::try_from(value).map_err(|_| bad("has a value that cannot be sent"))?;
            headers.append(header, value);
        }
        Ok(headers)
    }

    /// The error for settings of the connection, in this client's names.
    fn unusable(&self, error: &ConfigError) -> Error {
        let mut fault = Fault::from(error.clone());
        "INVALID_ARGUMENT".clone_into(&mut fault.reason);
        match error.field() {
            "api_key" if fault.message.starts_with("would travel") => {
                reasons::SECRET_IN_PLAIN_TEXT.clone_into(&mut fault.reason);
                fault.field = Some("address".to_owned());
                fault.message = format!("the key would travel to `{}` in plain text", self.config.address);
                fault.hint = Some(
                    "write https:// in the address; or call secret_over_plain_text where nobody else can read the traffic"
                        .to_owned(),
                );
            }
            "api_key" => fault.field = Some("key".to_owned()),
            _ => {}
        }
        fault.into()
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn refused(builder: Builder) -> Error {
        builder.build().unwrap_err()
    }

    #[test]
    fn a_secret_does_not_travel_in_plain_text_to_another_machine() {
        let far = || Builder::new("http://gateway.example:50051".to_owned());
        for builder in [
            far().key("iso_hunter2"),
            far().tokens(|| async { Ok(Token::new("hunter2")) }),
        ] {
            let error = refused(builder);
            assert_eq!(error.reason(), reasons::SECRET_IN_PLAIN_TEXT);
            assert_eq!(error.field(), Some("address"));
            assert!(error.hint().unwrap().contains("https://") && !error.to_string().contains("hunter2"));
        }
        assert!(far().key("iso_hunter2").secret_over_plain_text().check().is_ok());
        assert!(far().check().is_ok());
        assert!(
            Builder::new("localhost:1".to_owned())
                .key("iso_hunter2")
                .check()
                .is_ok()
        );
        assert!(
            Builder::new("https://gateway.example".to_owned())
                .key("iso_hunter2")
                .check()
                .is_ok()
        );
    }

    #[tokio::test]
    async fn every_form_of_an_address_is_taken() {
        for address in [
            "localhost:1",
            "http://localhost:1",
            "grpc://[::1]:1",
            "https://localhost",
            "grpcs://gateway.example:1",
        ] {
            Builder::new(address.to_owned()).build().unwrap();
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_field() {
        let here = || Builder::new("localhost:1".to_owned());
        for (builder, field) in [
            (Builder::new(String::new()), "address"),
            (Builder::new("ftp://localhost".to_owned()), "address"),
            (Builder::new("http://localhost:1".to_owned()).tls(Tls::default()), "tls"),
            (here().key("two\nlines"), "key"),
            (here().key("a").tokens(|| async { Ok(Token::new("b")) }), "token"),
            (here().in_flight(0), "in_flight"),
            (here().batch_items(0), "batch_items"),
            (here().batch_bytes(0), "batch_bytes"),
            (here().timeout(Duration::ZERO), "timeout"),
            (here().metadata("Upper", "x"), "metadata"),
            (here().metadata("x-team", "two\nlines"), "metadata"),
            (here().key("a").metadata("authorization", "x"), "metadata"),
        ] {
            let error = refused(builder);
            assert_eq!(
                (error.code(), error.field()),
                (tonic::Code::InvalidArgument, Some(field))
            );
            assert!(error.hint().is_some());
        }
        assert!(
            here()
                .metadata("authorization", "Basic x")
                .metadata("x-team", "search")
                .check()
                .is_ok()
        );
    }
}
