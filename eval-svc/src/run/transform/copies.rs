//! The changed copies that the transform service makes, after the rewrites of a round.

use std::{collections::HashSet, mem};

use isomer_proto::{
    ProtoEnum,
    transform::v1::{Check, Outcome, TransformResult},
};

use super::{
    TextResults,
    pairs::rewrites_of,
    responses::TransformOrder,
    sender::{Pass, RequestSender},
};
use crate::{
    report::CopyCounts,
    run::{
        RunError,
        plan::{
            Layout, Variant,
            copies::{may_swap, request, what},
            requests::chunks,
            rounds::Round,
            table::TextRequest,
            transformations::PlannedTransformation,
        },
    },
    separation::{Kind, SeparationSettings, TextCopies, choose, differs, keeps_half},
};

/// Requests the other copies from the transform service, for the data sets of a round.
pub(crate) async fn copy(
    sender: &mut RequestSender<'_>,
    layout: &mut Layout,
    round: &Round,
    text_results: &mut TextResults,
) -> Result<(), RunError> {
    let Some(settings) = layout.suite.separation.settled() else {
        return Ok(());
    };
    for &table in &round.tables {
        let mut candidates = match layout.tables.get_mut(table) {
            Some(table) => mem::take(&mut table.copies.candidates),
            None => continue,
        };
        if !candidates.is_empty() {
            if settings.kinds.contains(&Kind::MultiSwap) {
                swap(sender, layout, table, &settings, &mut candidates).await?;
            }
            layout.tables[table].copies.chosen = choose(candidates, &settings)
                .into_iter()
                .map(|one| one.map(|copy| layout.corpus.intern(copy)))
                .collect();
        }
        if settings.kinds.contains(&Kind::Distractors) {
            distract(sender, layout, round, table, text_results).await?;
        }
    }
    Ok(())
}

/// Swaps words of the candidates in their order until enough texts have a copy.
async fn swap(
    sender: &mut RequestSender<'_>,
    layout: &mut Layout,
    table: usize,
    settings: &SeparationSettings,
    candidates: &mut [TextCopies<String>],
) -> Result<(), RunError> {
    let mut found = 0;
    for some in candidates.chunks_mut(settings.texts.max(1)) {
        if found >= settings.texts {
            break;
        }
        let may: Vec<&mut TextCopies<String>> = some
            .iter_mut()
            .filter(|one| may_swap(one.language.as_deref()))
            .collect();
        let requests: Vec<TextRequest> = may.iter().map(|one| request(one)).collect();
        let results = request_copies(sender, layout, Kind::MultiSwap, &requests).await?;
        for (one, result) in may.into_iter().zip(results) {
            let counts = layout.tables[table].copies.counts.entry(Kind::MultiSwap).or_default();
            let copies = usable(Kind::MultiSwap, layout.corpus.get(one.text), &result, counts);
            one.copies
                .extend(copies.into_iter().map(|copy| (Kind::MultiSwap, copy)));
        }
        found += some.iter().filter(|one| !one.copies.is_empty()).count();
    }
    Ok(())
}

/// Requests copies of the chosen texts that now have a rewrite and were not requested before.
async fn distract(
    sender: &mut RequestSender<'_>,
    layout: &mut Layout,
    round: &Round,
    table: usize,
    text_results: &mut TextResults,
) -> Result<(), RunError> {
    let mut rewritten = HashSet::new();
    for variant in round.variants(layout) {
        if let Variant::Transformed { transformation, .. } = variant
            && layout
                .transformations
                .get(transformation)
                .is_some_and(PlannedTransformation::keeps_meaning)
        {
            let pairs = rewrites_of(layout, text_results, table, variant);
            rewritten.extend(pairs.into_iter().map(|(text, _)| text));
        }
    }
    let copies = &layout.tables[table].copies;
    let positions: Vec<usize> = (0..copies.chosen.len())
        .filter(|at| {
            rewritten.contains(&copies.chosen[*at].text) && !copies.requested.contains(&copies.chosen[*at].text)
        })
        .collect();
    let requests: Vec<TextRequest> = positions.iter().map(|at| request(&copies.chosen[*at])).collect();
    let results = request_copies(sender, layout, Kind::Distractors, &requests).await?;
    for (at, result) in positions.into_iter().zip(results) {
        text_results.note_generator(&result);
        let copies = &mut layout.tables[table].copies;
        let text = copies.chosen[at].text;
        copies.requested.insert(text);
        let counts = copies.counts.entry(Kind::Distractors).or_default();
        let made = usable(Kind::Distractors, layout.corpus.get(text), &result, counts);
        let numbers = made
            .iter()
            .map(|copy| (Kind::Distractors, layout.corpus.intern(copy.as_str())));
        layout.tables[table].copies.chosen[at].copies.extend(numbers);
    }
    Ok(())
}

async fn request_copies(
    sender: &mut RequestSender<'_>,
    layout: &Layout,
    kind: Kind,
    requests: &[TextRequest],
) -> Result<Vec<TransformResult>, RunError> {
    if requests.is_empty() {
        return Ok(Vec::new());
    }
    let what = what(kind);
    sender.expect(requests.len());
    let plan = sender.plan;
    let order = TransformOrder {
        spec: plan.copy_spec(layout, kind),
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
    let chunks = |_, most| chunks(&requests, &layout.corpus, most);
    sender.gather(&[Pass { order, texts }], &chunks, &mut take).await?;
    Ok(all)
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
