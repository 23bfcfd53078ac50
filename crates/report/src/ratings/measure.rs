//! Shares, agreement and drift from the ratings of people.

use std::collections::BTreeMap;

use ndarray::Array2;

use super::{
    Agreement, FaithfulShare, HumanRatings, JudgeThreshold, JudgedRun, RATINGS_SCHEMA, RaterTable, RatingOptions,
    RatingsError, VerdictCounts, headline, import::RatingTable, rewrites::Population,
};
use crate::{
    DriftRating,
    relation::relate,
    stats::{
        self,
        agreement::{Ratings, Weights, gwet},
        prediction_powered::{LabelledStratum, StratifiedShare},
        threshold::{NoThreshold, Point, Points, Target},
    },
    thresholds::ThresholdTarget,
};

/// Targets of the judge's threshold.
const TARGETS: [ThresholdTarget; 2] = [ThresholdTarget::F1, ThresholdTarget::Precision { at: 0.95 }];

/// A rewrite that was drawn for people.
struct RatedRewrite {
    /// Position in the population.
    position: usize,
    /// Mean of its raters; absent without a rating.
    mean: Option<f64>,
}

/// Everything that is known of the ratings.
struct RatingSample<'a> {
    population: &'a Population<'a>,
    table: &'a RatingTable,
    /// Drawn rewrites that the judge accepts, and others.
    drawn: [Vec<RatedRewrite>; 2],
    /// One minus the confidence level.
    alpha: f64,
}

pub(super) fn ratings(
    run: JudgedRun<'_>,
    population: &Population<'_>,
    table: &RatingTable,
    options: &RatingOptions,
) -> Result<HumanRatings, RatingsError> {
    let rated = RatingSample {
        population,
        table,
        drawn: drawn(population, table, options.drawn_elsewhere),
        alpha: 1.0 - options.confidence,
    };
    let transformations: Vec<&str> = run
        .report
        .suite
        .transformations
        .iter()
        .map(|one| one.label.as_str())
        .filter(|label| rated.rated(Some(*label)).next().is_some())
        .collect();
    let mut labels = population.rewrites.iter().map(|one| one.judged.transformation.as_str());
    let first = labels.next();
    let several = labels.any(|label| Some(label) != first);
    let scopes = std::iter::once(None).chain(transformations.iter().map(|label| Some(*label)).filter(|_| several));
    let rows = scopes.map(|scope| rated.row(scope)).collect::<Result<Vec<_>, _>>()?;
    let mut found = HumanRatings {
        schema: RATINGS_SCHEMA.to_owned(),
        headline: Vec::new(),
        run: run.report.run.id.clone(),
        suite: run.report.suite.name.clone(),
        judge: population.judge.id.clone(),
        scale: population.scale,
        accept: population.accept,
        confidence: options.confidence,
        raters: table.raters.clone(),
        rows,
        drift: rated.drift(run, &transformations),
        thresholds: TARGETS.iter().map(|target| rated.threshold(*target)).collect(),
        notes: notes(population, &rated, options),
        isomer_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    found.headline = headline::sentences(&found);
    Ok(found)
}

/// The rewrites that people had before them: of each verdict, those up to the last one with a
/// rating, in the order of the draw.
fn drawn(population: &Population<'_>, table: &RatingTable, elsewhere: bool) -> [Vec<RatedRewrite>; 2] {
    population.strata().map(|stratum| {
        let mut drawn: Vec<RatedRewrite> = stratum
            .into_iter()
            .map(|position| RatedRewrite {
                position,
                mean: mean_rating(&table.ratings[position]),
            })
            .collect();
        let last = drawn.iter().rposition(|one| one.mean.is_some());
        drawn.truncate(last.map_or(0, |last| last + 1));
        if elsewhere {
            drawn.retain(|one| one.mean.is_some());
        }
        drawn
    })
}

fn mean_rating(ratings: &[f64]) -> Option<f64> {
    let given: Vec<f64> = ratings.iter().copied().filter(|rating| !rating.is_nan()).collect();
    stats::mean(&given)
}

fn notes(population: &Population<'_>, rated: &RatingSample<'_>, options: &RatingOptions) -> Vec<String> {
    let mut notes = Vec::new();
    let passed_over = rated.drawn.iter().flatten().filter(|one| one.mean.is_none()).count();
    if passed_over > 0 {
        notes.push(format!(
            "{passed_over} drawn rewrites before the last rated ones have no rating and count as not faithful. Rate them, or name \
             --drawn-elsewhere if the rated rewrites were drawn at random by other means"
        ));
    }
    if options.drawn_elsewhere {
        notes.push("The bound holds only if the rated rewrites were drawn at random".to_owned());
    }
    if population.judge.sample > 0 {
        notes.push(format!(
            "The judge was asked about at most {} texts of each data set, transformation and seed: the share is one of these rewrites. \
             --judge-sample 0 asks about all",
            population.judge.sample
        ));
    }
    if let Some(why) = &population.judge.inseparable {
        notes.push(format!(
            "On pairs whose rating is known the judge fails ({why}). The bound holds nevertheless, and is lower than with a better judge"
        ));
    }
    notes
}

impl RatingSample<'_> {
    fn is_in(&self, position: usize, scope: Option<&str>) -> bool {
        scope.is_none_or(|scope| self.population.rewrites[position].judged.transformation == scope)
    }

    /// Rated rewrites of a transformation, or all: position and mean of the raters.
    fn rated(&self, scope: Option<&str>) -> impl Iterator<Item = (usize, f64)> {
        let all = self.drawn.iter().flatten();
        all.filter_map(|one| Some((one.position, one.mean?)))
            .filter(move |(position, _)| self.is_in(*position, scope))
    }

    fn is_faithful(&self, mean: f64) -> bool {
        mean >= self.population.accept
    }

    fn counts(&self, stratum: usize, scope: Option<&str>) -> VerdictCounts {
        let rewrites = self.population.rewrites.iter().enumerate();
        let own = rewrites.filter(|(position, one)| one.accepted == (stratum == 0) && self.is_in(*position, scope));
        let drawn: Vec<&RatedRewrite> = self.drawn[stratum]
            .iter()
            .filter(|one| self.is_in(one.position, scope))
            .collect();
        let count = |test: &dyn Fn(&RatedRewrite) -> bool| drawn.iter().filter(|one| test(one)).count() as u64;
        VerdictCounts {
            rewrites: own.count() as u64,
            drawn: drawn.len() as u64,
            faithful: count(&|one| one.mean.is_some_and(|mean| self.is_faithful(mean))),
            unrated: count(&|one| one.mean.is_none()),
        }
    }

    /// Rewrites of the run for each rated one with the same verdict.
    fn weights(&self, [accepted, others]: [VerdictCounts; 2]) -> impl Fn(usize) -> f64 {
        let weight = |own: VerdictCounts| own.rewrites as f64 / (own.drawn - own.unrated).max(1) as f64;
        move |position| match self.population.rewrites[position].accepted {
            true => weight(accepted),
            false => weight(others),
        }
    }

    fn row(&self, scope: Option<&str>) -> Result<RaterTable, RatingsError> {
        let counts = [0, 1].map(|stratum| self.counts(stratum, scope));
        let weight = self.weights(counts);
        let rated: Vec<(usize, f64)> = self.rated(scope).collect();
        let ratings: Vec<(f64, f64)> = rated
            .iter()
            .flat_map(|(position, _)| {
                let given = self.table.ratings[*position].iter().filter(|rating| !rating.is_nan());
                given.map(|rating| (*rating, weight(*position)))
            })
            .collect();
        let (mean, sd) = weighted(&ratings);
        let own = self.population.rewrites.iter().enumerate();
        let judge: Vec<f64> = own
            .filter(|(position, _)| self.is_in(*position, scope))
            .filter_map(|(_, one)| one.rating)
            .collect();
        Ok(RaterTable {
            transformation: scope.map(str::to_owned),
            rated: rated.len() as u64,
            ratings: ratings.len() as u64,
            mean,
            sd,
            faithful: counts.iter().map(|own| own.faithful).sum(),
            ac2: self.ac2(&rated),
            judge_mean: stats::mean(&judge),
            judge_sd: stats::sample_sd(&judge),
            agreement: self.agreement(&rated),
            share: self.share(counts)?,
        })
    }

    fn share(&self, counts: [VerdictCounts; 2]) -> Result<FaithfulShare, RatingsError> {
        let [accepted, not_accepted] = counts;
        let strata = counts.map(|own| LabelledStratum {
            units: own.rewrites,
            labelled: own.drawn,
            positive: own.faithful,
        });
        let found = match accepted.drawn + not_accepted.drawn {
            0 => None,
            _ => Some(StratifiedShare::of(strata, self.alpha)?),
        };
        Ok(FaithfulShare {
            accepted,
            not_accepted,
            estimate: found.and_then(|found| found.estimate),
            low: found.map(|found| found.low),
        })
    }

    /// Agreement of the raters over whole numbers of the scale and other ratings that were given.
    fn ac2(&self, rated: &[(usize, f64)]) -> Option<f64> {
        let matrix = Array2::from_shape_fn((self.table.raters.len(), rated.len()), |(rater, item)| {
            self.table.ratings[rated[item].0][rater]
        });
        let (low, high) = self.population.scale.range();
        let whole = (low..=high).map(f64::from);
        let mut scale: Vec<f64> = matrix
            .iter()
            .copied()
            .filter(|rating| !rating.is_nan())
            .chain(whole)
            .collect();
        scale.sort_unstable_by(f64::total_cmp);
        scale.dedup();
        let ratings = Ratings::new(matrix.view(), Some(&scale)).ok()?;
        let found = gwet(&ratings, Weights::Ordinal, 1.0 - self.alpha).ok()?;
        Some(found.coefficient)
    }

    fn agreement(&self, rated: &[(usize, f64)]) -> Agreement {
        let mut agreement = Agreement::default();
        let (mut judge, mut people) = (Vec::new(), Vec::new());
        for (position, mean) in rated {
            let own = &self.population.rewrites[*position];
            let count = match (own.accepted, self.is_faithful(*mean)) {
                (true, true) => &mut agreement.both,
                (true, false) => &mut agreement.judge_only,
                (false, true) => &mut agreement.raters_only,
                (false, false) => &mut agreement.neither,
            };
            *count += 1;
            if let Some(rating) = own.rating {
                judge.push(rating);
                people.push(*mean);
            }
        }
        let errors: Vec<f64> = judge.iter().zip(&people).map(|(a, b)| (a - b).abs()).collect();
        agreement.mean_absolute_error = stats::mean(&errors);
        if judge.len() > 1 && judge.windows(2).all(|two| two[0] == two[1]) {
            agreement.note = Some(format!("the judge rates each of them {}", judge[0]));
            return agreement;
        }
        let relation = relate(&judge, &people);
        agreement.spearman = relation.spearman;
        (agreement.low, agreement.high) = relation.interval.unzip();
        agreement.note = relation.note;
        agreement
    }

    fn threshold(&self, target: ThresholdTarget) -> JudgeThreshold {
        let weight = self.weights([0, 1].map(|stratum| self.counts(stratum, None)));
        let rated = self.rated(None);
        let points: Vec<(usize, Point)> = rated
            .filter_map(|(position, mean)| {
                let score = self.population.rewrites[position].rating?;
                let positive = self.is_faithful(mean);
                Some((
                    position,
                    Point {
                        score,
                        positive,
                        item: 0,
                    },
                ))
            })
            .collect();
        let weights: Vec<f64> = points.iter().map(|(position, _)| weight(*position)).collect();
        let points = (0_u32..).zip(points).map(|(item, (_, point))| Point { item, ..point });
        let points = Points::new(points.collect(), vec![0; weights.len()]);
        let chosen: Result<_, NoThreshold> = points.choose(
            match target {
                ThresholdTarget::F1 => Target::F1,
                ThresholdTarget::Precision { at } => Target::Precision(at),
                ThresholdTarget::Fpr { at } => Target::FalsePositiveRate(at),
            },
            &weights,
        );
        let found = chosen.as_ref().ok();
        JudgeThreshold {
            target,
            // The lowest accepted rating: the judge may only give some numbers.
            threshold: found.map(|found| found.accepted),
            precision: found.and_then(|found| found.counts.precision()),
            recall: found.and_then(|found| found.counts.recall()),
            note: chosen.err().map(|why| match why {
                NoThreshold::NoPositive => "no rated rewrite is faithful".to_owned(),
                NoThreshold::NoNegative => "every rated rewrite is faithful".to_owned(),
                NoThreshold::Unreachable { .. } => why.to_string(),
            }),
        }
    }

    fn drift(&self, run: JudgedRun<'_>, transformations: &[&str]) -> Vec<DriftRating> {
        let encoders = run.report.encoders.iter();
        encoders
            .flat_map(|encoder| transformations.iter().map(|label| self.drift_of(&encoder.id, label)))
            .collect()
    }

    fn drift_of(&self, encoder: &str, transformation: &str) -> DriftRating {
        // Drift and rating of each text: its rewrites are averaged first.
        let mut texts: BTreeMap<u32, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
        for (position, mean) in self.rated(Some(transformation)) {
            let own = self.population.rewrites[position].judged;
            if let Some(drift) = own.drift.get(encoder) {
                let (drifts, means) = texts.entry(own.original).or_default();
                drifts.push(*drift);
                means.push(mean);
            }
        }
        let averaged = texts.values();
        let (drifts, means): (Vec<f64>, Vec<f64>) = averaged
            .filter_map(|(drifts, means)| Some((stats::mean(drifts)?, stats::mean(means)?)))
            .unzip();
        DriftRating {
            encoder: encoder.to_owned(),
            transformation: transformation.to_owned(),
            ..DriftRating::of(self.population.scale, &drifts, &means)
        }
    }
}

/// Mean and sample standard deviation of values with weights.
fn weighted(values: &[(f64, f64)]) -> (Option<f64>, Option<f64>) {
    let total: f64 = values.iter().map(|(_, weight)| weight).sum();
    if total <= 0.0 {
        return (None, None);
    }
    let mean = values.iter().map(|(value, weight)| value * weight).sum::<f64>() / total;
    let squares: f64 = values
        .iter()
        .map(|(value, weight)| weight * (value - mean).powi(2))
        .sum();
    let count = values.len() as f64;
    let sd = (values.len() > 1).then(|| (squares / total * count / (count - 1.0)).sqrt());
    (Some(mean), sd)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn equal_weights_give_the_sample_s_mean_and_deviation() {
        let values = [1.0, 2.0, 4.0, 4.5];
        let (mean, sd) = weighted(&values.map(|value| (value, 3.0)));
        assert!((mean.unwrap() - stats::mean(&values).unwrap()).abs() < 1e-12);
        assert!((sd.unwrap() - stats::sample_sd(&values).unwrap()).abs() < 1e-12);
        assert_eq!(weighted(&[(2.0, 1.0)]), (Some(2.0), None));
        assert_eq!(weighted(&[]), (None, None));
        // One value for each of nine, and one for one.
        assert_eq!(weighted(&[(5.0, 9.0), (0.0, 1.0)]).0, Some(4.5));
    }
}
