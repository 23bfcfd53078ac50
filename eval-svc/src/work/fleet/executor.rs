//! The worker's side: executes units with the services of its process.

use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt, TryStreamExt, future::BoxFuture};
use isomer_blobs::BlobStore;
use isomer_fleet::{Address, Executor, Kind, UnitOutput, input_name};
use isomer_proto::{
    common::v1::Provenance,
    encoder::v1::Encoder,
    transform::v1::{Check, MissingReason, OnFingerprintChange, TransformResult, transform_stream_response::Event},
};
use isomer_retention::{Digest, Holder};
use isomer_service_kit::Fault;
use isomer_usage::sum;
use prost::Message;
use uuid::Uuid;

use super::wire::{
    AugmentUnit, EncodeUnit, ExpectedGeneration, ForTenant, GenerationUnit, GenerationWork, JudgeUnit, ScoreUnit,
    ScoreWork, ShardAnswer, ShardUnit, TransformAnswer, TransformUnit, VectorsAnswer, VectorsUnit,
};
use crate::{
    EvalClients, EvalConfig,
    compute::Compute,
    dataset::Scoring,
    metric::Similarity,
    prompts::same_but_prompt,
    task::Profile,
    work::{
        BatchLimits, LocalEngine, Queries, Shard, ShardSearch, WorkEngine,
        encoding::{self, EncodingError},
        score::{self, ScoreFailure},
        shard::{Documents, VectorRows},
    },
};

/// The reason of a fault: the store lacks an input of a unit.
pub(super) const INPUT_MISSING: &str = "INPUT_MISSING";

/// Executes units by calling services. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ServiceExecutor {
    services: LocalEngine,
    clients: EvalClients,
    blobs: BlobStore,
    compute: Compute,
    class: Arc<str>,
    /// The query vectors of the last search, which the next shard usually shares.
    queries: Arc<tokio::sync::Mutex<Option<(Digest, VectorRows)>>>,
}

impl ServiceExecutor {
    /// Calls these services as configured by `config`; `class` names the arithmetic of this
    /// process, and `blobs` contains the inputs of units.
    pub fn new(clients: EvalClients, config: &EvalConfig, class: &str, blobs: BlobStore) -> Self {
        let compute = Compute::default();
        Self {
            services: LocalEngine::new(clients.clone(), BatchLimits::of_encoders(config), compute.clone()),
            clients,
            blobs,
            compute,
            class: class.into(),
            queries: Arc::default(),
        }
    }

    /// The services, called for the tenant of a unit.
    fn services_for(&self, tenant: Option<ForTenant>) -> LocalEngine {
        self.services.of_tenant(&ForTenant::tenant(tenant))
    }

    async fn transform(
        &self,
        holder: Holder,
        unit: TransformUnit,
        dispatch: Option<Uuid>,
    ) -> Result<UnitOutput, Fault> {
        let asked = unit.items.len();
        // Another run must learn the version that is current then.
        let is_lasting = unit.spec.on_fingerprint_change() != OnFingerprintChange::Regenerate;
        let services = self.services_for(unit.tenant).held_by(&holder);
        let mut events = services.transform_for(dispatch, unit.spec, unit.items);
        let mut results: Vec<Option<TransformResult>> = vec![None; asked];
        let mut usage = isomer_proto::common::v1::Usage::default();
        while let Some(event) = events.try_next().await? {
            match event {
                Event::Result(result) => {
                    let place = results.get_mut(result.index as usize);
                    let place = place.ok_or_else(|| {
                        let message = format!("the transform service answered text {} of {asked}", result.index);
                        Fault::internal(message)
                    })?;
                    check_producer(&unit.expected, result.provenance.as_ref())?;
                    *place = Some(result);
                }
                Event::End(end) => {
                    let whole = end.usage.unwrap_or_default();
                    let calls = end.summary.map_or(0, |summary| summary.generator_calls);
                    sum::add(&mut usage, &whole);
                    usage.generator_calls = usage.generator_calls.max(calls);
                }
            }
        }
        let results: Option<Vec<TransformResult>> = results.into_iter().collect();
        let results = results.ok_or_else(|| {
            Fault::internal("the transform service ended its answer before every text had an outcome")
        })?;
        let failed = |result: &TransformResult| result.failed_checks.contains(&Check::GeneratorError.into());
        let cacheable = is_lasting && !results.iter().any(failed);
        let answer = TransformAnswer { results, usage };
        Ok(executed(&answer, cacheable))
    }

    /// No data of such a unit stays in the store, so no reference is recorded.
    async fn augment(&self, unit: AugmentUnit, dispatch: Option<Uuid>) -> Result<UnitOutput, Fault> {
        let services = self.services_for(unit.tenant);
        let answer = services.encode_augmented_for(dispatch, unit.request).await?;
        let space = answer.vector_space.as_ref().map(|space| space.digest.as_str());
        if space != Some(&unit.space) {
            return Err(other_space(space.unwrap_or_default(), &unit.space).hint(
                "give every worker the same encoder, generators and prompts as the process that fills the collection",
            ));
        }
        // If the generator or the encoder failed temporarily, the next attempt may succeed.
        let passes = |reason: MissingReason| {
            matches!(
                reason,
                MissingReason::Budget | MissingReason::Generator | MissingReason::Encoder
            )
        };
        let mut missing = answer.used.iter().flat_map(|used| &used.missing);
        let cacheable = answer.errors.is_empty() && !missing.any(|one| passes(one.reason()));
        Ok(executed(&answer, cacheable))
    }

    async fn judge(&self, holder: Holder, unit: JudgeUnit, dispatch: Option<Uuid>) -> Result<UnitOutput, Fault> {
        let attempts = unit.request.max_attempts.unwrap_or(1);
        let is_lasting = unit.request.on_fingerprint_change() != OnFingerprintChange::Regenerate;
        let services = self.services_for(unit.tenant).held_by(&holder);
        let answer = services.judge_for(dispatch, unit.request).await?;
        let mut cacheable = is_lasting;
        for rating in &answer.ratings {
            check_producer(&unit.expected, rating.provenance.as_ref())?;
            cacheable &= rating.score.is_some() || rating.unreadable >= attempts;
        }
        Ok(executed(&answer, cacheable))
    }

    async fn encode(&self, unit: EncodeUnit) -> Result<UnitOutput, Fault> {
        let prompted = unit.request.prompt.is_some();
        let services = self.services_for(unit.tenant);
        let answer = services.encode(&Default::default(), unit.request).await?;
        let space = answer.vector_space.clone().unwrap_or_default();
        // A run describes the encoder once, and not separately for each of its prompts.
        let same = unit.space.digest == space.digest || prompted && same_but_prompt(&unit.space, &space);
        if !same {
            return Err(other_space(&space.digest, &unit.space.digest));
        }
        let cacheable = answer.errors.is_empty();
        Ok(executed(&answer, cacheable))
    }

    async fn search(&self, unit: ShardUnit, tenant: Option<ForTenant>) -> Result<UnitOutput, Fault> {
        let described = encoding::describe(&self.clients.encoder, &unit.encoder.id).await;
        let described = described.map_err(encoding_fault)?;
        let digest = |encoder: &Encoder| encoder.vector_space.as_ref().map(|space| space.digest.clone());
        let (own, runs) = (digest(&described), digest(&unit.encoder));
        if own != runs {
            return Err(other_space(&own.unwrap_or_default(), &runs.unwrap_or_default()));
        }
        let documents: Documents = read(self.input(&unit.documents).await?)?;
        let queries = self.queries(&unit.queries).await?.matrix().map_err(Fault::internal)?;
        let terms = unit.terms();
        let wanted = ShardSearch {
            queries: Queries::new(queries),
            terms,
            prompt: unit.prompt.map(Into::into),
            encoder: unit.encoder,
        };
        match self
            .services_for(tenant)
            .search(Shard::Given(documents), Arc::new(wanted))
            .await
        {
            Ok(found) => Ok(executed(&ShardAnswer::from(&found), true)),
            Err(error) => {
                let answer = ShardAnswer::failed(error).map_err(|fault| *fault)?;
                Ok(executed(&answer, false))
            }
        }
    }

    async fn score(&self, unit: VectorsUnit) -> Result<UnitOutput, Fault> {
        let scoring = self.input(&unit.scoring).await?;
        let scoring: Scoring = serde_json::from_slice(&scoring)
            .map_err(|error| Fault::internal(format!("the labels of a unit of work cannot be read: {error}")))?;
        let vectors: VectorRows = read(self.input(&unit.vectors).await?)?;
        let vectors = vectors.matrix().map_err(Fault::internal)?;
        let profile: Profile = unit
            .profile
            .parse()
            .map_err(|_| Fault::internal(format!("a unit of work names the profile `{}`", unit.profile)))?;
        let similarity = Similarity::ALL.get(unit.similarity as usize).copied();
        let similarity = similarity.ok_or_else(|| Fault::internal("a unit of work names no similarity"))?;
        let answer = match score::score_of(&self.compute, scoring, vectors, profile, similarity).await {
            Ok(record) => VectorsAnswer {
                record: Some(serde_json::to_vec(&record).map_err(|error| Fault::internal(error.to_string()))?),
                ..VectorsAnswer::default()
            },
            Err(ScoreFailure::Undefined(error)) => VectorsAnswer {
                problem: error.to_string(),
                ..VectorsAnswer::default()
            },
            Err(ScoreFailure::Refused(fault)) => return Err(*fault),
            Err(ScoreFailure::Stopped(message)) => return Err(Fault::internal(message)),
        };
        Ok(executed(&answer, true))
    }

    /// The input of a unit, by its digest.
    async fn input(&self, digest: &[u8]) -> Result<Bytes, Fault> {
        let digest = input_digest(digest)?;
        let found = self.blobs.get(&input_name(&digest)).await;
        let found = found?;
        found.ok_or_else(|| {
            let message = format!("the store has nothing under {}", input_name(&digest));
            Fault::precondition(INPUT_MISSING, message)
                .hint("the run puts it there again; check that the store keeps it")
        })
    }

    async fn queries(&self, digest: &[u8]) -> Result<VectorRows, Fault> {
        let key = input_digest(digest)?;
        let mut last = self.queries.lock().await;
        match &*last {
            Some((known, queries)) if *known == key => Ok(queries.clone()),
            _ => {
                let queries: VectorRows = read(self.input(digest).await?)?;
                *last = Some((key, queries.clone()));
                Ok(queries)
            }
        }
    }
}

fn other_space(own: &str, runs: &str) -> Fault {
    let message = format!("this worker's encoder makes vectors of the space `{own}`, and the run's are of `{runs}`");
    let hint = "give every worker the model files, precision and device of the process that runs the check";
    Fault::precondition("OTHER_VECTOR_SPACE", message).hint(hint)
}

fn encoding_fault(error: EncodingError) -> Fault {
    match error {
        EncodingError::Refused(fault) => *fault,
        EncodingError::Unusable(message) | EncodingError::Text { message, .. } => {
            Fault::internal(format!("the encoder of this worker: {message}"))
        }
    }
}

fn input_digest(bytes: &[u8]) -> Result<Digest, Fault> {
    let bytes: [u8; 32] = bytes
        .try_into()
        .map_err(|_| Fault::internal("a unit of work names its inputs by something other than a digest"))?;
    Ok(Digest::from(bytes))
}

fn executed(answer: &impl Message, cacheable: bool) -> UnitOutput {
    UnitOutput {
        answer: answer.encode_to_vec().into(),
        cacheable,
    }
}

/// Refuses a text produced by another generator or prompt.
fn check_producer(expected: &ExpectedGeneration, provenance: Option<&Provenance>) -> Result<(), Fault> {
    let provenance = provenance.cloned().unwrap_or_default();
    let differs = |what: &str, hint: &str| {
        let message = format!("this worker's {what} is not that of the run ({})", expected.generator);
        Err(Fault::precondition("OTHER_GENERATOR", message).hint(hint))
    };
    if provenance.generator_key != expected.key {
        return differs(
            "generator",
            "configure the generator with the same model and address, or the same model file, on every machine",
        );
    }
    if provenance.prompt_digest != expected.prompt {
        return differs("prompt", "give every worker the same transform.prompts_dir");
    }
    Ok(())
}

fn read<M: Message + Default>(request: Bytes) -> Result<M, Fault> {
    M::decode(request).map_err(|error| Fault::internal(format!("a unit of work cannot be read: {error}")))
}

impl Executor for ServiceExecutor {
    fn class(&self) -> &str {
        &self.class
    }

    fn execute(
        &self,
        unit: &Address,
        kind: Kind,
        request: Bytes,
        dispatch: Option<Uuid>,
    ) -> BoxFuture<'_, Result<UnitOutput, Fault>> {
        let holder = Holder::Unit(unit.digest());
        async move {
            match kind {
                Kind::Transform => match read::<GenerationUnit>(request)?.work {
                    Some(GenerationWork::Transform(unit)) => self.transform(holder, unit, dispatch).await,
                    Some(GenerationWork::Augment(unit)) => self.augment(unit, dispatch).await,
                    None => Err(Fault::internal("a unit of the lane transform asks for nothing")),
                },
                Kind::Judge => self.judge(holder, read(request)?, dispatch).await,
                Kind::Encode => self.encode(read(request)?).await,
                Kind::Score => {
                    let ScoreUnit { work, tenant } = read(request)?;
                    match work {
                        Some(ScoreWork::Shard(unit)) => self.search(unit, tenant).await,
                        Some(ScoreWork::Vectors(unit)) => self.score(unit).await,
                        None => Err(Fault::internal("a unit of the lane score asks for nothing")),
                    }
                }
            }
        }
        .boxed()
    }
}
