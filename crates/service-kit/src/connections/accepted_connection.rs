//! Accepted connections, counted until their first request begins.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum_server::{AddrListener, Address};
use tokio::net::{TcpListener, TcpStream};

/// Accepted connections whose first request has not begun. Closing such a connection resets data
/// that its client is about to send.
#[derive(Debug, Clone, Default)]
pub(crate) struct Newcomers(Arc<AtomicUsize>);

impl Newcomers {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    pub(super) fn enter(&self) -> Newcomer {
        self.0.fetch_add(1, Ordering::AcqRel);
        Newcomer(Self::clone(self))
    }
}

/// One accepted connection without a request, counted until it is dropped.
#[derive(Debug)]
pub(super) struct Newcomer(Newcomers);

impl Drop for Newcomer {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A connection that was just accepted.
#[derive(Debug)]
pub(crate) struct AcceptedConnection {
    pub(super) stream: TcpStream,
    pub(super) newcomer: Newcomer,
}

/// A listener that counts the connections it accepts.
#[derive(Debug)]
pub(crate) struct Port {
    listener: TcpListener,
    newcomers: Newcomers,
}

impl Port {
    pub(crate) fn new(listener: TcpListener, newcomers: Newcomers) -> Self {
        Self { listener, newcomers }
    }
}

/// The address of such a listener.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListenerAddress(SocketAddr);

impl Address for ListenerAddress {
    type Stream = AcceptedConnection;
    type Listener = Port;
}

impl AddrListener<AcceptedConnection, ListenerAddress> for Port {
    async fn bind_to(ListenerAddress(address): ListenerAddress) -> io::Result<Self> {
        Ok(Self::new(TcpListener::bind(address).await?, Newcomers::default()))
    }

    async fn accept_stream(&self) -> io::Result<(AcceptedConnection, ListenerAddress)> {
        let (stream, address) = self.listener.accept().await?;
        let newcomer = self.newcomers.enter();
        Ok((AcceptedConnection { stream, newcomer }, ListenerAddress(address)))
    }

    fn get_local_addr(&self) -> io::Result<ListenerAddress> {
        self.listener.local_addr().map(ListenerAddress)
    }
}
