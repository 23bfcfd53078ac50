//! Binds a port, serves on it, drains and stops.

#[cfg(target_os = "linux")]
mod handover;
#[cfg(not(target_os = "linux"))]
mod handover {
    //! Only Linux can leave a shared port without losing connections.

    pub(super) async fn hand_over(
        _: &std::net::TcpListener,
        _: &crate::connections::Newcomers,
        _: std::time::Duration,
    ) {
        tracing::debug!("connections in the queue are reset when the port is closed");
    }
}

use std::{convert::Infallible, future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{extract::Request, response::Response};
use axum_server::{
    Handle, Server,
    tls_rustls::{RustlsAcceptor, RustlsConfig},
};
use http::{Version, header};
use hyper_util::{
    rt::{TokioExecutor, TokioTimer},
    server::conn::auto::Builder,
};
use serde::{Deserialize, Serialize};
use tokio::{
    net::{TcpListener, TcpSocket},
    time::{Instant, sleep},
};
use tonic::Code;

use crate::{
    Fault, Services,
    config::{ConfigError, Validate},
    connections::{Connections, ListenerAddress, Newcomers, Port},
    files,
    layers::{OverTls, Via},
    limits::LimitsConfig,
    refusals::plain_refusal,
    tls::{Renewal, Role, TlsConfig},
    wire,
    wrap::{Next, wrap},
};

/// How long a client may take to send a request's headers over HTTP/1.1, including the idle time
/// before them.
const HEADERS: Duration = Duration::from_secs(30);
/// Maximum number of bytes of headers over HTTP/1.1, and of a body that is read before the handler
/// polls it. Thousands of connections may each hold this much. (Over HTTP/2 hyper allows 16 KiB of
/// headers.)
const HTTP_1_BUFFER: usize = 64 << 10;
/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;
/// How often the TLS files are checked.
const RENEWAL_POLL: Duration = Duration::from_secs(1);
/// How often a silent HTTP/2 connection is pinged, and how long its answer may take.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// A server's port and how it behaves there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// TLS; absent: plain text. Renewed files are used for new connections, without a restart.
    pub tls: Option<TlsConfig>,
    /// Maximum sizes and times of requests.
    pub limits: LimitsConfig,
    /// Longest wait for requests in flight when stopping, in seconds.
    pub shutdown_grace_seconds: u64,
    /// Lets another process with the same setting listen on the same address (`SO_REUSEPORT`):
    /// start the new one, then stop the old one, and there is no moment without a listener. On
    /// Linux no connection is lost either; elsewhere those are reset that wait to be accepted when
    /// the old one closes its listener. Only on Unix.
    pub reuse_port: bool,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 50051)),
            tls: None,
            limits: LimitsConfig::default(),
            shutdown_grace_seconds: 30,
            reuse_port: false,
        }
    }
}

impl ServerConfig {
    /// The default configuration with another address.
    pub fn at(listen: SocketAddr) -> Self {
        Self {
            listen,
            ..Self::default()
        }
    }
}

impl Validate for ServerConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        self.limits
            .validate()
            .map_err(|error| error.within("limits").within("server"))?;
        if self.reuse_port && !cfg!(unix) {
            return Err(ConfigError::new(
                "server.reuse_port",
                "there is no SO_REUSEPORT on this system",
                "leave it out",
            ));
        }
        // The files are read now, so that a wrong path or a broken key is reported before the port
        // is bound.
        if let Some(tls) = &self.tls {
            Renewal::new(tls.clone(), Role::Server).map(drop).map_err(|fault| {
                let hint = fault.hint.unwrap_or_default();
                ConfigError::new(
                    fault.field.unwrap_or_else(|| "server.tls".to_owned()),
                    fault.message,
                    hint,
                )
            })?;
        }
        Ok(())
    }
}

/// Binds the port.
///
/// # Errors
/// `UNAVAILABLE` with the reason `CANNOT_BIND` when the address is in use, does not belong to this
/// machine, or is not permitted.
pub fn bind(config: &ServerConfig) -> Result<TcpListener, Fault> {
    let address = config.listen;
    listener(address, config.reuse_port).map_err(|error| {
        let fault = |message: String| {
            Fault::new(Code::Unavailable, "CANNOT_BIND", message).with("address", address.to_string())
        };
        match error.kind() {
            io::ErrorKind::AddrInUse => fault(format!("{address} is in use by another program"))
                .hint("stop it, or choose another address with --listen or server.listen"),
            io::ErrorKind::PermissionDenied => {
                fault(format!("no permission to listen on {address}")).hint("choose a port above 1023")
            }
            _ => fault(format!("cannot listen on {address}: {error}")).hint("choose another address"),
        }
    })
}

fn listener(address: SocketAddr, reuse_port: bool) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // Allows binding while the port's last connections are still closing (TIME_WAIT). On Windows
    // the option has another meaning.
    #[cfg(unix)]
    {
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(reuse_port)?;
    }
    #[cfg(not(unix))]
    let _ = reuse_port;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until `shutdown` completes. Then health reports NOT_SERVING, no new connections are
/// accepted, requests in flight get up to the grace period, and the server stops. If other
/// processes also listen on the port, new connections are first directed to them (`reuse_port`),
/// which is part of the grace period.
///
/// # Errors
/// If TLS files cannot be used, the services cannot be assembled, or the listener fails.
pub async fn serve(
    services: Services,
    config: &ServerConfig,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Fault> {
    let tls = config
        .tls
        .clone()
        .map(|files| Renewal::new(files, Role::Server))
        .transpose()?
        .map(|renewal| (RustlsConfig::from_config(renewal.current()), Arc::new(renewal)));
    let assembled = services.assemble(&config.limits, Via::Network)?;
    let connections = Connections::new(&config.limits, files::raise_limit());
    let io_fault = |error: io::Error| Fault::internal(format!("the server stopped: {error}"));
    let address = listener.local_addr().map_err(io_fault)?;
    let listener = listener.into_std().map_err(io_fault)?;
    let shared = config
        .reuse_port
        .then(|| listener.try_clone())
        .transpose()
        .map_err(io_fault)?;
    let newcomers = Newcomers::default();
    let port = Port::new(TcpListener::from_std(listener).map_err(io_fault)?, newcomers.clone());
    let handle: Handle<ListenerAddress> = Handle::new();
    let grace = Duration::from_secs(config.shutdown_grace_seconds);
    let lifecycle = assembled.lifecycle;
    let closing = {
        let handle = handle.clone();
        async move {
            shutdown.await;
            tracing::info!(
                connections = handle.connection_count(),
                grace_seconds = grace.as_secs(),
                "draining"
            );
            lifecycle.drain();
            let begun = Instant::now();
            if let Some(listener) = shared {
                handover::hand_over(&listener, &newcomers, grace).await;
                // A socket is closed only when its last descriptor is closed.
                drop(listener);
            }
            handle.graceful_shutdown(Some(grace.saturating_sub(begun.elapsed())));
            std::future::pending::<Infallible>().await
        }
    };
    let router = match tls {
        Some(_) => assembled.router.layer(axum::Extension(OverTls)),
        None => assembled.router,
    };
    let app = router.layer(wrap(one_host)).into_make_service();
    let renewing = renew(tls.clone());
    let serving = async {
        let server = Server::from_listener(port).handle(handle);
        match tls {
            Some((rustls, _)) => {
                let acceptor = RustlsAcceptor::new(rustls).acceptor(connections);
                let mut server = server.acceptor(acceptor);
                tune(server.http_builder());
                server.serve(app).await
            }
            None => {
                let mut server = server.acceptor(connections);
                tune(server.http_builder());
                server.serve(app).await
            }
        }
    };
    tracing::info!(%address, tls = config.tls.is_some(), "serving");
    tokio::select! {
        served = serving => served.map_err(io_fault)?,
        never = closing => match never {},
        never = renewing => match never {},
    }
    tracing::info!("stopped");
    Ok(())
}

/// RFC 9112, section 3.2: a request of HTTP/1.1 has one `Host`. With two, a proxy and this server
/// could choose different ones.
async fn one_host(request: Request, next: Next) -> Response {
    let count = request.headers().get_all(header::HOST).iter().count();
    if request.version() != Version::HTTP_11 || count == 1 {
        return next.run(request).await;
    }
    let message = format!("is given {count} times, should be given once in a request of HTTP/1.1");
    plain_refusal(Fault::invalid("host", message))
}

/// Checks for renewed TLS files, which new connections then use.
async fn renew(tls: Option<(RustlsConfig, Arc<Renewal<TlsConfig>>)>) -> Infallible {
    let Some((rustls, renewal)) = tls else {
        return std::future::pending().await;
    };
    loop {
        sleep(RENEWAL_POLL).await;
        let renewal = Arc::clone(&renewal);
        // Reading may be slow on some volumes.
        let renewed = tokio::task::spawn_blocking(move || renewal.renew()).await;
        if let Ok(Some(config)) = renewed {
            rustls.reload_from_config(config);
        }
    }
}

fn tune(builder: &mut Builder<TokioExecutor>) {
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_buf_size(HTTP_1_BUFFER);
    builder
        .http2()
        .timer(TokioTimer::new())
        // A client that vanished without closing its connection must not keep its permits.
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .initial_stream_window_size(wire::STREAM_WINDOW)
        .initial_connection_window_size(wire::CONNECTION_WINDOW)
        .max_frame_size(wire::FRAME)
        // More streams than the limit on requests, so that this server refuses overload before
        // HTTP/2 queues it.
        .max_concurrent_streams(4096)
        // A well-behaved client may drop hundreds of calls at once; h2's default of 20 would treat
        // that as an attack.
        .max_pending_accept_reset_streams(4096);
}
