//! Channels to the services that this service calls.

use isomer_service_kit::GrpcChannel;

/// Channels to the services that tasks and runs use.
#[derive(Debug, Clone)]
pub struct EvalClients {
    /// An `EncoderService`.
    pub encoder: GrpcChannel,
    /// A `TransformService`.
    pub transform: GrpcChannel,
}
