//! Intervals of a profile's differences, by resampling the items of its data sets.
//!
//! Every difference of a profile is a fixed sum over scores: mean over seeds, over the
//! transformations of an axis, over axes, minus the original. For each resample of a data set's
//! items all of its scores are computed, original and transformed on the same items, and summed as
//! in the profile. Over data sets, members of a group are averaged first, then groups.
//!
//! Cost: scores x items x resamples. A data set is resampled a thousand times, or fewer the more
//! points it has, so that one score never takes more than [`MOST_STEPS`] steps. For 100,000 pairs
//! 200 resamples are enough, because their interval is narrow. Memory: one number for each score
//! and resample, and one data set's evidence at a time.

use std::collections::BTreeSet;

use rayon::prelude::*;

use super::{
    Axis, EncoderProfile, Grid, Moved, NotComputed, RobustnessProfile,
    dose::{self, ColumnDrop},
    strata::Figure,
};
use crate::evidence::{
    Evidence, PreparedEvidence,
    interval::{DeltaInterval, ResampledDifference, over_groups, satterthwaite},
    resample::Clusters,
    subset::{self, Mask},
};

/// Number of resamples of every data set's items, unless it has many.
const RESAMPLES: usize = 1_000;
const LEAST_RESAMPLES: usize = 200;
/// Maximum points x resamples of one score, unless that is fewer than [`LEAST_RESAMPLES`].
const MOST_STEPS: usize = 20_000_000;
/// Level of every interval.
pub(crate) const LEVEL: f64 = 0.95;
/// Maximum difference between evidence and its score, in points.
const TOLERANCE: f64 = 1e-6;

/// Information about a data set's items that does not depend on the encoder.
#[derive(Debug, Clone, PartialEq)]
pub struct DatasetItems {
    /// The cluster of each item: items that share a text ([`isomer_scoring::evidence::clusters`]).
    pub clusters: Vec<u32>,
    /// `[transformation][seed]`: the items all of whose transformed texts changed.
    pub changed: Vec<Vec<Mask>>,
    /// `[transformation][seed]`: the items all of whose transformed texts a judge accepts; empty if
    /// no ratings count.
    pub accepted: Vec<Vec<Mask>>,
}

/// Evidence of an encoder's scores on a data set.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitItems {
    /// On the original texts.
    pub original: Evidence,
    /// `[transformation][seed]`.
    pub transformed: Vec<Vec<Evidence>>,
}

impl UnitItems {
    /// The original, then every transformation and seed.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Evidence> {
        std::iter::once(&self.original).chain(self.transformed.iter().flatten())
    }
}

/// A difference of the profile as a sum over the scores of one data set: the original, then every
/// transformation and seed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sum(pub(crate) Vec<f64>);

impl Sum {
    /// Mean over the columns' seeds, each column weighted by its share, minus the original.
    fn of(grid: &Grid, shares: &[(usize, f64)]) -> Self {
        let seeds = grid.seeds.len();
        let mut terms = vec![0.0; 1 + grid.columns.len() * seeds];
        terms[0] = -1.0;
        for (column, share) in shares {
            for s in 0..seeds {
                terms[1 + column * seeds + s] += share / seeds as f64;
            }
        }
        Self(terms)
    }

    fn column(grid: &Grid, column: usize) -> Self {
        Self::of(grid, &shares(grid, Figure::Transformation(column)))
    }

    fn axis(grid: &Grid, axis: Axis) -> Self {
        Self::of(grid, &shares(grid, Figure::Axis(axis)))
    }

    fn total(grid: &Grid) -> Self {
        Self::of(grid, &shares(grid, Figure::Total))
    }

    /// The figure of a rule: a drop, which is original minus transformed, or a score by itself.
    pub(super) fn of_rule(grid: &Grid, figure: Figure, drop: bool) -> Self {
        let Self(mut terms) = Self::of(grid, &shares(grid, figure));
        match (figure, drop) {
            (Figure::Original, _) => terms[0] = 1.0,
            (_, true) => terms.iter_mut().for_each(|term| *term = -*term),
            (_, false) => terms[0] = 0.0,
        }
        Self(terms)
    }

    /// The sum over the scores of one encoder, minus the same sum over those of another.
    pub(super) fn less_itself(&self) -> Self {
        let other = self.0.iter().map(|term| -term);
        Self(self.0.iter().copied().chain(other).collect())
    }

    /// One factor for each score: the original, then every transformation and seed.
    pub(super) fn terms(&self) -> &[f64] {
        &self.0
    }

    /// The sum over the scores of data sets: members of a group first, then groups.
    fn over_groups(&self, groups: &[Vec<usize>], scores: &[Vec<f64>]) -> f64 {
        let of_group = |own: &Vec<usize>| own.iter().map(|d| self.on(&scores[*d])).sum::<f64>() / own.len() as f64;
        groups.iter().map(of_group).sum::<f64>() / groups.len() as f64
    }

    /// The sum over these scores; NaN if a score that counts is NaN.
    fn on(&self, scores: &[f64]) -> f64 {
        let terms = self.0.iter().zip(scores).filter(|(term, _)| **term != 0.0);
        terms.map(|(term, score)| term * score).sum()
    }
}

/// The columns of a figure, each with its share: the shares add up to 1, or to 0 for the original.
pub(crate) fn shares(grid: &Grid, figure: Figure) -> Vec<(usize, f64)> {
    let columns: Vec<Axis> = grid.columns.iter().map(|column| column.axis).collect();
    shares_of(&columns, figure)
}

/// The columns of a figure by their axes, each with its share.
pub fn shares_of(columns: &[Axis], figure: Figure) -> Vec<(usize, f64)> {
    let on = |axis: Axis| {
        (0..columns.len())
            .filter(|c| columns[*c] == axis)
            .collect::<Vec<usize>>()
    };
    let axes: Vec<Vec<usize>> = match figure {
        Figure::Original => Vec::new(),
        Figure::Transformation(column) => vec![vec![column]],
        Figure::Axis(axis) => vec![on(axis)],
        Figure::Total => {
            let counted: BTreeSet<Axis> = columns.iter().copied().filter(|axis| axis.in_total()).collect();
            counted.into_iter().map(on).collect()
        }
    };
    let of_axis = |own: &Vec<usize>| {
        let share = 1.0 / (axes.len() * own.len()) as f64;
        own.iter().map(|c| (*c, share)).collect::<Vec<_>>()
    };
    axes.iter().flat_map(of_axis).collect()
}

/// The number of resamples of the items of a data set whose scores have `points` points.
pub(crate) fn resamples(points: usize) -> usize {
    (MOST_STEPS / points.max(1)).clamp(LEAST_RESAMPLES, RESAMPLES)
}

/// The scores of one encoder on one data set over resamples of its items.
pub(crate) struct Replicates {
    /// The scores themselves, in points, in the order of a [`Sum`].
    scores: Vec<f64>,
    /// The same scores on each resample.
    resampled: Vec<Vec<f64>>,
    clusters: usize,
    freedom: f64,
}

impl Replicates {
    pub(super) fn new(
        grid: &Grid,
        (e, d): (usize, usize),
        items: &DatasetItems,
        unit: &UnitItems,
    ) -> Result<Self, String> {
        let evidence: Vec<&Evidence> = unit.all().collect();
        Self::of(grid.scores(e, d), &evidence, &items.clusters, &grid.datasets[d])
    }

    /// Scores in points, each with its evidence, over the same resamples of the same items.
    pub(crate) fn of(
        scores: Vec<f64>,
        evidence: &[&Evidence],
        clusters: &[u32],
        dataset: &str,
    ) -> Result<Self, String> {
        let fits = evidence.len() == scores.len() && evidence.iter().all(|one| one.items() == clusters.len());
        let Some(first) = evidence.first().filter(|_| fits) else {
            return Err("its items do not fit its scores".to_owned());
        };
        let all: Vec<PreparedEvidence<'_>> = evidence.iter().map(|one| PreparedEvidence::new(one)).collect();
        let whole = vec![1.0; clusters.len()];
        for (prepared, score) in all.iter().zip(&scores) {
            let found = prepared.score(&whole).map_or(f64::NAN, |found| found * 100.0);
            let apart = (found - score).abs();
            if apart.is_nan() || apart > TOLERANCE {
                return Err(format!("its items give {found} where the score is {score}"));
            }
        }
        let clusters = Clusters::new(clusters, first, dataset);
        let resampled = (0..resamples(first.points()))
            .into_par_iter()
            .map_init(Vec::new, |weights, index| {
                clusters.draw(index, weights);
                let score =
                    |prepared: &PreparedEvidence<'_>| prepared.score(weights).map_or(f64::NAN, |score| score * 100.0);
                all.iter().map(score).collect()
            })
            .collect();
        Ok(Self {
            scores,
            resampled,
            clusters: clusters.len(),
            freedom: clusters.effective() - 1.0,
        })
    }

    pub(crate) fn resampled(&self, sum: &Sum) -> Option<ResampledDifference> {
        let values: Vec<f64> = self.resampled.iter().map(|scores| sum.on(scores)).collect();
        ResampledDifference::new(sum.on(&self.scores), &values, self.clusters, self.freedom)
    }
}

/// The weight of each data set: members of a group first, then groups.
fn weights(groups: &[Vec<usize>], datasets: usize) -> Vec<f64> {
    let mut weights = vec![0.0; datasets];
    for own in groups {
        for d in own {
            weights[*d] = 1.0 / (groups.len() * own.len()) as f64;
        }
    }
    weights
}

/// A difference over data sets, on each resample.
fn resampled_over_datasets(weights: &[f64], all: &[&Replicates], sum: &Sum) -> Vec<f64> {
    let resamples = all.iter().map(|one| one.resampled.len()).max().unwrap_or(0);
    // Data sets are resampled independently; if a data set has fewer resamples, they are repeated.
    let of_dataset = |d: usize, b: usize| weights[d] * sum.on(&all[d].resampled[b % all[d].resampled.len()]);
    let values = (0..resamples).map(|b| (0..all.len()).map(|d| of_dataset(d, b)).sum());
    values.collect()
}

/// A difference over data sets: members of a group first, then groups.
pub(crate) fn over_datasets(groups: &[Vec<usize>], all: &[&Replicates], sum: &Sum) -> Option<ResampledDifference> {
    let weights = weights(groups, all.len());
    let estimate = (0..all.len()).map(|d| weights[d] * sum.on(&all[d].scores)).sum::<f64>();
    let values = resampled_over_datasets(&weights, all, sum);
    let parts: Option<Vec<(f64, f64)>> = (0..all.len())
        .map(|d| {
            let own = all[d].resampled(sum)?;
            Some((weights[d] * weights[d] * own.variance(), own.freedom()))
        })
        .collect();
    let clusters = all.iter().map(|one| one.clusters).sum();
    ResampledDifference::new(estimate, &values, clusters, satterthwaite(&parts?))
}

/// Adds intervals to the profile, and the differences over changed texts. `items` has an entry per
/// data set of the grid; `evidence` returns that of an encoder on a data set, or the reason why
/// there is none. A data set without evidence has no interval over items, and then there is none
/// over data sets either; the profile states the reason.
pub fn add_intervals(
    profile: &mut RobustnessProfile,
    grid: &Grid,
    items: &[DatasetItems],
    mut evidence: impl FnMut(usize, usize) -> Result<UnitItems, String>,
) {
    let groups = grid.members();
    let mut missing: Vec<String> = Vec::new();
    for (e, encoder) in profile.encoders.iter_mut().enumerate() {
        let mut all = Vec::with_capacity(items.len());
        for (d, own) in items.iter().enumerate() {
            let found = evidence(e, d).and_then(|unit| {
                changed(encoder, d, own, &unit);
                Replicates::new(grid, (e, d), own, &unit)
            });
            match found {
                Ok(replicates) => {
                    within(encoder, grid, d, &replicates);
                    all.push(replicates);
                }
                Err(why) => missing.push(format!("{} on {}: {why}", grid.encoders[e], grid.datasets[d])),
            }
        }
        let complete = all.len() == grid.datasets.len();
        over(
            encoder,
            grid,
            e,
            &groups,
            complete.then_some(all.iter().collect::<Vec<_>>().as_slice()),
        );
    }
    if let (Some(first), Some(scope)) = (missing.first(), profile.scopes.first_mut()) {
        let more = match missing.len() {
            1 => String::new(),
            n => format!(", and {} more", n - 1),
        };
        scope.not_computed.push(NotComputed {
            what: "Intervals over items".to_owned(),
            why: format!("{first}{more}"),
        });
    }
}

/// Limits the interval of a score to the range of scores.
fn within_scale(mut interval: DeltaInterval) -> DeltaInterval {
    interval.low = interval.low.max(-100.0);
    interval.high = interval.high.min(100.0);
    interval
}

/// Intervals of one data set.
fn within(encoder: &mut EncoderProfile, grid: &Grid, d: usize, replicates: &Replicates) {
    let Some(profile) = encoder.datasets.get_mut(d) else {
        return;
    };
    let interval = |sum: &Sum| Some(replicates.resampled(sum)?.interval(LEVEL));
    profile.original_interval = interval(&Sum::of_rule(grid, Figure::Original, false)).map(within_scale);
    if let Some(total) = &mut profile.total {
        total.intervals.items = interval(&Sum::total(grid));
    }
    for axis in &mut profile.axes {
        axis.moved.intervals.items = interval(&Sum::axis(grid, axis.axis));
    }
    for (c, one) in profile.transformations.iter_mut().enumerate() {
        one.moved.intervals.items = interval(&Sum::column(grid, c));
    }
}

/// Intervals over data sets: over items if every data set has them, over groups if there are at
/// least two.
fn over(encoder: &mut EncoderProfile, grid: &Grid, e: usize, groups: &[Vec<usize>], all: Option<&[&Replicates]>) {
    let own = |d: usize| -> Vec<f64> {
        let transformed = grid.transformed[e][d].iter().flatten();
        std::iter::once(&grid.original[e][d])
            .chain(transformed)
            .copied()
            .collect()
    };
    let scores: Vec<Vec<f64>> = (0..grid.datasets.len()).map(own).collect();
    let fill = |moved: &mut Moved, sum: &Sum| {
        let resampled = all.and_then(|all| over_datasets(groups, all, sum));
        let differences: Vec<f64> = groups
            .iter()
            .map(|own| own.iter().map(|d| sum.on(&scores[*d])).sum::<f64>() / own.len() as f64)
            .collect();
        let error = resampled.as_ref().map(ResampledDifference::standard_error);
        moved.intervals.datasets = over_groups(&differences, error, LEVEL);
        moved.intervals.items = resampled.map(|own| own.interval(LEVEL));
    };
    let drop_of = |column| {
        let sum = Sum::of_rule(grid, Figure::Transformation(column), true);
        ColumnDrop {
            drop: sum.over_groups(groups, &scores),
            resampled: all.map(|all| resampled_over_datasets(&weights(groups, all.len()), all, &sum)),
        }
    };
    encoder.doses = dose::curves(grid, drop_of, LEVEL);
    if let Some(total) = &mut encoder.total {
        fill(total, &Sum::total(grid));
    }
    for axis in &mut encoder.axes {
        fill(&mut axis.moved, &Sum::axis(grid, axis.axis));
    }
    for (c, one) in encoder.transformations.iter_mut().enumerate() {
        fill(&mut one.moved, &Sum::column(grid, c));
    }
}

/// The differences over the items whose texts changed.
fn changed(encoder: &mut EncoderProfile, d: usize, items: &DatasetItems, unit: &UnitItems) {
    let Some(profile) = encoder.datasets.get_mut(d) else {
        return;
    };
    let seeds = unit.transformed.iter().zip(&items.changed);
    for (one, (scores, masks)) in profile.transformations.iter_mut().zip(seeds) {
        let seeds = scores.iter().zip(masks.iter().map(Vec::as_slice));
        one.delta_changed = Some(subset::over_seeds(&unit.original, seeds));
    }
}

/// The interval that a profile gives its differences, for callers that have only two scores: a
/// plain difference of transformed and original over items, for example that of an augmentation.
pub fn difference(
    original: &Evidence,
    transformed: &Evidence,
    clusters: &[u32],
    name: &str,
    level: f64,
) -> Option<DeltaInterval> {
    let grid = {
        let column = super::Column::new(name, Axis::Augmentation);
        let mut grid = Grid::new(vec![String::new()], vec![name.to_owned()], vec![column], vec![0]);
        grid.original[0][0] = original.whole()? * 100.0;
        grid.transformed[0][0][0][0] = transformed.whole()? * 100.0;
        grid
    };
    let items = DatasetItems {
        clusters: clusters.to_vec(),
        changed: Vec::new(),
        accepted: Vec::new(),
    };
    let unit = UnitItems {
        original: original.clone(),
        transformed: vec![vec![transformed.clone()]],
    };
    let replicates = Replicates::new(&grid, (0, 0), &items, &unit).ok()?;
    Some(replicates.resampled(&Sum::column(&grid, 0))?.interval(level))
}

#[cfg(test)]
mod tests;
