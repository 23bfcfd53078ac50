//! The texts of a run, which all stages share. Pure.

use super::{
    table::{Corpus, RequestModes, Table, TextRequest},
    transformations::PlannedTransformation,
};
use crate::suite::Suite;

/// The suite of a run and the texts of its data sets.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The suite, including the request's overrides.
    pub suite: Suite,
    pub transformations: Vec<PlannedTransformation>,
    /// Distinct texts.
    pub corpus: Corpus,
    /// Datasets.
    pub tables: Vec<Table>,
    /// Texts to transform.
    pub requests: RequestModes<Vec<TextRequest>>,
}

/// The scored texts of a dataset: the originals, or their transformed texts under a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Variant {
    /// The original texts.
    Original,
    /// The transformed texts.
    Transformed {
        /// Position in [`Layout::transformations`].
        transformation: usize,
        /// Position in the suite's seeds.
        seed: usize,
    },
}

impl Variant {
    pub(crate) fn transformed(transformation: usize, seed: usize) -> Self {
        Self::Transformed { transformation, seed }
    }
}

impl Layout {
    /// Seed of every draw that does not depend on the round: the run's first.
    pub(crate) fn first_seed(&self) -> u64 {
        self.suite.seeds.first().copied().unwrap_or_default()
    }

    /// Number of texts to request: those of each transformation, times the seeds.
    pub(crate) fn texts_planned(&self) -> usize {
        let requested = |planned| self.requests.of(planned).len();
        self.transformations.iter().map(requested).sum::<usize>() * self.suite.seeds.len()
    }

    /// Every variant of a dataset, originals first.
    pub(crate) fn variants(&self) -> Vec<Variant> {
        let transformed = (0..self.transformations.len()).flat_map(|transformation| {
            (0..self.suite.seeds.len()).map(move |seed| Variant::Transformed { transformation, seed })
        });
        std::iter::once(Variant::Original).chain(transformed).collect()
    }

    /// Keeps only these data sets (positions, ascending) and the first seeds, as in a run that
    /// stopped early. Returns the new position of each data set.
    pub(crate) fn narrow(&mut self, tables: &[usize], seeds: usize) -> Vec<Option<usize>> {
        let positions = (0..self.tables.len())
            .map(|t| tables.iter().position(|own| *own == t))
            .collect();
        let mut position = 0;
        self.tables.retain(|_| {
            position += 1;
            tables.contains(&(position - 1))
        });
        self.suite.seeds.truncate(seeds);
        positions
    }

    /// Label of the transformation of a variant; `None` for the originals.
    pub(crate) fn label(&self, variant: Variant) -> Option<&str> {
        match variant {
            Variant::Original => None,
            Variant::Transformed { transformation, .. } => {
                Some(self.transformations.get(transformation)?.label.as_str())
            }
        }
    }

    /// Seed of a variant; `None` for the originals.
    pub(crate) fn seed(&self, variant: Variant) -> Option<u64> {
        match variant {
            Variant::Original => None,
            Variant::Transformed { seed, .. } => self.suite.seeds.get(seed).copied(),
        }
    }

    /// Describes a variant, for example `paraphrase, seed 1337`.
    pub(crate) fn describe(&self, variant: Variant) -> String {
        match (self.label(variant), self.seed(variant)) {
            (Some(label), Some(seed)) => format!("{label}, seed {seed}"),
            _ => "original".to_owned(),
        }
    }
}
