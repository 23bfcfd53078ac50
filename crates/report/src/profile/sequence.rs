//! The values of a rule decided by betting on items: one value for each item, in the order in which
//! the items were drawn.

use std::collections::HashSet;

use super::{
    Grid,
    items::{Sum, UnitItems},
    strata::{Figure, values},
};

/// Values of a rule, and the number of items that were omitted because they share a text with an
/// earlier one.
///
/// `order` is the position of each item in the order of the draw, `texts` the numbers of each
/// item's texts. Whether an item counts depends only on the items before it, so that the values of
/// a shorter draw are the first values of a longer one.
///
/// # Errors
/// The reason why items lack such values, as a message.
pub fn sequence(
    grid: &Grid,
    (figure, drop): (Figure, bool),
    order: &[u32],
    texts: &[Vec<u32>],
    unit: &UnitItems,
) -> Result<(Vec<f64>, usize), String> {
    let values = values(&Sum::of_rule(grid, figure, drop), unit.all())
        .ok_or_else(|| "a score of the rule is not a mean over the items".to_owned())?;
    if order.len() != values.len() || texts.len() != values.len() {
        return Err("the order in which the items were drawn is not known".to_owned());
    }
    let mut drawn: Vec<usize> = (0..values.len()).collect();
    drawn.sort_by_key(|item| order[*item]);
    let (mut seen, mut found, mut repeated) = (HashSet::<u32>::new(), Vec::with_capacity(values.len()), 0);
    for item in drawn {
        let new = texts[item].iter().all(|text| !seen.contains(text));
        seen.extend(&texts[item]);
        match values[item] {
            Some(value) if new => found.push(value),
            Some(_) => repeated += 1,
            None => {}
        }
    }
    Ok((found, repeated))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{evidence::Evidence, profile::Axis};

    fn grid() -> Grid {
        Grid::of(&["e"], &["d"], &[("paraphrase", Axis::Lexical)], &[1])
    }

    fn unit(original: &[f64], transformed: &[f64]) -> UnitItems {
        let mean = |values: &[f64]| Evidence::mean(values, None);
        UnitItems {
            original: mean(original),
            transformed: vec![vec![mean(transformed)]],
        }
    }

    #[test]
    fn values_come_in_the_order_of_the_draw_and_a_shared_text_counts_once() {
        let unit = unit(&[1.0, 1.0, 1.0, 0.0], &[0.0, 1.0, 0.5, 1.0]);
        let drops = |order: &[u32], texts: &[Vec<u32>]| {
            sequence(&grid(), (Figure::Transformation(0), true), order, texts, &unit)
        };
        let apart = [vec![1], vec![2], vec![3], vec![4]];
        assert_eq!(
            drops(&[2, 0, 3, 1], &apart).unwrap(),
            (vec![0.0, -100.0, 100.0, 50.0], 0)
        );
        // Item 0 was drawn after item 1, with which it shares a text.
        let shared = [vec![2], vec![2], vec![3], vec![4]];
        assert_eq!(drops(&[2, 0, 3, 1], &shared).unwrap(), (vec![0.0, -100.0, 50.0], 1));
        assert!(drops(&[0, 1], &apart).unwrap_err().contains("order"));
    }

    #[test]
    fn a_correlation_has_no_values_to_bet_on() {
        let mut unit = unit(&[1.0, 1.0], &[1.0, 0.0]);
        unit.original = Evidence::Spearman {
            gold: vec![1.0, 2.0],
            predicted: vec![0.1, 0.2],
            points: Vec::new(),
        };
        let found = sequence(
            &grid(),
            (Figure::Transformation(0), true),
            &[0, 1],
            &[vec![0], vec![1]],
            &unit,
        );
        assert!(found.unwrap_err().contains("not a mean"));
    }
}
