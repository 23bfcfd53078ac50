//! The difference that a transformation causes on a subset of the items.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Evidence;

/// For each item, whether it belongs to the subset.
pub type Mask = Vec<bool>;

/// The score of the transformed items minus the original's, over a subset of the items.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubsetDelta {
    /// The difference in points: transformed minus original, over the items of the subset alone.
    /// Absent where the metric is undefined on them: none, or too few, or all of one class.
    pub delta: Option<f64>,
    /// Items of the subset, added over seeds.
    pub items: u64,
    /// Items of the data set, added over seeds.
    pub of: u64,
}

/// The difference (transformed minus original, in points) over the items in `mask`; `None` if the
/// score is undefined on them or the two have different items.
pub fn delta(original: &Evidence, transformed: &Evidence, mask: &[bool]) -> Option<f64> {
    if original.items() != mask.len() || transformed.items() != mask.len() {
        return None;
    }
    let weights: Vec<f64> = mask.iter().map(|kept| f64::from(u8::from(*kept))).collect();
    Some((transformed.score(&weights)? - original.score(&weights)?) * 100.0)
}

/// [`delta`] and its numbers of items, for one transformed score and mask per seed. A seed whose
/// score is undefined on its items is excluded from the mean.
pub fn over_seeds<'a>(original: &Evidence, seeds: impl IntoIterator<Item = (&'a Evidence, &'a [bool])>) -> SubsetDelta {
    let (mut deltas, mut items, mut of) = (Vec::new(), 0, 0);
    for (transformed, mask) in seeds {
        items += mask.iter().filter(|kept| **kept).count() as u64;
        of += mask.len() as u64;
        deltas.extend(delta(original, transformed, mask));
    }
    SubsetDelta {
        delta: crate::stats::mean(&deltas),
        items,
        of,
    }
}

/// The items whose transformed texts all pass a test; `texts` contains the positions of these
/// texts. An item without such a text never passes.
pub fn items_where<'a>(texts: impl IntoIterator<Item = &'a [u32]>, mut test: impl FnMut(u32) -> bool) -> Mask {
    texts
        .into_iter()
        .map(|own| !own.is_empty() && own.iter().all(|text| test(*text)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drop_is_not_diluted_by_items_that_stayed_as_they_were() {
        let original = Evidence::mean(&[1.0, 1.0, 1.0, 1.0], None);
        let transformed = Evidence::mean(&[1.0, 1.0, 0.0, 1.0], None);
        assert_eq!(delta(&original, &transformed, &[true; 4]), Some(-25.0));
        assert_eq!(delta(&original, &transformed, &[false, false, true, true]), Some(-50.0));
        assert_eq!(delta(&original, &transformed, &[false; 4]), None);
        assert_eq!(delta(&original, &transformed, &[true; 3]), None);
    }

    #[test]
    fn seeds_are_averaged_each_over_its_own_items() {
        let original = Evidence::mean(&[1.0, 1.0], None);
        let first = Evidence::mean(&[0.0, 1.0], None);
        let second = Evidence::mean(&[1.0, 0.5], None);
        let found = over_seeds(
            &original,
            [
                (&first, &[true, false][..]),
                (&second, &[true, true]),
                (&second, &[false, false]),
            ],
        );
        assert_eq!((found.delta, found.items, found.of), (Some(-62.5), 3, 6));
    }

    #[test]
    fn an_item_counts_where_all_its_transformed_texts_do() {
        let texts: [&[u32]; 4] = [&[0, 1], &[2, 3], &[4], &[]];
        assert_eq!(items_where(texts, |text| text != 3), [true, false, true, false]);
    }
}
