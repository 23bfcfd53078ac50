//! Tracks which runs rely on which blobs of a store, and removes the rest. To this crate blobs are
//! bytes: it derives their kinds from their folders, and their content addresses from their names.
//!
//! **References.** Everything that relies on blobs is a [`Holder`]. It records the digests on which
//! it relies in the store itself, in segments ([`Hold::hold`]). A sweep ([`sweep`]) removes blobs
//! that are old and whose digest no holder has recorded.
//!
//! **Invariant: held blobs are not removed.** Once [`Hold::hold`] has returned, no sweep removes a
//! blob of these digests until the holder is released, whether the blob existed before or is
//! written later. A holder therefore holds a digest *before* it reads or writes its blobs.
//!
//! The store has no locks, so two writes and two checks keep the invariant:
//!
//! | holder | sweep |
//! |---|---|
//! | 1. writes its reference | 1. announces the digests whose blobs it will remove |
//! | 2. looks for announcements | 2. waits until everybody can see them |
//! | 3. waits for the end of one that names its digest | 3. looks for references again, and spares what they name |
//! | 4. reads or writes the blob | 4. removes the rest, then its announcements |
//!
//! On both sides the write comes before the check, so at least one of the two sides sees the other.
//! Either the sweep spares the digest, or the holder waits until the removal is over, then finds
//! that the blob is gone and creates it again. Clocks only decide which blobs are old, and when an
//! announcement of a sweep that died counts as abandoned.
//!
//! **Errors leave garbage, never remove needed blobs.** Sweeps may be interrupted at any point, and
//! several may run at once. An unreadable reference ends a sweep with an error.

mod announcement;
mod digest;
pub mod erasure;
mod error;
mod hold;
mod holder;
mod marks;
mod release;
mod segment;
mod survey;
mod sweep;
#[cfg(test)]
mod tests;
mod usage;

pub use digest::{Digest, Kind};
pub use error::{HoldError, RetentionError};
pub use hold::{Hold, Holds};
pub use holder::Holder;
pub use release::release;
pub use sweep::{Policy, SHORTEST_FORGETTING, Sweep, SweepReport, sweep};
pub use usage::{RunUsage, Usage, usage};

use serde::Serialize;

/// Number and size of blobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// Blobs.
    pub objects: u64,
    /// Their size in the store.
    pub bytes: u64,
}

impl Amount {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
    }
}

/// The progress of a long command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub name: &'static str,
    /// The completed part.
    pub done: u64,
    /// The total, if known.
    pub total: Option<u64>,
}

/// Receives the progress of a long command.
pub type Progress<'a> = &'a (dyn Fn(Step) + Send + Sync);
