//! Calls with messages as bytes.

use bytes::{Buf, BufMut};
use futures::{TryStreamExt, stream};
use isomer_service_kit::client::{self, ClientConfig};
use tonic::{
    Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

use crate::house::{House, Key};

#[derive(Debug, Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut item = vec![0; from.remaining()];
        from.copy_to_slice(&mut item);
        Ok(Some(item))
    }
}

/// The answers to a call of whatever kind, or its status.
pub async fn ask(
    house: &House,
    key: &Key,
    path: &str,
    messages: Vec<Vec<u8>>,
    metadata: &[(&'static str, &'static str)],
) -> Result<Vec<Vec<u8>>, Status> {
    let config = ClientConfig {
        address: format!("http://{}", house.address),
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
