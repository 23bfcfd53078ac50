//! Helpers of this crate's tests.

use std::path::Path;

use isomer_models::{ModelsConfig, Resolver};
use isomer_proto::transform::v1::{
    Paraphrase, TextItem, TransformRequest, TransformResponse, TransformSpec,
    transform_service_client::TransformServiceClient, transformation::Kind,
};
use isomer_service_kit::{Fault, GrpcChannel};
use isomer_stubs::{openai::Stub, rpc::channel};
use isomer_transform::{GeneratorConfig, TransformConfig, TransformService, services};

pub type Client = TransformServiceClient<GrpcChannel>;

/// A configuration whose one generator, `stub`, is the given server, with its cache and home below
/// `home`.
pub fn config(stub: &Stub, home: &Path) -> TransformConfig {
    let generator = GeneratorConfig {
        model: "stub-model".into(),
        url: Some(stub.url()),
        retry_delay_seconds: 0.01,
        timeout_seconds: 5.0,
        ..Default::default()
    };
    TransformConfig {
        generators: [("stub".to_owned(), generator)].into(),
        default_generator: "stub".into(),
        cache_dir: Some(home.join("cache")),
        ..Default::default()
    }
}

/// A resolver of models below `home` without network access.
pub fn resolver(home: &Path) -> Resolver {
    let models = ModelsConfig {
        home: home.to_owned(),
        offline: true,
        ..ModelsConfig::default()
    };
    Resolver::new(models).unwrap()
}

pub fn service(config: TransformConfig, home: &Path) -> TransformService {
    TransformService::new(config, resolver(home)).unwrap()
}

/// A client of a service in this process, over the same code path as for any client.
pub async fn client(config: TransformConfig, home: &Path) -> Client {
    client_of(service(config, home)).await
}

pub async fn client_of(service: TransformService) -> Client {
    TransformServiceClient::new(channel(services(service)).await)
}

pub fn spec(kind: Kind) -> TransformSpec {
    TransformSpec {
        transformation: Some(kind.into()),
        ..Default::default()
    }
}

pub fn paraphrase() -> TransformSpec {
    spec(Kind::Paraphrase(Paraphrase {}))
}

pub fn items(texts: &[&str]) -> Vec<TextItem> {
    texts
        .iter()
        .enumerate()
        .map(|(index, text)| TextItem {
            id: format!("t{index}"),
            text: (*text).to_owned(),
            language: Some("en".into()),
        })
        .collect()
}

pub async fn transform(client: &mut Client, spec: TransformSpec, texts: &[&str]) -> TransformResponse {
    try_transform(client, spec, texts).await.unwrap()
}

pub async fn try_transform(
    client: &mut Client,
    spec: TransformSpec,
    texts: &[&str],
) -> Result<TransformResponse, Fault> {
    let request = TransformRequest {
        spec: Some(spec),
        items: items(texts),
        ..Default::default()
    };
    client
        .transform(request)
        .await
        .map(tonic::Response::into_inner)
        .map_err(|status| Fault::from_status(&status))
}
