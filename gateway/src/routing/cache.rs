//! Caches answers, and encodes a text only once for concurrent requests (single-flight).
//!
//! The key is the tenant and everything that a vector depends on: the route (which stands for one
//! vector space), the prompt, truncation, dimensions, scaling, element type, and the text. Two
//! kinds of vectors bypass the cache: those that depend on the other texts of their batch (int8 by
//! the request's own ranges), and those with several rows per text (token vectors).

use std::{collections::HashMap, sync::Arc, time::Duration};

use isomer_encoder_client::answer::asks;
use isomer_proto::{
    common::v1::{Dtype, Matrix},
    encoder::v1::{EncodeRequest, EncodeResponse, Input, Output, encode_request::Prompt, input},
};
use isomer_service_kit::{Fault, Tenant};
use isomer_usage::sum;
use quick_cache::{
    Weighter,
    sync::{Cache as RowCache, GuardResult},
};

use super::{
    epoch::{Anchor, Epoch, Meeting, Origin, Row, Shape, changed},
    metrics,
};

/// Bytes of an entry in addition to its row.
const OVERHEAD: u64 = 160;
/// Assumed size of a vector for estimating the number of entries, in bytes.
const TYPICAL_ROW: u64 = 2048;
/// Rounds of waiting for texts of other requests. After that, the remaining texts are sent without
/// the cache.
const ROUNDS: usize = 3;

type Key = [u8; 32];

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<Key, Row> for ByBytes {
    fn weight(&self, _: &Key, row: &Row) -> u64 {
        row.bytes.len() as u64 + OVERHEAD
    }
}

/// Cached vectors, bounded in bytes. The least useful entries are evicted first.
#[derive(Debug)]
pub(super) struct Cache {
    rows: RowCache<Key, Row, ByBytes>,
}

/// The cache location of a request's vectors.
#[derive(Clone, Copy)]
pub(super) struct CacheScope<'a> {
    pub(super) route: u64,
    pub(super) epoch: &'a Epoch,
    pub(super) tenant: &'a Tenant,
    /// Records which vectors meet in the answer.
    pub(super) meeting: &'a Meeting,
}

/// Whether the request may be answered from the cache: every vector must depend on its own text
/// alone.
pub(super) fn applies(request: &EncodeRequest) -> bool {
    let other = [Output::TokenVectors, Output::Sparse];
    let alone = !other.into_iter().any(|output| asks(request, output)) && request.output_dtype() != Dtype::Int8;
    alone && !request.bypass_cache
}

impl Cache {
    pub(super) fn new(bytes: u64) -> Self {
        let entries = usize::try_from(bytes / TYPICAL_ROW).unwrap_or(usize::MAX).max(16);
        Self {
            rows: RowCache::with_weighter(entries, bytes, ByBytes),
        }
    }

    /// Answers from the cache, and encodes the remaining texts with `send`. Each text is encoded
    /// once among all requests in flight. `send` returns an answer and its origin.
    ///
    /// # Errors
    /// The reason [`CHANGED`](super::epoch::CHANGED) if a cached vector and a new one of the same
    /// text differ; the errors of `send`.
    pub(super) async fn encode<F, Fut>(
        &self,
        cache_scope: CacheScope<'_>,
        request: EncodeRequest,
        send: F,
    ) -> Result<EncodeResponse, Fault>
    where
        F: Fn(EncodeRequest) -> Fut,
        Fut: Future<Output = Result<(EncodeResponse, Origin), Fault>>,
    {
        let keys = keys(cache_scope, &request);
        let mut gathered = PartialAnswer::new(keys.len());
        let mut open: Vec<usize> = (0..keys.len()).collect();
        for _ in 0..ROUNDS {
            let (mut ours, mut theirs, mut guards) = (Vec::new(), Vec::new(), Vec::new());
            for index in open {
                match self.rows.get_value_or_guard(&keys[index], Some(Duration::ZERO)) {
                    GuardResult::Value(row) => gathered.cached(index, row),
                    GuardResult::Guard(guard) => {
                        ours.push(index);
                        guards.push(guard);
                    }
                    GuardResult::Timeout => theirs.push(index),
                }
            }
            if !ours.is_empty() {
                // A cached text is sent along: it shows whether the model is still the same.
                let measured = gathered.oldest(|row| cache_scope.epoch.is_measure(row.origin));
                let before = measured.and_then(|index| gathered.rows[index].clone());
                ours.extend(measured);
                let (answer, origin) = send(part(&request, &ours)).await?;
                let rows = gathered.sent(&request, &ours, answer, origin)?;
                if let Some((index, before)) = measured.zip(before) {
                    let now = rows.last().and_then(Option::as_ref);
                    if !now.is_some_and(|now| before.agrees(now)) {
                        return Err(changed(&request.encoder_id));
                    }
                    cache_scope.epoch.agree(before.origin, origin);
                    gathered.rows[index] = Some(before);
                }
                for (guard, row) in guards.into_iter().zip(rows) {
                    if let Some(row) = row {
                        // Fails only if the entry was removed meanwhile. In that case nothing is
                        // cached.
                        let _ = guard.insert(row);
                    }
                }
            }
            // This waits only now, when no guard is held. Otherwise two requests that wait for each
            // other would deadlock.
            let mut again = Vec::new();
            for index in theirs {
                match self.rows.get_value_or_guard_async(&keys[index]).await {
                    Ok(row) => gathered.shared(index, row),
                    Err(_other_failed) => again.push(index),
                }
            }
            open = again;
            if open.is_empty() {
                break;
            }
        }
        if !open.is_empty() {
            let (answer, origin) = send(part(&request, &open)).await?;
            gathered.sent(&request, &open, answer, origin)?;
        }
        gathered.meet(cache_scope.meeting, &request);
        gathered.answer(request)
    }
}

/// The request for some of its inputs.
fn part(request: &EncodeRequest, indices: &[usize]) -> EncodeRequest {
    if indices.iter().copied().eq(0..request.inputs.len()) {
        return request.clone();
    }
    EncodeRequest {
        inputs: indices.iter().map(|&index| request.inputs[index].clone()).collect(),
        encoder_id: request.encoder_id.clone(),
        prompt: request.prompt.clone(),
        outputs: request.outputs.clone(),
        ..*request
    }
}

fn keys(cache_scope: CacheScope<'_>, request: &EncodeRequest) -> Vec<Key> {
    let mut common = blake3::Hasher::new();
    let mut field = |tag: u8, bytes: &[u8]| {
        common.update(&[tag]);
        common.update(&(bytes.len() as u64).to_le_bytes());
        common.update(bytes);
    };
    field(0, &cache_scope.route.to_le_bytes());
    field(10, &cache_scope.epoch.number.to_le_bytes());
    field(1, request.encoder_id.as_bytes());
    match &request.prompt {
        None => field(2, &[]),
        Some(Prompt::PromptName(name)) => field(3, name.as_bytes()),
        Some(Prompt::LiteralPrompt(text)) => field(4, text.as_bytes()),
    }
    field(5, &request.truncation.to_le_bytes());
    // 0 columns are invalid, and so is 2 as a boolean.
    field(6, &request.dimensions.unwrap_or(0).to_le_bytes());
    field(7, &[request.normalise.map_or(2, u8::from)]);
    field(8, &request.output_dtype.to_le_bytes());
    if let Some(scope) = cache_scope.tenant.scope() {
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
struct PartialAnswer {
    rows: Vec<Option<Row>>,
    errors: HashMap<usize, isomer_proto::common::v1::ItemError>,
    response: EncodeResponse,
    from_cache: u64,
    from_others: u64,
}

impl PartialAnswer {
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

    /// The oldest of the vectors whose values alone identify their model.
    fn oldest(&self, wanted: impl Fn(&Row) -> bool) -> Option<usize> {
        let showing = self.showing().filter(|(_, row)| wanted(row));
        showing
            .min_by_key(|(_, row)| row.origin.attempt)
            .map(|(index, _)| index)
    }

    fn showing(&self) -> impl Iterator<Item = (usize, &Row)> {
        let rows = self.rows.iter().enumerate();
        let rows = rows.filter_map(|(index, row)| Some((index, row.as_ref()?)));
        rows.filter(|(index, row)| !self.errors.contains_key(index) && row.shows_model())
    }

    /// Records where the vectors come from.
    fn meet(&self, meeting: &Meeting, request: &EncodeRequest) {
        if let Some(index) = self.oldest(|_| true)
            && let Some(row) = self.rows[index].clone()
        {
            let request = part(request, &[index]);
            meeting.add(Anchor { row, request }, self.showing().map(|(_, row)| row.origin));
        }
    }

    /// Takes over the answer for `indices`; returns the rows that may be cached.
    fn sent(
        &mut self,
        request: &EncodeRequest,
        indices: &[usize],
        answer: EncodeResponse,
        origin: Origin,
    ) -> Result<Vec<Option<Row>>, Fault> {
        let given = rows(&request.encoder_id, &answer, origin, indices.len())?;
        for mut error in answer.errors {
            let Some(&index) = indices.get(error.index as usize) else {
                continue;
            };
            error.index = index as u32;
            self.errors.insert(index, error);
        }
        let mut rows = Vec::with_capacity(indices.len());
        for (row, &index) in given.into_iter().zip(indices) {
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
                return Err(changed(&request.encoder_id));
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

/// The rows of an answer.
///
/// # Errors
/// INTERNAL if they do not match the inputs.
pub(super) fn rows(encoder_id: &str, answer: &EncodeResponse, origin: Origin, count: usize) -> Result<Vec<Row>, Fault> {
    let matrix = answer.embeddings.clone().unwrap_or_default();
    let bytes = row_bytes(&matrix).filter(|bytes| matrix.data.len() == bytes * count);
    let Some(bytes) = bytes.filter(|_| matrix.rows as usize == count) else {
        return Err(Fault::internal(format!(
            "encoder `{encoder_id}` answered {} rows in {} bytes for {count} inputs",
            matrix.rows,
            matrix.data.len()
        )));
    };
    let shape = Arc::new(Shape {
        cols: matrix.cols,
        dtype: matrix.dtype,
        space: answer.vector_space.clone(),
    });
    let row = |index: usize| Row {
        bytes: matrix.data[index * bytes..(index + 1) * bytes].into(),
        tokens: answer.token_counts.get(index).copied().unwrap_or(0),
        truncated: answer.truncated.get(index).copied(),
        shape: Arc::clone(&shape),
        origin,
    };
    Ok((0..count).map(row).collect())
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
