//! Providers of `isomer.encoder.v1.EncoderService`: our embed-svc, and third-party servers of our
//! protos. Only the encoder's id is translated; the vector space is the provider's own.

mod join;

use std::sync::Arc;

use isomer_encoder_client::{answer::ExpectedAnswer, client, join::joined};
use isomer_proto::{
    common::v1::Dtype,
    encoder::v1::{
        CountTokensRequest, CountTokensResponse, DetokenizeRequest, DetokenizeResponse, EncodeRequest, EncodeResponse,
        Encoder, GetEncoderRequest, Input, ListEncodersRequest, RerankRequest, RerankResponse, TokenizeRequest,
        TokenizeResponse, encode_request::Prompt, encoder_service_client::EncoderServiceClient, input,
    },
    gateway::v1::{Provider, ProviderKind},
};
use isomer_service_kit::{Fault, GrpcChannel, Tenant};
use tokio::sync::OwnedSemaphorePermit;
use tonic::{Code, Request, Response, Status};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

use crate::{
    EncoderBackend, Surroundings,
    answered::of_status,
    backend::unserved,
    estimate,
    grpc::{Grpc, out_of_time},
    kinds::kind::Kind,
    limits::{Batches, Deadline, ProviderLimiter, late},
    metered::billed_answer,
    names::Names,
    params::AT_ONCE,
    target::Target,
};

pub(crate) const KIND: Kind = Kind {
    value: ProviderKind::Isomer,
    grpc: true,
    lists_encoders: true,
    abilities: None,
    connect: |provider, surroundings| Ok(Arc::new(IsomerBackend::new(provider, surroundings)?)),
};

pub(crate) const SERVICE: &str = "isomer.encoder.v1.EncoderService";
/// Page size for listing encoders.
const PAGE: u32 = 1000;
/// Maximum number of pages of a list, so that a provider with an endless list cannot hold a request
/// for ever.
const PAGES: usize = 100;

/// A client of an `EncoderService`.
#[derive(Debug, Clone)]
pub struct IsomerBackend {
    channel: GrpcChannel,
    names: Names,
    max_message_bytes: usize,
    /// Settings that only a registered provider has.
    remote: Option<Arc<RemoteServer>>,
}

#[derive(Debug)]
struct RemoteServer {
    grpc: Grpc,
    limiter: ProviderLimiter,
    batches: Batches,
}

impl IsomerBackend {
    /// An encoder service over an existing channel, such as the one to embed-svc. It offers every
    /// id that the service accepts, and the service has its own limits. `max_message_bytes` is the
    /// largest message that is accepted from it.
    pub fn over(channel: GrpcChannel, max_message_bytes: usize) -> Self {
        Self {
            channel,
            names: Names::default(),
            max_message_bytes,
            remote: None,
        }
    }

    /// A registered provider.
    pub(crate) fn new(provider: &Provider, surroundings: &Surroundings) -> Result<Self, Fault> {
        if !provider.input_types.is_empty() {
            return Err(Fault::invalid(
                "provider.input_types",
                "an Isomer provider knows prompts by their own names",
            )
            .hint("leave it out"));
        }
        let grpc = Grpc::new(Target::new(provider, surroundings, true)?)?;
        let remote = RemoteServer {
            limiter: ProviderLimiter::new(&provider.id, provider.limits.as_ref(), grpc.target.timeout)?,
            batches: Batches::new(provider.limits.as_ref(), AT_ONCE),
            grpc,
        };
        Ok(Self {
            channel: remote.grpc.channel.clone(),
            names: Names::new(&provider.encoders)?,
            max_message_bytes: surroundings.max_message_bytes,
            remote: Some(Arc::new(remote)),
        })
    }

    fn client(&self) -> EncoderServiceClient<GrpcChannel> {
        EncoderServiceClient::new(self.channel.clone())
            .max_decoding_message_size(self.max_message_bytes)
            .max_encoding_message_size(self.max_message_bytes)
    }

    /// Makes one unbilled call after waiting for the limits.
    async fn call<M, A, F>(
        &self,
        message: M,
        deadline: Deadline,
        call: impl FnOnce(EncoderServiceClient<GrpcChannel>, Request<M>) -> F,
    ) -> Result<A, Fault>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let _place = self.turn(0, deadline).await?;
        self.send(message, deadline, call).await
    }

    /// The provider's name in logs.
    fn name(&self) -> &str {
        self.remote
            .as_ref()
            .map_or("embed-svc", |remote| &remote.grpc.target.id)
    }

    async fn turn(&self, tokens: u64, deadline: Deadline) -> Result<Option<OwnedSemaphorePermit>, Fault> {
        match &self.remote {
            Some(remote) => remote.limiter.turn(tokens, deadline).await,
            None => Ok(None),
        }
    }

    async fn send<M, A, F>(
        &self,
        message: M,
        deadline: Deadline,
        call: impl FnOnce(EncoderServiceClient<GrpcChannel>, Request<M>) -> F,
    ) -> Result<A, Fault>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let client = self.client();
        if let Some(remote) = &self.remote {
            return remote
                .grpc
                .call(message, deadline, |request| call(client, request))
                .await;
        }
        let mut request = Request::new(message);
        let Some(deadline) = deadline else {
            return Ok(call(client, request)
                .await
                .map_err(|status| of_status(&status))?
                .into_inner());
        };
        request.set_timeout(deadline.saturating_duration_since(tokio::time::Instant::now()));
        let answer = async {
            match call(client, request).await {
                Ok(answer) => Ok(answer.into_inner()),
                Err(status) => {
                    out_of_time(&status, deadline).await;
                    Err(of_status(&status))
                }
            }
        };
        match tokio::time::timeout_at(deadline, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(late("this process")),
        }
    }

    async fn encode_once(
        &self,
        request: EncodeRequest,
        tokens: u64,
        deadline: Deadline,
    ) -> Result<EncodeResponse, Fault> {
        let (expected, estimate) = (ExpectedAnswer::of(&request), client::estimate(&request));
        let _place = self.turn(tokens, deadline).await?;
        let sent = self.send(request, deadline, async |mut client, request| {
            client.encode(request).await
        });
        let answer = billed_answer(self.name(), estimate, Box::pin(sent)).await?;
        match &self.remote {
            Some(remote) => join::sound(&remote.grpc.target.id, answer, expected),
            None => Ok(answer),
        }
    }

    async fn get_once(&self, name: &str) -> Result<Option<Encoder>, Fault> {
        let request = GetEncoderRequest { id: name.to_owned() };
        let answer = self
            .call(request, None, async |mut client, request| {
                client.get_encoder(request).await
            })
            .await?;
        Ok(answer.encoder)
    }

    async fn list_all(&self) -> Result<Vec<Encoder>, Fault> {
        let mut encoders = Vec::new();
        let mut request = ListEncodersRequest {
            page_size: PAGE,
            page_token: String::new(),
        };
        for _ in 0..PAGES {
            let page = self
                .call(request.clone(), None, async |mut client, request| {
                    client.list_encoders(request).await
                })
                .await?;
            encoders.extend(page.encoders);
            if page.next_page_token.is_empty() || page.next_page_token == request.page_token {
                break;
            }
            request.page_token = page.next_page_token;
        }
        Ok(encoders)
    }
}

#[tonic::async_trait]
impl EncoderBackend for IsomerBackend {
    async fn list(&self) -> Result<Vec<Encoder>, Fault> {
        let all = self.list_all().await?;
        if self.names.is_open() {
            return Ok(all);
        }
        let offered = self.names.each().map(|(id, name)| {
            let known = all.iter().find(|encoder| encoder.id == name).cloned();
            Encoder {
                id: id.to_owned(),
                // An id may be accepted without being listed.
                ..known.unwrap_or_default()
            }
        });
        Ok(offered.collect())
    }

    async fn get(&self, encoder_id: &str) -> Result<Encoder, Fault> {
        let name = self.names.theirs(encoder_id)?;
        let encoder = self.get_once(&name).await?.ok_or_else(|| undescribed(&name))?;
        Ok(Encoder {
            id: encoder_id.to_owned(),
            ..encoder
        })
    }

    async fn encode(&self, mut request: EncodeRequest, deadline: Deadline) -> Result<EncodeResponse, Fault> {
        request.encoder_id = self.names.theirs(&request.encoder_id)?;
        let Some(remote) = &self.remote else {
            return self.encode_once(request, 0, deadline).await;
        };
        let sizes = sizes(&request);
        let total = sizes.iter().sum();
        // The ranges of int8 may come from the texts of the request; in parts they would differ.
        let whole = request.output_dtype == i32::from(Dtype::Int8);
        let pieces = remote.batches.cut(&sizes);
        if whole || pieces.len() <= 1 {
            return self.encode_once(request, total, deadline).await;
        }
        let inputs = std::mem::take(&mut request.inputs);
        let answers = remote.batches.each(pieces.clone(), |piece| {
            let tokens = sizes[piece.clone()].iter().sum();
            let request = EncodeRequest {
                inputs: inputs[piece].to_vec(),
                ..request.clone()
            };
            self.encode_once(request, tokens, deadline)
        });
        joined(
            &format!("provider `{}`", remote.grpc.target.id),
            &pieces,
            answers.await?,
        )
    }

    async fn encode_for(
        &self,
        tenant: &Tenant,
        request: EncodeRequest,
        deadline: Deadline,
    ) -> Result<EncodeResponse, Fault> {
        let tenant = match &self.remote {
            None => tenant.clone(),
            Some(remote) => tenant.for_server(&remote.grpc.target.id),
        };
        let own = Self {
            channel: self.channel.for_tenant(&tenant),
            ..self.clone()
        };
        own.encode(request, deadline).await
    }

    async fn count_tokens(
        &self,
        mut request: CountTokensRequest,
        deadline: Deadline,
    ) -> Result<CountTokensResponse, Fault> {
        request.encoder_id = self.names.theirs(&request.encoder_id)?;
        let count = request.texts.len();
        let answer = self
            .call(request, deadline, async |mut client, request| {
                client.count_tokens(request).await
            })
            .await?;
        told_all("counts", answer.token_counts.len(), count)?;
        Ok(answer)
    }

    async fn tokenize(&self, mut request: TokenizeRequest, deadline: Deadline) -> Result<TokenizeResponse, Fault> {
        let id = request.encoder_id.clone();
        request.encoder_id = self.names.theirs(&id)?;
        let count = request.texts.len();
        let answer = self
            .call(request, deadline, async |mut client, request| {
                client.tokenize(request).await
            })
            .await
            .map_err(|fault| older(fault, &id))?;
        told_all("lists of tokens", answer.texts.len(), count)?;
        Ok(answer)
    }

    async fn detokenize(
        &self,
        mut request: DetokenizeRequest,
        deadline: Deadline,
    ) -> Result<DetokenizeResponse, Fault> {
        let id = request.encoder_id.clone();
        request.encoder_id = self.names.theirs(&id)?;
        let count = request.token_ids.len();
        let answer = self
            .call(request, deadline, async |mut client, request| {
                client.detokenize(request).await
            })
            .await
            .map_err(|fault| older(fault, &id))?;
        told_all("texts", answer.texts.len(), count)?;
        Ok(answer)
    }

    async fn rerank(&self, mut request: RerankRequest, deadline: Deadline) -> Result<RerankResponse, Fault> {
        request.encoder_id = self.names.theirs(&request.encoder_id)?;
        let documents = request.documents.len();
        let tokens = estimate::documents(&request).iter().sum();
        let estimate = client::estimate_rerank(&request);
        let _place = self.turn(tokens, deadline).await?;
        let sent = self.send(request, deadline, async |mut client, request| {
            client.rerank(request).await
        });
        let answer = Box::pin(billed_answer(self.name(), estimate, sent)).await?;
        if let Some(result) = answer.results.iter().find(|result| result.index as usize >= documents) {
            let message = format!("the answer ranks document {} of {documents}", result.index);
            return Err(Fault::new(Code::DataLoss, "PROVIDER_ANSWER", message));
        }
        Ok(answer)
    }

    async fn healthy(&self) -> Result<(), Fault> {
        let check = HealthCheckRequest {
            service: SERVICE.to_owned(),
        };
        let mut client = HealthClient::new(self.channel.clone());
        let answer = match &self.remote {
            // Does not wait for the limits: a provider's health is independent of its load.
            Some(remote) => {
                remote
                    .grpc
                    .call(check, None, async |request| client.check(request).await)
                    .await
            }
            None => client.check(check).await.map(Response::into_inner).map_err(Fault::from),
        };
        match answer {
            Ok(answer) if answer.status() == ServingStatus::Serving => Ok(()),
            Ok(answer) => Err(Fault::unavailable(
                "PROVIDER_NOT_SERVING",
                format!(
                    "the provider reports {} for its encoder service",
                    answer.status().as_str_name()
                ),
            )),
            // A provider need not serve grpc.health. It counts as healthy if it can list its
            // encoders.
            Err(fault) if matches!(fault.code, Code::Unimplemented | Code::NotFound) => {
                let request = ListEncodersRequest {
                    page_size: 1,
                    page_token: String::new(),
                };
                self.call(request, None, async |mut client, request| {
                    client.list_encoders(request).await
                })
                .await
                .map(drop)
            }
            Err(fault) => Err(fault),
        }
    }

    fn is_open(&self) -> bool {
        self.names.is_open()
    }
}

/// The fault for a server that answers `GetEncoder` without an encoder.
pub(crate) fn undescribed(name: &str) -> Fault {
    let message = format!("the answer describes no encoder `{name}`");
    Fault::new(Code::DataLoss, "PROVIDER_ANSWER", message)
}

/// The fault for a server whose version of our interface lacks a method.
fn older(fault: Fault, encoder_id: &str) -> Fault {
    match fault.code {
        Code::Unimplemented => unserved(encoder_id),
        _ => fault,
    }
}

fn told_all(what: &str, found: usize, count: usize) -> Result<(), Fault> {
    if found == count {
        return Ok(());
    }
    let message = format!("{found} {what} for {count} asked for");
    Err(Fault::new(Code::DataLoss, "PROVIDER_ANSWER", message))
}

/// Estimated tokens of each input.
fn sizes(request: &EncodeRequest) -> Vec<u64> {
    let prompt = match &request.prompt {
        Some(Prompt::LiteralPrompt(text)) => (text.len() as u64).div_ceil(3),
        _ => 0,
    };
    let size = |input: &Input| match &input.input {
        Some(input::Input::Text(text)) => prompt + estimate::tokens(text),
        Some(input::Input::TokenIds(ids)) => ids.ids.len() as u64,
        None => 0,
    };
    request.inputs.iter().map(size).collect()
}
