//! Middleware that is cheap to clone.
//!
//! axum clones a route for every request, and [`axum::middleware::from_fn`] clones it again at
//! every layer. Each clone copies all inner layers, so n layers cost about n² clones, each with an
//! allocation and a copy of the layer's state. Cloning a [`WrappedService`] increments two
//! reference counts.

use std::{
    convert::Infallible,
    fmt,
    future::Future,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{extract::Request, response::Response};
use futures::{FutureExt, future::BoxFuture};
use tower::{Layer, Service, ServiceExt};

type ResponseFuture = BoxFuture<'static, Result<Response, Infallible>>;

/// A layer that runs a function around each request.
#[derive(Clone)]
pub struct Wrap(Arc<dyn Fn(Request, Next) -> ResponseFuture + Send + Sync>);

/// A layer that calls `f` with each request and the inner service.
pub fn wrap<F, A>(f: F) -> Wrap
where
    F: Fn(Request, Next) -> A + Send + Sync + 'static,
    A: Future<Output = Response> + Send + 'static,
{
    Wrap(Arc::new(move |request, next| f(request, next).map(Ok).boxed()))
}

/// The inner service of a [`Wrap`].
#[derive(Clone)]
pub struct Next(Arc<dyn Fn(Request) -> ResponseFuture + Send + Sync>);

impl Next {
    pub async fn run(self, request: Request) -> Response {
        match (self.0)(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        }
    }
}

impl<S> Layer<S> for Wrap
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    type Service = WrappedService;

    fn layer(&self, inner: S) -> WrappedService {
        WrappedService {
            around: self.clone(),
            inner: Next(Arc::new(move |request| inner.clone().oneshot(request).boxed())),
        }
    }
}

/// A service within a [`Wrap`].
#[derive(Debug, Clone)]
pub struct WrappedService {
    around: Wrap,
    inner: Next,
}

impl Service<Request> for WrappedService {
    type Response = Response;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // `Next` awaits the readiness of the inner service.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> ResponseFuture {
        (self.around.0)(request, self.inner.clone())
    }
}

impl fmt::Debug for Wrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wrap").finish_non_exhaustive()
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Next").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::{Router, body::Body, response::IntoResponse, routing::get};
    use http::{HeaderValue, StatusCode};
    use http_body_util::BodyExt;

    use super::*;

    async fn mark(letter: &'static str, mut request: Request, next: Next) -> Response {
        let before = request.headers().get("path").and_then(|path| path.to_str().ok());
        let path = format!("{}{letter}", before.unwrap_or_default());
        request.headers_mut().insert("path", path.parse().unwrap());
        let mut answer = next.run(request).await;
        answer.headers_mut().append("back", HeaderValue::from_static(letter));
        answer
    }

    fn marked(letter: &'static str) -> Wrap {
        wrap(move |request, next| mark(letter, request, next))
    }

    async fn ask(routes: &Router, path: &str) -> (StatusCode, String, Vec<String>) {
        let request = http::Request::get(path).body(Body::empty()).unwrap();
        let answer = routes.clone().oneshot(request).await.unwrap();
        let back = answer.headers().get_all("back").iter();
        let back = back.map(|letter| letter.to_str().unwrap().to_owned()).collect();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap(), back)
    }

    #[tokio::test]
    async fn layers_run_from_the_outermost_inwards_and_back() {
        let path = |request: Request| async move { request.headers()["path"].to_str().unwrap().to_owned() };
        let routes = Router::new()
            .route("/", get(path))
            .layer((marked("b"), marked("c")))
            .layer(marked("a"));
        let letters = |text: &str| text.chars().map(String::from).collect::<Vec<_>>();
        for _ in 0..2 {
            assert_eq!(
                ask(&routes, "/").await,
                (StatusCode::OK, "abc".to_owned(), letters("cba"))
            );
        }
        // Requests for a path without a route also pass through them.
        let (status, _, back) = ask(&routes, "/nowhere").await;
        assert_eq!((status, back), (StatusCode::NOT_FOUND, letters("cba")));
    }

    #[tokio::test]
    async fn a_layer_may_answer_by_itself() {
        let asked = Arc::new(AtomicUsize::new(0));
        let inside = Arc::clone(&asked);
        let routes = Router::new()
            .route(
                "/",
                get(move || async move {
                    inside.fetch_add(1, Ordering::Relaxed);
                }),
            )
            .layer(wrap(|request, next| async move {
                match request.headers().contains_key("path") {
                    true => next.run(request).await,
                    false => StatusCode::IM_A_TEAPOT.into_response(),
                }
            }));
        assert_eq!(ask(&routes, "/").await.0, StatusCode::IM_A_TEAPOT);
        assert_eq!(asked.load(Ordering::Relaxed), 0);
        let (status, ..) = ask(&routes.layer(marked("a")), "/").await;
        assert_eq!((status, asked.load(Ordering::Relaxed)), (StatusCode::OK, 1));
    }

    #[derive(Debug)]
    struct CallCounter(Arc<AtomicUsize>);

    impl Clone for CallCounter {
        fn clone(&self) -> Self {
            self.0.fetch_add(1, Ordering::Relaxed);
            Self(Arc::clone(&self.0))
        }
    }

    impl Service<Request> for CallCounter {
        type Response = Response;
        type Error = Infallible;
        type Future = std::future::Ready<Result<Response, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request) -> Self::Future {
            std::future::ready(Ok(StatusCode::OK.into_response()))
        }
    }

    #[tokio::test]
    async fn what_is_wrapped_is_copied_as_often_under_many_layers_as_under_one() {
        let mut copies = Vec::new();
        for layers in [1, 8] {
            let count = Arc::new(AtomicUsize::new(0));
            let routes = Router::new().route_service("/", CallCounter(Arc::clone(&count)));
            let routes = (0..layers).fold(routes, |routes, _| routes.layer(marked("a")));
            let before = count.load(Ordering::Relaxed);
            assert_eq!(ask(&routes, "/").await.0, StatusCode::OK);
            copies.push(count.load(Ordering::Relaxed) - before);
        }
        assert_eq!(copies[0], copies[1], "{copies:?}");
    }
}
