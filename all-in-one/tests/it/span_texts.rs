//! Texts appear in no span, however the call ends: neither in a name, nor in an attribute, a status
//! or an event. The calls are those of the test of charges: each rpc and each route that uses
//! models.

use crate::{
    charges::cases::{self, End},
    harness::Harness,
    span_harness::Spans,
};

/// A phrase that occurs in every text of the cases, and nowhere else.
const MARK: &str = "old wooden bench near the station";

// There is only one test, because the subscriber belongs to the whole process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_are_in_no_span() {
    isomer_service_kit::tls::install_crypto();
    let spans = Spans::install();
    let harness = Harness::new().await;
    let key = harness.key().await;
    let mut failed = 0;
    for case in cases::all().into_iter().filter(|case| case.uses) {
        for end in [End::Answer, End::Error] {
            let Some(call) = case.repeatable(end).filter(|_| case.ends.contains(&end)) else {
                continue;
            };
            let (ended, found) = spans
                .of(async {
                    match end {
                        End::Answer => call.call(&harness, &key).await.map(|()| None),
                        _ => Ok(call.refusal(&harness, &key).await),
                    }
                })
                .await;
            let (row, refusal) = (case.row, ended.unwrap());
            if end != End::Answer && refusal.is_none() {
                // The page shows the texts to its own caller.
                continue;
            }
            // A run continues in the background; its spans end after the call.
            assert!(found.contains("SERVER"), "{row} exports its span:\n{found}");
            assert!(!found.contains(MARK), "{row}:\n{found}");
            failed += usize::from(refusal.is_some());
        }
    }
    assert!(failed > 20, "the calls that are to fail do: {failed}");
    // A text in a span would have been found.
    let (_, found) = spans
        .of(async { drop(tracing::info_span!("a span", otel.name = MARK)) })
        .await;
    assert!(found.contains(MARK), "{found}");
}
