//! Distributes calls over all addresses of a server.
//!
//! gRPC sends all calls of a channel over one connection. If a name has several addresses, as a
//! headless Service of Kubernetes has one for each ready pod, one server would get every call. So
//! each address has a subchannel, and a call goes to the subchannel with the fewest calls in
//! flight.

use std::{
    collections::HashMap,
    fmt,
    net::SocketAddr,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use parking_lot::Mutex;
use tokio::time::Instant;
use tonic::{
    body::Body,
    codegen::StdError,
    transport::{Channel, Endpoint, Error},
};
use tower::{Service, ServiceExt};

use super::dial::{Dialer, Stream};

/// Age of the addresses after which the next call resolves the name again.
const FRESH: Duration = Duration::from_secs(5);
/// Time for which an address that did not answer gets no subchannel of its own; doubled after each
/// failure.
const PENALTY: Duration = Duration::from_secs(5);
const LONGEST_PENALTY: Duration = Duration::from_secs(60);

/// A server with all its addresses. Cheap to clone.
#[derive(Clone)]
pub(super) struct Spread(Arc<Inner>);

struct Inner {
    dialer: Arc<Dialer>,
    endpoint: Endpoint,
    state: Mutex<State>,
}

struct State {
    /// Never empty.
    subchannels: Vec<Arc<Subchannel>>,
    /// Where the search for the next subchannel begins, so that equally busy subchannels take
    /// turns.
    turn: usize,
    resolved: Option<Instant>,
    resolving: bool,
    /// Addresses that did not answer.
    penalties: HashMap<SocketAddr, Penalty>,
}

#[derive(Debug, Clone, Copy)]
struct Penalty {
    until: Instant,
    lasts: Duration,
}

/// One connection, made at the first call and made again when it breaks.
struct Subchannel {
    /// The address of the connection; `None` if the name has only one.
    address: Option<SocketAddr>,
    channel: Channel,
    in_flight: Arc<AtomicUsize>,
    /// Whether the connection goes to another address because its own did not answer. The next
    /// resolution resets this.
    strayed: Arc<AtomicBool>,
}

impl Spread {
    /// Connects at the first call.
    pub(super) fn lazy(dialer: Dialer, endpoint: Endpoint) -> Self {
        let dialer = Arc::new(dialer);
        let channel = endpoint.connect_with_connector_lazy(Connector::any(&dialer));
        Self::with(dialer, endpoint, channel)
    }

    pub(super) async fn connected(dialer: Dialer, endpoint: Endpoint) -> Result<Self, Error> {
        let dialer = Arc::new(dialer);
        let channel = endpoint.connect_with_connector(Connector::any(&dialer)).await?;
        Ok(Self::with(dialer, endpoint, channel))
    }

    fn with(dialer: Arc<Dialer>, endpoint: Endpoint, channel: Channel) -> Self {
        let state = State {
            subchannels: vec![Arc::new(Subchannel {
                address: None,
                channel,
                in_flight: Arc::default(),
                strayed: Arc::default(),
            })],
            turn: 0,
            resolved: None,
            resolving: false,
            penalties: HashMap::new(),
        };
        Self(Arc::new(Inner {
            dialer,
            endpoint,
            state: Mutex::new(state),
        }))
    }

    /// Sends a call to the least busy address.
    pub(super) fn call(&self, request: Request<Body>) -> BoxFuture<'static, Result<(Response<Body>, InFlight), Error>> {
        let (subchannel, stale) = self.0.choose();
        if stale {
            // The call does not wait for the resolution.
            tokio::spawn(refresh(Arc::downgrade(&self.0)));
        }
        let in_flight = InFlight::begin(&subchannel.in_flight);
        let channel = subchannel.channel.clone();
        Box::pin(async move { Ok((channel.oneshot(request).await?, in_flight)) })
    }
}

impl Inner {
    /// The subchannel with the fewest calls in flight, and whether the name must be resolved again.
    fn choose(&self) -> (Arc<Subchannel>, bool) {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.turn = state.turn.wrapping_add(1);
        let (count, turn) = (state.subchannels.len(), state.turn);
        let in_turn = (0..count).map(|step| &state.subchannels[(turn.wrapping_add(step)) % count]);
        let least = in_turn.min_by_key(|one| {
            (
                one.strayed.load(Ordering::Relaxed),
                one.in_flight.load(Ordering::Relaxed),
            )
        });
        let chosen = Arc::clone(least.unwrap_or(&state.subchannels[0]));
        let strayed = state.subchannels.iter().any(|one| one.strayed.load(Ordering::Relaxed));
        let old = state.resolved.is_none_or(|at| now.duration_since(at) >= FRESH);
        let stale = (old || strayed) && !state.resolving;
        state.resolving |= stale;
        (chosen, stale)
    }

    /// Keeps a subchannel for each address that still exists, and creates one for each new address.
    fn adopt(self: &Arc<Self>, found: &[SocketAddr]) {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.resolved = Some(now);
        state
            .penalties
            .retain(|address, penalty| found.contains(address) && now < penalty.until + LONGEST_PENALTY);
        let mut usable: Vec<SocketAddr> = found.to_vec();
        usable.retain(|address| state.penalties.get(address).is_none_or(|penalty| penalty.until <= now));
        if usable.is_empty() {
            // No address answered, and any of them may have recovered.
            usable = found.to_vec();
        }
        let wanted: Vec<Option<SocketAddr>> = match (found, usable.as_slice()) {
            // With one address all subchannels are equivalent.
            ([_] | [], _) => vec![None],
            (_, usable) => usable.iter().copied().map(Some).collect(),
        };
        let kept: Vec<_> = wanted
            .into_iter()
            .map(|address| {
                let there = state
                    .subchannels
                    .iter()
                    .find(|one| one.address == address && !one.strayed.load(Ordering::Relaxed));
                there.cloned().unwrap_or_else(|| self.subchannel(address))
            })
            .collect();
        state.subchannels = kept;
    }

    fn subchannel(self: &Arc<Self>, address: Option<SocketAddr>) -> Arc<Subchannel> {
        let strayed = Arc::<AtomicBool>::default();
        let connector = Connector {
            dialer: Arc::clone(&self.dialer),
            address,
            strayed: Arc::clone(&strayed),
            spread: Arc::downgrade(self),
        };
        Arc::new(Subchannel {
            address,
            channel: self.endpoint.connect_with_connector_lazy(connector),
            in_flight: Arc::default(),
            strayed,
        })
    }

    /// Records whether an address answered.
    fn heard(&self, address: SocketAddr, answered: bool) {
        let mut state = self.state.lock();
        if answered {
            state.penalties.remove(&address);
            return;
        }
        let before = state.penalties.get(&address).map(|penalty| penalty.lasts * 2);
        let lasts = before.unwrap_or(PENALTY).min(LONGEST_PENALTY);
        let until = Instant::now() + lasts;
        state.penalties.insert(address, Penalty { until, lasts });
    }
}

/// Resolves the name again.
async fn refresh(spread: Weak<Inner>) {
    let Some(inner) = spread.upgrade() else { return };
    let found = inner.dialer.addresses().await;
    match found {
        Ok(found) if !found.is_empty() => inner.adopt(&found),
        // The known addresses are kept: the resolver may be down while the servers are up.
        failed => {
            let error = failed.err().map(|error| error.to_string());
            tracing::debug!(host = inner.dialer.host, error, "the name cannot be resolved again");
            inner.state.lock().resolved = Some(Instant::now());
        }
    }
    inner.state.lock().resolving = false;
}

impl fmt::Debug for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state.lock();
        let addresses = state.subchannels.iter().map(|one| one.address);
        f.debug_struct("Spread")
            .field("host", &self.0.dialer.host)
            .field("addresses", &addresses.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// A call in flight; it is over when dropped.
#[derive(Debug)]
pub(super) struct InFlight(Arc<AtomicUsize>);

impl InFlight {
    fn begin(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connects a subchannel. If its address does not answer, it connects to another address of the
/// server, so that a call already assigned to it does not fail.
struct Connector {
    dialer: Arc<Dialer>,
    address: Option<SocketAddr>,
    strayed: Arc<AtomicBool>,
    spread: Weak<Inner>,
}

impl Connector {
    /// A connector to any address.
    fn any(dialer: &Arc<Dialer>) -> Self {
        Self {
            dialer: Arc::clone(dialer),
            address: None,
            strayed: Arc::default(),
            spread: Weak::new(),
        }
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = StdError;
    type Future = BoxFuture<'static, Result<Stream, StdError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StdError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let (dialer, address) = (Arc::clone(&self.dialer), self.address);
        let (strayed, spread) = (Arc::clone(&self.strayed), Weak::clone(&self.spread));
        Box::pin(async move {
            let dialled = dialer.dial(address).await;
            if let Some(address) = address {
                let answered = dialled.as_ref().is_ok_and(|(_, at)| *at == address);
                strayed.store(!answered, Ordering::Relaxed);
                if let Some(spread) = spread.upgrade() {
                    spread.heard(address, answered);
                }
            }
            Ok(dialled?.0)
        })
    }
}
