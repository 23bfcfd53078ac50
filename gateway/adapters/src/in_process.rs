//! Calls the encoder service of this process through its Rust methods, so no message is encoded.

use std::fmt;

use isomer_encoder_client::client;
use isomer_proto::encoder::v1::{
    CountTokensRequest, CountTokensResponse, DetokenizeRequest, DetokenizeResponse, EncodeRequest, EncodeResponse,
    Encoder, GetEncoderRequest, ListEncodersRequest, RerankRequest, RerankResponse, TokenizeRequest, TokenizeResponse,
    encoder_service_server::EncoderService,
};
use isomer_service_kit::{Fault, LimitsConfig, Tenant, memory::DirectCalls, tenant::COMMON};
use prost::Message;
use tokio::time::Instant;
use tonic::{Code, Response, Status};

use crate::{
    EncoderBackend,
    grpc::over,
    isomer::{SERVICE, undescribed},
    limits::{Deadline, late},
    metered::billed_answer,
};

/// An encoder service of this process. It offers every id that it accepts, and has its own limits
/// on texts and queues.
pub struct InProcessBackend<S> {
    service: S,
    calls: DirectCalls,
    max_message_bytes: usize,
}

impl<S> fmt::Debug for InProcessBackend<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcessBackend").finish_non_exhaustive()
    }
}

impl<S: EncoderService> InProcessBackend<S> {
    /// A backend for this service. `max_message_bytes` is the largest request that it accepts.
    pub fn new(service: S, limits: &LimitsConfig, max_message_bytes: usize) -> Self {
        Self {
            service,
            calls: DirectCalls::new(SERVICE, limits),
            max_message_bytes,
        }
    }

    async fn call<'a, M: Message, A, F>(
        &'a self,
        method: &'static str,
        tenant: &Tenant,
        message: M,
        deadline: Deadline,
        call: impl FnOnce(&'a S, tonic::Request<M>) -> F,
    ) -> Result<A, Fault>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let bytes = message.encoded_len();
        let mut request = tenant.request(message);
        if let Some(deadline) = deadline {
            request.set_timeout(deadline.saturating_duration_since(Instant::now()));
        }
        let most = self.max_message_bytes;
        let called = self.calls.call(method, deadline, async {
            if bytes > most {
                let fault = format!("the request has {bytes} bytes, the limit is {most} bytes");
                let fault = Fault::new(Code::OutOfRange, "OUT_OF_RANGE", fault);
                return Err(fault.hint("send fewer or shorter texts at once").into());
            }
            call(&self.service, request).await
        });
        match called.await {
            Ok(answer) => Ok(answer.into_inner()),
            // The service and this call watch the same deadline, which is the caller's.
            Err(fault) if deadline.is_some_and(|deadline| over(fault.code, deadline)) => Err(late("this process")),
            Err(fault) => Err(fault),
        }
    }
}

#[tonic::async_trait]
impl<S: EncoderService> EncoderBackend for InProcessBackend<S> {
    async fn list(&self) -> Result<Vec<Encoder>, Fault> {
        let mut encoders = Vec::new();
        let mut request = ListEncodersRequest::default();
        loop {
            let page = self
                .call("ListEncoders", &COMMON, request.clone(), None, S::list_encoders)
                .await?;
            encoders.extend(page.encoders);
            if page.next_page_token.is_empty() {
                return Ok(encoders);
            }
            request.page_token = page.next_page_token;
        }
    }

    async fn get(&self, encoder_id: &str) -> Result<Encoder, Fault> {
        let request = GetEncoderRequest {
            id: encoder_id.to_owned(),
        };
        let answer = self.call("GetEncoder", &COMMON, request, None, S::get_encoder).await?;
        answer.encoder.ok_or_else(|| undescribed(encoder_id))
    }

    async fn encode(&self, request: EncodeRequest, deadline: Deadline) -> Result<EncodeResponse, Fault> {
        self.encode_for(&COMMON, request, deadline).await
    }

    async fn encode_for(
        &self,
        tenant: &Tenant,
        request: EncodeRequest,
        deadline: Deadline,
    ) -> Result<EncodeResponse, Fault> {
        let estimate = client::estimate(&request);
        let sent = self.call("Encode", tenant, request, deadline, S::encode);
        billed_answer("this process", estimate, sent).await
    }

    async fn count_tokens(
        &self,
        request: CountTokensRequest,
        deadline: Deadline,
    ) -> Result<CountTokensResponse, Fault> {
        self.call("CountTokens", &COMMON, request, deadline, S::count_tokens)
            .await
    }

    async fn tokenize(&self, request: TokenizeRequest, deadline: Deadline) -> Result<TokenizeResponse, Fault> {
        self.call("Tokenize", &COMMON, request, deadline, S::tokenize).await
    }

    async fn detokenize(&self, request: DetokenizeRequest, deadline: Deadline) -> Result<DetokenizeResponse, Fault> {
        self.call("Detokenize", &COMMON, request, deadline, S::detokenize).await
    }

    async fn rerank(&self, request: RerankRequest, deadline: Deadline) -> Result<RerankResponse, Fault> {
        let estimate = client::estimate_rerank(&request);
        let sent = self.call("Rerank", &COMMON, request, deadline, S::rerank);
        billed_answer("this process", estimate, sent).await
    }

    /// It is as healthy as this process.
    async fn healthy(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn is_open(&self) -> bool {
        true
    }
}
