//! The gRPC handler of augmentation (GASE).

use std::time::Instant;

use isomer_proto::{
    ProtoEnum,
    transform::v1::{
        AugmentRequest, AugmentResponse, AugmentationMode, AugmentationSpec, EncodeAugmentedRequest,
        EncodeAugmentedResponse, Variants, augmentation_service_server::AugmentationService,
    },
};
use isomer_service_kit::{
    Fault, GrpcChannel, Tenant,
    client::{self, ClientConfig},
};
use tonic::{Request, Response, Status};

use super::TransformService;
use crate::{augment, engine::Caller, metric_names};

impl TransformService {
    /// The encoder service of a request, for its tenant.
    fn encoder_at(&self, address: &str, tenant: &Tenant) -> Result<GrpcChannel, Fault> {
        if address.is_empty() {
            let own = self.encoder.as_ref().map(|encoder| encoder.for_tenant(tenant));
            return own.ok_or_else(|| {
                Fault::precondition("NO_ENCODER_SERVICE", "this server was given no encoder service")
                    .hint("set `encoder.address` in its configuration, or ask a server that runs both")
            });
        }
        if !self.engine.allows_specs() {
            return Err(Fault::invalid(
                "encoder_address",
                "this server connects to no address of a request's own",
            )
            .hint("leave it out, or set transform.allow_specs"));
        }
        let config = ClientConfig::plain(address);
        let connected = match self.engine.guard()? {
            None => client::connect_lazy(&config),
            Some(guard) => client::connect_lazy_to(&config, Box::new(guard)),
        };
        connected
            .map(|channel| channel.for_tenant(&tenant.for_server(address)))
            .map_err(|fault| fault.field("encoder_address"))
    }
}

#[tonic::async_trait]
impl AugmentationService for TransformService {
    async fn augment(&self, request: Request<AugmentRequest>) -> Result<Response<AugmentResponse>, Status> {
        let began = Instant::now();
        let caller = Caller::new(&Tenant::of_request(&request), None, None);
        let request = request.into_inner();
        let generated = augment::augment(&self.engine, caller, request.spec, &request.items).await?;
        Ok(Response::new(AugmentResponse {
            usage: Some(generated.totals.usage()),
            timing: Some(generated.totals.timing(began.elapsed())),
            items: generated.items,
        }))
    }

    async fn encode_augmented(
        &self,
        request: Request<EncodeAugmentedRequest>,
    ) -> Result<Response<EncodeAugmentedResponse>, Status> {
        let began = Instant::now();
        let (tenant, caller) = (Tenant::of_request(&request), self.caller_of(&request));
        let request = request.into_inner();
        let encoder = self.encoder_at(&request.encoder_address, &tenant)?;
        let stored = self.variant_vectors.as_deref();
        let mode = request.spec.as_ref().map_or(AugmentationMode::Always, effective_mode);
        let (mut response, generated) =
            augment::encode_augmented(&self.engine, encoder, stored, caller, request).await?;
        let mut timing = generated.totals.timing(began.elapsed());
        timing.compute = prost_types::Duration::try_from(generated.took).ok();
        response.timing = Some(timing);
        metrics::histogram!(metric_names::AUGMENTED).record(began.elapsed().as_secs_f64());
        response.used.iter().for_each(|variants| count(mode, variants));
        Ok(Response::new(response))
    }
}

/// The mode that a spec without one means.
fn effective_mode(spec: &AugmentationSpec) -> AugmentationMode {
    match spec.mode() {
        AugmentationMode::Unspecified if spec.generation_budget.is_some() => AugmentationMode::Budget,
        AugmentationMode::Unspecified => AugmentationMode::Always,
        mode => mode,
    }
}

/// Counts a text by its variants, and the variants that it lacks.
fn count(mode: AugmentationMode, variants: &Variants) {
    let there = match (variants.variants.is_empty(), variants.missing.is_empty()) {
        (true, _) => "none",
        (false, true) => "all",
        (false, false) => "some",
    };
    metrics::counter!(metric_names::AUGMENTED_TEXTS, "mode" => mode.name(), "variants" => there).increment(1);
    for missing in &variants.missing {
        let reason = missing.reason().name();
        metrics::counter!(metric_names::MISSING_VARIANTS, "mode" => mode.name(), "reason" => reason).increment(1);
    }
}
