//! Channels to the services that this service calls.

use isomer_service_kit::{GrpcChannel, Tenant};

/// Channels to the services that tasks and runs use.
#[derive(Debug, Clone)]
pub struct EvalClients {
    /// An `EncoderService`.
    pub encoder: GrpcChannel,
    /// A `TransformService`.
    pub transform: GrpcChannel,
}

impl EvalClients {
    /// The same services, called on behalf of a tenant.
    #[must_use]
    pub fn for_tenant(&self, tenant: &Tenant) -> Self {
        Self {
            encoder: self.encoder.for_tenant(tenant),
            transform: self.transform.for_tenant(tenant),
        }
    }
}
