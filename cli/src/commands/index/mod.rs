//! `isomer index`: writes the vectors of texts to a search index, and inspects it.

mod compare;
mod compared;
mod interleave;
mod migrate;
mod name_pass;
mod queries;
mod robustness;
mod show;
#[cfg_attr(not(feature = "fleet"), path = "without_workers.rs")]
mod workers;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use isomer_index::{
    IndexError,
    chunk::Chunking,
    encode::{AdditionalVectors, Augmentation, Encoder, PromptChoice, Recipe},
    plan,
    run::{self, Counts},
    source::{CollectionRows, Columns, Payload, PostgresRows, Source},
    store::{self, Credentials},
    verify,
};
use isomer_models::{DEFAULT_ENCODER, ModelKind};
use isomer_proto::encoder::v1::Output;
use isomer_service_kit::{Fault, shutdown};

use crate::{
    args::{
        AugmentArgs,
        index::{
            IndexCommand, IndexEncoderArgs, IndexPassArgs, IndexRunArgs, IndexSourceArgs, IndexVerifyArgs, PromptRole,
        },
    },
    connect::{Connection, Session},
    exit::{DONE, Failure, GATE_FAILED},
    progress::{Display, Step},
};

/// Default columns of the key and the text.
const KEY: &str = "id";
const TEXT: &str = "text";
/// Maximum share of the rows that `--delete` removes.
const DELETED_SHARE: f64 = 0.1;
/// Maximum number of concurrent batches if this process encodes.
const ALONE: usize = 4;
/// Maximum unavailability of a store or an encoder while a collection is only read.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn run(session: &Session, command: IndexCommand) -> Result<ExitCode, Failure> {
    match command {
        IndexCommand::Run(args) => Box::pin(fill(session, *args)).await,
        IndexCommand::Verify(args) => Box::pin(check(session, *args)).await,
        IndexCommand::Migrate(command) => Box::pin(migrate::run(session, command)).await,
        IndexCommand::Compare(args) => Box::pin(compare::run(session, *args)).await,
        IndexCommand::Robustness(args) => Box::pin(robustness::run(session, *args)).await,
        IndexCommand::Interleave(args) => Box::pin(interleave::draft(session, *args)).await,
        IndexCommand::Preference(args) => interleave::read(&session.global, &args),
    }
}

async fn fill(session: &Session, args: IndexRunArgs) -> Result<ExitCode, Failure> {
    let display = Display::new(session.global.quiet);
    args.encoder.augmentation.check(false)?;
    check_rate(&args.pass)?;
    let patience = args.pass.patience;
    let source = source(&args.source, &args.columns, patience).await?;
    let names = store::names(&args.sink, &Credentials::from_env(), patience).map_err(failure)?;
    let connection = session.connect().await?;
    let settings = run::Settings {
        chunking: args.chunk,
        with_text: args.with_text,
        ..settings(&args.pass, &connection)?
    };
    workers::announce(&connection, &display).await?;
    if let Some(names) = &names
        && names.state().await.map_err(failure)?.is_some()
    {
        let of_flags = args.encoder.given() || args.chunk != Chunking::Whole || args.with_text;
        let given = match of_flags {
            true => Some(encoder(&connection, &args.encoder, patience, &display).await?),
            false => None,
        };
        let given = given.map(|encoder| encoder.mark(args.chunk, args.with_text));
        let name_pass = name_pass::NamePass {
            names: names.as_ref(),
            source: &source,
            settings: &settings,
            patience,
            given,
        };
        return match args.plan {
            true => Box::pin(name_pass.plan(&session.global, &connection, &display)).await,
            false => Box::pin(name_pass.fill(&session.global, &connection, &display)).await,
        };
    }
    let store = store::open(&args.sink, &Credentials::from_env(), patience).map_err(failure)?;
    let encoder = encoder(&connection, &args.encoder, patience, &display).await?;
    if args.plan {
        let plan = plan::plan(&source, store.as_ref(), &encoder, &settings)
            .await
            .map_err(failure)?;
        connection.flush().await;
        show::plan(session.global.format, &plan, encoder.augments())?;
        return Ok(ExitCode::SUCCESS);
    }
    let encoder = encoder.by(workers::of(&connection));
    let watch = watch(&display);
    let outcome = tokio::select! {
        outcome = run::run(&source, store.as_ref(), &encoder, &settings, &watch) => outcome,
        () = shutdown::signal() => {
            connection.flush().await;
            return Err(interrupted());
        }
    };
    connection.flush().await;
    let outcome = outcome.map_err(failure)?;
    show::outcome(session.global.format, store.name(), &outcome)?;
    encoded_all(&outcome.counts)
}

/// # Errors
/// If some documents could not be encoded.
fn encoded_all(counts: &Counts) -> Result<ExitCode, Failure> {
    match counts.failed {
        0 => Ok(ExitCode::SUCCESS),
        _ => Err(Failure::dependency(format!(
            "the collection lacks {}; all others are up to date; run the same command again to try these once more",
            show::failures(counts)
        ))),
    }
}

/// # Errors
/// If the rate is invalid.
fn check_rate(args: &IndexPassArgs) -> Result<(), Failure> {
    match args.rows_per_second {
        Some(rate) if !(rate.is_finite() && rate > 0.0) => {
            Err(Failure::usage("--rows-per-second: give a number above 0"))
        }
        _ => Ok(()),
    }
}

/// The settings of a pass over whole texts that are not stored.
fn settings(args: &IndexPassArgs, connection: &Connection) -> Result<run::Settings, Failure> {
    let delete = match (args.delete, args.delete_more) {
        (_, Some(more)) => Some(share("delete-more", more)?),
        (true, None) => Some(DELETED_SHARE),
        (false, None) => None,
    };
    Ok(run::Settings {
        chunking: Chunking::Whole,
        with_text: false,
        batch: args.batch as usize,
        in_flight: args
            .in_flight
            .map_or_else(|| workers::in_flight(connection), |given| given as usize),
        rows_per_second: args.rows_per_second.unwrap_or_default(),
        delete,
        build_index: args.build_index,
    })
}

/// Shows the progress of a pass.
fn watch(display: &Display) -> impl Fn(&Counts) + Send + Sync {
    |counts| {
        let detail = format!("{} written, {} unchanged", counts.written, counts.unchanged);
        display.step(
            "documents",
            &Step {
                done: counts.documents,
                detail: &detail,
                ..Step::default()
            },
        );
    }
}

fn interrupted() -> Failure {
    Failure::interrupted("interrupted; run the same command again to resume")
}

async fn check(session: &Session, args: IndexVerifyArgs) -> Result<ExitCode, Failure> {
    let display = Display::new(session.global.quiet);
    args.encoder.augmentation.check(false)?;
    let settings = verify::Settings {
        share: share("share", args.share)?,
        seed: args.sample_seed,
        tolerance: share("tolerance", args.tolerance)?,
    };
    let source = match args.source.as_deref() {
        Some(address) => Some(source(address, &args.columns, PATIENCE).await?),
        None => None,
    };
    let store = store::open(&args.sink, &Credentials::from_env(), PATIENCE).map_err(failure)?;
    let connection = session.connect().await?;
    let encoder = encoder(&connection, &args.encoder, PATIENCE, &display).await?;
    let verified = verify::verify(source.as_ref(), store.as_ref(), &encoder, settings).await;
    connection.flush().await;
    let verified = verified.map_err(failure)?;
    show::verified(session.global.format, store.name(), &verified)?;
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

async fn source(address: &str, args: &IndexSourceArgs, patience: Duration) -> Result<Source, Failure> {
    let payload = match args.payload.as_slice() {
        [] => Payload::None,
        [all] if all == "all" => Payload::All,
        named => Payload::Named(named.to_vec()),
    };
    let query = args.source_query.as_deref();
    let scheme = address.split_once("://").map(|(scheme, _)| scheme);
    if query.is_none()
        && let Some(rows) = collection(address, args, &payload, patience).await?
    {
        return Ok(Source::Collection(rows));
    }
    let columns = Columns {
        key: args.key.clone().unwrap_or_else(|| KEY.to_owned()),
        texts: match args.texts.as_slice() {
            [] => vec![TEXT.to_owned()],
            named => named.to_vec(),
        },
        payload,
    };
    match scheme {
        Some("postgres" | "postgresql") => Ok(Source::Postgres(
            PostgresRows::open(address, query, columns, patience).map_err(failure)?,
        )),
        Some(_) => Err(Failure::usage(
            "--source-query: only PostgreSQL has queries; leave it out, or give a PostgreSQL source",
        )),
        None if query.is_some() => Err(Failure::usage(
            "--source-query: a file has no queries; leave it out, or give a PostgreSQL source",
        )),
        None => Ok(Source::Files {
            path: PathBuf::from(address),
            columns,
        }),
    }
}

/// The texts of a collection filled by `isomer index`; `None` if the address is something else.
async fn collection(
    address: &str,
    args: &IndexSourceArgs,
    payload: &Payload,
    patience: Duration,
) -> Result<Option<CollectionRows>, Failure> {
    // A table or a folder may or may not be a collection.
    let must = match address.split_once("://") {
        Some(("postgres" | "postgresql", rest)) if !rest.contains('#') => return Ok(None),
        None if !Path::new(address).is_dir() => return Ok(None),
        Some(("postgres" | "postgresql", _)) | None => false,
        Some(_) => true,
    };
    let of_source = |error| failure(error).of_flag("--source");
    let store = store::open(address, &Credentials::for_source(), patience).map_err(of_source)?;
    let collection = store.name().to_owned();
    let rows = CollectionRows::open(store, payload.clone()).await.map_err(of_source)?;
    if must && rows.is_none() {
        return Err(of_source(IndexError::NoCollection { collection }));
    }
    if rows.is_some() && (args.key.is_some() || !args.texts.is_empty()) {
        return Err(Failure::usage(
            "--key, --text: a collection that `isomer index` filled has its own key and text; leave them out",
        ));
    }
    Ok(rows)
}

async fn encoder(
    connection: &Connection,
    args: &IndexEncoderArgs,
    patience: Duration,
    display: &Display,
) -> Result<Encoder, Failure> {
    let model = args.model.as_deref().unwrap_or(DEFAULT_ENCODER);
    connection.prefetch(model, ModelKind::Encoder, display).await?;
    let prompt = match (&args.prompt_name, &args.prompt, args.prompt_role) {
        (Some(name), _, _) => PromptChoice::Named(name.clone()),
        (None, Some(text), _) => PromptChoice::Literal(text.clone()),
        (None, None, None | Some(PromptRole::Document)) => PromptChoice::Document,
        (None, None, Some(PromptRole::Query)) => PromptChoice::Query,
    };
    let recipe = Recipe {
        encoder: model.to_owned(),
        prompt,
        dimensions: args.dimensions,
        normalise: args.normalise,
        augmentation: augmentation(connection, &args.augmentation, args.augmentation.wanted(), display).await?,
        additional: AdditionalVectors {
            sparse: args.outputs.contains(&Output::Sparse),
            tokens: args.outputs.contains(&Output::TokenVectors),
        },
        patience,
    };
    let encoder = Encoder::connect(connection.channel.clone(), recipe)
        .await
        .map_err(failure)?;
    Ok(args.older.apply(encoder))
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

#[cfg(test)]
mod tests {
    use isomer_index::run::FailedDocument;

    use super::*;

    #[test]
    fn documents_that_were_not_encoded_are_named_and_fail_the_command() {
        let mut counts = Counts {
            documents: 40,
            ..Counts::default()
        };
        assert!(encoded_all(&counts).is_ok());
        counts.failed = 12;
        counts.failures = vec![FailedDocument {
            key: "doc-17".to_owned(),
            reason: "too long".to_owned(),
        }];
        let failure = encoded_all(&counts).unwrap_err();
        assert_eq!(failure.code(), 3);
        for part in ["12 of 40", "doc-17", "too long", "11 more"] {
            assert!(failure.to_string().contains(part), "{part}: {failure}");
        }
    }
}
