//! Errors of retention.

use std::sync::Arc;

use isomer_blobs::BlobError;

/// Usage or removal failed.
#[derive(Debug, thiserror::Error)]
pub enum RetentionError {
    #[error(transparent)]
    Store(#[from] BlobError),
    /// Unreadable references.
    #[error(
        "the store {url}: {name} cannot be read: {why}; nothing is removed, since it may name what a run relies on. \
         Use the version of Isomer that wrote it, or delete the run"
    )]
    Unreadable {
        /// The blob.
        name: String,
        /// The store.
        url: String,
        why: String,
    },
}

/// A reference could not be written.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot note in the store what is relied on: {0}")]
pub struct HoldError(pub(crate) Arc<str>);
