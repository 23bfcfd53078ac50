//! Tests charges against a model of the ledger. Whatever the outcome of a request, its caller pays
//! at least for the provider's work and at most the reservation.
#![allow(clippy::unwrap_used)]

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use isomer_adapters::{AddressGuard, GuardConfig, Surroundings};
use isomer_proto::{
    encoder::v1::{EncodeRequest, encode_request::Prompt},
    gateway::v1::{Provider, ProviderKind, ProviderLimits},
};
use isomer_service_kit::tenant::COMMON;
use isomer_stubs::{
    http::{Call, Reply, Stub},
    openai, request,
};
use isomer_usage::Count;
use parking_lot::Mutex;
use rand::{Rng, SeedableRng, rngs::SmallRng};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use super::most;
use crate::routing::{Router, RoutingConfig};

const REQUESTS: u64 = 10_000;
const AT_ONCE: usize = 64;

/// Tokens that the stub counted, by request number.
type Ledger = Arc<Mutex<HashMap<u64, u64>>>;

/// Counts like the tokenizers of common models: one token per four bytes or so, and special tokens.
fn tokens(text: &str) -> u64 {
    text.len() as u64 / 4 + 2
}

/// Texts contain the number of their request: `#17 …`.
fn number(text: &str) -> Option<u64> {
    text.split_once('#')?.1.split(' ').next()?.parse().ok()
}

fn vector(text: &str) -> Vec<f32> {
    let turn = text.len() as f32;
    vec![turn.cos(), turn.sin()]
}

/// Answers one batch with a random outcome, and counts the texts that it encoded.
fn answer(call: &Call, ledger: &Ledger, chance: &Mutex<SmallRng>) -> Reply {
    let texts = openai::inputs(&call.body);
    let Some(number) = texts.iter().find_map(|text| number(text)) else {
        // The gateway's own probes.
        return Reply::ok(openai::embeddings(&call.body, vector, 1));
    };
    let used = texts.iter().map(|text| tokens(text)).sum::<u64>();
    let works = || *ledger.lock().entry(number).or_default() += used;
    let good = || openai::embeddings(&call.body, vector, used);
    let chance = chance.lock().random_range(0..100);
    if chance >= 16 {
        works();
    }
    match chance {
        0..4 => Reply::of(400, json!({"error": {"message": "this text is too long"}})),
        4..8 => Reply::of(500, json!({"error": {"message": "out of order"}})),
        8..12 => Reply::of(503, json!({})),
        12..16 => Reply::of(429, json!({})).header("retry-after", "0"),
        16..20 => Reply::never(),
        20..24 => Reply::ok(json!({"data": []})),
        24..28 => Reply::text(200, "no JSON"),
        28..32 => {
            let mut ragged = good();
            ragged["data"][0]["embedding"] = json!([1.0, 2.0, 3.0]);
            Reply::ok(ragged)
        }
        32..36 => {
            let mut silent = good();
            silent["usage"] = json!(null);
            Reply::ok(silent)
        }
        36..42 => Reply::ok(good()).after(Duration::from_millis(chance)),
        _ => Reply::ok(good()),
    }
}

fn provider(id: &str, stub: &Stub) -> Provider {
    Provider {
        id: id.to_owned(),
        kind: ProviderKind::Openai.into(),
        address: stub.address.clone(),
        encoders: [("e".to_owned(), "theirs".to_owned())].into(),
        price_per_million_tokens: 2.0,
        limits: Some(ProviderLimits {
            max_batch_items: 3,
            ..ProviderLimits::default()
        }),
        ..Provider::default()
    }
}

async fn router(providers: Vec<Provider>) -> Router {
    let surroundings = Surroundings {
        guard: AddressGuard::new(&GuardConfig {
            allow: vec!["127.0.0.1".to_owned()],
        })
        .unwrap(),
        max_message_bytes: 1 << 20,
    };
    let config = RoutingConfig {
        breaker_failures: u32::MAX,
        hedge_after_ms: Some(30),
        // Each attempt is repeated as often as permitted.
        retry_ratio: 1.0,
        retries_per_second: 1e9,
        // Each part has its own attempts.
        part_tokens: 60,
        health_interval_ms: 3_600_000,
        probe_interval_seconds: 0,
        ..RoutingConfig::default()
    };
    let (_, listed) = watch::channel(providers.into());
    let connect = move |provider: &Provider| isomer_adapters::connect(provider, &surroundings);
    Router::new(config, None, Vec::new(), listed, connect).await
}

/// A request, and how long its caller waits.
struct Case {
    request: EncodeRequest,
    deadline: Option<Duration>,
    leaves_after: Option<Duration>,
}

fn case(number: u64, chance: &mut SmallRng) -> Case {
    let texts = (0..chance.random_range(1..12)).map(|index| {
        let length = chance.random_range(0..60);
        format!("#{number} {index} {}", "word ".repeat(length / 5))
    });
    let texts: Vec<String> = texts.collect();
    let prompt = chance
        .random_bool(0.2)
        .then(|| Prompt::LiteralPrompt("query ".repeat(chance.random_range(1..20))));
    let mut soon = |share| {
        let millis = chance.random_range(0..60);
        chance.random_bool(share).then(|| Duration::from_millis(millis))
    };
    Case {
        request: EncodeRequest {
            prompt,
            ..request::encode("e", texts)
        },
        // Some answers never come, so every caller has a deadline.
        deadline: Some(soon(0.2).unwrap_or(Duration::from_secs(2))),
        leaves_after: soon(0.1),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_pays_what_the_provider_did_and_at_most_what_was_reserved() {
    let ledger = Ledger::default();
    let mut stubs = Vec::new();
    for seed in 0..2 {
        let (ledger, chance) = (Arc::clone(&ledger), Mutex::new(SmallRng::seed_from_u64(seed)));
        stubs.push(Stub::start(move |call| answer(call, &ledger, &chance)).await);
    }
    let providers = stubs.iter().enumerate();
    let router = router(
        providers
            .map(|(index, stub)| provider(&format!("p{index}"), stub))
            .collect(),
    )
    .await;
    let mut chance = SmallRng::seed_from_u64(47);
    let cases: Vec<(u64, Case)> = (0..REQUESTS)
        .map(|number| (number, case(number, &mut chance)))
        .collect();
    let (router, ledger_of) = (&router, &ledger);
    let settled = stream::iter(cases).map(|(number, case)| async move {
        let reserved = most::of_encode(router, &case.request);
        let count = Count::default();
        let deadline = case.deadline.map(|deadline| Instant::now() + deadline);
        let call = count.scope(router.encode(case.request, &COMMON, deadline));
        let answered = timeout(case.leaves_after.unwrap_or(Duration::MAX), call).await;
        (number, reserved, count, matches!(answered, Ok(Ok(_))))
    });
    let settled: Vec<_> = settled.buffer_unordered(AT_ONCE).collect().await;
    let ledger = ledger_of.lock().clone();
    let (mut answered, mut in_part) = (0, 0);
    for (number, reserved, count, is_answered) in settled {
        let (used, open, _) = count.snapshot();
        let counted = ledger.get(&number).copied().unwrap_or_default();
        assert_eq!(
            (open.tokens, open.cost_nano_usd),
            (0, 0),
            "request {number} is left open"
        );
        assert!(
            used.tokens >= counted,
            "request {number}: {} of {counted} charged",
            used.tokens
        );
        assert!(
            used.tokens <= reserved.tokens && used.cost_nano_usd <= reserved.cost_nano_usd,
            "request {number}: {used:?} charged, {reserved:?} reserved"
        );
        assert!(
            used.cost_nano_usd >= 2_000 * counted,
            "request {number}: {used:?} for {counted} tokens"
        );
        answered += u64::from(is_answered);
        in_part += u64::from(!is_answered && counted > 0);
    }
    // Both kinds must be common, or the test shows nothing.
    assert!(
        answered > REQUESTS / 4 && in_part > REQUESTS / 20,
        "{answered} answered, {in_part} in part"
    );
}
