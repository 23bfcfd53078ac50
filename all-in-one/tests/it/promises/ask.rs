//! Calls with encoded messages.

use futures::{TryStreamExt, stream};
use isomer_service_kit::client::{self, ClientConfig};
use isomer_stubs::raw::Raw;
use tonic::{Request, Status, client::Grpc};

use crate::harness::{Harness, Key};

/// The answers to a call of any kind, or its status.
pub async fn ask(
    harness: &Harness,
    key: &Key,
    path: &str,
    messages: Vec<Vec<u8>>,
    metadata: &[(&'static str, &'static str)],
) -> Result<Vec<Vec<u8>>, Status> {
    let config = ClientConfig {
        address: format!("http://{}", harness.address),
        api_key: key.text.clone(),
        ..ClientConfig::default()
    };
    let mut grpc = Grpc::new(client::connect_lazy(&config).unwrap());
    grpc.ready()
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?;
    let mut request = Request::new(stream::iter(messages));
    for (name, value) in metadata {
        request.metadata_mut().insert(*name, value.parse().unwrap());
    }
    let answers = grpc.streaming(request, path.parse().unwrap(), Raw).await?;
    answers.into_inner().try_collect().await
}
