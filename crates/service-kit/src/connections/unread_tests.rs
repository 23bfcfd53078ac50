//! Clients that do not read their answers, over each protocol.
#![allow(clippy::unwrap_used)]

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Request, header};
use http_body_util::BodyExt;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{
    Activity, Connections, accepted_connection::Newcomers, counting_service::CountingService,
    watched_socket::WatchedSocket,
};
use crate::{
    LimitsConfig, Services,
    budget::Budget,
    layers::{Client, Via},
};

const ANSWER: usize = 4 << 20;
const GRPC: &str = "/isomer.encoder.v1.EncoderService/GetEncoder";

/// A gRPC answer whose message is made when it is polled.
fn message() -> Response {
    let length = u32::try_from(ANSWER - 5).unwrap().to_be_bytes();
    let frame = [&[0][..], &length, &vec![b'x'; ANSWER - 5]].concat();
    let body = Body::from_stream(stream::once(async { Ok::<_, std::io::Error>(Bytes::from(frame)) }));
    let kind = HeaderValue::from_static("application/grpc");
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

struct Server {
    budget: Budget,
    connection: JoinHandle<bool>,
}

impl Server {
    fn start() -> (Self, DuplexStream) {
        let services = Services::new()
            .http(Router::new().route("/large", get(|| async { vec![b'x'; ANSWER] })))
            .add_routes(
                "isomer.encoder.v1.EncoderService",
                Router::new().route(GRPC, post(|| async { message() })),
            );
        let limits = LimitsConfig {
            max_bytes_in_flight: 256 << 20,
            ..LimitsConfig::default()
        };
        let bound = services.assemble(&limits, Via::Network).unwrap();
        let place = Connections::new(&limits, 1024).enter().unwrap();
        let client = Client::new(Some(IpAddr::from([127, 0, 0, 1])));
        let activity = Arc::new(Activity::new(Newcomers::default().enter(), client));
        let (ours, theirs) = tokio::io::duplex(4096);
        let io = TokioIo::new(WatchedSocket::new(theirs, Arc::clone(&activity), place));
        let service = TowerToHyperService::new(CountingService::new(bound.router, activity));
        let connection = tokio::spawn(async move {
            let builder = auto::Builder::new(TokioExecutor::new());
            builder.serve_connection(io, service).await.is_err()
        });
        let server = Self {
            budget: bound.budget,
            connection,
        };
        (server, ours)
    }

    async fn answers(&self) {
        while self.budget.reserved() < ANSWER {
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until the server closes the connection, in tokio's time.
    async fn closed(self) {
        assert!(self.budget.reserved() >= ANSWER);
        let closed = timeout(Duration::from_secs(120), self.connection).await;
        assert!(closed.expect("the connection is closed").unwrap());
        while self.budget.reserved() > 0 {
            sleep(Duration::from_millis(1)).await;
        }
    }
}

const REQUEST: &[u8] = b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn an_unread_answer_over_http_1_is_cut() {
    let (server, mut client) = Server::start();
    client.write_all(REQUEST).await.unwrap();
    server.answers().await;
    server.closed().await;
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn a_byte_now_and_then_does_not_keep_an_answer() {
    let (server, mut client) = Server::start();
    client.write_all(REQUEST).await.unwrap();
    server.answers().await;
    let reading = tokio::spawn(async move {
        while client.read_u8().await.is_ok() {
            sleep(Duration::from_secs(1)).await;
        }
    });
    server.closed().await;
    reading.abort();
}

#[tokio::test(start_paused = true)]
async fn an_unread_answer_over_http_2_is_cut() {
    for path in ["/large", GRPC] {
        for window in [1, 65_535] {
            let (server, client) = Server::start();
            let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
                .initial_stream_window_size(window)
                .handshake(TokioIo::new(client));
            let (mut sender, connection) = builder.await.unwrap();
            let driver = tokio::spawn(connection);
            let request = match path {
                GRPC => Request::post(path).header("content-type", "application/grpc"),
                _ => Request::get(path),
            };
            let request = request.body(Body::empty()).unwrap();
            let answer = sender.send_request(request).await.unwrap();
            server.answers().await;
            server.closed().await;
            drop((answer, sender));
            driver.abort();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_gets_the_whole_answer() {
    let (server, mut client) = Server::start();
    client.write_all(REQUEST).await.unwrap();
    let (mut read, mut piece) = (0, vec![0; 60 << 10]);
    while read < ANSWER {
        read += client.read(&mut piece).await.unwrap();
        // The client reads 5 kB a second.
        sleep(Duration::from_millis(800)).await;
    }
    assert!(!server.connection.is_finished());
}

#[tokio::test(start_paused = true)]
async fn answers_over_http_2_arrive_whole() {
    let (server, client) = Server::start();
    let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new()).handshake(TokioIo::new(client));
    let (mut sender, connection) = builder.await.unwrap();
    tokio::spawn(connection);
    for path in ["/large", GRPC] {
        let request = match path {
            GRPC => Request::post(path).header("content-type", "application/grpc"),
            _ => Request::get(path),
        };
        let answer = sender.send_request(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes().len(), ANSWER);
    }
    while server.budget.reserved() > 0 {
        sleep(Duration::from_millis(1)).await;
    }
}
