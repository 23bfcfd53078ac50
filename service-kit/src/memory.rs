//! Services of one process meet over a channel in memory: the same generated clients, the same layers, no socket.

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use tonic::transport::{Endpoint, Uri};
use tower::service_fn;

use crate::{Services, client::GrpcChannel, error::Fault, limits::LimitsConfig};

/// Bytes in flight in each direction before the writer waits.
const PIPE_BYTES: usize = 1 << 20;

/// Serves the services in this process and gives the channel to them. They stop when the last clone of the channel is
/// dropped. Must be called inside a tokio runtime.
pub async fn channel(services: Services, limits: &LimitsConfig) -> Result<GrpcChannel, Fault> {
    let face = services.into_face(limits).await?;
    let connector = service_fn(move |_: Uri| {
        let router = face.router.clone();
        async move {
            let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
            tokio::spawn(async move {
                let mut builder = auto::Builder::new(TokioExecutor::new()).http2_only();
                builder.http2().max_concurrent_streams(None).adaptive_window(true);
                let service = TowerToHyperService::new(router);
                if let Err(error) = builder.serve_connection(TokioIo::new(theirs), service).await {
                    // The other side went away in the middle of something.
                    tracing::debug!(%error, "in-memory connection ended");
                }
            });
            Ok::<_, std::io::Error>(TokioIo::new(ours))
        }
    });
    let endpoint = Endpoint::from_static("http://in-process").http2_adaptive_window(true);
    Ok(GrpcChannel::new(endpoint.connect_with_connector_lazy(connector)))
}
