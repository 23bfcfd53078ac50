//! Tests numbers of a request and of a provider that enter sums.

use isomer_proto::encoder::v1::encode_request;

use super::*;

#[tokio::test]
async fn a_provider_is_believed_up_to_a_bound_of_what_it_was_sent() {
    for (told, charged) in [(12, 12), (u64::MAX, 2 * 512 + 2 * 4)] {
        let fake = Fake::new(1);
        fake.set(|manner| manner.tokens_told = Some(told));
        let scene = scene(RoutingConfig::default(), &[("a", &fake)]).await;
        let answer = scene
            .router
            .encode(request(&["one", "two"]), &COMMON, None)
            .await
            .unwrap();
        let usage = answer.response.usage.unwrap();
        assert_eq!((usage.tokens, usage.tokens_estimated), (charged, told != charged));
        // The price is 2 dollars per million tokens.
        assert_eq!(answer.cost_nano_usd, charged * 2000);
    }
}

#[tokio::test]
async fn a_literal_prompt_is_bounded_with_all_its_copies() {
    let fake = Fake::new(1);
    let scene = scene(RoutingConfig::default(), &[("a", &fake)]).await;
    let prompted = |bytes: usize| EncodeRequest {
        prompt: Some(encode_request::Prompt::LiteralPrompt("x".repeat(bytes))),
        ..request(&["a", "b", "c", "d"])
    };
    let refused = scene.router.encode(prompted((1 << 20) + 1), &COMMON, None).await;
    let fault = refused.map(drop).unwrap_err();
    assert_eq!(
        (fault.code, fault.field.as_deref()),
        (Code::InvalidArgument, Some("literal_prompt"))
    );
    assert_eq!(fake.texts.load(Ordering::SeqCst), 0, "nothing was sent");
    scene.router.encode(prompted(1 << 20), &COMMON, None).await.unwrap();
}
