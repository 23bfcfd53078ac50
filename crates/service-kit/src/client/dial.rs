//! Connections to a server: its addresses, TCP, TLS.

use std::{fmt, io, net::SocketAddr, time::Duration};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpStream, lookup_host},
    time::{sleep, timeout},
};
use tokio_util::either::Either;
use tonic::codegen::StdError;

use super::tls::Encryption;

/// Head start of one address before the next address is tried in parallel (RFC 8305 recommends 250
/// ms).
const HEAD_START: Duration = Duration::from_millis(250);

/// A connection, with or without TLS.
pub(super) type Stream = TokioIo<Either<TcpStream, tokio_rustls::client::TlsStream<TcpStream>>>;

/// Finds the addresses of a host.
pub trait Resolve: fmt::Debug + Send + Sync {
    /// The addresses of `host` to which connections are permitted.
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<'static, Result<Vec<SocketAddr>, StdError>>;
}

/// The system's resolver.
#[derive(Debug)]
pub(super) struct System;

impl Resolve for System {
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<'static, Result<Vec<SocketAddr>, StdError>> {
        let host = host.to_owned();
        async move { Ok(lookup_host((host, port)).await?.collect()) }.boxed()
    }
}

/// Connects to one server.
#[derive(Debug)]
pub(super) struct Dialer {
    pub(super) resolver: Box<dyn Resolve>,
    /// Without the brackets of an IPv6 address.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) encryption: Option<Encryption>,
}

impl Dialer {
    /// The server's current addresses, without duplicates.
    pub(super) async fn addresses(&self) -> Result<Vec<SocketAddr>, StdError> {
        let mut found = self.resolver.resolve(&self.host, self.port).await?;
        let mut seen = Vec::with_capacity(found.len());
        found.retain(|address| {
            let new = !seen.contains(address);
            seen.push(*address);
            new
        });
        Ok(found)
    }

    /// Connects to `wanted`, or to another address of the server if `wanted` does not answer soon.
    /// Also returns the address.
    pub(super) async fn dial(&self, wanted: Option<SocketAddr>) -> Result<(Stream, SocketAddr), StdError> {
        if let Some(wanted) = wanted
            && let Ok(Ok(stream)) = timeout(HEAD_START, TcpStream::connect(wanted)).await
        {
            return Ok((self.over(stream).await?, wanted));
        }
        let mut addresses = self.addresses().await?;
        // The address that did not answer comes last.
        addresses.sort_by_key(|address| Some(*address) == wanted);
        let (stream, address) = first(&addresses).await?;
        Ok((self.over(stream).await?, address))
    }

    async fn over(&self, stream: TcpStream) -> Result<Stream, StdError> {
        stream.set_nodelay(true).or_else(|error| match error.kind() {
            // The peer has already closed the connection; the first write gives the better error.
            io::ErrorKind::InvalidInput => Ok(()),
            _ => Err(error),
        })?;
        Ok(TokioIo::new(match &self.encryption {
            None => Either::Left(stream),
            Some(encryption) => Either::Right(encryption.shake(stream).await?),
        }))
    }
}

/// Returns the first of these addresses that answers. Each address has a head start before the
/// next.
async fn first(addresses: &[SocketAddr]) -> io::Result<(TcpStream, SocketAddr)> {
    let mut waiting = addresses.iter().copied();
    let mut attempts = FuturesUnordered::new();
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    loop {
        match waiting.next() {
            Some(address) => attempts.push(TcpStream::connect(address).map(move |made| (made, address))),
            None if attempts.is_empty() => return Err(failed),
            None => {}
        }
        let head_start = async {
            match waiting.len() {
                0 => std::future::pending().await,
                _ => sleep(HEAD_START).await,
            }
        };
        tokio::select! {
            Some((made, address)) = attempts.next() => match made {
                Ok(stream) => return Ok((stream, address)),
                Err(error) => failed = error,
            },
            () = head_start => {}
        }
    }
}
