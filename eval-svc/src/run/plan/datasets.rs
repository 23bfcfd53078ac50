//! Loads the data sets of a suite.

use std::sync::Arc;

use isomer_proto::eval::v1::GateSequential;
use isomer_service_kit::WorkMemory;
use isomer_transformations::percent;

use crate::{
    dataset::{self, Dataset, DatasetError, DatasetText, Draw},
    locate::DatasetLocation,
    run::{RunContext, RunError, error::invalid},
    suite::{DatasetSource, DatasetSpec, Suite},
};

/// A data set with the suite's entry for it.
#[derive(Debug, Clone)]
pub(crate) struct LoadedDataset {
    pub dataset: Arc<Dataset>,
    pub spec: DatasetSpec,
}

impl LoadedDataset {
    /// The group of data sets that it belongs to.
    pub(crate) fn group(&self) -> String {
        self.spec.group_of(self.dataset.name())
    }
}

/// The data sets of a suite with up to this many rows, whatever their limits.
pub(crate) async fn load_rows(
    context: &RunContext,
    suite: &Suite,
    most: usize,
    memory: &mut WorkMemory,
) -> Result<Vec<LoadedDataset>, RunError> {
    let mut suite = suite.clone();
    suite.datasets.iter_mut().for_each(|dataset| dataset.limit = Some(most));
    load(context, &suite, None, memory).await
}

/// Fetches the files of every dataset if necessary and loads them, each dataset on a blocking
/// thread, which reads files and validates rows. One error names all datasets that cannot be
/// fetched.
pub(crate) async fn load(
    context: &RunContext,
    suite: &Suite,
    most: Option<usize>,
    memory: &mut WorkMemory,
) -> Result<Vec<LoadedDataset>, RunError> {
    let mut located = Vec::with_capacity(suite.datasets.len());
    let mut missing = Vec::new();
    for spec in &suite.datasets {
        match locate(context, spec).await {
            Ok(found) => located.push((found, spec)),
            Err(error) => missing.push((spec, error)),
        }
    }
    let all: Vec<String> = missing
        .iter()
        .map(|(spec, _)| format!("{}: {}", spec.origin, spec.called()))
        .collect();
    if let Some((spec, source)) = missing.into_iter().next() {
        return Err(if all.len() == 1 {
            let (origin, name) = (spec.origin.clone(), spec.called());
            RunError::Dataset { origin, name, source }
        } else {
            RunError::Datasets {
                of: suite.datasets.len(),
                missing: all,
                source,
            }
        });
    }
    let mut loaded: Vec<LoadedDataset> = Vec::with_capacity(located.len());
    let mut bytes = 0;
    for (mut found, spec) in located {
        if suite.gate.sequential == Some(GateSequential::Betting) {
            found.options.draw = Draw::OneByOne;
            found.options.limit = found.options.limit.into_iter().chain(most).min();
        }
        let mut dataset = tokio::task::spawn_blocking(move || dataset::load(found.task, &found.source, &found.options))
            .await?
            .map_err(|source| RunError::Dataset {
                origin: spec.origin.clone(),
                name: spec.called(),
                source,
            })?;
        if let Some(other) = loaded.iter().find(|known| known.dataset.name() == dataset.name()) {
            let message = format!(
                "{} and {} are both called `{}`; give one of them a name of its own",
                other.spec.origin,
                spec.origin,
                dataset.name()
            );
            return Err(invalid("spec.suite", message));
        }
        if let Some(other) = loaded.iter().find(|known| known.dataset.digest() == dataset.digest()) {
            let place = |spec: &DatasetSpec, dataset: &Dataset| format!("{}: `{}`", spec.origin, dataset.name());
            return Err(RunError::DatasetTwice {
                first: place(&other.spec, &other.dataset),
                second: place(spec, &dataset),
            });
        }
        if let Some(leak) = &spec.leak {
            let share = percent(leak.share);
            dataset.note(format!("the suite allows leaks of up to {share}: {}", leak.reason));
        }
        bytes += planned_bytes(&dataset);
        memory
            .grow_to(bytes)
            .map_err(|fault| RunError::Memory(Box::new(fault)))?;
        loaded.push(LoadedDataset {
            dataset: Arc::new(dataset),
            spec: spec.clone(),
        });
    }
    Ok(loaded)
}

/// Approximate memory of a plan for a data set, in bytes: its texts, and their records in the data
/// set, in the corpus and in the tables.
fn planned_bytes(dataset: &Dataset) -> usize {
    const RECORDS: usize = 256;
    let of_text = |text: &DatasetText| text.text.len() + RECORDS;
    dataset.texts().iter().map(of_text).sum()
}

async fn locate(context: &RunContext, spec: &DatasetSpec) -> Result<DatasetLocation, DatasetError> {
    let path = match &spec.source {
        DatasetSource::Path(path) => {
            let permitted = context.config.data_path(path)?;
            if !permitted.path.exists() {
                return Err(DatasetError::NotFound {
                    path: permitted.path.display().to_string(),
                });
            }
            Some(permitted)
        }
        _ => None,
    };
    context.locator.locate(spec.wanted(path)).await
}
