//! A threshold of a score: its choice for a target, and its effects.
//!
//! A point is accepted if its score is at least the threshold. Points with equal scores are
//! accepted together, so that no threshold lies among them. Precision, recall and F1 are
//! scikit-learn's. Candidate thresholds lie between the scores that
//! `sklearn.metrics.precision_recall_curve` and `roc_curve` visit.

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// The lowest threshold whose precision is at least this value, which maximises recall.
    Precision(f64),
    /// The lowest threshold whose false-positive rate is at most this value, which maximises
    /// recall.
    FalsePositiveRate(f64),
    /// The threshold with the highest F1; the highest such threshold if several tie.
    F1,
}

/// The reason why no threshold exists.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum NoThreshold {
    /// The points include no positive.
    #[error("there is no positive")]
    NoPositive,
    /// The points include no negative.
    #[error("there is no negative")]
    NoNegative,
    /// No threshold reaches the target.
    #[error("no threshold reaches it: the best has {best:.4}")]
    Unreachable {
        /// The highest precision, or the lowest false-positive rate, of a threshold that accepts a
        /// positive.
        best: f64,
    },
}

/// The classification of the points; numbers are sums of weights.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counts {
    pub true_positives: f64,
    /// Negatives accepted.
    pub false_positives: f64,
    /// Positives not accepted.
    pub false_negatives: f64,
    /// Negatives not accepted.
    pub true_negatives: f64,
}

impl Counts {
    /// Share of positives among the accepted points; `None` if nothing is accepted.
    pub fn precision(&self) -> Option<f64> {
        share(self.true_positives, self.false_positives)
    }

    /// Share of the positives that are accepted.
    pub fn recall(&self) -> Option<f64> {
        share(self.true_positives, self.false_negatives)
    }

    /// Share of the negatives that are accepted.
    pub fn false_positive_rate(&self) -> Option<f64> {
        share(self.false_positives, self.true_negatives)
    }

    /// Harmonic mean of precision and recall; `None` without positives.
    pub fn f1(&self) -> Option<f64> {
        let wrong = self.false_positives + self.false_negatives;
        (self.true_positives + self.false_negatives > 0.0)
            .then(|| 2.0 * self.true_positives / (2.0 * self.true_positives + wrong))
    }
}

fn share(part: f64, rest: f64) -> Option<f64> {
    (part + rest > 0.0).then(|| part / (part + rest))
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThresholdChoice {
    /// Midpoint of the following two scores; the lowest score if everything is accepted.
    pub threshold: f64,
    /// The lowest accepted score.
    pub accepted: f64,
    /// The highest rejected score; absent if everything is accepted.
    pub rejected: Option<f64>,
    /// The classification of the points under it.
    pub counts: Counts,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Its score: finite.
    pub score: f64,
    pub positive: bool,
    /// The item to which it belongs. Weights are per item.
    pub item: u32,
}

/// Points with their labels, sorted once.
#[derive(Debug, Clone)]
pub struct Points {
    /// The points, highest score first.
    sorted: Vec<Point>,
    /// Positives of each item that have no score and are never accepted, e.g. relevant documents
    /// that a search did not return.
    missed: Vec<u32>,
}

impl Points {
    /// Creates points from any order. `missed` has an entry for each item.
    pub fn new(mut points: Vec<Point>, missed: Vec<u32>) -> Self {
        points.sort_by(|a, b| b.score.total_cmp(&a.score));
        Self { sorted: points, missed }
    }

    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether the list of points is empty.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// The counts under a threshold, with each point counted as often as its item's weight.
    pub fn counts(&self, threshold: f64, weights: &[f64]) -> Counts {
        let weight = |item: u32| weights[item as usize];
        let mut counts = self.nothing_accepted(&weight);
        for point in self.sorted.iter().take_while(|point| point.score >= threshold) {
            accept(&mut counts, point, weight(point.item));
        }
        counts
    }

    /// The counts for the points of each cluster, with a threshold for each item. `clusters`
    /// contains the cluster of each item, below `count`.
    pub fn counts_of(&self, threshold: impl Fn(u32) -> f64, clusters: &[u32], count: usize) -> Vec<Counts> {
        let mut all = vec![Counts::default(); count];
        for point in &self.sorted {
            let counts = &mut all[clusters[point.item as usize] as usize];
            match (point.positive, point.score >= threshold(point.item)) {
                (true, true) => counts.true_positives += 1.0,
                (true, false) => counts.false_negatives += 1.0,
                (false, true) => counts.false_positives += 1.0,
                (false, false) => counts.true_negatives += 1.0,
            }
        }
        for (cluster, missed) in clusters.iter().zip(&self.missed) {
            all[*cluster as usize].false_negatives += f64::from(*missed);
        }
        all
    }

    fn nothing_accepted(&self, weight: &impl Fn(u32) -> f64) -> Counts {
        let mut counts = Counts::default();
        for point in &self.sorted {
            let weight = weight(point.item);
            if point.positive {
                counts.false_negatives += weight;
            } else {
                counts.true_negatives += weight;
            }
        }
        for (item, missed) in (0_u32..).zip(&self.missed) {
            counts.false_negatives += weight(item) * f64::from(*missed);
        }
        counts
    }

    /// Chooses a threshold, with each point counted as often as its item's weight.
    ///
    /// # Errors
    /// If the points lack positives or negatives, or no threshold that accepts a positive reaches
    /// the target.
    pub fn choose(&self, target: Target, weights: &[f64]) -> Result<ThresholdChoice, NoThreshold> {
        let weight = |item: u32| weights[item as usize];
        let mut counts = self.nothing_accepted(&weight);
        if counts.false_negatives <= 0.0 {
            return Err(NoThreshold::NoPositive);
        }
        if counts.true_negatives <= 0.0 {
            return Err(NoThreshold::NoNegative);
        }
        let mut best: Option<f64> = None;
        let mut choice: Option<ThresholdChoice> = None;
        // Whether the last found threshold still lacks the next lower score.
        let mut open = false;
        for group in self.sorted.chunk_by(|a, b| a.score == b.score) {
            let counted: f64 = group.iter().map(|point| weight(point.item)).sum();
            if counted <= 0.0 {
                continue;
            }
            let score = group[0].score;
            if let Some(choice) = choice.as_mut().filter(|_| open) {
                (choice.rejected, choice.threshold) = (Some(score), f64::midpoint(score, choice.accepted));
                open = false;
            }
            for point in group {
                accept(&mut counts, point, weight(point.item));
            }
            if counts.true_positives <= 0.0 {
                continue;
            }
            let value = match target {
                Target::Precision(_) => counts.precision(),
                Target::FalsePositiveRate(_) => counts.false_positive_rate().map(|rate| -rate),
                Target::F1 => counts.f1(),
            };
            let Some(value) = value else { continue };
            let reached = match target {
                Target::Precision(least) => value >= least,
                Target::FalsePositiveRate(most) => -value <= most,
                Target::F1 => best.is_none_or(|best| value > best),
            };
            best = Some(best.map_or(value, |best| best.max(value)));
            if reached {
                open = true;
                choice = Some(ThresholdChoice {
                    threshold: score,
                    accepted: score,
                    rejected: None,
                    counts,
                });
            }
        }
        let best = best.unwrap_or(0.0);
        choice.ok_or(NoThreshold::Unreachable {
            best: match target {
                Target::FalsePositiveRate(_) => -best,
                _ => best,
            },
        })
    }
}

fn accept(counts: &mut Counts, point: &Point, weight: f64) {
    if point.positive {
        counts.true_positives += weight;
        counts.false_negatives -= weight;
    } else {
        counts.false_positives += weight;
        counts.true_negatives -= weight;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn points(rows: &[(f64, bool)]) -> Points {
        let points = (0_u32..).zip(rows).map(|(item, (score, positive))| Point {
            score: *score,
            positive: *positive,
            item,
        });
        Points::new(points.collect(), vec![0; rows.len()])
    }

    const ROWS: [(f64, bool); 8] = [
        (0.9, true),
        (0.8, true),
        (0.7, false),
        (0.6, true),
        (0.5, true),
        (0.4, false),
        (0.3, true),
        (0.2, false),
    ];

    #[test]
    fn the_lowest_threshold_that_reaches_the_target_is_chosen() {
        let all = points(&ROWS);
        let even = [1.0; 8];
        let at = |target| all.choose(target, &even).unwrap();
        // 4 of 5 down to 0.5; below that, 4 of 6.
        let choice = at(Target::Precision(0.8));
        assert_eq!((choice.accepted, choice.rejected), (0.5, Some(0.4)));
        assert!((choice.threshold - 0.45).abs() < 1e-12);
        assert_eq!(choice.counts, all.counts(choice.threshold, &even));
        assert_eq!(at(Target::Precision(1.0)).accepted, 0.8);
        assert_eq!(at(Target::FalsePositiveRate(0.34)).accepted, 0.5);
        assert_eq!(at(Target::FalsePositiveRate(0.0)).accepted, 0.8);
        // F1 of 0.833 down to 0.3, of 0.8 down to 0.5.
        assert_eq!(at(Target::F1).accepted, 0.3);
    }

    #[test]
    fn ties_are_accepted_together_and_no_threshold_lies_among_them() {
        let all = points(&[(0.9, true), (0.5, true), (0.5, false), (0.5, true), (0.1, false)]);
        let choice = all.choose(Target::Precision(0.9), &[1.0; 5]).unwrap();
        assert_eq!((choice.accepted, choice.counts.true_positives), (0.9, 1.0));
        let tied = points(&[(0.5, true), (0.5, false)]);
        let refused = tied.choose(Target::Precision(0.9), &[1.0; 2]).unwrap_err();
        assert_eq!(refused, NoThreshold::Unreachable { best: 0.5 });
        // If accepting everything reaches the target, the threshold is the lowest score.
        let choice = tied.choose(Target::Precision(0.5), &[1.0; 2]).unwrap();
        assert_eq!((choice.threshold, choice.rejected), (0.5, None));
    }

    #[test]
    fn without_positives_or_negatives_there_is_none_and_a_rate_of_nothing_is_absent() {
        let even = [1.0; 8];
        let one_class = |label: bool| points(&ROWS.map(|(score, _)| (score, label)));
        let refused = |all: &Points, target| all.choose(target, &even).unwrap_err();
        assert_eq!(refused(&one_class(false), Target::F1), NoThreshold::NoPositive);
        assert_eq!(refused(&one_class(true), Target::F1), NoThreshold::NoNegative);
        // The target is zero false positives, and the highest score is a negative's.
        let all = points(&[(0.9, false), (0.8, true)]);
        assert_eq!(
            refused(&all, Target::FalsePositiveRate(0.1)),
            NoThreshold::Unreachable { best: 1.0 }
        );
        let nothing = points(&ROWS).counts(2.0, &even);
        assert_eq!(
            (nothing.precision(), nothing.recall(), nothing.f1()),
            (None, Some(0.0), Some(0.0))
        );
    }

    #[test]
    fn weights_count_rows_and_positives_without_a_score_count_against_recall() {
        let all = points(&ROWS);
        let weights = [1.0, 0.0, 2.0, 1.0, 1.0, 0.0, 3.0, 1.0];
        let written: Vec<(f64, bool)> = ROWS
            .iter()
            .zip(weights)
            .flat_map(|(row, weight)| std::iter::repeat_n(*row, weight as usize))
            .collect();
        let even = vec![1.0; written.len()];
        for target in [Target::Precision(0.7), Target::FalsePositiveRate(0.5), Target::F1] {
            let choice = all.choose(target, &weights);
            assert_eq!(choice, points(&written).choose(target, &even), "{target:?}");
        }
        let missed = Points::new(all.sorted.clone(), vec![5, 0, 0, 0, 0, 0, 0, 0]);
        let counts = missed.counts(0.45, &[1.0; 8]);
        assert_eq!(counts.recall(), Some(0.4));
        assert_eq!(counts.precision(), Some(0.8));
        // The counts of the clusters add up, including missed positives.
        let clusters = [0, 0, 1, 1, 2, 2, 2, 2];
        let parts = missed.counts_of(|_| 0.45, &clusters, 3);
        let sum = |of: fn(&Counts) -> f64| parts.iter().map(of).sum::<f64>();
        assert_eq!(sum(|c| c.true_positives), counts.true_positives);
        assert_eq!(sum(|c| c.false_negatives), counts.false_negatives);
        assert_eq!(sum(|c| c.false_positives), counts.false_positives);
        assert_eq!((parts[0].false_negatives, parts[2].true_negatives), (5.0, 2.0));
    }
}
