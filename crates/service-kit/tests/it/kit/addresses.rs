//! Calls to a name that has several addresses.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use isomer_service_kit::{
    GrpcChannel,
    client::{self, ClientConfig, Resolve},
    server::ServerConfig,
};
use parking_lot::Mutex;
use tonic::{Code, codegen::StdError};

use crate::support::{ScriptedEncoder, TestServer, eventually, get, services};

/// A name whose addresses a test changes, and the number of its resolutions.
#[derive(Debug, Clone, Default)]
struct Name(Arc<Mutex<Vec<SocketAddr>>>, Arc<AtomicUsize>);

impl Name {
    fn of(servers: &[&Server]) -> Self {
        let name = Self::default();
        name.set(servers);
        name
    }

    fn set(&self, servers: &[&Server]) {
        *self.0.lock() = servers.iter().map(|server| server.running.address).collect();
    }

    fn channel(&self) -> GrpcChannel {
        client::connect_lazy_to(&ClientConfig::plain("replicas.test:1"), Box::new(self.clone())).unwrap()
    }
}

impl Resolve for Name {
    fn resolve(&self, host: &str, _: u16) -> BoxFuture<'static, Result<Vec<SocketAddr>, StdError>> {
        assert_eq!(host, "replicas.test");
        let found = self.0.lock().clone();
        self.1.fetch_add(1, SeqCst);
        async move { Ok(found) }.boxed()
    }
}

struct Server {
    service: ScriptedEncoder,
    running: TestServer,
}

impl Server {
    async fn start() -> Self {
        let service = ScriptedEncoder::default();
        let running = TestServer::start(services(&service), ServerConfig::default()).await;
        Self { service, running }
    }

    /// Calls that have started here.
    fn begun(&self) -> usize {
        self.service.seen.begun.load(SeqCst)
    }
}

/// An address without a server.
async fn nobody() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

/// Calls until all of these servers have started one.
async fn reach(channel: &GrpcChannel, servers: &[&Server]) {
    let before: Vec<usize> = servers.iter().map(|server| server.begun()).collect();
    for _ in 0..2000 {
        get(channel, "x").await.unwrap();
        if servers
            .iter()
            .zip(&before)
            .all(|(server, before)| server.begun() > *before)
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not all servers are asked");
}

#[tokio::test]
async fn calls_take_turns_between_all_addresses() {
    let (one, other) = (Server::start().await, Server::start().await);
    let channel = Name::of(&[&one, &other]).channel();
    reach(&channel, &[&one, &other]).await;
    let before = (one.begun(), other.begun());
    for _ in 0..20 {
        get(&channel, "x").await.unwrap();
    }
    assert_eq!((one.begun() - before.0, other.begun() - before.1), (10, 10));
}

#[tokio::test]
async fn a_call_goes_where_fewest_are_in_flight() {
    let (one, other) = (Server::start().await, Server::start().await);
    let channel = Name::of(&[&one, &other]).channel();
    reach(&channel, &[&one, &other]).await;
    let before = (one.begun(), other.begun());
    let held = tokio::spawn({
        let channel = channel.clone();
        async move { get(&channel, "held").await }
    });
    eventually("a call is held", || one.begun() + other.begun() > before.0 + before.1).await;
    let (busy, idle) = if one.begun() > before.0 {
        (&one, &other)
    } else {
        (&other, &one)
    };
    let before = (busy.begun(), idle.begun());
    for _ in 0..6 {
        get(&channel, "x").await.unwrap();
    }
    assert_eq!((busy.begun() - before.0, idle.begun() - before.1), (0, 6));
    busy.service.seen.release.notify_waiters();
    held.await.unwrap().unwrap();
    // Its turn comes again.
    reach(&channel, &[busy]).await;
}

#[tokio::test]
async fn a_server_that_moves_to_another_address_costs_no_call() {
    let (stays, mut goes) = (Server::start().await, Server::start().await);
    let name = Name::of(&[&stays, &goes]);
    let channel = name.channel();
    reach(&channel, &[&stays, &goes]).await;
    let over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let (channel, over) = (channel.clone(), Arc::clone(&over));
            tokio::spawn(async move {
                let mut calls = 0;
                while !over.load(SeqCst) {
                    get(&channel, "slow:3").await.unwrap();
                    calls += 1;
                }
                calls
            })
        })
        .collect();

    goes.running.stop();
    goes.running.ended().await.unwrap();
    // The name still resolves to the address of the removed server.
    let before = stays.begun();
    eventually("the other takes its calls", || stays.begun() > before + 20).await;
    let comes = Server::start().await;
    name.set(&[&stays, &comes]);
    eventually("the new address is found", || comes.begun() > 20).await;

    over.store(true, SeqCst);
    for caller in callers {
        assert!(caller.await.expect("no call failed") > 0);
    }
}

#[tokio::test]
async fn an_address_where_nobody_listens_costs_no_call_and_a_name_of_such_alone_fails() {
    let server = Server::start().await;
    let name = Name::default();
    *name.0.lock() = vec![nobody().await, server.running.address];
    let channel = name.channel();
    for _ in 0..50 {
        get(&channel, "x").await.unwrap();
    }
    assert_eq!(server.begun(), 50);

    *name.0.lock() = vec![nobody().await, nobody().await];
    let error = get(&name.channel(), "x").await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("refused"), "{error}");
}

#[tokio::test]
async fn a_name_that_is_not_found_any_more_keeps_its_addresses() {
    let (one, other) = (Server::start().await, Server::start().await);
    let name = Name::of(&[&one, &other]);
    let channel = name.channel();
    reach(&channel, &[&one, &other]).await;
    name.set(&[]);
    let before = name.1.load(SeqCst);
    while name.1.load(SeqCst) == before {
        get(&channel, "x").await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    reach(&channel, &[&one, &other]).await;
    // The control: a new channel finds no server.
    let error = get(&name.channel(), "x").await.unwrap_err();
    assert!(error.message().contains("no address"), "{error}");
}
