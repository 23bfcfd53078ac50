//! A look at the results of a run, and the rules that it decides.

use std::collections::BTreeMap;

use super::{
    bets::ItemSequences,
    bound::{BoundGate, BoundRule},
    sensitivity::Separations,
    validity::Facts,
};
use crate::{profile::Grid, stats::gate::items::Stratum};

/// Values of the rules on a subset of the rewrites, by position of the encoder and of the rule: for
/// each of the rule's data sets one value per seed, which is a drop, or a score if the rule limits
/// scores. Otherwise the reason why there are none.
pub(crate) type SubsetScores = BTreeMap<(usize, usize), Result<Vec<Vec<f64>>, String>>;

/// Items of the rules over items, by position of the encoder and of the rule: the data sets with
/// their items, or the reason why there are none.
pub(crate) type ItemStrata = BTreeMap<(usize, usize), Result<Vec<Stratum>, String>>;

/// The results so far, and the error probability that this look may spend.
#[derive(Debug, Clone)]
pub(crate) struct Look<'a> {
    /// Data sets with results, by position.
    pub datasets: &'a [usize],
    /// Number of seeds with results, starting with the first.
    pub seeds: usize,
    /// Error probability that this look may spend.
    pub alpha: f64,
    /// The look's number, from 1.
    pub round: usize,
    /// Counts of the texts.
    pub facts: Facts<'a>,
    /// Scores of the rules on a subset of the rewrites.
    pub subsets: &'a SubsetScores,
    /// Results of the rules on separation.
    pub separation: &'a Separations,
    /// Items of the rules over items.
    pub items: &'a ItemStrata,
    /// Items of the rules decided by betting, in the order of their draw.
    pub sequences: &'a ItemSequences,
    /// Number of looks that share the error probability of a rule on separation. Used with betting,
    /// because looks at other rules then spend nothing.
    pub shared_by: usize,
}

/// A rule as it applies to an encoder at a look.
#[derive(Debug, Clone, Copy)]
pub(super) struct RuleCase<'a> {
    pub gate: &'a BoundGate,
    pub grid: &'a Grid,
    pub look: &'a Look<'a>,
    /// Position of the encoder.
    pub encoder: usize,
    /// Position of the rule.
    pub position: usize,
    pub rule: &'a BoundRule,
}

impl<'a> RuleCase<'a> {
    /// Positions of the encoder and of the rule.
    pub(super) fn key(self) -> (usize, usize) {
        (self.encoder, self.position)
    }

    /// Data sets of the rule that have results.
    pub(super) fn datasets(self) -> Vec<usize> {
        let own = self.rule.datasets.iter().copied();
        own.filter(|d| self.look.datasets.contains(d)).collect()
    }

    /// The rules of a gate for an encoder.
    pub(super) fn all(
        gate: &'a BoundGate,
        grid: &'a Grid,
        look: &'a Look<'a>,
        encoder: usize,
    ) -> impl Iterator<Item = RuleCase<'a>> {
        let rules = gate.rules.iter().enumerate();
        rules.map(move |(position, rule)| Self {
            gate,
            grid,
            look,
            encoder,
            position,
            rule,
        })
    }
}
