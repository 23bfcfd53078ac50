//! The process's metrics recorder and its text form.

use std::{thread, time::Duration};

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use parking_lot::Mutex;

use crate::{Fault, metric_names};

/// Upper bounds of histogram buckets, by the ending of the metric's name.
const BUCKETS: &[(&str, &[f64])] = &[
    (
        "_seconds",
        &[
            0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
        ],
    ),
    (
        "_ratio",
        &[0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0],
    ),
    ("_bytes", &[1e3, 1e4, 1e5, 1e6, 4e6, 16e6, 64e6, 256e6]),
    (
        "_texts",
        &[
            1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0,
        ],
    ),
    (
        "_tokens",
        &[8.0, 32.0, 128.0, 512.0, 2048.0, 8192.0, 32768.0, 131_072.0],
    ),
];
/// Samples wait in memory until they are sorted into buckets. A thread does that at this interval
/// even if nobody scrapes.
const UPKEEP: Duration = Duration::from_secs(5);

static HANDLE: Mutex<Option<PrometheusHandle>> = Mutex::new(None);

/// Installs Prometheus as the process's recorder, if that has not been done.
///
/// # Errors
/// If another recorder was installed before.
pub(crate) fn install() -> Result<(), Fault> {
    // The lock is held to the end: if two callers are concurrent, one installs and the other finds
    // the recorder installed.
    let mut installed = HANDLE.lock();
    if installed.is_some() {
        return Ok(());
    }
    let build_fault = |error: BuildError| Fault::internal(format!("metrics cannot be installed: {error}"));
    let builder = BUCKETS
        .iter()
        .try_fold(PrometheusBuilder::new(), |builder, (suffix, bounds)| {
            builder.set_buckets_for_metric(Matcher::Suffix((*suffix).to_owned()), bounds)
        });
    let handle = builder
        .and_then(PrometheusBuilder::install_recorder)
        .map_err(build_fault)?;
    let upkeep = handle.clone();
    let tending = move || {
        loop {
            thread::sleep(UPKEEP);
            upkeep.run_upkeep();
        }
    };
    thread::Builder::new()
        .name("metrics".to_owned())
        .spawn(tending)
        .map_err(|error| Fault::internal(format!("cannot start the thread that maintains the metrics: {error}")))?;
    metric_names::describe(metric_names::ALL);
    *installed = Some(handle);
    Ok(())
}

/// The metrics of this process in Prometheus' text format. Empty until something is served or
/// telemetry is installed.
pub fn metrics_text() -> String {
    let handle = HANDLE.lock().clone();
    handle.map(|handle| handle.render()).unwrap_or_default()
}
