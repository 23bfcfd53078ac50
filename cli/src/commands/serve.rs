//! `isomer serve`: all services behind one port.

use std::process::ExitCode;

use isomer_all_in_one::Caller;
use isomer_models::ModelKind;
use isomer_service_kit::{Fault, server, shutdown};

use crate::{args::ServeArgs, connect::Session, exit::Failure, progress::Display};

pub(super) async fn run(session: &Session, args: ServeArgs) -> Result<ExitCode, Failure> {
    if session.global.server.is_some() {
        return Err(Failure::usage(
            "--server names a running gateway; `isomer serve` is one. Leave --server out",
        ));
    }
    let display = Display::new(session.global.quiet);
    let mut config = session.config.clone();
    if let Some(listen) = args.listen {
        config.server.listen = listen;
    }
    // Bind first, so that a port in use is reported before a model is loaded. A shared port is
    // bound last: until then, the process that already uses it serves new connections.
    let bound = if config.server.reuse_port {
        None
    } else {
        Some(server::bind(&config.server)?)
    };
    let app = Box::pin(isomer_all_in_one::compose(config.clone(), Caller::Anyone)).await?;
    app.check_listen(config.server.listen)
        .await
        .map_err(|error| Failure::usage(error.to_string()))?;
    for model in &args.models {
        app.resolver()
            .resolve(model, ModelKind::Encoder, &display)
            .await
            .map_err(Fault::from)?;
        tracing::info!(model, "loading");
        app.warm_up(model).await?;
    }
    let listener = match bound {
        Some(listener) => listener,
        None => server::bind(&config.server)?,
    };
    let address = listener
        .local_addr()
        .map_err(|e| Fault::internal(format!("no local address: {e}")))?;
    // On stdout, because stderr contains only the log.
    if !session.global.quiet {
        super::announce(&format!(
            "isomer serves {} on {address}",
            app.front().names().join(", ")
        ));
    }
    let runs = app.clone();
    let stopping = async move {
        runs.stopped_by(shutdown::signal()).await;
        runs.interrupt_runs().await;
    };
    server::serve(app.front(), &config.server, listener, stopping).await?;
    app.flush().await?;
    app.check_devices()?;
    tracing::info!("drained and stopped");
    Ok(ExitCode::SUCCESS)
}
