//! The gRPC handler: reads requests, builds responses, counts usage.

mod augmentation;
pub(crate) mod convert;
mod inspect;
mod judging;
mod totals;

use std::{pin::Pin, sync::Arc, time::Instant};

use futures::{Stream, StreamExt, TryStreamExt, stream};
use isomer_models::Resolver;
use isomer_outbound::shared_limits::SharedLimits;
use isomer_proto::transform::v1::{
    EstimateRequest, EstimateResponse, InspectRequest, InspectResponse, JudgeRequest, JudgeResponse,
    ListTransformationsRequest, ListTransformationsResponse, TextItem, TransformRequest, TransformResponse,
    TransformResult, TransformSpec, TransformStreamEnd, TransformStreamRequest, TransformStreamResponse,
    augmentation_service_server::AugmentationServiceServer,
    transform_service_server::{TransformService as TransformRpc, TransformServiceServer},
    transform_stream_response::Event,
};
use isomer_retention::Holder;
use isomer_service_kit::{
    GrpcChannel, Services, Tenant, config::Validate, dispatch, holder, page_token, priority::Priority,
};
use isomer_transformations::CATALOGUE;
use isomer_usage::report::ReportingService;
use tonic::{Request, Response, Status};

use crate::{
    augment::VariantVectors,
    cache::SharedCache,
    config::TransformConfig,
    engine::{Caller, Dispatch, Engine, Plan},
    error::TransformError,
};
pub(crate) use totals::Totals;

const PAGE_SIZE: usize = 50;

/// Transforms texts. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TransformService {
    engine: Arc<Engine>,
    encoder: Option<GrpcChannel>,
    variant_vectors: Option<Arc<VariantVectors>>,
    max_message_bytes: usize,
}

/// The results of a request in progress, in order of completion.
struct ResultStream {
    began: Instant,
    plan: Arc<Plan>,
    results: Pin<Box<dyn Stream<Item = Result<(Vec<TransformResult>, Totals), TransformError>> + Send>>,
}

impl TransformService {
    /// Validates the configuration, reads the prompts and opens the cache. Generators are created
    /// on first use.
    ///
    /// # Errors
    /// If the configuration, a prompt file or the cache directory cannot be used.
    pub fn new(config: TransformConfig, resolver: Resolver) -> Result<Self, TransformError> {
        Self::with_shared(config, resolver, None, None)
    }

    /// Like [`TransformService::new`], with a second cache level shared by several machines, and
    /// generator limits that hold over all processes of a fleet.
    ///
    /// # Errors
    /// If the configuration, a prompt file or the cache directory cannot be used.
    pub fn with_shared(
        config: TransformConfig,
        resolver: Resolver,
        shared: Option<SharedCache>,
        limits: Option<Arc<dyn SharedLimits>>,
    ) -> Result<Self, TransformError> {
        config.validate()?;
        isomer_service_kit::metric_names::describe(crate::metric_names::ALL);
        let max_message_bytes = config.max_message_bytes;
        let variant_vectors = VariantVectors::up_to(config.variant_vectors_bytes).map(Arc::new);
        let mut engine = Engine::new(config, resolver)?;
        if let Some(shared) = shared {
            engine = engine.with_shared(shared);
        }
        if let Some(limits) = limits {
            engine = engine.with_limits(limits);
        }
        Ok(Self {
            engine: Arc::new(engine),
            encoder: None,
            variant_vectors,
            max_message_bytes,
        })
    }

    /// Adds an encoder service for augmented encoding (GASE), in this process or elsewhere.
    pub fn with_encoder(self, encoder: GrpcChannel) -> Self {
        Self {
            encoder: Some(encoder),
            ..self
        }
    }

    /// Counts of the cache.
    pub fn cache_stats(&self) -> crate::cache::CacheStats {
        self.engine.cache().stats()
    }

    async fn start(
        &self,
        spec: Option<TransformSpec>,
        items: Vec<TextItem>,
        caller: Caller,
        priority: Priority,
    ) -> Result<ResultStream, TransformError> {
        let began = Instant::now();
        let (mut plan, jobs) = self.engine.plan(caller, spec, items).await?;
        plan.priority = priority;
        tracing::debug!(transformation = plan.kind().name, texts = jobs.len(), "transforming");
        let plan = Arc::new(plan);
        let shape = Arc::clone(&plan);
        let results = Arc::clone(&self.engine)
            .run(Arc::clone(&plan), jobs)
            .map_ok(move |(job, done)| {
                let results = convert::results(&shape, &job, &done);
                let mut totals = Totals::default();
                totals.add(&shape, &done, &results);
                (results, totals)
            });
        Ok(ResultStream {
            began,
            plan,
            results: results.boxed(),
        })
    }

    fn caller_of<T>(&self, request: &Request<T>) -> Caller {
        let holder = holder::of_request(request).and_then(Holder::parse);
        Caller::new(
            &Tenant::of_request(request),
            dispatch::of_request(request).map(Dispatch::new),
            holder.and_then(|holder| self.engine.hold(&holder)),
        )
    }
}

/// The gRPC services of this crate, to be served alone or together with others.
pub fn services(service: TransformService) -> Services {
    let limit = service.max_message_bytes;
    let transform = TransformServiceServer::new(service.clone())
        .max_decoding_message_size(limit)
        .max_encoding_message_size(limit);
    let augmentation = AugmentationServiceServer::new(service)
        .max_decoding_message_size(limit)
        .max_encoding_message_size(limit);
    Services::new()
        .add(ReportingService(transform))
        .add(ReportingService(augmentation))
}

/// The list that page tokens belong to.
const LIST: &str = "ListTransformations";

type ResponseStream = Pin<Box<dyn Stream<Item = Result<TransformStreamResponse, Status>> + Send>>;

#[tonic::async_trait]
impl TransformRpc for TransformService {
    async fn list_transformations(
        &self,
        request: Request<ListTransformationsRequest>,
    ) -> Result<Response<ListTransformationsResponse>, Status> {
        let request = request.into_inner();
        let start = page_token::place(LIST, &request.page_token)?;
        let size = if request.page_size == 0 {
            PAGE_SIZE
        } else {
            request.page_size as usize
        };
        let end = start.saturating_add(size).min(CATALOGUE.len());
        let page = CATALOGUE.get(start..end).unwrap_or_default();
        Ok(Response::new(ListTransformationsResponse {
            transformations: page
                .iter()
                .map(|entry| convert::info(entry, self.engine.prompts()))
                .collect(),
            next_page_token: if end < CATALOGUE.len() {
                page_token::token(LIST, &end.to_string())
            } else {
                String::new()
            },
        }))
    }

    async fn transform(&self, request: Request<TransformRequest>) -> Result<Response<TransformResponse>, Status> {
        let (caller, request) = (self.caller_of(&request), request.into_inner());
        let priority = convert::priority(request.priority)?;
        let mut running = self.start(request.spec, request.items, caller, priority).await?;
        let (mut results, mut totals) = (Vec::new(), Totals::default());
        while let Some((made, counted)) = running.results.try_next().await? {
            results.extend(made);
            totals.merge(counted);
        }
        results.sort_unstable_by_key(|result| result.index);
        Ok(Response::new(TransformResponse {
            results,
            usage: Some(totals.usage()),
            timing: Some(totals.timing(running.began.elapsed())),
            summary: Some(totals.summary),
        }))
    }

    async fn transform_stream(
        &self,
        request: Request<TransformStreamRequest>,
    ) -> Result<Response<ResponseStream>, Status> {
        let (caller, request) = (self.caller_of(&request), request.into_inner());
        let priority = convert::priority(request.priority)?;
        let running = self.start(request.spec, request.items, caller, priority).await?;
        tracing::trace!(transformation = running.plan.kind().name, "streaming");
        // The totals travel with the stream; the end message is made from them after the last
        // result.
        let state = Some((running.results, Totals::default(), running.began));
        let events = stream::try_unfold(state, async |state| {
            let Some((mut results, mut totals, began)) = state else {
                return Ok::<_, Status>(None);
            };
            match results.try_next().await? {
                Some((made, counted)) => {
                    totals.merge(counted);
                    let events: Vec<_> = made.into_iter().map(Event::Result).collect();
                    Ok(Some((events, Some((results, totals, began)))))
                }
                None => {
                    let end = TransformStreamEnd {
                        usage: Some(totals.usage()),
                        timing: Some(totals.timing(began.elapsed())),
                        summary: Some(totals.summary),
                    };
                    Ok(Some((vec![Event::End(end)], None)))
                }
            }
        });
        let responses = events
            .map_ok(|events| {
                stream::iter(
                    events
                        .into_iter()
                        .map(|event| Ok(TransformStreamResponse { event: Some(event) })),
                )
            })
            .try_flatten();
        Ok(Response::new(responses.boxed()))
    }

    async fn estimate(&self, request: Request<EstimateRequest>) -> Result<Response<EstimateResponse>, Status> {
        let (caller, request) = (self.caller_of(&request), request.into_inner());
        let (plan, jobs) = self.engine.plan(caller, request.spec, request.items).await?;
        let estimate = Arc::clone(&self.engine).estimate(plan, jobs).await?;
        Ok(Response::new(EstimateResponse {
            estimate: Some(convert::estimate(estimate)),
        }))
    }

    async fn inspect(&self, request: Request<InspectRequest>) -> Result<Response<InspectResponse>, Status> {
        Ok(Response::new(inspect::inspect(request.into_inner()).await?))
    }

    async fn judge(&self, request: Request<JudgeRequest>) -> Result<Response<JudgeResponse>, Status> {
        let (caller, request) = (self.caller_of(&request), request.into_inner());
        let answer = judging::judge(&self.engine, request, caller).await;
        Ok(Response::new(answer.map_err(judging::fault)?))
    }
}
