//! Bodies of HTTP routes.

use serde_json::{Value, json};

use super::rows::{Row, Takes, Way, texts};
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

fn post(row: &'static str, body: Value) -> Row {
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
        takes: Takes::Moving,
        way: Way::Http(format!("{path}{query}"), body.to_string()),
    }
}

pub fn rows() -> Vec<Row> {
    let all = texts();
    let pairs: Vec<[&String; 2]> = all.as_chunks::<2>().0.iter().take(256).map(|[a, b]| [a, b]).collect();
    let inputs = json!({ "inputs": all });
    let rank = json!({ "query": "Which cat, number 1?", "texts": all });
    let predict = json!({ "inputs": pairs });
    let similarity = json!({ "inputs": { "source_sentence": "A cat.", "sentences": all } });
    let ids = json!({ "ids": vec![vec![30_000; 1024]; 4096] });
    let mut rows = vec![
        post("/v1/embeddings", json!({ "model": ENCODER, "input": all })),
        post(
            "/v1/rerank",
            json!({ "model": ENCODER, "query": "Which cat?", "documents": all }),
        ),
        post("/openai/deployments/{*path}", json!({ "input": all })),
        post("/v1/embed", json!({ "model": ENCODER, "texts": all })),
        post(
            "/v2/embed",
            json!({ "model": ENCODER, "texts": all, "input_type": "clustering" }),
        ),
        post(
            "/v2/rerank",
            json!({ "model": ENCODER, "query": "Which cat?", "documents": all }),
        ),
        post("/api/embed", json!({ "model": ENCODER, "input": all })),
        post("/api/embeddings", json!({ "model": ENCODER, "prompt": all.concat() })),
        post("/api/show", json!({ "model": all.concat() })),
        post("/", inputs.clone()),
        post("/tei/{model}", inputs.clone()),
    ];
    for (alone, below, body) in [
        ("/embed", "/tei/{model}/embed", &inputs),
        ("/embed_all", "/tei/{model}/embed_all", &inputs),
        ("/embed_sparse", "/tei/{model}/embed_sparse", &inputs),
        ("/rerank", "/tei/{model}/rerank", &rank),
        ("/predict", "/tei/{model}/predict", &predict),
        ("/similarity", "/tei/{model}/similarity", &similarity),
        ("/tokenize", "/tei/{model}/tokenize", &inputs),
        ("/decode", "/tei/{model}/decode", &ids),
    ] {
        rows.extend([post(alone, body.clone()), post(below, body.clone())]);
    }
    rows
}
