//! Reading of score requests.

use std::path::Path;

use isomer_proto::{
    common::v1::Similarity as ProtoSimilarity,
    eval::v1::{self as proto, DatasetRef, MetricProfile, ScoreRequest, TaskOptions, dataset_ref},
};
use isomer_service_kit::Fault;

use crate::{
    config::EvalConfig,
    dataset::{InlineFile, LoadOptions, Source},
    error::EvalError,
    metric::Similarity,
    task::{Profile, TaskType},
};

/// The task and profile of a request; unknown numbers are refused, tasks not served yet are unimplemented.
pub(super) fn task_and_profile(request: &ScoreRequest) -> Result<(TaskType, Profile), Fault> {
    let names = || TaskType::ALL.map(TaskType::name).join(", ");
    let task = proto::TaskType::try_from(request.task_type)
        .ok()
        .and_then(task_from_proto)
        .ok_or_else(|| Fault::invalid("task_type", "no known task type").mend(format!("give one of {}", names())))?;
    let profile = match MetricProfile::try_from(request.profile) {
        Ok(MetricProfile::Unspecified | MetricProfile::MtebV2) => Profile::MtebV2,
        Ok(MetricProfile::MtebV1) => Profile::MtebV1,
        Ok(MetricProfile::Hteb) => Profile::Hteb,
        Err(_) => return Err(Fault::invalid("profile", "no known metric profile").mend("mteb-v2, mteb-v1 or hteb")),
    };
    if task.main_score(profile).is_none() {
        return Err(Fault::unimplemented(format!("{task} is not served yet under {profile}")).field("task_type"));
    }
    Ok((task, profile))
}

fn task_from_proto(task: proto::TaskType) -> Option<TaskType> {
    TaskType::ALL.into_iter().find(|ours| task_to_proto(*ours) == task)
}

/// The wire's name of a task.
pub(super) fn task_to_proto(task: TaskType) -> proto::TaskType {
    match task {
        TaskType::Sts => proto::TaskType::Sts,
        TaskType::PairClassification => proto::TaskType::PairClassification,
        TaskType::Classification => proto::TaskType::Classification,
        TaskType::Clustering => proto::TaskType::Clustering,
        TaskType::Reranking => proto::TaskType::Reranking,
        TaskType::Retrieval => proto::TaskType::Retrieval,
        TaskType::Summarisation => proto::TaskType::Summarisation,
        TaskType::Bitext => proto::TaskType::Bitext,
        TaskType::Clsd => proto::TaskType::Clsd,
        TaskType::GradedRanking => proto::TaskType::GradedRanking,
    }
}

/// How a request's vectors are to be compared; cosine where it does not say.
pub(super) fn similarity(number: i32) -> Result<Similarity, Fault> {
    match ProtoSimilarity::try_from(number) {
        Ok(ProtoSimilarity::Unspecified | ProtoSimilarity::Cosine) => Ok(Similarity::Cosine),
        Ok(ProtoSimilarity::Dot) => Ok(Similarity::Dot),
        Ok(ProtoSimilarity::Euclidean) => Ok(Similarity::Euclidean),
        Ok(ProtoSimilarity::Manhattan) => Ok(Similarity::Manhattan),
        Err(_) => Err(Fault::invalid("similarity", "no known similarity").mend("cosine, dot, euclidean or manhattan")),
    }
}

/// The options of a request, checked.
pub(super) fn options(options: Option<TaskOptions>) -> Result<TaskOptions, Fault> {
    let options = options.unwrap_or_default();
    if options.samples_per_label == Some(0) {
        return Err(Fault::invalid("options.samples_per_label", "is 0").mend("leave it out for 8"));
    }
    match options.max_fraction {
        Some(share) if !(share > 0.0 && share <= 1.0) => {
            Err(Fault::invalid("options.max_fraction", format!("{share} is no share")).mend("give a number in (0, 1]"))
        }
        _ => Ok(options),
    }
}

/// Where a request's dataset lies and which part of it is wanted.
pub(super) fn dataset(
    config: &EvalConfig,
    dataset: Option<DatasetRef>,
    limit: Option<u32>,
    task: &TaskOptions,
) -> Result<(Source, LoadOptions), Fault> {
    let missing = || Fault::invalid("dataset.dataset", "no dataset is named").mend("give builtin, path or inline");
    let DatasetRef {
        source,
        split,
        language,
        name,
    } = dataset.ok_or_else(missing)?;
    let source = match source.ok_or_else(missing)? {
        dataset_ref::Source::Builtin(name) => Source::Builtin(name),
        dataset_ref::Source::Path(path) => Source::Path(config.data_path(Path::new(&path)).map_err(EvalError::from)?),
        dataset_ref::Source::Inline(files) => {
            let files = files.files.into_iter().map(|f| InlineFile {
                path: f.path,
                content: f.content,
            });
            Source::Inline(files.collect())
        }
        dataset_ref::Source::HubId(_) => {
            return Err(Fault::unimplemented("datasets are not fetched from a hub yet").field("dataset.dataset.hub_id"));
        }
    };
    let some = |text: String| (!text.is_empty()).then_some(text);
    let options = LoadOptions {
        split: some(split).unwrap_or_else(|| LoadOptions::default().split),
        language: some(language),
        limit: limit.map(|limit| limit as usize),
        name: some(name),
        samples_per_label: task.samples_per_label.map(|count| count as usize),
        legacy_clustering: task.legacy_clustering,
        max_fraction: task.max_fraction,
        ..LoadOptions::default()
    };
    Ok((source, options))
}
