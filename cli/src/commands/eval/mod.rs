//! `isomer eval`: encoders on datasets. One encoder on one dataset prints mteb's task result;
//! several print a table or a list of results.

pub(super) mod json;
pub(super) mod output;

use std::{collections::HashMap, path::Path, process::ExitCode, time::Duration};

use isomer_eval::{dataset::LoadOptions, locate::Wanted};
use isomer_models::ModelKind;
use isomer_proto::eval::v1::{
    DatasetInput, DatasetPivot, DatasetRef, EncoderPrompt, MetricProfile, ScoreRequest, ScoreResponse, SearchIndex,
    TaskOptions, TaskType, dataset_ref::Source, score_request, search_index, task_service_client::TaskServiceClient,
};

use super::{augment::prefetch_generator, eval_augmented};
use crate::{
    args::{EvalArgs, Format, Global},
    connect::{self, Connection, MAX_MESSAGE_BYTES},
    exit::Failure,
    progress::{Display, Step},
};

pub(super) const TASKS: &[(&str, TaskType)] = &[
    ("sts", TaskType::Sts),
    ("str", TaskType::Sts),
    ("pair-classification", TaskType::PairClassification),
    ("classification", TaskType::Classification),
    ("clustering", TaskType::Clustering),
    ("reranking", TaskType::Reranking),
    ("retrieval", TaskType::Retrieval),
    ("summarisation", TaskType::Summarisation),
    ("bitext", TaskType::Bitext),
    ("clsd", TaskType::Clsd),
    ("graded-ranking", TaskType::GradedRanking),
];
const PROFILES: &[(&str, MetricProfile)] = &[
    ("mteb-v2", MetricProfile::MtebV2),
    ("mteb-v1", MetricProfile::MtebV1),
    ("hteb", MetricProfile::Hteb),
];

/// The result of one encoder on one dataset.
struct Outcome {
    model: String,
    data: String,
    response: ScoreResponse,
}

/// A data set of the command, in one language.
pub(super) struct Target {
    /// As the command names it.
    pub(super) data: String,
    /// The subset.
    pub(super) language: Option<String>,
    /// What it is called in output.
    pub(super) name: String,
}

/// What every score of the command has in common.
pub(super) struct Asking<'a> {
    pub(super) connection: &'a Connection,
    pub(super) args: &'a EvalArgs,
    task_type: TaskType,
    profile: MetricProfile,
    fields: HashMap<String, String>,
    prompts: Vec<EncoderPrompt>,
    pivot: Option<DatasetPivot>,
}

impl Asking<'_> {
    /// An encoder on a data set. Data sets with a name are fetched here, with progress.
    pub(super) async fn input(&self, model: &str, target: &Target, display: &Display) -> Result<DatasetInput, Failure> {
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
            pivot: self.pivot.clone(),
            prompts: self.prompts.iter().filter(own).cloned().collect(),
        })
    }

    /// The task: that of --task, or the one that a data set that ships has in its name.
    fn task(&self, target: &Target) -> TaskType {
        let shipped = || {
            let name = target.data.strip_prefix("quick/")?;
            TASKS.iter().find(|(known, _)| *known == name).map(|(_, task)| *task)
        };
        match self.task_type {
            TaskType::Unspecified => shipped().unwrap_or(TaskType::Unspecified),
            named => named,
        }
    }

    /// Asks for a score; `[per_item, evidence]`.
    pub(super) fn request(
        &self,
        target: &Target,
        input: DatasetInput,
        [per_item, evidence]: [bool; 2],
    ) -> ScoreRequest {
        let args = self.args;
        ScoreRequest {
            task_type: self.task(target).into(),
            profile: self.profile.into(),
            input: Some(score_request::Input::Dataset(input)),
            per_item,
            evidence,
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
fn targets(args: &EvalArgs) -> Vec<Target> {
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

pub(super) async fn run(global: &Global, args: EvalArgs) -> Result<ExitCode, Failure> {
    let task_type = match &args.task {
        Some(task) => named("--task", task, TASKS)?,
        None => TaskType::Unspecified,
    };
    let fields = fields(&args.fields)?;
    let profile = named("--profile", &args.profile, PROFILES)?;
    args.augmentation.check(args.pivot.is_some())?;
    if args.augmentation.wanted() && args.per_item.is_some() {
        return Err(Failure::usage(
            "--per-item: values of items are not written with --augment; leave one of the two out",
        ));
    }
    let targets = targets(&args);
    let several = eval_augmented::several(&args, targets.len())?;
    let models: Vec<&str> = args.models.iter().map(String::as_str).collect();
    let prompts = args.prompts.all(&models, str::to_owned)?;
    let mut items = args.per_item.as_deref().map(output::ItemFile::create).transpose()?;
    let display = Display::new(global.quiet);
    let connection = connect::connect_for(global, &args.engine).await?;
    let asking = Asking {
        connection: &connection,
        args: &args,
        task_type,
        profile,
        fields,
        prompts,
        pivot: pivot(&connection, &args, &display).await?,
    };
    if several {
        return eval_augmented::gains::run(global, &asking, &targets, &display).await;
    }
    let mut client = TaskServiceClient::new(connection.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let total = targets.len() as u64;
    let mut outcomes: Vec<Outcome> = Vec::new();
    for model in &args.models {
        connection.prefetch(model, ModelKind::Encoder, &display).await?;
        for (done, target) in targets.iter().enumerate() {
            let data = &target.name;
            let input = asking.input(model, target, &display).await?;
            let progress = |done: u64| Step {
                done,
                total: Some(total),
                cached: 0,
                remaining: (done == total).then_some(Duration::ZERO),
                detail: data,
                bytes: false,
            };
            display.step(model, &progress(done as u64));
            let forms = [items.is_some(), args.augmentation.wanted()];
            let response = client
                .score(asking.request(target, input.clone(), forms))
                .await?
                .into_inner();
            if args.augmentation.wanted() || args.models.len() * targets.len() > 1 || global.format == Format::Json {
                for note in &response.notes {
                    display.message(&format!("{data}: {note}"));
                }
            }
            if args.augmentation.wanted() {
                let input = DatasetInput {
                    augmentation: Some(
                        eval_augmented::augmentation(&connection, &args, &display, response.evidence.clone()).await?,
                    ),
                    ..input
                };
                let augmented = client.score(asking.request(target, input, forms)).await?.into_inner();
                eval_augmented::print(global.format, &args, [model, data], [&response, &augmented])?;
                return Ok(ExitCode::SUCCESS);
            }
            if let Some(items) = &mut items {
                items.write(model, data, &response)?;
            }
            outcomes.push(Outcome {
                model: model.clone(),
                data: data.clone(),
                response,
            });
            display.step(model, &progress(done as u64 + 1));
        }
    }
    if let Some(items) = items {
        items.finish()?;
    }
    output::print(global.format, &outcomes)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn named<T: Copy>(flag: &str, name: &str, all: &[(&str, T)]) -> Result<T, Failure> {
    all.iter()
        .find(|(known, _)| *known == name)
        .map(|(_, value)| *value)
        .ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|(known, _)| *known).collect();
            Failure::usage(format!("{flag}: unknown value `{name}`; one of {}", names.join(", ")))
        })
}

/// The pivot language that the flags ask for. Fetches a local generator here, with progress.
async fn pivot(connection: &Connection, args: &EvalArgs, display: &Display) -> Result<Option<DatasetPivot>, Failure> {
    let Some(language) = &args.pivot else { return Ok(None) };
    let generator = match args.augmentation.generators.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        _ => return Err(Failure::usage("--generator: one translates for --pivot; name it once")),
    };
    prefetch_generator(connection, &generator, display).await?;
    Ok(Some(DatasetPivot {
        language: language.clone(),
        generator_id: generator,
        ..DatasetPivot::default()
    }))
}

/// The index that the flags ask for; `None`: the exact search.
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
fn fields(pairs: &[String]) -> Result<HashMap<String, String>, Failure> {
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

/// Makes a path on this machine absolute. Anything that is not a path here is left to the server as
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
        return Err(Failure::dependency(format!("--data: {data} does not exist")));
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

/// A data set with a name, as the service will look it up.
fn wanted(args: &EvalArgs, task: TaskType, name: &str, language: Option<String>) -> Wanted {
    let named = TASKS.iter().find(|(_, known)| *known == task).map(|(name, _)| *name);
    Wanted {
        task: named.and_then(|name| name.parse().ok()),
        source: isomer_eval::dataset::Source::named(name),
        split: args.split.clone(),
        options: LoadOptions {
            language,
            ..LoadOptions::default()
        },
    }
}

/// Whether `data` begins or ends like a path, or its first folder exists.
pub(super) fn looks_like_a_path(data: &str) -> bool {
    let endings = [".jsonl", ".csv", ".tsv", ".gz", ".parquet"];
    let in_a_folder = data.split_once('/').is_some_and(|(first, _)| Path::new(first).is_dir());
    data.starts_with(['.', '/', '~']) || endings.iter().any(|ending| data.ends_with(ending)) || in_a_folder
}
