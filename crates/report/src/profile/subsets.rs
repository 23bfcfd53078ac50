//! Scores on some of the rewrites: changed ones, or those that a judge accepts.
//!
//! Each transformation and seed has its own items: those all of whose texts it changed, or all of
//! whose rewrites are accepted. The original is scored on the same items, so that the difference is
//! paired. A figure (an axis, the total) averages these as it averages whole scores.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Axis, Grid,
    items::{DatasetItems, UnitItems, resamples, shares},
    strata::{Figure, clusters, known},
};
use crate::{
    evidence::{
        Evidence, PreparedEvidence,
        interval::ResampledDifference,
        resample::Clusters,
        subset::{self, Mask},
    },
    stats::{
        self,
        gate::{bounded::Range, items::Evidence as StratumEvidence},
    },
    terms::Texts,
};

impl Texts {
    /// The items of each transformation and seed; `None`: all.
    pub(super) fn masks(self, items: &DatasetItems) -> Option<&[Vec<Mask>]> {
        match self {
            Self::All => None,
            Self::Changed => Some(&items.changed),
            Self::Accepted => Some(&items.accepted),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::All => "rewritten",
            Self::Changed => "changed",
            Self::Accepted => "accepted",
        }
    }
}

/// A figure on some of the rewrites, beside the same figure on all of them. Differences are
/// transformed less original, in points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubsetRow {
    /// Encoder id.
    pub encoder: String,
    /// `total`, an axis, or a transformation with its parameters.
    pub of: String,
    /// Groups of data sets that have such rewrites under every transformation of the figure. Both
    /// differences are over these.
    pub groups: usize,
    /// The difference on all items; absent where no data set has such rewrites.
    pub all: Option<f64>,
    /// The difference on the items whose rewrites are looked at.
    pub chosen: Option<f64>,
    /// Items that are looked at, added over data sets, transformations and seeds.
    pub items: u64,
    /// Items in all, added likewise.
    pub of_items: u64,
}

impl SubsetRow {
    /// Contribution of the other rewrites to the difference.
    pub fn contribution(&self) -> Option<f64> {
        Some(self.all? - self.chosen?)
    }
}

fn mask(masks: &[Vec<Mask>], c: usize, s: usize) -> &[bool] {
    masks.get(c).and_then(|own| own.get(s)).map_or(&[], Vec::as_slice)
}

/// One value per seed for a data set: the drop (original less transformed), or the transformed
/// score, in points, on the chosen items.
///
/// # Errors
/// The transformation that has no such items, or on whose items the score is undefined, as a
/// message.
pub fn series(
    grid: &Grid,
    (figure, drop): (Figure, bool),
    texts: Texts,
    items: &DatasetItems,
    unit: &UnitItems,
) -> Result<Vec<f64>, String> {
    let masks = texts
        .masks(items)
        .ok_or_else(|| "all rewrites are looked at".to_owned())?;
    let shares = shares(grid, figure);
    let value = |c: usize, s: usize| -> Result<f64, String> {
        let label = &grid.columns[c].label;
        let own = mask(masks, c, s);
        let transformed = unit.transformed.get(c).and_then(|seeds| seeds.get(s));
        let transformed = transformed.ok_or_else(|| format!("no items are kept for {label}"))?;
        let found = if drop {
            subset::delta(&unit.original, transformed, own).map(|delta| -delta)
        } else if transformed.items() == own.len() {
            transformed.score(&weights(own, None)).map(|score| score * 100.0)
        } else {
            None
        };
        found.ok_or_else(|| {
            let kept = own.iter().filter(|kept| **kept).count();
            format!(
                "{kept} of {} items have {} texts under {label}, on which its score is undefined",
                transformed.items(),
                texts.words()
            )
        })
    };
    let of_seed = |s: usize| shares.iter().map(|(c, share)| Ok(share * value(*c, s)?)).sum();
    (0..grid.seeds.len()).map(of_seed).collect()
}

/// Weights of the chosen items: how often a resample drew each.
fn weights(mask: &[bool], drawn: Option<&[f64]>) -> Vec<f64> {
    let kept = mask.iter().enumerate();
    kept.map(|(i, kept)| match (kept, drawn) {
        (false, _) => 0.0,
        (true, None) => 1.0,
        (true, Some(drawn)) => drawn.get(i).copied().unwrap_or(0.0),
    })
    .collect()
}

/// The evidence of a rule over items for a data set, on the chosen items; `range` is the range of
/// an item's value where all items count.
pub(super) fn evidence(
    grid: &Grid,
    rule: (Figure, bool),
    (name, items, masks): (&str, &DatasetItems, &[Vec<Mask>]),
    unit: &UnitItems,
    range: Range,
) -> Result<StratumEvidence, String> {
    let cells = cells(grid, rule.0, masks, unit)?;
    if let Some((values, scale)) = values(&cells, rule.1, &unit.original) {
        return Ok(StratumEvidence::Items {
            clusters: clusters(&items.clusters, &values),
            range: Range {
                low: range.low * scale,
                high: range.high * scale,
            },
        });
    }
    let (original, drawn) = (
        PreparedEvidence::new(&unit.original),
        Clusters::new(&items.clusters, &unit.original, name),
    );
    let prepared: Vec<PreparedEvidence<'_>> = cells
        .iter()
        .map(|cell| PreparedEvidence::new(cell.transformed))
        .collect();
    let sum = |drawn: Option<&[f64]>| -> f64 {
        let each = cells.iter().zip(&prepared).map(|(cell, prepared)| {
            let weights = weights(cell.mask, drawn);
            let score = |of: &PreparedEvidence<'_>| of.score(&weights).map_or(f64::NAN, |score| score * 100.0);
            let value = score(prepared);
            cell.share * if rule.1 { score(&original) - value } else { value }
        });
        each.sum()
    };
    let resampled: Vec<f64> = (0..resamples(unit.original.points()))
        .into_par_iter()
        .map_init(Vec::new, |weights, index| {
            drawn.draw(index, weights);
            sum(Some(weights))
        })
        .collect();
    // The number of clusters is reduced to the smallest share of items that any of the scores uses.
    let kept = cells.iter().map(|cell| cell.kept as f64 / cell.mask.len() as f64);
    let least = kept.fold(1.0, f64::min);
    let clusters = (drawn.len() as f64 * least).round() as usize;
    known(ResampledDifference::new(
        sum(None),
        &resampled,
        clusters,
        drawn.effective() * least - 1.0,
    ))
}

/// A transformation and seed of a figure.
struct Cell<'a> {
    share: f64,
    transformed: &'a Evidence,
    mask: &'a [bool],
    kept: usize,
}

fn cells<'a>(
    grid: &Grid,
    figure: Figure,
    masks: &'a [Vec<Mask>],
    unit: &'a UnitItems,
) -> Result<Vec<Cell<'a>>, String> {
    let seeds = grid.seeds.len();
    let mut all = Vec::new();
    for (c, share) in shares(grid, figure) {
        for s in 0..seeds {
            let label = &grid.columns[c].label;
            let transformed = unit.transformed.get(c).and_then(|own| own.get(s));
            let transformed = transformed.ok_or_else(|| format!("no items are kept for {label}"))?;
            let mask = mask(masks, c, s);
            let kept = mask.iter().filter(|kept| **kept).count();
            if kept == 0 || mask.len() != transformed.items() || mask.len() != unit.original.items() {
                return Err(format!(
                    "{kept} of {} items have such texts under {label}",
                    transformed.items()
                ));
            }
            all.push(Cell {
                share: share / seeds as f64,
                transformed,
                mask,
                kept,
            });
        }
    }
    Ok(all)
}

/// If every score is a mean over items: values whose mean is the figure on the chosen items, and
/// the factor by which their range is wider than that of differences of whole scores. An item
/// counts in each cell in which it is chosen, with a weight that is larger the fewer items are
/// chosen.
fn values(cells: &[Cell<'_>], drop: bool, original: &Evidence) -> Option<(Vec<Option<f64>>, f64)> {
    let Evidence::Mean { values: originals, .. } = original else {
        return None;
    };
    let mut sums: Vec<Option<f64>> = originals.iter().map(|value| value.map(|_| 0.0)).collect();
    let scored = sums.iter().flatten().count() as f64;
    let mut scale = 0.0;
    for cell in cells {
        let Evidence::Mean { values, .. } = cell.transformed else {
            return None;
        };
        // An item that only one of the scores leaves out has no difference: the means would be of
        // different items.
        if values.len() != originals.len() || values.iter().zip(originals).any(|(a, b)| a.is_some() != b.is_some()) {
            return None;
        }
        let chosen = |i: usize| cell.mask[i] && originals[i].is_some();
        let kept = (0..originals.len()).filter(|i| chosen(*i)).count();
        if kept == 0 {
            return None;
        }
        let factor = cell.share * scored / kept as f64;
        scale += factor;
        for (i, sum) in sums.iter_mut().enumerate().filter(|(i, _)| chosen(*i)) {
            if let (Some(sum), Some(made), Some(was)) = (sum.as_mut(), values[i], originals[i]) {
                *sum += factor * 100.0 * if drop { was - made } else { made };
            }
        }
    }
    Some((sums, scale))
}

/// One row for each figure: the total, each axis, each transformation. `unit` has an entry per data
/// set of the grid.
pub fn rows(
    grid: &Grid,
    e: usize,
    texts: Texts,
    items: &[DatasetItems],
    unit: impl Fn(usize) -> Result<UnitItems, String>,
) -> Vec<SubsetRow> {
    let mut figures: Vec<(String, Figure)> = Vec::new();
    let axes = grid.axes();
    if axes.iter().any(|axis| axis.in_total()) {
        figures.push(("total".to_owned(), Figure::Total));
    }
    figures.extend(
        axes.into_iter()
            .map(|axis: Axis| (axis.name().to_owned(), Figure::Axis(axis))),
    );
    let columns = grid.columns.iter().enumerate();
    figures.extend(columns.map(|(c, column)| (column.label.clone(), Figure::Transformation(c))));
    let units: Vec<Option<UnitItems>> = (0..items.len()).map(|d| unit(d).ok()).collect();
    let row = |(of, figure): (String, Figure)| {
        let (mut all, mut chosen) = (Vec::new(), Vec::new());
        let (mut counted, mut of_items) = (0, 0);
        for own in grid.members() {
            let (mut wholes, mut parts) = (Vec::new(), Vec::new());
            for d in own {
                let (Some(items), Some(Some(unit))) = (items.get(d), units.get(d)) else {
                    continue;
                };
                for (c, _) in shares(grid, figure) {
                    for own in texts.masks(items).and_then(|masks| masks.get(c)).into_iter().flatten() {
                        counted += own.iter().filter(|kept| **kept).count() as u64;
                        of_items += own.len() as u64;
                    }
                }
                let Ok(seeds) = series(grid, (figure, true), texts, items, unit) else {
                    continue;
                };
                let whole = shares(grid, figure).into_iter().map(|(c, share)| {
                    let scores = &grid.transformed[e][d][c];
                    share * (stats::mean(scores).unwrap_or(f64::NAN) - grid.original[e][d])
                });
                parts.extend(stats::mean(&seeds).map(|drop| -drop));
                wholes.push(whole.sum::<f64>());
            }
            all.extend(stats::mean(&wholes));
            chosen.extend(stats::mean(&parts));
        }
        SubsetRow {
            encoder: grid.encoders[e].clone(),
            of,
            groups: chosen.len(),
            all: stats::mean(&all),
            chosen: stats::mean(&chosen),
            items: counted,
            of_items,
        }
    };
    figures.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn grid() -> Grid {
        let columns = [("paraphrase", Axis::Lexical), ("summarisation", Axis::Length)];
        let mut grid = Grid::of(&["a"], &["x"], &columns, &[1]);
        grid.original[0][0] = 100.0;
        grid.transformed[0][0] = vec![vec![25.0], vec![50.0]];
        grid
    }

    fn items(accepted: [[bool; 4]; 2]) -> DatasetItems {
        DatasetItems {
            clusters: vec![0, 1, 2, 3],
            changed: vec![vec![vec![true; 4]]; 2],
            accepted: accepted.map(|mask| vec![mask.to_vec()]).to_vec(),
        }
    }

    /// Original 1 everywhere; paraphrase loses items 1 to 3, summarisation 2 and 3.
    fn unit() -> UnitItems {
        let mean = |values: &[f64]| Evidence::mean(values, None);
        UnitItems {
            original: mean(&[1.0; 4]),
            transformed: vec![vec![mean(&[1.0, 0.0, 0.0, 0.0])], vec![mean(&[1.0, 1.0, 0.0, 0.0])]],
        }
    }

    const POINTS: Range = Range {
        low: -100.0,
        high: 100.0,
    };

    #[test]
    fn a_drop_is_that_of_the_chosen_items_of_each_transformation() {
        let items = items([[true, true, false, false], [true, true, true, false]]);
        let of = |figure, drop| series(&grid(), (figure, drop), Texts::Accepted, &items, &unit()).unwrap()[0];
        assert_eq!(of(Figure::Transformation(0), true), 50.0);
        assert!((of(Figure::Axis(Axis::Length), true) - 100.0 / 3.0).abs() < 1e-9);
        assert!((of(Figure::Total, true) - 125.0 / 3.0).abs() < 1e-9);
        assert_eq!(of(Figure::Transformation(0), false), 50.0);
        assert_eq!(
            series(&grid(), (Figure::Total, true), Texts::Changed, &items, &unit()).unwrap(),
            [62.5]
        );
    }

    #[test]
    fn values_of_items_have_the_figure_as_their_mean() {
        let items = items([[true, true, false, false], [true, true, true, false]]);
        for (figure, drop) in [
            (Figure::Total, true),
            (Figure::Total, false),
            (Figure::Transformation(0), true),
        ] {
            let wanted = series(&grid(), (figure, drop), Texts::Accepted, &items, &unit()).unwrap()[0];
            let masks = Texts::Accepted.masks(&items).unwrap();
            let found = evidence(&grid(), (figure, drop), ("x", &items, masks), &unit(), POINTS).unwrap();
            let StratumEvidence::Items { clusters, range } = found else {
                panic!("{found:?}")
            };
            let mean = clusters.iter().map(|one| one.sum).sum::<f64>() / 4.0;
            assert!((mean - wanted).abs() < 1e-9, "{mean} {wanted}");
            assert!(
                clusters.iter().all(|one| one.sum.abs() <= range.high + 1e-9),
                "{range:?}"
            );
        }
    }

    #[test]
    fn what_has_no_such_items_is_named_and_left_out_of_the_row() {
        let items = items([[false; 4], [true; 4]]);
        let why = series(&grid(), (Figure::Total, true), Texts::Accepted, &items, &unit()).unwrap_err();
        assert!(
            why.contains("0 of 4 items have accepted texts under paraphrase"),
            "{why}"
        );
        let masks = Texts::Accepted.masks(&items).unwrap();
        assert!(evidence(&grid(), (Figure::Total, true), ("x", &items, masks), &unit(), POINTS).is_err());
        let rows = rows(&grid(), 0, Texts::Accepted, &[items], |_| Ok(unit()));
        let totals: Vec<(&str, usize, Option<f64>)> = rows
            .iter()
            .map(|row| (row.of.as_str(), row.groups, row.chosen))
            .collect();
        assert_eq!(
            totals,
            [
                ("total", 0, None),
                ("lexical", 0, None),
                ("length", 1, Some(-50.0)),
                ("paraphrase", 0, None),
                ("summarisation", 1, Some(-50.0))
            ]
        );
        assert_eq!((rows[0].items, rows[0].of_items), (4, 8));
    }

    #[test]
    fn bad_rewrites_are_what_the_rest_adds() {
        let items = items([[true, false, false, false], [true, true, false, false]]);
        let rows = rows(&grid(), 0, Texts::Accepted, &[items], |_| Ok(unit()));
        assert_eq!((rows[0].all, rows[0].chosen), (Some(-62.5), Some(0.0)));
        assert_eq!(rows[0].contribution(), Some(-62.5));
    }

    #[test]
    fn a_score_that_is_no_mean_is_resampled_on_the_chosen_items() {
        let n = 60;
        let gold: Vec<f64> = (0..n).map(f64::from).collect();
        let spearman = |noise: f64| Evidence::Spearman {
            gold: gold.clone(),
            predicted: (0..n)
                .map(|i| (f64::from(i) + noise * f64::from((i * 7) % 11)) as f32)
                .collect(),
            points: Vec::new(),
        };
        let unit = UnitItems {
            original: spearman(0.5),
            transformed: vec![vec![spearman(2.0)], vec![spearman(4.0)]],
        };
        let half: Mask = (0..n).map(|i| i % 2 == 0).collect();
        let items = DatasetItems {
            clusters: (0..n as u32).collect(),
            changed: Vec::new(),
            accepted: vec![vec![half.clone()], vec![half]],
        };
        let masks = Texts::Accepted.masks(&items).unwrap();
        let wanted = series(&grid(), (Figure::Total, true), Texts::Accepted, &items, &unit).unwrap()[0];
        match evidence(&grid(), (Figure::Total, true), ("x", &items, masks), &unit, POINTS).unwrap() {
            StratumEvidence::Measured {
                estimate,
                standard_error,
                freedom,
            } => {
                assert!((estimate - wanted).abs() < 1e-9, "{estimate} {wanted}");
                assert!(standard_error > 0.0);
                assert_eq!(freedom, 29.0);
            }
            other @ StratumEvidence::Items { .. } => panic!("{other:?}"),
        }
    }
}
