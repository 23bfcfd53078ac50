//! The signal to stop.

/// Completes at the first SIGTERM or SIGINT (Ctrl-C).
pub async fn signal() {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            // No handler could be installed, so signals do not stop the server gracefully.
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut stream) => drop(stream.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! {
        () = interrupt => {}
        () = terminate => {}
    }
}
