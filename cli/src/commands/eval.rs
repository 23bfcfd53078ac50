//! `isomer eval`: one encoder, one dataset, mteb's task result.

use std::{io::Write, path::Path, process::ExitCode};

use isomer_models::ModelKind;
use isomer_proto::eval::v1::{
    DatasetInput, DatasetRef, MetricProfile, ScoreRequest, ScoreResponse, TaskType, dataset_ref::Source, score_request,
    task_service_client::TaskServiceClient,
};

use super::{eval_augmented, stdout_failure};
use crate::{
    args::{EvalArgs, Format, Global},
    connect::{self, Connection, MAX_MESSAGE_BYTES},
    exit::Failure,
    progress::Display,
};

const TASKS: &[(&str, TaskType)] = &[
    ("sts", TaskType::Sts),
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

pub(super) async fn run(global: &Global, args: EvalArgs) -> Result<ExitCode, Failure> {
    let task_type = named("--task", &args.task, TASKS)?;
    let profile = named("--profile", &args.profile, PROFILES)?;
    args.augmentation.check()?;
    let display = Display::new(global.quiet);
    let connection = connect::connect_for(global, &args.engine).await?;
    connection.prefetch(&args.model, ModelKind::Encoder, &display).await?;
    let input = DatasetInput {
        dataset: Some(dataset(&connection, &args)?),
        encoder_id: args.model.clone(),
        limit: args.limit,
        augmentation: None,
    };
    let request = |input| ScoreRequest {
        task_type: task_type.into(),
        profile: profile.into(),
        input: Some(score_request::Input::Dataset(input)),
    };
    let mut client = TaskServiceClient::new(connection.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let response = client.score(request(input.clone())).await?.into_inner();
    if args.augmentation.wanted() {
        let augmentation = eval_augmented::augmentation(&connection, &args, &display).await?;
        let input = DatasetInput {
            augmentation: Some(augmentation),
            ..input
        };
        let augmented = client.score(request(input)).await?.into_inner();
        eval_augmented::print(global.format, &args, &response, &augmented)?;
    } else {
        print(global.format, &args, &response)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn named<T: Copy>(flag: &str, name: &str, all: &[(&str, T)]) -> Result<T, Failure> {
    all.iter()
        .find(|(known, _)| *known == name)
        .map(|(_, value)| *value)
        .ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|(known, _)| *known).collect();
            Failure::usage(format!("{flag}: unknown value `{name}`; one of {}", names.join(", ")))
        })
}

/// A path on this machine becomes absolute; anything that is no path here is left to the server as a built-in name.
fn dataset(connection: &Connection, args: &EvalArgs) -> Result<DatasetRef, Failure> {
    let path = Path::new(&args.data);
    let source = if path.exists() && !connection.is_remote() {
        let absolute = path
            .canonicalize()
            .map_err(|e| Failure::dependency(format!("--data: {}: {e}", args.data)))?;
        Source::Path(absolute.display().to_string())
    } else if path.is_absolute() {
        Source::Path(args.data.clone())
    } else if path.exists() {
        return Err(Failure::usage(format!(
            "--data: {} is on this machine; with --server give an absolute path on the server",
            args.data
        )));
    } else if looks_like_a_path(&args.data) {
        return Err(Failure::dependency(format!("--data: {} does not exist", args.data)));
    } else {
        Source::Builtin(args.data.clone())
    };
    Ok(DatasetRef {
        source: Some(source),
        split: args.split.clone(),
        language: args.language.clone().unwrap_or_default(),
        name: String::new(),
    })
}

fn looks_like_a_path(data: &str) -> bool {
    data.starts_with(['.', '/', '~']) || data.ends_with(".jsonl")
}

fn print(format: Format, args: &EvalArgs, response: &ScoreResponse) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let told = |e: std::io::Error| stdout_failure(&e);
    if format == Format::Json {
        let document = response.mteb_result.as_ref().map(json::from_struct).unwrap_or_default();
        let text = serde_json::to_string_pretty(&document)
            .map_err(|e| Failure::dependency(format!("cannot write the result: {e}")))?;
        return writeln!(out, "{text}").map_err(told);
    }
    writeln!(
        out,
        "{} on {}, {} items, profile {}",
        args.model, args.data, response.items, response.profile_stamp
    )
    .map_err(told)?;
    writeln!(
        out,
        "  {:<28} {:.4}  (main score)",
        response.main_score_key, response.main_score
    )
    .map_err(told)?;
    let mut rest: Vec<_> = response
        .scores
        .iter()
        .filter(|(key, _)| **key != response.main_score_key && *key != "main_score")
        .collect();
    rest.sort_by(|a, b| a.0.cmp(b.0));
    for (key, value) in rest {
        writeln!(out, "  {key:<28} {value:.4}").map_err(told)?;
    }
    Ok(())
}

/// `google.protobuf.Struct` to JSON.
pub(super) mod json {
    use prost_types::{Struct, value::Kind};
    use serde_json::{Map, Number, Value};

    pub(in crate::commands) fn from_struct(message: &Struct) -> Value {
        Value::Object(
            message
                .fields
                .iter()
                .map(|(key, value)| (key.clone(), from_value(value)))
                .collect::<Map<_, _>>(),
        )
    }

    fn from_value(message: &prost_types::Value) -> Value {
        match &message.kind {
            None | Some(Kind::NullValue(_)) => Value::Null,
            Some(Kind::BoolValue(b)) => Value::Bool(*b),
            Some(Kind::NumberValue(n)) if n.fract() == 0.0 && n.abs() < 9.0e15 => {
                Value::Number(Number::from(*n as i64))
            }
            Some(Kind::NumberValue(n)) => Number::from_f64(*n).map_or(Value::Null, Value::Number),
            Some(Kind::StringValue(s)) => Value::String(s.clone()),
            Some(Kind::ListValue(list)) => Value::Array(list.values.iter().map(from_value).collect()),
            Some(Kind::StructValue(object)) => from_struct(object),
        }
    }
}
