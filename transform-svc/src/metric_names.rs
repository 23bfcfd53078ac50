//! Metrics of this service.

use isomer_service_kit::{metric_name, metric_names::Metric};

/// Bytes of cached texts deleted to make room for others.
pub(crate) const CACHE_EVICTED: &str = metric_name!("transform", "cache_evicted_bytes", "total");
/// Lines of the cache that could not be read.
pub(crate) const CACHE_CORRUPT: &str = metric_name!("transform", "cache_corrupt_lines", "total");
/// Times that a generator was found overloaded and got fewer requests at once, by `generator`.
pub(crate) const CUTS: &str = metric_name!("transform", "generator_cuts", "total");
/// Requests that a generator may be sent at once, by `generator`.
pub(crate) const PLACES: &str = metric_name!("transform", "generator", "places");
/// Amount of its budget that a generator has used, by `generator` and `kind`.
pub(crate) const SPENT: &str = metric_name!("transform", "generator", "spent");
/// Time that a call to a generator took.
pub(crate) const GENERATION: &str = metric_name!("transform", "generation", "seconds");
/// Calls to generators.
pub(crate) const CALLS: &str = metric_name!("transform", "generator_calls", "total");
/// Second calls made because the first was slow, by `end`.
pub(crate) const HEDGES: &str = metric_name!("transform", "generator_hedges", "total");
/// Calls repeated after a failure.
pub(crate) const RETRIES: &str = metric_name!("transform", "generator_retries", "total");
/// Answers that ended for a reason that is not known.
pub(crate) const UNKNOWN_FINISH: &str = metric_name!("transform", "generator_unknown_finish_reasons", "total");
/// Time that a request for augmented vectors took.
pub(crate) const AUGMENTED: &str = metric_name!("transform", "augmented", "seconds");
/// Texts encoded with their variants, by `mode` and by which of their `variants` were there (`all`,
/// `some` or `none`).
pub(crate) const AUGMENTED_TEXTS: &str = metric_name!("transform", "augmented_texts", "total");
/// Variants that augmented vectors lack, by `mode` and `reason`.
pub(crate) const MISSING_VARIANTS: &str = metric_name!("transform", "missing_variants", "total");
/// Texts transformed, by `transformation` and `outcome`.
pub(crate) const TEXTS: &str = metric_name!("transform", "texts", "total");
/// Checks that a rewrite did not pass, by `check`.
pub(crate) const CHECKS: &str = metric_name!("transform", "checks", "total");
/// Ratings asked of a judge, by `outcome`.
pub(crate) const RATINGS: &str = metric_name!("transform", "ratings", "total");

/// Every metric of this crate.
pub(crate) const ALL: &[Metric] = &[
    Metric::counter(CACHE_EVICTED, "Bytes of cached texts deleted to make room for others."),
    Metric::counter(CACHE_CORRUPT, "Lines of the cache that could not be read."),
    Metric::counter(
        CUTS,
        "Times that a generator was found overloaded and got fewer requests at once, by generator.",
    ),
    Metric::gauge(
        PLACES,
        metrics::Unit::Count,
        "Requests that a generator may be sent at once, by generator.",
    ),
    Metric::gauge(
        SPENT,
        metrics::Unit::Count,
        "Amount of its budget that a generator has used, by generator and kind.",
    ),
    Metric::histogram(
        GENERATION,
        metrics::Unit::Seconds,
        "Time that a call to a generator took.",
    ),
    Metric::counter(CALLS, "Calls to generators."),
    Metric::counter(HEDGES, "Second calls made because the first was slow, by end."),
    Metric::counter(RETRIES, "Calls repeated after a failure."),
    Metric::counter(UNKNOWN_FINISH, "Answers that ended for a reason that is not known."),
    Metric::counter(
        AUGMENTED_TEXTS,
        "Texts encoded with their variants, by mode and by which of their variants were there (all, some or none).",
    ),
    Metric::counter(
        MISSING_VARIANTS,
        "Variants that augmented vectors lack, by mode and reason.",
    ),
    Metric::histogram(
        AUGMENTED,
        metrics::Unit::Seconds,
        "Time that a request for augmented vectors took.",
    ),
    Metric::counter(TEXTS, "Texts transformed, by transformation and outcome."),
    Metric::counter(CHECKS, "Checks that a rewrite did not pass, by check."),
    Metric::counter(RATINGS, "Ratings asked of a judge, by outcome."),
];

#[cfg(test)]
mod tests {
    #[test]
    fn every_name_follows_the_template() {
        let well_named = |metric: &super::Metric| isomer_service_kit::metric_names::is_well_named(metric.name);
        assert!(super::ALL.iter().all(well_named));
    }
}
