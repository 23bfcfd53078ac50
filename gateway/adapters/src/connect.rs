//! Makes a backend from a provider's record.

use std::sync::Arc;

use isomer_proto::gateway::v1::{Provider, ProviderKind};
use isomer_service_kit::Fault;

use crate::{AddressGuard, EncoderBackend, IsomerBackend, foreign::Foreign, kinds};

/// Settings shared by all providers of a gateway.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Which addresses may be called.
    pub guard: AddressGuard,
    /// Largest message or body that is accepted from a provider, in bytes.
    pub max_message_bytes: usize,
}

/// Makes a backend from a provider's record. No call is made yet: the connection is made at the
/// first call. Rate and concurrency limits belong to this backend, so each provider should be
/// connected once.
///
/// Must be called inside a Tokio runtime.
///
/// # Errors
/// A setting that cannot work, with the provider's field: an unknown kind, an invalid address or
/// one that may not be called (`ADDRESS_REFUSED`), TLS files that cannot be read, headers that look
/// like secrets, invalid rates, input types for a protocol without them.
pub fn connect(provider: &Provider, surroundings: &Surroundings) -> Result<Arc<dyn EncoderBackend>, Fault> {
    if provider.kind() == ProviderKind::Isomer {
        return Ok(Arc::new(IsomerBackend::new(provider, surroundings)?));
    }
    let Some((protocol, target)) = kinds::protocol(provider, surroundings)? else {
        return Err(
            Fault::invalid("provider.kind", "is not set, or unknown to this version")
                .hint("name the provider's protocol"),
        );
    };
    Ok(Arc::new(Foreign::new(provider, protocol, &target)?))
}
