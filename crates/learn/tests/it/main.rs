//! Learners, metrics and draws against scikit-learn's, mteb's, numpy's and CPython's.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod common;
mod golden;
mod kmeans;
mod logistic;
mod metrics;
mod protocol;
mod random;
