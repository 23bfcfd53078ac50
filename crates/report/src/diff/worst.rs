//! The items with the largest losses, with their texts.

use std::collections::BTreeMap;

use super::{ComparisonInputs, Right, ScoredItems, WorstItem};
use crate::{RunItems, evidence::Evidence, items::ScoreKey, task::ResultLists};

/// Differences of scores below this are rounding errors.
const NOTHING: f64 = 1e-9;

/// The findings on an item so far: the variant with its largest loss.
struct WorstVariant<'a> {
    key: ScoreKey<'a>,
    flipped: bool,
    loss: f64,
    descriptions: [String; 2],
    flips: u64,
    of: u64,
}

/// The items of a data set that flipped or lost, worst first: those that flipped, then the others,
/// each by its loss on its worst variant.
pub(super) fn items(
    inputs: &ComparisonInputs<'_>,
    dataset: &str,
    right: Option<&[Right; 2]>,
    items: &[Vec<Vec<ScoredItems<'_>>>; 2],
    keys: &[Vec<ScoreKey<'_>>],
) -> Vec<WorstItem> {
    let mut found: BTreeMap<usize, WorstVariant<'_>> = BTreeMap::new();
    let scored = items[0].iter().flatten().zip(items[1].iter().flatten());
    for ((old, new), key) in scored.zip(keys.iter().flatten()) {
        let decisions = right.and_then(|right| Some((right[0].of(*old)?, right[1].of(*new)?)));
        let count = old.evidence.map_or(0, Evidence::items);
        for item in 0..count {
            let decided = decisions
                .as_ref()
                .and_then(|(old, new)| Some(((*old.get(item)?)?, (*new.get(item)?)?)));
            let flipped = decided == Some((true, false));
            let loss = loss(right, old, new, item).filter(|loss| *loss > NOTHING);
            let own = found.entry(item).or_insert_with(|| WorstVariant {
                key: *key,
                flipped: false,
                loss: 0.0,
                descriptions: Default::default(),
                flips: 0,
                of: 0,
            });
            own.of += 1;
            own.flips += u64::from(flipped);
            // A pair that moved and stayed right has not lost anything.
            let Some(loss) = loss.or(flipped.then_some(0.0)).filter(|_| flipped || counts(old)) else {
                continue;
            };
            if (flipped, loss) > (own.flipped, own.loss) {
                (own.key, own.flipped, own.loss) = (*key, flipped, loss);
                own.descriptions = [(old, 0), (new, 1)]
                    .map(|(scored, side)| description(right.map(|right| right[side]), scored, item));
            }
        }
    }
    let mut lost: Vec<(usize, WorstVariant<'_>)> = found
        .into_iter()
        .filter(|(_, own)| own.flipped || own.loss > 0.0)
        .collect();
    // The sort is stable, so equal losses stay in the order of the data set.
    lost.sort_by(|(_, a), (_, b)| {
        (b.flipped, b.loss)
            .partial_cmp(&(a.flipped, a.loss))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    lost.truncate(inputs.options.worst);
    let [old_texts, texts] = inputs.sides.map(|side| Texts::new(side.items, dataset));
    lost.into_iter()
        .map(|(item, own)| {
            let (_, transformation, seed) = own.key;
            let [old, new] = own.descriptions;
            let transformed = |texts: &Texts<'_>| match transformation {
                None => Vec::new(),
                Some(_) => texts.of(transformation, seed, item),
            };
            let (before, after) = (transformed(&old_texts), transformed(&texts));
            WorstItem {
                item,
                transformation: transformation.map(str::to_owned),
                seed,
                original: texts.of(None, None, item),
                transformed_old: if before == after { Vec::new() } else { before },
                transformed: after,
                flipped: own.flipped,
                old,
                new,
                loss: own.loss,
                flips: own.flips,
                of: own.of,
            }
        })
        .collect()
}

/// Whether items have values that measure a loss.
fn counts(scored: &ScoredItems<'_>) -> bool {
    matches!(scored.evidence, Some(Evidence::Mean { .. }))
}

fn loss(right: Option<&[Right; 2]>, old: &ScoredItems<'_>, new: &ScoredItems<'_>, item: usize) -> Option<f64> {
    match (old.evidence?, new.evidence?) {
        (Evidence::Mean { values: old, .. }, Evidence::Mean { values: new, .. }) => {
            Some((*old.get(item)?)? - (*new.get(item)?)?)
        }
        (old @ Evidence::AveragePrecision { .. }, new @ Evidence::AveragePrecision { .. }) => {
            let right = right?;
            Some(margin(right[0], old, item)? - margin(right[1], new, item)?)
        }
        (Evidence::Nearest { nearest: old }, Evidence::Nearest { nearest: new }) => {
            let hit = |nearest: &[u32]| {
                nearest
                    .get(item)
                    .map(|found| f64::from(u8::from(*found as usize == item)))
            };
            Some(hit(old)? - hit(new)?)
        }
        _ => None,
    }
}

/// The distance of a pair from the threshold, positive on the right side.
fn margin(right: Right, evidence: &Evidence, item: usize) -> Option<f64> {
    let (Right::Threshold { threshold, .. }, Evidence::AveragePrecision { labels, similarities }) = (right, evidence)
    else {
        return None;
    };
    let above = f64::from(*similarities.first()?.get(item)?) - threshold;
    Some(if *labels.get(item)? { above } else { -above })
}

/// The result of an encoder on an item, as text.
fn description(right: Option<Right>, scored: &ScoredItems<'_>, item: usize) -> String {
    if let Some(lists) = scored.lists {
        return ranked(lists, scored, item);
    }
    match scored.evidence {
        Some(Evidence::AveragePrecision { labels, similarities }) => {
            let cosine = similarities
                .first()
                .and_then(|all| all.get(item))
                .copied()
                .unwrap_or(f32::NAN);
            let label = if labels.get(item) == Some(&true) {
                "positive"
            } else {
                "negative"
            };
            let threshold = match right {
                Some(Right::Threshold { threshold, .. }) => format!(", threshold {threshold:.3}"),
                _ => String::new(),
            };
            format!("cosine {cosine:.3} of a {label} pair{threshold}")
        }
        Some(Evidence::Nearest { nearest }) => match nearest.get(item) {
            Some(found) if *found as usize == item => "nearest is the translation".to_owned(),
            Some(found) => format!("nearest is text {found}"),
            None => String::new(),
        },
        Some(Evidence::Mean { values, .. }) => match values.get(item) {
            // Adding 0 turns −0 into 0.
            Some(Some(value)) => format!("{} {:.3}", scored.main_key, value + 0.0),
            _ => String::new(),
        },
        _ => String::new(),
    }
}

fn ranked(lists: &ResultLists, scored: &ScoredItems<'_>, item: usize) -> String {
    let rank = match lists.first_relevant.get(item) {
        Some(Some(rank)) => format!("first relevant document at rank {rank}"),
        _ => format!("no relevant document among the first {}", lists.searched),
    };
    match scored.evidence {
        Some(Evidence::Mean { values, .. }) => match values.get(item) {
            Some(Some(value)) => format!("{rank}, {} {:.3}", scored.main_key, value + 0.0),
            _ => rank,
        },
        _ => rank,
    }
}

/// The texts of a data set's items.
struct Texts<'a> {
    items: &'a RunItems,
    dataset: &'a str,
}

impl<'a> Texts<'a> {
    fn new(items: &'a RunItems, dataset: &'a str) -> Self {
        Self { items, dataset }
    }

    fn of(&self, transformation: Option<&str>, seed: Option<u64>, item: usize) -> Vec<String> {
        let own = self.items.dataset(self.dataset);
        let mut variants = own.into_iter().flat_map(|own| &own.variants);
        let found = variants.find(|one| one.transformation.as_deref() == transformation && one.seed == seed);
        let numbers = found
            .and_then(|found| found.texts.get(item))
            .map(Vec::as_slice)
            .unwrap_or_default();
        let text = |number: &u32| self.items.texts.get(*number as usize).cloned();
        numbers.iter().filter_map(text).collect()
    }
}
