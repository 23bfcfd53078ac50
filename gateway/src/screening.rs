//! The registry's questions to the router.

use isomer_proto::gateway::v1::{CheckProviderResponse, Provider, ProviderState};
use isomer_registry::{ProviderStatus, Screening};
use isomer_service_kit::Fault;

use crate::routing::{HEALTHY, Router};

/// Implements the registry's [`Screening`] with the router.
#[derive(Debug)]
pub(crate) struct Screen(pub(crate) Router);

#[tonic::async_trait]
impl Screening for Screen {
    async fn admit(&self, candidate: &Provider) -> Result<(), Fault> {
        self.0.admit(candidate).await
    }

    async fn check(&self, candidate: &Provider) -> Result<CheckProviderResponse, Fault> {
        self.0.check(candidate).await
    }

    fn status(&self, id: &str) -> ProviderStatus {
        if let Some((_, why)) = self
            .0
            .refusals()
            .into_iter()
            .find(|(_, why)| why.contains(&format!("provider `{id}`")))
        {
            return ProviderStatus {
                state: ProviderState::Refused,
                detail: why,
            };
        }
        let Some((_, health, _)) = self
            .0
            .provider_health()
            .into_iter()
            .find(|(provider, ..)| provider == id)
        else {
            return ProviderStatus::default();
        };
        ProviderStatus {
            state: if health.state == HEALTHY {
                ProviderState::Serving
            } else {
                ProviderState::Unavailable
            },
            detail: health.why.unwrap_or_default(),
        }
    }
}
