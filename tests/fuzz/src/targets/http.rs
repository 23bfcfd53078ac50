//! Bodies and queries over HTTP.

use std::{
    cell::OnceCell,
    sync::{Arc, LazyLock},
};

use ::http::{Method, Request, StatusCode, header};
use axum::{Router, body::Body};
use isomer_adapters::EncoderBackend;
use isomer_gateway::{fuzz, http_paths};
use isomer_proto::{
    common::v1::{Dtype, Matrix, Usage, VectorSpace},
    encoder::v1::{
        Capability, CountTokensRequest, CountTokensResponse, DetokenizeRequest, DetokenizeResponse, EncodeRequest,
        EncodeResponse, Encoder, RerankRequest, RerankResponse, TextTokens, Token, TokenizeRequest, TokenizeResponse,
        rerank_response,
    },
};
use isomer_service_kit::Fault;
use tokio::{runtime::Runtime, time::Instant};
use tower::ServiceExt;

use crate::input::{Input, text};

/// Largest body that is tried.
const MOST: usize = 1 << 20;

/// An encoder and a cross-encoder. Every vector is (1, 1).
#[derive(Debug)]
struct Stub;

fn encoders() -> Vec<Encoder> {
    let encoder = |id: &str, capability: Capability| Encoder {
        id: id.to_owned(),
        dimensions: 2,
        max_tokens: 128,
        capabilities: vec![capability.into()],
        ..Encoder::default()
    };
    vec![encoder("one", Capability::Dense), encoder("two", Capability::Rerank)]
}

#[tonic::async_trait]
impl EncoderBackend for Stub {
    async fn list(&self) -> Result<Vec<Encoder>, Fault> {
        Ok(encoders())
    }

    async fn get(&self, encoder_id: &str) -> Result<Encoder, Fault> {
        let mut known = encoders().into_iter();
        let found = known.find(|encoder| encoder.id == encoder_id);
        found.ok_or_else(|| Fault::not_found("UNKNOWN_ENCODER", format!("no encoder `{encoder_id}`")))
    }

    async fn encode(&self, request: EncodeRequest, _: Option<Instant>) -> Result<EncodeResponse, Fault> {
        let rows = request.inputs.len();
        Ok(EncodeResponse {
            embeddings: Some(Matrix {
                rows: u32::try_from(rows).unwrap_or_default(),
                cols: 2,
                dtype: Dtype::F32.into(),
                data: 1_f32.to_le_bytes().repeat(2 * rows).into(),
            }),
            vector_space: Some(VectorSpace {
                digest: "abc".to_owned(),
                ..VectorSpace::default()
            }),
            token_counts: vec![1; rows],
            usage: Some(Usage {
                tokens: rows as u64,
                ..Usage::default()
            }),
            ..EncodeResponse::default()
        })
    }

    async fn count_tokens(
        &self,
        request: CountTokensRequest,
        _: Option<Instant>,
    ) -> Result<CountTokensResponse, Fault> {
        Ok(CountTokensResponse {
            token_counts: vec![1; request.texts.len()],
            max_tokens: 128,
        })
    }

    /// One token per text.
    async fn tokenize(&self, request: TokenizeRequest, _: Option<Instant>) -> Result<TokenizeResponse, Fault> {
        let tokens = |text: String| TextTokens {
            tokens: vec![Token {
                id: 7,
                start: Some(0),
                end: u32::try_from(text.len()).ok(),
                text,
                special: false,
            }],
        };
        Ok(TokenizeResponse {
            texts: request.texts.into_iter().map(tokens).collect(),
        })
    }

    async fn detokenize(&self, request: DetokenizeRequest, _: Option<Instant>) -> Result<DetokenizeResponse, Fault> {
        Ok(DetokenizeResponse {
            texts: vec!["a".to_owned(); request.token_ids.len()],
        })
    }

    async fn rerank(&self, request: RerankRequest, _: Option<Instant>) -> Result<RerankResponse, Fault> {
        let most = request.top_n.map_or(usize::MAX, |n| n as usize);
        let documents = request.documents.len().min(most);
        let result = |index| rerank_response::Result {
            index,
            score: 1.0,
            ..rerank_response::Result::default()
        };
        Ok(RerankResponse {
            results: (0..).take(documents).map(result).collect(),
            ..RerankResponse::default()
        })
    }

    async fn healthy(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// Answers each id, so that the first request need not wait for a list.
    fn is_open(&self) -> bool {
        true
    }
}

struct Front {
    runtime: Runtime,
    routes: Router,
}

impl Front {
    fn new() -> Option<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .ok()?;
        let routes = runtime.block_on(fuzz::routes(Arc::new(Stub), MOST));
        Some(Self { runtime, routes })
    }
}

/// The paths that take a body, in an order that does not depend on the routes' order.
static PATHS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let mut paths: Vec<&str> = http_paths().into_iter().filter(|path| !path.contains('{')).collect();
    paths.sort_unstable();
    paths.dedup();
    paths
});

/// A body for any of the paths. The first line names the path, with `GET ` before it if it takes no
/// POST. The answer is JSON or a sentence, and never an internal error.
pub(super) fn dialects(data: &[u8]) {
    thread_local! {
        static FRONT: OnceCell<Option<Front>> = const { OnceCell::new() };
    }
    let mut input = Input(data);
    let line = text(input.until(b'\n'));
    let (method, path) = match line.strip_prefix("GET ") {
        Some(path) => (Method::GET, path),
        None => (Method::POST, line.as_str()),
    };
    // An unknown path stands for the first path that takes a POST.
    let path = PATHS.iter().find(|known| **known == path).or(PATHS.get(1));
    let Some(path) = path else { return };
    FRONT.with(|front| {
        let Some(front) = front.get_or_init(Front::new) else {
            return;
        };
        let request = Request::builder().method(&method).uri(*path);
        let request = request.header(header::CONTENT_TYPE, "application/json");
        let Ok(request) = request.body(Body::from(input.0.to_vec())) else {
            return;
        };
        let (status, body) = front.runtime.block_on(async {
            let response = match front.routes.clone().oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            let status = response.status();
            let body = axum::body::to_bytes(response.into_body(), usize::MAX).await;
            (status, body.unwrap_or_default())
        });
        assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{path}: {}", text(&body));
        assert!(
            status.is_success() || !body.is_empty() || status == StatusCode::METHOD_NOT_ALLOWED,
            "{path}: {status}"
        );
        // A health check may have an empty answer, and a page and metrics are not JSON.
        if status.is_success() && method == Method::POST {
            assert!(!body.is_empty(), "{path}");
        }
        // Vectors are short here: a caller could cheaply cause an answer that is much larger than
        // its request.
        assert!(
            body.len() <= 4096 + 256 * data.len(),
            "{} bytes for {}",
            body.len(),
            data.len()
        );
    });
}

/// The query of the page's trial.
pub(super) fn page(data: &[u8]) {
    if let Some(problem) = fuzz::trial(&text(data)) {
        assert!(problem.len() < 1000, "the message repeats a long input");
    }
}
