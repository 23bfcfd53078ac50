//! Accuracy, precision, recall and F1 over classes.

/// Counts of predicted and true classes.
#[derive(Debug, Clone)]
pub struct Confusion {
    rows: usize,
    correct: usize,
    /// Per class: rows of the class, rows predicted as the class, and rows that are both.
    classes: Vec<[usize; 3]>,
}

/// mteb's scores of a classification.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassificationScores {
    /// Fraction of rows predicted correctly.
    pub accuracy: f64,
    /// F1, the mean over classes.
    pub f1: f64,
    /// F1, weighted by the classes' rows.
    pub f1_weighted: f64,
    /// Precision, the mean over classes.
    pub precision: f64,
    /// Precision, weighted by the classes' rows.
    pub precision_weighted: f64,
    /// Recall, the mean over classes.
    pub recall: f64,
    /// Recall, weighted by the classes' rows: the accuracy.
    pub recall_weighted: f64,
    /// Average precision of the predicted classes, if the truth has exactly two; the later one is
    /// positive.
    pub ap: Option<f64>,
}

impl Confusion {
    /// Counts classes in `0..classes`. Other classes are an error of the caller and are not
    /// counted.
    pub fn new(truth: &[usize], predicted: &[usize], classes: usize) -> Self {
        let mut counts = vec![[0; 3]; classes];
        let mut correct = 0;
        for (&t, &p) in truth.iter().zip(predicted) {
            let hit = t == p;
            correct += usize::from(hit);
            if let Some(count) = counts.get_mut(t) {
                count[0] += 1;
                count[2] += usize::from(hit);
            }
            if let Some(count) = counts.get_mut(p) {
                count[1] += 1;
            }
        }
        Self {
            rows: truth.len().min(predicted.len()),
            correct,
            classes: counts,
        }
    }

    /// Fraction of rows predicted correctly.
    pub fn accuracy(&self) -> f64 {
        ratio(self.correct, self.rows)
    }

    /// F1 of one class; 0 if the class does not occur.
    pub fn f1_of(&self, class: usize) -> f64 {
        self.classes.get(class).map_or(0.0, |c| per_class(c)[2])
    }

    /// Precision, recall and F1: means over the classes that occur in truth or prediction; a ratio
    /// without a denominator counts as 0.
    pub fn macro_averages(&self) -> [f64; 3] {
        let rows: Vec<[f64; 3]> = self.classes.iter().filter(|c| c[0] + c[1] > 0).map(per_class).collect();
        std::array::from_fn(|i| rows.iter().map(|r| r[i]).sum::<f64>() / rows.len() as f64)
    }

    /// Precision, recall and F1: weighted by the classes' rows in the truth.
    pub fn weighted_averages(&self) -> [f64; 3] {
        std::array::from_fn(|i| {
            let sum: f64 = self.classes.iter().map(|c| per_class(c)[i] * c[0] as f64).sum();
            sum / self.rows as f64
        })
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Precision, recall and F1 of a class.
fn per_class(count: &[usize; 3]) -> [f64; 3] {
    let [rows, predicted, hits] = *count;
    [
        ratio(hits, predicted),
        ratio(hits, rows),
        ratio(2 * hits, rows + predicted),
    ]
}

impl ClassificationScores {
    /// Scores predictions of classes in `0..classes`.
    pub fn new(truth: &[usize], predicted: &[usize], classes: usize) -> Self {
        let confusion = Confusion::new(truth, predicted, classes);
        let [precision, recall, f1] = confusion.macro_averages();
        let [precision_weighted, recall_weighted, f1_weighted] = confusion.weighted_averages();
        let mut present: Vec<usize> = (0..classes).filter(|c| confusion.classes[*c][0] > 0).collect();
        let ap = (present.len() == 2).then(|| {
            let positive = present.pop();
            let truth: Vec<bool> = truth.iter().map(|t| Some(*t) == positive).collect();
            let scores: Vec<f64> = predicted.iter().map(|p| *p as f64).collect();
            super::average_precision(&truth, &scores)
        });
        Self {
            accuracy: confusion.accuracy(),
            f1,
            f1_weighted,
            precision,
            precision_weighted,
            recall,
            recall_weighted,
            ap,
        }
    }

    /// The mean of each score.
    pub fn mean(scores: &[Self]) -> Self {
        let of = |get: fn(&Self) -> f64| scores.iter().map(get).sum::<f64>() / scores.len() as f64;
        let aps: Vec<f64> = scores.iter().filter_map(|s| s.ap).collect();
        Self {
            accuracy: of(|s| s.accuracy),
            f1: of(|s| s.f1),
            f1_weighted: of(|s| s.f1_weighted),
            precision: of(|s| s.precision),
            precision_weighted: of(|s| s.precision_weighted),
            recall: of(|s| s.recall),
            recall_weighted: of(|s| s.recall_weighted),
            ap: (!aps.is_empty()).then(|| aps.iter().sum::<f64>() / aps.len() as f64),
        }
    }

    /// The scores by mteb's keys; `ap` and `ap_weighted` only if there are two classes.
    pub fn named(&self) -> Vec<(&'static str, f64)> {
        let mut named = vec![
            ("accuracy", self.accuracy),
            ("f1", self.f1),
            ("f1_weighted", self.f1_weighted),
            ("precision", self.precision),
            ("precision_weighted", self.precision_weighted),
            ("recall", self.recall),
            ("recall_weighted", self.recall_weighted),
        ];
        if let Some(ap) = self.ap {
            named.extend([("ap", ap), ("ap_weighted", ap)]);
        }
        named
    }
}
