//! `isomer index compare`: two collections on the same queries.

use std::{collections::HashMap, path::Path, process::ExitCode};

use isomer_eval::stats::gate::Verdict;
use isomer_index::{
    IndexError,
    compare::{
        self, Qrels, Query, Resampling, Settings,
        rated::{self, Judge, RelevanceRatings},
        rules,
    },
    encode::Encoder,
    store::{self, Credentials, VectorStore},
};
use isomer_models::ModelKind;
use isomer_proto::eval::v1::GateUndecided;

use super::{PATIENCE, augmentation, compared, failure, queries};
use crate::{
    args::{
        AugmentArgs,
        index_compare::{
            AugmentedSide, IndexCompareArgs, IndexGateArgs, IndexIntervalArgs, IndexJudgedArgs, IndexSearchArgs,
            IndexSidesArgs,
        },
    },
    commands::augment::prefetch_generator,
    connect::{Connection, Session},
    exit::{DONE, Failure, GATE_FAILED, GATE_NOT_PASSED},
    progress::{Display, Step},
};

pub(super) async fn run(session: &Session, args: IndexCompareArgs) -> Result<ExitCode, Failure> {
    let display = Display::new(session.global.quiet);
    args.sides.augmentation.check(false)?;
    let settings = settings(&args.search, &args.judged, &args.intervals, &args.gate)?;
    let asked = asked(&args.search, &args.judged, &args.gate)?;
    let texts = args.documents.as_deref().map(documents).transpose()?;
    let connection = session.connect().await?;
    if let Some(judge) = &args.judge {
        prefetch_generator(&connection, named(judge), &display).await?;
    }
    let sides = sides(&connection, [&args.first, &args.second], &args.sides, &display).await?;
    let side = |index: usize| compare::Side {
        store: sides[index].0.as_ref(),
        encoder: &sides[index].1,
    };
    display.step("searching", &Step::default());
    let words: Vec<&str> = asked.queries.iter().map(|query| query.text.as_str()).collect();
    let one = compare::lists(side(0), &words, settings).await.map_err(failure)?;
    let other = compare::lists(side(1), &words, settings).await.map_err(failure)?;
    let found = compare::held(&one, &other, &asked.queries, asked.qrels.as_ref(), settings);
    let gate = rules::decide(&found, &args.gate.rules, args.gate.gate_alpha).map_err(failure)?;
    let ratings = match &args.judge {
        None => None,
        Some(judge) => {
            let texts = match texts {
                Some(texts) => texts,
                None => kept(side(0).store, side(1).store, &one, &other)
                    .await
                    .map_err(failure)?,
            };
            let judge = Judge {
                channel: connection.channel.clone(),
                generator: named(judge).to_owned(),
                seed: None,
            };
            display.step("rating", &Step::default());
            let lists = (&one, &other);
            let ratings: RelevanceRatings =
                rated::rate(&judge, lists, &asked.queries, &texts, asked.qrels.as_ref(), settings)
                    .await
                    .map_err(failure)?;
            Some(ratings)
        }
    };
    connection.flush().await;
    compared::compared(
        session.global.format,
        &found,
        gate.as_ref(),
        ratings.as_ref(),
        settings.resampling.level,
    )?;
    Ok(code(gate.as_ref().map(|gate| gate.verdict), args.gate.undecided))
}

/// The exit code of a gate, as for a check.
pub(super) fn code(verdict: Option<Verdict>, undecided: Option<GateUndecided>) -> ExitCode {
    ExitCode::from(match (verdict, undecided) {
        (None | Some(Verdict::Pass), _) => DONE,
        (Some(Verdict::Fail), _) => GATE_FAILED,
        (Some(Verdict::Undecided), None | Some(GateUndecided::Block | GateUndecided::Unspecified)) => GATE_NOT_PASSED,
        (Some(Verdict::Undecided), Some(GateUndecided::Warn)) => DONE,
        (Some(Verdict::Undecided), Some(GateUndecided::Fail)) => GATE_FAILED,
    })
}

/// The generator of `--judge`; empty: the server's default.
fn named(judge: &str) -> &str {
    if judge == "default" { "" } else { judge }
}

/// Queries and judgements, validated.
pub(super) struct QuerySet {
    pub(super) queries: Vec<Query>,
    pub(super) qrels: Option<Qrels>,
}

pub(super) fn asked(
    search: &IndexSearchArgs,
    judged: &IndexJudgedArgs,
    gate: &IndexGateArgs,
) -> Result<QuerySet, Failure> {
    for rule in &gate.rules {
        rules::check(*rule, judged.qrels.is_some()).map_err(|error| failure(error).of_flag("--rule"))?;
    }
    let queries = queries::queries(&search.queries)?;
    let qrels = judged.qrels.as_deref().map(queries::qrels).transpose()?;
    compare::check(&queries, qrels.as_ref()).map_err(failure)?;
    Ok(QuerySet { queries, qrels })
}

pub(super) fn settings(
    search: &IndexSearchArgs,
    judged: &IndexJudgedArgs,
    intervals: &IndexIntervalArgs,
    gate: &IndexGateArgs,
) -> Result<Settings, Failure> {
    if !(gate.gate_alpha > 0.0 && gate.gate_alpha < 0.5) {
        return Err(Failure::usage("--gate-alpha: give a number above 0 and below 0.5"));
    }
    let index = |rule: &rules::RuleLimit| matches!(rule, rules::RuleLimit::MinIndexRecall(_));
    Ok(Settings {
        k: search.k as usize,
        in_flight: search.in_flight as usize,
        exact: judged.index_recall || gate.rules.iter().any(index),
        resampling: resampling(intervals)?,
    })
}

pub(super) fn resampling(intervals: &IndexIntervalArgs) -> Result<Resampling, Failure> {
    if !(intervals.level > 0.0 && intervals.level < 1.0) {
        return Err(Failure::usage("--level: give a number between 0 and 1"));
    }
    Ok(Resampling {
        resamples: intervals.resamples as usize,
        level: intervals.level,
        seed: intervals.sample_seed,
    })
}

/// The two collections, each with the encoder of its queries.
pub(super) async fn sides(
    connection: &Connection,
    addresses: [&String; 2],
    args: &IndexSidesArgs,
    display: &Display,
) -> Result<Vec<(Box<dyn VectorStore>, Encoder)>, Failure> {
    let mut sides = Vec::with_capacity(2);
    for (address, own) in addresses.into_iter().zip([AugmentedSide::A, AugmentedSide::B]) {
        let wanted = args.augmented_queries == own || args.augmented_queries == AugmentedSide::Both;
        let augment = Some(&args.augmentation).filter(|args| args.wanted() && wanted);
        let (store, encoder) = side(connection, address, augment, display).await?;
        sides.push((store, args.older.apply(encoder)));
    }
    Ok(sides)
}

/// A collection, and the encoder of its queries, as named by its mark.
pub(super) async fn side(
    connection: &Connection,
    address: &str,
    augment: Option<&AugmentArgs>,
    display: &Display,
) -> Result<(Box<dyn VectorStore>, Encoder), Failure> {
    let store = store::open(address, &Credentials::from_env(), PATIENCE).map_err(failure)?;
    let mark = store.mark().await.map_err(failure)?.ok_or_else(|| {
        failure(IndexError::NoCollection {
            collection: store.name().to_owned(),
        })
    })?;
    connection
        .prefetch(&mark.space.model, ModelKind::Encoder, display)
        .await?;
    let augmentation = match augment {
        Some(args) => augmentation(connection, args, true, display).await?,
        None => None,
    };
    let encoder = Encoder::for_queries(connection.channel.clone(), &mark, augmentation, PATIENCE)
        .await
        .map_err(failure)?;
    Ok((store, encoder))
}

/// Texts stored in the collections: those of the first, else of the second.
async fn kept(
    first: &dyn VectorStore,
    second: &dyn VectorStore,
    one: &compare::Lists,
    other: &compare::Lists,
) -> Result<HashMap<String, String>, IndexError> {
    let all = rated::documents(one, other);
    let of_first = rated::texts_of(first, &all).await;
    match of_first {
        Ok(texts) if all.iter().all(|document| texts.contains_key(document)) => Ok(texts),
        Ok(mut texts) => {
            let rest: Vec<String> = all
                .into_iter()
                .filter(|document| !texts.contains_key(document))
                .collect();
            texts.extend(rated::texts_of(second, &rest).await?);
            Ok(texts)
        }
        Err(IndexError::Setting { .. }) => rated::texts_of(second, &all).await,
        Err(error) => Err(error),
    }
}

/// Texts of a file: `id` and `text`.
fn documents(path: &Path) -> Result<HashMap<String, String>, Failure> {
    let rows = queries::queries(path).map_err(|error| error.of_flag("--documents"))?;
    Ok(rows.into_iter().map(|row| (row.id, row.text)).collect())
}
