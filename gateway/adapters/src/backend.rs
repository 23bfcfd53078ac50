//! The interface of all encoder servers.

use std::fmt::Debug;

use isomer_proto::encoder::v1::{
    CountTokensRequest, CountTokensResponse, DetokenizeRequest, DetokenizeResponse, EncodeRequest, EncodeResponse,
    Encoder, RerankRequest, RerankResponse, TokenizeRequest, TokenizeResponse,
};
use isomer_service_kit::{Fault, Tenant};
use tokio::time::Instant;

/// A server of encoders, in the terms of `isomer.encoder.v1`, whatever its protocol. Dropping a
/// future cancels the call.
#[tonic::async_trait]
pub trait EncoderBackend: Debug + Send + Sync + 'static {
    /// The server's encoders, as far as it knows them without loading a model.
    async fn list(&self) -> Result<Vec<Encoder>, Fault>;

    /// The full description of one encoder, with the vector space of its default settings.
    async fn get(&self, encoder_id: &str) -> Result<Encoder, Fault>;

    /// Encodes: one row per input in the order of the inputs, whatever the provider's own limits on
    /// batches.
    async fn encode(&self, request: EncodeRequest, deadline: Option<Instant>) -> Result<EncodeResponse, Fault>;

    /// [`encode`](Self::encode) for a tenant, whose vectors a server's caches keep separate.
    /// Servers of other protocols do not learn of tenants.
    async fn encode_for(
        &self,
        _tenant: &Tenant,
        request: EncodeRequest,
        deadline: Option<Instant>,
    ) -> Result<EncodeResponse, Fault> {
        self.encode(request, deadline).await
    }

    /// Counts the tokens of texts; `UNIMPLEMENTED` if the provider does not count them.
    async fn count_tokens(
        &self,
        request: CountTokensRequest,
        deadline: Option<Instant>,
    ) -> Result<CountTokensResponse, Fault>;

    /// Tokens of texts, each with its part of the text; `UNIMPLEMENTED` if the provider's protocol
    /// has no such call.
    async fn tokenize(&self, request: TokenizeRequest, _deadline: Option<Instant>) -> Result<TokenizeResponse, Fault> {
        Err(unserved(&request.encoder_id))
    }

    /// Texts of tokens; `UNIMPLEMENTED` as for [`tokenize`](Self::tokenize).
    async fn detokenize(
        &self,
        request: DetokenizeRequest,
        _deadline: Option<Instant>,
    ) -> Result<DetokenizeResponse, Fault> {
        Err(unserved(&request.encoder_id))
    }

    /// Documents by relevance; `UNIMPLEMENTED` if the provider has no cross-encoder.
    async fn rerank(&self, request: RerankRequest, deadline: Option<Instant>) -> Result<RerankResponse, Fault>;

    /// Checks whether the server is healthy; cheap, because it is called every few seconds.
    async fn healthy(&self) -> Result<(), Fault>;

    /// Whether the server accepts ids that [`list`](Self::list) does not name, such as folders of
    /// models. Then a router must ask the server whether it knows an id.
    fn is_open(&self) -> bool {
        false
    }
}

pub(crate) fn unserved(encoder_id: &str) -> Fault {
    Fault::unimplemented(format!("the provider of `{encoder_id}` does not return tokens"))
        .field("encoder_id")
        .hint("ask CountTokens for their number, or an encoder of this server")
}
