//! Tests that a repeated failure for one text, while others pass, is attributed to that text.

use super::*;

const BAD: &[&str] = &["bad text", "bad too"];

/// A fake that cannot encode [`BAD`].
fn unable(code: Code) -> Arc<Fake> {
    let fake = Fake::new(1);
    fake.set(|manner| manner.cannot = Some((code, BAD)));
    fake
}

/// Asserts that other texts are answered.
async fn assert_up(scene: &Scene) {
    assert!(
        states(scene).iter().all(|state| *state == "healthy"),
        "{:?}",
        states(scene)
    );
    scene.router.encode(request(&["fresh"]), &COMMON, None).await.unwrap();
}

async fn fails(scene: &Scene, texts: &[&str]) -> Fault {
    scene.router.encode(request(texts), &COMMON, None).await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn a_text_that_fails_again_and_again_is_no_outage_for_others() {
    for code in [Code::Unavailable, Code::Internal, Code::Unknown, Code::DataLoss] {
        let fake = unable(code);
        let scene = scene(plain(), &[("a", &fake)]).await;
        assert_up(&scene).await;
        for _ in 0..6 {
            let fault = fails(&scene, &["bad text"]).await;
            assert_eq!((fault.code, fault.field.as_deref()), (code, Some("inputs")));
            assert!(fault.hint.is_some());
            assert_eq!(states(&scene), ["healthy"]);
        }
        assert_up(&scene).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_text_known_to_fail_uses_up_no_retries() {
    let fake = unable(Code::Unavailable);
    let scene = scene(plain(), &[("a", &fake)]).await;
    fails(&scene, &["bad text"]).await;
    let before = fake.asked();
    assert!(before > 1, "the first time, it may be the provider");
    fails(&scene, &["bad text"]).await;
    assert_eq!(fake.asked(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn a_bad_text_is_known_in_any_batch() {
    let fake = unable(Code::Internal);
    let scene = scene(plain(), &[("a", &fake)]).await;
    assert_up(&scene).await;
    for number in 0..12 {
        let other = format!("text {number}");
        let fault = fails(&scene, &[&other, "bad text"]).await;
        assert_eq!(fault.field.as_deref(), Some("inputs"));
    }
    assert_up(&scene).await;
}

#[tokio::test(start_paused = true)]
async fn two_bad_texts_are_known_beside_each_other() {
    let fake = unable(Code::Unavailable);
    let scene = scene(plain(), &[("a", &fake)]).await;
    assert_up(&scene).await;
    for _ in 0..10 {
        fails(&scene, &["bad text"]).await;
        fails(&scene, &["bad too"]).await;
    }
    assert_up(&scene).await;
}

#[tokio::test(start_paused = true)]
async fn many_bad_texts_in_a_row_eject_a_provider_only_if_it_is_broken() {
    let fake = Fake::new(1);
    fake.set(|manner| manner.cannot_begin = Some("bad"));
    let scene = scene(plain(), &[("a", &fake)]).await;
    for number in 0..40 {
        let fault = fails(&scene, &[&format!("bad {number}")]).await;
        assert_eq!(fault.reason, "TOLD_TO");
    }
    assert_up(&scene).await;
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_is_a_new_bad_text_closes_the_circuit_where_other_texts_pass() {
    let fake = unable(Code::Internal);
    let scene = scene(plain(), &[("a", &fake)]).await;
    fake.set(|manner| manner.fails = Some(Code::Unavailable));
    for _ in 0..3 {
        let _ = scene.router.encode(request(&["fresh"]), &COMMON, None).await;
    }
    assert_eq!(states(&scene), ["circuit open"]);
    fake.set(|manner| manner.fails = None);
    sleep(Duration::from_millis(50)).await;
    fails(&scene, &["bad text"]).await;
    assert_up(&scene).await;
}

#[tokio::test(start_paused = true)]
async fn a_text_that_every_replica_fails_ejects_none() {
    let (a, b) = (unable(Code::Internal), unable(Code::Internal));
    let scene = scene(plain(), &[("a", &a), ("b", &b)]).await;
    assert_up(&scene).await;
    for _ in 0..20 {
        fails(&scene, &["bad text"]).await;
    }
    assert_up(&scene).await;
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_fails_what_another_answers_is_ejected() {
    let (a, b) = (unable(Code::Internal), Fake::new(1));
    let long = RoutingConfig {
        breaker_first_ms: 10_000,
        breaker_longest_ms: 10_000,
        ..plain()
    };
    let scene = scene(long, &[("a", &a), ("b", &b)]).await;
    assert_up(&scene).await;
    for _ in 0..40 {
        scene
            .router
            .encode(request(&["bad text"]), &COMMON, None)
            .await
            .unwrap();
    }
    assert_eq!(states(&scene), ["circuit open", "healthy"]);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_fails_for_everything_is_ejected() {
    for (code, same) in [(Code::Internal, false), (Code::Unavailable, true)] {
        let fake = Fake::new(1);
        let scene = scene(plain(), &[("a", &fake)]).await;
        assert_up(&scene).await;
        // The connection fails, or each request gets an error that the server is broken.
        fake.set(|manner| manner.fails = Some(code));
        for number in 0..6 {
            let text = format!("text {}", if same { 0 } else { number });
            let _ = scene.router.encode(request(&[&text]), &COMMON, None).await;
        }
        assert_eq!(states(&scene), ["circuit open"], "{code:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_text_that_is_the_trial_leaves_the_place_to_the_next() {
    let fake = unable(Code::Internal);
    let scene = scene(plain(), &[("a", &fake)]).await;
    assert_up(&scene).await;
    fails(&scene, &["bad text"]).await;
    fake.set(|manner| manner.fails = Some(Code::Unavailable));
    for _ in 0..3 {
        fails(&scene, &["fresh"]).await;
    }
    assert_eq!(states(&scene), ["circuit open"]);
    fake.set(|manner| manner.fails = None);
    sleep(Duration::from_millis(50)).await;
    fails(&scene, &["bad text"]).await;
    assert_up(&scene).await;
}

#[tokio::test(start_paused = true)]
async fn a_text_that_passes_again_is_not_suspected_any_more() {
    let fake = unable(Code::Internal);
    let scene = scene(plain(), &[("a", &fake)]).await;
    fails(&scene, &["bad text"]).await;
    let counted = |scene: &Scene| scene.router.provider_health()[0].1.failed;
    fake.set(|manner| manner.cannot = None);
    scene
        .router
        .encode(request(&["bad text"]), &COMMON, None)
        .await
        .unwrap();
    // It is retried like any other text.
    fake.set(|manner| manner.cannot = Some((Code::Internal, BAD)));
    let before = counted(&scene);
    fails(&scene, &["bad text"]).await;
    assert!(counted(&scene) > before + 1);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_repeats_is_returned_at_once() {
    let fake = unable(Code::InvalidArgument);
    let scene = scene(plain(), &[("a", &fake)]).await;
    assert_up(&scene).await;
    let before = fake.asked();
    for _ in 0..20 {
        assert_eq!(fails(&scene, &["bad text"]).await.code, Code::InvalidArgument);
    }
    assert_eq!(fake.asked(), before + 20);
    assert_up(&scene).await;
}

#[tokio::test(start_paused = true)]
async fn a_document_that_cannot_be_ranked_is_no_outage_either() {
    let fake = unable(Code::Unavailable);
    let scene = scene(plain(), &[("a", &fake)]).await;
    assert_up(&scene).await;
    let ranked = |document: &str| RerankRequest {
        encoder_id: "e".to_owned(),
        query: "query".to_owned(),
        documents: vec!["good".to_owned(), document.to_owned()],
        ..RerankRequest::default()
    };
    for _ in 0..6 {
        let fault = scene.router.rerank(ranked("bad text"), None).await.unwrap_err();
        assert_eq!(fault.field.as_deref(), Some("documents"));
    }
    scene.router.rerank(ranked("good too"), None).await.unwrap();
    assert_up(&scene).await;
}

#[tokio::test(start_paused = true)]
async fn a_text_that_fails_in_this_process_is_no_outage_either() {
    let fake = unable(Code::Internal);
    fake.set(|manner| manner.open = true);
    let router = own(plain(), &fake).await;
    router.encode(request(&["fresh"]), &COMMON, None).await.unwrap();
    for _ in 0..10 {
        let fault = router.encode(request(&["bad text"]), &COMMON, None).await.unwrap_err();
        assert_eq!((fault.code, fault.field.as_deref()), (Code::Internal, Some("inputs")));
    }
    router.encode(request(&["fresh"]), &COMMON, None).await.unwrap();
}
