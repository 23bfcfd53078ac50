//! Decides to whom the usage of a unit is attributed if several processes request it one after
//! another.

use std::{collections::HashSet, sync::Arc};

use parking_lot::Mutex;
use uuid::{Builder, Uuid};

/// A run that may move between processes. Each process counts its usage from the start, each unit
/// once. So the process that continues it also counts the units counted before the move, and no
/// other run does.
#[derive(Debug, Clone)]
pub struct Claimant {
    id: Uuid,
    /// Digests of the units that this process has counted: 8 bytes per unit.
    counted: Arc<Mutex<HashSet<u64>>>,
}

impl Claimant {
    /// The claimant with this name, e.g. the id of a run.
    pub fn new(name: &str) -> Self {
        let id = Uuid::try_parse(name).unwrap_or_else(|_| derived(&[name.as_bytes()]));
        Self {
            id,
            counted: Arc::default(),
        }
    }

    pub fn id(&self) -> Uuid {
        self.id
    }

    /// The dispatch of a request with this digest: the same in every process.
    pub fn dispatch(&self, request: &[u8]) -> Uuid {
        derived(&[self.id.as_bytes(), request])
    }

    /// Marks a unit as counted by this process; returns whether it was not counted before.
    pub fn count_here(&self, unit: &[u8]) -> bool {
        let digest = derived(&[unit]).as_u64_pair().0;
        self.counted.lock().insert(digest)
    }
}

/// An id that depends only on these bytes.
fn derived(parts: &[&[u8]]) -> Uuid {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let mut bytes = [0; 16];
    hasher.finalize_xof().fill(&mut bytes);
    Builder::from_custom_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimant_is_the_same_in_every_process_and_counts_a_unit_once_in_each() {
        let run = Uuid::now_v7().to_string();
        let (first, second) = (Claimant::new(&run), Claimant::new(&run));
        assert_eq!(first.id().to_string(), run);
        assert_eq!(first.dispatch(b"a"), second.dispatch(b"a"));
        assert_ne!(first.dispatch(b"a"), first.dispatch(b"b"));
        assert_ne!(first.dispatch(b"a"), Claimant::new("other").dispatch(b"a"));
        assert!(first.count_here(b"unit") && second.count_here(b"unit"));
        assert!(!first.clone().count_here(b"unit"), "clones count together");
    }
}
