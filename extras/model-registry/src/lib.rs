//! Robustness checks of the encoders in a model registry.
//!
//! A new version of a model is fetched, checked under a gate against the version at an alias (the
//! champion), and gets metrics, the report, tags and, where it passed, an alias.
//!
//! * [`registry`]: what a registry is; [`mlflow`]: MLflow, with its webhooks; [`sagemaker`]: the
//!   model packages of SageMaker.
//! * [`locate`], [`fetch`]: which files of a version are the encoder, and their way to this
//!   machine. Pickles are neither fetched nor opened. [`unpack`]: archives of others.
//! * [`engine`]: what runs a check. [`evidence`], [`verdict`]: what is written into the registry.
//! * [`check`]: one version, from files to alias. [`reconcile`]: what a check left, looked at
//!   again.
//! * [`ledger`], [`service`]: all versions, as webhooks and a reconciler find them.
//!
//! **Invariant: the alias of those that passed is at no version whose verdict is another than
//! `pass`**, longer than between two requests. It is set after the tags, and taken back before
//! them.
//!
//! **Invariant: a verdict that sets the alias is one against the champion of that moment.** The
//! champion is asked for before a run, after it, and after the alias was set.

mod bucket;
pub mod check;
pub mod engine;
mod error;
pub mod evidence;
pub mod fetch;
pub mod ledger;
pub mod locate;
pub mod mlflow;
pub mod reconcile;
pub mod registry;
pub mod sagemaker;
pub mod service;
pub mod unpack;
pub mod verdict;

pub use error::{RegistryError, Result};
