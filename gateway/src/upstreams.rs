//! A gateway in front of services that run elsewhere.

use std::{future::Future, net::SocketAddr, sync::Arc};

use isomer_access::Access;
use isomer_adapters::IsomerBackend;
use isomer_database::Database;
use isomer_service_kit::{
    Fault, client,
    config::{ConfigError, home},
    server,
};
use tokio::net::TcpListener;

use crate::{
    config::{GatewayConfig, ServersConfig},
    front::{self, Settings, UpstreamServers},
    proxy::Servers,
    routing::ConfiguredEncoders,
};

/// Serves until `shutdown` completes, then drains. An upstream is connected on its first call, and
/// reconnected when it comes back.
///
/// # Errors
/// If the configuration cannot work, the address is reachable from elsewhere while callers are not
/// authenticated, the records cannot be opened, or the listener fails.
pub async fn run(
    config: GatewayConfig,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Fault> {
    let max_message_bytes = config.server.limits.max_inner_message_bytes();
    let home = config.home.unwrap_or_else(home::folder);
    let database = Database::open(&config.database.address(&home)).await?;
    let access = Access::open(config.access.at_home(&home), database.clone()).await?;
    let address = listener
        .local_addr()
        .map_err(|error| Fault::internal(format!("the listener has no local address: {error}")))?;
    check_listen(&access, address).await?;
    let settings = Settings {
        providers: config.providers,
        addresses: config.addresses,
        routing: config.routing,
        web: config.web,
        missing_variants: config.missing_variants,
        augmented_models: config.augmented_models,
        max_message_bytes,
    };
    let encoders = config.embed.iter().flat_map(ServersConfig::each);
    let fixed = encoders.map(|client| {
        Ok::<_, Fault>(ConfiguredEncoders {
            backend: Arc::new(IsomerBackend::over(client::connect_lazy(&client)?, max_message_bytes)),
            name: client.address,
            remote: true,
        })
    });
    let fixed = fixed.collect::<Result<_, _>>()?;
    let routes = front::open_routes(&settings, Some(database), fixed).await?;
    let upstream_servers = UpstreamServers {
        transform: servers(&settings, config.transform.as_ref())?,
        eval: servers(&settings, config.eval.as_ref())?,
        shared_runs: config.shared_runs,
    };
    let (services, follower) = front::services(&settings, &routes, &upstream_servers, Some(&access));
    server::serve(services, &config.server, listener, shutdown).await?;
    // Runs continue without this gateway; the next gateway follows them.
    drop(follower);
    access.release_deferred_charges().await?;
    access.flush().await
}

async fn check_listen(access: &Access, address: SocketAddr) -> Result<(), Fault> {
    let open_address = |error: ConfigError| Fault::precondition("OPEN_ADDRESS", error.to_string());
    access.check_listen(address).await.map_err(open_address)
}

fn servers(settings: &Settings, config: Option<&ServersConfig>) -> Result<Option<Servers>, Fault> {
    let Some(config) = config else { return Ok(None) };
    let connected = config.each().map(|client| {
        let channel = client::connect_lazy(&client)?;
        Ok::<_, Fault>((client.address, channel))
    });
    let connected = connected.collect::<Result<Vec<_>, _>>()?;
    Ok(Some(Servers::remote(&settings.routing, connected)))
}
