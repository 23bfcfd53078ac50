//! The same front, with services that run elsewhere.

use std::future::Future;

use isomer_service_kit::{
    Fault,
    client::{self, ClientConfig},
    server,
};
use tokio::net::TcpListener;

use crate::{
    compose::{EMBED, EVAL, Part, TRANSFORM, front},
    config::GatewayConfig,
    openai::Backends,
};

/// Serves until `shutdown` completes, then drains. Upstreams are connected when they are first asked for, and again when
/// they come back.
pub async fn run(
    config: GatewayConfig,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Fault> {
    let all = [
        (EMBED, &config.embed),
        (TRANSFORM, &config.transform),
        (EVAL, &config.eval),
    ];
    let parts = all
        .into_iter()
        .filter_map(|(services, client)| client.as_ref().map(|c| part(services, c)));
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    let of = |services: &[&str]| {
        let part = parts.iter().find(|part| part.services == services);
        part.map(|part| part.channel.clone())
    };
    let backends = Backends {
        encoder: of(EMBED),
        augmentation: of(TRANSFORM),
        max_message_bytes: config.server.limits.max_message_bytes,
    };
    server::serve(front(parts, backends), &config.server, listener, shutdown).await
}

fn part(services: &'static [&'static str], client: &ClientConfig) -> Result<Part, Fault> {
    Ok(Part {
        services,
        place: client.address.clone(),
        channel: client::connect_lazy(client)?,
    })
}
