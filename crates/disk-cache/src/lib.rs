//! Entries in a SQLite file that several processes share. The disk caches are built on it.
//!
//! **Layout.** One file in a folder, in WAL mode. An entry is a [`Key`] and a value in a *space*,
//! with a checksum. An entry that does not match its checksum is removed, and is a miss.
//! **Durability.** A written entry survives the end of the process. The disk is synced at each
//! checkpoint of the WAL and when the cache is closed, so a power failure may lose the entries of
//! the last seconds, never earlier ones. **Bounds.** A cache over its size limit removes the least
//! recently used entries. An expired entry is no longer found. **Erasing.** Removed content is
//! overwritten with zeros (`secure_delete`), and [`DiskCache::erase`] also empties the WAL.
//! **Damage.** A file that SQLite cannot read is removed: its entries are computed again. **Older
//! versions.** Their append-only files are imported and removed when a space is opened.

mod age;
mod connection;
mod old;
mod private;
mod store;
#[cfg(test)]
mod tests;

pub use age::{Hourly, MaxAge, Removal};
pub use old::{Framing, OldFiles};
pub use store::{Bounds, CacheSpec, CacheStats, DiskCache, Erasure, Mode};

/// The address of an entry: a digest of everything that its value depends on.
pub type Key = [u8; 32];
