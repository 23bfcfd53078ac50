//! Texts appear in no log line, metric or error message, at the level `debug`, however the call
//! ends.

use std::{
    io::{self, Write},
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use tracing_subscriber::{EnvFilter, fmt::MakeWriter};

use super::{
    calls,
    cases::{self, End},
};
use crate::harness::Harness;

/// A phrase that occurs in every text of the cases, and nowhere else.
const MARK: &str = "old wooden bench near the station";

/// The log of this process.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Log {
    /// Captures everything that the tests of this process log from now on, at the level `debug`.
    fn start() -> Self {
        static LOG: OnceLock<Log> = OnceLock::new();
        let log = LOG.get_or_init(|| {
            let log = Log::default();
            let subscriber = tracing_subscriber::fmt()
                .with_env_filter(EnvFilter::new("debug"))
                .with_ansi(false)
                .with_writer(log.clone())
                .finish();
            tracing::subscriber::set_global_default(subscriber).expect("no other test sets one");
            log
        });
        log.clone()
    }

    fn lines(&self) -> Vec<String> {
        let log = String::from_utf8_lossy(&self.0.lock()).into_owned();
        log.lines().map(str::to_owned).collect()
    }

    fn lines_with(&self, part: &str) -> Vec<String> {
        let mut lines = self.lines();
        lines.retain(|line| line.contains(part));
        lines
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_are_in_no_log_metric_or_error() {
    let log = Log::start();
    let harness = Harness::new().await;
    let key = harness.key().await;
    let mut refusals = 0;
    for case in cases::all().into_iter().filter(|case| case.uses) {
        for end in [End::Answer, End::Error] {
            let Some(call) = case.repeatable(end).filter(|_| case.ends.contains(&end)) else {
                continue;
            };
            if let Some(refusal) = call.refusal(&harness, &key).await {
                refusals += 1;
                assert!(!refusal.contains(MARK), "{} tells: {refusal}", case.row);
            }
        }
    }
    assert!(refusals > 20, "the calls that are to fail do: {refusals}");
    let metrics = calls::get(&harness, &key, "/metrics").await;
    assert!(metrics.contains("isomer_server_requests_total") && !metrics.contains(MARK));
    let told = log.lines_with(MARK);
    assert!(told.is_empty(), "{}", told.join("\n"));
    // The captured log has this level, and would have shown a text.
    let lines = log.lines();
    assert!(
        lines
            .iter()
            .any(|line| line.contains("DEBUG") && line.contains("isomer_"))
    );
    tracing::debug!("a cat on the {MARK}");
    assert_eq!(log.lines_with(MARK).len(), 1);
    log.0.lock().clear();
}
