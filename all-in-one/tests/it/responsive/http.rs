//! Bodies of HTTP routes.

use serde_json::{Value, json};

use super::rows::{Cost, Row, Way, texts};
use crate::models::ENCODER;

/// Routes that read no body.
pub const READ_NO_BODY: &[&str] = &[
    "/history/{file}",
    "/runs/{id}/{file}",
    "/v1/models",
    "/v1/models/{*id}",
    "/api/tags",
    "/api/version",
    "/health",
    "/info",
    "/ping",
    "/tei/{model}/health",
    "/tei/{model}/info",
    "/tei/{model}/ping",
];

fn post(row: &'static str, body: impl FnOnce() -> Value + Send + 'static) -> Row {
    let (path, query) = match row {
        "/v1/embeddings" | "/v1/rerank" | "/v1/embed" | "/v2/embed" | "/v2/rerank" => (row.to_owned(), ""),
        row if row.starts_with("/api/") => (row.to_owned(), ""),
        "/openai/deployments/{*path}" => (format!("/openai/deployments/{ENCODER}/embeddings"), ""),
        row if row.starts_with("/tei/") => (row.replace("{model}", ENCODER), ""),
        row => (row.to_owned(), "?model=paid"),
    };
    Row {
        name: row.to_owned(),
        what: "the largest body that is allowed",
        takes: Cost::Moving,
        request: Box::new(move || Way::Http(format!("{path}{query}"), body().to_string())),
    }
}

fn inputs() -> Value {
    json!({ "inputs": texts() })
}

fn rank() -> Value {
    json!({ "query": "Which cat, number 1?", "texts": texts() })
}

fn predict() -> Value {
    let all = texts();
    let pairs: Vec<[&String; 2]> = all.as_chunks::<2>().0.iter().take(256).map(|[a, b]| [a, b]).collect();
    json!({ "inputs": pairs })
}

fn similarity() -> Value {
    json!({ "inputs": { "source_sentence": "A cat.", "sentences": texts() } })
}

fn ids() -> Value {
    json!({ "ids": vec![vec![30_000; 1024]; 4096] })
}

pub fn rows() -> Vec<Row> {
    let mut rows = vec![
        post("/v1/embeddings", || json!({ "model": ENCODER, "input": texts() })),
        post(
            "/v1/rerank",
            || json!({ "model": ENCODER, "query": "Which cat?", "documents": texts() }),
        ),
        post("/openai/deployments/{*path}", || json!({ "input": texts() })),
        post("/v1/embed", || json!({ "model": ENCODER, "texts": texts() })),
        post(
            "/v2/embed",
            || json!({ "model": ENCODER, "texts": texts(), "input_type": "clustering" }),
        ),
        post(
            "/v2/rerank",
            || json!({ "model": ENCODER, "query": "Which cat?", "documents": texts() }),
        ),
        post("/api/embed", || json!({ "model": ENCODER, "input": texts() })),
        post(
            "/api/embeddings",
            || json!({ "model": ENCODER, "prompt": texts().concat() }),
        ),
        post("/api/show", || json!({ "model": texts().concat() })),
        post("/", inputs),
        post("/tei/{model}", inputs),
    ];
    let bodies: [(_, _, fn() -> Value); 8] = [
        ("/embed", "/tei/{model}/embed", inputs),
        ("/embed_all", "/tei/{model}/embed_all", inputs),
        ("/embed_sparse", "/tei/{model}/embed_sparse", inputs),
        ("/rerank", "/tei/{model}/rerank", rank),
        ("/predict", "/tei/{model}/predict", predict),
        ("/similarity", "/tei/{model}/similarity", similarity),
        ("/tokenize", "/tei/{model}/tokenize", inputs),
        ("/decode", "/tei/{model}/decode", ids),
    ];
    for (alone, below, body) in bodies {
        rows.extend([post(alone, body), post(below, body)]);
    }
    rows
}
