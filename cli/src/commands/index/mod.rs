//! `isomer index`: texts into the vectors of a search index, and what is in there.

mod compare;
mod compared;
mod interleave;
mod queries;
mod robustness;
mod show;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use isomer_index::{
    IndexError,
    encode::{Augmentation, Encoder, PromptChoice, Recipe},
    plan,
    run::{self, Counts},
    source::{Columns, Payload, PostgresRows, Source},
    store::{self, Credentials},
    verify,
};
use isomer_models::ModelKind;
use isomer_service_kit::{Fault, shutdown};

use crate::{
    args::{
        AugmentArgs, Global,
        index::{IndexCommand, IndexEncoderArgs, IndexRunArgs, IndexSourceArgs, IndexVerifyArgs, PromptRole},
    },
    connect::{self, Connection},
    exit::{DONE, Failure, GATE_FAILED},
    progress::{Display, Step},
};

/// Largest share of the rows that `--delete` removes.
const DELETED_SHARE: f64 = 0.1;
/// How long a store or an encoder may be away while a collection is only read.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn run(global: &Global, command: IndexCommand) -> Result<ExitCode, Failure> {
    match command {
        IndexCommand::Run(args) => Box::pin(fill(global, *args)).await,
        IndexCommand::Verify(args) => Box::pin(check(global, *args)).await,
        IndexCommand::Compare(args) => Box::pin(compare::run(global, *args)).await,
        IndexCommand::Robustness(args) => Box::pin(robustness::run(global, *args)).await,
        IndexCommand::Interleave(args) => Box::pin(interleave::draft(global, *args)).await,
        IndexCommand::Preference(args) => interleave::read(global, &args),
    }
}

async fn fill(global: &Global, args: IndexRunArgs) -> Result<ExitCode, Failure> {
    let display = Display::new(global.quiet);
    args.encoder.augmentation.check(false)?;
    let delete = match (args.delete, args.delete_more) {
        (_, Some(more)) => Some(share("delete-more", more)?),
        (true, None) => Some(DELETED_SHARE),
        (false, None) => None,
    };
    if args
        .rows_per_second
        .is_some_and(|rate| !(rate.is_finite() && rate > 0.0))
    {
        return Err(Failure::usage("--rows-per-second: give a number above 0"));
    }
    let settings = run::Settings {
        chunking: args.chunk,
        with_text: args.with_text,
        batch: args.batch as usize,
        in_flight: args.in_flight as usize,
        rows_per_second: args.rows_per_second.unwrap_or_default(),
        delete,
        build_index: args.build_index,
    };
    let source = source(&args.source, &args.columns, args.patience)?;
    let store = store::open(&args.sink, &Credentials::from_env(), args.patience).map_err(failure)?;
    let connection = connect::connect_for(global, &args.encoder.engine).await?;
    let encoder = encoder(&connection, &args.encoder, args.patience, &display).await?;
    if args.plan {
        let plan = plan::plan(&source, store.as_ref(), &encoder, &settings)
            .await
            .map_err(failure)?;
        connection.flush().await;
        show::plan(global.format, &plan, encoder.augments())?;
        return Ok(ExitCode::SUCCESS);
    }
    let watch = |counts: &Counts| {
        let detail = format!("{} written, {} unchanged", counts.written, counts.unchanged);
        display.step(
            "documents",
            &Step {
                done: counts.documents,
                detail: &detail,
                ..Step::default()
            },
        );
    };
    let outcome = tokio::select! {
        outcome = run::run(&source, store.as_ref(), &encoder, &settings, &watch) => outcome,
        () = shutdown::signal() => {
            connection.flush().await;
            return Err(Failure::dependency("interrupted; the same command goes on from here"));
        }
    };
    connection.flush().await;
    show::outcome(global.format, store.name(), &outcome.map_err(failure)?)?;
    Ok(ExitCode::SUCCESS)
}

async fn check(global: &Global, args: IndexVerifyArgs) -> Result<ExitCode, Failure> {
    let display = Display::new(global.quiet);
    args.encoder.augmentation.check(false)?;
    let settings = verify::Settings {
        share: share("share", args.share)?,
        seed: args.sample_seed,
        tolerance: share("tolerance", args.tolerance)?,
    };
    let source = args
        .source
        .as_deref()
        .map(|address| source(address, &args.columns, PATIENCE))
        .transpose()?;
    let store = store::open(&args.sink, &Credentials::from_env(), PATIENCE).map_err(failure)?;
    let connection = connect::connect_for(global, &args.encoder.engine).await?;
    let encoder = encoder(&connection, &args.encoder, PATIENCE, &display).await?;
    let verified = verify::verify(source.as_ref(), store.as_ref(), &encoder, settings).await;
    connection.flush().await;
    let verified = verified.map_err(failure)?;
    show::verified(global.format, store.name(), &verified)?;
    if !verified.is_sound() {
        return Ok(ExitCode::from(GATE_FAILED));
    }
    if verified.sampled == 0 && verified.rows > 0 && settings.share > 0.0 {
        return Err(Failure::dependency(
            "not one vector was drawn and computed again; give a larger --share, or another --sample-seed",
        ));
    }
    Ok(ExitCode::from(DONE))
}

fn source(address: &str, args: &IndexSourceArgs, patience: Duration) -> Result<Source, Failure> {
    let payload = match args.payload.as_slice() {
        [] => Payload::None,
        [all] if all == "all" => Payload::All,
        named => Payload::Named(named.to_vec()),
    };
    let columns = Columns {
        key: args.key.clone(),
        texts: args.texts.clone(),
        payload,
    };
    let query = args.source_query.as_deref();
    match address.split_once("://") {
        Some(("postgres" | "postgresql", _)) => Ok(Source::Postgres(
            PostgresRows::open(address, query, columns, patience).map_err(failure)?,
        )),
        Some((scheme, _)) => Err(Failure::usage(format!(
            "--source: `{scheme}://` is no kind of source; give a file, a folder or postgres://USER@HOST/DATABASE#TABLE"
        ))),
        None if query.is_some() => Err(Failure::usage(
            "--source-query: a file has no queries; leave it out, or give a PostgreSQL source",
        )),
        None => Ok(Source::Files {
            path: PathBuf::from(address),
            columns,
        }),
    }
}

async fn encoder(
    connection: &Connection,
    args: &IndexEncoderArgs,
    patience: Duration,
    display: &Display,
) -> Result<Encoder, Failure> {
    connection.prefetch(&args.model, ModelKind::Encoder, display).await?;
    let prompt = match (&args.prompt_name, &args.prompt, args.prompt_role) {
        (Some(name), _, _) => PromptChoice::Named(name.clone()),
        (None, Some(text), _) => PromptChoice::Literal(text.clone()),
        (None, None, PromptRole::Document) => PromptChoice::Document,
        (None, None, PromptRole::Query) => PromptChoice::Query,
    };
    let recipe = Recipe {
        encoder: args.model.clone(),
        prompt,
        dimensions: args.dimensions,
        normalise: args.normalise,
        augmentation: augmentation(connection, &args.augmentation, args.augmentation.wanted(), display).await?,
        patience,
    };
    Encoder::connect(connection.channel.clone(), recipe)
        .await
        .map_err(failure)
}

async fn augmentation(
    connection: &Connection,
    args: &AugmentArgs,
    wanted: bool,
    display: &Display,
) -> Result<Option<Augmentation>, Failure> {
    if !wanted {
        return Ok(None);
    }
    Ok(Some(Augmentation {
        spec: args.spec(connection, display).await?,
        pooling: args.pooling(),
        original_weight: args.original_weight,
        normalise_before: args.normalise_before,
    }))
}

fn share(flag: &str, share: f64) -> Result<f64, Failure> {
    match (0.0..=1.0).contains(&share) {
        true => Ok(share),
        false => Err(Failure::usage(format!(
            "--{flag}: {share} is not a share; give a number from 0 to 1"
        ))),
    }
}

fn failure(error: IndexError) -> Failure {
    Failure::from(Fault::from(error))
}
