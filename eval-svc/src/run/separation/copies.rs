//! The changed copies of a run's texts.

use std::{
    collections::{BTreeMap, HashSet},
    mem,
};

use isomer_proto::{
    ProtoEnum,
    transform::v1::{Check, OnFailure, Outcome, Sampling, TransformResult, TransformSpec},
};

use super::{counts, first_seed, rewrites, sets::rewrites_of, slot};
use crate::{
    profile::is_english,
    report::CopyCounts,
    run::{
        RunContext, RunError,
        answers::Order,
        live::Live,
        plan::{Plan, Table, TextRequest, Variant},
        progress::Meter,
        prompting::Key,
        rounds::Round,
        transform::{Pass, Transformed, chunks, gather},
        wire,
    },
    separation::{Changed, Kind, Separating, Source, candidates, choose, count_once, differs, keeps_half},
};

/// CLSD samples its distractors at this temperature, which does not depend on the suite's.
const DISTRACTOR_TEMPERATURE: f64 = 1.0;

/// The changed copies of a data set's texts.
#[derive(Debug, Default)]
pub(in crate::run) struct Copies {
    /// Texts that may be compared, with the copies made by rules; empty once the texts are chosen.
    candidates: Vec<Changed<String>>,
    /// Texts that are compared, with the numbers of their copies.
    pub(super) chosen: Vec<Changed<u32>>,
    /// Of these, texts for which the generator was asked for copies.
    asked: HashSet<u32>,
    /// Counts of the copies requested from the transform service, by kind.
    pub(super) counts: BTreeMap<Kind, CopyCounts>,
}

/// Makes the rule-based copies, unless separation is not measured. It runs on a blocking thread,
/// because texts are tagged.
pub(in crate::run) async fn prepare(plan: &mut Plan) -> Result<(), RunError> {
    let Some(settings) = plan.suite.separation.settled() else {
        return Ok(());
    };
    let seed = first_seed(plan);
    let sources: Vec<Vec<Source>> = plan.tables.iter().map(|table| sources(plan, table)).collect();
    let made = tokio::task::spawn_blocking(move || {
        let of_table = |sources: &Vec<Source>| candidates(sources, &settings, seed);
        sources.iter().map(of_table).collect::<Vec<_>>()
    });
    let mut made = made.await.map_err(|error| RunError::Internal(error.to_string()))?;
    count_once(&mut made, |text| plan.corpus.get(text).to_owned());
    for (table, candidates) in plan.tables.iter_mut().zip(made) {
        table.copies.candidates = candidates;
    }
    Ok(())
}

/// The distinct texts of a data set that are transformed.
fn sources(plan: &Plan, table: &Table) -> Vec<Source> {
    let mut seen = HashSet::new();
    let requests = table.requests.distinct.iter().flatten();
    let texts = requests.filter_map(|request| plan.requests.distinct.get(*request));
    texts
        .filter(|request| seen.insert(request.text))
        .map(|request| Source {
            text: request.text,
            content: plan.corpus.get(request.text).to_owned(),
            language: request.language.clone(),
        })
        .collect()
}

/// The maximum number of texts that may be compared for a kind of change (`None`: any) over some
/// data sets, known before anything is generated.
pub(in crate::run) fn most_texts(plan: &Plan, kind: Option<Kind>, tables: &[usize]) -> u64 {
    let Some(settings) = plan.suite.separation.settled() else {
        return 0;
    };
    if !plan.transformations.iter().any(counts) {
        return 0;
    }
    let kinds: Vec<Kind> = kind.map_or(settings.kinds, |kind| vec![kind]);
    let may_have = |one: &Changed<String>| {
        kinds.iter().any(|kind| match kind {
            Kind::Distractors => true,
            Kind::MultiSwap => may_swap(one.language.as_deref()),
            rule => one.copies.iter().any(|(own, _)| own == rule),
        })
    };
    let (mut texts, mut distinct) = (0, HashSet::new());
    for table in tables.iter().filter_map(|table| plan.tables.get(*table)) {
        let own = table.copies.candidates.iter().filter(|one| may_have(one));
        let own: Vec<u32> = own.map(|one| one.counts_as).collect();
        texts += own.len().min(settings.texts);
        distinct.extend(own);
    }
    texts.min(distinct.len()) as u64
}

/// Texts that a generator may have to change, as many as are compared of each data set. The
/// rewrites determine for which of them copies are requested.
pub(in crate::run) fn may_ask(plan: &Plan) -> Vec<TextRequest> {
    let most = plan.suite.separation.settled().map_or(0, |settings| settings.texts);
    let of_table = |table: &Table| {
        table
            .copies
            .candidates
            .iter()
            .take(most)
            .map(request)
            .collect::<Vec<_>>()
    };
    plan.tables.iter().flat_map(of_table).collect()
}

/// The vectors of the changed copies of a data set's texts.
pub(in crate::run) fn keys(table: &Table, encoder: usize) -> impl Iterator<Item = Key> {
    let slot = slot(table, encoder);
    let all = table.copies.chosen.iter().flat_map(|one| &one.copies);
    all.map(move |(_, copy)| (slot, *copy))
}

/// The specification of a request for copies of a kind. It depends on as little of the suite as
/// possible, so that suites share copies.
pub(in crate::run) fn spec(plan: &Plan, kind: Kind) -> TransformSpec {
    let generator = kind.needs_generator();
    TransformSpec {
        transformation: wire::change_of_meaning(kind),
        generator_id: if generator {
            plan.generator.clone()
        } else {
            String::new()
        },
        seed: Some(first_seed(plan)),
        max_attempts: Some(plan.suite.attempts),
        on_failure: OnFailure::Drop.into(),
        sampling: generator.then(|| Sampling {
            temperature: Some(DISTRACTOR_TEMPERATURE),
            ..Sampling::default()
        }),
        ..TransformSpec::default()
    }
}

/// Whether the transform service accepts `multi_swap` for a text in this language. `None`: it
/// detects the language.
pub(in crate::run) fn may_swap(language: Option<&str>) -> bool {
    language.is_none_or(is_english)
}

/// Requests the other copies from the transform service, for the data sets of a round.
pub(in crate::run) async fn copy(
    context: &RunContext,
    plan: &mut Plan,
    round: &Round,
    transformed: &mut Transformed,
    live: &Live,
    meter: &mut Meter,
) -> Result<(), RunError> {
    let Some(settings) = plan.suite.separation.settled() else {
        return Ok(());
    };
    for &table in &round.tables {
        let mut candidates = match plan.tables.get_mut(table) {
            Some(table) => mem::take(&mut table.copies.candidates),
            None => continue,
        };
        if !candidates.is_empty() {
            if settings.kinds.contains(&Kind::MultiSwap) {
                swap(context, plan, table, &settings, &mut candidates, live, meter).await?;
            }
            plan.tables[table].copies.chosen = choose(candidates, &settings)
                .into_iter()
                .map(|one| one.map(|copy| plan.corpus.intern(copy)))
                .collect();
        }
        if settings.kinds.contains(&Kind::Distractors) {
            distract(context, plan, round, table, transformed, live, meter).await?;
        }
    }
    Ok(())
}

/// Swaps words of the candidates in their order until enough texts have a copy.
async fn swap(
    context: &RunContext,
    plan: &mut Plan,
    table: usize,
    settings: &Separating,
    candidates: &mut [Changed<String>],
    live: &Live,
    meter: &mut Meter,
) -> Result<(), RunError> {
    let mut found = 0;
    for some in candidates.chunks_mut(settings.texts.max(1)) {
        if found >= settings.texts {
            break;
        }
        let may: Vec<&mut Changed<String>> = some
            .iter_mut()
            .filter(|one| may_swap(one.language.as_deref()))
            .collect();
        let requests: Vec<TextRequest> = may.iter().map(|one| request(one)).collect();
        let results = ask(context, plan, Kind::MultiSwap, &requests, live, meter).await?;
        for (one, result) in may.into_iter().zip(results) {
            let counts = plan.tables[table].copies.counts.entry(Kind::MultiSwap).or_default();
            let copies = usable(Kind::MultiSwap, plan.corpus.get(one.text), &result, counts);
            one.copies
                .extend(copies.into_iter().map(|copy| (Kind::MultiSwap, copy)));
        }
        found += some.iter().filter(|one| !one.copies.is_empty()).count();
    }
    Ok(())
}

/// Requests copies of the chosen texts that now have a rewrite and were not requested before.
async fn distract(
    context: &RunContext,
    plan: &mut Plan,
    round: &Round,
    table: usize,
    transformed: &mut Transformed,
    live: &Live,
    meter: &mut Meter,
) -> Result<(), RunError> {
    let mut rewritten = HashSet::new();
    for variant in round.variants(plan) {
        if let Variant::Transformed { transformation, .. } = variant
            && plan.transformations.get(transformation).is_some_and(rewrites)
        {
            let pairs = rewrites_of(plan, transformed, table, variant);
            rewritten.extend(pairs.into_iter().map(|(text, _)| text));
        }
    }
    let copies = &plan.tables[table].copies;
    let wanted: Vec<usize> = (0..copies.chosen.len())
        .filter(|at| rewritten.contains(&copies.chosen[*at].text) && !copies.asked.contains(&copies.chosen[*at].text))
        .collect();
    let requests: Vec<TextRequest> = wanted.iter().map(|at| request(&copies.chosen[*at])).collect();
    let results = ask(context, plan, Kind::Distractors, &requests, live, meter).await?;
    for (at, result) in wanted.into_iter().zip(results) {
        transformed.note_generator(&result);
        let copies = &mut plan.tables[table].copies;
        let text = copies.chosen[at].text;
        copies.asked.insert(text);
        let counts = copies.counts.entry(Kind::Distractors).or_default();
        let made = usable(Kind::Distractors, plan.corpus.get(text), &result, counts);
        let numbers = made
            .iter()
            .map(|copy| (Kind::Distractors, plan.corpus.intern(copy.as_str())));
        plan.tables[table].copies.chosen[at].copies.extend(numbers);
    }
    Ok(())
}

fn request<T>(one: &Changed<T>) -> TextRequest {
    TextRequest {
        // The text is used as its id: its draws depend only on it and the seed.
        id: String::new(),
        text: one.text,
        language: one.language.clone(),
    }
}

async fn ask(
    context: &RunContext,
    plan: &Plan,
    kind: Kind,
    requests: &[TextRequest],
    live: &Live,
    meter: &mut Meter,
) -> Result<Vec<TransformResult>, RunError> {
    if requests.is_empty() {
        return Ok(Vec::new());
    }
    let what = what(kind);
    live.count(|counters| counters.texts_planned += requests.len() as u64);
    meter.grow(requests.len() as u64);
    let order = Order {
        spec: spec(plan, kind),
        producer: plan.producers.get(&what).cloned().unwrap_or_default(),
        what,
        needs_generator: kind.needs_generator(),
        // A text without a copy is counted with its kind; the original does not replace the copy.
        count: |_, _| {},
        ceiling: plan.ceiling,
    };
    let requests: Vec<&TextRequest> = requests.iter().collect();
    let texts = requests.len();
    let mut all = Vec::new();
    let mut take = |_, results| {
        all = results;
        Ok(())
    };
    let chunks = |_, most| chunks(&requests, &plan.corpus, most);
    gather(context, live, meter, &[Pass { order, texts }], &chunks, &mut take).await?;
    Ok(all)
}

/// Describes the request for copies.
pub(in crate::run) fn what(kind: Kind) -> String {
    format!("{}, for separation", kind.name())
}

/// The copies of a result that can be compared; the others are counted.
fn usable(kind: Kind, text: &str, result: &TransformResult, counts: &mut CopyCounts) -> Vec<String> {
    counts.asked += 1;
    if !matches!(result.outcome(), Outcome::Ok | Outcome::Recovered) {
        counts.failed += 1;
        for check in &result.failed_checks {
            let name = Check::name_of(*check).to_owned();
            *counts.failed_checks.entry(name).or_default() += 1;
        }
        if counts.error.is_empty() {
            counts.error.clone_from(&result.error);
        }
        return Vec::new();
    }
    let made = match kind {
        // With one swap, the meaning often stays the same: `pears and apples`. The last text has
        // the most swaps.
        Kind::MultiSwap => result.texts.last().map(std::slice::from_ref).unwrap_or_default(),
        _ => &result.texts,
    };
    let mut copies: Vec<String> = Vec::with_capacity(made.len());
    for copy in made {
        if !differs(text, copy) || copies.iter().any(|other| !differs(other, copy)) {
            counts.equal += 1;
        } else if !keeps_half(text, copy) {
            counts.unlike += 1;
        } else {
            copies.push(copy.clone());
        }
    }
    counts.copies += copies.len() as u64;
    copies
}
