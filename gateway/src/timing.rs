//! How long an answer waited for others: encoders, generators, the services behind the gateway.
//! What else it took is the gateway's own; the server tells both (`server-timing`).

use std::{sync::Arc, time::Duration};

use axum::{extract::Request, response::Response};
use isomer_service_kit::{Next, UpstreamTime, Wrap, wrap};
use parking_lot::Mutex;
use tokio::time::Instant;

tokio::task_local! {
    static WAITING: Arc<Waiting>;
}

/// Makes answers tell how long they waited.
pub(crate) fn timed() -> Wrap {
    wrap(measure)
}

async fn measure(request: Request, next: Next) -> Response {
    let waiting = Arc::<Waiting>::default();
    let mut response = WAITING.scope(Arc::clone(&waiting), next.run(request)).await;
    response.extensions_mut().insert(UpstreamTime(waiting.total()));
    response
}

/// The time of one request with at least one call to others in flight: of calls at the same time
/// each moment counts once.
#[derive(Debug, Default)]
struct Waiting(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    in_flight: usize,
    since: Option<Instant>,
    before: Duration,
}

impl Waiting {
    fn total(&self) -> Duration {
        let state = self.0.lock();
        state.before + state.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// A call that is in flight until this is dropped.
#[derive(Debug)]
pub(crate) struct Wait(Option<Arc<Waiting>>);

/// Begins to wait for another, on behalf of the request of this task, if it is one of [`timed`].
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
            // From 0 to 30 and from 20 to 50; a pause; from 100 to 110.
            tokio::join!(call(0, 30), call(20, 30));
            sleep(ms(50)).await;
            call(0, 10).await;
            sleep(ms(7)).await;
        }
        let routes = Routes::new().route("/", get(answer)).layer(timed());
        let request = || Request::get("/").body(Body::empty()).unwrap();
        let response = routes.clone().oneshot(request()).await.unwrap();
        assert_eq!(response.extensions().get(), Some(&UpstreamTime(ms(60))));
        // A request of its own begins at nothing; a call outside of requests has nobody to tell.
        call(0, 5).await;
        let response = routes.oneshot(request()).await.unwrap();
        assert_eq!(response.extensions().get(), Some(&UpstreamTime(ms(60))));
    }
}
