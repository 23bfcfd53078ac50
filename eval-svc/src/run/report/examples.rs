//! Example texts of a report: some drawn by content, and those with the largest drift.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::{
    report::{Example, Picked},
    run::{
        decide::results::RunResults,
        plan::{Variant, table::Table, transformations::PlannedTransformation},
        score::drift::DriftEntry,
        transform::{
            Outcome, TextResult,
            pairs::{Pair, pairs_of, requests},
        },
    },
    stats,
};

/// Examples of each dataset and transformation. `each` are drawn by content under the first seed,
/// so that every run shows the same ones. One in four of them is a text that could not be
/// transformed, if there are any. From the remaining texts, the `each` texts with the largest drift
/// under any seed are added, by the mean over encoders.
pub(crate) fn pick(results: &RunResults, each: usize) -> Vec<Example> {
    let mut examples = Vec::new();
    let layout = &results.layout;
    for d in 0..layout.tables.len() {
        for t in 0..layout.transformations.len() {
            let choices = ExampleChoices::new(results, d, t);
            let drawn = choices.drawn(each);
            let shown: BTreeSet<Pair> = drawn
                .iter()
                .map(|(original, result)| (*original, result.text))
                .collect();
            for (original, result) in drawn {
                examples.push(choices.example(0, (original, result.text), result, Picked::Drawn));
            }
            for (seed, pair) in choices.furthest(&shown, each) {
                if let Some(result) = choices.results.get(&(seed, pair)) {
                    examples.push(choices.example(seed, pair, result, Picked::WorstMoved));
                }
            }
        }
    }
    examples
}

/// The texts of one dataset under one transformation.
struct ExampleChoices<'a> {
    run: &'a RunResults,
    table: &'a Table,
    planned: &'a PlannedTransformation,
    /// Requests of the texts, each with its original.
    requests: BTreeMap<usize, u32>,
    /// Position of the transformation.
    transformation: usize,
    /// Drift per encoder (by position) of each seed's pairs.
    drift: HashMap<(usize, Pair), BTreeMap<usize, f64>>,
    /// The result of each seed's pairs.
    results: HashMap<(usize, Pair), &'a TextResult>,
}

impl<'a> ExampleChoices<'a> {
    fn new(run: &'a RunResults, d: usize, t: usize) -> Self {
        let (layout, encoders) = (&run.layout, &run.encoders);
        let (table, planned) = (&layout.tables[d], &layout.transformations[t]);
        let of_request = |request: usize| (request, layout.requests.of(planned)[request].text);
        let mut choices = Self {
            run,
            table,
            planned,
            requests: requests(table, planned).into_iter().map(of_request).collect(),
            transformation: t,
            drift: HashMap::new(),
            results: HashMap::new(),
        };
        let of_seed = |seed: usize| {
            let variant = Variant::transformed(t, seed);
            pairs_of(layout, &run.text_results, d, variant)
        };
        let pairs: Vec<Vec<Pair>> = (0..layout.suite.seeds.len()).map(of_seed).collect();
        let is_shown =
            |one: &&DriftEntry| (one.table, one.transformation) == (d, t) && !encoders.is_variant(one.encoder);
        for one in run.drifts.iter().filter(is_shown) {
            for (pair, drift) in pairs[one.seed].iter().zip(&one.drift) {
                if let Some(drift) = drift {
                    let per_encoder = choices.drift.entry((one.seed, *pair)).or_default();
                    per_encoder.insert(one.encoder, f64::from(*drift));
                }
            }
        }
        for seed in 0..layout.suite.seeds.len() {
            for (request, original) in &choices.requests {
                if let Some(result) = run.text_results.get(t, seed, *request) {
                    choices.results.insert((seed, (*original, result.text)), result);
                }
            }
        }
        choices
    }

    /// The pairs with the largest drift, each once under its first such seed, without pairs that
    /// are already shown.
    fn furthest(&self, shown: &BTreeSet<Pair>, most: usize) -> Vec<(usize, Pair)> {
        let mut all: Vec<(f64, usize, Pair)> = self
            .drift
            .iter()
            .filter(|((_, pair), _)| !shown.contains(pair))
            .map(|((seed, pair), drift)| (mean(drift).unwrap_or_default(), *seed, *pair))
            .collect();
        all.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        // One line per original, because its other seeds would look much the same.
        let mut seen = BTreeSet::new();
        let fresh = all.into_iter().filter(|(_, _, (original, _))| seen.insert(*original));
        fresh.take(most).map(|(_, seed, pair)| (seed, pair)).collect()
    }

    /// Originals with their results under the first seed.
    fn drawn(&self, each: usize) -> Vec<(u32, &'a TextResult)> {
        let digest = |text: u32| *blake3::hash(self.run.layout.corpus.get(text).as_bytes()).as_bytes();
        let by_digest = self.requests.iter();
        let mut by_digest: Vec<([u8; 32], usize, u32)> = by_digest
            .map(|(request, original)| (digest(*original), *request, *original))
            .collect();
        by_digest.sort_unstable();
        let all = by_digest.into_iter().filter_map(|(_, request, original)| {
            let result = self.run.text_results.get(self.transformation, 0, request)?;
            Some((original, result))
        });
        let (good, bad): (Vec<_>, Vec<_>) = all.partition(|(_, result)| is_transformed(result));
        let shown_bad = bad.len().min(each / 4);
        let good = good.into_iter().take(each - shown_bad);
        good.chain(bad.into_iter().take(shown_bad)).collect()
    }

    fn example(&self, seed: usize, pair: Pair, result: &TextResult, picked: Picked) -> Example {
        let layout = &self.run.layout;
        let id = |encoder: &usize| self.run.encoders.id(*encoder).to_owned();
        let drift = self.drift.get(&(seed, pair));
        let drift = drift.filter(|_| picked == Picked::WorstMoved || is_transformed(result));
        Example {
            dataset: self.table.dataset.name().to_owned(),
            transformation: self.planned.label.clone(),
            seed: layout.suite.seeds.get(seed).copied().unwrap_or_default(),
            original: layout.corpus.get(pair.0).to_owned(),
            transformed: layout.corpus.get(pair.1).to_owned(),
            outcome: result.outcome,
            failed_checks: result.failed_checks.iter().map(|name| (*name).to_owned()).collect(),
            edit_distance: result
                .measures
                .map(|measures| measures.edit_distance)
                .filter(|_| is_transformed(result)),
            picked,
            drift: drift.and_then(mean),
            drift_by_encoder: drift
                .map(|drift| drift.iter().map(|(e, drift)| (id(e), *drift)).collect())
                .unwrap_or_default(),
        }
    }
}

fn mean(drift: &BTreeMap<usize, f64>) -> Option<f64> {
    stats::mean(&drift.values().copied().collect::<Vec<f64>>())
}

fn is_transformed(result: &TextResult) -> bool {
    matches!(result.outcome, Outcome::Ok | Outcome::Recovered)
}
