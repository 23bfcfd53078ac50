//! Tests and intervals of scores.

use isomer_proto::eval::v1::{
    AdjustPValuesRequest, AdjustPValuesResponse, AgreementRequest, AgreementResponse, BootstrapRequest,
    BootstrapResponse, ComparePairsRequest, ComparePairsResponse, CompareRanksRequest, CompareRanksResponse,
    CompareRequest, CompareResponse, CorrelateRequest, CorrelateResponse, PlanDesignRequest, PlanDesignResponse,
    RankStabilityRequest, RankStabilityResponse, ReliabilityRequest, ReliabilityResponse, ScoreSeries,
    statistics_service_client::StatisticsServiceClient,
};

use crate::{
    Error,
    call::{Calls, unary},
};

/// The scores of one system, for [`Statistics`].
pub fn series(name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> ScoreSeries {
    ScoreSeries {
        name: name.into(),
        values: values.into_iter().collect(),
    }
}

/// StatisticsService: [`Client::statistics`](crate::Client::statistics). Requests and answers are
/// those of the protos; [`series`] makes their series.
#[derive(Debug, Clone)]
pub struct Statistics(pub(crate) Calls);

impl Statistics {
    /// Paired scores of systems against those of a reference.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn compare(&self, request: CompareRequest) -> Result<CompareResponse, Error> {
        unary!(
            self.0,
            StatisticsServiceClient.compare,
            "/isomer.eval.v1.StatisticsService/Compare",
            request
        )
    }

    /// How stable a ranking of encoders is between their original and transformed scores.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn rank_stability(&self, request: RankStabilityRequest) -> Result<RankStabilityResponse, Error> {
        unary!(
            self.0,
            StatisticsServiceClient.rank_stability,
            "/isomer.eval.v1.StatisticsService/RankStability",
            request
        )
    }

    /// Agreement of raters: Gwet's AC1 or AC2 and Krippendorff's alpha.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn agreement(&self, request: AgreementRequest) -> Result<AgreementResponse, Error> {
        unary!(
            self.0,
            StatisticsServiceClient.agreement,
            "/isomer.eval.v1.StatisticsService/Agreement",
            request
        )
    }

    /// Split-half reliability of a profile.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn reliability(&self, request: ReliabilityRequest) -> Result<ReliabilityResponse, Error> {
        unary!(
            self.0,
            StatisticsServiceClient.reliability,
            "/isomer.eval.v1.StatisticsService/Reliability",
            request
        )
    }

    /// Every system against every other.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn compare_pairs(&self, request: ComparePairsRequest) -> Result<ComparePairsResponse, Error> {
        unary!(
            self.0,
            StatisticsServiceClient.compare_pairs,
            "/isomer.eval.v1.StatisticsService/ComparePairs",
            request
        )
    }

    /// Whether systems differ in rank over the data sets: Friedman's test, Nemenyi's critical
    /// difference.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn compare_ranks(&self, request: CompareRanksRequest) -> Result<CompareRanksResponse, Error> {
        unary!(
            self.0,
            StatisticsServiceClient.compare_ranks,
            "/isomer.eval.v1.StatisticsService/CompareRanks",
            request
        )
    }

    /// Holm's and Benjamini and Hochberg's adjustment of p-values.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn adjust_p_values(&self, request: AdjustPValuesRequest) -> Result<AdjustPValuesResponse, Error> {
        unary!(
            self.0,
            StatisticsServiceClient.adjust_p_values,
            "/isomer.eval.v1.StatisticsService/AdjustPValues",
            request
        )
    }

    /// Bootstrap interval of a statistic.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn bootstrap(&self, request: BootstrapRequest) -> Result<BootstrapResponse, Error> {
        unary!(
            self.0,
            StatisticsServiceClient.bootstrap,
            "/isomer.eval.v1.StatisticsService/Bootstrap",
            request
        )
    }

    /// Pearson's, Spearman's and Kendall's correlation with tests and intervals.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn correlate(&self, request: CorrelateRequest) -> Result<CorrelateResponse, Error> {
        unary!(
            self.0,
            StatisticsServiceClient.correlate,
            "/isomer.eval.v1.StatisticsService/Correlate",
            request
        )
    }

    /// Computes the effect that a design can detect, and the design that an effect needs.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn plan_design(&self, request: PlanDesignRequest) -> Result<PlanDesignResponse, Error> {
        unary!(
            self.0,
            StatisticsServiceClient.plan_design,
            "/isomer.eval.v1.StatisticsService/PlanDesign",
            request
        )
    }
}
