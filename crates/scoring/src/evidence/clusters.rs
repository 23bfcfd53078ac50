//! Clusters of items that share a text: one sentence in five pairs gives five scores that move
//! together.

use std::collections::HashMap;

/// The cluster of each item, numbered from 0 in the order of their first items. `texts` gives the
/// numbers of each item's texts; equal texts have equal numbers. Items are in one cluster if a
/// chain of shared texts connects them.
pub fn clusters<I>(texts: impl IntoIterator<Item = I>) -> Vec<u32>
where
    I: IntoIterator<Item = u32>,
{
    let mut forest = Forest::default();
    let mut first: HashMap<u32, usize> = HashMap::new();
    for own in texts {
        let item = forest.push();
        for text in own {
            let other = *first.entry(text).or_insert(item);
            forest.join(other, item);
        }
    }
    let mut numbers: HashMap<usize, u32> = HashMap::new();
    (0..forest.parents.len())
        .map(|item| {
            let root = forest.root(item);
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            *numbers.entry(root).or_insert(next)
        })
        .collect()
}

/// Disjoint sets, with the smaller root as representative.
#[derive(Default)]
struct Forest {
    parents: Vec<usize>,
}

impl Forest {
    fn push(&mut self) -> usize {
        self.parents.push(self.parents.len());
        self.parents.len() - 1
    }

    fn root(&mut self, mut item: usize) -> usize {
        while self.parents[item] != item {
            self.parents[item] = self.parents[self.parents[item]];
            item = self.parents[item];
        }
        item
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parents[a.max(b)] = a.min(b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_together_where_a_chain_of_shared_texts_joins_them() {
        let of = |rows: &[[u32; 2]]| clusters(rows.iter().copied());
        assert_eq!(of(&[[0, 1], [2, 3], [4, 5]]), [0, 1, 2]);
        // The first and the third share no text, but the second shares one text with each.
        assert_eq!(of(&[[0, 1], [1, 2], [2, 3], [4, 4]]), [0, 0, 0, 1]);
        // The item that connects them comes last.
        assert_eq!(of(&[[0, 1], [2, 3], [3, 1]]), [0, 0, 0]);
        assert!(clusters(Vec::<Vec<u32>>::new()).is_empty());
    }
}
