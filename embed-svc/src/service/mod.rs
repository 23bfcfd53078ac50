//! The gRPC handler: checks requests, passes them to the engine, builds the answers.

mod calibrate;
mod deadline;
mod describe;
mod encode;
mod finish;
mod request;
mod rerank;
mod tokens;
mod traced;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Instant,
};

use futures::StreamExt;
use isomer_models::Resolver;
use isomer_proto::encoder::v1::{
    CountTokensRequest, CountTokensResponse, DetokenizeRequest, DetokenizeResponse, EncodeRequest, EncodeResponse,
    EncodeStreamRequest, EncodeStreamResponse, GetEncoderRequest, GetEncoderResponse, ListEncodersRequest,
    ListEncodersResponse, RerankRequest, RerankResponse, TokenizeRequest, TokenizeResponse,
    encoder_service_server::{EncoderService, EncoderServiceServer},
};
use isomer_service_kit::{Services, Tenant, config::Validate, until_error};
use tokio::sync::oneshot;
use tonic::{Request, Response, Status, Streaming, codegen::BoxStream};

use crate::{config::EmbedConfig, engine::LostDevice, error::EmbedError, registry::Registry, shared::SharedVectors};

/// Text to vectors. Cheap to clone.
#[derive(Clone)]
pub struct EmbedService {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    config: EmbedConfig,
    registry: Registry,
    /// Threads for tokenisation and building answers. They are separate from the computing threads,
    /// so that both kinds of work overlap.
    helpers: rayon::ThreadPool,
}

impl EmbedService {
    /// A service without any encoder in memory.
    ///
    /// # Errors
    /// If the configuration is not valid or no threads can be started.
    pub fn new(config: EmbedConfig, resolver: Resolver) -> Result<Self, EmbedError> {
        Self::with_shared(config, resolver, None)
    }

    /// Like [`EmbedService::new`], with vectors in a store that machines share.
    ///
    /// # Errors
    /// If the configuration is not valid or no threads can be started.
    pub fn with_shared(
        config: EmbedConfig,
        resolver: Resolver,
        shared: Option<SharedVectors>,
    ) -> Result<Self, EmbedError> {
        config.validate()?;
        config.limit_instructions()?;
        let registry = Registry::new(config.clone(), resolver, shared)?;
        let helpers = rayon::ThreadPoolBuilder::new()
            .num_threads(config.threads)
            .thread_name(|number| format!("embed-helper-{number}"))
            .build()
            .map_err(|error| EmbedError::Internal(format!("no threads: {error}")))?;
        Ok(Self {
            inner: Arc::new(Inner {
                config,
                registry,
                helpers,
            }),
        })
    }

    /// Reports when a device has failed permanently, so that the process must end.
    pub fn lost_device(&self) -> LostDevice {
        self.inner.registry.lost().clone()
    }

    /// Finds the files of encoders.
    pub fn resolver(&self) -> &Resolver {
        self.inner.registry.resolver()
    }

    /// Fetches and loads the encoders in `warm_up`.
    ///
    /// # Errors
    /// The error of the first encoder that cannot be loaded.
    pub async fn warm_up(&self) -> Result<(), EmbedError> {
        for id in &self.inner.config.warm_up {
            self.inner.registry.fetch(id).await?;
            self.inner.registry.get(id).await?;
        }
        Ok(())
    }
}

/// The gRPC services of this crate.
pub fn services(service: EmbedService) -> Services {
    let most = service.inner.config.max_message_bytes;
    Services::new().add(
        EncoderServiceServer::new(service)
            .max_decoding_message_size(most)
            .max_encoding_message_size(most),
    )
}

/// How long a piece of work takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkSize {
    /// Less time than handing it to another thread: tens of microseconds, without disk access.
    Light,
    /// More time than that.
    Heavy,
}

impl WorkSize {
    /// Heavy if `count` exceeds `most`.
    fn of(count: usize, most: usize) -> Self {
        if count <= most { Self::Light } else { Self::Heavy }
    }
}

impl Inner {
    /// Runs light work on the current thread and heavy work on the helper threads.
    async fn worked<T: Send + 'static>(
        &self,
        load: WorkSize,
        work: impl FnOnce(WorkSize) -> Result<T, EmbedError> + Send + 'static,
    ) -> Result<T, EmbedError> {
        match load {
            WorkSize::Light => caught(|| work(load)),
            WorkSize::Heavy => self.helped(move || work(load)).await,
        }
    }

    /// Runs `work` on the helper threads. Work is skipped if its caller has disconnected.
    async fn helped<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, EmbedError> + Send + 'static,
    ) -> Result<T, EmbedError> {
        let (reply, answer) = oneshot::channel();
        self.helpers.spawn(move || {
            if !reply.is_closed() {
                let _ = reply.send(caught(work));
            }
        });
        answer
            .await
            .map_err(|_| EmbedError::Internal("a helper thread failed".into()))?
    }
}

/// A panic would be a bug of ours or of a library, and must not end the process.
fn caught<T>(work: impl FnOnce() -> Result<T, EmbedError>) -> Result<T, EmbedError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(EmbedError::Internal("the work on a request panicked".into())))
}

#[tonic::async_trait]
impl EncoderService for EmbedService {
    async fn list_encoders(
        &self,
        request: Request<ListEncodersRequest>,
    ) -> Result<Response<ListEncodersResponse>, Status> {
        // It looks at files.
        let inner = self.inner.clone();
        let page = self.inner.helped(move || describe::list(&inner, &request.into_inner()));
        Ok(Response::new(page.await?))
    }

    async fn get_encoder(&self, request: Request<GetEncoderRequest>) -> Result<Response<GetEncoderResponse>, Status> {
        let id = request.into_inner().id;
        if id.is_empty() {
            return Err(EmbedError::invalid("id", "is empty", "name an encoder; ListEncoders lists them").into());
        }
        let loaded = self.inner.registry.get(&id).await?;
        let encoder = describe::loaded(&id, &loaded, &self.inner.config);
        Ok(Response::new(GetEncoderResponse { encoder: Some(encoder) }))
    }

    async fn encode(&self, request: Request<EncodeRequest>) -> Result<Response<EncodeResponse>, Status> {
        let arrived = Instant::now();
        let deadline = deadline::of(request.metadata(), arrived);
        let tenant = Tenant::of_request(&request);
        Ok(Response::new(
            encode::encode(&self.inner, request.into_inner(), &tenant, arrived, deadline).await?,
        ))
    }

    async fn encode_stream(
        &self,
        request: Request<Streaming<EncodeStreamRequest>>,
    ) -> Result<Response<BoxStream<EncodeStreamResponse>>, Status> {
        let deadline = deadline::of(request.metadata(), Instant::now());
        let tenant = Tenant::of_request(&request);
        let inner = self.inner.clone();
        // `buffered` keeps the order and reads the next message only when it has room, and tonic
        // polls it only as fast as the client reads. A failed message ends the stream.
        let answers = request
            .into_inner()
            .map(move |message| {
                let (inner, tenant) = (inner.clone(), tenant.clone());
                async move {
                    let EncodeStreamRequest { client_index, request } = message?;
                    let Some(request) = request else {
                        return Err(EmbedError::invalid(
                            "request",
                            "is absent",
                            "put an EncodeRequest into each message",
                        )
                        .into());
                    };
                    let response = encode::encode(&inner, request, &tenant, Instant::now(), deadline).await?;
                    Ok(EncodeStreamResponse {
                        client_index,
                        response: Some(response),
                    })
                }
            })
            .buffered(self.inner.config.stream_depth);
        Ok(Response::new(Box::pin(until_error(answers))))
    }

    async fn count_tokens(
        &self,
        request: Request<CountTokensRequest>,
    ) -> Result<Response<CountTokensResponse>, Status> {
        Ok(Response::new(tokens::count(&self.inner, request.into_inner()).await?))
    }

    async fn tokenize(&self, request: Request<TokenizeRequest>) -> Result<Response<TokenizeResponse>, Status> {
        Ok(Response::new(
            tokens::tokenize(&self.inner, request.into_inner()).await?,
        ))
    }

    async fn detokenize(&self, request: Request<DetokenizeRequest>) -> Result<Response<DetokenizeResponse>, Status> {
        Ok(Response::new(
            tokens::detokenize(&self.inner, request.into_inner()).await?,
        ))
    }

    async fn rerank(&self, request: Request<RerankRequest>) -> Result<Response<RerankResponse>, Status> {
        let deadline = deadline::of(request.metadata(), Instant::now());
        Ok(Response::new(
            rerank::rerank(&self.inner, request.into_inner(), deadline).await?,
        ))
    }
}
