//! Vectors and labels in; scores, statistics, robustness profiles and reports out.
//!
//! Pure modules (no async, no tonic, no clock, no global random numbers): [`dataset`], [`task`], [`metric`], [`stats`],
//! [`suite`], [`profile`], [`report`]. At the edge: [`run`] plans and executes robustness checks against an encoder and a
//! transform service it is only handed channels to; the gRPC faces translate protos and nothing else.

pub mod config;
pub mod dataset;
pub mod error;
pub mod metric;
pub mod profile;
pub mod report;
pub mod run;
pub mod stats;
pub mod suite;
pub mod task;
