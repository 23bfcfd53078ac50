//! Cached results of one tenant's texts are not served to another, by any route: the second
//! tenant's call causes, and reports, as much usage as the first.

use isomer_proto::transform::v1::{TransformRequest, TransformResponse, TransformSpec};
use prost::Message;

use super::{
    calls,
    cases::{self, Case, End},
};
use crate::{
    harness::{Harness, Key},
    models::ModelUsage,
};

const TRANSFORM: &str = "/isomer.transform.v1.TransformService/Transform";

/// The usage of the models in a call.
async fn caused(harness: &Harness, call: &cases::Repeatable, key: &Key) -> ModelUsage {
    let before = harness.models.counted();
    call.call(harness, key).await.unwrap();
    harness.models.counted().since(&before)
}

/// The rows whose calls use models.
fn rows() -> Vec<Case> {
    let mut all = cases::all();
    all.retain(|case| case.uses);
    all
}

/// The usage of the first tenant's call, the second tenant's same call and the first tenant's
/// repeated call, by row.
async fn measured(shared: bool) -> Vec<(String, [ModelUsage; 3])> {
    let harness = Harness::with(|config| config.access.share_caches = shared).await;
    let (first, second) = (harness.key().await, harness.key().await);
    let mut measured = Vec::new();
    for case in rows() {
        let call = case.repeatable(End::Answer).unwrap();
        let own = caused(&harness, &call, &first).await;
        let others = caused(&harness, &call, &second).await;
        let again = caused(&harness, &call, &first).await;
        measured.push((format!("{} ({})", case.row, case.name), [own, others, again]));
    }
    measured
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_is_served_nothing_that_another_left_in_a_cache() {
    let (apart, shared) = tokio::join!(measured(false), measured(true));
    let mut cached = 0;
    for ((row, [own, others, again]), (_, [first, second, third])) in apart.iter().zip(&shared) {
        assert_eq!(own, others, "{row}: the second tenant causes as much as the first");
        assert_eq!(
            second, third,
            "{row}: shared caches serve the second tenant as the first"
        );
        let is_cached = again.finished < own.finished;
        assert_eq!(
            third.finished < first.finished,
            is_cached,
            "{row}: {third:?} after {first:?}"
        );
        cached += usize::from(is_cached);
    }
    // Without this check, the absence of caches would go unnoticed: only reranking, token
    // vectors and sparse vectors have none.
    let uncached = rows()
        .iter()
        .filter(|case| {
            ["ank", "redict", "mbedAll", "embed_all", "mbedSparse", "embed_sparse"]
                .iter()
                .any(|part| case.row.contains(part))
        })
        .count();
    assert_eq!(cached + uncached, apart.len(), "{apart:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_who_ask_at_the_same_time_do_not_join_each_other() {
    let text = cases::text(End::Answer);
    let request = TransformRequest {
        spec: Some(TransformSpec {
            transformation: Some(cases::paraphrase()),
            sampling: cases::sampling(),
            ..TransformSpec::default()
        }),
        items: vec![isomer_proto::transform::v1::TextItem {
            text,
            language: Some("en".to_owned()),
            ..Default::default()
        }],
        ..TransformRequest::default()
    };
    let harness = &Harness::new().await;
    let keys = [harness.key().await, harness.key().await];
    let ask = async |key: &Key| {
        let answers = calls::all(harness, key, TRANSFORM, vec![request.encode_to_vec()], End::Answer).await;
        TransformResponse::decode(answers.unwrap()[0].as_slice()).unwrap()
    };
    let (one, other, same) = tokio::join!(ask(&keys[0]), ask(&keys[1]), ask(&keys[0]));
    let calls = [&one, &other, &same].map(|answer| answer.usage.unwrap().generator_calls);
    assert_eq!(calls[1], 1, "the other tenant");
    assert_eq!(calls[0] + calls[2], 1, "the same tenant joins");
    assert_eq!(one.results[0].text, other.results[0].text);
    assert_eq!(harness.models.generator.calls_of("/v1/chat/completions").len(), 2);
    // The cache usage that the responses report.
    let later = [ask(&keys[1]).await, ask(&harness.key().await).await];
    let hits = later.map(|answer| answer.results[0].provenance.as_ref().unwrap().cache_hit);
    assert_eq!(hits, [true, false]);
}
