//! What in a store is relied on, by which runs, and the removal of the rest. Blobs are bytes to
//! this crate: it knows their kinds by their folders, and their content addresses by their names.
//!
//! **References.** Whatever relies on blobs is a [`Holder`]. It notes the digests of what it relies
//! on in the store itself, in segments ([`Hold::hold`]). A sweep ([`sweep`]) removes blobs that are
//! old and whose digest no holder has noted.
//!
//! **Invariant: what a holder holds is not removed.** When [`Hold::hold`] has returned, no sweep
//! removes a blob of these digests until the holder is released, whether the blob was there before
//! or is written later. A holder therefore holds a digest *before* it reads or writes its blobs.
//!
//! Nothing in the store can be locked, so two writes and two looks keep the invariant:
//!
//! | holder | sweep |
//! |---|---|
//! | 1. writes its reference | 1. announces the digests whose blobs it will remove |
//! | 2. looks for announcements | 2. waits until everybody can see them |
//! | 3. waits for the end of one that names its digest | 3. looks for references again, and spares what they name |
//! | 4. reads or writes the blob | 4. removes the rest, then its announcements |
//!
//! A write comes before the look on both sides, so at least one of the two sees the other: either
//! the sweep spares the digest, or the holder waits until the removal is over, then finds the blob
//! gone and makes it again. Clocks decide nothing but which blobs are old, and when an announcement
//! has been abandoned by a sweep that died.
//!
//! **Only garbage is missed, never what is needed.** Sweeps may be interrupted at any point, and
//! several may go on at once. A reference that cannot be read ends a sweep with an error.

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
pub use sweep::{Policy, SHORTEST_FORGETTING, Sweep, Swept, sweep};
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

/// How far a long command has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What is being done.
    pub name: &'static str,
    /// How much of it is done.
    pub done: u64,
    /// All of it, if that is known.
    pub total: Option<u64>,
}

/// Is told how far a long command has come.
pub type Progress<'a> = &'a (dyn Fn(Step) + Send + Sync);
