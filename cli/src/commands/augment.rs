//! The messages for `--augment` and its companion flags.

use std::time::Duration;

use isomer_models::ModelKind;
use isomer_proto::transform::v1::{
    AugmentationMode, AugmentationPooling, AugmentationSpec, PartialFailurePolicy, VariantSource,
};

use super::transform::catalogue::{catalogue, named};
use isomer_transformations::wire;

use crate::{
    args::{AugmentArgs, AugmentModeArg},
    connect::Connection,
    exit::Failure,
    progress::Display,
};

impl AugmentArgs {
    /// Whether vectors should be augmented.
    pub(super) fn wanted(&self) -> bool {
        !self.augment.is_empty()
    }

    /// Checks that every transformation exists, before anything is loaded. `other`: --generator and
    /// --seed also have another use.
    pub(super) fn check(&self, other: bool) -> Result<(), Failure> {
        if !self.wanted() && !other && !self.generators.is_empty() {
            return Err(Failure::usage("--generator: nothing is generated without --augment"));
        }
        self.augment
            .iter()
            .try_for_each(|name| named("--augment", name).map(drop))?;
        self.budget().map(drop)
    }

    pub(super) fn pooling(&self) -> AugmentationPooling {
        self.pooling.unwrap_or(AugmentationPooling::Mean)
    }

    /// The sources in the order of the flags, generator by generator within a transformation. A
    /// transformation that needs no generator is one source, regardless of the number of
    /// generators. Local generators are fetched here, with progress.
    pub(super) async fn spec(&self, connection: &Connection, display: &Display) -> Result<AugmentationSpec, Failure> {
        let catalogue = catalogue(connection).await?;
        let generators: Vec<String> = match self.generators.as_slice() {
            [] => vec![String::new()],
            named => named.to_vec(),
        };
        let mut spec = AugmentationSpec {
            seed: self.seed,
            generation_budget: self.budget()?,
            partial_failure: self.missing_variants.unwrap_or(PartialFailurePolicy::UseArrived).into(),
            mode: self.mode().into(),
            ..AugmentationSpec::default()
        };
        let mut generates = false;
        for name in &self.augment {
            let transformation = wire::message(&named("--augment", name)?);
            let needs_generator = catalogue.iter().any(|info| info.name == *name && info.needs_generator);
            generates |= needs_generator;
            let none = ["none".to_owned()];
            for generator in if needs_generator { generators.as_slice() } else { &none } {
                spec.sources.push(VariantSource {
                    generator_id: generator.clone(),
                    transformation: Some(transformation.clone()),
                });
            }
        }
        for generator in generators.iter().filter(|_| generates) {
            prefetch_generator(connection, generator, display).await?;
        }
        Ok(spec)
    }

    fn mode(&self) -> AugmentationMode {
        match self.augment_mode {
            None => AugmentationMode::Unspecified,
            Some(AugmentModeArg::Always) => AugmentationMode::Always,
            Some(AugmentModeArg::Budget) => AugmentationMode::Budget,
            Some(AugmentModeArg::Cached) => AugmentationMode::Cached,
        }
    }

    fn budget(&self) -> Result<Option<prost_types::Duration>, Failure> {
        let Some(seconds) = self.generation_budget else {
            return Ok(None);
        };
        let budget = Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|budget| !budget.is_zero())
            .and_then(|budget| prost_types::Duration::try_from(budget).ok());
        budget.map(Some).ok_or_else(|| {
            Failure::usage(format!(
                "--generation-budget: {seconds} is not a valid duration; give seconds above 0"
            ))
        })
    }
}

/// Fetches a local generator, with progress, before a service requests it. An empty id selects the
/// default.
pub(super) async fn prefetch_generator(
    connection: &Connection,
    generator: &str,
    display: &Display,
) -> Result<(), Failure> {
    let default = &connection.config.transform.default_generator;
    let spec = if generator.is_empty() { default } else { generator };
    match spec.strip_prefix("local:") {
        Some(id) => connection.prefetch(id, ModelKind::Generator, display).await,
        None => Ok(()),
    }
}
