//! The decisions to expect of a run's rules before it starts, and the number of items needed for a
//! wanted probability of a pass. Pure.
//!
//! Only rules on drops over items are foreseen: `max_drop` with `unit = "item"`. Spreads are those
//! of earlier runs ([`super::pilot`]); the real encoder's may differ.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
};

use isomer_proto::eval::v1::{PlannedDataset, PlannedDesign, PlannedRule};

use super::{Plan, pilot::pilot, transformations::PlannedTransformation};
use crate::{
    dataset::Dataset,
    gate::{Adjust, Basis, BoundGate, BoundRule, Quantity, RuleKind, Texts, Unit},
    item_clusters::clusters_of,
    profile::{Axis, Figure, group_weights, shares_of},
    stats::gate::{
        Limit,
        design::{DatasetDesign, Share, allocate, chances},
    },
    suite::Suite,
    task::TaskType,
};

/// Minimum number of items of a data set that has so many.
const LEAST: usize = 50;
/// Maximum number of rows of a data set that a design may take.
pub(crate) const MOST_ROWS: usize = 5_000;
/// Maximum number of rules that are foreseen.
const MOST_RULES: usize = 20;
/// A design asks for at most this many times the rows that there are.
const MOST_TIMES: usize = 64;

/// Sum of squared weights of the scores that a figure is a mean of. Without temperature every seed
/// gives the same rewrite.
pub(crate) fn concentration(figure: Figure, axes: &[Axis], suite: &Suite) -> f64 {
    let seeds = if suite.temperature > 0.0 {
        suite.seeds.len().max(1)
    } else {
        1
    };
    let squares: f64 = shares_of(axes, figure).iter().map(|(_, share)| share * share).sum();
    squares / seeds as f64
}

/// The axes of a run's transformations.
pub(crate) fn axes(transformations: &[PlannedTransformation]) -> Vec<Axis> {
    transformations.iter().map(|planned| planned.axis).collect()
}

/// The quantity of a rule on scores; `None` for separation, which another module decides over
/// texts.
pub(crate) fn figure(rule: &BoundRule) -> Option<Figure> {
    Some(match rule.quantity {
        Quantity::Original => Figure::Original,
        Quantity::Total => Figure::Total,
        Quantity::Axis(axis) => Figure::Axis(axis),
        Quantity::Transformation(column) => Figure::Transformation(column),
        Quantity::Separation(_) => return None,
    })
}

/// The rules that are foreseen: of rewrites of all texts. The number of texts that change, or that
/// a judge accepts, is not known before, and errors made by rule are not rewrites.
fn drop_rules<'a>(gate: &'a BoundGate, axes: &'a [Axis]) -> impl Iterator<Item = (&'a BoundRule, Figure)> {
    let known = |rule: &&BoundRule| {
        rule.rule.limit.kind == RuleKind::MaxDrop
            && rule.unit == Unit::Item
            && rule.basis == Basis::Bounded
            && rule.rule.texts == Texts::All
    };
    let of_rewrites = |figure: Figure| shares_of(axes, figure).iter().all(|(t, _)| axes[*t].in_total());
    gate.rules
        .iter()
        .filter(known)
        .filter_map(move |rule| Some((rule, figure(rule).filter(|figure| of_rewrites(*figure))?)))
}

/// A data set that was loaded, by its rows.
#[derive(Debug, Clone)]
pub(crate) struct DatasetSize {
    name: String,
    task: TaskType,
    /// The group of data sets that it belongs to.
    group: String,
    rows: usize,
    /// Number of clusters of items that share texts.
    clusters: usize,
    /// Number of distinct texts of items that are rewritten.
    texts: usize,
    /// Number of other texts that are rewritten: those of a train split.
    fixed: usize,
}

impl DatasetSize {
    /// A data set of a group.
    pub(crate) fn of(dataset: &Dataset, group: String) -> Self {
        let distinct = |texts: &mut dyn Iterator<Item = u32>| -> BTreeSet<&str> {
            let own = texts.filter_map(|text| dataset.texts().get(text as usize));
            own.filter(|text| text.transformable)
                .map(|text| text.text.as_str())
                .collect()
        };
        let of_items = distinct(&mut dataset.item_texts().into_iter().flatten());
        let all = distinct(&mut (0..u32::try_from(dataset.texts().len()).unwrap_or(u32::MAX)));
        Self {
            name: dataset.name().to_owned(),
            task: dataset.task(),
            group,
            rows: dataset.rows(),
            clusters: clusters_of(dataset)
                .into_iter()
                .max()
                .map_or(0, |last| last as usize + 1),
            fixed: all.difference(&of_items).count(),
            texts: of_items.len(),
        }
    }

    /// Number of its rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The data set with this many times the rows, of the same kind.
    fn times(&self, factor: usize) -> Self {
        Self {
            rows: self.rows * factor,
            clusters: self.clusters * factor,
            texts: self.texts * factor,
            ..self.clone()
        }
    }

    /// The part of `number` that belongs to this many of its rows.
    fn part(&self, number: usize, rows: usize) -> usize {
        (number * rows).div_ceil(self.rows.max(1))
    }
}

/// Weights of data sets.
fn weights<'a>(of: impl Iterator<Item = &'a DatasetSize>) -> Vec<f64> {
    group_weights(&of.map(|one| one.group.as_str()).collect::<Vec<_>>())
}

/// Divides a number of items among data sets so that the variance of the total is as small as the
/// number of rewritten texts permits.
pub(crate) fn divide(total: usize, all: &[DatasetSize], concentration: f64) -> Vec<usize> {
    let share = |(one, weight): (&DatasetSize, f64)| Share {
        // Items that share texts count once together. The root of the cost is that of W. G.
        // Cochran, "Sampling Techniques", 5.5.
        spread: weight * pilot(one.task, concentration).spread() * one.rows as f64
            / (one.clusters as f64 * one.texts as f64).max(1.0).sqrt(),
        least: LEAST.min(total / all.len().max(1)),
        most: one.rows,
    };
    let shares: Vec<Share> = all.iter().zip(weights(all.iter())).map(share).collect();
    allocate(total, &shares)
}

/// The foreseen rules of a run.
#[derive(Debug, Clone)]
pub(crate) struct RuleForecasts {
    alpha: f64,
    rules: Vec<RuleForecast>,
    /// Of the total.
    concentration: f64,
    /// Rewrites of a text.
    rewrites: usize,
}

#[derive(Debug, Clone)]
struct RuleForecast {
    title: String,
    limit: Limit,
    datasets: Vec<usize>,
    concentration: f64,
}

impl RuleForecasts {
    /// The rules of a plan on drops over items.
    pub(crate) fn of(plan: &Plan) -> Self {
        let layout = &plan.layout;
        let axes = axes(&layout.transformations);
        let of_rule = |(rule, figure): (&BoundRule, Figure)| RuleForecast {
            title: rule.title.clone(),
            limit: rule.rule.held(),
            datasets: rule.datasets.clone(),
            concentration: concentration(figure, &axes, &layout.suite),
        };
        let gate = plan.stages.gate.as_ref();
        Self {
            // Of several encoders, Holm's procedure decides the first at this level.
            alpha: gate.map_or(0.0, |gate| match gate.adjust {
                Adjust::None => gate.alpha,
                Adjust::Holm => gate.alpha / gate.judged.len().max(1) as f64,
            }),
            rules: gate.map_or_else(Vec::new, |gate| {
                drop_rules(gate, &axes).take(MOST_RULES).map(of_rule).collect()
            }),
            concentration: concentration(Figure::Total, &axes, &layout.suite),
            rewrites: layout.transformations.len() * layout.suite.seeds.len(),
        }
    }

    /// Whether no rule is foreseen.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Probabilities of the verdicts of each rule at one look on everything.
    pub(crate) fn chances(&self, all: &[DatasetSize], left: &AtomicBool) -> Vec<PlannedRule> {
        let items: Vec<usize> = all.iter().map(DatasetSize::rows).collect();
        let of_rule = |rule: &RuleForecast| {
            let planned = rule.planned(all, &items);
            let limit = rule.limit.value;
            let at = |drop: f64| chances(rule.limit, self.alpha, &planned, drop).ok();
            PlannedRule {
                title: rule.title.clone(),
                limit,
                pass_without_drop: at(0.0).map(|found| found.pass),
                pass_at_half: at(limit / 2.0).map(|found| found.pass),
                fail_at_twice: at(limit * 2.0).map(|found| found.fail),
            }
        };
        let stays = |_: &&RuleForecast| !left.load(Ordering::Relaxed);
        self.rules.iter().take_while(stays).map(of_rule).collect()
    }

    /// The smallest number of items with which every rule passes an encoder that does not drop,
    /// with this probability. If the rows that there are do not suffice, it is the number of rows
    /// of the same kinds. `None` without a rule that can be foreseen.
    pub(crate) fn design(&self, all: &[DatasetSize], wanted: f64, left: &AtomicBool) -> Option<PlannedDesign> {
        let whole = self.pass(all, None)?;
        let mut larger = all.to_vec();
        let mut enough = whole >= wanted;
        let mut times = 2;
        while !enough && times <= MOST_TIMES && !left.load(Ordering::Relaxed) {
            larger = all.iter().map(|one| one.times(times)).collect();
            enough = self.pass(&larger, None)? >= wanted;
            times *= 2;
        }
        if !enough {
            larger = all.to_vec();
        }
        let total: usize = larger.iter().map(DatasetSize::rows).sum();
        // Each data set gets a row.
        let (mut below, mut above) = (all.len().min(total).saturating_sub(1), total);
        while enough && above - below > 1 && !left.load(Ordering::Relaxed) {
            let middle = usize::midpoint(below, above);
            if self.pass(&larger, Some(middle))? < wanted {
                below = middle;
            } else {
                above = middle;
            }
        }
        let items = divide(above, &larger, self.concentration);
        let texts = larger.iter().zip(&items);
        let texts = texts.map(|(one, rows)| one.part(one.texts, *rows) + one.fixed);
        let dataset = |(one, rows): (&DatasetSize, &usize)| PlannedDataset {
            name: one.name.clone(),
            items: *rows as u64,
            available_items: one.rows as u64,
        };
        let reached = whole >= wanted;
        Some(PlannedDesign {
            total_items: items.iter().sum::<usize>() as u64,
            datasets: all.iter().zip(&items).map(dataset).collect(),
            rewrites: (texts.sum::<usize>() * self.rewrites) as u64,
            pass_without_drop: if reached { self.pass(all, Some(above))? } else { whole },
            reached,
        })
    }

    /// Probability that every rule passes an encoder that does not drop, with this number of items
    /// or all: that of the rule where it is smallest.
    fn pass(&self, all: &[DatasetSize], total: Option<usize>) -> Option<f64> {
        let total = total.unwrap_or_else(|| all.iter().map(DatasetSize::rows).sum());
        let items = divide(total, all, self.concentration);
        let of_rule = |rule: &RuleForecast| chances(rule.limit, self.alpha, &rule.planned(all, &items), 0.0).ok();
        let all: Option<Vec<_>> = self.rules.iter().map(of_rule).collect();
        all?.into_iter().map(|found| found.pass).reduce(f64::min)
    }
}

impl RuleForecast {
    /// Its data sets with this number of items each.
    fn planned(&self, all: &[DatasetSize], items: &[usize]) -> Vec<DatasetDesign> {
        let own = self.datasets.iter().map(|d| &all[*d]);
        let planned = |((d, one), weight): ((&usize, &DatasetSize), f64)| DatasetDesign {
            weight,
            items: one.part(one.clusters, items[*d]).max(1),
            values: pilot(one.task, self.concentration),
        };
        self.datasets
            .iter()
            .zip(own.clone())
            .zip(weights(own))
            .map(planned)
            .collect()
    }
}
