//! Every service in this process, meeting over in-memory channels, with the gateway's face in front.

use std::path::PathBuf;

use isomer_embed::{EmbedError, EmbedService};
use isomer_eval::{EvalClients, EvalService, places::Places};
use isomer_models::Resolver;
use isomer_proto::{
    encoder::v1::{GetEncoderRequest, encoder_service_client::EncoderServiceClient},
    gateway::v1::provider_service_server::ProviderServiceServer,
};
use isomer_service_kit::{Fault, GrpcChannel, LimitsConfig, Services, memory};
use isomer_transform::TransformService;

use crate::{
    config::IsomerConfig,
    openai,
    provider::Registry,
    proxy::{self, Upstream},
};

/// All services of one process. They stop when this and every channel to them is dropped.
#[derive(Clone, Debug)]
pub struct House {
    resolver: Resolver,
    eval: EvalService,
    front: Services,
    channel: GrpcChannel,
}

/// Who may name folders, generators and data files of this machine in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// The owner of this process (the command line): anything this user can read.
    Owner,
    /// Anyone who reaches the port: what the configuration allows.
    Anyone,
}

/// Builds the services and the front. Nothing is loaded yet but what the configuration warms up.
pub async fn compose(mut config: IsomerConfig, caller: Caller) -> Result<House, Fault> {
    if caller == Caller::Owner {
        config.embed.allow_paths = true;
        config.transform.allow_specs = true;
        // Folders named in the configuration are still looked through for data sets by name.
        config.eval.dataset_dirs.append(&mut config.eval.data_roots);
        config.eval.data_roots = vec![PathBuf::from("/")];
    }
    config.eval.home.clone_from(&config.models.home);
    let resolver = Resolver::new(config.models).map_err(EmbedError::from)?;
    // Inside the process a service waits for its own queues; the port in front has the limit of requests.
    let limits = LimitsConfig {
        max_concurrent_requests: usize::MAX >> 4,
        ..config.server.limits
    };

    let embed = EmbedService::new(config.embed, resolver.clone())?;
    embed.warm_up().await?;
    let encoder = memory::channel(isomer_embed::services(embed), &limits).await?;
    let transform = TransformService::new(config.transform, resolver.clone())?.with_encoder(encoder.clone());
    let transform = memory::channel(isomer_transform::services(transform), &limits).await?;
    let eval = EvalService::with_hub(
        config.eval,
        EvalClients {
            encoder: encoder.clone(),
            transform: transform.clone(),
        },
        Some(resolver.clone()),
    )?;
    let scores = memory::channel(isomer_eval::services(eval.clone()), &limits).await?;

    let front = front(
        [(EMBED, &encoder), (TRANSFORM, &transform), (EVAL, &scores)].map(|(names, channel)| Part {
            services: names,
            place: "this process".to_owned(),
            channel: channel.clone(),
        }),
        openai::Backends {
            encoder: Some(encoder),
            augmentation: Some(transform),
            max_message_bytes: limits.max_message_bytes,
        },
    );
    let channel = memory::channel(front.clone(), &limits).await?;
    Ok(House {
        resolver,
        eval,
        front,
        channel,
    })
}

impl House {
    /// The way in for clients of this process.
    pub fn channel(&self) -> GrpcChannel {
        self.channel.clone()
    }

    /// What to serve on a port.
    pub fn front(&self) -> Services {
        self.front.clone()
    }

    /// Finds data sets.
    pub fn places(&self) -> &Places {
        self.eval.places()
    }

    /// Finds model files.
    pub fn resolver(&self) -> Resolver {
        self.resolver.clone()
    }

    /// Loads an encoder before it is first asked for.
    pub async fn warm_up(&self, encoder_id: &str) -> Result<(), Fault> {
        let request = GetEncoderRequest {
            id: encoder_id.to_owned(),
        };
        EncoderServiceClient::new(self.channel())
            .get_encoder(request)
            .await
            .map_err(|s| Fault::from_status(&s))?;
        Ok(())
    }

    /// Ends runs that are under way, so that their watchers are told; what they finished is kept.
    pub async fn interrupt_runs(&self) {
        self.eval.runs().interrupt().await;
    }
}

pub(crate) const EMBED: &[&str] = &["isomer.encoder.v1.EncoderService"];
pub(crate) const TRANSFORM: &[&str] = &[
    "isomer.transform.v1.TransformService",
    "isomer.transform.v1.AugmentationService",
];
pub(crate) const EVAL: &[&str] = &[
    "isomer.eval.v1.TaskService",
    "isomer.eval.v1.StatisticsService",
    "isomer.eval.v1.RunService",
];

/// A server behind the gateway and the services it answers for.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) services: &'static [&'static str],
    pub(crate) place: String,
    pub(crate) channel: GrpcChannel,
}

/// The gateway's face: its own registry, a way to each part, and HTTP in OpenAI's shapes.
pub(crate) fn front(parts: impl IntoIterator<Item = Part>, backends: openai::Backends) -> Services {
    let mut front = Services::new()
        .add(ProviderServiceServer::new(Registry))
        .http(openai::routes(backends));
    for part in parts {
        for service in part.services {
            let upstream = Upstream {
                service,
                place: part.place.clone(),
                channel: part.channel.clone(),
            };
            front = front.add_routes(service, proxy::route(upstream));
        }
    }
    front
}
