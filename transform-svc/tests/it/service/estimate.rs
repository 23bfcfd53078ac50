//! The usage of a request is estimated without calling the generator, and the estimate holds when
//! it is called.

use isomer_proto::transform::v1::{
    Backtranslation, Continuation, Distractors, EstimateRequest, GenerationEstimate, GuardMode, RandomKeywords,
    TransformSpec, Translation, transformation::Kind,
};
use isomer_service_kit::Fault;
use isomer_stubs::openai::{Answer, Stub};
use isomer_transform::config::BudgetConfig;

use crate::support::{Client, client, client_of, config, items, paraphrase, service, spec, transform};

const TEXTS: [&str; 4] = [
    "The committee meets on the first Monday of every month.",
    "A small dog runs across the wet grass in the park.",
    "Where can I change money on a Sunday afternoon?",
    "The committee meets on the first Monday of every month.",
];

async fn estimate(client: &mut Client, spec: TransformSpec, texts: &[&str]) -> GenerationEstimate {
    let request = EstimateRequest {
        spec: Some(spec),
        items: items(texts),
    };
    client.estimate(request).await.unwrap().into_inner().estimate.unwrap()
}

/// Texts, cached texts, rule-based texts, calls, maximum calls.
fn counts(estimate: &GenerationEstimate) -> (u64, u64, u64, u64, u64) {
    let e = estimate;
    (e.texts, e.cached_texts, e.texts_by_rule, e.calls, e.most_calls)
}

#[tokio::test]
async fn an_estimate_asks_nobody_stores_nothing_and_is_what_the_request_then_takes() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let config = config(&stub, home.path());
    let mut client = client(config.clone(), home.path()).await;
    let before = estimate(&mut client, paraphrase(), &TEXTS).await;
    // Equal texts are one call; three attempts are allowed.
    assert_eq!(counts(&before), (4, 0, 0, 3, 9));
    assert_eq!(before.generator_id, "stub");
    assert_eq!(stub.calls(), 0);
    assert_eq!(service(config.clone(), home.path()).cache_stats().entries, 0);
    // A second estimate gives the same result.
    assert_eq!(estimate(&mut client, paraphrase(), &TEXTS).await, before);

    let made = transform(&mut client, paraphrase(), &TEXTS[..2]).await;
    assert_eq!((stub.calls(), made.usage.unwrap().generator_calls), (2, 2));
    assert_eq!(
        counts(&estimate(&mut client, paraphrase(), &TEXTS).await),
        (4, 3, 0, 1, 3)
    );
    transform(&mut client, paraphrase(), &TEXTS).await;
    assert_eq!(stub.calls(), before.calls as usize, "what was told");
    let after = estimate(&mut client, paraphrase(), &TEXTS).await;
    assert_eq!(counts(&after), (4, 4, 0, 0, 0));
    assert_eq!((after.prompt_tokens, after.generated_tokens), (0, 0));
    // Another process on the same cache gives the same estimate; another seed, attempt or prompt
    // does not.
    let mut other = client_of(service(config, home.path())).await;
    assert_eq!(estimate(&mut other, paraphrase(), &TEXTS).await, after);
    let seed = TransformSpec {
        seed: Some(7),
        ..paraphrase()
    };
    assert_eq!(estimate(&mut other, seed, &TEXTS).await.calls, 3);
    let bypassing = TransformSpec {
        bypass_cache: true,
        ..paraphrase()
    };
    assert_eq!(counts(&estimate(&mut other, bypassing, &TEXTS).await), (4, 0, 0, 3, 9));
    assert_eq!(stub.calls(), 3);
}

#[tokio::test]
async fn a_text_whose_next_attempt_is_missing_is_not_cached() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    stub.mark("hopeless", [Answer::Text("...".into())]);
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let texts = ["This text is hopeless and never comes back in one piece."];
    let attempts = |most| TransformSpec {
        max_attempts: Some(most),
        ..paraphrase()
    };
    transform(&mut client, attempts(2), &texts).await;
    assert_eq!(stub.calls(), 2);
    // It failed permanently with two attempts: nothing would be requested again.
    assert_eq!(
        counts(&estimate(&mut client, attempts(2), &texts).await),
        (1, 1, 0, 0, 0)
    );
    // With four attempts there are two left.
    assert_eq!(
        counts(&estimate(&mut client, attempts(4), &texts).await),
        (1, 0, 0, 1, 2)
    );
    transform(&mut client, attempts(4), &texts).await;
    assert_eq!(stub.calls(), 4);
}

#[tokio::test]
async fn the_second_call_of_a_text_whose_first_is_cached_is_one_call() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let texts = &TEXTS[..1];
    let into_german = spec(Kind::Translation(Translation {
        target_language: Some("de".into()),
        seed_rank: None,
    }));
    let and_back = spec(Kind::Backtranslation(Backtranslation {
        pivot_language: Some("de".into()),
    }));
    let fresh = estimate(&mut client, and_back.clone(), texts).await;
    assert_eq!(counts(&fresh), (1, 0, 0, 2, 6));
    let one_call = estimate(&mut client, into_german.clone(), texts).await;
    assert_eq!(counts(&one_call), (1, 0, 0, 1, 3));
    assert!(fresh.prompt_tokens > one_call.prompt_tokens && one_call.prompt_tokens > 10);
    transform(&mut client, into_german, texts).await;
    let calls = stub.calls() as u64;
    let rest = estimate(&mut client, and_back.clone(), texts).await;
    // The result of the first call may fail its check later; then all attempts are still available.
    assert_eq!((rest.calls, rest.most_calls), (1, 5), "{rest:?}");
    assert_eq!(stub.calls() as u64, calls);
}

#[tokio::test]
async fn what_needs_no_generator_is_told_apart() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let by_rule = spec(Kind::RandomKeywords(RandomKeywords::default()));
    let told = estimate(&mut client, by_rule, &TEXTS).await;
    assert_eq!(counts(&told), (4, 0, 4, 0, 0));
    assert_eq!((told.generator_id.as_str(), told.cost), ("", None));
    assert_eq!(
        counts(&estimate(&mut client, paraphrase(), &["", TEXTS[0]]).await),
        (2, 0, 1, 1, 3)
    );
    let several = spec(Kind::Distractors(Distractors { count: Some(8) }));
    let single = estimate(&mut client, paraphrase(), &TEXTS[..1]).await.generated_tokens;
    let told = estimate(&mut client, several, &TEXTS[..1]).await;
    assert_eq!(told.generated_tokens, 8 * single);
    assert!(told.most_generated_tokens > told.generated_tokens);
    let cuts = spec(Kind::Continuation(Continuation {
        stride: Some(5),
        cuts: Some(4),
    }));
    let told = estimate(&mut client, cuts, &TEXTS[..1]).await;
    assert_eq!((told.calls, told.generated_tokens, told.most_calls), (4, 20, 12));
    assert_eq!(stub.calls(), 0);
}

#[tokio::test]
async fn prices_make_it_money_and_without_them_the_cost_is_unknown_not_nothing() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let mut config = config(&stub, home.path());
    let mut unpriced = client(config.clone(), home.path()).await;
    let told = estimate(&mut unpriced, paraphrase(), &TEXTS).await;
    assert_eq!((told.cost, told.most_cost, told.prompt_price), (None, None, None));
    config.generators.get_mut("stub").unwrap().budget = BudgetConfig {
        prompt_price: 2.0,
        generated_price: 8.0,
        ..BudgetConfig::default()
    };
    let mut priced = client(config, home.path()).await;
    let told = estimate(&mut priced, paraphrase(), &TEXTS).await;
    let cost = (told.prompt_tokens * 2 + told.generated_tokens * 8) as f64 / 1e6;
    assert!((told.cost.unwrap() - cost).abs() < 1e-12 && cost > 0.0);
    let most = (told.most_prompt_tokens * 2 + told.most_generated_tokens * 8) as f64 / 1e6;
    assert!((told.most_cost.unwrap() - most).abs() < 1e-12 && most > 3.0 * cost);
    // The actual usage stays below the bound.
    let used = transform(&mut priced, paraphrase(), &TEXTS).await.usage.unwrap();
    assert!(used.tokens > 0 && used.generated_tokens <= told.most_generated_tokens);
    assert_eq!(used.generator_calls, told.calls);
}

#[tokio::test]
async fn while_guards_may_ask_again_a_text_is_not_cached() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    stub.mark(
        "seven",
        [Answer::Text(
            "A train leaves for town at nine o'clock in the evening.".into(),
        )],
    );
    let mut client = client(config(&stub, home.path()), home.path()).await;
    let texts = ["The train to the town leaves at 7 in the evening, not at seven in the morning."];
    let warn = transform(&mut client, paraphrase(), &texts).await;
    assert!(!warn.results[0].guards.is_empty(), "{warn:?}");
    let retry = TransformSpec {
        guards: GuardMode::Retry.into(),
        ..paraphrase()
    };
    let told = estimate(&mut client, retry.clone(), &texts).await;
    assert_eq!(counts(&told), (1, 0, 0, 1, 2));
    let calls = stub.calls();
    transform(&mut client, retry.clone(), &texts).await;
    assert!(stub.calls() > calls);
    assert_eq!(estimate(&mut client, retry, &texts).await.calls, 0);
}

#[tokio::test]
async fn an_estimate_beside_the_request_itself_spoils_neither() {
    let home = tempfile::tempdir().unwrap();
    let slow = Answer::Slow(std::time::Duration::from_millis(150), Box::new(Answer::Good));
    let stub = Stub::start(slow).await;
    let service = service(config(&stub, home.path()), home.path());
    let (mut one, mut two) = (client_of(service.clone()).await, client_of(service).await);
    let working = tokio::spawn(async move { transform(&mut one, paraphrase(), &TEXTS).await });
    while stub.calls() == 0 {
        tokio::task::yield_now().await;
    }
    let told = estimate(&mut two, paraphrase(), &TEXTS).await;
    assert!(told.calls <= 3);
    let made = working.await.unwrap();
    assert_eq!(made.summary.unwrap().ok, 4);
    assert_eq!(stub.calls(), 3, "calls in flight are neither broken off nor repeated");
}

#[tokio::test]
async fn a_wrong_request_is_refused_as_transform_refuses_it() {
    let home = tempfile::tempdir().unwrap();
    let stub = Stub::start(Answer::Good).await;
    let mut client = client(config(&stub, home.path()), home.path()).await;
    for (spec, texts) in [
        (TransformSpec::default(), &TEXTS[..1]),
        (paraphrase(), &[][..]),
        (
            TransformSpec {
                generator_id: "nobody".into(),
                ..paraphrase()
            },
            &TEXTS[..1],
        ),
    ] {
        let request = EstimateRequest {
            spec: Some(spec.clone()),
            items: items(texts),
        };
        let said = Fault::from_status(&client.estimate(request).await.unwrap_err());
        let same = crate::support::try_transform(&mut client, spec, texts)
            .await
            .unwrap_err();
        assert_eq!((said.code, said.message), (same.code, same.message));
    }
}
