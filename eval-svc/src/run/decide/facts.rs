//! Counts of a run's texts for the gate: changed texts, truncated texts, and texts accepted by the
//! judge.

use super::results::RunResults;
use crate::{
    change::{Change, same_rewrites},
    gate::{ChanceLevels, Cut, CutCounts, EncodingCounts, Facts, RatedCounts, RatingCounts, RewriteCounts, Rewrites},
    profile::Axis,
    run::{
        encode::excerpt,
        plan::{Layout, Variant, encoders::EncoderVariant, table::Table},
        score::ScoreEntry,
        transform::{TextResults, pairs::results_of},
    },
};

#[derive(Debug)]
pub(crate) struct Counts {
    rewrites: RewriteCounts,
    cuts: CutCounts,
    ratings: Option<RatedCounts>,
    levels: ChanceLevels,
    leaks: Vec<Option<f64>>,
    providers: Vec<bool>,
    items: Vec<usize>,
}

impl Counts {
    /// Counts of the rounds so far.
    pub(crate) fn new(results: &RunResults, levels: ChanceLevels) -> Self {
        let (layout, encoders) = (&results.layout, &results.encoders);
        // A stored form may be too coarse for texts that differ.
        let is_plain = |position: usize| encoders[position].variant == EncoderVariant::Plain;
        Self {
            providers: (0..encoders.len())
                .map(|position| is_plain(position) && encoders.is_provider(position))
                .collect(),
            rewrites: rewrites(layout, &results.text_results),
            cuts: cuts(layout, encoders.len(), &results.scores),
            ratings: ratings(results),
            levels,
            leaks: layout.tables.iter().map(leak).collect(),
            items: layout.tables.iter().map(informative_items).collect(),
        }
    }

    /// The counts in the gate's form.
    pub(crate) fn facts(&self) -> Facts<'_> {
        Facts {
            rewrites: &self.rewrites,
            cuts: &self.cuts,
            ratings: self.ratings.as_ref(),
            levels: &self.levels,
            leaks: &self.leaks,
            providers: &self.providers,
            items: &self.items,
        }
    }
}

/// Share of the rows of a data set that leaked; `None` if the suite allows as many.
fn leak(table: &Table) -> Option<f64> {
    let share = table.dataset.audit().leak()?;
    (!table.spec.allows_leak(share)).then_some(share)
}

/// Number of items of a data set whose score can differ.
fn informative_items(table: &Table) -> usize {
    let certain = usize::try_from(table.dataset.audit().all_relevant).unwrap_or(usize::MAX);
    table.dataset.items().saturating_sub(certain)
}

/// Counts of rewritten texts, for the gate.
fn rewrites(layout: &Layout, text_results: &TextResults) -> RewriteCounts {
    let of_table = |table: &Table| {
        let of_transformation = |t: usize| {
            let axis = layout.transformations.get(t).map(|planned| planned.axis);
            let lengthened = matches!(axis, Some(Axis::Length | Axis::Augmentation));
            let by_dose = axis == Some(Axis::Noise);
            let of_seed = |s: usize| {
                let mut counted = Rewrites::default();
                let mut pairs = Vec::new();
                for (original, result) in results_of(layout, text_results, table, t, s) {
                    counted.add(result.change, lengthened, !result.guards.is_empty());
                    if !by_dose && result.change != Change::Unchanged {
                        pairs.push((layout.corpus.get(original), layout.corpus.get(result.text)));
                    }
                }
                counted.same = same_rewrites(pairs);
                counted
            };
            (0..layout.suite.seeds.len()).map(of_seed).collect()
        };
        (0..layout.transformations.len()).map(of_transformation).collect()
    };
    layout.tables.iter().map(of_table).collect()
}

/// Texts truncated by each encoder. No rule counts texts that no transformation changes.
fn cuts(layout: &Layout, encoders: usize, scores: &[ScoreEntry]) -> CutCounts {
    let empty = Cut {
        transformed: vec![vec![Default::default(); layout.suite.seeds.len()]; layout.transformations.len()],
        ..Cut::default()
    };
    let mut all = vec![vec![empty; layout.tables.len()]; encoders];
    for one in scores {
        let Some(own) = all.get_mut(one.encoder).and_then(|own| own.get_mut(one.table)) else {
            continue;
        };
        let encoded = EncodingCounts {
            cut: one.cuts.varied,
            zero: one.cuts.zero,
        };
        match one.variant {
            Variant::Original => {
                own.original = encoded;
                own.shared = one.cuts.shared.map(|shared| (shared.shared, shared.texts));
                let texts = layout.tables[one.table].dataset.texts();
                let text = |position: usize| Some(excerpt(&texts.get(position)?.text));
                let example = one.cuts.shared.and_then(|shared| shared.example);
                own.example = example.and_then(|[one, other]| Some([text(one)?, text(other)?]));
            }
            Variant::Transformed { transformation, seed } => own.transformed[transformation][seed] = encoded,
        }
    }
    all
}

/// Ratings that the gate may use; `None` without a judge of similarity, and if the judge does not
/// distinguish pairs with a known rating.
fn ratings(results: &RunResults) -> Option<RatedCounts> {
    let layout = &results.layout;
    let ratings = results.ratings.as_ref().filter(|ratings| ratings.refusal().is_none())?;
    let seeds = vec![RatingCounts::default(); layout.suite.seeds.len()];
    let mut all = vec![vec![seeds; layout.transformations.len()]; layout.tables.len()];
    for one in &ratings.samples {
        let own = &mut all[one.table][one.transformation][one.seed];
        for pair in &one.pairs {
            if let Some(accepted) = ratings.accepts(one.transformation, *pair) {
                own.rated += 1;
                own.accepted += u64::from(accepted);
            }
        }
    }
    Some(all)
}
