//! Shared by the stubs of gRPC services: a handler for an rpc, and ways to reach a service.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use futures::future::BoxFuture;
use isomer_service_kit::{
    GrpcChannel, LimitsConfig, Services, memory,
    server::{self, ServerConfig},
};
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::{Service, http},
    server::NamedService,
};

/// The closure that answers an rpc. Without one, the rpc is unimplemented.
pub(crate) struct Handler<Q, A>(Option<Closure<Q, A>>);

type Closure<Q, A> = Arc<dyn Fn(Request<Q>) -> BoxFuture<'static, Result<A, Status>> + Send + Sync>;

impl<Q, A> Default for Handler<Q, A> {
    fn default() -> Self {
        Self(None)
    }
}

impl<Q, A> Clone for Handler<Q, A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<Q, A> Handler<Q, A> {
    pub(crate) fn new<F>(answer: impl Fn(Request<Q>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<A, Status>> + Send + 'static,
    {
        Self(Some(Arc::new(move |request| Box::pin(answer(request)))))
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) async fn answer(&self, request: Request<Q>) -> Result<Response<A>, Status> {
        match &self.0 {
            Some(closure) => closure(request).await.map(Response::new),
            None => Err(Status::unimplemented("the stub has no handler for this rpc")),
        }
    }
}

/// Methods of a stub that set its handlers, each with its rpc's request and the closure's answer.
macro_rules! handlers {
    ($($(#[$doc:meta])* $method:ident sets $field:ident: $request:ty => $answer:ty;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $method<F>(self, answer: impl Fn(Request<$request>) -> F + Send + Sync + 'static) -> Self
        where
            F: Future<Output = Result<$answer, Status>> + Send + 'static,
        {
            let $field = Handler::new(answer);
            Self { $field, ..self }
        }
    )*};
}
pub(crate) use handlers;

/// An in-memory channel to services that are served with the default limits.
pub async fn channel(services: Services) -> GrpcChannel {
    memory::channel(services, &LimitsConfig::default()).await.unwrap()
}

/// Serves services until the runtime ends, with all layers of an Isomer server. Returns the
/// address.
pub fn start(services: Services, config: ServerConfig) -> SocketAddr {
    let listener = server::bind(&config).unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { server::serve(services, &config, listener, std::future::pending()).await });
    address
}

/// Serves a single gRPC service without anything else, not even health, on a free port. Returns the
/// address as `grpc://HOST:PORT`.
pub async fn serve<S>(service: S) -> String
where
    S: Service<http::Request<Body>, Error = Infallible> + NamedService + Clone + Send + Sync + 'static,
    S::Response: axum::response::IntoResponse,
    S::Future: Send + 'static,
{
    let routes = tonic::service::Routes::new(service).into_axum_router();
    format!("grpc://{}", crate::http::serve(routes).await)
}
