//! A cache of recently verified tokens. Verifying a signature takes a tenth of a millisecond, and
//! clients send the same token repeatedly.

use std::{collections::HashMap, sync::Arc};

use parking_lot::RwLock;

use crate::{access::micros_now, jwt::Subject};

/// Maximum number of cached tokens.
const MOST: usize = 4096;

/// Keyed by the SHA-256 of the token, and valid only as long as the keys that verified it.
#[derive(Debug, Default)]
pub(crate) struct TokenCache(RwLock<TokenSubjects>);

#[derive(Debug, Default)]
struct TokenSubjects {
    generation: u64,
    subjects: HashMap<[u8; 32], Arc<Subject>>,
}

impl TokenCache {
    pub(crate) fn get(&self, digest: &[u8; 32], generation: u64) -> Option<Arc<Subject>> {
        let remembered = self.0.read();
        remembered
            .subjects
            .get(digest)
            .filter(|_| remembered.generation == generation)
            .cloned()
    }

    pub(crate) fn put(&self, digest: [u8; 32], generation: u64, subject: Arc<Subject>) {
        let mut remembered = self.0.write();
        if remembered.generation != generation {
            remembered.subjects.clear();
            remembered.generation = generation;
        }
        if remembered.subjects.len() >= MOST {
            let now = micros_now();
            remembered.subjects.retain(|_, subject| subject.expires > now);
        }
        if remembered.subjects.len() >= MOST {
            remembered.subjects.clear();
        }
        remembered.subjects.insert(digest, subject);
    }
}
