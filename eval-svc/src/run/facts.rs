//! Counts of a run's texts for the gate: changed texts, truncated texts, and texts accepted by the
//! judge.

use super::{
    measure::Measured,
    plan::{Plan, Variant},
    ratings, summary,
    transform::Transformed,
};
use crate::gate::{ChanceLevels, Cut, CutCounts, Encoded, Facts, Rated, RatedCounts, RewriteCounts};

/// The counts.
#[derive(Debug)]
pub(super) struct Counts {
    rewrites: RewriteCounts,
    cuts: CutCounts,
    ratings: Option<RatedCounts>,
    levels: ChanceLevels,
    leaks: Vec<Option<f64>>,
}

impl Counts {
    /// Counts of the rounds so far.
    pub(super) fn new(plan: &Plan, transformed: &Transformed, measured: &Measured, levels: ChanceLevels) -> Self {
        Self {
            rewrites: summary::rewrites(plan, transformed),
            cuts: cuts(plan, measured),
            ratings: ratings(plan, measured),
            levels,
            leaks: plan.tables.iter().map(|table| table.dataset.audit().leak()).collect(),
        }
    }

    /// The counts in the gate's form.
    pub(super) fn facts(&self) -> Facts<'_> {
        Facts {
            rewrites: &self.rewrites,
            cuts: &self.cuts,
            ratings: self.ratings.as_ref(),
            levels: &self.levels,
            leaks: &self.leaks,
        }
    }
}

/// Texts truncated by each encoder. No rule counts texts that no transformation changes.
fn cuts(plan: &Plan, measured: &Measured) -> CutCounts {
    let empty = Cut {
        transformed: vec![vec![Default::default(); plan.suite.seeds.len()]; plan.transformations.len()],
        ..Cut::default()
    };
    let mut all = vec![vec![empty; plan.tables.len()]; plan.encoders.len()];
    for one in &measured.scored {
        let Some(own) = all.get_mut(one.encoder).and_then(|own| own.get_mut(one.table)) else {
            continue;
        };
        let encoded = Encoded {
            cut: one.cuts.varied,
            zero: one.cuts.zero,
        };
        match one.variant {
            Variant::Original => {
                own.original = encoded;
                own.shared = one.cuts.shared.map(|shared| (shared.shared, shared.texts));
            }
            Variant::Transformed { transformation, seed } => own.transformed[transformation][seed] = encoded,
        }
    }
    all
}

/// Ratings that the gate may use; `None` without a judge of similarity, and if the judge does not
/// distinguish pairs with a known rating.
fn ratings(plan: &Plan, measured: &Measured) -> Option<RatedCounts> {
    let (judge, judged) = plan.judge.as_ref().zip(measured.judged.as_ref())?;
    if ratings::refused(judge, judged).is_some() {
        return None;
    }
    let seeds = vec![Rated::default(); plan.suite.seeds.len()];
    let mut all = vec![vec![seeds; plan.transformations.len()]; plan.tables.len()];
    for one in &judged.drawn {
        let own = &mut all[one.table][one.transformation][one.seed];
        for pair in &one.pairs {
            if let Some(accepted) = judged.accepts(one.transformation, *pair, judge.judging.accept) {
                own.rated += 1;
                own.accepted += u64::from(accepted);
            }
        }
    }
    Some(all)
}
