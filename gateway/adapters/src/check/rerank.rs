//! The checks of a cross-encoder.

use isomer_proto::encoder::v1::RerankRequest;
use isomer_service_kit::Fault;

use super::{Probe, fault_text};

const QUERY: &str = "At what temperature does water boil?";
/// The second document answers the query.
const DOCUMENTS: [&str; 3] = [
    "The harbour was quiet before sunrise.",
    "Water boils at 100 degrees Celsius at sea level.",
    "Interest rates were left unchanged by the central bank.",
];
/// Maximum difference of a score between two calls. Batches with other calls in 16-bit arithmetic
/// cause it.
const SAME: f32 = 1e-2;

pub(super) async fn look(probe: &mut Probe<'_>) {
    match probe.backend.healthy().await {
        Ok(()) => probe.note("health", true, "reports that it is healthy"),
        Err(fault) => probe.note("health", false, fault_text(&fault)),
    }
    let first = match scores(probe, &DOCUMENTS).await {
        Ok(scores) => scores,
        Err(fault) => {
            probe.essential("rerank_scores", false, fault_text(&fault));
            return;
        }
    };
    probe.essential(
        "rerank_scores",
        true,
        format!("a score for each of {} documents: {first:?}", first.len()),
    );
    let best = first[1] > first[0] && first[1] > first[2];
    probe.essential(
        "rerank_relevance",
        best,
        "the document that answers the query comes first",
    );
    match scores(probe, &DOCUMENTS).await {
        Ok(again) => {
            let apart = largest(&first, &again);
            probe.essential(
                "determinism",
                apart <= SAME,
                format!("the same call twice: scores {apart:.1e} apart"),
            );
        }
        Err(fault) => {
            probe.essential("determinism", false, fault_text(&fault));
        }
    }
    let backwards = [DOCUMENTS[2], DOCUMENTS[1], DOCUMENTS[0]];
    match scores(probe, &backwards).await {
        Ok(mut found) => {
            found.reverse();
            let apart = largest(&first, &found);
            let detail = format!("the documents backwards: scores {apart:.1e} apart");
            probe.essential("order_preserved", apart <= SAME, detail);
        }
        Err(fault) => {
            probe.essential("order_preserved", false, fault_text(&fault));
        }
    }
}

fn largest(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Scores in the order of the documents.
async fn scores(probe: &Probe<'_>, documents: &[&str]) -> Result<Vec<f32>, Fault> {
    let request = RerankRequest {
        encoder_id: probe.encoder_id.to_owned(),
        query: QUERY.to_owned(),
        documents: documents.iter().map(ToString::to_string).collect(),
        ..RerankRequest::default()
    };
    let answer = probe.backend.rerank(request, probe.deadline()).await?;
    let mut scores = vec![None; documents.len()];
    for result in answer.results {
        if let Some(place) = scores.get_mut(result.index as usize) {
            *place = Some(result.score).filter(|score| score.is_finite());
        }
    }
    let all: Option<Vec<f32>> = scores.into_iter().collect();
    all.ok_or_else(|| Fault::new(tonic::Code::DataLoss, "PROVIDER_ANSWER", "a document without a score"))
}
