//! A server over HTTP whose answers come from a closure.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, body::Bytes, extract::Request, response::IntoResponse};
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;

/// Serves routes on a free loopback port until the runtime ends.
pub async fn serve(routes: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    address
}

/// A request that a stub received.
#[derive(Debug, Clone)]
pub struct Call {
    /// The method, in capitals.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    pub headers: HeaderMap,
    /// The body; null if it is not JSON.
    pub body: Value,
    /// The body as received, for example lines of JSON; invalid UTF-8 is replaced.
    pub text: String,
}

#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    /// Headers in addition to those of every response.
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
    /// Delay before the stub responds.
    pub after: Duration,
}

impl Reply {
    /// Status 200 with this JSON.
    pub fn ok(body: Value) -> Self {
        Self::of(200, body)
    }

    /// The given status with this JSON.
    pub fn of(status: u16, body: Value) -> Self {
        Self::text(status, body.to_string()).header("content-type", "application/json")
    }

    pub fn text(status: u16, body: impl Into<String>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.into(),
            after: Duration::ZERO,
        }
    }

    /// No response, however long the client waits.
    pub fn never() -> Self {
        Self::text(200, "").after(Duration::MAX)
    }

    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Adds a delay.
    #[must_use]
    pub fn after(mut self, time: Duration) -> Self {
        self.after = time;
        self
    }
}

/// A running stub that records its requests.
#[derive(Debug, Clone)]
pub struct Stub {
    /// Its base URL, for example `http://127.0.0.1:1234`.
    pub address: String,
    record: Record,
}

/// The record of a stub's routes.
#[derive(Debug, Clone, Default)]
pub struct Record(Arc<Mutex<CallLog>>);

#[derive(Debug, Default)]
struct CallLog {
    calls: Vec<Call>,
    answered: usize,
    most_in_flight: usize,
}

impl Record {
    /// The requests that were received, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.0.lock().calls.clone()
    }

    /// The number of requests that were received but not answered: those in flight, and those whose
    /// client disconnected before the response.
    pub fn unanswered(&self) -> usize {
        let received = self.0.lock();
        received.calls.len() - received.answered
    }
}

impl CallLog {
    fn begin(&mut self, call: Call) {
        self.calls.push(call);
        self.most_in_flight = self.most_in_flight.max(self.calls.len() - self.answered);
    }
}

impl Stub {
    /// Serves answers on a free port.
    pub async fn start(answer: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Self {
        let record = Record::default();
        let address = format!("http://{}", serve(router(record.clone(), answer)).await);
        Self { address, record }
    }

    /// The requests that were received, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.record.calls()
    }

    pub fn calls_of(&self, path: &str) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.path == path).collect()
    }

    /// See [`Record::unanswered`].
    pub fn unanswered(&self) -> usize {
        self.record.unanswered()
    }

    /// The maximum number of unanswered requests at one time.
    pub fn most_unanswered(&self) -> usize {
        self.record.0.lock().most_in_flight
    }
}

/// The routes of a stub, for a server that the test starts itself, for example with TLS.
pub fn router(record: Record, answer: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Router {
    let answer = Arc::new(answer);
    Router::new().fallback(move |request: Request| {
        let (record, answer) = (record.clone(), Arc::clone(&answer));
        async move {
            let (parts, body) = request.into_parts();
            let body: Bytes = axum::body::to_bytes(body, 64 << 20).await.unwrap();
            let call = Call {
                method: parts.method.to_string(),
                path: parts.uri.path().to_owned(),
                headers: parts.headers,
                body: serde_json::from_slice(&body).unwrap_or(Value::Null),
                text: String::from_utf8_lossy(&body).into_owned(),
            };
            let reply = answer(&call);
            record.0.lock().begin(call);
            if !reply.after.is_zero() {
                tokio::time::sleep(reply.after).await;
            }
            record.0.lock().answered += 1;
            let mut response = (StatusCode::from_u16(reply.status).unwrap(), reply.body).into_response();
            for (name, value) in reply.headers {
                response.headers_mut().insert(name, value.parse().unwrap());
            }
            response
        }
    })
}
