//! The guard in front of every connection: as the resolver of HTTP clients and as the connector of
//! gRPC channels.

use std::{
    io,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tonic::codegen::StdError;
use tower::Service;

use super::AddressGuard;

/// Resolves names for reqwest. Hosts written as addresses never get here;
/// [`AddressGuard::check_literal`] checks those.
#[derive(Debug, Clone)]
pub struct Resolver {
    /// The guard that decides.
    pub guard: AddressGuard,
    /// The host to resolve instead of the requested name, if that name is only the one in the
    /// certificate.
    pub host: Option<String>,
}

impl reqwest::dns::Resolve for Resolver {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let Self { guard, host } = self.clone();
        Box::pin(async move {
            let host = host.unwrap_or_else(|| name.as_str().to_owned());
            let found = guard.resolve(&host, 0).await?;
            Ok(Box::new(found.into_iter()) as reqwest::dns::Addrs)
        })
    }
}

/// Connects gRPC channels.
#[derive(Debug, Clone)]
pub struct Connector(pub AddressGuard);

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = StdError;
    type Future = BoxFuture<'static, Result<Self::Response, StdError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StdError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let guard = self.0.clone();
        Box::pin(async move {
            let host = uri.host().unwrap_or_default();
            let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
            let addresses = guard.resolve(host, uri.port_u16().unwrap_or(default)).await?;
            let stream = TcpStream::connect(addresses.as_slice()).await?;
            stream.set_nodelay(true).or_else(|error| match error.kind() {
                // The peer has closed it already; the first write reports that better.
                io::ErrorKind::InvalidInput => Ok(()),
                _ => Err(error),
            })?;
            Ok(TokioIo::new(stream))
        })
    }
}
