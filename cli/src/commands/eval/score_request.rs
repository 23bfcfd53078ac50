//! The common parts of all scores of `isomer eval`: data sets and request.

use std::{collections::HashMap, path::Path};

use isomer_eval::{dataset::LoadOptions, locate::DatasetRequest};
use isomer_proto::{
    ProtoEnum,
    eval::v1::{
        DatasetInput, DatasetPivot, DatasetRef, EncoderPrompt, MetricProfile, ScoreRequest, SearchIndex, TaskOptions,
        TaskType, dataset_ref::Source, score_request, search_index,
    },
};

use crate::{args::EvalArgs, connect::Connection, exit::Failure, progress::Display};

/// A data set of the command, in one language.
pub(in crate::commands) struct Target {
    /// The name given on the command line.
    pub(in crate::commands) data: String,
    /// The subset.
    pub(in crate::commands) language: Option<String>,
    /// The name in output.
    pub(in crate::commands) name: String,
}

/// The common settings of all scores of the command.
pub(in crate::commands) struct ScoreRequestBuilder<'a> {
    pub(in crate::commands) connection: &'a Connection,
    pub(in crate::commands) args: &'a EvalArgs,
    pub(super) task_type: TaskType,
    pub(super) profile: MetricProfile,
    pub(super) fields: HashMap<String, String>,
    pub(super) prompts: Vec<EncoderPrompt>,
    pub(super) pivot: Option<DatasetPivot>,
}

impl ScoreRequestBuilder<'_> {
    /// The input for an encoder on a data set. Named data sets are fetched here, with progress.
    pub(in crate::commands) async fn input(
        &self,
        model: &str,
        target: &Target,
        display: &Display,
    ) -> Result<DatasetInput, Failure> {
        let args = self.args;
        let source = dataset(self.connection, args, target)?;
        if let Some(Source::Named(name)) = &source.source {
            let wanted = wanted(args, self.task(target), name, target.language.clone());
            self.connection.prefetch_dataset(wanted, display).await?;
        }
        let own = |prompt: &&EncoderPrompt| prompt.encoder_id.is_empty() || prompt.encoder_id == model;
        Ok(DatasetInput {
            dataset: Some(DatasetRef {
                fields: self.fields.clone(),
                ..source
            }),
            encoder_id: model.to_owned(),
            limit: args.limit,
            sample_seed: args.sample_seed,
            augmentation: None,
            form: args.form.clone().unwrap_or_default(),
            pivot: self.pivot.clone(),
            prompts: self.prompts.iter().filter(own).cloned().collect(),
        })
    }

    /// The task: that of --task, or the task in the name of a built-in data set.
    fn task(&self, target: &Target) -> TaskType {
        let shipped = || {
            let name = target.data.strip_prefix("quick/")?;
            TaskType::named(name)
        };
        match self.task_type {
            TaskType::Unspecified => shipped().unwrap_or(TaskType::Unspecified),
            named => named,
        }
    }

    /// Builds the request for a score, without values of items and without evidence.
    pub(in crate::commands) fn request(&self, target: &Target, input: DatasetInput) -> ScoreRequest {
        let args = self.args;
        ScoreRequest {
            task_type: self.task(target).into(),
            profile: self.profile.into(),
            input: Some(score_request::Input::Dataset(input)),
            index: index(args),
            options: Some(TaskOptions {
                samples_per_label: args.samples_per_label,
                train_limit: args.train_limit,
                experiments: args.experiments,
                tag_parts_of_speech: args.tag_pos,
                legacy_clustering: args.legacy_clustering,
                ..TaskOptions::default()
            }),
            ..ScoreRequest::default()
        }
    }
}

/// Every data set in every language.
pub(super) fn targets(args: &EvalArgs) -> Vec<Target> {
    let languages: Vec<Option<&String>> = match args.subsets.as_slice() {
        [] => vec![None],
        some => some.iter().map(Some).collect(),
    };
    let of = |data: &String, language: Option<&String>| Target {
        data: data.clone(),
        language: language.cloned(),
        name: match language {
            Some(language) if args.subsets.len() > 1 => format!("{data} ({language})"),
            _ => data.clone(),
        },
    };
    let of_data = |data| languages.iter().map(move |language| of(data, *language));
    args.data.iter().flat_map(of_data).collect()
}

pub(in crate::commands) fn named<E: ProtoEnum>(flag: &str, name: &str) -> Result<E, Failure> {
    E::named(name).ok_or_else(|| {
        let names: Vec<&str> = E::all().map(ProtoEnum::dashed).collect();
        Failure::usage(format!("{flag}: unknown value `{name}`; one of {}", names.join(", ")))
    })
}

/// The type of task that `--task` names. `str` is another name of `sts`.
pub(in crate::commands) fn task_named(name: &str) -> Result<TaskType, Failure> {
    named("--task", if name == "str" { "sts" } else { name })
}

/// The index named by the flags; `None`: the exact search.
fn index(args: &EvalArgs) -> Option<SearchIndex> {
    args.index.as_ref().map(|_| SearchIndex {
        kind: Some(search_index::Kind::Hnsw(search_index::Hnsw {
            ef_construction: args.ef_construction,
            ef_search: args.ef_search,
            seed: None,
        })),
    })
}

/// Our names of columns, mapped to the user's.
pub(in crate::commands) fn fields(pairs: &[String]) -> Result<HashMap<String, String>, Failure> {
    let mut fields = HashMap::new();
    for pair in pairs {
        let read = pair.split_once('=').map(|(ours, theirs)| (ours.trim(), theirs.trim()));
        let Some((ours, theirs)) = read.filter(|(ours, theirs)| !ours.is_empty() && !theirs.is_empty()) else {
            return Err(Failure::usage(format!(
                "--field: `{pair}` names no columns; write ours=theirs, e.g. sentence1=text_a"
            )));
        };
        if fields.insert(ours.to_owned(), theirs.to_owned()).is_some() {
            return Err(Failure::usage(format!("--field: `{ours}` is named twice")));
        }
    }
    Ok(fields)
}

/// Makes a path on this machine absolute. Anything that is not a path here is sent to the server as
/// a name.
fn dataset(connection: &Connection, args: &EvalArgs, target: &Target) -> Result<DatasetRef, Failure> {
    let data = target.data.as_str();
    let path = Path::new(data);
    let source = if path.exists() && !connection.is_remote() {
        let absolute = path
            .canonicalize()
            .map_err(|e| Failure::dependency(format!("--data: {data}: {e}")))?;
        Source::Path(absolute.display().to_string())
    } else if path.is_absolute() {
        Source::Path(data.to_owned())
    } else if path.exists() {
        return Err(Failure::usage(format!(
            "--data: {data} is on this machine; with --server give an absolute path on the server"
        )));
    } else if looks_like_a_path(data) {
        return Err(Failure::usage(format!("--data: {data} does not exist")));
    } else {
        Source::Named(data.to_owned())
    };
    Ok(DatasetRef {
        source: Some(source),
        split: args.split.clone().unwrap_or_default(),
        language: target.language.clone().unwrap_or_default(),
        languages: args.languages.clone(),
        ..DatasetRef::default()
    })
}

/// A named data set, as the service will look it up.
fn wanted(args: &EvalArgs, task: TaskType, name: &str, language: Option<String>) -> DatasetRequest {
    DatasetRequest {
        task: task.dashed().parse().ok(),
        source: isomer_eval::dataset::Source::named(name),
        split: args.split.clone(),
        options: LoadOptions {
            language,
            ..LoadOptions::default()
        },
    }
}

/// Whether `data` begins or ends like a path, or its first folder exists.
pub(in crate::commands) fn looks_like_a_path(data: &str) -> bool {
    let endings = [".jsonl", ".csv", ".tsv", ".gz", ".parquet"];
    let in_a_folder = data.split_once('/').is_some_and(|(first, _)| Path::new(first).is_dir());
    data.starts_with(['.', '/', '~']) || endings.iter().any(|ending| data.ends_with(ending)) || in_a_folder
}
