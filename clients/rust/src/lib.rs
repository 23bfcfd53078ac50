//! A client of Isomer's services.
//!
//! ```no_run
//! # async fn shown() -> Result<(), isomer_client::Error> {
//! use isomer_client::{Client, EncodeOptions};
//!
//! let client = Client::from_environment()?;
//! let texts = ["A man is playing a guitar.", "Someone plays music."];
//! let found = client.encode(texts, "all-MiniLM-L6-v2").await?;
//! println!("{} x {}", found.rows(), found.cols());
//! let query = client.encode(["guitars"], EncodeOptions::new("all-MiniLM-L6-v2").role("query")).await?;
//! # drop(query);
//! # Ok(())
//! # }
//! ```
//!
//! A [`Client`] may be cloned, and shared by any number of threads and tasks: all clones are one
//! set of connections. Dropping a future, or a stream, cancels the call at the server.
#![warn(missing_docs)]

mod augment;
mod batching;
mod call;
mod channel;
mod client;
mod collection;
mod encode;
mod encoders;
mod error;
mod failed;
mod keys;
mod matrix;
mod outputs;
mod pack;
mod pages;
mod places;
mod providers;
mod rerank;
mod results;
mod role;
mod runs;
mod settings;
mod space;
mod statistics;
mod tasks;
mod token;
mod transform;

/// The messages and stubs of the services.
pub use isomer_proto as proto;

pub use augment::{AugmentOptions, AugmentedEmbeddings, Source};
pub use channel::Channel;
pub use client::Client;
pub use collection::Collection;
pub use encode::EncodeOptions;
pub use error::{Error, Failure, reasons};
pub use isomer_encoder_client::retry::Policy as RetryPolicy;
pub use isomer_proto::{
    common::v1::{Dtype, Usage},
    encoder::v1::{Output, Priority, SparseVector, Truncation},
};
pub use keys::{Keys, NewKey};
pub use matrix::Matrix;
pub use outputs::{Outputs, SparseEmbeddings};
pub use providers::Providers;
pub use rerank::{Ranked, Ranking, RerankOptions};
pub use results::{Embeddings, ItemError, TokenEmbeddings};
pub use runs::{Report, Runs, run_spec};
pub use settings::{Builder, DEFAULT_ADDRESS, Tls};
pub use space::VectorSpace;
pub use statistics::{Statistics, series};
pub use tasks::Tasks;
pub use token::{Token, TokenSource};
pub use transform::{TransformOptions, Transformed, items};

/// This library's version. Every call says it in `user-agent`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
