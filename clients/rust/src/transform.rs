//! Texts to texts of the same meaning.

use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use isomer_encoder_client::batches::Batcher;
use isomer_proto::transform::v1::{
    EstimateRequest, GenerationEstimate, InspectRequest, InspectResponse, JudgeRequest, JudgeResponse,
    ListTransformationsRequest, TextItem, TransformRequest, TransformResult, TransformSpec, TransformStreamRequest,
    TransformSummary, Transformation, TransformationInfo, transform_service_client::TransformServiceClient,
    transform_stream_response::Event,
};
use isomer_usage::sum;
use tokio::time::timeout_at;

use crate::{
    Client, Error, Usage,
    call::{opened, unary},
    encode::ordered,
    pages::pages,
};

/// Texts without ids, to transform.
pub fn items<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Vec<TextItem> {
    let item = |text: T| TextItem {
        text: text.into(),
        ..TextItem::default()
    };
    texts.into_iter().map(item).collect()
}

/// The transformation of this name with default parameters.
pub(crate) fn named(name: &str, field: &str) -> Result<Transformation, Error> {
    if name.is_empty() {
        let hint = "Client::transformations lists the names";
        return Err(Error::invalid(field, "names no transformation".to_owned(), hint));
    }
    Ok(Transformation::named(name))
}

/// Everything of a transformation but its texts.
#[derive(Debug, Clone, Default)]
pub struct TransformOptions {
    name: Option<String>,
    spec: TransformSpec,
}

impl From<&str> for TransformOptions {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl TransformOptions {
    /// A transformation of the catalogue by its name, e.g. `paraphrase`, with default parameters.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            spec: TransformSpec::default(),
        }
    }

    /// A transformation with its parameters.
    pub fn of(transformation: impl Into<isomer_proto::transform::v1::transformation::Kind>) -> Self {
        Self::from(TransformSpec {
            transformation: Some(Transformation::from(transformation.into())),
            ..TransformSpec::default()
        })
    }

    /// The language model; the server's unless it is given.
    #[must_use]
    pub fn generator(mut self, id: impl Into<String>) -> Self {
        self.spec.generator_id = id.into();
        self
    }

    /// The seed of generated texts.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.spec.seed = Some(seed);
        self
    }

    /// Changes everything else, as the protos have it.
    #[must_use]
    pub fn spec(mut self, change: impl FnOnce(&mut TransformSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    fn made(self) -> Result<TransformSpec, Error> {
        let mut spec = self.spec;
        if let Some(name) = &self.name {
            spec.transformation = Some(named(name, "spec.transformation")?);
        }
        Ok(spec)
    }
}

/// A whole spec, as the protos have it.
impl From<TransformSpec> for TransformOptions {
    fn from(spec: TransformSpec) -> Self {
        Self { name: None, spec }
    }
}

/// Transformed texts, in the order of the texts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transformed {
    /// The messages, with outcome, measures and provenance.
    pub results: Vec<TransformResult>,
    /// Counts of each request.
    pub summaries: Vec<TransformSummary>,
    /// Usage of this call.
    pub usage: Usage,
}

impl Transformed {
    /// One text each; empty where the text failed, or has several (see the results).
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.results.iter().map(|result| result.text.as_str())
    }
}

/// Bytes of an item.
pub(crate) fn size(item: &TextItem) -> usize {
    item.text.len()
}

/// A place in the caller's list, of a place in a request.
pub(crate) fn place(index: u32, start: usize) -> u32 {
    index.saturating_add(u32::try_from(start).unwrap_or(u32::MAX))
}

impl Client {
    /// The catalogue of transformations, with axis and prompts of each.
    pub fn transformations(&self) -> BoxStream<'static, Result<TransformationInfo, Error>> {
        let calls = self.calls.clone();
        pages(move |page_token| {
            let calls = calls.clone();
            async move {
                let request = ListTransformationsRequest {
                    page_token,
                    ..ListTransformationsRequest::default()
                };
                let answer = unary!(
                    calls,
                    TransformServiceClient.list_transformations,
                    "/isomer.transform.v1.TransformService/ListTransformations",
                    request
                );
                answer.map(|answer| (answer.transformations, answer.next_page_token))
            }
        })
    }

    /// Transforms any number of texts, in their order.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn transform(
        &self,
        items: Vec<TextItem>,
        options: impl Into<TransformOptions>,
    ) -> Result<Transformed, Error> {
        let (spec, calls) = (options.into().made()?, self.calls.clone());
        let work = move |items| {
            let calls = calls.clone();
            let request = TransformRequest {
                spec: Some(spec.clone()),
                items,
                priority: 0,
            };
            async move {
                unary!(
                    calls,
                    TransformServiceClient.transform,
                    "/isomer.transform.v1.TransformService/Transform",
                    request
                )
            }
        };
        let mut answers = ordered(stream::iter(items), size, self.batching, work);
        let mut made = Transformed::default();
        while let Some(part) = answers.try_next().await? {
            let moved = part.answer.results.into_iter().map(|mut result| {
                result.index = place(result.index, part.start);
                result
            });
            made.results.extend(moved);
            made.summaries.extend(part.answer.summary);
            sum::add(&mut made.usage, &part.answer.usage.unwrap_or_default());
        }
        Ok(made)
    }

    /// Each result as it comes, in any order: `index` says which text it is. It is made once,
    /// without retries. Dropping the stream cancels it.
    pub fn transform_stream(
        &self,
        items: Vec<TextItem>,
        options: impl Into<TransformOptions>,
    ) -> BoxStream<'static, Result<TransformResult, Error>> {
        const PATH: &str = "/isomer.transform.v1.TransformService/TransformStream";
        let (spec, calls, until) = (options.into().made(), self.calls.clone(), self.calls.until());
        let mut batcher = Batcher::new(self.batching.bounds);
        let mut start = 0;
        let mut requests = Vec::new();
        for item in items {
            let bytes = size(&item);
            requests.extend(batcher.push(item, bytes));
        }
        requests.extend(batcher.rest());
        let requests = stream::iter(requests.into_iter().map(move |items| {
            let place = start;
            start += items.len();
            let spec = spec.clone()?;
            Ok::<_, Error>((
                place,
                TransformStreamRequest {
                    spec: Some(spec),
                    items,
                    priority: 0,
                },
            ))
        }));
        let answers = requests.and_then(move |(start, request)| {
            let calls = calls.clone();
            async move {
                let events = opened!(
                    calls,
                    TransformServiceClient.transform_stream,
                    "/isomer.transform.v1.TransformService/TransformStream",
                    request
                )
                .map_err(|error| error.moved(start))?;
                let results = stream::try_unfold(events, move |mut events| async move {
                    loop {
                        let next = events.message();
                        let next = match until {
                            Some(until) => timeout_at(until, next).await.map_err(|_| Error::deadline(PATH, 1))?,
                            None => next.await,
                        };
                        let next = next.map_err(|status| Error::from_status(&status, PATH, 1).moved(start))?;
                        match next.map(|answer| answer.event) {
                            None => return Ok(None),
                            Some(Some(Event::Result(mut result))) => {
                                result.index = place(result.index, start);
                                return Ok(Some((result, events)));
                            }
                            Some(_) => {}
                        }
                    }
                });
                Ok(results)
            }
        });
        answers.try_flatten().boxed()
    }

    /// Estimates the requests that [`Client::transform`] would send to the generator. It costs
    /// nothing.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn estimate(
        &self,
        items: Vec<TextItem>,
        options: impl Into<TransformOptions>,
    ) -> Result<GenerationEstimate, Error> {
        let request = EstimateRequest {
            spec: Some(options.into().made()?),
            items,
        };
        let answer = unary!(
            self.calls,
            TransformServiceClient.estimate,
            "/isomer.transform.v1.TransformService/Estimate",
            request
        );
        Ok(answer?.estimate.unwrap_or_default())
    }

    /// Error checks and measures of pairs of an original and a transformed text.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn inspect(&self, request: InspectRequest) -> Result<InspectResponse, Error> {
        unary!(
            self.calls,
            TransformServiceClient.inspect,
            "/isomer.transform.v1.TransformService/Inspect",
            request
        )
    }

    /// Pairs rated by a language model.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn judge(&self, request: JudgeRequest) -> Result<JudgeResponse, Error> {
        unary!(
            self.calls,
            TransformServiceClient.judge,
            "/isomer.transform.v1.TransformService/Judge",
            request
        )
    }
}
