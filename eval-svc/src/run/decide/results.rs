//! The results of a run's stages, which the gate decides on and the report shows.

use crate::{
    report::{GateReport, SequentialReport},
    run::{
        judge::Ratings,
        plan::{Encoders, Layout, RunManifest},
        score::{ScoreEntry, drift::DriftEntry},
        separate::SeparationEntry,
        transform::TextResults,
    },
};

/// The results of the stages so far.
#[derive(Debug)]
pub(crate) struct RunResults {
    /// The texts; numbers the generated ones too.
    pub layout: Layout,
    pub encoders: Encoders,
    pub manifest: RunManifest,
    pub text_results: TextResults,
    /// Every score.
    pub scores: Vec<ScoreEntry>,
    /// The distances by which texts moved.
    pub drifts: Vec<DriftEntry>,
    /// The comparison of rewrites with changes of meaning.
    pub separations: Vec<SeparationEntry>,
    /// The judge's ratings; absent without a judge.
    pub ratings: Option<Ratings>,
    /// The gate's report after the last look; absent without a gate.
    pub verdicts: Option<GateReport>,
}

/// The results of the rounds of a run. Its layout is reduced to the data sets and seeds that were
/// run.
pub(crate) struct RoundResults {
    pub results: RunResults,
    /// Position in the layout of each data set of the rules; `None` if it was not run.
    pub positions: Vec<Option<usize>>,
    /// Whether there was more than one look.
    pub several: bool,
}

impl RunResults {
    /// No results yet.
    pub(crate) fn new(layout: Layout, encoders: Encoders, manifest: RunManifest) -> Self {
        Self {
            text_results: TextResults::new(&layout),
            layout,
            encoders,
            manifest,
            scores: Vec::new(),
            drifts: Vec::new(),
            separations: Vec::new(),
            ratings: None,
            verdicts: None,
        }
    }

    /// Completes the gate's report on its rounds.
    pub(crate) fn complete(&mut self, sequential: Option<SequentialReport>, taken: usize) {
        if let Some(verdicts) = &mut self.verdicts {
            verdicts.sequential = sequential.map(|planned| SequentialReport {
                taken,
                texts_asked: self.text_results.count() as u64,
                scores_made: self.scores.len() as u64,
                ..planned
            });
        }
    }

    /// The reason why no rewrite counts as accepted; `None` if the ratings count.
    pub(crate) fn ratings_refusal(&self) -> Option<String> {
        match &self.ratings {
            None => Some("no judge rated them".to_owned()),
            Some(ratings) => ratings.refusal(),
        }
    }

    /// Keeps only these data sets and the first seeds in the layout, as in a run that stopped
    /// early. Returns the new position of each data set.
    pub(crate) fn narrow(&mut self, tables: &[usize], seeds: usize) -> Vec<Option<usize>> {
        let positions = self.layout.narrow(tables, seeds);
        let of_scores = self.scores.iter_mut().map(|one| &mut one.table);
        let of_drifts = self.drifts.iter_mut().map(|one| &mut one.table);
        let of_separations = self.separations.iter_mut().map(|one| &mut one.table);
        for table in of_scores.chain(of_drifts).chain(of_separations) {
            *table = positions.get(*table).copied().flatten().unwrap_or(*table);
        }
        positions
    }
}
