//! The client.

use std::{collections::HashMap, env, fmt, future::Future, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, TryStreamExt, stream, stream::BoxStream};
use isomer_proto::encoder::v1::{
    CountTokensRequest, DetokenizeRequest, Encoder, GetEncoderRequest, ListEncodersRequest, Token, TokenizeRequest,
    count_tokens_request, encoder_service_client::EncoderServiceClient,
};
use parking_lot::Mutex;
use tokio::time::Instant;
use tonic::{Response, Status};

use crate::{
    Builder, Channel, DEFAULT_ADDRESS, EncodeOptions, Error, Keys, Providers, Runs, Statistics, Tasks,
    call::{Calls, unary},
    settings::Batching,
    space::KnownSpaces,
};

/// A client of one Isomer server. Clones are cheap and share everything: make one and keep it. Any
/// number of threads and tasks may use it. It needs a tokio runtime; connections are made and kept
/// in the runtime of the first call.
#[derive(Clone)]
pub struct Client {
    pub(crate) calls: Calls,
    pub(crate) batching: Batching,
    pub(crate) spaces: Arc<KnownSpaces>,
    encoders: Arc<Mutex<HashMap<String, Arc<Encoder>>>>,
}

impl Client {
    /// A client of the server at an address: `host:port`, `http://host:port`, or `https://host`
    /// (TLS; port 443 unless given). It sends nothing: the first call connects. It is made within
    /// a tokio runtime.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] where the address cannot be used.
    pub fn new(address: impl Into<String>) -> Result<Self, Error> {
        Self::builder(address).build()
    }

    /// Settings for a client of the server at an address.
    pub fn builder(address: impl Into<String>) -> Builder {
        Builder::new(address.into())
    }

    /// A client of the server in `ISOMER_SERVER`, with the key in `ISOMER_API_KEY`, as the command
    /// line has it.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn from_environment() -> Result<Self, Error> {
        let named = |name| env::var(name).ok().filter(|value: &String| !value.is_empty());
        let address = named("ISOMER_SERVER").unwrap_or_else(|| DEFAULT_ADDRESS.to_owned());
        Self::builder(address)
            .key(named("ISOMER_API_KEY").unwrap_or_default())
            .build()
    }

    pub(crate) fn of(calls: Calls, batching: Batching) -> Self {
        Self {
            calls,
            batching,
            spaces: Arc::default(),
            encoders: Arc::default(),
        }
    }

    /// The same client, whose calls end after this time whatever they have come to
    /// ([`Error::DeadlineExceeded`]). The server is told how much time is left. Make one for each
    /// piece of work: the time begins now.
    #[must_use]
    pub fn within(&self, time: Duration) -> Self {
        let mut made = self.clone();
        let until = Instant::now().checked_add(time);
        made.calls.until = match (self.calls.until, until) {
            (Some(before), Some(until)) => Some(before.min(until)),
            (before, until) => before.or(until),
        };
        made
    }

    /// The channel, for generated stubs.
    pub fn channel(&self) -> Channel {
        self.calls.channel.clone()
    }

    /// Makes a unary call by a generated stub, with this client's deadline, retries and errors.
    /// `make` is called for each attempt, and only for calls that may be made twice more than once
    /// after a broken connection. `path` names the rpc: `/isomer.eval.v1.TaskService/Score`.
    ///
    /// # Errors
    /// That of the last attempt.
    pub async fn call<T, A>(&self, path: &'static str, make: impl FnMut(Channel) -> A) -> Result<T, Error>
    where
        A: Future<Output = Result<Response<T>, Status>>,
    {
        self.calls.unary(path, make).await
    }

    /// Scores of vectors and of data sets.
    pub fn tasks(&self) -> Tasks {
        Tasks(self.calls.clone())
    }

    /// Tests and intervals of scores.
    pub fn statistics(&self) -> Statistics {
        Statistics(self.calls.clone())
    }

    /// Robustness checks.
    pub fn runs(&self) -> Runs {
        Runs(self.calls.clone())
    }

    /// Providers of encoders at the gateway.
    pub fn providers(&self) -> Providers {
        Providers(self.calls.clone())
    }

    /// Keys of the gateway, and its audit log.
    pub fn keys(&self) -> Keys {
        Keys(self.calls.clone())
    }

    /// Encoders that can be asked for, loaded or not.
    pub fn encoders(&self) -> BoxStream<'static, Result<Encoder, Error>> {
        let calls = self.calls.clone();
        pages(move |page_token| {
            let calls = calls.clone();
            async move {
                let request = ListEncodersRequest {
                    page_token,
                    ..ListEncodersRequest::default()
                };
                let path = unary!(
                    calls,
                    EncoderServiceClient.list_encoders,
                    "/isomer.encoder.v1.EncoderService/ListEncoders",
                    request
                );
                path.map(|answer| (answer.encoders, answer.next_page_token))
            }
        })
    }

    /// Describes one encoder; the server loads it if need be.
    ///
    /// # Errors
    /// [`Error::NotFound`] where there is none of that id.
    pub async fn encoder(&self, id: &str) -> Result<Arc<Encoder>, Error> {
        let answer = unary!(
            self.calls,
            EncoderServiceClient.get_encoder,
            "/isomer.encoder.v1.EncoderService/GetEncoder",
            GetEncoderRequest { id: id.to_owned() }
        )?;
        let encoder = answer
            .encoder
            .ok_or_else(|| Error::bad_answer("the server answered without an encoder"))?;
        let encoder = Arc::new(encoder);
        self.encoders.lock().insert(id.to_owned(), Arc::clone(&encoder));
        Ok(encoder)
    }

    /// The same, asked for once.
    pub(crate) async fn known(&self, id: &str) -> Result<Arc<Encoder>, Error> {
        let known = self.encoders.lock().get(id).cloned();
        match known {
            Some(encoder) => Ok(encoder),
            None => self.encoder(id).await,
        }
    }

    /// The tokens of each text as [`Client::encode`] would see them, before truncation.
    ///
    /// # Errors
    /// What the server refuses.
    pub async fn count_tokens<T: Into<String>>(
        &self,
        texts: impl IntoIterator<Item = T>,
        options: impl Into<EncodeOptions>,
    ) -> Result<Vec<u32>, Error> {
        let options = options.into();
        let prompt = match (options.prompt, options.prompt_name) {
            (Some(literal), _) => Some(count_tokens_request::Prompt::LiteralPrompt(literal)),
            (None, Some(name)) => Some(count_tokens_request::Prompt::PromptName(name)),
            (None, None) => None,
        };
        let request = CountTokensRequest {
            encoder_id: options.encoder,
            texts: texts.into_iter().map(Into::into).collect(),
            prompt,
        };
        let answer = unary!(
            self.calls,
            EncoderServiceClient.count_tokens,
            "/isomer.encoder.v1.EncoderService/CountTokens",
            request
        );
        Ok(answer?.token_counts)
    }

    /// The tokens of each text, with the part of the text that each stands for.
    ///
    /// # Errors
    /// What the server refuses.
    pub async fn tokenize(&self, request: TokenizeRequest) -> Result<Vec<Vec<Token>>, Error> {
        let answer = unary!(
            self.calls,
            EncoderServiceClient.tokenize,
            "/isomer.encoder.v1.EncoderService/Tokenize",
            request
        );
        Ok(answer?.texts.into_iter().map(|text| text.tokens).collect())
    }

    /// The text of each list of token ids.
    ///
    /// # Errors
    /// What the server refuses.
    pub async fn detokenize(&self, request: DetokenizeRequest) -> Result<Vec<String>, Error> {
        let answer = unary!(
            self.calls,
            EncoderServiceClient.detokenize,
            "/isomer.encoder.v1.EncoderService/Detokenize",
            request
        );
        Ok(answer?.texts)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("channel", &self.calls.channel)
            .finish_non_exhaustive()
    }
}

/// The entries of every page, each page fetched when the one before is used up.
pub(crate) fn pages<E, A>(fetch: impl Fn(String) -> A + Send + 'static) -> BoxStream<'static, Result<E, Error>>
where
    E: Send + 'static,
    A: Future<Output = Result<(Vec<E>, String), Error>> + Send + 'static,
{
    let pages = stream::try_unfold((Some(String::new()), fetch), |(token, fetch)| async move {
        let Some(token) = token else { return Ok(None) };
        let (entries, next) = fetch(token).await?;
        Ok::<_, Error>(Some((entries, ((!next.is_empty()).then_some(next), fetch))))
    });
    pages.map_ok(entries).try_flatten().boxed()
}

fn entries<E>(page: Vec<E>) -> impl Stream<Item = Result<E, Error>> {
    stream::iter(page.into_iter().map(Ok))
}
