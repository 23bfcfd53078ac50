//! Scores, differences and their intervals.

use rayon::prelude::*;

use super::model::{CosineRow, Gain, GainCell, GainInput, GainStrata, MeanCosine, Stratum};
use crate::{
    evidence::{
        Evidence, PreparedEvidence,
        interval::{DeltaIntervals, ResampledDifference, over_groups},
        resample::Clusters,
        subset::Mask,
    },
    profile::{LEVEL, Replicates, Sum, over_datasets, resamples},
};

/// Minimum number of items of a stratum.
const STRATUM: usize = 40;
/// Maximum number of strata.
const STRATA: usize = 10;

/// The cell of an encoder on a data set.
pub(super) fn cell<'a>(
    input: &'a GainInput,
    encoder: &str,
    dataset: &str,
    setting: Option<&str>,
) -> Option<&'a GainCell> {
    input
        .cells
        .iter()
        .find(|cell| cell.encoder == encoder && cell.dataset == dataset && cell.setting.as_deref() == setting)
}

/// The scores of these cells over the same resamples of the same items, or the reason why there are
/// none.
pub(super) fn replicates(cells: &[&GainCell]) -> Result<Replicates, String> {
    let evidence: Option<Vec<&Evidence>> = cells.iter().map(|cell| cell.evidence.as_ref()).collect();
    let evidence = evidence.ok_or("its main score is not made of items")?;
    let Some(first) = cells.first() else {
        return Err("there is no score".to_owned());
    };
    if cells.iter().any(|cell| cell.clusters != first.clusters) {
        return Err("its scores are of different items".to_owned());
    }
    if evidence.iter().any(|one| one.used() != evidence[0].used()) {
        return Err("its scores are made of different items".to_owned());
    }
    let scores = cells.iter().map(|cell| cell.score * 100.0).collect();
    Replicates::of(scores, &evidence, &first.clusters, &first.dataset)
}

/// Score number `at` minus the first one, of `all` scores.
pub(super) fn less_first(at: usize, all: usize) -> Sum {
    let mut terms = vec![0.0; all];
    terms[at] += 1.0;
    terms[0] -= 1.0;
    Sum(terms)
}

/// A gain on one data set.
pub(super) fn gain(value: f64, replicates: Option<&Replicates>, sum: &Sum) -> Gain {
    let items = replicates
        .and_then(|own| own.resampled(sum))
        .map(|own| own.interval(LEVEL));
    Gain {
        value,
        intervals: DeltaIntervals { items, datasets: None },
    }
}

/// A mean gain over groups of data sets; `gains` has one entry per data set.
pub(super) fn mean_gain(groups: &[Vec<usize>], gains: &[f64], all: Option<&[&Replicates]>, sum: &Sum) -> Gain {
    let of_groups: Vec<f64> = groups
        .iter()
        .map(|own| own.iter().map(|d| gains[*d]).sum::<f64>() / own.len() as f64)
        .collect();
    let resampled = all.and_then(|all| over_datasets(groups, all, sum));
    let error = resampled.as_ref().map(ResampledDifference::standard_error);
    Gain {
        value: of_groups.iter().sum::<f64>() / of_groups.len() as f64,
        intervals: DeltaIntervals {
            datasets: over_groups(&of_groups, error, LEVEL),
            items: resampled.map(|own| own.interval(LEVEL)),
        },
    }
}

/// The row of Table 5; `None` if the cell has no cosines.
pub(super) fn cosines(cell: &GainCell) -> Option<CosineRow> {
    let mean = |name: &str| -> Option<MeanCosine> {
        let values: Vec<f64> = cell
            .columns
            .get(name)?
            .iter()
            .map(|value| value.unwrap_or(f64::NAN))
            .collect();
        let evidence = Evidence::mean(&values, None);
        let whole = evidence.whole()?;
        let found = Replicates::of(vec![whole * 100.0], &[&evidence], &cell.clusters, &cell.dataset).ok();
        Some(MeanCosine {
            value: whole * 100.0,
            interval: found
                .and_then(|own| own.resampled(&Sum(vec![1.0])))
                .map(|own| own.interval(LEVEL)),
            pairs: values.iter().filter(|value| value.is_finite()).count(),
        })
    };
    Some(CosineRow {
        encoder: cell.encoder.clone(),
        dataset: cell.dataset.clone(),
        setting: cell.setting.clone()?,
        original_variant_1: mean("cosine_original_variant_1")?,
        original_variant_2: mean("cosine_original_variant_2")?,
        variants: mean("cosine_variants")?,
        originals: mean("cosine_originals")?,
    })
}

/// The value by which items are divided in addition to their words: the label-free result of the
/// plain search or comparison.
fn plain_column(plain: &GainCell) -> Option<(&'static str, &Vec<Option<f64>>)> {
    let of = |name| plain.columns.get(name);
    of("gap")
        .map(|own| ("gap", own))
        .or_else(|| of("cosine").map(|own| ("similarity", own)))
}

/// The gain of texts by each known property.
pub(super) fn strata(plain: &GainCell, augmented: &GainCell) -> Vec<GainStrata> {
    let (Some(before), Some(after), Some(setting)) = (&plain.evidence, &augmented.evidence, &augmented.setting) else {
        return Vec::new();
    };
    let fits = plain.clusters == augmented.clusters && before.items() == plain.clusters.len();
    if !fits || before.items() != after.items() {
        return Vec::new();
    }
    let words = plain.columns.get("words").map(|own| ("words", own));
    let values = words.into_iter().chain(plain_column(plain));
    values
        .filter(|(_, values)| values.len() == before.items())
        .map(|(by, values)| {
            let divided = ScorePair {
                before,
                after,
                clusters: &plain.clusters,
                name: &plain.dataset,
            };
            let parts = parts(values, &before.used(), STRATUM, STRATA);
            GainStrata {
                encoder: plain.encoder.clone(),
                dataset: plain.dataset.clone(),
                setting: setting.clone(),
                by: by.to_owned(),
                note: (parts.len() < STRATA).then(|| {
                    format!(
                        "{} parts: each has {STRATUM} items or more, and items with equal values are together",
                        parts.len()
                    )
                }),
                upper_less_lower: divided.halves(values),
                strata: parts.iter().map(|part| divided.stratum(values, part)).collect(),
            }
        })
        .collect()
}

/// Parts of about equal size, in ascending order of the values. Items with equal values are in one
/// part; items without a value and unused items are in none.
fn parts(values: &[Option<f64>], used: &[bool], least: usize, most: usize) -> Vec<Mask> {
    let mut ordered: Vec<(f64, usize)> = values
        .iter()
        .enumerate()
        .filter(|(item, _)| used.get(*item) == Some(&true))
        .filter_map(|(item, value)| Some((value.filter(|value| value.is_finite())?, item)))
        .collect();
    ordered.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let count = (ordered.len() / least).min(most);
    if count < 2 {
        return Vec::new();
    }
    let mut masks: Vec<Mask> = vec![vec![false; values.len()]; count];
    let mut first = 0;
    for tied in ordered.chunk_by(|a, b| a.0 >= b.0) {
        // The middle of tied items decides for all of them.
        let part = ((first + tied.len() / 2) * count / ordered.len()).min(count - 1);
        for (_, item) in tied {
            masks[part][*item] = true;
        }
        first += tied.len();
    }
    masks.retain(|mask| mask.iter().any(|kept| *kept));
    if masks.len() < 2 { Vec::new() } else { masks }
}

/// Two scores on the same items.
struct ScorePair<'a> {
    before: &'a Evidence,
    after: &'a Evidence,
    clusters: &'a [u32],
    name: &'a str,
}

impl ScorePair<'_> {
    fn stratum(&self, values: &[Option<f64>], mask: &Mask) -> Stratum {
        let own = || {
            values
                .iter()
                .zip(mask)
                .filter_map(|(value, kept)| value.filter(|_| *kept))
        };
        let weights: Vec<f64> = mask.iter().map(|kept| f64::from(u8::from(*kept))).collect();
        let (before, after) = (PreparedEvidence::new(self.before), PreparedEvidence::new(self.after));
        let score = |prepared: &PreparedEvidence<'_>| prepared.score(&weights).map(|score| score * 100.0);
        let (plain, augmented) = (score(&before), score(&after));
        let gain = plain.zip(augmented).map(|(plain, augmented)| augmented - plain);
        let difference = |weights: &[f64]| -> f64 {
            let score = |prepared: &PreparedEvidence<'_>| prepared.score(weights).unwrap_or(f64::NAN);
            (score(&after) - score(&before)) * 100.0
        };
        Stratum {
            low: own().fold(f64::INFINITY, f64::min),
            high: own().fold(f64::NEG_INFINITY, f64::max),
            items: own().count(),
            plain,
            augmented,
            gain,
            interval: gain
                .and_then(|gain| self.resampled(mask, gain, &difference))
                .map(|own| own.interval(LEVEL)),
        }
    }

    /// Gain on the upper half minus gain on the lower half, on the same resamples of all items.
    fn halves(&self, values: &[Option<f64>]) -> Option<Gain> {
        let used = self.before.used();
        let halves = parts(values, &used, STRATUM, 2);
        let [lower, upper] = halves.as_slice() else { return None };
        let (before, after) = (PreparedEvidence::new(self.before), PreparedEvidence::new(self.after));
        let on = |weights: &[f64], half: &Mask| -> f64 {
            let own: Vec<f64> = weights
                .iter()
                .zip(half)
                .map(|(weight, kept)| if *kept { *weight } else { 0.0 })
                .collect();
            let score = |prepared: &PreparedEvidence<'_>| prepared.score(&own).unwrap_or(f64::NAN);
            (score(&after) - score(&before)) * 100.0
        };
        let difference = |weights: &[f64]| on(weights, upper) - on(weights, lower);
        let value = difference(&vec![1.0; used.len()]);
        if !value.is_finite() {
            return None;
        }
        Some(Gain {
            value,
            intervals: DeltaIntervals {
                items: self.resampled(&used, value, &difference).map(|own| own.interval(LEVEL)),
                datasets: None,
            },
        })
    }

    fn resampled(
        &self,
        used: &[bool],
        estimate: f64,
        difference: &(dyn Fn(&[f64]) -> f64 + Sync),
    ) -> Option<ResampledDifference> {
        let clusters = Clusters::among(self.clusters, used, self.name);
        let values: Vec<f64> = (0..resamples(self.before.points()))
            .into_par_iter()
            .map_init(Vec::new, |weights, index| {
                clusters.draw(index, weights);
                difference(weights)
            })
            .collect();
        ResampledDifference::new(estimate, &values, clusters.len(), clusters.effective() - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_of_about_equal_size_and_keep_ties_together() {
        let values: Vec<Option<f64>> = (0..100).map(|i| Some(f64::from(i / 10))).collect();
        let found = parts(&values, &[true; 100], 10, 10);
        assert_eq!(found.len(), 10);
        for (number, mask) in found.iter().enumerate() {
            assert_eq!(mask.iter().filter(|kept| **kept).count(), 10);
            assert!(mask[number * 10] && mask[number * 10 + 9]);
        }
        // The same value occurs in 90 of 100 items: they are all in one part.
        let values: Vec<Option<f64>> = (0..100).map(|i| Some(if i < 90 { 1.0 } else { 2.0 })).collect();
        let found = parts(&values, &[true; 100], 10, 10);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].iter().filter(|kept| **kept).count(), 90);
    }

    #[test]
    fn items_without_a_value_are_in_no_part_and_few_items_in_none() {
        let mut values: Vec<Option<f64>> = (0..40).map(|i| Some(f64::from(i))).collect();
        values[7] = None;
        values[8] = Some(f64::NAN);
        let found = parts(&values, &[true; 40], 10, 10);
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|mask| !mask[7] && !mask[8]));
        assert_eq!(found.iter().flatten().filter(|kept| **kept).count(), 38);
        assert!(parts(&values, &[true; 40], 30, 10).is_empty());
        assert!(parts(&values, &[false; 40], 10, 10).is_empty());
    }

    #[test]
    fn a_gain_of_some_items_alone_is_found_where_it_is() {
        let items = 200;
        let before = Evidence::mean(&vec![0.5; items], None);
        // Items with many words gain 0.2 on average, the others nothing.
        let after: Vec<f64> = (0..items)
            .map(|i| {
                0.5 + if i < 100 {
                    0.0
                } else {
                    0.1 + 0.2 * f64::from(u8::from(i % 2 == 0))
                }
            })
            .collect();
        let cell = |setting: Option<&str>, evidence: Evidence| GainCell {
            encoder: "e".into(),
            dataset: "d".into(),
            setting: setting.map(str::to_owned),
            score: evidence.whole().unwrap_or(f64::NAN),
            evidence: Some(evidence),
            clusters: (0..200).collect(),
            columns: [("words".to_owned(), (0..items).map(|i| Some(i as f64)).collect())].into(),
            work: None,
        };
        let found = strata(&cell(None, before), &cell(Some("s"), Evidence::mean(&after, None)));
        assert_eq!(found.len(), 1);
        let strata = &found[0].strata;
        assert_eq!(strata.len(), 5);
        assert!(strata[0].gain.is_some_and(|gain| gain.abs() < 1e-9));
        assert!(strata[4].gain.is_some_and(|gain| (gain - 20.0).abs() < 1e-9));
        assert!(
            strata[4]
                .interval
                .as_ref()
                .is_some_and(|own| own.low > 15.0 && own.high < 25.0)
        );
        let contrast = found[0].upper_less_lower.as_ref();
        assert!(contrast.is_some_and(
            |own| (own.value - 20.0).abs() < 1e-9 && own.intervals.items.as_ref().is_some_and(|own| own.low > 15.0)
        ));
    }
}
