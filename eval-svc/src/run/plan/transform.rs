//! The plan of the transform stage: its generator, and the requests that it makes.

use std::collections::BTreeMap;

use isomer_proto::transform::v1::{OnFailure, Sampling, TransformSpec};

use super::{Layout, ceiling::Ceiling};
use crate::{run::wire, separation::Kind, work::Producer};

/// CLSD samples its distractors at this temperature, which does not depend on the suite's.
const DISTRACTOR_TEMPERATURE: f64 = 1.0;

/// The producer of each kind of text, by its description: the label of a transformation, or a kind
/// of changed copies.
pub(crate) type Producers = BTreeMap<String, Producer>;

/// The plan of the transform stage.
#[derive(Debug, Clone, Default)]
pub(crate) struct TransformPlan {
    /// Generator id; empty: the transform service's default.
    pub generator: String,
    /// The producers of the texts; empty until the transform service was queried.
    pub producers: Producers,
    /// The run's limits; unlimited until the forecast.
    pub ceiling: Ceiling,
}

impl TransformPlan {
    /// The specification for the service under one transformation and seed.
    pub(crate) fn spec(&self, layout: &Layout, t: usize, s: usize) -> TransformSpec {
        let (planned, suite) = (&layout.transformations[t], &layout.suite);
        TransformSpec {
            transformation: Some(wire::transformation_of_seed(&planned.transformation, s)),
            generator_id: self.generator_id(planned.needs_generator),
            seed: Some(suite.seeds[s]),
            max_attempts: Some(suite.attempts),
            on_failure: suite.on_failure.into(),
            sampling: Some(Sampling {
                temperature: Some(suite.temperature),
                top_p: Some(suite.top_p),
                max_tokens: None,
                top_k: suite.top_k,
            }),
            retry_identical: Some(suite.retry_identical),
            retry_temperature: Some(suite.retry_temperature),
            guards: suite.guards.into(),
            on_fingerprint_change: suite.on_fingerprint_change.into(),
            prompts: planned.transformation.prompt().map(str::to_owned).into_iter().collect(),
            bypass_cache: false,
            // Draws for a whole run depend on the suite, not on the time of the run, so that a
            // second run finds the same texts.
            run: suite.name.clone(),
        }
    }

    /// The specification of a request for copies of a kind. It depends on as little of the suite as
    /// possible, so that suites share copies.
    pub(crate) fn copy_spec(&self, layout: &Layout, kind: Kind) -> TransformSpec {
        let generator = kind.needs_generator();
        TransformSpec {
            transformation: wire::change_of_meaning(kind),
            generator_id: self.generator_id(generator),
            seed: Some(layout.first_seed()),
            max_attempts: Some(layout.suite.attempts),
            on_failure: OnFailure::Drop.into(),
            sampling: generator.then(|| Sampling {
                temperature: Some(DISTRACTOR_TEMPERATURE),
                ..Sampling::default()
            }),
            on_fingerprint_change: layout.suite.on_fingerprint_change.into(),
            ..TransformSpec::default()
        }
    }

    fn generator_id(&self, needs_generator: bool) -> String {
        if needs_generator {
            self.generator.clone()
        } else {
            String::new()
        }
    }
}
