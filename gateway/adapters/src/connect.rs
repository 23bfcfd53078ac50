//! From a provider's record to a backend.

use std::sync::Arc;

use isomer_proto::gateway::v1::{Provider, ProviderKind};
use isomer_service_kit::Fault;

use crate::{AddressGuard, EncoderBackend, IsomerBackend, foreign::Foreign, kinds};

/// What all providers of a gateway share.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Which addresses may be called.
    pub guard: AddressGuard,
    /// Largest message or body to take from a provider, in bytes.
    pub max_message_bytes: usize,
}

/// Makes a backend of a provider's record. Nothing is called yet: a provider that is down now is
/// connected to when it is first asked. Limits of rate and number hold for this backend, so a
/// provider should be connected to once.
///
/// Must be called inside a tokio runtime.
///
/// # Errors
/// What cannot work, with the provider's field to blame: a kind that is not known, an address that
/// may not be called (`ADDRESS_REFUSED`) or is none, TLS files that cannot be read, headers that
/// look like secrets, rates that are none, input types where the protocol has none.
pub fn connect(provider: &Provider, surroundings: &Surroundings) -> Result<Arc<dyn EncoderBackend>, Fault> {
    if provider.kind() == ProviderKind::Isomer {
        return Ok(Arc::new(IsomerBackend::new(provider, surroundings)?));
    }
    let Some((protocol, target)) = kinds::protocol(provider, surroundings)? else {
        return Err(Fault::invalid("provider.kind", "is not set, or of a later version")
            .hint("say what protocol the provider speaks"));
    };
    Ok(Arc::new(Foreign::new(provider, protocol, &target)?))
}
