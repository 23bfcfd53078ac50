//! A JSON line for each text, with every result of one pass.

use std::io::Write;

use isomer_encoder_client::answer::{self, ExpectedAnswer};
use isomer_proto::{
    common::v1::{Matrix, VectorSpace},
    encoder::v1::EncodeResponse,
};
use serde_json::{Map, Value, json};

use super::matrix::{form, values};
use crate::{commands::stdout_failure, exit::Failure};

/// Writes the results of texts from number `first` on. `expected` are the requested results.
pub(super) fn lines(first: usize, response: &EncodeResponse, expected: ExpectedAnswer) -> Result<(), Failure> {
    answer::check(response, expected).map_err(|what| Failure::dependency(format!("the encoder {what}")))?;
    let dense = response.embeddings.as_ref().map(rows).transpose()?;
    let tokens = response.token_embeddings.as_ref().map(rows).transpose()?;
    let mut tokens = tokens.map(Vec::into_iter);
    let mut out = std::io::stdout().lock();
    for text in 0..expected.inputs {
        let mut line = Map::new();
        let mut add = |name: &str, value: Value| line.insert(name.to_owned(), value);
        add("index", json!(first + text));
        add("tokens", json!(response.token_counts.get(text)));
        add("truncated", json!(response.truncated.get(text)));
        if let Some(vector) = dense.as_ref().and_then(|rows| rows.get(text)) {
            add("embedding", vector.clone());
            add("vector_space", digest(response.vector_space.as_ref()));
        }
        if let Some(vector) = response.sparse_embeddings.get(text) {
            add(
                "sparse_embedding",
                json!({ "indices": vector.indices, "values": vector.values }),
            );
            add("sparse_vector_space", digest(response.sparse_vector_space.as_ref()));
        }
        if let (Some(rows), Some(count)) = (&mut tokens, response.row_counts.get(text)) {
            add("token_embeddings", rows.take(*count as usize).collect());
            add("token_vector_space", digest(response.token_vector_space.as_ref()));
        }
        writeln!(out, "{}", Value::Object(line)).map_err(|e| stdout_failure(&e))?;
    }
    out.flush().map_err(|e| stdout_failure(&e))
}

fn rows(matrix: &Matrix) -> Result<Vec<Value>, Failure> {
    let (cols, element) = form(matrix)?;
    let rows = matrix.data.chunks_exact((cols * element.bytes()).max(1));
    Ok(rows.map(|row| values(row, element)).collect())
}

fn digest(space: Option<&VectorSpace>) -> Value {
    json!(space.map(|space| &space.digest))
}
