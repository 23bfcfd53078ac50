//! Pure statistics: the same numbers and seed give the same bits, whatever the number of threads.
//!
//! * [`describe`]: mean, sample standard deviation, quantiles, numpy's order of summation, paired
//!   differences.
//! * [`rank`]: average ranks. [`ratio`]: the ratio of two means, with Fieller's
//!   interval. [`precision`]: R-Precision.
//! * [`correlation`]: Pearson, Spearman, Kendall's tau-b, their tests and intervals.
//! * [`wilcoxon`]: the signed-rank test as in scipy 1.17, and exactly with ties.
//! * [`mod@hodges_lehmann`]: the corresponding shift estimate, and its interval.
//! * [`bootstrap`]: percentile and BCa intervals, the paired bootstrap test.
//! * [`permutation`]: sign flips and two samples.
//! * [`multiple`]: adjustment for several tests. [`mcnemar`]: paired decisions, McNemar's exact
//!   test and the sign test.
//! * [`friedman`]: several treatments over data sets, Nemenyi's critical difference. [`letters`]:
//!   letters of significance.
//! * [`agreement`]: Gwet's AC1 and AC2, Krippendorff's alpha. [`bins`]: error by bin.
//! * [`proportion`]: exact bounds of a proportion, including draws in clusters. [`threshold`]: a
//!   score's threshold, chosen for a target. [`isotonic`]: isotonic regression.
//!   [`mod@dose_response`]: the dose at half of an effect. [`folds`]: folds of cross-validation.
//! * [`prediction_powered`]: a few labels by people with a model's predictions of all labels.
//! * [`reliability`]: split halves. [`power`]: what a design can detect.
//! * [`gate`]: the decisions of a gate.
//! * [`random`]: numbered random streams, the same on any number of threads.
//! * [`stop`]: stops the draws of a computation whose caller has left.
//! * [`special`]: the underlying distributions.

pub mod agreement;
pub mod bins;
pub mod bootstrap;
pub mod correlation;
pub mod describe;
pub mod dose_response;
mod error;
pub mod folds;
pub mod friedman;
pub mod gate;
pub mod hodges_lehmann;
pub mod isotonic;
pub mod letters;
pub mod mcnemar;
pub mod multiple;
pub mod permutation;
pub mod power;
pub mod precision;
pub mod prediction_powered;
pub mod proportion;
pub mod random;
pub mod rank;
pub mod ratio;
pub mod reliability;
pub mod series;
pub mod special;
pub mod stop;
pub mod threshold;
mod walsh;
pub mod wilcoxon;

pub use bootstrap::{
    Bootstrap, Interval, IntervalMethod, PairsInterval, Statistic, bootstrap_interval, hodges_lehmann_bootstrap,
    mean_bootstrap, paired_bootstrap_test, pairs_interval, sample_interval, statistic_interval,
};
pub use correlation::{
    Correlation, KendallMethod, correlation_p_value, correlation_p_value_for, kendall_tau_b, kendall_test, pearson,
    pearson_interval, spearman, spearman_interval,
};
pub use describe::{differences, mean, median, pairwise_sum, quantile, sample_sd};
pub use error::StatsError;
pub use hodges_lehmann::{WilcoxonInterval, hodges_lehmann, hodges_lehmann_paired, wilcoxon_interval};
pub use mcnemar::{mcnemar_exact, sign_test};
pub use multiple::{benjamini_hochberg, holm};
pub use permutation::{EXACT_SIGNS, sign_flip_test, two_sample_permutation_test};
pub use precision::r_precision;
pub use proportion::{ProportionInterval, clopper_pearson_lower, clopper_pearson_upper, clustered_proportion};
pub use rank::average_ranks;
pub use wilcoxon::{
    Alternative, Distribution, EXACT_LIMIT, EXACT_MAX, Method, Wilcoxon, WilcoxonOptions, Zeros, wilcoxon_paired,
    wilcoxon_signed_rank, wilcoxon_with,
};
