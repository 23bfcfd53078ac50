//! Texts to vectors: any number of them, in requests of the encoder's size, several in flight.

use std::sync::Arc;

use futures::{Stream, StreamExt, TryStreamExt, stream, stream::BoxStream};
use isomer_encoder_client::{
    answer::{self, ExpectedAnswer},
    batches::{Batcher, most_items},
    join::Joiner,
};
use isomer_proto::encoder::v1::{
    EncodeRequest, EncodeResponse, Encoder, Input, Output, TokenIds, encode_request,
    encoder_service_client::EncoderServiceClient, input,
};
use isomer_usage::sum;
use prost::Message;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use crate::{
    Client, Collection, Dtype, Embeddings, Error, Matrix, Priority, TokenEmbeddings, Truncation, VectorSpace,
    batching::BatchOptions,
    call::unary,
    collection::{KnownSpaces, mismatch},
    failed::all_well,
    results::{embeddings, item_errors},
    role,
};

/// Everything of an encode call but its texts. At most one of `prompt`, `prompt_name` and `role`
/// may be given; without one the encoder's default applies.
#[derive(Debug, Clone, Default)]
pub struct EncodeOptions {
    pub(crate) encoder: String,
    pub(crate) prompt: Option<String>,
    pub(crate) prompt_name: Option<String>,
    role: Option<String>,
    dimensions: Option<u32>,
    normalise: Option<bool>,
    dtype: Dtype,
    truncation: Truncation,
    priority: Priority,
    pub(crate) collection: Option<Arc<Collection>>,
    pub(crate) partial: bool,
    max_active_dimensions: Option<u32>,
}

/// The results of a call.
#[derive(Debug, Clone)]
pub(crate) enum Results {
    /// `output` alone.
    One(Output),
    /// Several results of one pass.
    Several(Vec<Output>),
}

impl<S: Into<String>> From<S> for EncodeOptions {
    fn from(encoder: S) -> Self {
        Self::new(encoder)
    }
}

impl EncodeOptions {
    /// Of the encoder with this id.
    pub fn new(encoder: impl Into<String>) -> Self {
        Self {
            encoder: encoder.into(),
            ..Self::default()
        }
    }

    /// Text put before each one; an empty text for none.
    #[must_use]
    pub fn prompt(mut self, prompt: impl Into<String>) -> Self {
        self.prompt = Some(prompt.into());
        self
    }

    /// One of the encoder's prompts, by its name.
    #[must_use]
    pub fn prompt_name(mut self, name: impl Into<String>) -> Self {
        self.prompt_name = Some(name.into());
        self
    }

    /// Role of the texts, e.g. `query`, `document`, `Retrieval-query`: the encoder's own prompt for
    /// it, where it has one.
    #[must_use]
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.role = Some(role.into());
        self
    }

    /// Columns to keep (Matryoshka).
    #[must_use]
    pub fn dimensions(mut self, dimensions: u32) -> Self {
        self.dimensions = Some(dimensions);
        self
    }

    /// Whether to scale to unit length; as the encoder does unless it is given.
    #[must_use]
    pub fn normalise(mut self, normalise: bool) -> Self {
        self.normalise = Some(normalise);
        self
    }

    /// Type of the elements; 32-bit floats unless it is given.
    #[must_use]
    pub fn dtype(mut self, dtype: Dtype) -> Self {
        self.dtype = dtype;
        self
    }

    /// Handling of a text that is too long; the tail is cut by default.
    #[must_use]
    pub fn truncation(mut self, truncation: Truncation) -> Self {
        self.truncation = truncation;
        self
    }

    /// Interactive unless it is given; batch in [`Client::encode_stream`].
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Where the vectors are kept: those of another space are [`Error::SpaceMismatch`].
    #[must_use]
    pub fn collection(mut self, collection: &Arc<Collection>) -> Self {
        self.collection = Some(Arc::clone(collection));
        self
    }

    /// Lets texts that fail leave rows of zeros; without it they are [`Error::TextsFailed`].
    #[must_use]
    pub fn partial(mut self) -> Self {
        self.partial = true;
        self
    }

    /// Entries to keep of each sparse vector, the largest ones; all unless it is given.
    #[must_use]
    pub fn max_active_dimensions(mut self, most: u32) -> Self {
        self.max_active_dimensions = Some(most);
        self
    }

    /// The request without its texts, whose prompt is the encoder's for the role.
    fn request(&self, encoder: &Encoder, results: Results) -> Result<EncodeRequest, Error> {
        let given = [&self.prompt, &self.prompt_name, &self.role]
            .into_iter()
            .flatten()
            .count();
        if given > 1 {
            return Err(Error::invalid(
                "prompt",
                "is given in two ways",
                "give one of prompt, prompt_name and role",
            ));
        }
        if self.dimensions == Some(0) {
            return Err(Error::invalid("dimensions", "is 0", "give 1 or more, or leave it out"));
        }
        let named = self.role.as_ref().and_then(|role| role::prompt_name(encoder, role));
        let prompt = match (&self.prompt, self.prompt_name.clone().or(named)) {
            (Some(literal), _) => Some(encode_request::Prompt::LiteralPrompt(literal.clone())),
            (None, name) => name.map(encode_request::Prompt::PromptName),
        };
        let dtype = match self.dtype {
            Dtype::Unspecified => Dtype::F32,
            dtype => dtype,
        };
        let (output, outputs) = match results {
            Results::One(output) => (output, Vec::new()),
            Results::Several(outputs) => (Output::Unspecified, outputs),
        };
        Ok(EncodeRequest {
            encoder_id: self.encoder.clone(),
            inputs: Vec::new(),
            truncation: self.truncation.into(),
            dimensions: self.dimensions,
            normalise: self.normalise,
            output_dtype: dtype.into(),
            priority: self.priority.into(),
            output: output.into(),
            outputs: outputs.into_iter().map(i32::from).collect(),
            max_active_dimensions: self.max_active_dimensions,
            prompt,
            ..EncodeRequest::default()
        })
    }
}

/// Compares the answers of one call with its request, and with each other.
pub(crate) struct Checker {
    pub(crate) encoder: String,
    pub(crate) collection: Option<Arc<Collection>>,
    /// The spaces that the client has seen, and the question that this call asks: everything of the
    /// request that the space depends on.
    pub(crate) known: Option<(Arc<KnownSpaces>, Vec<u8>)>,
    pub(crate) expected: ExpectedAnswer,
    pub(crate) first: Option<VectorSpace>,
}

impl Checker {
    fn of(client: &Client, options: &EncodeOptions, request: &EncodeRequest) -> Self {
        let question = EncodeRequest {
            priority: 0,
            truncation: 0,
            ..request.clone()
        };
        let expected = ExpectedAnswer::of(request);
        Self {
            encoder: options.encoder.clone(),
            collection: options.collection.clone(),
            // Ranges of int8 may come from the texts of each request: the spaces of two calls then
            // differ.
            known: (client.batching.check_spaces && expected.dtype != Dtype::Int8)
                .then(|| (Arc::clone(&client.spaces), question.encode_to_vec())),
            expected,
            first: None,
        }
    }

    /// Checks the answer to this number of inputs.
    pub(crate) fn check(&mut self, answer: &EncodeResponse, inputs: usize) -> Result<(), Error> {
        let expected = ExpectedAnswer {
            inputs,
            ..self.expected
        };
        answer::matrix(answer, expected).map_err(|what| Error::bad_answer(format!("`{}` {what}", self.encoder)))?;
        let space = VectorSpace::from(answer.vector_space.clone().unwrap_or_default());
        match &self.first {
            Some(first) if first.digest == space.digest => return Ok(()),
            Some(first) => return Err(mismatch(first, &space, "the texts before them in the same call")),
            None => {}
        }
        // Compares with the caller's expectation first, then with the space of earlier answers.
        if let Some(collection) = &self.collection {
            collection.check(&space)?;
        }
        if let Some((known, question)) = &self.known {
            known.check(&self.encoder, question, &space)?;
        }
        self.first = Some(space);
        Ok(())
    }
}

/// The answer to the inputs from a place of the caller's list on.
pub(crate) struct Part<R> {
    pub(crate) start: usize,
    pub(crate) count: usize,
    pub(crate) answer: R,
}

/// Does `work` for requests of items in their order, several in flight, and gives the answers in
/// the same order. Items are read only as far as they are worked on. Dropping the stream cancels
/// what is in flight.
pub(crate) fn ordered<T, R, A>(
    items: impl Stream<Item = T> + Send + 'static,
    size: impl Fn(&T) -> usize + Send + 'static,
    batching: BatchOptions,
    work: impl Fn(Vec<T>) -> A + Send + 'static,
) -> BoxStream<'static, Result<Part<R>, Error>>
where
    T: Send + 'static,
    R: Send + 'static,
    A: Future<Output = Result<R, Error>> + Send + 'static,
{
    let batcher = Batcher::new(batching.bounds);
    let requests = stream::unfold(
        (items.boxed(), batcher, size),
        |(mut items, mut batcher, size)| async move {
            let batch = loop {
                match items.next().await {
                    Some(item) => {
                        let bytes = size(&item);
                        if let Some(batch) = batcher.push(item, bytes) {
                            break batch;
                        }
                    }
                    None => break batcher.rest()?,
                }
            };
            Some((batch, (items, batcher, size)))
        },
    );
    let mut start = 0;
    let answers = requests.map(move |batch| {
        let (place, count) = (start, batch.len());
        start += count;
        // A task, so that it continues while the reader of the stream does something else.
        let task = AbortOnDropHandle::new(tokio::spawn(work(batch).in_current_span()));
        async move {
            let answer = match task.await {
                Ok(answer) => answer.map_err(|error| error.moved(place)),
                Err(error) => Err(Error::bad_answer(format!("the request's task ended: {error}"))),
            };
            answer.map(|answer| Part {
                start: place,
                count,
                answer,
            })
        }
    });
    answers.buffered(batching.in_flight).boxed()
}

pub(crate) fn text_input(text: impl Into<String>) -> Input {
    Input {
        input: Some(input::Input::Text(text.into())),
    }
}

fn size(input: &Input) -> usize {
    match &input.input {
        Some(input::Input::Text(text)) => text.len(),
        Some(input::Input::TokenIds(ids)) => size_of::<u32>() * ids.ids.len(),
        None => 0,
    }
}

/// An encode call that is ready to send.
pub(crate) struct Call {
    encoder: Arc<Encoder>,
    pub(crate) checker: Checker,
    /// The request without its texts.
    pub(crate) request: EncodeRequest,
    pub(crate) answers: BoxStream<'static, Result<Part<EncodeResponse>, Error>>,
}

impl Client {
    pub(crate) async fn begin(
        &self,
        options: &EncodeOptions,
        results: Results,
        inputs: impl Stream<Item = Input> + Send + 'static,
    ) -> Result<Call, Error> {
        if options.encoder.is_empty() {
            return Err(Error::invalid(
                "encoder",
                "is empty",
                "name one: Client::encoders lists them",
            ));
        }
        let encoder = self.known(&options.encoder).await?;
        let request = options.request(&encoder, results)?;
        let checker = Checker::of(self, options, &request);
        let mut batching = self.batching;
        batching.bounds.items = most_items(encoder.max_batch_items, batching.bounds.items);
        let calls = self.calls.clone();
        let first = request.clone();
        let work = move |inputs| {
            let calls = calls.clone();
            let request = EncodeRequest {
                inputs,
                ..request.clone()
            };
            async move {
                unary!(
                    calls,
                    EncoderServiceClient.encode,
                    "/isomer.encoder.v1.EncoderService/Encode",
                    request
                )
            }
        };
        Ok(Call {
            encoder,
            checker,
            request: first,
            answers: ordered(inputs, size, batching, work),
        })
    }

    async fn whole(&self, inputs: Vec<Input>, options: &EncodeOptions) -> Result<Embeddings, Error> {
        let count = inputs.len();
        let mut call = self
            .begin(options, Results::One(Output::Unspecified), stream::iter(inputs))
            .await?;
        if count == 0 {
            // No rows, as wide as others would be.
            return Ok(Embeddings {
                matrix: Matrix::empty(
                    options.dimensions.unwrap_or(call.encoder.dimensions) as usize,
                    call.checker.expected.dtype,
                ),
                space: call.encoder.vector_space.clone().unwrap_or_default().into(),
                token_counts: Vec::new(),
                truncated: Vec::new(),
                usage: crate::Usage::default(),
                errors: Vec::new(),
            });
        }
        let name = format!("encoder `{}`", options.encoder);
        let mut joiner = Joiner::new(&name, count);
        while let Some(part) = call.answers.try_next().await? {
            call.checker.check(&part.answer, part.count)?;
            joiner.add(part.start, part.answer)?;
        }
        let made = embeddings(joiner.finish(), 0, count);
        if !options.partial {
            all_well(&made.errors, Some(&made))?;
        }
        Ok(made)
    }

    /// A vector for each of any number of texts, in their order.
    ///
    /// # Errors
    /// [`Error::TextsFailed`] where some texts have no vector; [`Error::SpaceMismatch`] where
    /// vectors are not of the expected space; what the server refuses.
    pub async fn encode<T: Into<String>>(
        &self,
        texts: impl IntoIterator<Item = T>,
        options: impl Into<EncodeOptions>,
    ) -> Result<Embeddings, Error> {
        let inputs = texts.into_iter().map(text_input).collect();
        let options = options.into();
        self.whole(inputs, &options).await
    }

    /// [`Client::encode`] for lists of token ids by the encoder's own tokenizer.
    ///
    /// # Errors
    /// As [`Client::encode`].
    pub async fn encode_token_ids(
        &self,
        ids: impl IntoIterator<Item = Vec<u32>>,
        options: impl Into<EncodeOptions>,
    ) -> Result<Embeddings, Error> {
        let input = |ids| Input {
            input: Some(input::Input::TokenIds(TokenIds { ids })),
        };
        let inputs = ids.into_iter().map(input).collect();
        let options = options.into();
        self.whole(inputs, &options).await
    }

    /// Vectors of texts that come from a stream ([`futures::stream::iter`] makes one of an
    /// iterator), in their order, a batch at a time. Texts are read only as far as requests are in
    /// flight, and each batch's vectors are a view of its answer: memory does not grow with the
    /// number of texts. Dropping the stream cancels what is in flight. After an error it is over.
    pub fn encode_stream<T: Into<String> + 'static>(
        &self,
        texts: impl Stream<Item = T> + Send + 'static,
        options: impl Into<EncodeOptions>,
    ) -> BoxStream<'static, Result<Embeddings, Error>> {
        let (client, mut options) = (self.clone(), options.into());
        if options.priority == Priority::Unspecified {
            options.priority = Priority::Batch;
        }
        let partial = options.partial;
        let opened = async move {
            let Call {
                mut checker, answers, ..
            } = client
                .begin(&options, Results::One(Output::Unspecified), texts.map(text_input))
                .await?;
            let checked = move |part: Part<EncodeResponse>| {
                checker.check(&part.answer, part.count)?;
                let made = embeddings(part.answer, part.start, part.count);
                if !partial {
                    all_well(&made.errors, Some(&made))?;
                }
                Ok(made)
            };
            let mut checked = checked;
            Ok::<_, Error>(answers.map(move |part| part.and_then(&mut checked)))
        };
        let answers = stream::once(opened).try_flatten();
        // Over after an error.
        let over = answers.scan(false, |over, one| {
            let given = (!*over).then_some(one);
            *over |= given.as_ref().is_some_and(Result::is_err);
            std::future::ready(given)
        });
        over.boxed()
    }

    /// A vector for each token of each text.
    ///
    /// # Errors
    /// As [`Client::encode`].
    pub async fn encode_tokens<T: Into<String>>(
        &self,
        texts: impl IntoIterator<Item = T>,
        options: impl Into<EncodeOptions>,
    ) -> Result<TokenEmbeddings, Error> {
        let inputs: Vec<_> = texts.into_iter().map(text_input).collect();
        let options = options.into();
        let mut call = self
            .begin(&options, Results::One(Output::TokenVectors), stream::iter(inputs))
            .await?;
        let mut made = TokenEmbeddings {
            texts: Vec::new(),
            space: call.encoder.vector_space.clone().unwrap_or_default().into(),
            usage: crate::Usage::default(),
        };
        while let Some(part) = call.answers.try_next().await? {
            call.checker.check(&part.answer, part.count)?;
            let answer = part.answer;
            all_well(&item_errors(answer.errors, part.start), None)?;
            let whole = Matrix::of(answer.embeddings.unwrap_or_default());
            let mut row = 0;
            for count in answer.row_counts {
                let end = row + count as usize;
                made.texts.push(whole.slice(row, end));
                row = end;
            }
            made.space = answer.vector_space.unwrap_or_default().into();
            sum::add(&mut made.usage, &answer.usage.unwrap_or_default());
        }
        Ok(made)
    }
}
