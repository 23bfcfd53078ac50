//! Agreement between a clustering and classes: V-measure (Rosenberg and Hirschberg 2007) and
//! adjusted mutual information (Vinh, Epps and Bailey 2010) with the exact expectation.

use std::collections::BTreeMap;

/// Agreement of a clustering with classes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Agreement {
    /// Degree to which each cluster contains members of only one class.
    pub homogeneity: f64,
    /// Degree to which the members of each class are in one cluster.
    pub completeness: f64,
    /// The harmonic mean of both.
    pub v_measure: f64,
    /// Mutual information in excess of its expectation by chance, normalised by the mean entropy.
    pub ami: f64,
}

/// Compares classes with clusters, one of each per row. Without rows, all scores are 1.
pub fn agreement(classes: &[usize], clusters: &[usize]) -> Agreement {
    let table = Table::new(classes, clusters);
    if table.rows == 0 {
        return Agreement {
            homogeneity: 1.0,
            completeness: 1.0,
            v_measure: 1.0,
            ami: 1.0,
        };
    }
    let information = table.mutual_information();
    let (of_classes, of_clusters) = (table.entropy(&table.classes), table.entropy(&table.clusters));
    let share = |entropy: f64| if entropy == 0.0 { 1.0 } else { information / entropy };
    let (homogeneity, completeness) = (share(of_classes), share(of_clusters));
    let v_measure = if homogeneity + completeness == 0.0 {
        0.0
    } else {
        2.0 * homogeneity * completeness / (homogeneity + completeness)
    };
    Agreement {
        homogeneity,
        completeness,
        v_measure,
        ami: table.adjusted(information, (of_classes + of_clusters) / 2.0),
    }
}

/// Counts of pairs.
struct Table {
    rows: usize,
    classes: Vec<usize>,
    clusters: Vec<usize>,
    /// Nonempty cells in order: (class, cluster, rows).
    cells: Vec<(usize, usize, usize)>,
}

impl Table {
    fn new(classes: &[usize], clusters: &[usize]) -> Self {
        let dense = |labels: &[usize]| -> BTreeMap<usize, usize> {
            let mut distinct: Vec<usize> = labels.to_vec();
            distinct.sort_unstable();
            distinct.dedup();
            distinct.into_iter().enumerate().map(|(i, l)| (l, i)).collect()
        };
        let (class_of, cluster_of) = (dense(classes), dense(clusters));
        let mut table = vec![0; class_of.len() * cluster_of.len()];
        let rows = classes.len().min(clusters.len());
        for (class, cluster) in classes.iter().zip(clusters) {
            table[class_of[class] * cluster_of.len() + cluster_of[cluster]] += 1;
        }
        let width = cluster_of.len().max(1);
        let mut by_class = vec![0; class_of.len()];
        let mut by_cluster = vec![0; cluster_of.len()];
        let mut cells = Vec::new();
        for (at, &count) in table.iter().enumerate() {
            by_class[at / width] += count;
            by_cluster[at % width] += count;
            if count > 0 {
                cells.push((at / width, at % width, count));
            }
        }
        Self {
            rows,
            classes: by_class,
            clusters: by_cluster,
            cells,
        }
    }

    /// Entropy of a partition of the rows, in nats.
    fn entropy(&self, parts: &[usize]) -> f64 {
        if parts.len() == 1 {
            return 0.0;
        }
        let all = self.rows as f64;
        -parts
            .iter()
            .map(|p| *p as f64 / all * ((*p as f64).ln() - all.ln()))
            .sum::<f64>()
    }

    fn mutual_information(&self) -> f64 {
        if self.classes.len() == 1 || self.clusters.len() == 1 {
            return 0.0;
        }
        let all = self.rows as f64;
        let sum: f64 = self
            .cells
            .iter()
            .map(|&(class, cluster, count)| {
                let share = count as f64 / all;
                let outer = (self.classes[class] * self.clusters[cluster]) as f64;
                let term = share * ((count as f64).ln() - all.ln()) + share * (-outer.ln() + all.ln() + all.ln());
                if term.abs() < f64::EPSILON { 0.0 } else { term }
            })
            .sum();
        sum.max(0.0)
    }

    fn adjusted(&self, information: f64, mean_entropy: f64) -> f64 {
        match (self.classes.len(), self.clusters.len()) {
            (1, 1) => return 1.0,
            (1, _) | (_, 1) => return 0.0,
            _ => {}
        }
        let expected = self.expected_information();
        // Rounding may give a perfect 0/0 either sign, so both terms keep their sign and at least
        // one unit of rounding.
        let away_from_zero = |x: f64| {
            if x < 0.0 {
                x.min(-f64::EPSILON)
            } else {
                x.max(f64::EPSILON)
            }
        };
        away_from_zero(information - expected) / away_from_zero(mean_entropy - expected)
    }

    /// Expected mutual information of random divisions with the same sizes (hypergeometric).
    fn expected_information(&self) -> f64 {
        let n = self.rows;
        let factorials = log_factorials(n);
        let logs: Vec<f64> = (0..=n).map(|i| (i.max(1) as f64).ln()).collect();
        let mut sum = 0.0;
        for &a in &self.classes {
            for &b in &self.clusters {
                let fixed = factorials[a] + factorials[b] + factorials[n - a] + factorials[n - b] - factorials[n];
                for both in (a + b).saturating_sub(n).max(1)..=a.min(b) {
                    let log_ratio = logs[n] + logs[both] - logs[a] - logs[b];
                    let log_chance = fixed
                        - factorials[both]
                        - factorials[a - both]
                        - factorials[b - both]
                        - factorials[n + both - a - b];
                    sum += both as f64 / n as f64 * log_ratio * log_chance.exp();
                }
            }
        }
        sum
    }
}

/// ln i! for i in 0..=n, summed with compensation.
fn log_factorials(n: usize) -> Vec<f64> {
    let (mut sum, mut lost) = (0.0_f64, 0.0_f64);
    (0..=n)
        .map(|i| {
            let term = (i.max(1) as f64).ln() - lost;
            let next = sum + term;
            lost = (next - sum) - term;
            sum = next;
            sum
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::agreement;

    #[test]
    fn the_same_division_under_other_names_agrees_fully() {
        let found = agreement(&[0, 0, 1, 1, 7], &[5, 5, 3, 3, 0]);
        assert!((found.v_measure - 1.0).abs() < 1e-12 && (found.ami - 1.0).abs() < 1e-12);
    }

    #[test]
    fn one_cluster_tells_nothing_about_two_classes() {
        let found = agreement(&[0, 0, 1, 1], &[2, 2, 2, 2]);
        assert_eq!(
            (found.homogeneity, found.completeness, found.v_measure, found.ami),
            (0.0, 1.0, 0.0, 0.0)
        );
        assert_eq!(agreement(&[4, 4], &[1, 1]).ami, 1.0);
        assert_eq!(agreement(&[], &[]).v_measure, 1.0);
    }
}
