//! Applies the guard to every connection, as the resolver of HTTP clients and of gRPC channels.

use std::net::SocketAddr;

use futures::future::BoxFuture;
use tonic::codegen::StdError;

use super::AddressGuard;

/// Resolves names for reqwest. Hosts written as addresses are not resolved;
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

/// Resolves names for gRPC channels.
impl isomer_service_kit::client::Resolve for AddressGuard {
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<'static, Result<Vec<SocketAddr>, StdError>> {
        let (guard, host) = (self.clone(), host.to_owned());
        Box::pin(async move { Self::resolve(&guard, &host, port).await })
    }
}
