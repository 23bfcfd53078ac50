//! Folds of cross-validation: items of one cluster are in the same fold.

use crate::random::{shuffle, stream};

/// The fold of each item, below `folds`. Clusters are shuffled with `seed` and dealt in turn, so
/// that two folds differ by at most one cluster. `clusters` contains the cluster of each item.
pub fn folds(clusters: &[u32], folds: usize, seed: u64) -> Vec<usize> {
    let mut distinct: Vec<u32> = clusters.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let mut order: Vec<usize> = (0..distinct.len()).collect();
    shuffle(&mut stream(seed, 0), &mut order);
    let mut of_cluster = vec![0; distinct.len()];
    for (place, cluster) in order.into_iter().enumerate() {
        of_cluster[cluster] = place % folds.max(1);
    }
    clusters
        .iter()
        .map(|cluster| distinct.binary_search(cluster).map_or(0, |at| of_cluster[at]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_stay_together_and_folds_are_of_one_size() {
        let clusters: Vec<u32> = (0..60).map(|item| item / 2 * 7).collect();
        let found = folds(&clusters, 10, 1);
        assert!(found.chunks(2).all(|two| two[0] == two[1]));
        for fold in 0..10 {
            assert_eq!(found.iter().filter(|own| **own == fold).count(), 6);
        }
        assert_eq!(found, folds(&clusters, 10, 1));
        assert_ne!(found, folds(&clusters, 10, 2));
    }
}
