//! The registry of encoder providers. Not served yet: every rpc answers `UNIMPLEMENTED` (the generated default), so
//! that reflection and health already name the service.

use isomer_proto::gateway::v1::provider_service_server::ProviderService;

/// The registry's face.
#[derive(Debug, Clone, Copy, Default)]
pub struct Registry;

#[tonic::async_trait]
impl ProviderService for Registry {}
