//! Robustness checks of the encoders in a model registry.
//!
//! A new version of a model is fetched, checked under a gate against the version at an alias (the
//! champion), and gets metrics, the report, tags and, if it passed, an alias.
//!
//! * [`registry`]: the interface of a registry; [`mlflow`]: MLflow, with its webhooks;
//!   [`sagemaker`]: the model packages of SageMaker.
//! * [`locate`], [`fetch`]: find the encoder among the files of a version, and fetch it. Pickles
//!   are neither fetched nor opened. [`unpack`]: third-party archives.
//! * [`engine`]: executes a check. [`evidence`], [`verdict`]: the results in the registry.
//! * [`check`]: one version, from files to alias. [`reconcile`]: checks the results of earlier
//!   checks again.
//! * [`ledger`], [`service`]: all versions, found by webhooks and a reconciler.
//!
//! **Invariant: the alias of passed versions is never at a version whose verdict is not `pass`**,
//! for longer than between two requests. It is set after the tags, and removed before them.
//!
//! **Invariant: a verdict that sets the alias was made against the current champion.** The champion
//! is queried before a run, after it, and after the alias was set.

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
