//! What the registry asks its owner.

use std::fmt::Debug;

use isomer_proto::gateway::v1::{CheckProviderResponse, Provider, ProviderState};
use isomer_service_kit::Fault;

/// Looks at providers: the part of the gateway that can call them.
///
/// It is asked about what comes in by rpc. What a file declares, what another gateway on the same
/// database took in and what was stored before a restart comes through [`crate::Registry::watch`]
/// unasked, and has to be judged there.
#[tonic::async_trait]
pub trait Screening: Debug + Send + Sync + 'static {
    /// Whether a provider may be stored, or changed into this. The candidate is valid; one of the
    /// same id may be registered already, which it would replace. Asked for one candidate at a
    /// time, so that of two that contradict each other the second one meets the first.
    ///
    /// # Errors
    /// The reason for the refusal, which the caller receives.
    async fn admit(&self, candidate: &Provider) -> Result<(), Fault>;

    /// Probes a provider for real.
    ///
    /// # Errors
    /// When it cannot be probed at all; a provider that does badly is a finding, not an error.
    async fn check(&self, candidate: &Provider) -> Result<CheckProviderResponse, Fault>;

    /// How a live provider does. Asked for each provider that is shown.
    fn status(&self, _id: &str) -> ProviderStatus {
        ProviderStatus::default()
    }
}

/// How a provider does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderStatus {
    /// Whether requests are sent to it.
    pub state: ProviderState,
    /// Why, in words.
    pub detail: String,
}
