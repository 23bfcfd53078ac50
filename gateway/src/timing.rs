//! Measures how long an answer waited for others: encoders, generators, the services behind the
//! gateway. The rest of the time is the gateway's own. The server reports both (`server-timing`).

use std::{sync::Arc, time::Duration};

use axum::{extract::Request, response::Response};
use isomer_service_kit::{Next, UpstreamTime, Wrap, wrap};
use parking_lot::Mutex;
use tokio::time::Instant;

tokio::task_local! {
    static WAITING: Arc<CallTimer>;
}

/// Adds the waiting time to answers.
pub(crate) fn timed() -> Wrap {
    wrap(measure)
}

async fn measure(request: Request, next: Next) -> Response {
    let waiting = Arc::<CallTimer>::default();
    let mut response = WAITING.scope(Arc::clone(&waiting), next.run(request)).await;
    response.extensions_mut().insert(UpstreamTime(waiting.total()));
    response
}

/// The time in which one request had at least one call to others in flight. Overlapping calls are
/// counted once.
#[derive(Debug, Default)]
struct CallTimer(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    in_flight: usize,
    since: Option<Instant>,
    before: Duration,
}

impl CallTimer {
    fn total(&self) -> Duration {
        let state = self.0.lock();
        state.before + state.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// A call in flight, until it is dropped.
#[derive(Debug)]
pub(crate) struct Wait(Option<Arc<CallTimer>>);

/// Begins a wait of the current task's request, if that request is one of [`timed`].
pub(crate) fn wait() -> Wait {
    let waiting = WAITING.try_with(Arc::clone).ok();
    if let Some(waiting) = &waiting {
        let mut state = waiting.0.lock();
        state.in_flight += 1;
        state.since.get_or_insert_with(Instant::now);
    }
    Wait(waiting)
}

impl Drop for Wait {
    fn drop(&mut self) {
        let Some(waiting) = &self.0 else { return };
        let mut state = waiting.0.lock();
        state.in_flight -= 1;
        if state.in_flight == 0
            && let Some(since) = state.since.take()
        {
            state.before += since.elapsed();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use axum::{Router as Routes, body::Body, routing::get};
    use tokio::time::sleep;
    use tower::ServiceExt;

    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    async fn call(after: u64, takes: u64) {
        sleep(ms(after)).await;
        let _waiting = wait();
        sleep(ms(takes)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn calls_at_the_same_time_count_once_and_own_work_not_at_all() {
        async fn answer() {
            // From 0 to 30 and from 20 to 50; a pause; then from 100 to 110.
            tokio::join!(call(0, 30), call(20, 30));
            sleep(ms(50)).await;
            call(0, 10).await;
            sleep(ms(7)).await;
        }
        let routes = Routes::new().route("/", get(answer)).layer(timed());
        let request = || Request::get("/").body(Body::empty()).unwrap();
        let response = routes.clone().oneshot(request()).await.unwrap();
        assert_eq!(response.extensions().get(), Some(&UpstreamTime(ms(60))));
        // A nested request starts at zero; a call outside of requests has no receiver for its time.
        call(0, 5).await;
        let response = routes.oneshot(request()).await.unwrap();
        assert_eq!(response.extensions().get(), Some(&UpstreamTime(ms(60))));
    }
}
