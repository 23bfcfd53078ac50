//! A threshold over some data sets: chosen on the original texts, evaluated on all of them.

use rayon::prelude::*;

use super::{
    ThresholdTarget,
    decisions::{DatasetDecisions, FEWEST, FOLDS, Scope},
    model::{
        DecisionCounts, Rate, Rates, Restored, ScoreInterval, ScoreKind, TargetMet, ThresholdLanguage,
        ThresholdOptions, ThresholdRow, ThresholdSet,
    },
};
use crate::{
    diff::language,
    format::share,
    profile::{LEVEL, resamples},
    stats::{
        clopper_pearson_lower, clustered_proportion, quantile,
        threshold::{Counts, NoThreshold, Points, Target, ThresholdChoice},
    },
};

/// Minimum share of unchanged items for a note: the gate's default limit.
const MANY_UNCHANGED: f64 = 0.10;

pub(super) fn target(of: ThresholdTarget) -> Target {
    match of {
        ThresholdTarget::Precision { at } => Target::Precision(at),
        ThresholdTarget::Fpr { at } => Target::FalsePositiveRate(at),
        ThresholdTarget::F1 => Target::F1,
    }
}

/// The threshold of some data sets.
///
/// # Errors
/// The reason why there is none.
pub(super) fn set(
    name: &str,
    datasets: Vec<&DatasetDecisions<'_>>,
    options: &ThresholdOptions,
) -> Result<ThresholdSet, String> {
    let first = *datasets.first().ok_or("it has no data sets")?;
    let scope = Scope::new(datasets);
    let own = Chooser::new(&scope, options)?;
    let mut set = ThresholdSet {
        name: name.to_owned(),
        datasets: scope.datasets.iter().map(|own| own.info.name.clone()).collect(),
        task: first.info.task,
        score: first.score,
        prompts: first.prompts.clone(),
        threshold: own.chosen.threshold,
        accepted: own.chosen.accepted,
        rejected: own.chosen.rejected,
        interval: own.interval(),
        items: scope.items,
        clusters: scope.cluster_count(),
        prevalence: own.prevalence(),
        notes: Vec::new(),
        rows: own.rows(&scope),
        languages: Vec::new(),
    };
    set.languages = languages(&scope, &own);
    set.notes = notes(&set, &scope);
    Ok(set)
}

/// The rows of each language; empty if there is only one.
fn languages(scope: &Scope<'_>, own: &Chooser<'_>) -> Vec<ThresholdLanguage> {
    let mut all: Vec<String> = scope.datasets.iter().map(|own| language(own.info)).collect();
    all.sort_unstable();
    all.dedup();
    if all.len() < 2 {
        return Vec::new();
    }
    let of = |name: String| {
        let datasets = scope.datasets.iter().copied();
        let part = Scope::new(datasets.filter(|own| language(own.info) == name).collect());
        ThresholdLanguage {
            datasets: part.datasets.iter().map(|own| own.info.name.clone()).collect(),
            rows: own.on(&part),
            language: name,
        }
    };
    all.into_iter().map(of).collect()
}

fn notes(set: &ThresholdSet, scope: &Scope<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    if set.rejected.is_none() {
        notes.push("the threshold accepts every original decision: it separates nothing".to_owned());
    }
    if let Some(interval) = set
        .interval
        .as_ref()
        .filter(|interval| interval.without * 10 > interval.resamples)
    {
        notes.push(format!(
            "{} of {} resamples have no threshold that reaches the target: with other items there may be none",
            interval.without, interval.resamples
        ));
    }
    let unjudged: usize = scope.datasets.iter().map(|own| own.unjudged).sum();
    if unjudged > 0 {
        notes.push(format!("{unjudged} queries without a relevant document do not count"));
    }
    if set.score == ScoreKind::SearchSimilarity {
        notes.push(
            "documents that nobody judged count as not relevant, so that the true precision may be higher".to_owned(),
        );
    }
    if let Some(corpus) = scope.datasets.iter().filter_map(|own| own.corpus).min() {
        let smallest = if scope.datasets.len() > 1 {
            "in the smallest corpus "
        } else {
            ""
        };
        notes.push(format!(
            "{smallest}{corpus} documents are searched; in a larger corpus more documents that are not relevant reach the threshold"
        ));
    }
    for row in &set.rows {
        let (Some(label), Some(unchanged)) = (&row.transformation, row.unchanged) else {
            continue;
        };
        if unchanged > MANY_UNCHANGED {
            notes.push(format!(
                "under {label} {} of the texts stayed as they were, so that its rates are too near to those of the originals; \
                 see those over changed items",
                share(unchanged)
            ));
        }
    }
    notes
}

/// The threshold of a single data set.
///
/// # Errors
/// The reason why there is none.
pub(super) fn alone(own: &DatasetDecisions<'_>, options: &ThresholdOptions) -> Result<f64, String> {
    let scope = Scope::new(vec![own]);
    enough(&scope)?;
    let points = scope.points(0, false).ok_or("its items are not kept")?;
    let found = points.choose(target(options.target), &vec![1.0; scope.items]);
    found
        .map(|found| found.threshold)
        .map_err(|why| reason_text(why, options.target))
}

fn enough(scope: &Scope<'_>) -> Result<(), String> {
    let (positives, negatives) = scope.classes();
    if positives < FEWEST || negatives < FEWEST {
        return Err(format!(
            "it has {positives} positives and {negatives} negatives; a threshold takes at least {FEWEST} of each"
        ));
    }
    Ok(())
}

/// The choice of a threshold, and the thresholds chosen.
struct Chooser<'a> {
    target: ThresholdTarget,
    chosen: ThresholdChoice,
    originals: Points,
    /// For each fold, the threshold chosen on the other folds.
    of_folds: Vec<Option<f64>>,
    /// The threshold on each resample; NaN if there is none.
    resampled: Vec<f64>,
    scope: &'a Scope<'a>,
}

impl<'a> Chooser<'a> {
    fn new(scope: &'a Scope<'a>, options: &ThresholdOptions) -> Result<Self, String> {
        enough(scope)?;
        let originals = scope.points(0, false).ok_or("its items are not kept")?;
        let even = vec![1.0; scope.items];
        let chosen = originals
            .choose(target(options.target), &even)
            .map_err(|why| reason_text(why, options.target))?;
        let of_folds = (0..FOLDS)
            .map(|fold| {
                let weights: Vec<f64> = scope
                    .folds
                    .iter()
                    .map(|own| f64::from(u8::from(*own != fold)))
                    .collect();
                originals
                    .choose(target(options.target), &weights)
                    .ok()
                    .map(|found| found.threshold)
            })
            .collect();
        let mut own = Self {
            target: options.target,
            chosen,
            originals,
            of_folds,
            resampled: Vec::new(),
            scope,
        };
        own.resampled = own.over_resamples(&own.originals);
        Ok(own)
    }

    /// The threshold on each resample of the items; NaN if there is none.
    fn over_resamples(&self, points: &Points) -> Vec<f64> {
        (0..resamples(points.len()))
            .into_par_iter()
            .map(|index| {
                let found = points.choose(target(self.target), &self.scope.draw(index));
                found.map_or(f64::NAN, |found| found.threshold)
            })
            .collect()
    }

    fn interval(&self) -> Option<ScoreInterval> {
        percentiles(&self.resampled, self.scope)
    }

    fn prevalence(&self) -> f64 {
        let counts = self.originals.counts(f64::INFINITY, &vec![1.0; self.scope.items]);
        counts.false_negatives / (counts.false_negatives + counts.true_negatives)
    }

    /// The rows of the data sets that it was chosen on.
    fn rows(&self, scope: &Scope<'_>) -> Vec<ThresholdRow> {
        let mut rows = self.on(scope);
        for (variant, row) in rows.iter_mut().enumerate().skip(1) {
            match self.restored(variant) {
                Ok(restored) => row.restored = Some(restored),
                Err(why) => row.not_restored = Some(why),
            }
        }
        rows
    }

    /// The rows of these data sets, which may be a subset of those that it was chosen on.
    fn on(&self, part: &Scope<'_>) -> Vec<ThresholdRow> {
        let row = |variant| self.row(part, variant);
        (0..part.variants()).filter_map(row).collect()
    }

    fn row(&self, part: &Scope<'_>, variant: usize) -> Option<ThresholdRow> {
        let points = part.points(variant, false)?;
        let at = |_| self.chosen.threshold;
        let rates = self.rates(part, &points, &at);
        // A part's own folds differ from those of the whole, so each item uses the fold in the
        // whole.
        let folds = self.folds_of(part);
        let held_out = self.of_folds.iter().all(Option::is_some).then(|| {
            let threshold = |item: u32| self.of_folds[folds[item as usize]].unwrap_or(f64::INFINITY);
            self.rates(part, &points, &threshold)
        });
        let changed = (variant > 0).then(|| part.points(variant, true)).flatten();
        let (target, target_note) = self.met(held_out.as_ref());
        Some(ThresholdRow {
            transformation: part.label(variant),
            counts: whole(points.counts(self.chosen.threshold, &vec![1.0; part.items])),
            rates,
            held_out,
            target,
            target_note,
            unchanged: part.unchanged(variant),
            changed: changed
                .filter(|points| !points.is_empty())
                .map(|points| self.rates(part, &points, &at)),
            restored: None,
            not_restored: None,
        })
    }

    /// The fold of each item of a part in the whole.
    fn folds_of(&self, part: &Scope<'_>) -> Vec<usize> {
        let mut folds = Vec::with_capacity(part.items);
        let mut start = 0;
        for own in &self.scope.datasets {
            let end = start + own.clusters.len();
            if part.datasets.iter().any(|other| other.info.name == own.info.name) {
                folds.extend_from_slice(&self.scope.folds[start..end]);
            }
            start = end;
        }
        folds
    }

    fn rates(&self, part: &Scope<'_>, points: &Points, threshold: &dyn Fn(u32) -> f64) -> Rates {
        rates(part, points, threshold, self.scope.datasets[0].score)
    }

    /// Whether the target is proven to be met.
    fn met(&self, held_out: Option<&Rates>) -> (TargetMet, Option<String>) {
        let Some(rates) = held_out else {
            let why = "some folds have no threshold that reaches the target".to_owned();
            return match self.target {
                ThresholdTarget::F1 => (TargetMet::NoNumber, None),
                _ => (TargetMet::NotShown, Some(why)),
            };
        };
        let (rate, at, least) = match self.target {
            ThresholdTarget::F1 => return (TargetMet::NoNumber, None),
            ThresholdTarget::Precision { at } => (Some(&rates.precision), at, true),
            ThresholdTarget::Fpr { at } => (rates.fpr.as_ref(), at, false),
        };
        let Some((rate, low, high)) = rate.and_then(|rate| Some((rate, rate.low?, rate.high?))) else {
            return (
                TargetMet::NotShown,
                Some("fewer than two clusters of items have a decision".to_owned()),
            );
        };
        let (met, missed) = if least {
            (low >= at, high < at)
        } else {
            (high <= at, low > at)
        };
        match (met, missed) {
            (true, _) => (TargetMet::Met, None),
            (_, true) => (TargetMet::Missed, None),
            _ => (TargetMet::NotShown, too_few(rate, at, least)),
        }
    }

    /// The threshold that restores the target under a transformation.
    fn restored(&self, variant: usize) -> Result<Restored, String> {
        let points = self.scope.points(variant, false).ok_or("its items are not kept")?;
        let even = vec![1.0; self.scope.items];
        let found = points
            .choose(target(self.target), &even)
            .map_err(|why| reason_text(why, self.target))?;
        let changes: Vec<f64> = self
            .over_resamples(&points)
            .iter()
            .enumerate()
            .map(|(index, threshold)| threshold - self.resampled.get(index).copied().unwrap_or(f64::NAN))
            .collect();
        Ok(Restored {
            threshold: found.threshold,
            change: found.threshold - self.chosen.threshold,
            interval: percentiles(&changes, self.scope),
            rates: self.rates(self.scope, &points, &|_| found.threshold),
        })
    }
}

/// The rates of decisions at a threshold.
pub(super) fn rates(part: &Scope<'_>, points: &Points, threshold: &dyn Fn(u32) -> f64, score: ScoreKind) -> Rates {
    let clusters = part.clusters.iter().max().map_or(0, |last| *last as usize + 1);
    let of_clusters = points.counts_of(threshold, &part.clusters, clusters);
    let rate = |part: fn(&Counts) -> f64, rest: fn(&Counts) -> f64| {
        let own: Vec<(f64, f64)> = of_clusters
            .iter()
            .map(|counts| (part(counts), part(counts) + rest(counts)))
            .collect();
        let (hits, of) = own.iter().fold((0.0, 0.0), |(h, o), own| (h + own.0, o + own.1));
        let interval = clustered_proportion(&own, LEVEL);
        Rate {
            value: (of > 0.0).then(|| hits / of),
            low: interval.map(|found| found.low),
            high: interval.map(|found| found.high),
            of: of as u64,
            effective: interval.map_or(0.0, |found| found.effective),
        }
    };
    let all = of_clusters.iter().fold(Counts::default(), |sum, own| Counts {
        true_positives: sum.true_positives + own.true_positives,
        false_positives: sum.false_positives + own.false_positives,
        false_negatives: sum.false_negatives + own.false_negatives,
        true_negatives: sum.true_negatives + own.true_negatives,
    });
    Rates {
        precision: rate(|c| c.true_positives, |c| c.false_positives),
        recall: rate(|c| c.true_positives, |c| c.false_negatives),
        fpr: (score == ScoreKind::PairCosine).then(|| rate(|c| c.false_positives, |c| c.true_negatives)),
        f1: all.f1(),
    }
}

fn whole(counts: Counts) -> DecisionCounts {
    DecisionCounts {
        true_positives: counts.true_positives as u64,
        false_positives: counts.false_positives as u64,
        false_negatives: counts.false_negatives as u64,
        true_negatives: counts.true_negatives as u64,
    }
}

/// Percentiles of resampled values; `None` if half of the resamples have no value, or nothing can
/// vary.
fn percentiles(values: &[f64], scope: &Scope<'_>) -> Option<ScoreInterval> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    if scope.cluster_count() < 2 || sorted.len() < 2 || sorted.len() * 2 < values.len() {
        return None;
    }
    sorted.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - LEVEL) / 2.0;
    Some(ScoreInterval {
        low: quantile(&sorted, tail)?,
        high: quantile(&sorted, 1.0 - tail)?,
        level: LEVEL,
        resamples: values.len(),
        without: values.len() - sorted.len(),
        method: "bootstrap of clusters of items, percentiles".to_owned(),
    })
}

/// The reason why a rate cannot prove a target, if no outcome of so few decisions could.
fn too_few(rate: &Rate, at: f64, least: bool) -> Option<String> {
    let needed = if least { at } else { 1.0 - at };
    let trials = rate.effective.floor() as u64;
    if clopper_pearson_lower(trials, trials, (1.0 - LEVEL) / 2.0) >= needed {
        return None;
    }
    let fewest = ((1.0 - LEVEL) / 2.0).ln() / needed.ln();
    Some(format!(
        "{trials} independent decisions cannot show it, even without an error; {} can",
        fewest.ceil()
    ))
}

fn reason_text(why: NoThreshold, of: ThresholdTarget) -> String {
    match (why, of) {
        (NoThreshold::Unreachable { best }, ThresholdTarget::Precision { at }) => {
            format!("no threshold has a precision of {at}; the best that accepts a positive has {best:.3}")
        }
        (NoThreshold::Unreachable { best }, ThresholdTarget::Fpr { at }) => {
            format!(
                "no threshold that accepts a positive has a false-positive rate of at most {at}; the best has {best:.3}"
            )
        }
        (why, _) => why.to_string(),
    }
}
