//! The models: an encoder that costs a dollar per token, and a language model. Both count their
//! usage.

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use isomer_proto::{
    common::v1::{Usage, VectorSpace},
    encoder::v1::{
        CountTokensResponse, DetokenizeResponse, EncodeRequest, EncodeResponse, Encoder, Output, RerankRequest,
        RerankResponse, SparseVector, TextTokens, TokenizeResponse, encode_request, input, rerank_response,
    },
};
use isomer_service_kit::{Fault, Services, server::ServerConfig};
use isomer_stubs::{
    encoder::{StubEncoder, answer, named},
    http::{Reply, Stub},
    openai::chat_completion,
    rpc,
};
use tonic::Status;

/// The encoder that callers name, in both models.
pub const ENCODER: &str = "paid";
/// Tokens that the language model reads and writes in a call.
const READ: u64 = 1000;
pub const WRITTEN: u64 = 200;
/// Maximum number of tokens charged for a call that was cut off: the tokens it reads, and
/// `max_tokens` of the cases.
pub const MOST_OF_A_CALL: u64 = 2500;
/// A text with this word is never answered.
pub const SLOW: &str = "slowly";
/// A text with this word has no sparse vector.
pub const DENSE: &str = "dense";
/// A text with this word is refused, after others have been answered.
pub const REFUSED: &str = "refused";
/// Delay during which the other texts are answered.
const LATER: Duration = Duration::from_millis(300);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelUsage {
    /// Tokens, and billionths of a dollar.
    pub finished: (u64, u64),
    /// Calls to the language model that never ended.
    pub cut: u64,
}

impl ModelUsage {
    pub fn since(&self, before: &Self) -> Self {
        Self {
            finished: (self.finished.0 - before.finished.0, self.finished.1 - before.finished.1),
            cut: self.cut - before.cut,
        }
    }
}

/// Both models and their counters.
pub struct Models {
    encoded: Arc<AtomicU64>,
    generated: Arc<AtomicU64>,
    /// Whether the encoder has stopped responding.
    pub silent: Arc<AtomicBool>,
    /// The address of the encoder.
    pub encoder: String,
    /// The language model.
    pub generator: Stub,
}

/// Tokens of a text; 0 for the texts with which the gateway itself checks an encoder.
fn tokens(text: &str) -> u64 {
    if text.contains("number") {
        (text.len() as u64).div_ceil(4)
    } else {
        0
    }
}

impl Models {
    pub async fn start() -> Self {
        let (encoded, generated, silent) = (Arc::default(), Arc::default(), Arc::default());
        Self {
            encoder: serve(encoder(&encoded, &silent)).await,
            generator: generator(Arc::clone(&generated)).await,
            encoded,
            generated,
            silent,
        }
    }

    pub fn counted(&self) -> ModelUsage {
        let encoded = self.encoded.load(SeqCst);
        ModelUsage {
            finished: (encoded + self.generated.load(SeqCst), encoded * 1_000_000_000),
            cut: self.generator.unanswered() as u64,
        }
    }
}

/// Serves an encoder; returns its address.
async fn serve(encoder: StubEncoder) -> String {
    let services = Services::new().add(encoder.service().max_decoding_message_size(64 << 20));
    let (send, receive) = tokio::sync::oneshot::channel();
    // It runs on a separate thread, as if on another machine, because its work must not count as
    // the gateway's.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut config = ServerConfig::at("127.0.0.1:0".parse().unwrap());
            config.limits.max_message_bytes = 64 << 20;
            send.send(rpc::start(services, config)).unwrap();
            std::future::pending::<()>().await;
        });
    });
    format!("grpc://{}", receive.await.unwrap())
}

/// The language model, which counts the tokens of its responses.
async fn generator(generated: Arc<AtomicU64>) -> Stub {
    Stub::start(move |call| {
        // A question for the digest of a model, as Ollama answers it, costs nothing.
        if call.path == "/api/tags" {
            return Reply::text(404, "");
        }
        let asked = call.body["messages"].to_string();
        if asked.contains(SLOW) {
            return Reply::never();
        }
        if asked.contains(REFUSED) {
            return Reply::text(401, "this is refused").after(LATER);
        }
        generated.fetch_add(READ + WRITTEN, SeqCst);
        let answer = match call.body["model"].as_str() {
            Some("judge") => "5".to_owned(),
            _ => {
                let number: u64 = asked.bytes().map(u64::from).sum();
                format!("A restated sentence with other words, whose number is {number}.")
            }
        };
        Reply::ok(chat_completion(&answer, (READ, WRITTEN)))
    })
    .await
}

/// The encoder, which charges for texts on arrival, as providers do, and then responds or not.
fn encoder(encoded: &Arc<AtomicU64>, silent: &Arc<AtomicBool>) -> StubEncoder {
    let (encoding, ranking, silent) = (Arc::clone(encoded), Arc::clone(encoded), Arc::clone(silent));
    StubEncoder::of([described()])
        .unrecorded()
        .on_encode(move |request| {
            let (encoded, silent) = (Arc::clone(&encoding), silent.load(SeqCst));
            async move {
                if silent {
                    std::future::pending::<()>().await;
                }
                encode(encoded, request.into_inner()).await
            }
        })
        .on_rerank(move |request| rerank(Arc::clone(&ranking), request.into_inner()))
        .on_count_tokens(|_| ready(Ok(CountTokensResponse::default())))
        .on_tokenize(|request| {
            let texts = vec![TextTokens::default(); request.get_ref().texts.len()];
            ready(Ok(TokenizeResponse { texts }))
        })
        .on_detokenize(|request| {
            let texts = vec![String::new(); request.get_ref().token_ids.len()];
            ready(Ok(DetokenizeResponse { texts }))
        })
}

async fn charge(encoded: &AtomicU64, texts: &[impl AsRef<str>]) -> Result<u64, Status> {
    let holds = |word: &str| texts.iter().any(|text| text.as_ref().contains(word));
    if holds(REFUSED) {
        tokio::time::sleep(LATER / 3).await;
        return Err(Status::invalid_argument("one of the texts is refused"));
    }
    let used = texts.iter().map(|text| tokens(text.as_ref())).sum();
    encoded.fetch_add(used, SeqCst);
    if holds(SLOW) {
        std::future::pending::<()>().await;
    }
    Ok(used)
}

async fn encode(encoded: Arc<AtomicU64>, request: EncodeRequest) -> Result<EncodeResponse, Status> {
    let prompt = match &request.prompt {
        Some(encode_request::Prompt::PromptName(name)) => {
            return Err(Fault::invalid("prompt_name", format!("`{name}` is not a prompt of this encoder")).into());
        }
        Some(encode_request::Prompt::LiteralPrompt(prompt)) => prompt.as_str(),
        None => "",
    };
    let texts: Vec<String> = request
        .inputs
        .iter()
        .map(|input| match &input.input {
            Some(input::Input::Text(text)) => format!("{prompt}{text}"),
            _ => String::new(),
        })
        .collect();
    if request.output() == Output::Sparse && texts.iter().any(|text| text.contains(DENSE)) {
        return Err(Fault::unimplemented("`paid` has no sparse vectors")
            .field("output")
            .into());
    }
    let used = charge(&encoded, &texts).await?;
    // Vectors that differ with the text.
    let row = |text: &str| {
        let sum: u64 = text.bytes().map(u64::from).sum();
        let angle = (sum * sum % 997) as f32;
        [angle.cos(), angle.sin()]
    };
    let of_tokens = request.output() == Output::TokenVectors;
    let rows_of_a_text = if of_tokens { 2 } else { 1 };
    let rows = texts.iter().flat_map(|text| vec![row(text); rows_of_a_text]);
    let row_counts = vec![rows_of_a_text as u32; if of_tokens { texts.len() } else { 0 }];
    Ok(EncodeResponse {
        token_counts: texts.iter().map(|text| tokens(text) as u32).collect(),
        truncated: vec![false; texts.len()],
        vector_space: Some(VectorSpace {
            prompt: prompt.to_owned(),
            ..space()
        }),
        usage: Some(usage(texts.len(), used)),
        row_counts,
        sparse_vector_space: Some(space()),
        sparse_embeddings: match request.output() {
            Output::Sparse => vec![SparseVector::default(); texts.len()],
            _ => Vec::new(),
        },
        ..answer(rows, 0)
    })
}

async fn rerank(encoded: Arc<AtomicU64>, request: RerankRequest) -> Result<RerankResponse, Status> {
    // The query is read with each document.
    let read: Vec<String> = request
        .documents
        .iter()
        .map(|document| format!("{}{document}", request.query))
        .collect();
    let used = charge(&encoded, &read).await?;
    let results = (0..request.documents.len() as u32).map(|index| rerank_response::Result {
        index,
        score: 1.0 / (index as f32 + 1.0),
        ..rerank_response::Result::default()
    });
    Ok(RerankResponse {
        results: results.collect(),
        usage: Some(usage(request.documents.len(), used)),
        ..RerankResponse::default()
    })
}

fn usage(texts: usize, tokens: u64) -> Usage {
    Usage {
        texts: texts as u64,
        tokens,
        ..Usage::default()
    }
}

fn described() -> Encoder {
    Encoder {
        vector_space: Some(space()),
        dimensions: 2,
        max_batch_items: 64,
        normalises: true,
        capabilities: vec![1, 2, 3, 4],
        ..named(ENCODER)
    }
}

fn space() -> VectorSpace {
    VectorSpace {
        digest: "one".to_owned(),
        model_id: ENCODER.to_owned(),
        ..VectorSpace::default()
    }
}
