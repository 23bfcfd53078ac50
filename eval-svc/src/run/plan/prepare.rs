//! Checks everything that can be checked before anything is generated.

use futures::FutureExt;
use isomer_service_kit::{Fault, WorkMemory, long_work};

use super::{
    Layout, Plan, RunManifest, StagePlans, copies,
    datasets::{self, LoadedDataset},
    encoders::{self, EncoderChoice},
    forecast::{self, Forecast},
    judge,
    power::{self, DatasetSize, RuleForecasts},
    probe, prompts, rounds, suite, table,
    transform::TransformPlan,
    transformations,
};
use crate::{
    gate::{self, DatasetTask},
    judging::{JudgeSettings, Scale},
    profile::Figure,
    run::{RunContext, RunError, error::invalid, record::RunRequest},
    suite::Suite,
};

/// Validates a request and plans the run.
pub(crate) async fn prepare(context: &RunContext, request: &RunRequest) -> Result<Plan, RunError> {
    let mut plan = lay_out(context, request, None).await?;
    plan.stages.transform.producers = probe::probe(context, &plan.layout, &plan.stages.transform).await?;
    let suite = &plan.layout.suite;
    let judging = judging(suite)?;
    if suite.limits.any() {
        let forecast = forecast::forecast(context, &plan, judging.as_ref()).await?;
        plan.stages.transform.ceiling = forecast::ceiling(suite.limits, &forecast)?;
    }
    if let Some(judging) = judging {
        let field = match request.judge.generator {
            Some(_) => "spec.judge.generator_id",
            None => "spec.suite",
        };
        plan.stages.judge = Some(judge::probe(context, suite, judging, field).await?);
    }
    if let Some(gate) = &plan.stages.gate {
        let layout = &plan.layout;
        let looks = rounds::most_looks(layout, gate);
        gate::check_texts(gate, looks, |kind, datasets| copies::most_texts(layout, kind, datasets))?;
        gate::check_items(gate, |d| {
            let dataset = &layout.tables[d].dataset;
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
    let layout = &plan.layout;
    probe::probe(context, layout, &plan.stages.transform).await?;
    let mut forecast = forecast::forecast(context, &plan, judging(&layout.suite)?.as_ref()).await?;
    let forecasts = RuleForecasts::of(&plan);
    if forecasts.is_empty() {
        return Ok(forecast);
    }
    let mut memory = WorkMemory::new();
    let own = layout.tables.iter().map(table::Table::loaded).collect();
    let whole = match power {
        Some(_) => datasets::load_rows(context, &layout.suite, power::MOST_ROWS, &mut memory).await?,
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
fn judging(suite: &Suite) -> Result<Option<JudgeSettings>, RunError> {
    suite.judge.settled().map_err(|set| {
        let message = format!("is missing: {set}; name one with --judge, or as [judge] generator in the suite");
        invalid("spec.judge.generator_id", message)
    })
}

/// Plans a validated request on the first `most` rows of each data set.
pub(crate) async fn lay_out(context: &RunContext, request: &RunRequest, most: Option<usize>) -> Result<Plan, RunError> {
    let (mut suite, suite_digest) = suite::requested(request)?;
    let judging = judging(&suite)?;
    let choices = encoders::choices(context, &suite, request)?;
    let ids: Vec<String> = choices.iter().map(|choice| choice.name.clone()).collect();
    let baseline = suite
        .baseline
        .as_ref()
        .and_then(|own| ids.iter().position(|id| id == own));
    let transformations = transformations::planned(context, &suite).await?;
    let named: Vec<gate::RunTransformation> = transformations
        .iter()
        .map(|planned| gate::RunTransformation {
            label: planned.label.clone(),
            name: planned.transformation.name(),
            axis: planned.axis,
        })
        .collect();
    let forms: Vec<gate::EncoderForm> = choices.iter().map(EncoderChoice::form).collect();
    let mut subjects = gate::RunSubjects {
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
    gate::bind(&suite.gate, &subjects)?;
    let mut memory = WorkMemory::new();
    let concentration = power::concentration(Figure::Total, &power::axes(&transformations), &suite);
    divide(context, &mut suite, concentration).boxed().await?;
    let datasets = datasets::load(context, &suite, most, &mut memory).await?;
    let tasks: Vec<DatasetTask> = datasets
        .iter()
        .map(|one| DatasetTask {
            name: one.dataset.name().to_owned(),
            task: one.dataset.task(),
        })
        .collect();
    let groups: Vec<String> = datasets.iter().map(LoadedDataset::group).collect();
    subjects.datasets = Some(&tasks);
    subjects.groups = &groups;
    let gate = gate::bind(&suite.gate, &subjects)?;
    let mut encoders = encoders::described(context, choices).await?;
    let (corpus, mut tables, requests) = table::lay_out(datasets);
    if !suite.forms.is_empty() {
        encoders::searched(&suite, &tables)?;
        encoders::whole_corpora(&tables, context.config.shard_documents)?;
    }
    prompts::choose(&mut encoders, &mut tables, &request.prompts, &suite.encoder_prompts)?;
    if !suite.prompt_variants.is_empty() {
        prompts::some_effect(&encoders, &tables)?;
    }
    let generator = request
        .generator
        .clone()
        .or_else(|| suite.generator.clone())
        .unwrap_or_default();
    let mut layout = Layout {
        suite,
        transformations,
        corpus,
        tables,
        requests,
    };
    copies::prepare(&mut layout).await?;
    Ok(Plan {
        _memory: memory,
        layout,
        encoders,
        stages: StagePlans {
            transform: TransformPlan {
                generator: generator.clone(),
                ..TransformPlan::default()
            },
            judge: None,
            gate,
        },
        manifest: RunManifest {
            suite_digest,
            generator,
            baseline,
        },
    })
}

/// Gives each data set its part of the total number of rows, if the suite has one.
async fn divide(context: &RunContext, suite: &mut Suite, concentration: f64) -> Result<(), RunError> {
    let Some(total) = suite.total_items else {
        return Ok(());
    };
    let mut memory = WorkMemory::new();
    let datasets = datasets::load_rows(context, suite, total, &mut memory).await?;
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

fn sizes(datasets: Vec<LoadedDataset>) -> Vec<DatasetSize> {
    let size = |one: LoadedDataset| DatasetSize::of(&one.dataset, one.group());
    datasets.into_iter().map(size).collect()
}
