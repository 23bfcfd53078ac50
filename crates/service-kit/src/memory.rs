//! Services of one process call each other over a channel in memory, with the same generated
//! clients and the same layers, but no socket. A service with only one calling service may be
//! called directly ([`DirectCalls`]).

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use tonic::transport::{Endpoint, Uri};
use tower::service_fn;

pub use crate::layers::DirectCalls;
use crate::{Fault, Services, client::GrpcChannel, layers::Via, limits::LimitsConfig, wire};

/// Bytes in flight per direction before the writer waits.
const PIPE_BYTES: usize = 1 << 20;
/// Largest HTTP/2 frame. It is large because matrices take megabytes and no network is shared with
/// others.
const FRAME_BYTES: u32 = 1 << 20;

/// Serves the services in this process and returns the channel to them. They stop when the last
/// clone of the channel is dropped. A call is cancelled on the server side when its future is
/// dropped. Must be called inside a tokio runtime.
///
/// # Errors
/// If the services cannot be assembled, e.g. because their descriptors cannot be read.
pub async fn channel(services: Services, limits: &LimitsConfig) -> Result<GrpcChannel, Fault> {
    let assembled = services.assemble(limits, Via::Memory)?;
    let connector = service_fn(move |_: Uri| {
        let router = assembled.router.clone();
        async move {
            let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
            tokio::spawn(async move {
                let mut builder = auto::Builder::new(TokioExecutor::new()).http2_only();
                builder
                    .http2()
                    .max_concurrent_streams(None)
                    .initial_stream_window_size(wire::STREAM_WINDOW)
                    .initial_connection_window_size(wire::MEMORY_CONNECTION_WINDOW)
                    .max_frame_size(FRAME_BYTES)
                    // HTTP/2 treats many cancelled calls as an attack and ends the connection with
                    // all other calls on it. In our own process they are ordinary cancelled calls.
                    .max_pending_accept_reset_streams(usize::MAX)
                    .max_local_error_reset_streams(None);
                let service = TowerToHyperService::new(router);
                if let Err(error) = builder.serve_connection(TokioIo::new(theirs), service).await {
                    // The other side was dropped during a call.
                    tracing::debug!(%error, "in-memory connection ended");
                }
            });
            Ok::<_, std::io::Error>(TokioIo::new(ours))
        }
    });
    let endpoint = Endpoint::from_static("http://in-process")
        .initial_stream_window_size(wire::STREAM_WINDOW)
        .initial_connection_window_size(wire::MEMORY_CONNECTION_WINDOW)
        .max_frame_size(FRAME_BYTES)
        .http2_max_local_error_reset_streams(None);
    Ok(GrpcChannel::here(endpoint.connect_with_connector_lazy(connector)))
}
