//! The content of `ratings.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{DriftRating, terms::Scale, thresholds::ThresholdTarget};

/// Version of the format. The number increases when a field changes its meaning or is removed.
pub const RATINGS_SCHEMA: &str = "isomer.ratings/1";

/// Ratings of rewrites by people, beside a judge's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HumanRatings {
    /// [`RATINGS_SCHEMA`].
    pub schema: String,
    /// The results in sentences.
    pub headline: Vec<String>,
    /// Id of the run.
    pub run: String,
    /// Name of its suite.
    pub suite: String,
    /// Id of the judge.
    pub judge: String,
    /// Scale of the ratings.
    pub scale: Scale,
    /// Lowest mean rating of a faithful rewrite.
    pub accept: f64,
    /// Confidence level of bounds and intervals.
    pub confidence: f64,
    /// Names of the columns with ratings.
    pub raters: Vec<String>,
    /// Over all transformations, then for each where there are several (as HTEB, table 2).
    pub rows: Vec<RaterTable>,
    /// Drift against the raters' means by encoder and transformation (as HTEB, figure 3).
    pub drift: Vec<DriftRating>,
    /// Thresholds of the judge's ratings that follow the raters best. They are for the next run:
    /// the bound holds for a threshold that was chosen before the ratings.
    pub thresholds: Vec<JudgeThreshold>,
    /// Conditions and shortcomings for a reader.
    pub notes: Vec<String>,
    /// Version that wrote the file.
    pub isomer_version: String,
}

/// Rewrites of a transformation, as people and the judge rate them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RaterTable {
    /// Name with parameters; absent: over all.
    pub transformation: Option<String>,
    /// Rewrites with a rating by people.
    pub rated: u64,
    /// Ratings of all raters.
    pub ratings: u64,
    /// Mean of these ratings. Rewrites that the judge accepts and the others are weighted by their
    /// numbers in the run, because a sheet has more of the rarer ones.
    pub mean: Option<f64>,
    /// Their sample standard deviation, weighted alike.
    pub sd: Option<f64>,
    /// Rated rewrites that are faithful.
    pub faithful: u64,
    /// Gwet's AC2 of the raters with ordinal weights; absent with one rater, or where it is
    /// undefined.
    pub ac2: Option<f64>,
    /// Mean rating of the judge over its rated rewrites.
    pub judge_mean: Option<f64>,
    /// Their sample standard deviation.
    pub judge_sd: Option<f64>,
    /// The judge beside the raters.
    pub agreement: Agreement,
    /// The share of faithful rewrites.
    pub share: FaithfulShare,
}

/// A judge beside raters, over the rewrites that people rated.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Agreement {
    /// Faithful rewrites that the judge accepts.
    pub both: u64,
    /// Rewrites that the judge accepts and that are not faithful.
    pub judge_only: u64,
    /// Faithful rewrites that the judge does not accept.
    pub raters_only: u64,
    /// Rewrites that are not faithful and that the judge does not accept.
    pub neither: u64,
    /// Spearman's rho of the judge's rating with the raters' mean.
    pub spearman: Option<f64>,
    /// Lower end of its 95 % percentile bootstrap interval over rewrites (1,000 resamples).
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Reason for a missing correlation.
    pub note: Option<String>,
    /// Mean distance of the judge's rating from the raters' mean.
    pub mean_absolute_error: Option<f64>,
}

/// The share of faithful rewrites among all that the judge was asked about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaithfulShare {
    /// Rewrites that the judge accepts.
    pub accepted: VerdictCounts,
    /// The others, including those without a rating.
    pub not_accepted: VerdictCounts,
    /// The prediction-powered estimate; absent where one of the two kinds has no rated rewrite.
    pub estimate: Option<f64>,
    /// Exact one-sided lower bound; absent without a rated rewrite.
    pub low: Option<f64>,
}

/// Rewrites with one verdict of the judge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictCounts {
    /// Number in the run.
    pub rewrites: u64,
    /// Of these, drawn for people.
    pub drawn: u64,
    /// Of these, faithful.
    pub faithful: u64,
    /// Of those that were drawn, without a rating. They count as not faithful.
    pub unrated: u64,
}

/// A threshold of the judge's ratings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JudgeThreshold {
    /// The property that it reaches.
    pub target: ThresholdTarget,
    /// The threshold; absent where none reaches the target.
    pub threshold: Option<f64>,
    /// Estimated share of accepted rewrites that are faithful.
    pub precision: Option<f64>,
    /// Estimated share of faithful rewrites that are accepted.
    pub recall: Option<f64>,
    /// Reason for a missing threshold.
    pub note: Option<String>,
}
