//! `isomer index robustness`: one collection on queries and on the same queries rephrased.

use std::process::ExitCode;

use isomer_eval::stats::gate::Verdict;
use isomer_index::compare::{self, Query, rules};
use isomer_proto::{
    encoder::v1::Priority,
    transform::v1::{
        OnFailure, Outcome, TextItem, TransformResult, TransformSpec, TransformStreamRequest,
        transform_stream_response::Event,
    },
};

use super::{
    compare::{asked, code, settings, side},
    compared::{self, RephrasedComparison},
    failure,
};
use isomer_transformations::wire;

use crate::{
    args::index_compare::IndexRobustnessArgs,
    commands::{
        augment::prefetch_generator,
        transform::catalogue::{catalogue, client, named},
    },
    connect::{Connection, Session},
    exit::{Failure, GATE_NOT_PASSED},
    progress::{Display, Step},
};

pub(super) async fn run(session: &Session, args: IndexRobustnessArgs) -> Result<ExitCode, Failure> {
    let display = Display::new(session.global.quiet);
    for name in &args.transformations {
        named("--transformation", name)?;
    }
    if !(0.0..=1.0).contains(&args.max_unchanged) {
        return Err(Failure::usage("--max-unchanged: give a share from 0 to 1"));
    }
    let settings = settings(&args.search, &args.judged, &args.intervals, &args.gate)?;
    let asked = asked(&args.search, &args.judged, &args.gate)?;
    let connection = session.connect().await?;
    let needing: Vec<String> = catalogue(&connection)
        .await?
        .into_iter()
        .filter(|info| info.needs_generator)
        .map(|info| info.name)
        .collect();
    if args.transformations.iter().any(|name| needing.contains(name)) {
        prefetch_generator(&connection, args.generator.as_deref().unwrap_or_default(), &display).await?;
    }
    let (store, encoder) = side(&connection, &args.collection, None, &display).await?;
    let own = compare::Side {
        store: store.as_ref(),
        encoder: &encoder,
    };
    display.step("searching", &Step::default());
    let words: Vec<&str> = asked.queries.iter().map(|query| query.text.as_str()).collect();
    let original = compare::lists(own, &words, settings).await.map_err(failure)?;
    let mut all = Vec::with_capacity(args.transformations.len());
    for name in &args.transformations {
        let texts = transformed(&connection, &args, name, &asked.queries, &display).await?;
        let unchanged = texts.iter().zip(&words).filter(|(text, own)| text == *own).count();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        display.step("searching", &Step::default());
        let other = compare::lists(own, &texts, settings).await.map_err(failure)?;
        let found = compare::held(&original, &other, &asked.queries, asked.qrels.as_ref(), settings);
        let gate = rules::decide(&found, &args.gate.rules, args.gate.gate_alpha).map_err(failure)?;
        all.push(RephrasedComparison {
            transformation: name.clone(),
            unchanged,
            invalid: unchanged as f64 > args.max_unchanged * words.len() as f64,
            found,
            gate,
        });
    }
    connection.flush().await;
    compared::robustness(session.global.format, &all, settings.resampling.level)?;
    let verdict = Verdict::of_all(all.iter().filter_map(|own| Some(own.gate.as_ref()?.verdict)));
    let invalid = all.iter().any(|own| own.invalid && own.gate.is_some());
    // An invalid result does not pass, but a failure among the others still fails.
    let valid = all.iter().filter(|own| !own.invalid);
    let failed = valid
        .filter_map(|own| own.gate.as_ref())
        .any(|gate| gate.verdict == Verdict::Fail);
    Ok(match (invalid, failed) {
        (true, false) => ExitCode::from(GATE_NOT_PASSED),
        (true, true) => code(Some(Verdict::Fail), args.gate.undecided),
        (false, _) => code(verdict, args.gate.undecided),
    })
}

/// The rephrased queries; those that could not be transformed stay unchanged.
async fn transformed(
    connection: &Connection,
    args: &IndexRobustnessArgs,
    name: &str,
    queries: &[Query],
    display: &Display,
) -> Result<Vec<String>, Failure> {
    let request = TransformStreamRequest {
        spec: Some(TransformSpec {
            transformation: Some(wire::message(&named("--transformation", name)?)),
            generator_id: args.generator.clone().unwrap_or_default(),
            seed: Some(args.seed),
            on_failure: OnFailure::KeepOriginal.into(),
            ..TransformSpec::default()
        }),
        items: queries
            .iter()
            .map(|query| TextItem {
                id: query.id.clone(),
                text: query.text.clone(),
                language: args.language.clone(),
            })
            .collect(),
        priority: Priority::Batch.into(),
    };
    let mut stream = client(connection).transform_stream(request).await?.into_inner();
    let mut texts: Vec<Option<String>> = vec![None; queries.len()];
    let (mut done, mut complaint) = (0, None);
    while let Some(message) = stream.message().await? {
        let Some(Event::Result(result)) = message.event else {
            continue;
        };
        done += 1;
        if !result.texts.is_empty() {
            return Err(Failure::usage(format!(
                "--transformation: {name} gives several texts of one; name one that gives a single text"
            )));
        }
        if !result.error.is_empty() {
            complaint.get_or_insert_with(|| result.error.clone());
        }
        let text = text_of(&result, queries);
        if let Some(place) = texts.get_mut(result.index as usize) {
            *place = text;
        }
        display.step(
            name,
            &Step {
                done,
                total: Some(queries.len() as u64),
                ..Step::default()
            },
        );
    }
    let texts: Option<Vec<String>> = texts.into_iter().collect();
    let texts = texts.ok_or_else(|| {
        Failure::dependency(format!(
            "the service answered {done} of {} queries; run it again to resume from the cache",
            queries.len()
        ))
    })?;
    if texts.iter().zip(queries).all(|(text, query)| *text == query.text) {
        let why = complaint.map_or_else(String::new, |why| format!(": {why}"));
        return Err(Failure::dependency(format!(
            "--transformation: {name} left every query as it was{why}; nothing would be measured"
        )));
    }
    Ok(texts)
}

fn text_of(result: &TransformResult, queries: &[Query]) -> Option<String> {
    match result.outcome() {
        Outcome::Ok | Outcome::Recovered => Some(result.text.clone()),
        Outcome::KeptOriginal | Outcome::Failed | Outcome::Unspecified => {
            Some(queries.get(result.index as usize)?.text.clone())
        }
    }
}
