//! `isomer eval`: encoders on datasets. One encoder on one dataset prints mteb's task result;
//! several print a table or a list of results.

pub(super) mod json;
pub(super) mod output;
pub(super) mod score_request;

use std::{process::ExitCode, time::Duration};

use isomer_models::ModelKind;
use isomer_proto::eval::v1::{
    DatasetInput, DatasetPivot, ScoreRequest, TaskType, task_service_client::TaskServiceClient,
};
use output::Outcome;
use score_request::{ScoreRequestBuilder, fields, named, targets, task_named};

use super::{augment::prefetch_generator, eval_augmented};
use crate::{
    args::{EvalArgs, Format},
    connect::{Connection, MAX_MESSAGE_BYTES, Session},
    exit::Failure,
    progress::{Display, Step},
};

pub(super) async fn run(session: &Session, args: EvalArgs) -> Result<ExitCode, Failure> {
    let task_type = match &args.task {
        Some(task) => task_named(task)?,
        None => TaskType::Unspecified,
    };
    let fields = fields(&args.fields)?;
    let profile = named("--profile", &args.profile)?;
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
    let display = Display::new(session.global.quiet);
    let connection = session.connect().await?;
    let builder = ScoreRequestBuilder {
        connection: &connection,
        args: &args,
        task_type,
        profile,
        fields,
        prompts,
        pivot: pivot(&connection, &args, &display).await?,
    };
    if several {
        return Box::pin(eval_augmented::gains::run(
            &session.global,
            &builder,
            &targets,
            &display,
        ))
        .await;
    }
    let mut client = TaskServiceClient::new(connection.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let total = targets.len() as u64;
    let mut outcomes: Vec<Outcome> = Vec::new();
    for model in &args.models {
        connection.prefetch(model, ModelKind::Encoder, &display).await?;
        for (done, target) in targets.iter().enumerate() {
            let data = &target.name;
            let input = builder.input(model, target, &display).await?;
            let progress = |done: u64| Step {
                done,
                total: Some(total),
                cached: 0,
                remaining: (done == total).then_some(Duration::ZERO),
                detail: data,
                bytes: false,
            };
            display.step(model, &progress(done as u64));
            let request = |input: DatasetInput| ScoreRequest {
                per_item: items.is_some(),
                evidence: args.augmentation.wanted(),
                ..builder.request(target, input)
            };
            let response = client.score(request(input.clone())).await?.into_inner();
            let rows = if response.items == 1 { "row" } else { "rows" };
            display.message(&format!("{data}: {} {rows} scored", response.items));
            if args.augmentation.wanted()
                || args.models.len() * targets.len() > 1
                || session.global.format == Format::Json
            {
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
                let augmented = client.score(request(input)).await?.into_inner();
                let plain = Outcome {
                    model: model.clone(),
                    data: data.clone(),
                    response,
                };
                eval_augmented::print(session.global.format, &args, &plain, &augmented)?;
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
    output::print(session.global.format, &outcomes)?;
    Ok(ExitCode::SUCCESS)
}

/// The pivot language named by the flags. Fetches a local generator here, with progress.
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
