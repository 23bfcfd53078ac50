//! `grpc.health.v1`, per service name.

use std::{collections::BTreeMap, pin::Pin, sync::Arc};

use futures::{Stream, StreamExt, stream};
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tonic::{Request, Response, Status};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus, health_server::Health,
};

use crate::Fault;

/// The health of each service; the empty name stands for the whole server.
#[derive(Debug, Clone)]
pub(crate) struct HealthBoard {
    statuses: Arc<BTreeMap<&'static str, watch::Sender<ServingStatus>>>,
}

impl HealthBoard {
    /// A board on which every service is SERVING.
    pub(crate) fn serving(names: &[&'static str]) -> Self {
        let all = names.iter().copied().chain([""]);
        Self {
            statuses: Arc::new(
                all.map(|name| (name, watch::Sender::new(ServingStatus::Serving)))
                    .collect(),
            ),
        }
    }

    /// Reports NOT_SERVING, so that balancers send no new requests.
    pub(crate) fn drain(&self) {
        for status in self.statuses.values() {
            status.send_replace(ServingStatus::NotServing);
        }
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.statuses
            .get("")
            .is_some_and(|status| *status.borrow() == ServingStatus::Serving)
    }
}

fn reply(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl Health for HealthBoard {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let asked = &request.get_ref().service;
        match self.statuses.get(asked.as_str()) {
            Some(status) => Ok(Response::new(reply(*status.borrow()))),
            None => Err(
                Fault::not_found("UNKNOWN_SERVICE", format!("no service `{asked}` here"))
                    .field("service")
                    .hint("server reflection lists the services; the empty name asks for the whole server")
                    .into(),
            ),
        }
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let stream: Self::WatchStream = match self.statuses.get(request.get_ref().service.as_str()) {
            Some(status) => WatchStream::new(status.subscribe())
                .map(|status| Ok(reply(status)))
                .boxed(),
            // The protocol requires that a watch on an unknown name stays open: the service may be
            // added later.
            None => stream::once(async { Ok(reply(ServingStatus::ServiceUnknown)) })
                .chain(stream::pending())
                .boxed(),
        };
        Ok(Response::new(stream))
    }
}
