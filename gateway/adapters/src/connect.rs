//! Makes a backend from a provider's record.

use std::{iter, sync::Arc};

use isomer_proto::{
    ProtoEnum as _,
    gateway::v1::{Provider, ProviderKind},
};
use isomer_service_kit::Fault;

use crate::{
    EncoderBackend, Surroundings, isomer,
    kinds::{FOREIGN, Kind},
};

/// Makes a backend from a provider's record, without making a call: it connects at the first call.
/// Rate and concurrency limits belong to this backend, so each provider should be connected only
/// once.
///
/// Must be called inside a Tokio runtime.
///
/// # Errors
/// If a setting cannot work; the fault names the provider's field. Examples: an unknown kind, an
/// invalid address or one that may not be called (`ADDRESS_REFUSED`), unreadable TLS files, headers
/// that look like secrets, invalid rates, input types for a protocol without them.
pub fn connect(provider: &Provider, surroundings: &Surroundings) -> Result<Arc<dyn EncoderBackend>, Fault> {
    (kind_of(provider)?.connect)(provider, surroundings)
}

pub fn kinds() -> impl Iterator<Item = &'static Kind> {
    iter::once(&isomer::KIND).chain(FOREIGN.iter().copied())
}

/// The declaration of a provider's kind.
///
/// # Errors
/// If the kind is missing, or unknown to this version.
pub fn kind_of(provider: &Provider) -> Result<&'static Kind, Fault> {
    let refuse = |message: &str| {
        let known: Vec<_> = kinds().map(|kind| kind.value.dashed()).collect();
        Fault::invalid("provider.kind", message).hint(format!("give one of {}", known.join(", ")))
    };
    match ProviderKind::try_from(provider.kind) {
        Ok(ProviderKind::Unspecified) => Err(refuse("is missing")),
        Ok(given) => kinds()
            .find(|kind| kind.value == given)
            .ok_or_else(|| refuse("is not served here")),
        Err(_) => Err(refuse(&format!(
            "{} is not a kind that this version knows",
            provider.kind
        ))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_of_the_protocol_is_declared_once() {
        let declared: BTreeSet<_> = kinds().map(|kind| kind.value.dashed()).collect();
        assert_eq!(declared.len(), kinds().count());
        assert_eq!(declared, ProviderKind::all().map(ProviderKind::dashed).collect());
    }

    #[test]
    fn a_kind_that_is_missing_or_unknown_is_refused_by_its_field() {
        for number in [0, 99] {
            let provider = Provider {
                kind: number,
                ..Provider::default()
            };
            let fault = kind_of(&provider).unwrap_err();
            assert_eq!(fault.field.as_deref(), Some("provider.kind"));
        }
    }
}
