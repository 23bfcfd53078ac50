//! The gRPC face of statistics: protos in, tests and intervals out. The maths is in [`crate::stats`].

mod rankings;

use isomer_proto::eval::v1::{
    self as proto, AgreementRequest, AgreementResponse, CompareRequest, CompareResponse, Comparison,
    RankStabilityRequest, RankStabilityResponse, ReliabilityRequest, ReliabilityResponse, ScoreSeries,
    statistics_service_server::StatisticsService,
};
use isomer_service_kit::Fault;
use tonic::{Request, Response, Status};

use crate::stats::{
    Alternative, Distribution, StatsError, benjamini_hochberg, hodges_lehmann, hodges_lehmann_bootstrap, holm, mean,
    sample_sd, wilcoxon_interval, wilcoxon_signed_rank,
};

const DEFAULT_RESAMPLES: u32 = 1000;
const DEFAULT_CONFIDENCE: f64 = 0.95;
const DEFAULT_SEED: u64 = 1337;
/// Values drawn by one request, over all resamples and treatments: about a minute of one core.
const MOST_DRAWS: u64 = 1 << 29;

/// Serves `isomer.eval.v1.StatisticsService`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StatisticsFace;

#[tonic::async_trait]
impl StatisticsService for StatisticsFace {
    async fn compare(&self, request: Request<CompareRequest>) -> Result<Response<CompareResponse>, Status> {
        let request = request.into_inner();
        let settings = Settings::read(&request)?;
        let comparisons = off_the_runtime(move || compare(&request, &settings)).await?;
        Ok(Response::new(CompareResponse { comparisons }))
    }

    async fn rank_stability(
        &self,
        request: Request<RankStabilityRequest>,
    ) -> Result<Response<RankStabilityResponse>, Status> {
        let request = request.into_inner();
        Ok(Response::new(
            off_the_runtime(move || rankings::rank_stability(&request)).await?,
        ))
    }

    async fn agreement(&self, request: Request<AgreementRequest>) -> Result<Response<AgreementResponse>, Status> {
        let request = request.into_inner();
        Ok(Response::new(
            off_the_runtime(move || rankings::agreement(&request)).await?,
        ))
    }

    async fn reliability(&self, request: Request<ReliabilityRequest>) -> Result<Response<ReliabilityResponse>, Status> {
        let request = request.into_inner();
        Ok(Response::new(
            off_the_runtime(move || rankings::reliability(&request)).await?,
        ))
    }
}

/// Maths runs on a thread of its own, not on the runtime's.
async fn off_the_runtime<T: Send + 'static>(
    compute: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let computed = tokio::task::spawn_blocking(compute).await;
    computed.map_err(|error| Fault::internal(format!("the computation stopped: {error}")))?
}

#[derive(Debug, Clone, Copy)]
struct Settings {
    alternative: Alternative,
    resamples: u32,
    confidence: f64,
    seed: u64,
}

impl Settings {
    fn read(request: &CompareRequest) -> Result<Self, Fault> {
        let alternative = match proto::Alternative::try_from(request.alternative) {
            Ok(proto::Alternative::Unspecified | proto::Alternative::TwoSided) => Alternative::TwoSided,
            Ok(proto::Alternative::Greater) => Alternative::Greater,
            Ok(proto::Alternative::Less) => Alternative::Less,
            Err(_) => return Err(Fault::invalid("alternative", "no known alternative")),
        };
        let confidence = if request.confidence == 0.0 {
            DEFAULT_CONFIDENCE
        } else {
            request.confidence
        };
        if !(confidence > 0.0 && confidence < 1.0) {
            return Err(Fault::invalid(
                "confidence",
                format!("{confidence} does not lie between 0 and 1"),
            ));
        }
        let resamples = if request.resamples == 0 {
            DEFAULT_RESAMPLES
        } else {
            request.resamples
        };
        let values: u64 = request.treatments.iter().map(|t| t.values.len() as u64).sum();
        if values.saturating_mul(u64::from(resamples)) > MOST_DRAWS {
            let message = format!("{resamples} resamples of {values} values are too many for one request");
            return Err(Fault::invalid("resamples", message).mend(format!(
                "keep resamples x values below {MOST_DRAWS}, or send fewer treatments"
            )));
        }
        Ok(Self {
            alternative,
            resamples,
            confidence,
            seed: request.seed.unwrap_or(DEFAULT_SEED),
        })
    }
}

fn compare(request: &CompareRequest, settings: &Settings) -> Result<Vec<Comparison>, Fault> {
    let reference = request
        .reference
        .as_ref()
        .ok_or_else(|| Fault::invalid("reference", "no reference is given"))?;
    finite("reference", reference)?;
    if reference.values.is_empty() {
        return Err(Fault::invalid("reference.values", "there are no pairs"));
    }
    if request.treatments.is_empty() {
        return Err(Fault::invalid(
            "treatments",
            "there is nothing to compare with the reference",
        ));
    }
    let mut comparisons = Vec::with_capacity(request.treatments.len());
    for (i, treatment) in request.treatments.iter().enumerate() {
        let field = format!("treatments[{i}]");
        finite(&field, treatment)?;
        if treatment.values.len() != reference.values.len() {
            let message = format!(
                "{} values against {} of the reference",
                treatment.values.len(),
                reference.values.len()
            );
            return Err(Fault::invalid(format!("{field}.values"), message)
                .mend("position i of every series must be the same item"));
        }
        comparisons
            .push(one(reference, treatment, settings).map_err(|error| Fault::invalid(field, error.to_string()))?);
    }
    let tested: Vec<usize> = (0..comparisons.len())
        .filter(|i| comparisons[*i].p_value.is_some())
        .collect();
    let p_values: Vec<f64> = tested.iter().filter_map(|i| comparisons[*i].p_value).collect();
    let adjusted = holm(&p_values).into_iter().zip(benjamini_hochberg(&p_values));
    for (i, (step_down, discovery)) in tested.into_iter().zip(adjusted) {
        comparisons[i].p_holm = Some(step_down);
        comparisons[i].p_benjamini_hochberg = Some(discovery);
    }
    Ok(comparisons)
}

fn one(reference: &ScoreSeries, treatment: &ScoreSeries, settings: &Settings) -> Result<Comparison, StatsError> {
    let differences: Vec<f64> = treatment
        .values
        .iter()
        .zip(&reference.values)
        .map(|(t, r)| t - r)
        .collect();
    let empty = || StatsError::TooFew {
        what: "a comparison",
        needed: 1,
        found: 0,
    };
    let resamples = settings.resamples as usize;
    let interval =
        hodges_lehmann_bootstrap(&differences, resamples, settings.confidence, settings.seed).ok_or_else(empty)?;
    let mut comparison = Comparison {
        name: treatment.name.clone(),
        n: u32::try_from(differences.len()).unwrap_or(u32::MAX),
        mean_difference: mean(&differences).ok_or_else(empty)?,
        sd_difference: sample_sd(&differences),
        hodges_lehmann: hodges_lehmann(&differences).ok_or_else(empty)?,
        hodges_lehmann_interval: Some(proto::Interval {
            low: interval.low,
            high: interval.high,
            level: interval.level,
            method: format!("percentile bootstrap ({resamples})"),
        }),
        ..Comparison::default()
    };
    let mut notes = Vec::new();
    match wilcoxon_signed_rank(&differences, settings.alternative) {
        Ok(test) => {
            comparison.wilcoxon_statistic = Some(test.statistic);
            comparison.p_value = Some(test.p_value);
            comparison.set_method(match test.distribution {
                Distribution::Exact | Distribution::Permutation => proto::WilcoxonMethod::Exact,
                Distribution::Normal => proto::WilcoxonMethod::Normal,
            });
            if test.distribution == Distribution::Permutation {
                notes.push("exact over all sign permutations, because there are ties or zeros".to_owned());
            }
            if test.n < 6 && settings.alternative == Alternative::TwoSided {
                let least = 2.0_f64.powi(1 - i32::try_from(test.n).unwrap_or(i32::MAX));
                notes.push(format!(
                    "{} differences: no two-sided p-value below {least} is possible",
                    test.n
                ));
            }
        }
        Err(error) => notes.push(format!("no signed-rank test: {error}")),
    }
    match wilcoxon_interval(&differences, settings.confidence, settings.alternative) {
        Ok(found) => {
            comparison.signed_rank_interval = Some(proto::Interval {
                low: found.low,
                high: found.high,
                level: found.achieved,
                method: if found.exact {
                    "signed-rank, exact"
                } else {
                    "signed-rank, normal"
                }
                .to_owned(),
            });
        }
        Err(error) => notes.push(error.to_string()),
    }
    if comparison.sd_difference.is_none() {
        notes.push("one pair has no standard deviation".to_owned());
    }
    comparison.note = notes.join("; ");
    Ok(comparison)
}

fn finite(field: &str, series: &ScoreSeries) -> Result<(), Fault> {
    match series.values.iter().position(|value| !value.is_finite()) {
        Some(i) => Err(Fault::invalid(
            format!("{field}.values[{i}]"),
            format!("{} is not a finite number", series.values[i]),
        )),
        None => Ok(()),
    }
}
