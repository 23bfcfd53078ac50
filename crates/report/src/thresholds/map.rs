//! A non-decreasing map from an earlier encoder's scores to the current one's, on the same pairs.

use super::{
    decisions::{DatasetDecisions, FOLDS, Run, Scope, of_dataset},
    measure::{alone, rates},
    model::{
        Knot, MapError, MappedThreshold, ScoreKind, ScoreMap, ScoredEncoder, ThresholdOptions, TransformationMapError,
        WithoutThreshold,
    },
};
use crate::{
    diff::comparable::SharedParts,
    stats::{
        isotonic::{Isotonic, cross_validated},
        mean, quantile, spearman,
    },
    task::TaskType,
};

/// Minimum number of pairs for fitting a map.
const FEWEST_PAIRS: usize = 30;

/// The maps of the data sets that two runs share, and the reasons why the others have none: one
/// over all of them if their prompts are the same, else one for each.
pub(super) fn maps(
    [old, new]: [Run<'_>; 2],
    shared: &SharedParts,
    from: &ScoredEncoder,
    options: &ThresholdOptions,
) -> (Vec<ScoreMap>, Vec<WithoutThreshold>) {
    // Graded pairs are mapped too, because a map uses no labels.
    let unlabelled = ThresholdOptions {
        sts_cut: options.sts_cut.or(Some(f64::INFINITY)),
        target: super::ThresholdTarget::F1,
        ..options.clone()
    };
    let mut without = Vec::new();
    let (mut olds, mut news) = (Vec::new(), Vec::new());
    for info in &new.report.datasets {
        if !shared.datasets.contains(&info.name) || !super::chosen(options, &info.name) {
            continue;
        }
        let read = || {
            if !matches!(info.task, TaskType::PairClassification | TaskType::Sts) {
                return Err(match info.task {
                    TaskType::Retrieval => {
                        "two encoders' lists hold different documents, so that only those that both rank high have two scores"
                            .to_owned()
                    }
                    task => format!("of {task} the similarities of pairs are not kept"),
                });
            }
            let pair = (of_dataset(old, info, &unlabelled)?, of_dataset(new, info, &unlabelled)?);
            if pair.0.clusters != pair.1.clusters {
                return Err("its items are grouped differently".to_owned());
            }
            Ok(pair)
        };
        match read() {
            Ok((of_old, of_new)) => {
                olds.push(of_old);
                news.push(of_new);
            }
            Err(why) => without.push(WithoutThreshold {
                name: info.name.clone(),
                why,
            }),
        }
    }
    let same = |all: &[DatasetDecisions<'_>]| all.windows(2).all(|two| two[0].prompts == two[1].prompts);
    let all: Vec<usize> = (0..news.len()).collect();
    let groups: Vec<&[usize]> = if same(&olds) && same(&news) {
        all.chunks(all.len().max(1)).collect()
    } else {
        all.chunks(1).collect()
    };
    let mut maps = Vec::new();
    for group in groups {
        let pick =
            |own: &'_ [DatasetDecisions<'_>]| group.iter().map(|d| own[*d].info.name.clone()).collect::<Vec<_>>();
        let sides = [
            group.iter().map(|d| &olds[*d]).collect::<Vec<_>>(),
            group.iter().map(|d| &news[*d]).collect::<Vec<_>>(),
        ];
        match map(sides, shared, from, options) {
            Ok(map) => maps.push(map),
            Err(why) => without.push(WithoutThreshold {
                name: pick(&news).join(", "),
                why,
            }),
        }
    }
    (maps, without)
}

fn map(
    [olds, news]: [Vec<&DatasetDecisions<'_>>; 2],
    shared: &SharedParts,
    from: &ScoredEncoder,
    options: &ThresholdOptions,
) -> Result<ScoreMap, String> {
    let (from_prompts, prompts) = match (olds.first(), news.first()) {
        (Some(old), Some(new)) => (old.prompts.clone(), new.prompts.clone()),
        _ => return Err("it has no data sets".to_owned()),
    };
    let scopes = [Scope::new(olds.clone()), Scope::new(news.clone())];
    let [old, new] = [0, 1].map(|side: usize| scopes[side].scores(0).into_iter().next().unwrap_or_default());
    if old.len() != new.len() || old.len() < FEWEST_PAIRS {
        return Err(format!(
            "{} pairs have two scores; a map takes at least {FEWEST_PAIRS}",
            old.len().min(new.len())
        ));
    }
    if scopes[1].cluster_count() < FOLDS {
        return Err(format!(
            "its pairs are {} clusters that share a text; cross-validation takes at least {FOLDS}",
            scopes[1].cluster_count()
        ));
    }
    let failed = |error: crate::stats::StatsError| error.to_string();
    let correlation = spearman(&old, &new).map_err(failed)?;
    let fitted = Isotonic::fit(&old, &new).map_err(failed)?;
    if fitted.is_constant() || correlation <= 0.0 {
        return Err(format!(
            "the new scores do not rise with the old ones (Spearman's correlation {correlation:.3}), so that no map says anything"
        ));
    }
    let folds = &scopes[1].folds;
    let left_out = cross_validated(&old, &new, folds).map_err(failed)?;
    let centre = mean(&new).unwrap_or(f64::NAN);
    let mut own = ScoreMap {
        from: from.clone(),
        datasets: news.iter().map(|own| own.info.name.clone()).collect(),
        score: ScoreKind::PairCosine,
        from_prompts,
        prompts,
        pairs: old.len(),
        clusters: scopes[1].cluster_count(),
        knots: fitted.knots().map(|(old, new)| Knot { old, new }).collect(),
        in_sample: error(old.iter().map(|x| fitted.at(*x)), &new),
        cross_validated: error(left_out, &new),
        of_the_mean: error(std::iter::repeat(centre), &new),
        of_no_map: error(old.iter().copied(), &new),
        folds: FOLDS,
        spearman: correlation,
        transformations: transformations(&scopes, shared, &old, &new)?,
        thresholds: Vec::new(),
        not_mapped: Vec::new(),
    };
    for (old, new) in olds.into_iter().zip(news) {
        match mapped([old, new], &fitted, options) {
            Ok(found) => own.thresholds.push(found),
            Err(why) => own.not_mapped.push(WithoutThreshold {
                name: new.info.name.clone(),
                why,
            }),
        }
    }
    Ok(own)
}

/// The error on the texts of each transformation that both runs have: each pair is mapped with the
/// function fitted on the other folds.
fn transformations(
    scopes: &[Scope<'_>; 2],
    shared: &SharedParts,
    old: &[f64],
    new: &[f64],
) -> Result<Vec<TransformationMapError>, String> {
    let folds = &scopes[1].folds;
    let functions: Vec<Isotonic> = (0..FOLDS)
        .map(|own| {
            let weights: Vec<f64> = folds.iter().map(|fold| f64::from(u8::from(*fold != own))).collect();
            Isotonic::fit_weighted(old, new, &weights).map_err(|error| error.to_string())
        })
        .collect::<Result<_, _>>()?;
    let variant = |side: usize, label: &str| {
        (1..scopes[side].variants()).find(|v| scopes[side].label(*v).as_deref() == Some(label))
    };
    let mut all = Vec::new();
    for label in &shared.transformations {
        let (Some(of_old), Some(of_new)) = (variant(0, label), variant(1, label)) else {
            continue;
        };
        let (of_old, of_new) = (scopes[0].scores(of_old), scopes[1].scores(of_new));
        if of_old.len() != of_new.len() {
            // The runs have different seeds; the shared ones are not distinguished here.
            continue;
        }
        let (mut estimate, mut real, mut beyond) = (Vec::new(), Vec::new(), 0);
        for (old, new) in of_old.iter().zip(&of_new) {
            for ((x, y), fold) in old.iter().zip(new).zip(folds) {
                let (low, high) = functions[*fold].domain();
                estimate.push(functions[*fold].at(*x));
                real.push(*y);
                beyond += usize::from(*x < low || *x > high);
            }
        }
        all.push(TransformationMapError {
            transformation: label.clone(),
            beyond: beyond as f64 / real.len().max(1) as f64,
            error: error(estimate, &real),
        });
    }
    Ok(all)
}

/// The earlier encoder's threshold, mapped, and its rates.
fn mapped(
    [old, new]: [&DatasetDecisions<'_>; 2],
    fitted: &Isotonic,
    options: &ThresholdOptions,
) -> Result<MappedThreshold, String> {
    if old.info.task == TaskType::Sts && options.sts_cut.is_none() {
        return Err("its pairs are graded; --sts-cut says from which gold score a pair is positive".to_owned());
    }
    let threshold = alone(old, options)?;
    let mapped = fitted.at(threshold);
    let scope = Scope::new(vec![new]);
    let points = scope.points(0, false).ok_or("its items are not kept")?;
    Ok(MappedThreshold {
        dataset: new.info.name.clone(),
        old: threshold,
        mapped,
        own: alone(new, options).ok(),
        rates: rates(&scope, &points, &|_| mapped, ScoreKind::PairCosine),
    })
}

fn error(estimate: impl IntoIterator<Item = f64>, real: &[f64]) -> MapError {
    let mut apart: Vec<f64> = estimate
        .into_iter()
        .zip(real)
        .map(|(estimate, real)| (estimate - real).abs())
        .collect();
    let n = apart.len().max(1) as f64;
    let squares: f64 = apart.iter().map(|d| d * d).sum();
    let sum: f64 = apart.iter().sum();
    apart.sort_unstable_by(f64::total_cmp);
    MapError {
        rmse: (squares / n).sqrt(),
        mae: sum / n,
        p95: quantile(&apart, 0.95).unwrap_or(f64::NAN),
    }
}
