//! Waits for other tasks, threads or processes, instead of sleeping for a guessed time.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Maximum wait: a busy machine may take long, and a test whose condition never holds still fails.
const LONGEST: Duration = Duration::from_secs(120);
/// Time between two checks.
const BETWEEN: Duration = Duration::from_millis(5);

/// Waits until a condition holds.
///
/// # Panics
/// If it does not hold within two minutes.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    found(what, async || holds().then_some(())).await;
}

/// Waits for a value, and returns it.
///
/// # Panics
/// If there is none within two minutes.
pub async fn found<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begun.elapsed() < LONGEST, "not within {} s: {what}", LONGEST.as_secs());
        sleep(BETWEEN).await;
    }
}

/// [`until`] for tests without a runtime.
///
/// # Panics
/// If it does not hold within two minutes.
pub fn until_blocking(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LONGEST, "not within {} s: {what}", LONGEST.as_secs());
        std::thread::sleep(BETWEEN);
    }
}
