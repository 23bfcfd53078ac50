//! The worker's side: executes units with the services of its process.

use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt, TryStreamExt, future::BoxFuture};
use isomer_fleet::{Address, Executed, Executor, Kind};
use isomer_proto::{
    common::v1::Provenance,
    transform::v1::{Check, TransformResult, transform_stream_response::Event},
};
use isomer_retention::Holder;
use isomer_service_kit::Fault;
use isomer_usage::sum;
use prost::Message;
use uuid::Uuid;

use super::{
    LocalEngine, WorkEngine,
    wire::{EncodeUnit, Expected, JudgeUnit, TransformUnit, Transformed},
};
use crate::{EvalClients, prompts::same_but_prompt};

/// Executes units by calling services. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ServiceExecutor {
    services: LocalEngine,
    class: Arc<str>,
}

impl ServiceExecutor {
    /// Calls these services; `class` names the arithmetic of this process.
    pub fn new(clients: EvalClients, class: &str) -> Self {
        Self {
            services: LocalEngine::new(clients),
            class: class.into(),
        }
    }

    async fn transform(&self, holder: Holder, unit: TransformUnit, dispatch: Option<Uuid>) -> Result<Executed, Fault> {
        let asked = unit.items.len();
        let services = self.services.held_by(&holder);
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
        let cacheable = !results.iter().any(failed);
        let answer = Transformed { results, usage };
        Ok(executed(&answer, cacheable))
    }

    async fn judge(&self, holder: Holder, unit: JudgeUnit, dispatch: Option<Uuid>) -> Result<Executed, Fault> {
        let attempts = unit.request.max_attempts.unwrap_or(1);
        let services = self.services.held_by(&holder);
        let answer = services.judge_for(dispatch, unit.request).await?;
        let mut cacheable = true;
        for rating in &answer.ratings {
            check_producer(&unit.expected, rating.provenance.as_ref())?;
            cacheable &= rating.score.is_some() || rating.unreadable >= attempts;
        }
        Ok(executed(&answer, cacheable))
    }

    async fn encode(&self, unit: EncodeUnit) -> Result<Executed, Fault> {
        let prompted = unit.request.prompt.is_some();
        let answer = self.services.encode(&Default::default(), unit.request).await?;
        let space = answer.vector_space.clone().unwrap_or_default();
        let same = if prompted {
            same_but_prompt(&unit.space, &space)
        } else {
            unit.space.digest == space.digest
        };
        if !same {
            let message = format!(
                "this worker's encoder makes vectors of the space `{}`, and the run's are of `{}`",
                space.digest, unit.space.digest
            );
            let hint = "give every worker the model files, precision and device of the process that runs the check";
            return Err(Fault::precondition("OTHER_VECTOR_SPACE", message).hint(hint));
        }
        let cacheable = answer.errors.is_empty();
        Ok(executed(&answer, cacheable))
    }
}

fn executed(answer: &impl Message, cacheable: bool) -> Executed {
    Executed {
        answer: answer.encode_to_vec().into(),
        cacheable,
    }
}

/// Refuses a text that another generator or prompt made.
fn check_producer(expected: &Expected, provenance: Option<&Provenance>) -> Result<(), Fault> {
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
    ) -> BoxFuture<'_, Result<Executed, Fault>> {
        let holder = Holder::Unit(unit.digest());
        async move {
            match kind {
                Kind::Transform => self.transform(holder, read(request)?, dispatch).await,
                Kind::Judge => self.judge(holder, read(request)?, dispatch).await,
                Kind::Encode => self.encode(read(request)?).await,
            }
        }
        .boxed()
    }
}
