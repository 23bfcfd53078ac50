//! The decisions of an encoder on data sets: accepted or not, with score and label.

use std::collections::HashSet;

use super::model::{ScoreKind, SetPrompt, ThresholdOptions};
use crate::{
    DatasetInfo, Report, RunItems,
    evidence::{Evidence, resample::Clusters},
    items::{ItemsOfScore, ScoreKey},
    stats::{
        folds::folds,
        threshold::{Point, Points},
    },
    task::TaskType,
};

/// Minimum number of positives and of negatives for choosing a threshold.
pub(super) const FEWEST: usize = 10;
/// Number of folds of cross-validation.
pub(super) const FOLDS: usize = 10;
const FOLD_SEED: u64 = 1;

/// An encoder of a run.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) report: &'a Report,
    pub(super) items: &'a RunItems,
    pub(super) encoder: &'a str,
}

/// A data set with the decisions from which an encoder's thresholds are chosen.
pub(super) struct DatasetDecisions<'a> {
    pub(super) info: &'a DatasetInfo,
    pub(super) score: ScoreKind,
    pub(super) prompts: Vec<SetPrompt>,
    pub(super) clusters: &'a [u32],
    /// Queries without a relevant document, which do not count.
    pub(super) unjudged: usize,
    /// Number of documents that are searched.
    pub(super) corpus: Option<usize>,
    /// The original texts, then the seeds of each transformation.
    pub(super) variants: Vec<VariantPoints>,
}

/// The decisions on the texts of a variant.
pub(super) struct VariantPoints {
    /// The transformation; absent for the originals.
    pub(super) transformation: Option<String>,
    pub(super) seeds: Vec<SeedPoints>,
    /// Share of unchanged texts, from the report; absent for the originals.
    pub(super) unchanged: Option<f64>,
}

pub(super) struct SeedPoints {
    points: Vec<Point>,
    missed: Vec<u32>,
    /// Whether all texts of each item changed; absent if texts are not stored, and for the
    /// originals.
    changed: Option<Vec<bool>>,
}

/// Reads a data set.
///
/// # Errors
/// The reason why it has no threshold.
pub(super) fn of_dataset<'a>(
    run: Run<'a>,
    info: &'a DatasetInfo,
    options: &ThresholdOptions,
) -> Result<DatasetDecisions<'a>, String> {
    let score = kind(info.task, options)?;
    let own = run.items.dataset(&info.name).ok_or("its items are not kept")?;
    let items = run.items.of_encoder(run.encoder);
    let texts = |key: (Option<&str>, Option<u64>)| {
        let mut variants = own.variants.iter();
        variants
            .find(|one| one.transformation.as_deref() == key.0 && one.seed == key.1)
            .map(|one| one.texts.as_slice())
    };
    let originals = texts((None, None));
    let read = |key: ScoreKey<'_>| -> Result<SeedPoints, String> {
        let found = items.get(&key).ok_or("it has no score of some of its texts")?;
        let (points, missed) = points(found, info.task, options)?;
        if missed.len() != own.clusters.len() {
            return Err("its items do not fit its scores".to_owned());
        }
        let changed = key.1.and_then(|label| {
            let (before, after) = (originals?, texts((Some(label), key.2))?);
            let differs = |(before, after): (&Vec<u32>, &Vec<u32>)| {
                before.len() == after.len() && before.iter().zip(after).all(|(before, after)| before != after)
            };
            (before.len() == missed.len() && after.len() == missed.len())
                .then(|| before.iter().zip(after).map(differs).collect())
        });
        Ok(SeedPoints {
            points,
            missed,
            changed,
        })
    };
    let mut variants = vec![VariantPoints {
        transformation: None,
        seeds: vec![read((&info.name, None, None))?],
        unchanged: None,
    }];
    for one in &run.report.suite.transformations {
        let seeds = run.report.suite.seeds.iter();
        variants.push(VariantPoints {
            transformation: Some(one.label.clone()),
            seeds: seeds
                .map(|seed| read((&info.name, Some(&one.label), Some(*seed))))
                .collect::<Result<_, _>>()?,
            unchanged: Some(run.report.unchanged_share(&one.label, Some(&info.name))),
        });
    }
    let searched = items
        .get(&(info.name.as_str(), None, None))
        .and_then(|one| one.lists.as_ref())
        .filter(|_| score == ScoreKind::SearchSimilarity);
    Ok(DatasetDecisions {
        info,
        score,
        prompts: prompts(run, &info.name),
        clusters: &own.clusters,
        unjudged: searched.map_or(0, |lists| lists.judged.iter().filter(|n| **n == 0).count()),
        corpus: searched.map(|lists| lists.corpus),
        variants,
    })
}

/// The score by which a task accepts.
///
/// # Errors
/// The reason why it accepts nothing.
fn kind(task: TaskType, options: &ThresholdOptions) -> Result<ScoreKind, String> {
    let why = match task {
        TaskType::PairClassification => return Ok(ScoreKind::PairCosine),
        TaskType::Sts if options.sts_cut.is_some() => return Ok(ScoreKind::PairCosine),
        TaskType::Retrieval if matches!(options.target, super::ThresholdTarget::Fpr { .. }) => {
            "a search has no false-positive rate, since its negatives are the whole corpus; give a target of precision or f1"
        }
        TaskType::Retrieval => return Ok(ScoreKind::SearchSimilarity),
        TaskType::Sts => {
            "its pairs are graded, neither positive nor negative; say from which gold score a pair is positive with --sts-cut"
        }
        TaskType::Bitext => "of each text the nearest is kept, not its similarity",
        _ => return Err(format!("{task} accepts nothing by a score")),
    };
    Err(why.to_owned())
}

/// The decisions of a score, and the number of positives of each item that have no score.
fn points(found: &ItemsOfScore, task: TaskType, options: &ThresholdOptions) -> Result<(Vec<Point>, Vec<u32>), String> {
    let pairs = |scores: &[f32], positive: &dyn Fn(usize) -> bool| {
        let point = |(item, score): (u32, &f32)| Point {
            score: f64::from(*score),
            positive: positive(item as usize),
            item,
        };
        let points: Vec<Point> = (0_u32..).zip(scores).map(point).collect();
        let missed = vec![0; points.len()];
        (points, missed)
    };
    let (points, missed) = match (task, &found.evidence, &found.lists) {
        (TaskType::PairClassification, Some(Evidence::AveragePrecision { labels, similarities }), _) => {
            let cosines = similarities.first().ok_or("its similarities are not kept")?;
            pairs(cosines, &|item| labels[item])
        }
        (
            TaskType::Sts,
            Some(Evidence::Spearman {
                gold,
                predicted,
                points,
            }),
            _,
        ) if points.is_empty() => {
            let cut = options.sts_cut.unwrap_or(f64::INFINITY);
            pairs(predicted, &|item| gold[item] >= cut)
        }
        (TaskType::Retrieval, _, Some(lists)) => {
            if !lists.fits(lists.documents.len()) {
                return Err("its result lists do not fit together".to_owned());
            }
            if lists.depth < options.k.min(lists.corpus) {
                return Err(format!(
                    "{} documents of each query are kept, fewer than k = {}; give a smaller k",
                    lists.depth, options.k
                ));
            }
            let mut points = Vec::new();
            let mut missed = vec![0; lists.queries()];
            for (query, judged) in lists.judged.iter().enumerate().filter(|(_, judged)| **judged > 0) {
                let relevant = &lists.relevant[query];
                let returned = (1_u32..).zip(&lists.similarities[query]).take(options.k);
                let mut hits = 0;
                for (rank, similarity) in returned {
                    let positive = relevant.contains(&rank);
                    hits += u32::from(positive);
                    points.push(Point {
                        score: f64::from(*similarity),
                        positive,
                        item: u32::try_from(query).unwrap_or(u32::MAX),
                    });
                }
                missed[query] = judged.saturating_sub(hits);
            }
            (points, missed)
        }
        (TaskType::Retrieval, _, None) => {
            return Err("its result lists are not kept; run the check again".to_owned());
        }
        _ => return Err("its scores are not kept item by item; run the check again".to_owned()),
    };
    if points.iter().any(|point| !point.score.is_finite()) {
        return Err("a score is not a number".to_owned());
    }
    Ok((points, missed))
}

/// The prompts used for the texts of a data set.
pub(super) fn prompts(run: Run<'_>, dataset: &str) -> Vec<SetPrompt> {
    let info = run.report.encoders.iter().find(|one| one.id == run.encoder);
    let uses = info.map(|info| info.prompts.as_slice()).unwrap_or_default();
    uses.iter()
        .filter(|one| one.datasets.iter().any(|name| name == dataset))
        .map(|one| SetPrompt {
            part: one.part,
            role: one.role.clone(),
            text: one.text.clone(),
        })
        .collect()
}

/// Several data sets, with items numbered consecutively.
pub(super) struct Scope<'a> {
    pub(super) datasets: Vec<&'a DatasetDecisions<'a>>,
    /// First item of each data set.
    starts: Vec<u32>,
    pub(super) items: usize,
    /// Cluster of each item, numbered consecutively.
    pub(super) clusters: Vec<u32>,
    /// Fold of each item.
    pub(super) folds: Vec<usize>,
    draws: Vec<Clusters>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(datasets: Vec<&'a DatasetDecisions<'a>>) -> Self {
        let (mut starts, mut clusters, mut draws): (Vec<u32>, Vec<u32>, Vec<Clusters>) = Default::default();
        let mut next = 0;
        for own in &datasets {
            starts.push(u32::try_from(clusters.len()).unwrap_or(u32::MAX));
            clusters.extend(own.clusters.iter().map(|cluster| next + cluster));
            next = clusters.iter().max().map_or(0, |last| last + 1);
            let even = Evidence::mean(&vec![0.0; own.clusters.len()], None);
            draws.push(Clusters::new(own.clusters, &even, &own.info.name));
        }
        Self {
            starts,
            items: clusters.len(),
            folds: folds(&clusters, FOLDS, FOLD_SEED),
            clusters,
            datasets,
            draws,
        }
    }

    /// Weights of a resample: clusters are drawn within each data set.
    pub(super) fn draw(&self, index: usize) -> Vec<f64> {
        let (mut all, mut own) = (Vec::with_capacity(self.items), Vec::new());
        for clusters in &self.draws {
            clusters.draw(index, &mut own);
            all.extend_from_slice(&own);
        }
        all
    }

    pub(super) fn cluster_count(&self) -> usize {
        self.clusters.iter().collect::<HashSet<_>>().len()
    }

    pub(super) fn variants(&self) -> usize {
        self.datasets.first().map_or(0, |own| own.variants.len())
    }

    pub(super) fn label(&self, variant: usize) -> Option<String> {
        self.datasets.first()?.variants.get(variant)?.transformation.clone()
    }

    /// The decisions of a variant, one seed after the other. `keep`: items that count, by data set,
    /// seed and item.
    pub(super) fn points(&self, variant: usize, only_changed: bool) -> Option<Points> {
        let (mut all, mut missed) = (Vec::new(), vec![0; self.items]);
        for (own, start) in self.datasets.iter().zip(&self.starts) {
            for seed in &own.variants[variant].seeds {
                let changed = match (only_changed, &seed.changed) {
                    (false, _) => None,
                    (true, Some(changed)) => Some(changed),
                    (true, None) => return None,
                };
                let counts = |item: u32| changed.is_none_or(|changed| changed[item as usize]);
                let points = seed.points.iter().filter(|point| counts(point.item));
                all.extend(points.map(|point| Point {
                    item: point.item + start,
                    ..*point
                }));
                for (item, own) in (0_u32..).zip(&seed.missed).filter(|(item, _)| counts(*item)) {
                    missed[(item + start) as usize] += own;
                }
            }
        }
        Some(Points::new(all, missed))
    }

    /// Share of the items with an unchanged text, or, if texts are not stored, share of unchanged
    /// texts, whichever the run provides; absent for the originals.
    pub(super) fn unchanged(&self, variant: usize) -> Option<f64> {
        let (mut same, mut of) = (0, 0);
        let mut measured: f64 = 0.0;
        for own in &self.datasets {
            let variant = &own.variants[variant];
            measured = measured.max(variant.unchanged?);
            for changed in variant.seeds.iter().filter_map(|seed| seed.changed.as_ref()) {
                same += changed.iter().filter(|changed| !**changed).count();
                of += changed.len();
            }
        }
        let counted = if of == 0 { 0.0 } else { same as f64 / of as f64 };
        Some(counted.max(measured))
    }

    /// Positives and negatives among the decisions on original texts, including those without a
    /// score.
    pub(super) fn classes(&self) -> (usize, usize) {
        let seeds = || self.datasets.iter().flat_map(|own| &own.variants[0].seeds);
        let points = seeds().flat_map(|seed| &seed.points);
        let (positive, negative): (Vec<&Point>, Vec<&Point>) = points.partition(|point| point.positive);
        let missed: u32 = seeds().flat_map(|seed| &seed.missed).sum();
        (positive.len() + missed as usize, negative.len())
    }

    /// The score and label of each original pair, in the order of the items.
    pub(super) fn scores(&self, variant: usize) -> Vec<Vec<f64>> {
        let seeds = self.datasets.first().map_or(0, |own| own.variants[variant].seeds.len());
        (0..seeds)
            .map(|seed| {
                let own = self.datasets.iter().map(|own| &own.variants[variant].seeds[seed]);
                own.flat_map(|seed| seed.points.iter().map(|point| point.score))
                    .collect()
            })
            .collect()
    }
}
