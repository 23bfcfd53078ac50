//! V-measure of weighted items.

use std::collections::BTreeMap;

use super::Clustering;

/// A clustering with the classes of its items, numbered densely.
#[derive(Debug, Clone)]
pub(super) struct Table {
    /// Item, class, cluster, count.
    rows: Vec<(u32, u32, u32, f64)>,
    classes: usize,
    clusters: usize,
}

/// Assigns dense numbers to distinct values.
#[derive(Default)]
pub(super) struct Numbers(BTreeMap<u32, u32>);

impl Numbers {
    pub(super) fn of(&mut self, key: u32) -> u32 {
        let next = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        *self.0.entry(key).or_insert(next)
    }
}

impl Table {
    pub(super) fn new(classes: &[u32], clustering: &Clustering) -> Self {
        let (mut of_classes, mut of_clusters) = (Numbers::default(), Numbers::default());
        let rows = clustering
            .items
            .iter()
            .zip(&clustering.clusters)
            .enumerate()
            .filter_map(|(i, (item, cluster))| {
                let class = classes.get(*item as usize)?;
                let count = clustering.counts.get(i).copied().unwrap_or(1);
                Some((*item, of_classes.of(*class), of_clusters.of(*cluster), f64::from(count)))
            })
            .collect();
        Self {
            rows,
            classes: of_classes.0.len(),
            clusters: of_clusters.0.len(),
        }
    }

    /// The same clustering of items with other classes, which are numbered densely.
    pub(super) fn relabelled(&self, classes: &[u32]) -> Self {
        let rows = self.rows.iter();
        Self {
            rows: rows
                .map(|(item, _, cluster, count)| (*item, classes[*item as usize], *cluster, *count))
                .collect(),
            classes: classes.iter().max().map_or(0, |last| *last as usize + 1),
            clusters: self.clusters,
        }
    }

    /// V-measure (Rosenberg and Hirschberg 2007) as in scikit-learn; `None` if no item has weight.
    pub(super) fn v_measure(&self, weights: &[f64]) -> Option<f64> {
        let mut cells = vec![0.0; self.classes * self.clusters];
        for (item, class, cluster, count) in &self.rows {
            cells[*class as usize * self.clusters + *cluster as usize] += count * weights[*item as usize];
        }
        let (mut by_class, mut by_cluster) = (vec![0.0; self.classes], vec![0.0; self.clusters]);
        for (at, cell) in cells.iter().enumerate() {
            by_class[at / self.clusters] += cell;
            by_cluster[at % self.clusters] += cell;
        }
        let total: f64 = by_class.iter().sum();
        if total <= 0.0 {
            return None;
        }
        let entropy = |counts: &[f64]| -> f64 {
            if counts.iter().filter(|c| **c > 0.0).count() < 2 {
                return 0.0;
            }
            counts
                .iter()
                .filter(|c| **c > 0.0)
                .map(|c| -(c / total) * (c / total).ln())
                .sum()
        };
        let (of_classes, of_clusters) = (entropy(&by_class), entropy(&by_cluster));
        let mut information = 0.0;
        for (at, cell) in cells.iter().enumerate().filter(|(_, cell)| **cell > 0.0) {
            let expected = by_class[at / self.clusters] * by_cluster[at % self.clusters];
            information += (cell / total) * (cell * total / expected).ln();
        }
        let information = information.max(0.0);
        let share = |entropy: f64| if entropy == 0.0 { 1.0 } else { information / entropy };
        let (homogeneity, completeness) = (share(of_classes), share(of_clusters));
        Some(if homogeneity + completeness == 0.0 {
            0.0
        } else {
            2.0 * homogeneity * completeness / (homogeneity + completeness)
        })
    }
}
