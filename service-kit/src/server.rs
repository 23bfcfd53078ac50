//! Binding a port, serving on it, draining and stopping.

use std::{future::Future, io, net::SocketAddr, time::Duration};

use axum_server::Handle;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tonic::Code;

use crate::{
    Services,
    config::{ConfigError, Validate},
    error::Fault,
    limits::LimitsConfig,
    tls::{self, TlsConfig},
};

/// A server's port and how it behaves there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// TLS; absent: plain text.
    pub tls: Option<TlsConfig>,
    /// Limits.
    pub limits: LimitsConfig,
    /// Longest wait for requests in flight when stopping, in seconds.
    pub shutdown_grace_seconds: u64,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 50051)),
            tls: None,
            limits: LimitsConfig::default(),
            shutdown_grace_seconds: 30,
        }
    }
}

impl Validate for ServerConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        self.limits.validate().map_err(|e| e.within("limits").within("server"))
    }
}

/// Binds, or says who is in the way.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, Fault> {
    TcpListener::bind(address).await.map_err(|error| {
        let fault = |message: String| Fault::new(Code::Unavailable, "CANNOT_BIND", message).with("address", address.to_string());
        match error.kind() {
            io::ErrorKind::AddrInUse => fault(format!("{address} is in use by another program"))
                .mend("stop it, or choose another address with --listen or server.listen"),
            io::ErrorKind::PermissionDenied => {
                fault(format!("no permission to listen on {address}")).mend("choose a port above 1023")
            }
            _ => fault(format!("cannot listen on {address}: {error}")).mend("choose another address"),
        }
    })
}

/// Serves until `shutdown` completes; then health says NOT_SERVING, nothing new is accepted, requests in flight get up to
/// the grace period, and the server stops.
pub async fn serve(
    services: Services,
    config: &ServerConfig,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Fault> {
    let face = services.into_face(&config.limits).await?;
    let told = |error: io::Error| Fault::internal(format!("the server stopped: {error}"));
    let listener = listener.into_std().map_err(told)?;
    let handle = Handle::new();
    let grace = Duration::from_secs(config.shutdown_grace_seconds);
    let health = face.health.clone();
    let stopper = tokio::spawn({
        let handle = handle.clone();
        async move {
            shutdown.await;
            tracing::info!("draining");
            health.drain().await;
            handle.graceful_shutdown(Some(grace));
        }
    });
    let app = face.router.into_make_service();
    let outcome = match &config.tls {
        Some(tls) => {
            let tls = axum_server::tls_rustls::RustlsConfig::from_config(tls::server_config(tls)?);
            let mut server = axum_server::from_tcp_rustls(listener, tls).map_err(told)?.handle(handle);
            tune(server.http_builder());
            server.serve(app).await
        }
        None => {
            let mut server = axum_server::from_tcp(listener).map_err(told)?.handle(handle);
            tune(server.http_builder());
            server.serve(app).await
        }
    };
    stopper.abort();
    outcome.map_err(told)
}

fn tune(builder: &mut hyper_util::server::conn::auto::Builder<hyper_util::rt::TokioExecutor>) {
    // Matrices are megabytes: let the flow-control window grow with the connection.
    builder.http2().adaptive_window(true).max_concurrent_streams(Some(1024));
}
