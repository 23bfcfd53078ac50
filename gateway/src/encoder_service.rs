//! `EncoderService` over all encoders.

use futures::StreamExt;
use isomer_access::Caller;
use isomer_proto::encoder::v1::{
    CountTokensRequest, CountTokensResponse, DetokenizeRequest, DetokenizeResponse, EncodeRequest, EncodeResponse,
    EncodeStreamRequest, EncodeStreamResponse, GetEncoderRequest, GetEncoderResponse, ListEncodersRequest,
    ListEncodersResponse, RerankRequest, RerankResponse, TokenizeRequest, TokenizeResponse,
    encoder_service_server::{EncoderService, EncoderServiceServer},
};
use isomer_service_kit::{CallDeadline, Fault, Tenant, page_token, until_error};
use tokio::time::Instant;
use tonic::{Extensions, Request, Response, Status, Streaming, codegen::BoxStream};

use crate::{billing, routing::Router, tenant};

/// Batches of one stream that are in flight at once. Further messages wait.
pub(crate) const STREAM_DEPTH: usize = 8;
const DEFAULT_PAGE: usize = 100;
const LARGEST_PAGE: usize = 1000;
/// The name of the list in page tokens.
const LIST: &str = "ListEncoders";

/// The handler of the router's `EncoderService`.
#[derive(Debug, Clone)]
pub struct EncoderHandler {
    router: Router,
}

/// The generated server around the handler.
pub(crate) fn server(router: Router, max_message_bytes: usize) -> EncoderServiceServer<EncoderHandler> {
    EncoderServiceServer::new(EncoderHandler { router })
        .max_decoding_message_size(max_message_bytes)
        .max_encoding_message_size(max_message_bytes)
}

pub(crate) fn deadline(extensions: &Extensions) -> Option<Instant> {
    extensions.get::<CallDeadline>().map(|deadline| deadline.0)
}

/// The caller, if the auth layer has identified one.
fn caller(extensions: &Extensions) -> Option<Caller> {
    extensions.get::<Caller>().cloned()
}

impl EncoderHandler {
    async fn answer(
        &self,
        request: EncodeRequest,
        deadline: Option<Instant>,
        whose: (Option<&Caller>, &Tenant),
    ) -> Result<EncodeResponse, Status> {
        let mut answer = billing::encode(&self.router, whose, request, deadline).await?;
        let usage = answer.response.usage.get_or_insert_default();
        // The cost is for callers that act for another caller: a run, an augmentation.
        usage.cost_nano_usd = answer.cost_nano_usd;
        Ok(answer.response)
    }
}

#[tonic::async_trait]
impl EncoderService for EncoderHandler {
    async fn list_encoders(
        &self,
        request: Request<ListEncodersRequest>,
    ) -> Result<Response<ListEncodersResponse>, Status> {
        let request = request.into_inner();
        let after = page_token::after(LIST, &request.page_token)?;
        let size = match request.page_size as usize {
            0 => DEFAULT_PAGE,
            size => size.min(LARGEST_PAGE),
        };
        // Encoders are sorted by id, and a page begins after the last id of the previous page:
        // encoders that are added or removed between pages shift nothing.
        let mut rest = self.router.list().await;
        rest.retain(|encoder| after.is_empty() || encoder.id > after);
        let more = rest.len() > size;
        rest.truncate(size);
        let next_page_token = rest
            .last()
            .filter(|_| more)
            .map(|last| page_token::token(LIST, &last.id))
            .unwrap_or_default();
        Ok(Response::new(ListEncodersResponse {
            encoders: rest,
            next_page_token,
        }))
    }

    async fn get_encoder(&self, request: Request<GetEncoderRequest>) -> Result<Response<GetEncoderResponse>, Status> {
        let deadline = deadline(request.extensions());
        let encoder = self
            .router
            .get(&request.get_ref().id, deadline)
            .await
            .map_err(|fault| match fault.field.as_deref() {
                Some("encoder_id") => fault.field("id"),
                _ => fault,
            })?;
        Ok(Response::new(GetEncoderResponse { encoder: Some(encoder) }))
    }

    async fn encode(&self, request: Request<EncodeRequest>) -> Result<Response<EncodeResponse>, Status> {
        let (deadline, caller) = (deadline(request.extensions()), caller(request.extensions()));
        let tenant = tenant::of_call(caller.as_ref(), request.metadata().as_ref());
        let answer = self.answer(request.into_inner(), deadline, (caller.as_ref(), &tenant));
        let answer = answer.await;
        answer.map(Response::new)
    }

    async fn encode_stream(
        &self,
        request: Request<Streaming<EncodeStreamRequest>>,
    ) -> Result<Response<BoxStream<EncodeStreamResponse>>, Status> {
        let (deadline, caller) = (deadline(request.extensions()), caller(request.extensions()));
        let tenant = tenant::of_call(caller.as_ref(), request.metadata().as_ref());
        let handler = self.clone();
        let messages = request.into_inner().enumerate();
        let answers = messages.map(move |(number, message)| {
            let (handler, caller, tenant) = (handler.clone(), caller.clone(), tenant.clone());
            async move {
                let EncodeStreamRequest { client_index, request } = message?;
                let request = request
                    .ok_or_else(|| Fault::invalid("request", "is missing").hint("send one with each message"))?;
                welcome(caller.as_ref(), number).await?;
                let response = handler.answer(request, deadline, (caller.as_ref(), &tenant)).await?;
                Ok(EncodeStreamResponse {
                    client_index,
                    response: Some(response),
                })
            }
        });
        Ok(Response::new(until_error(answers.buffered(STREAM_DEPTH)).boxed()))
    }

    async fn count_tokens(
        &self,
        request: Request<CountTokensRequest>,
    ) -> Result<Response<CountTokensResponse>, Status> {
        let deadline = deadline(request.extensions());
        Ok(Response::new(
            self.router.count_tokens(request.into_inner(), deadline).await?,
        ))
    }

    async fn tokenize(&self, request: Request<TokenizeRequest>) -> Result<Response<TokenizeResponse>, Status> {
        let deadline = deadline(request.extensions());
        let answer = self.router.tokenize(request.into_inner(), deadline).await?;
        Ok(Response::new(answer))
    }

    async fn detokenize(&self, request: Request<DetokenizeRequest>) -> Result<Response<DetokenizeResponse>, Status> {
        let deadline = deadline(request.extensions());
        let answer = self.router.detokenize(request.into_inner(), deadline).await?;
        Ok(Response::new(answer))
    }

    async fn rerank(&self, request: Request<RerankRequest>) -> Result<Response<RerankResponse>, Status> {
        let deadline = deadline(request.extensions());
        let caller = caller(request.extensions());
        let answer = billing::rerank(&self.router, caller.as_ref(), request.into_inner(), deadline).await?;
        Ok(Response::new(answer))
    }
}

/// Checks whether a caller may send another message of a stream.
///
/// # Errors
/// If the caller's key or limits do not permit it.
pub(crate) async fn welcome(caller: Option<&Caller>, number: usize) -> Result<(), Fault> {
    match caller {
        // The stream itself was admitted as one request.
        Some(caller) if number == 0 => caller.still_welcome(),
        Some(caller) => caller.next_message().await,
        None => Ok(()),
    }
}
