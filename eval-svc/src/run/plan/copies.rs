//! The plan of the changed copies of a run's texts: those that rules make, and the requests for the
//! others. [`crate::separation`] defines the terms.

use std::collections::HashSet;

use super::{
    Layout,
    table::{Table, TextRequest},
    transformations::PlannedTransformation,
};
use crate::{
    profile::is_english,
    run::RunError,
    separation::{Kind, Source, TextCopies, candidates, count_once},
};

/// Makes the rule-based copies, unless separation is not measured. It runs on a blocking thread,
/// because texts are tagged.
pub(crate) async fn prepare(layout: &mut Layout) -> Result<(), RunError> {
    let Some(settings) = layout.suite.separation.settled() else {
        return Ok(());
    };
    let seed = layout.first_seed();
    let sources: Vec<Vec<Source>> = layout.tables.iter().map(|table| sources(layout, table)).collect();
    let made = tokio::task::spawn_blocking(move || {
        let of_table = |sources: &Vec<Source>| candidates(sources, &settings, seed);
        sources.iter().map(of_table).collect::<Vec<_>>()
    });
    let mut made = made.await?;
    count_once(&mut made, |text| layout.corpus.get(text).to_owned());
    for (table, candidates) in layout.tables.iter_mut().zip(made) {
        table.copies.candidates = candidates;
    }
    Ok(())
}

/// The distinct texts of a data set that are transformed.
fn sources(layout: &Layout, table: &Table) -> Vec<Source> {
    let mut seen = HashSet::new();
    let requests = table.requests.distinct.iter().flatten();
    let texts = requests.filter_map(|request| layout.requests.distinct.get(*request));
    texts
        .filter(|request| seen.insert(request.text))
        .map(|request| Source {
            text: request.text,
            content: layout.corpus.get(request.text).to_owned(),
            language: request.language.clone(),
        })
        .collect()
}

/// The maximum number of texts that may be compared for a kind of change (`None`: any) over some
/// data sets, known before anything is generated.
pub(crate) fn most_texts(layout: &Layout, kind: Option<Kind>, tables: &[usize]) -> u64 {
    let Some(settings) = layout.suite.separation.settled() else {
        return 0;
    };
    if !layout.transformations.iter().any(PlannedTransformation::keeps_language) {
        return 0;
    }
    let kinds: Vec<Kind> = kind.map_or(settings.kinds, |kind| vec![kind]);
    let may_have = |one: &TextCopies<String>| {
        kinds.iter().any(|kind| match kind {
            Kind::Distractors => true,
            Kind::MultiSwap => may_swap(one.language.as_deref()),
            rule => one.copies.iter().any(|(own, _)| own == rule),
        })
    };
    let (mut texts, mut distinct) = (0, HashSet::new());
    for table in tables.iter().filter_map(|table| layout.tables.get(*table)) {
        let own = table.copies.candidates.iter().filter(|one| may_have(one));
        let own: Vec<u32> = own.map(|one| one.counts_as).collect();
        texts += own.len().min(settings.texts);
        distinct.extend(own);
    }
    texts.min(distinct.len()) as u64
}

/// Texts that a generator may have to change, as many as are compared of each data set. The
/// rewrites determine for which of them copies are requested.
pub(crate) fn generator_candidates(layout: &Layout) -> Vec<TextRequest> {
    let most = layout.suite.separation.settled().map_or(0, |settings| settings.texts);
    let of_table = |table: &Table| {
        table
            .copies
            .candidates
            .iter()
            .take(most)
            .map(request)
            .collect::<Vec<_>>()
    };
    layout.tables.iter().flat_map(of_table).collect()
}

/// Whether the transform service accepts `multi_swap` for a text in this language. `None`: it
/// detects the language.
pub(crate) fn may_swap(language: Option<&str>) -> bool {
    language.is_none_or(is_english)
}

/// Describes the request for copies.
pub(crate) fn what(kind: Kind) -> String {
    format!("{}, for separation", kind.name())
}

/// The request for the copies of a text.
pub(crate) fn request<T>(one: &TextCopies<T>) -> TextRequest {
    TextRequest {
        // The text is used as its id: its draws depend only on it and the seed.
        id: String::new(),
        text: one.text,
        language: one.language.clone(),
    }
}
