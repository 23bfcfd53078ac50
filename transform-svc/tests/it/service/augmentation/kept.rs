//! Cached vectors of variants, so that a query whose variants are cached sends one text to the
//! encoder; and cases in which the cache must not be used.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use isomer_proto::{
    common::v1::VectorSpace,
    encoder::v1::{EncodeResponse, Priority},
};
use isomer_service_kit::Tenant;
use isomer_stubs::encoder::answer;

use super::*;

/// An encoder whose weights a test can change: the generation is a part of its vectors and of its
/// digest. In generation 0 it names no digest.
fn of_generations(harness: &mut Harness, first: u8) -> Arc<AtomicU8> {
    let generation = Arc::new(AtomicU8::new(first));
    let current = Arc::clone(&generation);
    harness.encoder = encoder(false, None).on_encode(move |request| {
        let generation = current.load(Ordering::SeqCst);
        async move {
            let digest = match generation {
                0 => String::new(),
                other => format!("generation {other}"),
            };
            let changed = |text: &str| {
                vector(text)
                    .into_iter()
                    .map(move |value| value * f32::from(generation + 1))
            };
            Ok(EncodeResponse {
                vector_space: Some(VectorSpace { digest, ..own_space() }),
                ..answer(
                    texts(&request.into_inner()).map(|text| changed(text).collect::<Vec<_>>()),
                    5,
                )
            })
        }
    });
    generation
}

fn interactive() -> AugmentationSpec {
    spec([paraphrase("stub")])
}

/// The response, and the texts sent to the encoder for it.
async fn sent(
    harness: &Harness,
    client: &mut Client,
    request: impl tonic::IntoRequest<EncodeAugmentedRequest>,
) -> (EncodeAugmentedResponse, Vec<String>) {
    harness.encoder.forget();
    let answer = client.encode_augmented(request).await.unwrap().into_inner();
    (answer, harness.encoder.texts())
}

#[tokio::test]
async fn a_second_query_encodes_its_own_text_alone_and_gets_the_same_vector() {
    let harness = Harness::new(Duration::ZERO).await;
    let mut client = harness.client().await;
    let ask = || request(interactive(), &[TEXT]);
    let (first, texts) = sent(&harness, &mut client, ask()).await;
    assert_eq!(texts, [TEXT.to_owned(), reversed(TEXT)]);
    let (second, texts) = sent(&harness, &mut client, ask()).await;
    assert_eq!(texts, [TEXT]);
    assert_eq!(second.embeddings, first.embeddings);
    assert_eq!(rows(&second), [mean(&[TEXT, &reversed(TEXT)])]);
    assert_eq!(second.vector_space, first.vector_space);
    assert!(second.used[0].missing.is_empty());
    assert_eq!(
        second.usage.unwrap().tokens,
        5,
        "what was encoded is counted, no more and no less"
    );
    // One text with cached variants and one without.
    let (both, texts) = sent(&harness, &mut client, request(interactive(), &[OTHER, TEXT])).await;
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert_eq!(
        rows(&both),
        [mean(&[OTHER, &reversed(OTHER)]), mean(&[TEXT, &reversed(TEXT)])]
    );
}

#[tokio::test]
async fn after_a_change_of_the_encoder_no_vector_of_before_is_used() {
    let mut harness = Harness::new(Duration::ZERO).await;
    let generation = of_generations(&mut harness, 1);
    let mut client = harness.client().await;
    let ask = || request(interactive(), &[TEXT]);
    let expected = |factor: f32| -> Vec<f32> {
        let mean = mean(&[TEXT, &reversed(TEXT)]);
        mean.into_iter().map(|value| value * factor).collect()
    };
    sent(&harness, &mut client, ask()).await;
    let (kept, texts) = sent(&harness, &mut client, ask()).await;
    assert_eq!((rows(&kept), texts.len()), (vec![expected(2.0)], 1));
    generation.store(2, Ordering::SeqCst);
    let (anew, texts) = sent(&harness, &mut client, ask()).await;
    assert_eq!((rows(&anew), texts.len()), (vec![expected(3.0)], 2));
    let (kept, texts) = sent(&harness, &mut client, ask()).await;
    assert_eq!((rows(&kept), texts.len()), (vec![expected(3.0)], 1));
    // The generation changes back, but the cached vectors belong to the last space.
    generation.store(1, Ordering::SeqCst);
    let (back, texts) = sent(&harness, &mut client, ask()).await;
    assert_eq!((rows(&back), texts.len()), (vec![expected(2.0)], 2));
}

#[tokio::test]
async fn an_encoder_that_names_no_space_keeps_nothing() {
    let mut harness = Harness::new(Duration::ZERO).await;
    of_generations(&mut harness, 0);
    let mut client = harness.client().await;
    for _ in 0..2 {
        let (answer, texts) = sent(&harness, &mut client, request(interactive(), &[TEXT])).await;
        assert_eq!(texts, [TEXT.to_owned(), reversed(TEXT)]);
        assert_eq!(rows(&answer), [mean(&[TEXT, &reversed(TEXT)])]);
    }
}

#[tokio::test]
async fn another_tenant_prompt_or_number_of_columns_is_another_vector() {
    let harness = Harness::new(Duration::ZERO).await;
    let mut client = harness.client().await;
    let ask = || request(interactive(), &[TEXT]);
    let of = |tenant: &str| Tenant::of_account(b"secret", tenant).request(ask());
    let narrow = || EncodeAugmentedRequest {
        dimensions: Some(4),
        ..ask()
    };
    let prompted = || EncodeAugmentedRequest {
        literal_prompt: Some("query: ".into()),
        ..ask()
    };
    sent(&harness, &mut client, ask()).await;
    assert_eq!(sent(&harness, &mut client, prompted()).await.1.len(), 2);
    assert_eq!(sent(&harness, &mut client, narrow()).await.1.len(), 2);
    assert_eq!(sent(&harness, &mut client, of("one")).await.1.len(), 2);
    assert_eq!(sent(&harness, &mut client, of("two")).await.1.len(), 2);
    // Each of them is cached.
    assert_eq!(sent(&harness, &mut client, ask()).await.1.len(), 1);
    assert_eq!(sent(&harness, &mut client, prompted()).await.1.len(), 1);
    assert_eq!(sent(&harness, &mut client, narrow()).await.1.len(), 1);
    assert_eq!(sent(&harness, &mut client, of("one")).await.1.len(), 1);
    assert_eq!(sent(&harness, &mut client, of("two")).await.1.len(), 1);
}

#[tokio::test]
async fn bulk_work_and_requests_past_the_caches_neither_keep_nor_take() {
    let harness = Harness::new(Duration::ZERO).await;
    let mut client = harness.client().await;
    let bulk = AugmentationSpec {
        priority: Priority::Batch.into(),
        ..interactive()
    };
    let past = AugmentationSpec {
        bypass_cache: true,
        ..interactive()
    };
    for spec in [&bulk, &bulk, &past, &past] {
        let (_, texts) = sent(&harness, &mut client, request(spec.clone(), &[TEXT])).await;
        assert_eq!(texts.len(), 2, "{spec:?}");
    }
    let ask = || request(interactive(), &[TEXT]);
    assert_eq!(sent(&harness, &mut client, ask()).await.1.len(), 2);
    assert_eq!(sent(&harness, &mut client, ask()).await.1.len(), 1);
    let (_, texts) = sent(&harness, &mut client, request(past, &[TEXT])).await;
    assert_eq!(texts.len(), 2);
}

#[tokio::test]
async fn memory_is_bounded_and_may_be_switched_off() {
    let mut harness = Harness::new(Duration::ZERO).await;
    harness.config.variant_vectors_bytes = 0;
    let mut client = harness.client().await;
    for _ in 0..2 {
        let (_, texts) = sent(&harness, &mut client, request(interactive(), &[TEXT])).await;
        assert_eq!(texts.len(), 2);
    }

    // 4 columns and the overhead of an entry: some 20 entries.
    harness.config.variant_vectors_bytes = 4096;
    let mut client = harness.client().await;
    let many: Vec<String> = (0..30).map(|n| format!("{TEXT} It is number {n} of all.")).collect();
    for text in &many {
        sent(&harness, &mut client, request(interactive(), &[text])).await;
    }
    let mut again = 0;
    for text in &many {
        again += sent(&harness, &mut client, request(interactive(), &[text]))
            .await
            .1
            .len()
            - 1;
    }
    assert!((1..30).contains(&again), "{again} of 30 variants were encoded again");
}
