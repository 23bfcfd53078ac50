//! Sends the requests of a run to the workers of a fleet.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use isomer_fleet::{Dispatcher, Kind, Lane, Overview, Unit, UnitAnswer, WorkerInfo};
use isomer_proto::{
    common::v1::{Usage, VectorSpace},
    encoder::v1::{EncodeRequest, EncodeResponse, Encoder},
    transform::v1::{
        JudgeRequest, JudgeResponse, TextItem, TransformSpec, TransformStreamEnd, transform_stream_response::Event,
    },
};
use isomer_retention::{Digest, Holder};
use isomer_service_kit::{Fault, Tenant};
use isomer_usage::Claimant;
use prost::Message;
use tokio::sync::Semaphore;

use super::{
    executor::INPUT_MISSING,
    wire::{
        EncodeUnit, ForTenant, GenerationUnit, GenerationWork, JudgeUnit, ScoreUnit, ScoreWork, ShardAnswer, ShardUnit,
        TransformAnswer, TransformUnit, VectorsAnswer, VectorsUnit,
    },
};
use crate::{
    metric::Similarity,
    task::ScoreError,
    work::{
        BatchLimits, LocalEngine, Producer, RequestKind, WorkEngine,
        error::EncodingError,
        score::{ScoreFailure, ScoreRecord, ScoreTask},
        shard::{Shard, ShardHits, ShardSearch, VectorRows, digested},
    },
};

/// Texts per unit of generation. Finished texts are stored individually, so a worker that dies
/// loses at most those in progress.
const TEXTS: usize = 32;
/// Pairs per unit of rating.
const PAIRS: usize = 16;

/// Maximum number of scores in flight, each with its vectors.
const SCORES: usize = 16;
/// Maximum number of shards in flight, each with an answer that may be large.
const SHARDS: usize = 32;
/// Maximum number of concurrent writes of shards to the store; each write copies the shard's texts.
const SHARDS_WRITTEN: usize = 2;
/// Maximum number of attempts to write a unit's inputs to the store, if a worker did not find them.
const INPUT_ATTEMPTS: usize = 3;

/// Queues requests and reads their answers.
#[derive(Debug, Clone)]
pub(crate) struct FleetEngine {
    dispatcher: Dispatcher,
    /// The class of arithmetic of this process.
    class: Arc<str>,
    own: LocalEngine,
    /// Bounds the number of concurrent writes of shards to the store.
    writing: Arc<Semaphore>,
    /// Minimum number of operations of a score that is sent to a worker.
    least_operations: u64,
    /// The run that the requests belong to, if another replica may continue it.
    run: Option<Claimant>,
    /// The tenant that the requests are for.
    tenant: Tenant,
    /// Observed versions of encoders that do not report their settings, by id.
    versions: Arc<BTreeMap<String, String>>,
}

impl FleetEngine {
    /// Requests that need no generator, and scores with fewer operations than `least_operations`,
    /// are executed by `own`.
    pub(crate) fn new(dispatcher: Dispatcher, class: &str, own: LocalEngine, least_operations: u64) -> Self {
        Self {
            dispatcher,
            least_operations,
            class: class.into(),
            own,
            writing: Arc::new(Semaphore::new(SHARDS_WRITTEN)),
            run: None,
            tenant: Tenant::default(),
            versions: Arc::default(),
        }
    }

    /// The lane of a generator. A model in the worker's process must compute in the class of this
    /// process, so that its texts equal those that this process would generate.
    fn lane(&self, kind: Kind, producer: &Producer) -> Lane {
        Lane {
            kind,
            of: format!("{} {}", producer.generator, producer.key),
            class: if producer.local {
                self.class.to_string()
            } else {
                String::new()
            },
            max_in_flight: 0,
            // A model in the worker's process has no limits to share.
            limit: if producer.local {
                String::new()
            } else {
                producer.key.clone()
            },
        }
    }
}

impl FleetEngine {
    /// The answer to a shard, from the store or from a worker.
    async fn searched(&self, shard: &Shard, wanted: &ShardSearch) -> Result<UnitAnswer, Fault> {
        let space = wanted.encoder.vector_space.clone().unwrap_or_default();
        let lane = encoder_lane(Kind::Score, &wanted.encoder.id, &space, &self.class);
        let mut attempt = 1;
        loop {
            let unit = {
                // The semaphore is never closed.
                let _writing = self.writing.acquire().await.ok();
                let (documents, content) = shard.message();
                let (queries, vectors) = wanted.queries.message();
                self.dispatcher.put_input(documents, &content).await?;
                self.dispatcher.put_input(*queries, vectors).await?;
                let request = ShardUnit::new(wanted, documents.bytes(), queries.bytes());
                let depends = self.version(&wanted.encoder);
                unit(
                    lane.clone(),
                    depends.as_slice(),
                    ScoreWork::Shard(request),
                    &self.tenant,
                )
            };
            match self.dispatcher.request_for(self.run.as_ref(), unit).await {
                // The input was damaged, or a shared file system does not show it yet.
                Err(fault) if fault.reason == INPUT_MISSING && attempt < INPUT_ATTEMPTS => attempt += 1,
                answer => return answer,
            }
        }
    }

    /// The observed version of an encoder, on which its answers depend.
    fn version(&self, encoder: &Encoder) -> Option<&str> {
        self.versions.get(&encoder.id).map(String::as_str)
    }

    /// A worker's answer to vectors to score.
    async fn scored(&self, lane: Lane, task: &ScoreTask) -> Result<VectorsAnswer, Fault> {
        let scoring = serde_json::to_vec(&task.dataset.scoring());
        let scoring = Bytes::from(scoring.map_err(|error| Fault::internal(error.to_string()))?);
        let labels = Digest::from(*blake3::hash(&scoring).as_bytes());
        let similarity = Similarity::ALL.iter().position(|known| *known == task.similarity);
        let mut attempt = 1;
        loop {
            let (unit, rows) = {
                // The semaphore is never closed.
                let _writing = self.writing.acquire().await.ok();
                let (rows, content) = digested(&VectorRows::from(&task.vectors));
                self.dispatcher.put_input(labels, &scoring).await?;
                self.dispatcher.put_input(rows, &content).await?;
                let request = VectorsUnit {
                    scoring: labels.bytes().to_vec(),
                    vectors: rows.bytes().to_vec(),
                    profile: task.profile.name().to_owned(),
                    similarity: similarity.unwrap_or_default() as u32,
                };
                (unit(lane.clone(), &[], ScoreWork::Vectors(request), &self.tenant), rows)
            };
            match self.dispatcher.request_for(self.run.as_ref(), unit).await {
                // As in `searched`; or another run had the same score and removed its vectors.
                Err(fault) if fault.reason == INPUT_MISSING && attempt < INPUT_ATTEMPTS => attempt += 1,
                Err(fault) => return Err(fault),
                Ok(answer) => {
                    // Vectors are large and no longer needed after the answer.
                    self.dispatcher.remove_input(rows).await;
                    return VectorsAnswer::decode(answer.content).map_err(|error| unreadable(&error));
                }
            }
        }
    }
}

/// The lane of an encoder with vectors of a class of arithmetic.
pub(super) fn encoder_lane(kind: Kind, encoder: &str, space: &VectorSpace, class: &str) -> Lane {
    Lane {
        kind,
        of: format!("{encoder} {}", space.digest),
        class: class.to_owned(),
        max_in_flight: 0,
        limit: String::new(),
    }
}

/// Texts for an encoder; `depends` as in [`Unit::new`].
pub(super) fn encode_unit(
    lane: Lane,
    depends: &[&str],
    space: VectorSpace,
    request: EncodeRequest,
    tenant: &Tenant,
) -> Unit {
    let unit = EncodeUnit {
        space,
        request,
        tenant: ForTenant::of(tenant),
    };
    Unit::new(lane, depends, unit.encode_to_vec().into())
}

/// A unit of the lane `score`; `depends` as in [`Unit::new`].
fn unit(lane: Lane, depends: &[&str], work: ScoreWork, tenant: &Tenant) -> Unit {
    let request = ScoreUnit {
        work: Some(work),
        tenant: ForTenant::of(tenant),
    };
    Unit::new(lane, depends, request.encode_to_vec().into())
}

pub(super) fn unreadable(error: &prost::DecodeError) -> Fault {
    Fault::internal(format!("the answer of a unit of work cannot be read: {error}"))
}

impl WorkEngine for FleetEngine {
    fn of_run(&self, run: &str) -> Arc<dyn WorkEngine> {
        Arc::new(Self {
            run: Some(Claimant::new(run)),
            ..self.clone()
        })
    }

    fn for_tenant(&self, tenant: &Tenant) -> Arc<dyn WorkEngine> {
        Arc::new(Self {
            own: self.own.of_tenant(tenant),
            tenant: tenant.clone(),
            ..self.clone()
        })
    }

    fn for_versions(&self, versions: &Arc<BTreeMap<String, String>>) -> Arc<dyn WorkEngine> {
        Arc::new(Self {
            versions: Arc::clone(versions),
            ..self.clone()
        })
    }

    /// The claim of a unit names the run that counted it.
    fn recounts_encoding(&self) -> bool {
        true
    }

    fn for_holder(&self, holder: &Holder) -> Arc<dyn WorkEngine> {
        Arc::new(Self {
            dispatcher: self.dispatcher.for_holder(holder),
            own: self.own.held_by(holder),
            ..self.clone()
        })
    }

    fn describe_workers(&self) -> BoxFuture<'static, Result<Option<String>, Fault>> {
        let (dispatcher, class) = (self.dispatcher.clone(), Arc::clone(&self.class));
        async move {
            let workers = dispatcher.queue().workers().await?;
            Ok(Some(workers_in_words(&workers, &class)))
        }
        .boxed()
    }

    fn overview(&self) -> BoxFuture<'static, Result<Option<Overview>, Fault>> {
        let dispatcher = self.dispatcher.clone();
        async move { Ok(Some(dispatcher.queue().overview().await?)) }.boxed()
    }

    fn wait_for_cancellations(&self) -> BoxFuture<'static, ()> {
        let dispatcher = self.dispatcher.clone();
        async move { dispatcher.wait_for_cancellations().await }.boxed()
    }

    fn batching(&self, piece: RequestKind, own: BatchLimits) -> BatchLimits {
        let items = match piece {
            RequestKind::Transform => TEXTS,
            RequestKind::Judge => PAIRS,
            RequestKind::Encode => own.items,
        };
        BatchLimits {
            items: own.items.min(items),
            in_flight: self.dispatcher.queue().config().units_in_flight,
        }
    }

    fn transform(
        &self,
        producer: &Producer,
        spec: TransformSpec,
        items: Vec<TextItem>,
    ) -> BoxStream<'static, Result<Event, Fault>> {
        if producer.generator.is_empty() {
            return self.own.transform(producer, spec, items);
        }
        let request = TransformUnit {
            expected: producer.into(),
            // The worker's default may be another generator.
            spec: TransformSpec {
                generator_id: producer.generator.clone(),
                ..spec
            },
            items,
            tenant: ForTenant::of(&self.tenant),
        };
        let request = GenerationUnit {
            work: Some(GenerationWork::Transform(request)),
        };
        let unit = Unit::new(
            self.lane(Kind::Transform, producer),
            &[],
            request.encode_to_vec().into(),
        );
        let (dispatcher, run) = (self.dispatcher.clone(), self.run.clone());
        let asked = async move {
            let found = dispatcher.request_for(run.as_ref(), unit).await?;
            let answer = TransformAnswer::decode(found.content.clone()).map_err(|error| unreadable(&error))?;
            Ok::<_, Fault>(events(answer, &found))
        };
        stream::once(asked)
            .flat_map(|events| match events {
                Ok(events) => stream::iter(events).map(Ok).boxed(),
                Err(fault) => stream::once(async { Err(fault) }).boxed(),
            })
            .boxed()
    }

    fn judge(&self, producer: &Producer, request: JudgeRequest) -> BoxFuture<'static, Result<JudgeResponse, Fault>> {
        let request = JudgeUnit {
            expected: producer.into(),
            request: JudgeRequest {
                generator_id: producer.generator.clone(),
                ..request
            },
            tenant: ForTenant::of(&self.tenant),
        };
        let unit = Unit::new(self.lane(Kind::Judge, producer), &[], request.encode_to_vec().into());
        let (dispatcher, run) = (self.dispatcher.clone(), self.run.clone());
        async move {
            let found = dispatcher.request_for(run.as_ref(), unit).await?;
            let mut answer = JudgeResponse::decode(found.content).map_err(|error| unreadable(&error))?;
            if found.counted {
                answer.usage = None;
                let producers = answer
                    .ratings
                    .iter_mut()
                    .filter_map(|rating| rating.provenance.as_mut());
                producers.for_each(|provenance| provenance.cache_hit = true);
            }
            Ok(answer)
        }
        .boxed()
    }

    fn encode(&self, encoder: &Encoder, request: EncodeRequest) -> BoxFuture<'static, Result<EncodeResponse, Fault>> {
        let space = encoder.vector_space.clone().unwrap_or_default();
        let lane = encoder_lane(Kind::Encode, &encoder.id, &space, &self.class);
        let unit = encode_unit(lane, self.version(encoder).as_slice(), space, request, &self.tenant);
        let (dispatcher, run) = (self.dispatcher.clone(), self.run.clone());
        async move {
            let found = dispatcher.request_for(run.as_ref(), unit).await?;
            let mut answer = EncodeResponse::decode(found.content).map_err(|error| unreadable(&error))?;
            if found.counted {
                answer.usage = None;
            }
            Ok(answer)
        }
        .boxed()
    }

    fn search(&self, shard: Shard, wanted: Arc<ShardSearch>) -> BoxFuture<'static, Result<ShardHits, EncodingError>> {
        let engine = self.clone();
        async move {
            let refused = |fault: Fault| EncodingError::Refused(Box::new(fault));
            let answer = engine.searched(&shard, &wanted).await.map_err(refused)?;
            let counted = answer.counted;
            let answer = ShardAnswer::decode(answer.content).map_err(|error| refused(unreadable(&error)))?;
            let found = answer.found()?;
            Ok(ShardHits {
                usage: if counted { Usage::default() } else { found.usage },
                ..found
            })
        }
        .boxed()
    }

    fn score(&self, task: ScoreTask) -> BoxFuture<'static, Result<ScoreRecord, ScoreFailure>> {
        if task.dataset.operations(task.vectors.ncols()) < self.least_operations {
            return self.own.score(task);
        }
        let engine = self.clone();
        async move {
            let refused = |fault: Fault| ScoreFailure::Refused(Box::new(fault));
            let lane = Lane {
                kind: Kind::Score,
                of: "vectors".to_owned(),
                class: engine.class.to_string(),
                max_in_flight: 0,
                limit: String::new(),
            };
            if !engine.dispatcher.has_worker(&lane).await {
                tracing::info!(
                    dataset = task.dataset.name(),
                    "no worker takes scores; computing one here"
                );
                return engine.own.score(task).await;
            }
            let answer = engine.scored(lane, &task).await.map_err(refused)?;
            let Some(record) = answer.record else {
                let problem = answer.problem;
                return Err(ScoreFailure::Undefined(ScoreError::Told { problem }));
            };
            let record: ScoreRecord = serde_json::from_slice(&record)
                .map_err(|error| refused(Fault::internal(format!("a worker's score cannot be read: {error}"))))?;
            match task.dataset.own_main_score(task.profile) {
                Some(main) => record.with_main(main).map_err(ScoreFailure::Undefined),
                None => Ok(record),
            }
        }
        .boxed()
    }

    fn scores_in_flight(&self) -> usize {
        self.dispatcher.queue().config().units_in_flight.min(SCORES)
    }

    fn shards_in_flight(&self) -> usize {
        self.dispatcher.queue().config().units_in_flight.min(SHARDS)
    }
}

/// Describes the workers of a run.
pub(super) fn workers_in_words(workers: &[WorkerInfo], class: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let count = |n: usize| {
        if n == 1 {
            "1 worker".to_owned()
        } else {
            format!("{n} workers")
        }
    };
    let (of_version, others): (Vec<_>, Vec<_>) = workers.iter().partition(|worker| worker.version == version);
    let other_class = of_version.iter().filter(|worker| worker.class != class).count();
    let at_once = Kind::ALL.map(|kind| {
        let most: usize = of_version.iter().filter_map(|worker| worker.kinds.get(&kind)).sum();
        format!("{kind} {most}")
    });
    let mut words = format!(
        "{} (units at once: {}); encoders and local generators run in the class {class}",
        count(of_version.len()),
        at_once.join(", ")
    );
    if other_class > 0 {
        words.push_str(&format!(
            "; {} of another class: remote generators only",
            count(other_class)
        ));
    }
    if !others.is_empty() {
        words.push_str(&format!(
            "; not used, because its version is not {version}: {}",
            count(others.len())
        ));
    }
    words
}

/// An answer as the events of a transform service's stream.
fn events(answer: TransformAnswer, found: &UnitAnswer) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::with_capacity(answer.results.len() + 1);
    for mut result in answer.results {
        if found.counted {
            result.usage = None;
            if let Some(provenance) = &mut result.provenance {
                provenance.cache_hit = true;
            }
        }
        events.push(Event::Result(result));
    }
    let usage = if found.counted { Usage::default() } else { answer.usage };
    events.push(Event::End(TransformStreamEnd {
        usage: Some(usage),
        ..TransformStreamEnd::default()
    }));
    events
}
