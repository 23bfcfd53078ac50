//! Caches answers, and encodes a text once that concurrent requests ask for (single-flight).
//!
//! The key is the tenant and everything that a vector depends on: the route (which stands for one
//! vector space), the prompt, truncation, dimensions, scaling, element type, and the text. What
//! depends on its batch mates (int8 by the request's own ranges) or is no single vector (token
//! vectors) goes past the cache.

use std::{collections::HashMap, sync::Arc, time::Duration};

use isomer_proto::{
    common::v1::{Dtype, Matrix, VectorSpace},
    encoder::v1::{EncodeRequest, EncodeResponse, Input, Output, encode_request::Prompt, input},
};
use isomer_service_kit::{Fault, Tenant};
use isomer_usage::sum;
use quick_cache::{
    Weighter,
    sync::{Cache as Kept, GuardResult},
};

use super::metrics;

/// Bytes that an entry takes beside its row.
const OVERHEAD: u64 = 160;
/// Bytes of a vector that the number of entries is guessed from.
const TYPICAL_ROW: u64 = 2048;
/// Rounds of waiting for other requests' texts before the rest is sent without asking the cache.
const ROUNDS: usize = 3;

type Key = [u8; 32];

#[derive(Debug, Clone)]
struct Row {
    bytes: Arc<[u8]>,
    tokens: u32,
    /// Absent where the provider does not say.
    truncated: Option<bool>,
    shape: Arc<Shape>,
}

/// What the rows of one answer share.
#[derive(Debug, PartialEq)]
struct Shape {
    cols: u32,
    dtype: i32,
    space: Option<VectorSpace>,
}

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<Key, Row> for ByBytes {
    fn weight(&self, _: &Key, row: &Row) -> u64 {
        row.bytes.len() as u64 + OVERHEAD
    }
}

/// Vectors by what they depend on, up to so many bytes; the least useful leave first.
#[derive(Debug)]
pub(super) struct Cache {
    kept: Kept<Key, Row, ByBytes>,
}

/// Whether every vector of the answer depends on its own text alone.
pub(super) fn applies(request: &EncodeRequest) -> bool {
    request.output() != Output::TokenVectors && request.output_dtype() != Dtype::Int8
}

impl Cache {
    pub(super) fn new(bytes: u64) -> Self {
        let entries = usize::try_from(bytes / TYPICAL_ROW).unwrap_or(usize::MAX).max(16);
        Self {
            kept: Kept::with_weighter(entries, bytes, ByBytes),
        }
    }

    /// Answers from what is kept, and has the rest encoded by `send`, each text once among all
    /// requests in flight.
    pub(super) async fn encode<F, Fut>(
        &self,
        (route, tenant): (u64, &Tenant),
        request: EncodeRequest,
        send: F,
    ) -> Result<EncodeResponse, Fault>
    where
        F: Fn(EncodeRequest) -> Fut,
        Fut: Future<Output = Result<EncodeResponse, Fault>>,
    {
        let keys = keys(route, tenant, &request);
        let mut gathered = Gathered::new(keys.len());
        let mut open: Vec<usize> = (0..keys.len()).collect();
        for _ in 0..ROUNDS {
            let (mut ours, mut theirs, mut guards) = (Vec::new(), Vec::new(), Vec::new());
            for index in open {
                match self.kept.get_value_or_guard(&keys[index], Some(Duration::ZERO)) {
                    GuardResult::Value(row) => gathered.cached(index, row),
                    GuardResult::Guard(guard) => {
                        ours.push(index);
                        guards.push(guard);
                    }
                    GuardResult::Timeout => theirs.push(index),
                }
            }
            if !ours.is_empty() {
                let rows = gathered.sent(&request, &ours, send(part(&request, &ours)).await?)?;
                for (guard, row) in guards.into_iter().zip(rows) {
                    if let Some(row) = row {
                        // Refused only where the entry was removed meanwhile; then nobody keeps it.
                        let _ = guard.insert(row);
                    }
                }
            }
            // This waits only now, when no guard is held: two requests that wait for each other
            // would deadlock.
            let mut again = Vec::new();
            for index in theirs {
                match self.kept.get_value_or_guard_async(&keys[index]).await {
                    Ok(row) => gathered.shared(index, row),
                    Err(_other_failed) => again.push(index),
                }
            }
            if again.is_empty() {
                return gathered.answer(request);
            }
            open = again;
        }
        gathered.sent(&request, &open, send(part(&request, &open)).await?)?;
        gathered.answer(request)
    }
}

/// The request for some of its inputs.
fn part(request: &EncodeRequest, indices: &[usize]) -> EncodeRequest {
    if indices.len() == request.inputs.len() {
        return request.clone();
    }
    EncodeRequest {
        inputs: indices.iter().map(|&index| request.inputs[index].clone()).collect(),
        encoder_id: request.encoder_id.clone(),
        prompt: request.prompt.clone(),
        ..*request
    }
}

fn keys(route: u64, tenant: &Tenant, request: &EncodeRequest) -> Vec<Key> {
    let mut common = blake3::Hasher::new();
    let mut field = |tag: u8, bytes: &[u8]| {
        common.update(&[tag]);
        common.update(&(bytes.len() as u64).to_le_bytes());
        common.update(bytes);
    };
    field(0, &route.to_le_bytes());
    field(1, request.encoder_id.as_bytes());
    match &request.prompt {
        None => field(2, &[]),
        Some(Prompt::PromptName(name)) => field(3, name.as_bytes()),
        Some(Prompt::LiteralPrompt(text)) => field(4, text.as_bytes()),
    }
    field(5, &request.truncation.to_le_bytes());
    // 0 is not a number of columns, 2 no truth value.
    field(6, &request.dimensions.unwrap_or(0).to_le_bytes());
    field(7, &[request.normalise.map_or(2, u8::from)]);
    field(8, &request.output_dtype.to_le_bytes());
    if let Some(scope) = tenant.scope() {
        field(9, scope.as_bytes());
    }
    let of = |input: &Input| {
        let mut hasher = common.clone();
        match &input.input {
            None => hasher.update(&[0]),
            Some(input::Input::Text(text)) => hasher.update(&[1]).update(text.as_bytes()),
            Some(input::Input::TokenIds(tokens)) => {
                hasher.update(&[2]);
                for id in &tokens.ids {
                    hasher.update(&id.to_le_bytes());
                }
                &mut hasher
            }
        };
        *hasher.finalize().as_bytes()
    };
    request.inputs.iter().map(of).collect()
}

/// An answer in the making.
struct Gathered {
    rows: Vec<Option<Row>>,
    errors: HashMap<usize, isomer_proto::common::v1::ItemError>,
    response: EncodeResponse,
    from_cache: u64,
    from_others: u64,
}

impl Gathered {
    fn new(rows: usize) -> Self {
        Self {
            rows: vec![None; rows],
            errors: HashMap::new(),
            response: EncodeResponse::default(),
            from_cache: 0,
            from_others: 0,
        }
    }

    fn cached(&mut self, index: usize, row: Row) {
        self.from_cache += 1;
        self.rows[index] = Some(row);
    }

    fn shared(&mut self, index: usize, row: Row) {
        self.from_others += 1;
        self.rows[index] = Some(row);
    }

    /// Takes over the answer for `indices`; gives back the rows that may be kept.
    fn sent(
        &mut self,
        request: &EncodeRequest,
        indices: &[usize],
        answer: EncodeResponse,
    ) -> Result<Vec<Option<Row>>, Fault> {
        let matrix = answer.embeddings.unwrap_or_default();
        let bytes = row_bytes(&matrix);
        if matrix.rows as usize != indices.len() || bytes.is_none_or(|bytes| matrix.data.len() != bytes * indices.len())
        {
            return Err(Fault::internal(format!(
                "encoder `{}` answered {} rows in {} bytes for {} inputs",
                request.encoder_id,
                matrix.rows,
                matrix.data.len(),
                indices.len()
            )));
        }
        let bytes = bytes.unwrap_or(0);
        let shape = Arc::new(Shape {
            cols: matrix.cols,
            dtype: matrix.dtype,
            space: answer.vector_space,
        });
        for mut error in answer.errors {
            let Some(&index) = indices.get(error.index as usize) else {
                continue;
            };
            error.index = index as u32;
            self.errors.insert(index, error);
        }
        let mut rows = Vec::with_capacity(indices.len());
        for (place, &index) in indices.iter().enumerate() {
            let row = Row {
                bytes: matrix.data[place * bytes..(place + 1) * bytes].into(),
                tokens: answer.token_counts.get(place).copied().unwrap_or(0),
                truncated: answer.truncated.get(place).copied(),
                shape: Arc::clone(&shape),
            };
            rows.push((!self.errors.contains_key(&index)).then(|| row.clone()));
            self.rows[index] = Some(row);
        }
        let usage = self.response.usage.get_or_insert_default();
        let theirs = answer.usage.unwrap_or_default();
        sum::add(usage, &theirs);
        self.response.timing = answer.timing;
        Ok(rows)
    }

    fn answer(self, request: EncodeRequest) -> Result<EncodeResponse, Fault> {
        let mut response = self.response;
        let rows: Option<Vec<Row>> = self.rows.into_iter().collect();
        let rows = rows.ok_or_else(|| Fault::internal("an input was left without a vector"))?;
        if let Some(first) = rows.first() {
            if rows.iter().any(|row| *row.shape != *first.shape) {
                return Err(Fault::internal(format!(
                    "encoder `{}` gave vectors of two spaces for one request",
                    request.encoder_id
                )));
            }
            response.embeddings = Some(Matrix {
                rows: rows.len() as u32,
                cols: first.shape.cols,
                dtype: first.shape.dtype,
                data: rows
                    .iter()
                    .map(|row| &*row.bytes)
                    .collect::<Vec<&[u8]>>()
                    .concat()
                    .into(),
            });
            response.vector_space = first.shape.space.clone();
        }
        response.token_counts = rows.iter().map(|row| row.tokens).collect();
        let truncated: Option<Vec<bool>> = rows.iter().map(|row| row.truncated).collect();
        response.truncated = truncated.unwrap_or_default();
        let mut errors: Vec<_> = self.errors.into_values().collect();
        errors.sort_by_key(|error| error.index);
        response.errors = errors;
        let usage = response.usage.get_or_insert_default();
        usage.texts = rows.len() as u64;
        usage.cached_texts += self.from_cache + self.from_others;
        ::metrics::counter!(metrics::CACHED).increment(self.from_cache);
        ::metrics::counter!(metrics::SHARED).increment(self.from_others);
        Ok(response)
    }
}

fn row_bytes(matrix: &Matrix) -> Option<usize> {
    let cols = matrix.cols as usize;
    match matrix.dtype() {
        Dtype::F32 => Some(cols * 4),
        Dtype::F16 => Some(cols * 2),
        Dtype::Int8 => Some(cols),
        Dtype::Ubinary => Some(cols.div_ceil(8)),
        Dtype::Unspecified => None,
    }
}
