//! `isomer index migrate`: one command per step.

use std::{
    process::ExitCode,
    time::{Duration, SystemTime},
};

use isomer_index::{
    IndexError, compare,
    encode::Encoder,
    migrate::{self, MigrationStep},
    name::{Migration, Next, State},
    store::{self, Credentials, Names, VectorStore},
};
use isomer_models::ModelKind;
use isomer_service_kit::Fault;
use serde_json::json;

use super::{
    PATIENCE, check_rate, compared, encoder, failure, name_pass::NamePass, queries, settings, share, show, source,
    workers,
};
use crate::{
    args::{
        Format, Global,
        index::migrate::{
            IndexMigrateCommand, MigrateBackfillArgs, MigrateCompareArgs, MigrateStartArgs, MigrateSwitchArgs,
        },
    },
    connect::Session,
    exit::{Failure, GATE_FAILED},
    progress::Display,
};

pub(super) async fn run(session: &Session, command: IndexMigrateCommand) -> Result<ExitCode, Failure> {
    match command {
        IndexMigrateCommand::Start(args) => Box::pin(start(session, *args)).await,
        IndexMigrateCommand::Backfill(args) => Box::pin(backfill(session, *args)).await,
        IndexMigrateCommand::Compare(args) => Box::pin(compare(session, *args)).await,
        IndexMigrateCommand::Switch(MigrateSwitchArgs { name, uncompared }) => {
            step(&session.global, &name, "switch", |state| {
                state.switch(uncompared, now())
            })
            .await
        }
        IndexMigrateCommand::RollBack(args) => step(&session.global, &args.name, "roll back", State::roll_back).await,
        IndexMigrateCommand::Finish(args) => {
            step(&session.global, &args.name, "finish", |state| state.finish(now())).await
        }
        IndexMigrateCommand::Abandon(args) => {
            step(&session.global, &args.name, "abandon", |state| state.abandon(now())).await
        }
        IndexMigrateCommand::Status(args) => {
            let names = names(&args.name, PATIENCE)?;
            let state = migrate::state(names.as_ref(), "report the status of")
                .await
                .map_err(failure)?;
            print_step(
                session.global.format,
                names.as_ref(),
                &MigrationStep { state, already: false },
            )
        }
    }
}

/// The names of a store that supports them.
fn names(address: &str, patience: Duration) -> Result<Box<dyn Names>, Failure> {
    let names = store::names(address, &Credentials::from_env(), patience).map_err(failure)?;
    names.ok_or_else(|| {
        let message = "this store has no name that moves from one collection to another at once";
        Failure::from(Fault::invalid("NAME", message).hint(
            "fill a second collection with `isomer index run --sink`, compare it with the first by `isomer index compare`, then let \
             your application read the address of the collection and the encoder from one setting, and change that",
        ))
    })
}

async fn start(session: &Session, args: MigrateStartArgs) -> Result<ExitCode, Failure> {
    let display = Display::new(session.global.quiet);
    args.encoder.augmentation.check(false)?;
    if !args.encoder.outputs.is_empty() {
        return Err(Failure::usage(
            "--outputs: a migration moves a name to dense vectors alone; fill another collection with `isomer index run`",
        ));
    }
    let names = names(&args.name, PATIENCE)?;
    let connection = session.connect().await?;
    let encoder = encoder(&connection, &args.encoder, PATIENCE, &display).await?;
    connection.flush().await;
    let mark = encoder.mark(args.chunk, args.with_text);
    let started = migrate::start(names.as_ref(), args.from.as_deref(), &mark, now()).await;
    print_step(session.global.format, names.as_ref(), &started.map_err(failure)?)
}

async fn backfill(session: &Session, args: MigrateBackfillArgs) -> Result<ExitCode, Failure> {
    let display = Display::new(session.global.quiet);
    let patience = args.pass.patience;
    check_rate(&args.pass)?;
    let source = source(&args.source, &args.columns, patience).await?;
    let names = names(&args.name, patience)?;
    let state = migrate::state(names.as_ref(), "backfill").await.map_err(failure)?;
    state.migration("backfill").map_err(failure)?;
    let connection = session.connect().await?;
    let settings = settings(&args.pass, &connection)?;
    workers::announce(&connection, &display).await?;
    let name_pass = NamePass {
        names: names.as_ref(),
        source: &source,
        settings: &settings,
        patience,
        given: None,
    };
    Box::pin(name_pass.fill(&session.global, &connection, &display)).await
}

async fn compare(session: &Session, args: MigrateCompareArgs) -> Result<ExitCode, Failure> {
    const LEVEL: f64 = 0.95;
    const RESAMPLES: usize = 10_000;
    let display = Display::new(session.global.quiet);
    let least = args.min_overlap.map(|least| share("min-overlap", least)).transpose()?;
    let names = names(&args.name, PATIENCE)?;
    let state = migrate::state(names.as_ref(), "compare").await.map_err(failure)?;
    let Migration { old, new, .. } = state.comparable().map_err(failure)?;
    let queries = queries::queries(&args.queries)?;
    let qrels = args.qrels.as_deref().map(queries::qrels).transpose()?;
    let connection = session.connect().await?;
    let mut sides: Vec<(Box<dyn VectorStore>, Encoder)> = Vec::with_capacity(2);
    for collection in [old, new] {
        let mark = names.mark(collection).await.map_err(failure)?;
        connection
            .prefetch(&mark.space.model, ModelKind::Encoder, &display)
            .await?;
        let encoder = Encoder::for_queries(connection.channel.clone(), &mark, None, PATIENCE).await;
        sides.push((
            names.open(&state, collection).map_err(failure)?,
            encoder.map_err(failure)?,
        ));
    }
    let settings = compare::Settings {
        k: args.k as usize,
        in_flight: args.in_flight as usize,
        exact: false,
        resampling: compare::Resampling {
            resamples: RESAMPLES,
            level: LEVEL,
            seed: args.sample_seed,
        },
    };
    let side = |index: usize| compare::Side {
        store: sides[index].0.as_ref(),
        encoder: &sides[index].1,
    };
    let found = compare::compare(side(0), side(1), &queries, qrels.as_ref(), settings).await;
    connection.flush().await;
    let found = found.map_err(failure)?;
    compared::compared(session.global.format, &found, None, None, LEVEL)?;
    if let Some(least) = least.filter(|least| found.overlap.mean < *least) {
        display.message(&format!(
            "the lists have {:.4} of their documents in common, which is less than --min-overlap {least}: not noted",
            found.overlap.mean
        ));
        return Ok(ExitCode::from(GATE_FAILED));
    }
    migrate::agree(names.as_ref(), &found, u64::from(args.k), now())
        .await
        .map_err(failure)?;
    Ok(ExitCode::SUCCESS)
}

async fn step(
    global: &Global,
    address: &str,
    name: &'static str,
    next: impl Fn(&State) -> Result<Next, IndexError> + Send + Sync,
) -> Result<ExitCode, Failure> {
    let names = names(address, PATIENCE)?;
    let stepped = migrate::step(names.as_ref(), name, next).await.map_err(failure)?;
    print_step(global.format, names.as_ref(), &stepped)
}

fn print_step(format: Format, names: &dyn Names, stepped: &MigrationStep) -> Result<ExitCode, Failure> {
    let text = || state_text(names.shown(), stepped);
    let json = || json!({ "name": names.shown(), "already": stepped.already, "state": stepped.state, "next": next(&stepped.state) });
    show::print(format, text, json)?;
    Ok(ExitCode::SUCCESS)
}

/// The next step.
fn next(state: &State) -> &'static str {
    match &state.migration {
        None => "start",
        Some(migration) if state.serving == migration.new => "finish",
        Some(migration) if !migration.level => "backfill",
        Some(migration) if migration.agreement.is_none() => "compare",
        Some(_) => "switch",
    }
}

fn state_text(name: &str, stepped: &MigrationStep) -> String {
    let state = &stepped.state;
    let mut rows = vec![("name", name.to_owned()), ("readers get", state.serving.clone())];
    if let Some(migration) = &state.migration {
        rows.push(("migration", format!("{} to {}", migration.old, migration.new)));
        rows.push((
            "filled",
            match (migration.level, migration.skipped) {
                (true, _) => "yes: a run has written all rows to both".to_owned(),
                (false, 0) => "not yet".to_owned(),
                (false, times) => format!("no: rows could be written to {} alone, {times} times", state.serving),
            },
        ));
        rows.push((
            "compared",
            migration.agreement.as_ref().map_or_else(
                || "not yet".to_owned(),
                |found| {
                    format!(
                        "lists of {} have {:.4} in common, over {} queries",
                        found.k, found.overlap, found.queries
                    )
                },
            ),
        ));
    } else if let Some(ended) = &state.ended {
        let how = if ended.finished { "finished" } else { "abandoned" };
        rows.push(("last migration", format!("{} to {}, {how}", ended.old, ended.new)));
    }
    rows.push(("next step", format!("isomer index migrate {}", next(state))));
    let mut text = show::lines(&rows);
    if stepped.already {
        text.push_str("\n\nThis step had been made before; nothing was changed.");
    }
    text
}

/// Seconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_that_is_due_is_named() {
        let mut state = State::new("docs", "docs_1");
        assert_eq!(next(&state), "start");
        state = state.start("docs_2", 1);
        assert_eq!(next(&state), "backfill");
        let change = |next: Result<Next, IndexError>| match next {
            Ok(Next::Change(change)) => change.after,
            other => panic!("{other:?}"),
        };
        state = change(state.levelled(0));
        assert_eq!(next(&state), "compare");
        let switched = change(state.switch(true, 2));
        assert_eq!(next(&switched), "finish");
        let text = state_text(
            "db#docs",
            &MigrationStep {
                state: change(state.skip()),
                already: false,
            },
        );
        assert!(
            text.contains("to docs_1 alone, 1 times") && text.contains("migrate backfill"),
            "{text}"
        );
    }
}
