//! Sends the requests of a run to the services of this process, or to the services that its
//! channels connect to.

use std::{collections::BTreeMap, sync::Arc};

use futures::{
    FutureExt, StreamExt, TryStreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use isomer_encoder_client::{EncoderClient, retry};
#[cfg(feature = "fleet")]
use isomer_fleet::Overview;
use isomer_proto::{
    encoder::v1::{EncodeRequest, EncodeResponse, Encoder, Priority},
    transform::v1::{
        EncodeAugmentedRequest, EncodeAugmentedResponse, JudgeRequest, JudgeResponse, TextItem, TransformSpec,
        TransformStreamRequest, augmentation_service_client::AugmentationServiceClient,
        transform_service_client::TransformServiceClient, transform_stream_response::Event,
    },
};
use isomer_retention::Holder;
use isomer_service_kit::{
    Fault, GrpcChannel, Tenant, dispatch::with_dispatch, holder::with_holder, limits::INNER_MESSAGE,
};
use isomer_usage::Claimant;
use prost::Message;
use uuid::Uuid;

use super::{
    BatchLimits, Producer, RequestKind, WorkEngine,
    error::EncodingError,
    score::{self, ScoreFailure, ScoreRecord, ScoreTask},
    search,
    shard::{Shard, ShardHits, ShardSearch},
};
use crate::{EvalClients, compute::Compute};

/// Calls the services.
#[derive(Debug, Clone)]
pub(crate) struct LocalEngine {
    clients: EvalClients,
    /// Size and number of requests to encoders for a shard.
    batching: BatchLimits,
    /// Runs the searches of shards.
    compute: Compute,
    /// The run that the requests belong to, if another replica may continue it.
    run: Option<Claimant>,
    /// The holder that relies on the entries which the services find or create in the shared store.
    holder: Option<Arc<str>>,
}

impl LocalEngine {
    /// `batching` applies to requests to encoders for a shard.
    pub(crate) fn new(clients: EvalClients, batching: BatchLimits, compute: Compute) -> Self {
        Self {
            clients,
            batching,
            compute,
            run: None,
            holder: None,
        }
    }

    /// The dispatch of a request: the same for every replica that sends the request in the same
    /// run.
    fn dispatch(&self, request: &impl Message) -> Option<Uuid> {
        let run = self.run.as_ref()?;
        Some(run.dispatch(blake3::hash(&request.encode_to_vec()).as_bytes()))
    }

    pub(crate) fn held_by(&self, holder: &Holder) -> Self {
        Self {
            holder: Some(holder.to_text().into()),
            ..self.clone()
        }
    }

    /// As [`WorkEngine::for_tenant`].
    pub(crate) fn of_tenant(&self, tenant: &Tenant) -> Self {
        Self {
            clients: self.clients.for_tenant(tenant),
            ..self.clone()
        }
    }

    /// As [`WorkEngine::transform`], for a dispatch.
    pub(crate) fn transform_for(
        &self,
        dispatch: Option<Uuid>,
        spec: TransformSpec,
        items: Vec<TextItem>,
    ) -> BoxStream<'static, Result<Event, Fault>> {
        let request = TransformStreamRequest {
            spec: Some(spec),
            items,
            priority: Priority::Batch.into(),
        };
        self.stream(dispatch, request)
    }

    fn stream(
        &self,
        dispatch: Option<Uuid>,
        request: TransformStreamRequest,
    ) -> BoxStream<'static, Result<Event, Fault>> {
        let (channel, holder) = (self.clients.transform.clone(), self.holder.clone());
        let opened = async move {
            let opened = retry::calls(|| {
                let (mut client, request) = (transform_client(channel.clone()), request.clone());
                let request = with_holder(with_dispatch(request, dispatch), holder.as_deref());
                async move { client.transform_stream(request).await }
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
        let (channel, holder) = (self.clients.transform.clone(), self.holder.clone());
        let request = JudgeRequest {
            priority: Priority::Batch.into(),
            ..request
        };
        async move {
            let answer = retry::calls(|| {
                let (mut client, request) = (transform_client(channel.clone()), request.clone());
                let request = with_holder(with_dispatch(request, dispatch), holder.as_deref());
                async move { client.judge(request).await }
            });
            answer.await.map(tonic::Response::into_inner).map_err(fault)
        }
        .boxed()
    }

    /// Encodes texts with their variants, for a dispatch.
    pub(crate) async fn encode_augmented_for(
        &self,
        dispatch: Option<Uuid>,
        request: EncodeAugmentedRequest,
    ) -> Result<EncodeAugmentedResponse, Fault> {
        let client = AugmentationServiceClient::new(self.clients.transform.clone());
        let client = client.max_decoding_message_size(INNER_MESSAGE);
        let answer = retry::calls(|| {
            let request = with_holder(with_dispatch(request.clone(), dispatch), self.holder.as_deref());
            let mut client = client.clone();
            async move { client.encode_augmented(request).await }
        });
        answer.await.map(tonic::Response::into_inner).map_err(fault)
    }
}

fn transform_client(channel: GrpcChannel) -> TransformServiceClient<GrpcChannel> {
    TransformServiceClient::new(channel).max_decoding_message_size(INNER_MESSAGE)
}

fn fault(status: tonic::Status) -> Fault {
    Fault::from_status(&status)
}

impl WorkEngine for LocalEngine {
    fn of_run(&self, run: &str) -> Arc<dyn WorkEngine> {
        Arc::new(Self {
            run: Some(Claimant::new(run)),
            ..self.clone()
        })
    }

    fn for_tenant(&self, tenant: &Tenant) -> Arc<dyn WorkEngine> {
        Arc::new(self.of_tenant(tenant))
    }

    /// Vectors do not record the run that they were computed for.
    fn recounts_encoding(&self) -> bool {
        false
    }

    fn for_holder(&self, holder: &Holder) -> Arc<dyn WorkEngine> {
        Arc::new(self.held_by(holder))
    }

    /// This process stores no answers.
    fn for_versions(&self, _: &Arc<BTreeMap<String, String>>) -> Arc<dyn WorkEngine> {
        Arc::new(self.clone())
    }

    fn describe_workers(&self) -> BoxFuture<'static, Result<Option<String>, Fault>> {
        std::future::ready(Ok(None)).boxed()
    }

    #[cfg(feature = "fleet")]
    fn overview(&self) -> BoxFuture<'static, Result<Option<Overview>, Fault>> {
        std::future::ready(Ok(None)).boxed()
    }

    /// Dropping a call stops its work.
    fn wait_for_cancellations(&self) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }

    fn batching(&self, _piece: RequestKind, own: BatchLimits) -> BatchLimits {
        own
    }

    fn transform(
        &self,
        _maker: &Producer,
        spec: TransformSpec,
        items: Vec<TextItem>,
    ) -> BoxStream<'static, Result<Event, Fault>> {
        let request = TransformStreamRequest {
            spec: Some(spec),
            items,
            priority: Priority::Batch.into(),
        };
        let dispatch = self.dispatch(&request);
        self.stream(dispatch, request)
    }

    fn judge(&self, _maker: &Producer, request: JudgeRequest) -> BoxFuture<'static, Result<JudgeResponse, Fault>> {
        self.judge_for(self.dispatch(&request), request)
    }

    fn encode(&self, _encoder: &Encoder, request: EncodeRequest) -> BoxFuture<'static, Result<EncodeResponse, Fault>> {
        let client = EncoderClient::new(self.clients.encoder.clone());
        async move { client.encode(request).await.map_err(fault) }.boxed()
    }

    fn search(&self, shard: Shard, wanted: Arc<ShardSearch>) -> BoxFuture<'static, Result<ShardHits, EncodingError>> {
        let own = self.clone();
        async move { search::search(&own, own.batching, &own.compute, &shard, wanted).await }.boxed()
    }

    fn score(&self, task: ScoreTask) -> BoxFuture<'static, Result<ScoreRecord, ScoreFailure>> {
        let compute = self.compute.clone();
        async move { score::score(&compute, task).await }.boxed()
    }

    fn scores_in_flight(&self) -> usize {
        1
    }

    fn shards_in_flight(&self) -> usize {
        1
    }
}
