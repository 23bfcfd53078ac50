//! Bootstrap resamples of items, drawn by cluster.

use super::Evidence;
use crate::stats::random::{below, stream};

/// The items, in clusters that are drawn together.
#[derive(Debug, Clone, PartialEq)]
pub struct Clusters {
    members: Vec<Vec<u32>>,
    items: usize,
    seed: u64,
}

impl Clusters {
    /// From the cluster of each item (see [`super::clusters::clusters`]). Items on which the score
    /// does not depend are never drawn. `name` is that of the data set; apart from it, the draws
    /// depend on nothing in the run.
    pub fn new(clusters: &[u32], evidence: &Evidence, name: &str) -> Self {
        Self::among(clusters, &evidence.used(), name)
    }

    /// Like [`Clusters::new`], restricted to these items.
    pub fn among(clusters: &[u32], used: &[bool], name: &str) -> Self {
        let mut members: Vec<Vec<u32>> = Vec::new();
        for (item, (cluster, used)) in (0_u32..).zip(clusters.iter().zip(used)) {
            if *used {
                let at = *cluster as usize;
                if members.len() <= at {
                    members.resize(at + 1, Vec::new());
                }
                members[at].push(item);
            }
        }
        members.retain(|own| !own.is_empty());
        let mut seed = [0; 8];
        for (to, from) in seed.iter_mut().zip(blake3::hash(name.as_bytes()).as_bytes()) {
            *to = *from;
        }
        Self {
            members,
            items: clusters.len(),
            seed: u64::from_le_bytes(seed),
        }
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether the list of clusters is empty.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Number of equivalent clusters of equal size: (Σ m)² / Σ m² (Kish). One huge cluster beside
    /// many small ones counts for little more than one.
    pub fn effective(&self) -> f64 {
        let sizes = self.members.iter().map(|own| own.len() as f64);
        let (sum, squares) = sizes.fold((0.0, 0.0), |(sum, squares), m| (sum + m, squares + m * m));
        if squares > 0.0 { sum * sum / squares } else { 0.0 }
    }

    /// Weights of resample `index`: as many clusters as there are, drawn with replacement. The same
    /// index gives the same weights, so that the original and everything derived from it are scored
    /// on the same items.
    pub fn draw(&self, index: usize, weights: &mut Vec<f64>) {
        weights.clear();
        weights.resize(self.items, 0.0);
        let mut rng = stream(self.seed, index);
        for _ in 0..self.members.len() {
            for item in &self.members[below(&mut rng, self.members.len())] {
                weights[*item as usize] += 1.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clusters(ids: &[u32], name: &str) -> Clusters {
        Clusters::new(ids, &Evidence::mean(&vec![0.0; ids.len()], None), name)
    }

    #[test]
    fn items_of_a_cluster_are_drawn_together_and_as_many_clusters_as_there_are() {
        let own = clusters(&[0, 1, 0, 2, 1, 3], "x");
        let mut weights = Vec::new();
        let mut left_out = 0;
        for index in 0..200 {
            own.draw(index, &mut weights);
            assert_eq!((weights[0], weights[1]), (weights[2], weights[4]));
            assert_eq!(weights[0] + weights[1] + weights[3] + weights[5], 4.0);
            left_out += usize::from(weights[0] == 0.0);
        }
        // Left out with a probability of (3/4)^4 = 0.316.
        assert!((40..90).contains(&left_out), "{left_out}");
        assert_eq!(own.effective(), 36.0 / 10.0);
    }

    #[test]
    fn draws_repeat_by_index_and_differ_between_data_sets() {
        let ids: Vec<u32> = (0..50).collect();
        let drawn = |name: &str, index| {
            let mut weights = Vec::new();
            clusters(&ids, name).draw(index, &mut weights);
            weights
        };
        assert_eq!(drawn("a", 7), drawn("a", 7));
        assert_ne!(drawn("a", 7), drawn("a", 8));
        assert_ne!(drawn("a", 7), drawn("b", 7));
    }

    #[test]
    fn items_that_no_clustering_drew_are_never_resampled() {
        let evidence = Evidence::VMeasure {
            classes: vec![0, 1, 0, 1],
            clusterings: vec![super::super::Clustering {
                items: vec![1, 2],
                clusters: vec![0, 1],
                counts: vec![3, 2],
            }],
        };
        let own = Clusters::new(&[0, 1, 2, 3], &evidence, "x");
        assert_eq!(own.len(), 2);
        let mut weights = Vec::new();
        own.draw(0, &mut weights);
        assert_eq!((weights[0], weights[3], weights[1] + weights[2]), (0.0, 0.0, 2.0));
    }
}
