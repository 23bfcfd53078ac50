//! Checks everything that can be checked before anything is generated.

use std::{collections::HashSet, sync::Arc};

use futures::FutureExt;
use isomer_config::spelling::suggest;
use isomer_service_kit::{Fault, WorkMemory, long_work};
use isomer_transformations::scorable;

use super::{
    Plan, Producers,
    ceiling::Ceiling,
    copies,
    encoders::{self, EncoderChoice},
    forecast::{self, Forecast},
    judge,
    power::{self, DatasetSize, RuleForecasts},
    probe, prompting, rounds, table, transformations,
};
use crate::{
    dataset::{self, Dataset, DatasetError, DatasetText, Draw},
    form,
    gate::{self, Sequential},
    judging::{Judging, Scale},
    locate::Located,
    profile::Figure,
    prompts::variant::{self, PromptVariant},
    run::{
        RunContext, RunError,
        error::invalid,
        record::{RunRequest, SuiteChoice},
    },
    suite::{DatasetSource, DatasetSpec, Suite, Transformation},
    task::TaskType,
};

/// In a request in place of names: none of the suite's variants.
const OFF: &str = "off";

/// Validates a request and plans the run.
pub(crate) async fn prepare(context: &RunContext, request: &RunRequest) -> Result<Plan, RunError> {
    let mut plan = lay_out(context, request, None).await?;
    plan.producers = probe::probe(context, &plan).await?;
    let judging = judging(&plan.suite)?;
    if plan.suite.limits.any() {
        let forecast = forecast::forecast(context, &plan, judging.as_ref()).await?;
        plan.ceiling = forecast::ceiling(plan.suite.limits, &forecast)?;
    }
    if let Some(judging) = judging {
        let field = match request.judge.generator {
            Some(_) => "spec.judge.generator_id",
            None => "spec.suite",
        };
        plan.judge = Some(judge::probe(context, &plan.suite, judging, field).await?);
    }
    if let Some(gate) = &plan.gate {
        let looks = rounds::most_looks(&plan);
        gate::check_texts(gate, looks, |kind, datasets| copies::most_texts(&plan, kind, datasets))?;
        gate::check_items(gate, |d| {
            let dataset = &plan.tables[d].dataset;
            (dataset.task(), dataset.items())
        })?;
    }
    Ok(plan)
}

/// Estimates the usage of a request's run, without generating, encoding or rating anything.
///
/// With `power`, the items are found with which every rule passes an encoder that does not drop,
/// with this probability.
pub(crate) async fn foresee(
    context: &RunContext,
    request: &RunRequest,
    power: Option<f64>,
) -> Result<Forecast, RunError> {
    if power.is_some_and(|power| !(0.05..1.0).contains(&power)) {
        return Err(invalid("power", "should be from 0.05 to below 1, for example 0.8"));
    }
    let plan = lay_out(context, request, None).await?;
    probe::probe(context, &plan).await?;
    let mut forecast = forecast::forecast(context, &plan, judging(&plan.suite)?.as_ref()).await?;
    let forecasts = RuleForecasts::of(&plan);
    if forecasts.is_empty() {
        return Ok(forecast);
    }
    let mut memory = WorkMemory::new();
    let tables = plan.tables.iter();
    let own = tables
        .map(|table| (Arc::clone(&table.dataset), table.group()))
        .collect();
    let whole = match power {
        Some(_) => unlimited(context, &plan.suite, power::MOST_ROWS, &mut memory).await?,
        None => Vec::new(),
    };
    let computed = long_work(move |left| {
        let (own, whole) = (sizes(own), sizes(whole));
        let design = power.and_then(|power| forecasts.design(&whole, power, &left));
        (forecasts.chances(&own, &left), design)
    });
    (forecast.rules, forecast.design) = computed.await.map_err(internal)?;
    Ok(forecast)
}

/// The judge that rates the rewrites, if there is one.
fn judging(suite: &Suite) -> Result<Option<Judging>, RunError> {
    suite.judge.settled().map_err(|set| {
        let message = format!("is missing: {set}; name one with --judge, or as [judge] generator in the suite");
        invalid("spec.judge.generator_id", message)
    })
}

/// Plans a validated request on the first `most` rows of each data set.
pub(crate) async fn lay_out(context: &RunContext, request: &RunRequest, most: Option<usize>) -> Result<Plan, RunError> {
    let (mut suite, suite_digest) = suite(&request.suite)?;
    apply(&mut suite, request)?;
    let judging = judging(&suite)?;
    let choices = encoders::choices(context, &suite, request)?;
    let ids: Vec<String> = choices.iter().map(|choice| choice.name.clone()).collect();
    let baseline = suite
        .baseline
        .as_ref()
        .and_then(|own| ids.iter().position(|id| id == own));
    let transformations = transformations::planned(context, &suite).await?;
    let named: Vec<gate::Named> = transformations
        .iter()
        .map(|planned| gate::Named {
            label: planned.label.clone(),
            name: planned.transformation.name(),
            axis: planned.axis,
        })
        .collect();
    let forms: Vec<gate::EncoderForm> = choices.iter().map(EncoderChoice::form).collect();
    let mut scene = gate::Scene {
        encoders: &ids,
        forms: &forms,
        baseline,
        transformations: &named,
        datasets: None,
        groups: &[],
        rated: judging
            .as_ref()
            .is_some_and(|judging| judging.scales.contains(&Scale::Similarity)),
    };
    let kinds = suite.separation.settled().map(|settled| settled.kinds);
    gate::check_separation(&suite.gate, kinds.as_deref())?;
    // A typo is reported before data sets are fetched; names of data sets can be validated only
    // afterwards.
    gate::bind(&suite.gate, &scene)?;
    let mut memory = WorkMemory::new();
    let concentration = power::concentration(Figure::Total, &power::axes(&transformations), &suite);
    divide(context, &mut suite, concentration).boxed().await?;
    let datasets = datasets(context, &suite, most, &mut memory).await?;
    let loaded: Vec<(String, TaskType)> = datasets
        .iter()
        .map(|(dataset, _)| (dataset.name().to_owned(), dataset.task()))
        .collect();
    let groups: Vec<String> = datasets
        .iter()
        .map(|(dataset, spec)| spec.group_of(dataset.name()))
        .collect();
    scene.datasets = Some(&loaded);
    scene.groups = &groups;
    let gate = gate::bind(&suite.gate, &scene)?;
    let (encoders, variants) = encoders::described(context, choices).await?;
    let (corpus, mut tables, requests) = table::lay_out(datasets);
    if !suite.forms.is_empty() {
        encoders::searched(&suite, &tables)?;
        encoders::whole_corpora(&tables, context.config.shard_documents)?;
    }
    let prompting = prompting::choose(
        &encoders,
        &variants,
        &mut tables,
        &request.prompts,
        &suite.encoder_prompts,
    )?;
    if !suite.prompt_variants.is_empty() {
        prompting::some_effect(&variants, &tables)?;
    }
    let generator = request
        .generator
        .clone()
        .or_else(|| suite.generator.clone())
        .unwrap_or_default();
    let mut plan = Plan {
        _memory: memory,
        generator,
        suite_digest,
        baseline,
        gate,
        judge: None,
        producers: Producers::new(),
        suite,
        encoders,
        variants,
        prompting,
        transformations,
        corpus,
        tables,
        requests,
        ceiling: Ceiling::default(),
    };
    copies::prepare(&mut plan).await?;
    Ok(plan)
}

fn suite(choice: &SuiteChoice) -> Result<(Suite, String), RunError> {
    let (suite, text) = match choice {
        SuiteChoice::Builtin { name } => {
            let text = crate::suite::BUILTIN
                .iter()
                .find(|(known, _)| known == name)
                .map_or("", |(_, text)| text);
            (Suite::builtin(name)?, text)
        }
        SuiteChoice::Toml {
            text,
            file_name,
            base_dir,
        } => {
            let file = if file_name.is_empty() { "suite" } else { file_name };
            (Suite::parse(text, file, base_dir.as_deref())?, text.as_str())
        }
    };
    Ok((suite, blake3::hash(text.as_bytes()).to_hex().to_string()))
}

/// Applies the request's overrides to the suite.
fn apply(suite: &mut Suite, request: &RunRequest) -> Result<(), RunError> {
    suite.gate = std::mem::take(&mut suite.gate).overlaid(&request.gate);
    suite.judge = std::mem::take(&mut suite.judge).overlaid(&request.judge);
    suite.limits = suite.limits.overlaid(&request.limits);
    suite.separation = std::mem::take(&mut suite.separation).overlaid(&request.separation);
    if request.baseline.is_some() {
        suite.baseline.clone_from(&request.baseline);
    }
    if request.forms == [OFF] {
        suite.forms.clear();
    } else if !request.forms.is_empty() {
        suite.forms = form::parse_all(&request.forms)
            .map_err(|(position, message)| invalid(format!("spec.forms[{position}]"), message))?;
    }
    if request.prompt_variants == [OFF] {
        suite.prompt_variants.clear();
    } else if !request.prompt_variants.is_empty() {
        let own = suite.prompt_variants.iter().filter(|one| one.is_given());
        let own: Vec<PromptVariant> = own.cloned().collect();
        suite.prompt_variants = variant::parse_all(&request.prompt_variants, &own)
            .map_err(|(position, message)| invalid(format!("spec.prompt_variants[{position}]"), message))?;
    }
    if !request.seeds.is_empty() {
        let distinct: HashSet<u64> = request.seeds.iter().copied().collect();
        if distinct.len() < request.seeds.len() {
            return Err(invalid(
                "spec.seeds",
                "a seed is named twice; a repeated seed repeats the same texts",
            ));
        }
        suite.seeds.clone_from(&request.seeds);
    }
    if let Some(temperature) = request.temperature {
        if !(0.0..=2.0).contains(&temperature) {
            return Err(invalid(
                "spec.temperature",
                format!("is {temperature}, should be 0 to 2"),
            ));
        }
        suite.temperature = temperature;
    }
    if request.limit.is_some() && request.total_items.is_some() {
        let message = "is given beside limit, the number of rows of each data set; leave one of them out";
        return Err(invalid("spec.total_items", message));
    }
    if let Some(limit) = request.limit {
        if limit == 0 {
            return Err(invalid("spec.limit", "is 0; leave it out to take all rows"));
        }
        suite.total_items = None;
        for dataset in &mut suite.datasets {
            dataset.limit = Some(limit as usize);
        }
    }
    if let Some(total) = request.total_items {
        suite.total_items = Some(total as usize);
    }
    if let Some(total) = suite.total_items.filter(|total| *total < suite.datasets.len()) {
        let message = format!(
            "total_items is {total}, but there are {} data sets; give at least as many",
            suite.datasets.len()
        );
        let field = match request.total_items {
            Some(_) => "spec.total_items",
            None => "spec.suite",
        };
        return Err(invalid(field, message));
    }
    if let Some(seed) = request.sample_seed {
        for dataset in &mut suite.datasets {
            dataset.sample_seed = Some(seed);
        }
    }
    if !request.transformations.is_empty() {
        let mut chosen: Vec<Transformation> = Vec::new();
        for (i, name) in request.transformations.iter().enumerate() {
            let field = format!("spec.transformations[{i}]");
            // A transformation that the suite also names keeps the suite's parameters.
            let own: Vec<Transformation> = suite
                .transformations
                .iter()
                .filter(|t| t.name() == name || t.label() == *name)
                .cloned()
                .collect();
            let found = if own.is_empty() {
                Transformation::named(name)
                    .filter(|named| !named.declaration().gives_several)
                    .into_iter()
                    .collect()
            } else {
                own
            };
            if found.is_empty() {
                let known: Vec<_> = scorable().map(|row| row.name).collect();
                let hint = suggest(name, &known);
                return Err(invalid(field, format!("unknown transformation `{name}`; {hint}")));
            }
            for transformation in found {
                if !chosen.contains(&transformation) {
                    chosen.push(transformation);
                }
            }
        }
        suite.transformations = chosen;
    }
    Ok(())
}

/// Gives each data set its part of the total number of rows, if the suite has one.
async fn divide(context: &RunContext, suite: &mut Suite, concentration: f64) -> Result<(), RunError> {
    let Some(total) = suite.total_items else {
        return Ok(());
    };
    let mut memory = WorkMemory::new();
    let datasets = unlimited(context, suite, total, &mut memory).await?;
    let rows = long_work(move |_| power::divide(total, &sizes(datasets), concentration))
        .await
        .map_err(internal)?;
    for (dataset, rows) in suite.datasets.iter_mut().zip(rows) {
        dataset.limit = Some(rows);
    }
    Ok(())
}

fn internal(fault: Fault) -> RunError {
    RunError::Internal(fault.to_string())
}

/// Data sets with the groups that they belong to.
type DatasetGroups = Vec<(Arc<Dataset>, String)>;

/// The data sets of a suite with up to this many rows, whatever their limits.
async fn unlimited(
    context: &RunContext,
    suite: &Suite,
    most: usize,
    memory: &mut WorkMemory,
) -> Result<DatasetGroups, RunError> {
    let mut suite = suite.clone();
    suite.datasets.iter_mut().for_each(|dataset| dataset.limit = Some(most));
    let datasets = datasets(context, &suite, None, memory).await?;
    let grouped = datasets.into_iter().map(|(dataset, spec)| {
        let group = spec.group_of(dataset.name());
        (dataset, group)
    });
    Ok(grouped.collect())
}

fn sizes(datasets: DatasetGroups) -> Vec<DatasetSize> {
    datasets
        .into_iter()
        .map(|(dataset, group)| DatasetSize::of(&dataset, group))
        .collect()
}

/// Fetches the files of every dataset if necessary and loads them, each dataset on a blocking
/// thread, which reads files and validates rows. One error names all datasets that cannot be
/// fetched.
async fn datasets(
    context: &RunContext,
    suite: &Suite,
    most: Option<usize>,
    memory: &mut WorkMemory,
) -> Result<Vec<(Arc<Dataset>, DatasetSpec)>, RunError> {
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
    let mut loaded: Vec<(Arc<Dataset>, DatasetSpec)> = Vec::with_capacity(located.len());
    let mut bytes = 0;
    for (mut found, spec) in located {
        if suite.gate.sequential == Some(Sequential::Betting) {
            found.options.draw = Draw::OneByOne;
            found.options.limit = found.options.limit.into_iter().chain(most).min();
        }
        let dataset = tokio::task::spawn_blocking(move || dataset::load(found.task, &found.source, &found.options))
            .await?
            .map_err(|source| RunError::Dataset {
                origin: spec.origin.clone(),
                name: spec.called(),
                source,
            })?;
        if let Some((_, other)) = loaded.iter().find(|(known, _)| known.name() == dataset.name()) {
            let message = format!(
                "{} and {} are both called `{}`; give one of them a name of its own",
                other.origin,
                spec.origin,
                dataset.name()
            );
            return Err(invalid("spec.suite", message));
        }
        bytes += planned_bytes(&dataset);
        memory
            .grow_to(bytes)
            .map_err(|fault| RunError::Memory(Box::new(fault)))?;
        loaded.push((Arc::new(dataset), spec.clone()));
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

async fn locate(context: &RunContext, spec: &DatasetSpec) -> Result<Located, DatasetError> {
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
    context.places.locate(spec.wanted(path)).await
}
