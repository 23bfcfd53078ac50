//! `isomer worker`: executes units of other machines' checks.

use std::{collections::BTreeMap, net::SocketAddr, process::ExitCode, time::Duration};

use isomer_config::suggest;
use isomer_fleet::Kind;
use isomer_service_kit::{
    Services,
    server::{self, ServerConfig},
    shutdown,
};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

use crate::{args::WorkerArgs, connect::Session, exit::Failure};

pub(super) async fn run(session: &Session, args: WorkerArgs) -> Result<ExitCode, Failure> {
    if session.global.server.is_some() {
        return Err(Failure::usage(
            "--server names a running gateway; a worker takes its work from a queue (--engine). Leave --server out",
        ));
    }
    let kinds = lanes(&args.lanes)?;
    let config = session.config.clone();
    let engine = config.fleet.engine.clone();
    let (begin, begun) = oneshot::channel();
    let ready = |class: &str| {
        let lanes: Vec<String> = kinds
            .iter()
            .map(|(kind, at_once)| format!("{kind}={at_once}"))
            .collect();
        tracing::info!(engine, lanes = lanes.join(","), class, "taking units of work");
        // The receiver is dropped only when the process ends.
        let _ = begin.send(());
    };
    let grace = Duration::from_secs(args.grace);
    let serving = match args.metrics_listen {
        Some(address) => Some(serve_metrics(address, &config.server).await?),
        None => None,
    };
    let (stop, stopping) = oneshot::channel();
    let work = isomer_all_in_one::work(config, kinds.clone(), grace, ready, async {
        // The sender lives as long as this future.
        let _ = stopping.await;
    });
    let summary = until_second(Box::pin(work), begun, stop, shutdown::signal).await;
    if let Some(serving) = serving {
        serving.abort();
    }
    let Some(summary) = summary else {
        return Err(Failure::dependency(
            "stopped at once by a second signal; units in progress are delivered to other workers when their leases end",
        ));
    };
    let summary = summary?;
    tracing::info!(
        done = summary.done,
        found = summary.found,
        failed = summary.failed,
        handed_back = summary.handed_back,
        "drained and stopped"
    );
    Ok(ExitCode::SUCCESS)
}

/// The result of work that the first signal interrupts gracefully, or `None` if a second signal
/// comes first. Before the work has started, a signal ends the process as it does by default.
async fn until_second<T, S: Future<Output = ()>>(
    work: impl Future<Output = T>,
    begun: oneshot::Receiver<()>,
    stop: oneshot::Sender<()>,
    signal: impl Fn() -> S,
) -> Option<T> {
    let second = async {
        if begun.await.is_err() {
            // The work ends without having started.
            std::future::pending::<()>().await;
        }
        signal().await;
        tracing::info!("draining: units in progress may finish; a second signal ends this worker at once");
        // Work that has already ended receives no signal.
        let _ = stop.send(());
        signal().await;
    };
    tokio::select! {
        biased;
        done = work => Some(done),
        () = second => None,
    }
}

/// Serves only health and metrics.
async fn serve_metrics(address: SocketAddr, config: &ServerConfig) -> Result<JoinHandle<()>, Failure> {
    let io_failure =
        |error: std::io::Error| Failure::usage(format!("--metrics-listen: cannot listen on {address}: {error}"));
    let listener = TcpListener::bind(address).await.map_err(io_failure)?;
    let address = listener.local_addr().map_err(io_failure)?;
    tracing::info!(%address, "serving /metrics");
    let config = config.clone();
    Ok(tokio::spawn(async move {
        let served = server::serve(Services::new(), &config, listener, std::future::pending()).await;
        if let Err(error) = served {
            tracing::error!(%error, "/metrics is served no longer");
        }
    }))
}

/// Kinds of work with the maximum number of concurrent units.
fn lanes(given: &[String]) -> Result<BTreeMap<Kind, usize>, Failure> {
    let mut kinds = BTreeMap::new();
    for lane in given {
        let (name, at_once) = lane.split_once('=').unwrap_or((lane, "1"));
        let Some(kind) = Kind::named(name) else {
            let hint = suggest(name, &Kind::ALL.map(Kind::name));
            return Err(Failure::usage(format!(
                "--lanes: unknown kind of work `{name}`; {hint}"
            )));
        };
        let at_once = at_once.parse().ok().filter(|at_once| (1..=10_000).contains(at_once));
        let Some(at_once) = at_once else {
            return Err(Failure::usage(format!(
                "--lanes: `{lane}` does not say how many units at once; write {name}=2"
            )));
        };
        if kinds.insert(kind, at_once).is_some() {
            return Err(Failure::usage(format!("--lanes: `{name}` is named twice")));
        }
    }
    Ok(kinds)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::Cell;

    use super::*;

    fn read(given: &[&str]) -> Result<BTreeMap<Kind, usize>, String> {
        let given: Vec<String> = given.iter().map(ToString::to_string).collect();
        lanes(&given).map_err(|failure| format!("{failure:?}"))
    }

    #[tokio::test]
    async fn the_first_signal_asks_work_to_end_and_the_second_ends_it() {
        // Work that ends on request, and work that hangs.
        for (signals, hangs, expected) in [(1, false, Some("drained")), (2, true, None)] {
            let left = Cell::new(signals);
            let signal = || {
                let comes = left.get() > 0;
                left.set(left.get() - i32::from(comes));
                async move {
                    if !comes {
                        std::future::pending::<()>().await;
                    }
                }
            };
            let (begin, begun) = oneshot::channel();
            let (stop, stopping) = oneshot::channel();
            let work = async {
                begin.send(()).unwrap();
                stopping.await.unwrap();
                if hangs {
                    std::future::pending::<()>().await;
                }
                "drained"
            };
            assert_eq!(until_second(work, begun, stop, signal).await, expected);
        }
    }

    #[test]
    fn lanes_are_kinds_with_numbers() {
        let expected = BTreeMap::from([(Kind::Transform, 4), (Kind::Encode, 1)]);
        assert_eq!(read(&["transform=4", "encode"]).unwrap(), expected);
        for (given, says) in [
            (&["encod=1"][..], "did you mean `encode`"),
            (&["encode=0"], "how many units"),
            (&["encode=x"], "how many units"),
            (&["encode=1", "encode=2"], "twice"),
        ] {
            let error = read(given).unwrap_err();
            assert!(error.contains(says), "{given:?}: {error}");
        }
    }
}
