//! Requests to the transform service: their texts and their estimate.

use std::cmp::Reverse;

use isomer_proto::transform::v1::{
    EstimateRequest, GenerationEstimate, TextItem, TransformSpec, transform_service_client::TransformServiceClient,
};
use isomer_service_kit::Fault;

use super::table::{Corpus, TextRequest};
use crate::run::{RunContext, RunError};

/// Maximum bytes of text in one request.
const MOST_BYTES: usize = 1 << 20;

/// The texts of a request, each with its position in its pass.
pub(crate) type Chunk = Vec<(usize, TextItem)>;

/// Splits requests into chunks of at most `most` texts and `MOST_BYTES` bytes; each item has its
/// position. The longest texts come first: they take longest, and one that is started last would
/// delay everything after it.
pub(crate) fn chunks(requests: &[&TextRequest], corpus: &Corpus, most: usize) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut bytes = 0;
    let mut order: Vec<(usize, &TextRequest)> = requests.iter().copied().enumerate().collect();
    order.sort_by_key(|(_, request)| Reverse(corpus.get(request.text).len()));
    for (position, request) in order {
        let text = corpus.get(request.text);
        let full = chunks
            .last()
            .is_none_or(|chunk| chunk.len() >= most || bytes + text.len() > MOST_BYTES);
        if full {
            chunks.push(Vec::new());
            bytes = 0;
        }
        bytes += text.len();
        let item = TextItem {
            id: request.id.clone(),
            text: text.to_owned(),
            language: request.language.clone(),
        };
        if let Some(chunk) = chunks.last_mut() {
            chunk.push((position, item));
        }
    }
    chunks
}

/// Estimates the generator calls of a spec that the transform service's caches lack.
///
/// # Errors
/// [`RunError::Transform`].
pub(crate) async fn estimate_items(
    context: &RunContext,
    spec: &TransformSpec,
    items: Vec<TextItem>,
    what: &str,
) -> Result<GenerationEstimate, RunError> {
    let failed = |fault: Fault| RunError::Transform {
        what: what.to_owned(),
        fault: Box::new(fault),
    };
    let request = EstimateRequest {
        spec: Some(spec.clone()),
        items,
    };
    let mut client = TransformServiceClient::new(context.clients.transform.clone());
    let answer = client.estimate(request).await;
    let answer = answer.map_err(|status| failed(Fault::from_status(&status)))?;
    let estimate = answer.into_inner().estimate;
    estimate.ok_or_else(|| failed(Fault::internal("the transform service answered without an estimate")))
}
