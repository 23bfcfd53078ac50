//! A service with one encoder, and a client's requests to it.

use std::path::{Path, PathBuf};

use isomer_embed::{EmbedConfig, EmbedService, SharedVectors, services};
use isomer_proto::{
    common::v1::Dtype,
    encoder::v1::{EncodeRequest, EncodeResponse, Input, encoder_service_client::EncoderServiceClient, input},
};
use isomer_service_kit::{Fault, GrpcChannel, Tenant, limits::LimitsConfig, memory};

use super::{resolver, tiny};

pub type Client = EncoderServiceClient<GrpcChannel>;

pub struct Harness {
    pub folder: tempfile::TempDir,
    pub client: Client,
}

impl Harness {
    /// A service with the encoder `tiny`, after `edit` has changed its folder and configuration.
    pub async fn new(edit: impl FnOnce(&Path, &mut EmbedConfig)) -> Self {
        Self::with_shared(None, edit).await
    }

    /// Like [`Harness::new`], with vectors in a shared store.
    pub async fn with_shared(shared: Option<SharedVectors>, edit: impl FnOnce(&Path, &mut EmbedConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("tiny-model");
        std::fs::create_dir_all(&model).unwrap();
        tiny(&model);
        let mut config = EmbedConfig {
            encoders: [("tiny".to_owned(), model.clone())].into(),
            ..EmbedConfig::default()
        };
        edit(&model, &mut config);
        let service = EmbedService::with_shared(config, resolver(&folder.path().join("home")), shared).unwrap();
        let channel = memory::channel(services(service), &LimitsConfig::default())
            .await
            .unwrap();
        let client = EncoderServiceClient::new(channel).max_decoding_message_size(64 << 20);
        Self { folder, client }
    }

    /// The encoder's folder.
    pub fn model(&self) -> PathBuf {
        self.folder.path().join("tiny-model")
    }

    pub async fn plain() -> Self {
        Self::new(|_, _| ()).await
    }

    pub async fn encode(&mut self, request: EncodeRequest) -> EncodeResponse {
        self.client.encode(request).await.unwrap().into_inner()
    }

    pub async fn encode_for(&mut self, tenant: &Tenant, request: EncodeRequest) -> EncodeResponse {
        self.client.encode(tenant.request(request)).await.unwrap().into_inner()
    }

    pub async fn refuse(&mut self, request: EncodeRequest) -> Fault {
        Fault::from_status(&self.client.encode(request).await.unwrap_err())
    }
}

pub fn texts(texts: &[&str]) -> Vec<Input> {
    texts
        .iter()
        .map(|text| Input {
            input: Some(input::Input::Text((*text).to_owned())),
        })
        .collect()
}

pub fn request(inputs: &[&str]) -> EncodeRequest {
    EncodeRequest {
        encoder_id: "tiny".into(),
        inputs: texts(inputs),
        ..EncodeRequest::default()
    }
}

pub fn rows(response: &EncodeResponse) -> Vec<Vec<f32>> {
    let matrix = response.embeddings.as_ref().unwrap();
    assert_eq!(matrix.dtype(), Dtype::F32);
    let values: Vec<f32> = matrix
        .data
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect();
    assert_eq!(values.len(), (matrix.rows * matrix.cols) as usize);
    values.chunks(matrix.cols as usize).map(<[f32]>::to_vec).collect()
}

pub fn length(vector: &[f32]) -> f32 {
    vector.iter().map(|x| x * x).sum::<f32>().sqrt()
}

pub const LONG: &str = "a b c d e f g h i j k l m n o p q r s t u v w x y z";
