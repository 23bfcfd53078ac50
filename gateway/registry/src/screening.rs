//! The registry's questions to its owner.

use std::fmt::Debug;

use isomer_proto::gateway::v1::{CheckProviderResponse, Provider, ProviderState};
use isomer_service_kit::Fault;

/// Screens providers. The part of the gateway that can call them implements it.
///
/// It screens only providers that are registered by rpc. Providers from the file, from another
/// gateway on the same database, or from before a restart arrive through [`crate::Registry::watch`]
/// without screening, and must be screened there.
#[tonic::async_trait]
pub trait Screening: Debug + Send + Sync + 'static {
    /// Decides whether a provider may be stored, or changed to this candidate. The candidate is
    /// valid; it may replace a registered provider of the same id. Calls are sequential, so that if
    /// two candidates contradict each other, the second call sees the first.
    ///
    /// # Errors
    /// The reason for the refusal, which the caller receives.
    async fn admit(&self, candidate: &Provider) -> Result<(), Fault>;

    /// Probes a provider with real requests.
    ///
    /// # Errors
    /// If it cannot be probed at all. A provider that fails checks is a finding, not an error.
    async fn check(&self, candidate: &Provider) -> Result<CheckProviderResponse, Fault>;

    /// The status of a live provider. Called for each provider in an answer.
    fn status(&self, _id: &str) -> ProviderStatus {
        ProviderStatus::default()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderStatus {
    /// Whether requests are sent to it.
    pub state: ProviderState,
    /// The reason, in words.
    pub detail: String,
}
