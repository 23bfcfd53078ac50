//! Engines that execute the requests of a run: the services of this process (`local`), or the
//! workers of a fleet (`fleet`), which use the services of their own process.
//!
//! Both give the same answers. An answer depends only on its request, and a worker whose generator,
//! prompt or vector space differs from the run's refuses the request.

// Some parts are used only by the workers of a fleet.
#![cfg_attr(not(feature = "fleet"), allow(dead_code))]

pub(crate) mod encoding;
mod error;
#[cfg(feature = "fleet")]
pub mod fleet;
mod local;
mod score;
mod search;
mod shard;

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use futures::{future::BoxFuture, stream::BoxStream};
#[cfg(feature = "fleet")]
use isomer_fleet::Overview;
use isomer_proto::{
    common::v1::Provenance,
    encoder::v1::{EncodeRequest, EncodeResponse, Encoder},
    transform::v1::{JudgeRequest, JudgeResponse, TextItem, TransformSpec, transform_stream_response::Event},
};
use isomer_retention::Holder;
use isomer_service_kit::{Fault, Tenant};

pub(crate) use error::EncodingError;
pub(crate) use local::LocalEngine;
pub use score::ScoreRecord;
pub(crate) use score::{ScoreFailure, ScoreTask};
pub(crate) use shard::{DocumentFacts, Queries, Shard, ShardHits, ShardSearch, digest_of_vector};

use crate::EvalConfig;

/// The generator and prompt that produce a text, as the transform service of the run's process
/// reports them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Producer {
    /// Id of the generator; empty if none is needed.
    pub(crate) generator: String,
    /// Digest of the inputs of its texts other than the request.
    pub(crate) key: String,
    /// Whether it runs in the process of the transform service.
    pub(crate) local: bool,
    /// Digest of the prompt.
    pub(crate) prompt: String,
}

impl From<&Provenance> for Producer {
    fn from(provenance: &Provenance) -> Self {
        Self {
            generator: provenance.generator_id.clone(),
            key: provenance.generator_key.clone(),
            local: !provenance.generator_digest.is_empty(),
            prompt: provenance.prompt_digest.clone(),
        }
    }
}

/// Size and number of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchLimits {
    /// Maximum number of texts, or pairs, in one request.
    pub(crate) items: usize,
    /// Maximum number of requests in flight.
    pub(crate) in_flight: usize,
}

impl BatchLimits {
    /// Batching of requests to encoders, as configured.
    pub(crate) fn of_encoders(config: &EvalConfig) -> Self {
        Self {
            items: config.encode_batch_items,
            in_flight: config.encode_in_flight,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// Texts to transform.
    Transform,
    /// Pairs to rate.
    Judge,
    /// Texts to encode.
    Encode,
}

/// Executes the requests of a run.
pub(crate) trait WorkEngine: Send + Sync + Debug {
    /// This engine for a run that another replica may continue: the usage of its requests is
    /// counted once for the run, and counted again by a replica that repeats them.
    fn of_run(&self, run: &str) -> Arc<dyn WorkEngine>;

    /// The same engine for a tenant: entries of its requests in caches and stores are invisible to
    /// others.
    fn for_tenant(&self, tenant: &Tenant) -> Arc<dyn WorkEngine>;

    /// Whether a replica that continues a run learns the earlier usage of encoders.
    fn recounts_encoding(&self) -> bool;

    /// The same engine for a holder, which relies on entries found or created in the shared store.
    fn for_holder(&self, holder: &Holder) -> Arc<dyn WorkEngine>;

    /// The same engine for observed versions of encoders, by id: stored answers of another version
    /// are not used.
    fn for_versions(&self, versions: &Arc<BTreeMap<String, String>>) -> Arc<dyn WorkEngine>;

    /// Describes the workers; `None` if this process does the work.
    fn describe_workers(&self) -> BoxFuture<'static, Result<Option<String>, Fault>>;

    /// The current work of the workers; `None` if this process does the work.
    #[cfg(feature = "fleet")]
    fn overview(&self) -> BoxFuture<'static, Result<Option<Overview>, Fault>>;

    /// Waits until cancelled work has been stopped.
    fn wait_for_cancellations(&self) -> BoxFuture<'static, ()>;

    /// Size and number of requests; `own` are the values for services of this process.
    fn batching(&self, piece: RequestKind, own: BatchLimits) -> BatchLimits;

    /// Transforms texts. Yields each result as it arrives, then the usage.
    fn transform(
        &self,
        producer: &Producer,
        spec: TransformSpec,
        items: Vec<TextItem>,
    ) -> BoxStream<'static, Result<Event, Fault>>;

    /// Rates pairs of texts.
    fn judge(&self, producer: &Producer, request: JudgeRequest) -> BoxFuture<'static, Result<JudgeResponse, Fault>>;

    /// Encodes texts with an encoder, as it was described when the run was planned.
    fn encode(&self, encoder: &Encoder, request: EncodeRequest) -> BoxFuture<'static, Result<EncodeResponse, Fault>>;

    /// Encodes the documents of a shard and searches them. The caller checks the answer.
    fn search(&self, shard: Shard, wanted: Arc<ShardSearch>) -> BoxFuture<'static, Result<ShardHits, EncodingError>>;

    fn score(&self, task: ScoreTask) -> BoxFuture<'static, Result<ScoreRecord, ScoreFailure>>;

    /// Maximum number of concurrent scores: in this process one, because a score uses all cores.
    fn scores_in_flight(&self) -> usize;

    /// Maximum number of concurrent shards: in this process one, whose vectors fill the memory that
    /// a shard may take.
    fn shards_in_flight(&self) -> usize;
}
