//! Sends the requests of a run to the services of this process, or to those that its channels
//! connect to.

use futures::{
    FutureExt, StreamExt, TryStreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use isomer_encoder_client::{EncoderClient, retry};
use isomer_proto::{
    encoder::v1::{EncodeRequest, EncodeResponse, Encoder, Priority},
    transform::v1::{
        JudgeRequest, JudgeResponse, TextItem, TransformSpec, TransformStreamRequest,
        transform_service_client::TransformServiceClient, transform_stream_response::Event,
    },
};
use isomer_service_kit::{Fault, GrpcChannel, dispatch::with_dispatch, limits::INNER_MESSAGE};
use uuid::Uuid;

use super::{Batching, Producer, RequestKind, WorkEngine};
use crate::EvalClients;

/// Calls the services.
#[derive(Debug, Clone)]
pub(crate) struct LocalEngine {
    clients: EvalClients,
}

impl LocalEngine {
    pub(crate) fn new(clients: EvalClients) -> Self {
        Self { clients }
    }

    /// As [`WorkEngine::transform`], for a dispatch.
    pub(crate) fn transform_for(
        &self,
        dispatch: Option<Uuid>,
        spec: TransformSpec,
        items: Vec<TextItem>,
    ) -> BoxStream<'static, Result<Event, Fault>> {
        let channel = self.clients.transform.clone();
        let opened = async move {
            let request = TransformStreamRequest {
                spec: Some(spec),
                items,
                priority: Priority::Batch.into(),
            };
            let opened = retry::calls(|| {
                let (mut client, request) = (transform_client(channel.clone()), request.clone());
                async move { client.transform_stream(with_dispatch(request, dispatch)).await }
            });
            opened.await.map(tonic::Response::into_inner).map_err(fault)
        };
        stream::once(opened)
            .map_ok(|messages| messages.map_err(fault))
            .try_flatten()
            .try_filter_map(|message| std::future::ready(Ok(message.event)))
            .boxed()
    }

    /// As [`WorkEngine::judge`], for a dispatch.
    pub(crate) fn judge_for(
        &self,
        dispatch: Option<Uuid>,
        request: JudgeRequest,
    ) -> BoxFuture<'static, Result<JudgeResponse, Fault>> {
        let channel = self.clients.transform.clone();
        let request = JudgeRequest {
            priority: Priority::Batch.into(),
            ..request
        };
        async move {
            let answer = retry::calls(|| {
                let (mut client, request) = (transform_client(channel.clone()), request.clone());
                async move { client.judge(with_dispatch(request, dispatch)).await }
            });
            answer.await.map(tonic::Response::into_inner).map_err(fault)
        }
        .boxed()
    }
}

fn transform_client(channel: GrpcChannel) -> TransformServiceClient<GrpcChannel> {
    TransformServiceClient::new(channel).max_decoding_message_size(INNER_MESSAGE)
}

fn fault(status: tonic::Status) -> Fault {
    Fault::from_status(&status)
}

impl WorkEngine for LocalEngine {
    fn describe_workers(&self) -> BoxFuture<'static, Result<Option<String>, Fault>> {
        std::future::ready(Ok(None)).boxed()
    }

    /// Dropping a call stops its work.
    fn wait_for_cancellations(&self) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }

    fn batching(&self, _piece: RequestKind, own: Batching) -> Batching {
        own
    }

    fn transform(
        &self,
        _maker: &Producer,
        spec: TransformSpec,
        items: Vec<TextItem>,
    ) -> BoxStream<'static, Result<Event, Fault>> {
        self.transform_for(None, spec, items)
    }

    fn judge(&self, _maker: &Producer, request: JudgeRequest) -> BoxFuture<'static, Result<JudgeResponse, Fault>> {
        self.judge_for(None, request)
    }

    fn encode(&self, _encoder: &Encoder, request: EncodeRequest) -> BoxFuture<'static, Result<EncodeResponse, Fault>> {
        let client = EncoderClient::new(self.clients.encoder.clone());
        async move { client.encode(request).await.map_err(fault) }.boxed()
    }
}
