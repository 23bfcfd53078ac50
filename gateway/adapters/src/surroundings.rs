//! Settings shared by all providers.

use crate::AddressGuard;

/// Settings shared by all providers of a gateway.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The addresses that may be called.
    pub guard: AddressGuard,
    /// Largest message or body that is accepted from a provider, in bytes.
    pub max_message_bytes: usize,
}
