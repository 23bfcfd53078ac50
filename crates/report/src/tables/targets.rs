//! The languages that `translation` drew, and the scores per target language.

use super::{Cell, Tables, column, plain};
use crate::{Report, format::share, languages::by_source};

pub(super) fn add(tables: &mut Tables, report: &Report) {
    if report.languages.draws.is_empty() {
        return;
    }
    let rows = by_source(&report.languages.draws)
        .into_iter()
        .map(|(transformation, seed, source, targets, texts)| {
            plain(vec![
                Cell::text(transformation),
                Cell::text(seed.to_string()),
                Cell::text(source.unwrap_or("detected")),
                Cell::text(targets.join(", ")),
                Cell::shown(texts.to_string(), texts as f64),
            ])
        });
    tables.add(
        "hteb-d-1",
        "HTEB, appendix D.1, the languages drawn",
        "Target languages of the translation, per seed and language of the texts. Over the seeds of a run no language is drawn \
         a second time before each was drawn once. A text is never translated into its own language."
            .to_owned(),
        ["Transformation", "Seed", "From", "Into", "Texts"]
            .map(|name| column("", name))
            .to_vec(),
        rows.collect(),
    );
    if report.languages.targets.is_empty() {
        return;
    }
    let rows = report.languages.targets.iter().map(|row| {
        plain(vec![
            Cell::text(&row.encoder),
            Cell::text(&row.target),
            Cell::shown(row.datasets.to_string(), row.datasets as f64),
            Cell::shown(row.cells.to_string(), row.cells as f64),
            Cell::score(row.original),
            Cell::score(row.translated),
            Cell::change(row.delta),
            Cell::shown(share(row.unchanged), row.unchanged),
        ])
    });
    tables.add(
        "hteb-14-targets",
        "HTEB, table 14, by target language",
        "Scores on translated texts per target language: the mean over the seeds of a data set that went into the language, then \
         over data sets. Original: the same data sets, so rows with other data sets have another original. Unchanged: texts \
         that stayed as they were. Two languages with a plus: the sides of a pair went into one each."
            .to_owned(),
        ["Encoder", "Into", "Data sets", "Data sets × seeds", "Original", "Translated", "Δ", "Unchanged"]
            .map(|name| column("", name))
            .to_vec(),
        rows.collect(),
    );
}
