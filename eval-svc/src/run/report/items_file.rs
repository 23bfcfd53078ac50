//! `items.json`: the items behind a run's scores, stored with its report. The store of scores may
//! lose them or be on another machine; this file exists as long as the run.

use std::collections::HashMap;

use serde::Serialize;

use super::ratings;
use crate::{
    evidence::clusters::clusters,
    report::{ITEMS_SCHEMA, ItemTexts, ItemsOfDataset, ItemsOfScore, Report, RunItems},
    run::{
        RunError,
        decide::{items::item_texts, results::RunResults},
        plan::{Layout, Variant, table::Table},
        score::ScoreEntry,
        transform::pairs::texts_of,
        units::UnitStore,
    },
};

/// Name of the file.
pub(crate) const FILE: &str = "items.json";
/// Maximum size of the file; see `REPORT_FORMAT_ITEMS` in `run.proto`.
const MOST_BYTES: usize = 32 << 20;

/// The file of a run.
pub(crate) fn file(results: &RunResults, units: &UnitStore, report: &Report) -> Result<Vec<u8>, RunError> {
    let mut items = RunItems {
        schema: ITEMS_SCHEMA.to_owned(),
        run: report.run.id.clone(),
        isomer_version: report.isomer_version.clone(),
        ..RunItems::default()
    };
    let Some(scores) = scores(results, units, MOST_BYTES)? else {
        return written(&none(&items, MOST_BYTES));
    };
    items.scores = scores;
    let mut texts = Texts::default();
    items.datasets = (0..results.layout.tables.len())
        .map(|table| dataset(results, table, &mut texts))
        .collect();
    if let Some(ratings) = &results.ratings {
        let number = |text: u32| texts.number(&results.layout, text);
        items.judged = ratings::judged_rewrites(results, ratings, number);
    }
    items.texts = texts.all;
    fitted(items, MOST_BYTES)
}

/// The file with as much content as fits: with the texts, without them, or with only the reason.
fn fitted(mut items: RunItems, most: usize) -> Result<Vec<u8>, RunError> {
    let file = written(&items)?;
    if file.len() <= most {
        return Ok(file);
    }
    items.texts = Vec::new();
    items.judged = Vec::new();
    items.datasets.iter_mut().for_each(|own| own.variants.clear());
    items.texts_left_out = Some(format!("the items with their texts take more than {} MiB", most >> 20));
    let file = written(&items)?;
    if file.len() <= most {
        return Ok(file);
    }
    written(&none(&items, most))
}

fn none(items: &RunItems, most: usize) -> RunItems {
    let why = format!(
        "the items of the run take more than {} MiB; check fewer data sets or encoders at once",
        most >> 20
    );
    RunItems::none(&items.run, &items.isomer_version, why)
}

fn written<T: Serialize>(value: &T) -> Result<Vec<u8>, RunError> {
    serde_json::to_vec(value).map_err(|error| RunError::Report(format!("{FILE}: {error}")))
}

/// The items of every score; `None` if they are larger than the maximum size.
fn scores(results: &RunResults, units: &UnitStore, most: usize) -> Result<Option<Vec<ItemsOfScore>>, RunError> {
    let (mut all, mut bytes) = (Vec::with_capacity(results.scores.len()), 0);
    let RunResults { layout, encoders, .. } = results;
    for scored in &results.scores {
        let one = ItemsOfScore {
            encoder: encoders.id(scored.encoder).to_owned(),
            dataset: layout.tables[scored.table].dataset.name().to_owned(),
            transformation: layout.label(scored.variant).map(str::to_owned),
            seed: layout.seed(scored.variant),
            unit: scored.unit.clone(),
            evidence: units.evidence(&scored.unit),
            lists: lists(results, units, scored),
        };
        // Measured individually, so that the items of a huge run are never in memory at once.
        bytes += written(&one)?.len();
        if bytes > most {
            return Ok(None);
        }
        all.push(one);
    }
    Ok(Some(all))
}

fn lists(results: &RunResults, units: &UnitStore, scored: &ScoreEntry) -> Option<crate::task::ResultLists> {
    let task = results.layout.tables[scored.table].dataset.task();
    (task == crate::task::TaskType::Retrieval)
        .then(|| units.lists(&scored.unit))
        .flatten()
}

/// Distinct texts in order of first occurrence.
#[derive(Default)]
struct Texts {
    all: Vec<String>,
    numbers: HashMap<u32, u32>,
}

impl Texts {
    fn number(&mut self, layout: &Layout, text: u32) -> u32 {
        *self.numbers.entry(text).or_insert_with(|| {
            self.all.push(layout.corpus.get(text).to_owned());
            u32::try_from(self.all.len() - 1).unwrap_or(u32::MAX)
        })
    }
}

fn dataset(results: &RunResults, position: usize, texts: &mut Texts) -> ItemsOfDataset {
    let layout = &results.layout;
    let table: &Table = &layout.tables[position];
    let items = table.dataset.item_texts();
    let of_variant = |one: Variant| {
        let all = texts_of(layout, &results.text_results, position, one);
        let mut numbers = |own: &Vec<u32>| -> Vec<u32> {
            let own = own.iter().filter_map(|text| all.get(*text as usize));
            own.map(|text| texts.number(layout, *text)).collect()
        };
        ItemTexts {
            transformation: layout.label(one).map(str::to_owned),
            seed: layout.seed(one),
            texts: items.iter().map(&mut numbers).collect(),
        }
    };
    ItemsOfDataset {
        name: table.dataset.name().to_owned(),
        clusters: clusters(item_texts(table)),
        variants: layout.variants().into_iter().map(of_variant).collect(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::evidence::Evidence;

    #[test]
    fn what_does_not_fit_is_left_out_and_the_file_says_so() {
        let items = RunItems {
            schema: ITEMS_SCHEMA.to_owned(),
            run: "r".to_owned(),
            texts: vec!["x".repeat(2_000)],
            datasets: vec![ItemsOfDataset {
                name: "d".to_owned(),
                clusters: vec![0],
                variants: vec![ItemTexts {
                    transformation: None,
                    seed: None,
                    texts: vec![vec![0]],
                }],
            }],
            scores: vec![ItemsOfScore {
                encoder: "e".to_owned(),
                dataset: "d".to_owned(),
                transformation: None,
                seed: None,
                unit: "u".to_owned(),
                evidence: Some(Evidence::mean(&[0.25; 60], None)),
                lists: None,
            }],
            ..RunItems::default()
        };
        let read = |most| -> RunItems { serde_json::from_slice(&fitted(items.clone(), most).unwrap()).unwrap() };
        assert_eq!(read(1 << 20), items);
        let without = read(1_500);
        assert_eq!(
            (without.scores, without.datasets[0].clusters.len()),
            (items.scores.clone(), 1)
        );
        assert!(without.texts.is_empty() && without.datasets[0].variants.is_empty());
        assert!(without.texts_left_out.is_some() && without.left_out.is_none());
        let nothing = read(600);
        assert!(nothing.scores.is_empty() && nothing.left_out.is_some());
        assert_eq!(nothing.run, "r");
    }
}
