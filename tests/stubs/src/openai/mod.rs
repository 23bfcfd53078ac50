//! A stub of a language model with OpenAI's API, whose answers and errors the test chooses, and
//! which counts requests. Also bodies of responses in OpenAI's format, for a
//! [`Stub`](crate::http::Stub) over HTTP.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use crate::wait;

mod texts;

pub use texts::{SENTENCES, numbers};
use texts::{given, obeyed, polyglot, reversed};

#[derive(Debug, Clone)]
pub enum Answer {
    /// A made-up paraphrase: the text's words in reverse order after a new word. It passes the
    /// checks.
    Good,
    /// The text itself, as from a model that does not follow its prompt.
    Echo,
    Text(String),
    /// The inner answer, after a pause.
    Slow(Duration, Box<Answer>),
    /// The inner answer, once the test releases it ([`Stub::release`]).
    Held(Box<Answer>),
    /// This status, optionally with `Retry-After` (its literal value).
    Status(u16, Option<String>),
    /// JSON that ends in the middle, with status 200.
    TruncatedJson,
    /// This body with status 200.
    Raw(String),
    /// This status and body.
    Body(u16, String),
    /// This status, with the request's `Authorization` in the message.
    EchoKey(u16),
    /// Like `Good`, after this pause, with the number of the call in it: as from a model whose
    /// answers differ each time.
    Varied(Duration),
    /// Like `Good`, with this number of prompt tokens for the number of words of all messages.
    Counted(fn(u64) -> u64),
    /// `OK` if an instruction outside `<text>` … `</text>` requests it, otherwise like `Good`: as
    /// from a model that obeys its prompt and not the text.
    Obedient,
    /// The inner answer, but 429 while more than this number of requests is in flight.
    AtMost(usize, Box<Answer>),
    /// One call in five fails, after this pause like the good ones: in turn with 500, with 429 and
    /// `Retry-After`, with no response, and with JSON that ends in the middle.
    OneInFiveFails(Duration),
    /// For a text to continue (`/completions`): as many of the words ` one`, ` two`, … as tokens
    /// were requested, starting after the last of these words in the text. For a conversation: 400.
    Continue,
    /// A sentence in the target language that the prompt names for a translation, otherwise in
    /// English.
    Polyglot,
    /// No response.
    Hang,
}

/// The answer of `OneInFiveFails` to a call, by the call's number.
fn one_in_five(pause: Duration, number: usize) -> Answer {
    // A multiplicative hash, so that faults do not fall on every fifth text.
    let mixed = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    let answer = match (mixed % 5, mixed / 5 % 4) {
        (1.., _) => Answer::Good,
        (0, 0) => Answer::Status(500, None),
        (0, 1) => Answer::Status(429, Some("0.1".to_owned())),
        (0, 2) => Answer::Hang,
        (0, _) => Answer::TruncatedJson,
    };
    Answer::Slow(pause, Box::new(answer))
}

/// A request as it was received.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    /// When it was received.
    pub at: Instant,
    /// Its message.
    pub body: Value,
    /// Its `Authorization` header.
    pub authorization: Option<String>,
}

impl ReceivedRequest {
    /// The content of the last message, or the text to continue.
    pub fn user(&self) -> &str {
        self.body["messages"]
            .as_array()
            .and_then(|messages| messages.last())
            .and_then(|message| message["content"].as_str())
            .or_else(|| self.prompt())
            .unwrap_or_default()
    }

    /// The text to continue; `None` for a conversation.
    pub fn prompt(&self) -> Option<&str> {
        self.body["prompt"].as_str()
    }

    /// Roles and contents of all messages.
    pub fn messages(&self) -> Vec<(&str, &str)> {
        let messages = self.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        messages
            .iter()
            .filter_map(|message| Some((message["role"].as_str()?, message["content"].as_str()?)))
            .collect()
    }

    /// The seed; 0 if none is given.
    pub fn seed(&self) -> u64 {
        self.body["seed"].as_u64().unwrap_or_default()
    }

    /// The maximum number of tokens of the answer; 0 if it is not limited.
    pub fn max_tokens(&self) -> u64 {
        self.body["max_tokens"].as_u64().unwrap_or_default()
    }

    /// The temperature; NaN if none is given.
    pub fn temperature(&self) -> f64 {
        self.body["temperature"].as_f64().unwrap_or(f64::NAN)
    }
}

#[derive(Debug)]
struct Inner {
    /// Answers to the next requests; after these, `always`.
    script: VecDeque<Answer>,
    always: Answer,
    /// Answers for texts that contain a mark; they take precedence.
    marked: Vec<(String, VecDeque<Answer>)>,
    seen: Vec<ReceivedRequest>,
    in_flight: usize,
    most_in_flight: usize,
    /// Requests whose client left before the answer.
    left: usize,
    /// The answer to `/api/tags`; 404 without one.
    tags: Option<Value>,
    /// Whether held answers are released.
    released: watch::Sender<bool>,
}

/// A running stub; it stops when dropped.
#[derive(Debug)]
pub struct Stub {
    address: SocketAddr,
    inner: Arc<Mutex<Inner>>,
    server: JoinHandle<()>,
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Counts a request as completed, also if its client disconnects.
struct InFlight {
    inner: Arc<Mutex<Inner>>,
    answered: bool,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut inner = self.inner.lock();
        inner.in_flight -= 1;
        inner.left += usize::from(!self.answered);
    }
}

impl Stub {
    /// Starts a stub that always gives this answer.
    pub async fn start(always: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let inner = Arc::new(Mutex::new(Inner {
            script: VecDeque::new(),
            always,
            marked: Vec::new(),
            seen: Vec::new(),
            in_flight: 0,
            most_in_flight: 0,
            left: 0,
            tags: None,
            released: watch::Sender::new(false),
        }));
        let router = Router::new()
            .route("/v1/chat/completions", post(answer))
            .route("/v1/completions", post(answer))
            .route("/api/tags", get(tags))
            .with_state(Arc::clone(&inner));
        let server = tokio::spawn(async move {
            axum::serve(listener, router).await.unwrap();
        });
        Self { address, inner, server }
    }

    /// Base URL, for example `http://127.0.0.1:1234/v1`.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Gives these answers to the next requests, one each, before it returns to its usual answer.
    pub fn script(&self, answers: impl IntoIterator<Item = Answer>) {
        self.inner.lock().script.extend(answers);
    }

    /// Gives these answers to requests whose last message contains `mark`, one each; the last
    /// answer is repeated.
    pub fn mark(&self, mark: &str, answers: impl IntoIterator<Item = Answer>) {
        self.inner
            .lock()
            .marked
            .push((mark.to_owned(), answers.into_iter().collect()));
    }

    /// Answers `/api/tags` as Ollama does, with this digest of the model `stub-model`.
    pub fn set_digest(&self, digest: &str) {
        let model = json!({"name": "stub-model:latest", "model": "stub-model:latest", "digest": digest});
        self.inner.lock().tags = Some(json!({"models": [model]}));
    }

    /// Answers `/api/tags` with this body.
    pub fn set_tags(&self, tags: Value) {
        self.inner.lock().tags = Some(tags);
    }

    /// Releases held answers, and stops holding later ones.
    pub fn release(&self) {
        self.inner.lock().released.send_replace(true);
    }

    /// Holds answers again.
    pub fn hold(&self) {
        self.inner.lock().released.send_replace(false);
    }

    /// The number of requests that were received.
    pub fn calls(&self) -> usize {
        self.inner.lock().seen.len()
    }

    /// The requests that were received.
    pub fn seen(&self) -> Vec<ReceivedRequest> {
        self.inner.lock().seen.clone()
    }

    pub fn in_flight(&self) -> usize {
        self.inner.lock().in_flight
    }

    /// Waits until `calls` requests were received.
    pub async fn wait_for_calls(&self, calls: usize) {
        self.wait(|inner| inner.seen.len() >= calls).await;
    }

    /// Waits until no request is in flight.
    pub async fn wait_until_idle(&self) {
        self.wait(|inner| inner.in_flight == 0).await;
    }

    async fn wait(&self, until: impl Fn(&Inner) -> bool) {
        wait::until("the stub's requests", || until(&self.inner.lock())).await;
    }

    /// The maximum number of concurrent requests. A request whose client has left counts until the
    /// stub notices.
    pub fn most_in_flight(&self) -> usize {
        self.inner.lock().most_in_flight
    }

    /// The number of requests whose client left before the answer.
    pub fn left(&self) -> usize {
        self.inner.lock().left
    }
}

async fn answer(State(inner): State<Arc<Mutex<Inner>>>, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    let (mut answer, seen, number, in_flight, released) = {
        let mut inner = inner.lock();
        let authorization = headers
            .get("authorization")
            .map(|value| value.to_str().unwrap().to_owned());
        let seen = ReceivedRequest {
            at: Instant::now(),
            body,
            authorization,
        };
        inner.seen.push(seen.clone());
        inner.in_flight += 1;
        inner.most_in_flight = inner.most_in_flight.max(inner.in_flight);
        let marked = inner
            .marked
            .iter_mut()
            .find(|(mark, _)| seen.user().contains(mark.as_str()));
        let answer = match marked {
            Some((_, answers)) if answers.len() > 1 => answers.pop_front().unwrap(),
            Some((_, answers)) => answers.front().unwrap().clone(),
            None => inner.script.pop_front().unwrap_or_else(|| inner.always.clone()),
        };
        let released = inner.released.subscribe();
        (answer, seen, inner.seen.len(), inner.in_flight, released)
    };
    let mut counted = InFlight { inner, answered: false };
    while let Answer::AtMost(most, next) = answer {
        answer = if in_flight > most {
            Answer::Status(429, None)
        } else {
            *next
        };
    }
    if let Answer::OneInFiveFails(pause) = answer {
        answer = one_in_five(pause, number);
    }
    if let Answer::Varied(pause) = answer {
        let text = format!("{} {number}", reversed(seen.user()).trim_end_matches('.'));
        answer = Answer::Slow(pause, Box::new(Answer::Text(text)));
    }
    let response = give(answer, &seen, released).await;
    counted.answered = true;
    response
}

async fn tags(State(inner): State<Arc<Mutex<Inner>>>) -> Response {
    match &inner.lock().tags {
        Some(tags) => Json(tags.clone()).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn give(mut answer: Answer, seen: &ReceivedRequest, mut released: watch::Receiver<bool>) -> Response {
    loop {
        answer = match answer {
            Answer::Slow(pause, next) => {
                tokio::time::sleep(pause).await;
                *next
            }
            Answer::Held(next) => {
                // The sender lives as long as the stub.
                released.wait_for(|released| *released).await.unwrap();
                *next
            }
            _ => break,
        };
    }
    match answer {
        Answer::Good => completion(&reversed(seen.user())),
        Answer::Counted(tokens) => {
            let messages = seen.messages();
            let words = messages.iter().map(|(_, content)| content.split_whitespace().count());
            let usage = (tokens(words.sum::<usize>() as u64), 7);
            Json(chat_completion(&reversed(seen.user()), usage)).into_response()
        }
        Answer::Echo => completion(given(seen.user())),
        Answer::Text(text) => completion(&text),
        Answer::Obedient => completion(&obeyed(seen)),
        Answer::Polyglot => completion(polyglot(seen)),
        Answer::Continue => match seen.prompt() {
            Some(prompt) => continued(prompt, seen.max_tokens()),
            None => error(400, "stub takes no conversation"),
        },
        Answer::EchoKey(status) => error(status, &format!("stub knows no key `{:?}`", seen.authorization)),
        Answer::Status(status, retry_after) => {
            let mut response = error(status, &format!("stub says {status}"));
            if let Some(value) = retry_after {
                response.headers_mut().insert("retry-after", value.parse().unwrap());
            }
            response
        }
        Answer::TruncatedJson => raw(r#"{"id": "x", "choices": [{"index": 0, "message": {"role": "assi"#.to_owned()),
        Answer::Raw(body) => raw(body),
        Answer::Body(status, body) => {
            let mut response = raw(body);
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            response
        }
        Answer::Hang
        | Answer::Slow(..)
        | Answer::Held(_)
        | Answer::AtMost(..)
        | Answer::OneInFiveFails(_)
        | Answer::Varied(_) => std::future::pending().await,
    }
}

/// A model's answer to a conversation. `usage` is the tokens that it read and wrote.
pub fn chat_completion(text: &str, usage: (u64, u64)) -> Value {
    json!({
        "id": "chatcmpl-stub",
        "object": "chat.completion",
        "created": 0,
        "model": "stub-model",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": usage.0, "completion_tokens": usage.1, "total_tokens": usage.0 + usage.1},
    })
}

/// The texts of a request for embeddings. Panics if its input is not a list of texts.
pub fn inputs(request: &Value) -> Vec<&str> {
    let inputs = request["input"].as_array().expect("a list of texts");
    inputs.iter().map(|text| text.as_str().expect("a text")).collect()
}

/// The response to a request for embeddings, in reverse order: clients must use the index.
pub fn embeddings(request: &Value, vector: impl Fn(&str) -> Vec<f32>, tokens: u64) -> Value {
    let vectors = inputs(request).into_iter().map(vector).enumerate();
    let mut data: Vec<Value> = vectors
        .map(|(index, vector)| json!({"object": "embedding", "index": index, "embedding": vector}))
        .collect();
    data.reverse();
    json!({
        "object": "list",
        "data": data,
        "model": request["model"],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    })
}

fn completion(text: &str) -> Response {
    Json(chat_completion(text, (11, 7))).into_response()
}

fn continued(prompt: &str, tokens: u64) -> Response {
    let last = prompt.split_whitespace().last().unwrap_or_default();
    let numbers = numbers();
    let from = numbers.iter().position(|word| *word == last).map_or(0, |at| at + 1);
    let words = numbers.iter().cycle().skip(from).take(tokens as usize);
    let text: String = words.map(|word| format!(" {word}")).collect();
    Json(json!({
        "id": "cmpl-stub",
        "object": "text_completion",
        "created": 0,
        "model": "stub-model",
        "choices": [{"index": 0, "text": text, "logprobs": null, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 11, "completion_tokens": tokens, "total_tokens": 11 + tokens},
    }))
    .into_response()
}

fn error(status: u16, message: &str) -> Response {
    let body = Json(json!({"error": {"message": message, "type": "stub", "code": null}}));
    (StatusCode::from_u16(status).unwrap(), body).into_response()
}

fn raw(body: String) -> Response {
    Response::builder()
        .header("content-type", "application/json")
        .body(Body::from(body))
        .unwrap()
}
