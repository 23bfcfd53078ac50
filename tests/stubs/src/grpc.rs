//! A gRPC stub server for protocols whose messages are described by hand: it passes bytes.

use std::{
    collections::HashMap,
    future::{Ready, ready},
    sync::Arc,
};

use axum::{Router, body::Body, extract::Request, response::Response};
use parking_lot::Mutex;
use prost::Message;
use tonic::{
    Status,
    metadata::MetadataMap,
    server::{Grpc, UnaryService},
};

use crate::raw::Raw;

/// Answers a message with a message, both encoded.
pub type Method = Arc<dyn Fn(&[u8]) -> Result<Vec<u8>, Status> + Send + Sync>;

/// The calls: path, metadata, message.
type Calls = Arc<Mutex<Vec<(String, MetadataMap, Vec<u8>)>>>;

/// A server whose methods are closures. It records its calls.
pub struct GrpcStub {
    /// `grpc://HOST:PORT`.
    pub address: String,
    calls: Calls,
}

/// A method that decodes its message and encodes its answer.
pub fn method<M: Message + Default, A: Message>(
    answer: impl Fn(M) -> Result<A, Status> + Send + Sync + 'static,
) -> Method {
    Arc::new(move |bytes| Ok(answer(M::decode(bytes).unwrap())?.encode_to_vec()))
}

impl GrpcStub {
    /// Serves methods by their paths until the runtime ends.
    pub async fn start(methods: impl IntoIterator<Item = (&'static str, Method)>) -> Self {
        let methods: Arc<HashMap<&str, Method>> = Arc::new(methods.into_iter().collect());
        let calls = Calls::default();
        let seen = Arc::clone(&calls);
        let router = Router::new().fallback(move |request: Request| {
            let path = request.uri().path().to_owned();
            let service = CallRecorder {
                method: methods.get(path.as_str()).cloned(),
                path,
                calls: Arc::clone(&seen),
            };
            async move {
                let response: Response = Grpc::new(Raw).unary(service, request).await.map(Body::new);
                response
            }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("grpc://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, calls }
    }

    /// The messages that were sent to a path.
    pub fn sent<M: Message + Default>(&self, path: &str) -> Vec<M> {
        let calls = self.calls.lock();
        let sent = calls.iter().filter(|(called, ..)| called == path);
        sent.map(|(_, _, bytes)| M::decode(bytes.as_slice()).unwrap()).collect()
    }

    /// The metadata of the first call to a path.
    pub fn metadata(&self, path: &str) -> MetadataMap {
        let calls = self.calls.lock();
        calls.iter().find(|(called, ..)| called == path).unwrap().1.clone()
    }
}

struct CallRecorder {
    method: Option<Method>,
    path: String,
    calls: Calls,
}

impl UnaryService<Vec<u8>> for CallRecorder {
    type Response = Vec<u8>;
    type Future = Ready<Result<tonic::Response<Vec<u8>>, Status>>;

    fn call(&mut self, request: tonic::Request<Vec<u8>>) -> Self::Future {
        let (metadata, _, message) = request.into_parts();
        let answer = match &self.method {
            None => Err(Status::unimplemented("no such method")),
            Some(method) => method(&message).map(tonic::Response::new),
        };
        self.calls.lock().push((self.path.clone(), metadata, message));
        ready(answer)
    }
}
