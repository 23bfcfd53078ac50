//! The run, the options, and the errors in them.

use crate::{Report, RunItems, terms::Scale};

#[derive(Debug, Clone, Copy)]
pub struct JudgedRun<'a> {
    /// The run's `report.json`.
    pub report: &'a Report,
    /// The items stored with it.
    pub items: &'a RunItems,
}

/// How ratings are read.
#[derive(Debug, Clone, PartialEq)]
pub struct RatingOptions {
    pub scale: Scale,
    /// Lowest mean rating of a faithful rewrite; absent: the run's.
    pub accept: Option<f64>,
    /// Confidence level of the bound and of intervals.
    pub confidence: f64,
    /// The rated rewrites were drawn at random, but not by the sheet.
    pub drawn_elsewhere: bool,
}

/// The reason why ratings cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RatingsError {
    /// The run lacks required data.
    #[error("RUN: {0}")]
    Run(String),
    /// The judge did not rate on the scale.
    #[error("the judge of the run did not rate {scale}; it rated {known}")]
    Scale {
        scale: &'static str,
        /// The rated scales.
        known: String,
    },
    /// An option is out of range.
    #[error("{option} is {given}; give {accepted}")]
    Option {
        /// Its name.
        option: &'static str,
        given: String,
        accepted: String,
    },
    /// The file of ratings is broken.
    #[error("line {line}: {why}")]
    Line {
        /// Line of the file, from 1.
        line: u64,
        why: String,
    },
    /// The file of ratings lacks required content.
    #[error("{0}")]
    File(String),
    /// A statistic cannot be computed.
    #[error("the ratings cannot be measured: {0}")]
    Statistics(#[from] crate::stats::StatsError),
}
