//! Reads and validates an augmentation spec: the sources, the time budget, and the treatment of
//! missing variants.

use std::{sync::Arc, time::Duration};

use isomer_proto::{
    encoder::v1::Priority,
    transform::v1::{
        self as proto, AugmentationSpec, OnFailure, PartialFailurePolicy, SearchEvidence, TextItem, TransformSpec,
        VariantSource,
    },
};
use isomer_service_kit::{Fault, choice};
use isomer_transformations::{Transformation, wire};
use serde_json::json;

use super::mode::{self, Mode};
use crate::{
    engine::{CacheAccess, Caller, Engine, Job, Plan, TransformationRequest},
    error::TransformError,
    service::convert,
};

/// Maximum number of sources of a request. The paper stops at 3, and each source costs one
/// generation and one encoding per text.
pub const MAX_SOURCES: usize = 8;

/// One source of variants, ready for use.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) plan: Arc<Plan>,
    pub(crate) jobs: Vec<Job>,
}

impl Source {
    /// A readable name: transformation, prompt and generator.
    fn name(&self) -> String {
        let mut name = self.plan.kind().name.to_owned();
        if let Some(generator) = &self.plan.generator {
            name.push_str(&format!(" by {}", generator.identity().id));
        }
        name
    }

    /// Everything that a variant depends on besides its text.
    fn identity(&self) -> String {
        let plan = &self.plan;
        let prompt = plan.prompt_digest();
        let generator = plan
            .generator
            .as_ref()
            .map_or("", |generator| &generator.identity().cache_key);
        // Included only if it is set, so that the digests of older spaces stay the same.
        let top_k = plan.top_k.map(|most| format!("|top_k={most}")).unwrap_or_default();
        format!(
            "{}|{prompt}|{generator}|{}|{}|{}|{:?}|{}{top_k}",
            identity(&plan.requested.transformation),
            plan.seed,
            plan.temperature,
            plan.top_p,
            plan.max_tokens,
            plan.max_attempts
        )
    }
}

/// A transformation with its parameters, as vector spaces name it. Digests of stored spaces depend
/// on it. It is therefore the same for both forms of a message, and unchanged from the time when
/// there was only one form.
fn identity(transformation: &Transformation) -> String {
    match wire::message(transformation).kind {
        Some(kind) => format!("Some(Transformation {{ kind: Some({kind:?}) }})"),
        None => format!("{}{}", transformation.name(), json!(transformation.given())),
    }
}

#[derive(Debug)]
pub(crate) struct Augmentation {
    pub(crate) sources: Vec<Source>,
    /// Time limit of the generation.
    pub(crate) budget: Option<Duration>,
    /// Whether a missing variant fails the request.
    pub(crate) fail: bool,
    /// For each item, the reason why it is not augmented, if any; empty if all items are augmented.
    pub(crate) plain: Vec<Option<String>>,
}

/// Names and identities of the sources, which outlive the sources themselves.
#[derive(Debug)]
pub(crate) struct Sources {
    /// Name and identity of each source.
    pub(super) each: Vec<(String, String)>,
    /// Whether a missing variant fails the request.
    pub(super) fail: bool,
}

impl Sources {
    pub(super) fn is_empty(&self) -> bool {
        self.each.is_empty()
    }
}

impl Augmentation {
    pub(super) fn identity(&self) -> Sources {
        Sources {
            each: self
                .sources
                .iter()
                .map(|source| (source.name(), source.identity()))
                .collect(),
            fail: self.fail,
        }
    }
}

/// The parts of a spec that can be validated without a generator, so that an invalid request is
/// refused immediately.
#[derive(Debug)]
pub(crate) struct UnresolvedSpec {
    sources: Vec<VariantSource>,
    spec: AugmentationSpec,
    budget: Option<Duration>,
    fail: bool,
    mode: Mode,
    priority: Priority,
}

/// A request with at most this many texts is interactive; one with more is bulk work.
const INTERACTIVE_TEXTS: usize = 32;

fn invalid(field: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Fault {
    TransformError::invalid(field, message, hint).into()
}

/// Reads the spec of a request with `texts` texts.
pub(crate) fn read(spec: Option<AugmentationSpec>, texts: usize) -> Result<UnresolvedSpec, Fault> {
    let mut spec = spec.unwrap_or_default();
    let mode = mode::read(&spec)?;
    let priority = choice("spec.priority", spec.priority)?.unwrap_or(if texts > INTERACTIVE_TEXTS {
        Priority::Batch
    } else {
        Priority::Interactive
    });
    let mut sources = std::mem::take(&mut spec.sources);
    if sources.len() > MAX_SOURCES {
        return Err(invalid(
            "spec.sources",
            format!("{} sources, more than the limit of {MAX_SOURCES}", sources.len()),
            "leave some out",
        ));
    }
    match spec.k {
        Some(k) if k as usize > sources.len() => {
            return Err(invalid(
                "spec.k",
                format!("{k} variants from {} sources", sources.len()),
                format!("give 0 to {}, or leave k out to use all", sources.len()),
            ));
        }
        Some(k) => sources.truncate(k as usize),
        None if sources.is_empty() => {
            return Err(invalid(
                "spec.sources",
                "there are no sources of variants",
                "name at least one transformation (and its generator), or set k to 0 for plain vectors",
            ));
        }
        None => {}
    }
    for (index, source) in sources.iter().enumerate() {
        let field = format!("spec.sources[{index}].transformation");
        let requested = TransformationRequest::read(source.transformation.as_ref(), &field)?;
        if !requested.transformation.declaration().augments {
            return Err(invalid(
                field,
                "it gives several texts, or texts with errors or of another meaning, and cannot be pooled",
                "choose one that gives a single text of the same meaning, e.g. paraphrase, summarisation or keywords",
            ));
        }
    }
    let budget = match spec.generation_budget.take() {
        None => None,
        Some(budget) => match Duration::try_from(budget) {
            Ok(budget) if !budget.is_zero() => Some(budget),
            _ => {
                return Err(invalid(
                    "spec.generation_budget",
                    "it is not a time above 0",
                    "give e.g. 0.2s, or leave it out to wait for every variant",
                ));
            }
        },
    };
    let policy = choice("spec.partial_failure", spec.partial_failure)?;
    let fail = policy == Some(PartialFailurePolicy::Fail);
    Ok(UnresolvedSpec {
        sources,
        spec,
        budget,
        fail,
        mode,
        priority,
    })
}

impl UnresolvedSpec {
    /// Whether the request needs search evidence to augment anything.
    pub(crate) fn is_cascade(&self) -> bool {
        matches!(self.mode, Mode::Cascade(_))
    }

    /// Whether cached variants may be used.
    pub(crate) fn uses_caches(&self) -> bool {
        !self.spec.bypass_cache
    }

    /// The priority of the request's calls.
    pub(crate) fn priority(&self) -> Priority {
        self.priority
    }

    /// Plans each source: finds its prompt and its generator, and loads a local generator.
    pub(crate) async fn plan(
        self,
        engine: &Engine,
        caller: &Caller,
        items: &[TextItem],
        evidence: &[SearchEvidence],
    ) -> Result<Augmentation, Fault> {
        if items.is_empty() {
            return Err(invalid("items", "there are no texts", "send at least one"));
        }
        let plain = self.mode.plain(evidence, items.len())?;
        let augmented = |index: u32| !matches!(plain.get(index as usize), Some(Some(_)));
        let mut sources = Vec::with_capacity(self.sources.len());
        for (index, source) in self.sources.into_iter().enumerate() {
            let spec = TransformSpec {
                transformation: source.transformation,
                generator_id: source.generator_id,
                seed: self.spec.seed,
                max_attempts: self.spec.max_attempts,
                // A failed variant is missing, because the original is already in the pool.
                on_failure: OnFailure::Drop.into(),
                sampling: self.spec.sampling,
                bypass_cache: self.spec.bypass_cache,
                ..TransformSpec::default()
            };
            let planned = engine.plan(caller.clone(), Some(spec), items.to_vec()).await;
            let (mut plan, mut jobs) = planned.map_err(|error| of_source(error.into(), index))?;
            if self.mode == Mode::Cached {
                plan.access = CacheAccess::ReadOnly;
            }
            plan.priority = convert::priority(self.priority.into())?;
            jobs.retain_mut(|job| {
                job.members.retain(|member| augmented(member.index));
                !job.members.is_empty()
            });
            sources.push(Source {
                plan: Arc::new(plan),
                jobs,
            });
        }
        Ok(Augmentation {
            sources,
            budget: self.budget,
            fail: self.fail,
            plain,
        })
    }
}

/// Turns an error of a transformation's spec into an error of its source. Seed, sampling and
/// attempts are fields of the augmentation request itself.
fn of_source(mut fault: Fault, index: usize) -> Fault {
    if let Some(field) = fault.field.take() {
        let own = match field.strip_prefix("spec.") {
            Some(rest) if rest.starts_with("transformation") || rest.starts_with("generator_id") => {
                format!("spec.sources[{index}].{rest}")
            }
            _ => field.clone(),
        };
        // The message of a field error begins with the field.
        fault.message = fault
            .message
            .strip_prefix(&field)
            .map_or_else(|| fault.message.clone(), |rest| format!("{own}{rest}"));
        fault.field = Some(own);
    }
    fault
}

/// Whether a transformation's result contains a text.
pub(super) fn is_there(result: &proto::TransformResult) -> bool {
    matches!(result.outcome(), proto::Outcome::Ok | proto::Outcome::Recovered)
}
