//! Statistics, pure: the same numbers and seed in, the same bits out, whatever the number of threads.
//!
//! * [`describe`]: mean, sample standard deviation, quantiles, numpy's order of summation.
//! * [`rank`]: average ranks.
//! * [`correlation`]: Pearson, Spearman, Kendall's tau-b.
//! * [`wilcoxon`]: the signed-rank test as scipy 1.17 computes it.
//! * [`mod@hodges_lehmann`]: the one-sample shift estimate that belongs to that test.
//! * [`bootstrap`]: percentile intervals.
//! * [`mod@holm`]: adjustment for several tests.

pub mod bootstrap;
pub mod correlation;
pub mod describe;
mod error;
pub mod hodges_lehmann;
pub mod holm;
pub mod rank;
pub mod wilcoxon;

pub use bootstrap::{Interval, bootstrap_interval, hodges_lehmann_bootstrap, mean_bootstrap};
pub use correlation::{correlation_p_value, kendall_tau_b, pearson, spearman};
pub use describe::{mean, median, pairwise_sum, quantile, sample_sd};
pub use error::StatsError;
pub use hodges_lehmann::hodges_lehmann;
pub use holm::holm;
pub use rank::average_ranks;
pub use wilcoxon::{Alternative, Distribution, Method, Wilcoxon, wilcoxon_signed_rank, wilcoxon_signed_rank_with};
