//! Letters of significance: treatments that share a letter do not differ significantly (compact
//! letter display).

use crate::StatsError;

/// Maximum number of letters of a display. A relation of n treatments may need 3^(n/3).
const MOST_LETTERS: usize = 256;

/// Letters by the insert-and-absorb method. It starts from one letter for all. Each significant
/// pair splits every letter that both have into one without the first and one without the second;
/// letters contained in others are removed. Pairs that differ significantly share no letter; all
/// other pairs share one.
///
/// `order` lists the treatments from the first row of the display to the last, usually best first;
/// letters are named in that order (`a` is the first one's). `different(i, j)` returns whether
/// treatments i and j differ significantly, and must be symmetric. The result contains the letters
/// of each treatment, by its number. After 26 letters, numbers are added (`a1`, `b1`, …).
///
/// Source: H.-P. Piepho, "An algorithm for a letter-based representation of all-pairwise
/// comparisons" (2004).
///
/// # Errors
/// If the order is not a permutation, the relation is not symmetric, or it needs more than 256
/// letters.
pub fn significance_letters(
    order: &[usize],
    different: impl Fn(usize, usize) -> bool,
) -> Result<Vec<String>, StatsError> {
    let n = order.len();
    let mut seen = vec![false; n];
    for &i in order {
        if seen.get(i).copied().unwrap_or(true) {
            return Err(StatsError::Undefined {
                what: "a letter display",
                why: "the order does not name every treatment once",
            });
        }
        seen[i] = true;
    }
    // Columns contain positions in the order, so that earlier treatments come first.
    let mut columns: Vec<Vec<bool>> = if n == 0 { Vec::new() } else { vec![vec![true; n]] };
    for a in 0..n {
        for b in a + 1..n {
            let differs = different(order[a], order[b]);
            if differs != different(order[b], order[a]) {
                return Err(StatsError::Undefined {
                    what: "a letter display",
                    why: "one treatment differs from another that does not differ from it",
                });
            }
            if differs {
                columns = split(columns, a, b);
                if columns.len() > MOST_LETTERS {
                    return Err(StatsError::Undefined {
                        what: "a letter display",
                        why: "these differences need more than 256 letters; compare fewer systems",
                    });
                }
            }
        }
    }
    columns.sort_by(|x, y| y.cmp(x));
    let mut letters = vec![String::new(); n];
    for (number, column) in columns.iter().enumerate() {
        for (place, member) in column.iter().enumerate() {
            if *member {
                letters[order[place]].push_str(&name(number));
            }
        }
    }
    Ok(letters)
}

/// Splits the columns that contain both positions, then drops columns contained in another.
fn split(columns: Vec<Vec<bool>>, a: usize, b: usize) -> Vec<Vec<bool>> {
    let mut found: Vec<Vec<bool>> = Vec::with_capacity(columns.len() + 1);
    for column in columns {
        if column[a] && column[b] {
            for gone in [b, a] {
                let mut part = column.clone();
                part[gone] = false;
                found.push(part);
            }
        } else {
            found.push(column);
        }
    }
    let within = |x: &[bool], y: &[bool]| x.iter().zip(y).all(|(x, y)| !x || *y);
    let mut kept: Vec<Vec<bool>> = Vec::with_capacity(found.len());
    for column in found {
        if kept.iter().any(|other| within(&column, other)) {
            continue;
        }
        kept.retain(|other| !within(other, &column));
        kept.push(column);
    }
    kept
}

fn name(number: usize) -> String {
    let letter = char::from(b'a' + (number % 26) as u8);
    match number / 26 {
        0 => letter.to_string(),
        round => format!("{letter}{round}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn letters(n: usize, pairs: &[(usize, usize)]) -> Vec<String> {
        let order: Vec<usize> = (0..n).collect();
        significance_letters(&order, |i, j| pairs.contains(&(i, j)) || pairs.contains(&(j, i))).unwrap()
    }

    #[test]
    fn a_display_worked_out_by_hand() {
        // Five treatments; 0 differs from 2, 3, 4, and 1 from 3, 4. Pairs that do not differ: 0~1,
        // 1~2, 2~3, 2~4, 3~4. Their cliques: {0, 1}, {1, 2}, {2, 3, 4}.
        let found = letters(5, &[(0, 2), (0, 3), (0, 4), (1, 3), (1, 4)]);
        assert_eq!(found, ["a", "ab", "bc", "c", "c"]);
    }

    #[test]
    fn a_relation_that_is_no_interval_needs_a_letter_for_each_clique() {
        // Pairs that do not differ: only 0~2, 1~3 and 0~3; cliques {0, 2}, {0, 3}, {1, 3}.
        let found = letters(4, &[(0, 1), (1, 2), (2, 3)]);
        assert_eq!(found, ["ab", "c", "a", "bc"]);
    }

    #[test]
    fn no_difference_is_one_letter_and_all_differences_are_as_many_as_treatments() {
        assert_eq!(letters(3, &[]), ["a", "a", "a"]);
        assert_eq!(letters(3, &[(0, 1), (0, 2), (1, 2)]), ["a", "b", "c"]);
        assert!(letters(0, &[]).is_empty());
    }

    #[test]
    fn a_display_of_too_many_letters_is_refused_and_one_below_is_made() {
        // Pairs of treatments that differ only from each other: there is a letter for each
        // selection of one treatment from every pair.
        let twins = |n: usize| {
            let order: Vec<usize> = (0..n).collect();
            significance_letters(&order, |i, j| i / 2 == j / 2 && i != j)
        };
        assert_eq!(twins(16).unwrap().len(), 16);
        assert!(twins(100).is_err());
    }

    #[test]
    fn the_order_names_the_letters() {
        let found = significance_letters(&[2, 0, 1], |i, j| i != j).unwrap();
        assert_eq!(found, ["b", "c", "a"]);
        assert!(significance_letters(&[0, 0], |_, _| true).is_err());
        assert!(significance_letters(&[0, 1], |i, _| i == 0).is_err());
    }

    proptest::proptest! {
        #[test]
        fn two_share_a_letter_exactly_where_they_do_not_differ(bits in proptest::collection::vec(proptest::bool::ANY, 28)) {
            // Eight treatments, 28 pairs.
            let place = |i: usize, j: usize| { let (a, b) = (i.min(j), i.max(j)); b * (b - 1) / 2 + a };
            let order: Vec<usize> = (0..8).collect();
            let found = significance_letters(&order, |i, j| bits[place(i, j)]).unwrap();
            for i in 0..8 {
                for j in 0..i {
                    let shared = found[i].chars().any(|c| found[j].contains(c));
                    proptest::prop_assert_eq!(shared, !bits[place(i, j)]);
                }
            }
        }
    }
}
