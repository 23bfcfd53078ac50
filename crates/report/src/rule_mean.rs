//! The mean of a rule's quantity, from the profile: shown in addition to an estimate that is not a
//! mean.

use std::collections::BTreeMap;

use super::{GateReport, GateRule, Report, RuleVerdict};
use crate::{
    profile::{DatasetProfile, EncoderProfile},
    stats::mean,
    terms::{Basis, Measure},
};

impl GateRule {
    /// The kind of a rule's estimate, in words.
    pub fn estimator(&self) -> &'static str {
        match self.basis {
            Basis::SignedRank => "pseudo-median",
            Basis::ClopperPearson => "share of texts",
            Basis::Point
            | Basis::Bounded
            | Basis::Student
            | Basis::Bootstrap
            | Basis::StudentisedBootstrap
            | Basis::Betting => "mean",
        }
    }
}

impl Report {
    /// The mean over groups of a rule's quantity, from the profile: drop, score or difference. It
    /// is for rules whose estimate is not that mean itself. `None` if a rule was decided in an
    /// earlier round than the last, on fewer data sets than the profile has.
    pub fn mean_beside(&self, gate: &GateReport, rule: &GateRule, said: &RuleVerdict, encoder: &str) -> Option<f64> {
        let last = gate.sequential.as_ref().is_none_or(|run| run.taken == said.round);
        (rule.estimator() == "pseudo-median" && last).then(|| self.mean_of_rule(gate, rule, encoder))?
    }

    fn mean_of_rule(&self, gate: &GateReport, rule: &GateRule, encoder: &str) -> Option<f64> {
        let own = self.profile_of(encoder)?;
        let other = gate.baseline.as_deref().and_then(|name| self.profile_of(name));
        let mut groups: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for name in &rule.datasets {
            let d = self.datasets.iter().position(|one| one.name == *name)?;
            let score = |encoder: &EncoderProfile| score(encoder.datasets.get(d)?, &rule.of);
            let (now, original) = (score(own)?, own.datasets.get(d)?.original);
            if rule.kind.row().each_dataset {
                return None;
            }
            let value = match rule.kind.measure() {
                Measure::Drop => original - now,
                Measure::DropPercent => (original - now) / original * 100.0,
                Measure::Score => now,
                Measure::Difference => now - score(other?)?,
                // Values of texts and items do not come from the profile's groups.
                Measure::Separation | Measure::NegativeFlips | Measure::Overlap => return None,
            };
            let group = match self.datasets[d].group.as_str() {
                "" => name,
                group => group,
            };
            groups.entry(group).or_default().push(value);
        }
        let of_groups: Option<Vec<f64>> = groups.values().map(|own| mean(own)).collect();
        mean(&of_groups?).filter(|mean| mean.is_finite())
    }

    fn profile_of(&self, encoder: &str) -> Option<&EncoderProfile> {
        self.profile.encoders.iter().find(|one| one.encoder == encoder)
    }
}

/// Score of a data set under a quantity, by its name: `original`, `total`, an axis or a
/// transformation.
fn score(dataset: &DatasetProfile, of: &str) -> Option<f64> {
    match of {
        "original" => Some(dataset.original),
        "total" => Some(dataset.total.as_ref()?.mean),
        _ => {
            let axis = dataset.axes.iter().find(|one| one.axis.name() == of);
            let own = || dataset.transformations.iter().find(|one| one.transformation == of);
            axis.map(|one| &one.moved)
                .or_else(|| Some(&own()?.moved))
                .map(|moved| moved.mean)
        }
    }
}
