//! The interface.

use std::fmt::Debug;

use isomer_proto::encoder::v1::{
    CountTokensRequest, CountTokensResponse, DetokenizeRequest, DetokenizeResponse, EncodeRequest, EncodeResponse,
    Encoder, RerankRequest, RerankResponse, TokenizeRequest, TokenizeResponse,
};
use isomer_service_kit::Fault;
use tokio::time::Instant;

/// A server that answers for encoders, in the terms of `isomer.encoder.v1`, whatever protocol it
/// speaks. Dropping a future drops the call behind it.
#[tonic::async_trait]
pub trait EncoderBackend: Debug + Send + Sync + 'static {
    /// The encoders it answers for, as far as they can be told without loading anything.
    async fn list(&self) -> Result<Vec<Encoder>, Fault>;

    /// One of them, in full: with the vector space of its default settings.
    async fn get(&self, encoder_id: &str) -> Result<Encoder, Fault>;

    /// Vectors, one row per input in the order of the inputs, whatever the provider's own limits on
    /// batches.
    async fn encode(&self, request: EncodeRequest, deadline: Option<Instant>) -> Result<EncodeResponse, Fault>;

    /// Tokens of texts; `UNIMPLEMENTED` where the provider does not count.
    async fn count_tokens(
        &self,
        request: CountTokensRequest,
        deadline: Option<Instant>,
    ) -> Result<CountTokensResponse, Fault>;

    /// Tokens of texts with the parts that they stand for; `UNIMPLEMENTED` where the provider's
    /// protocol has no such call.
    async fn tokenize(&self, request: TokenizeRequest, _deadline: Option<Instant>) -> Result<TokenizeResponse, Fault> {
        Err(unserved(&request.encoder_id))
    }

    /// Texts of tokens; `UNIMPLEMENTED` likewise.
    async fn detokenize(
        &self,
        request: DetokenizeRequest,
        _deadline: Option<Instant>,
    ) -> Result<DetokenizeResponse, Fault> {
        Err(unserved(&request.encoder_id))
    }

    /// Documents by relevance; `UNIMPLEMENTED` where the provider has no cross-encoder.
    async fn rerank(&self, request: RerankRequest, deadline: Option<Instant>) -> Result<RerankResponse, Fault>;

    /// Whether it would answer now; cheap, for being asked every few seconds.
    async fn healthy(&self) -> Result<(), Fault>;

    /// Whether it takes ids that [`list`](Self::list) does not name, such as folders of models:
    /// whoever routes to it must ask it whether it knows an id.
    fn is_open(&self) -> bool {
        false
    }
}

pub(crate) fn unserved(encoder_id: &str) -> Fault {
    Fault::unimplemented(format!("the provider of `{encoder_id}` does not tell its tokens"))
        .field("encoder_id")
        .hint("ask CountTokens for their number, or an encoder of this server")
}
