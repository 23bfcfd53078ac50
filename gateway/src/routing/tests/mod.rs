//! Tests the router over backends with scripted behaviour. The clock is paused, so that a pause of
//! the machine cannot make a provider slow or a health check late.
#![allow(clippy::unwrap_used)]

mod bad_texts;
mod exchanged;
mod outside_numbers;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use isomer_adapters::{EncoderBackend, billed_answer};
use isomer_database::Database;
use isomer_encoder_client::client::estimate;
use isomer_proto::{
    common::v1::{Dtype, ItemError, Matrix, Usage, VectorSpace},
    encoder::v1::{
        CountTokensRequest, CountTokensResponse, EncodeRequest, EncodeResponse, Encoder, RerankRequest, RerankResponse,
        input,
    },
    gateway::v1::Provider,
};
use isomer_service_kit::{Fault, tenant::COMMON};
use isomer_stubs::wait::{found, until};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tonic::Code;

use super::{ConfiguredEncoders, Memory, Router, RoutingConfig};

/// The behaviour of a fake provider.
#[derive(Debug, Clone, Default)]
struct Behaviour {
    /// Represents the weights: another number gives other vectors.
    weights: u32,
    /// Whether it reports the digest of its weights.
    tells: bool,
    fails: Option<Code>,
    hangs: bool,
    takes: Duration,
    takes_a_text: Duration,
    /// Texts that it cannot encode. It answers a request with such a text with this code.
    cannot: Option<(Code, &'static [&'static str])>,
    /// It cannot encode texts with this beginning either.
    cannot_begin: Option<&'static str>,
    /// Random difference of its vectors from one answer to the next.
    noise: f32,
    /// The text on which it fails once.
    fails_once_on: Option<&'static str>,
    sick: bool,
    /// Does not answer health checks.
    silent: bool,
    /// Does not report whether it truncated texts.
    cuts_untold: bool,
    /// Accepts encoder ids that no provider lists.
    open: bool,
    /// Number of tokens that it reports, whatever the request.
    tokens_told: Option<u64>,
}

#[derive(Debug, Default)]
struct Fake {
    manner: Mutex<Behaviour>,
    asked: AtomicUsize,
    texts: AtomicUsize,
    dropped: Arc<AtomicUsize>,
}

impl Fake {
    fn new(weights: u32) -> Arc<Self> {
        let manner = Behaviour {
            weights,
            tells: true,
            ..Behaviour::default()
        };
        Arc::new(Self {
            manner: Mutex::new(manner),
            ..Self::default()
        })
    }

    fn set(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.manner.lock());
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Counts calls that ended without an answer.
struct Watch(Arc<AtomicUsize>, bool);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.fetch_add(usize::from(!self.1), Ordering::SeqCst);
    }
}

impl Behaviour {
    fn refuses<'a>(&self, mut texts: impl Iterator<Item = &'a str>) -> Result<(), Fault> {
        let begins = |text: &str| self.cannot_begin.is_some_and(|bad| text.starts_with(bad));
        let (code, bad) = self.cannot.unwrap_or((Code::Unavailable, &[]));
        match texts.any(|text| bad.contains(&text) || begins(text)) {
            true => Err(answered(code)),
            false => Ok(()),
        }
    }
}

/// A failure that a provider answered.
fn answered(code: Code) -> Fault {
    Fault::new(code, "TOLD_TO", "it answered 500").with("http_status", "500")
}

fn vector(weights: u32, text: &str) -> [f32; 2] {
    turned(weights, text, 0.0)
}

fn turned(weights: u32, text: &str, by: f32) -> [f32; 2] {
    let turn = weights as f32 + text.len() as f32 / 100.0 + by;
    [turn.cos(), turn.sin()]
}

#[tonic::async_trait]
impl EncoderBackend for Fake {
    async fn list(&self) -> Result<Vec<Encoder>, Fault> {
        Ok(Vec::new())
    }

    fn is_open(&self) -> bool {
        self.manner.lock().open
    }

    async fn get(&self, id: &str) -> Result<Encoder, Fault> {
        Ok(Encoder {
            id: id.to_owned(),
            ..Encoder::default()
        })
    }

    async fn encode(&self, request: EncodeRequest, _: Option<Instant>) -> Result<EncodeResponse, Fault> {
        let sent = estimate(&request);
        billed_answer("fake", sent, self.answer(request)).await
    }

    async fn count_tokens(&self, _: CountTokensRequest, _: Option<Instant>) -> Result<CountTokensResponse, Fault> {
        Err(Fault::unimplemented("no"))
    }

    async fn rerank(&self, request: RerankRequest, _: Option<Instant>) -> Result<RerankResponse, Fault> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let manner = self.manner.lock().clone();
        manner.refuses(request.documents.iter().map(String::as_str))?;
        Ok(RerankResponse::default())
    }

    async fn healthy(&self) -> Result<(), Fault> {
        let manner = self.manner.lock().clone();
        if manner.hangs || manner.silent {
            std::future::pending::<()>().await;
        }
        if manner.sick {
            Err(Fault::unavailable("SICK", "not well"))
        } else {
            Ok(())
        }
    }
}

impl Fake {
    async fn answer(&self, request: EncodeRequest) -> Result<EncodeResponse, Fault> {
        let manner = self.manner.lock().clone();
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.texts.fetch_add(request.inputs.len(), Ordering::SeqCst);
        let mut watch = Watch(Arc::clone(&self.dropped), false);
        if manner.hangs {
            std::future::pending::<()>().await;
        }
        sleep(manner.takes + manner.takes_a_text * request.inputs.len() as u32).await;
        watch.1 = true;
        if let Some(code) = manner.fails {
            return Err(Fault::new(code, "TOLD_TO", "it was told to fail"));
        }
        let texts: Vec<&str> = request
            .inputs
            .iter()
            .map(|one| match &one.input {
                Some(input::Input::Text(text)) => text.as_str(),
                _ => "",
            })
            .collect();
        manner.refuses(texts.iter().copied())?;
        if manner.fails_once_on.is_some_and(|text| texts.contains(&text)) {
            self.set(|manner| manner.fails_once_on = None);
            return Err(Fault::unavailable("TOLD_TO", "it was told to fail once"));
        }
        let errors = (0..)
            .zip(&texts)
            .filter(|(_, text)| **text == "bad")
            .map(|(index, _)| ItemError {
                index,
                code: Code::InvalidArgument.into(),
                message: "bad".to_owned(),
            });
        Ok(EncodeResponse {
            embeddings: Some(Matrix {
                rows: texts.len() as u32,
                cols: 2,
                dtype: Dtype::F32.into(),
                data: texts
                    .iter()
                    .flat_map(|text| turned(manner.weights, text, manner.noise * self.asked() as f32))
                    .flat_map(f32::to_le_bytes)
                    .collect(),
            }),
            token_counts: texts.iter().map(|text| text.len() as u32).collect(),
            truncated: texts
                .iter()
                .filter(|_| !manner.cuts_untold)
                .map(|text| text.len() > 4)
                .collect(),
            errors: errors.collect(),
            vector_space: Some(VectorSpace {
                weights_digest: if manner.tells {
                    format!("{:064}", manner.weights)
                } else {
                    String::new()
                },
                pooling: "mean".to_owned(),
                ..VectorSpace::default()
            }),
            usage: Some(Usage {
                tokens: manner
                    .tokens_told
                    .unwrap_or_else(|| texts.iter().map(|text| text.len() as u64).sum()),
                ..Usage::default()
            }),
            ..EncodeResponse::default()
        })
    }
}

struct Scene {
    router: Router,
    registry: watch::Sender<Arc<[Provider]>>,
}

fn provider(id: &str, encoder: &str) -> Provider {
    Provider {
        id: id.to_owned(),
        encoders: [(encoder.to_owned(), encoder.to_owned())].into(),
        price_per_million_tokens: 2.0,
        ..Provider::default()
    }
}

/// A router over fakes that all offer encoder `e`.
async fn scene(config: RoutingConfig, fakes: &[(&str, &Arc<Fake>)]) -> Scene {
    scene_with(config, None, fakes).await
}

async fn scene_with(config: RoutingConfig, memory: Option<Arc<Memory>>, fakes: &[(&str, &Arc<Fake>)]) -> Scene {
    let by_id: BTreeMap<String, Arc<Fake>> = fakes
        .iter()
        .map(|(id, fake)| ((*id).to_owned(), Arc::clone(fake)))
        .collect();
    let list: Vec<Provider> = fakes.iter().map(|(id, _)| provider(id, "e")).collect();
    let (registry, providers) = watch::channel(list.into());
    let connect = move |provider: &Provider| -> Result<Arc<dyn EncoderBackend>, Fault> {
        match by_id.get(&provider.id) {
            Some(fake) => Ok(Arc::<Fake>::clone(fake)),
            None => Err(Fault::invalid("provider.address", "nobody there")),
        }
    };
    Scene {
        router: Router::new(config, memory, Vec::new(), providers, connect).await,
        registry,
    }
}

fn states(scene: &Scene) -> Vec<&'static str> {
    let providers = scene.router.provider_health();
    providers.iter().map(|(_, health, _)| health.state).collect()
}

/// A configuration without a cache, so that every request is sent, and without warm-up, so that
/// shares are even.
fn plain() -> RoutingConfig {
    RoutingConfig {
        cache_bytes: 0,
        warmup_seconds: 0,
        health_interval_ms: 50,
        health_timeout_ms: 50,
        breaker_first_ms: 20,
        breaker_longest_ms: 40,
        // Probes are off: they are requests too, and the tests count requests.
        probe_interval_seconds: 0,
        ..RoutingConfig::default()
    }
}

fn with_cache() -> RoutingConfig {
    RoutingConfig {
        cache_bytes: 1 << 20,
        ..plain()
    }
}

fn request(texts: &[&str]) -> EncodeRequest {
    isomer_stubs::request::encode("e", texts.iter().copied())
}

fn rows(response: &EncodeResponse) -> Vec<[f32; 2]> {
    let values: Vec<f32> = response
        .embeddings
        .as_ref()
        .unwrap()
        .data
        .as_chunks::<4>()
        .0
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes))
        .collect();
    values.as_chunks::<2>().0.to_vec()
}

#[tokio::test(start_paused = true)]
async fn requests_are_shared_by_replicas_and_answers_are_priced() {
    let (a, b) = (Fake::new(1), Fake::new(1));
    let scene = scene(plain(), &[("a", &a), ("b", &b)]).await;
    for _ in 0..200 {
        let answer = scene.router.encode(request(&["four"]), &COMMON, None).await.unwrap();
        assert_eq!(rows(&answer.response), [vector(1, "four")]);
        assert_eq!(answer.cost_nano_usd, 8_000);
    }
    // Plus one request each, for the comparison of their spaces.
    assert_eq!(a.asked() + b.asked(), 202);
    assert!(a.asked() > 60 && b.asked() > 60, "{} and {}", a.asked(), b.asked());
}

#[tokio::test(start_paused = true)]
async fn a_failing_replica_costs_no_caller_anything_and_gets_a_rest() {
    let (a, b) = (Fake::new(1), Fake::new(1));
    let scene = scene(plain(), &[("a", &a), ("b", &b)]).await;
    scene.router.encode(request(&["warm"]), &COMMON, None).await.unwrap();
    a.set(|manner| manner.fails = Some(Code::Unavailable));
    let begun = Instant::now();
    for _ in 0..100 {
        scene.router.encode(request(&["x"]), &COMMON, None).await.unwrap();
    }
    // At most one trial per 20 ms, plus the requests that open the breaker.
    let trials = begun.elapsed().as_millis() as usize / 20;
    assert!(
        a.asked() < 20 + trials,
        "the breaker let {} requests through",
        a.asked()
    );
    a.set(|manner| manner.fails = None);
    sleep(Duration::from_millis(100)).await;
    let before = a.asked();
    for _ in 0..100 {
        scene.router.encode(request(&["x"]), &COMMON, None).await.unwrap();
    }
    assert!(a.asked() > before + 20, "it did not come back");
}

#[tokio::test(start_paused = true)]
async fn the_requests_own_fault_is_told_at_once_and_rests_nobody() {
    let (a, b) = (Fake::new(1), Fake::new(1));
    let scene = scene(plain(), &[("a", &a), ("b", &b)]).await;
    scene.router.encode(request(&["warm"]), &COMMON, None).await.unwrap();
    for fake in [&a, &b] {
        fake.set(|manner| manner.fails = Some(Code::InvalidArgument));
    }
    let before = a.asked() + b.asked();
    for _ in 0..20 {
        let fault = scene.router.encode(request(&["x"]), &COMMON, None).await.unwrap_err();
        assert_eq!(fault.code, Code::InvalidArgument);
    }
    assert_eq!(a.asked() + b.asked(), before + 20, "no retries");
    assert_eq!(states(&scene), ["healthy", "healthy"]);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_hanging_replica_is_sent_to_the_other_once_its_health_fails() {
    let (a, b) = (Fake::new(1), Fake::new(1));
    let scene = scene(plain(), &[("a", &a), ("b", &b)]).await;
    scene.router.encode(request(&["warm"]), &COMMON, None).await.unwrap();
    a.set(|manner| manner.hangs = true);
    let begun = Instant::now();
    let all = (0..40).map(|_| scene.router.encode(request(&["x"]), &COMMON, None));
    for answer in futures::future::join_all(all).await {
        assert_eq!(rows(&answer.unwrap().response), [vector(1, "x")]);
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert!(
        a.dropped.load(Ordering::SeqCst) > 0,
        "some had been sent to the hanging one"
    );
}

#[tokio::test(start_paused = true)]
async fn where_all_are_silent_what_waits_goes_on_waiting() {
    for others in [0, 1] {
        let fakes = [Fake::new(1), Fake::new(1)];
        let all: Vec<(&str, &Arc<Fake>)> = ["a", "b"].into_iter().zip(&fakes).take(1 + others).collect();
        let scene = scene(plain(), &all).await;
        scene.router.encode(request(&["warm"]), &COMMON, None).await.unwrap();
        let asked = || fakes.iter().map(|fake| fake.asked()).sum::<usize>();
        let before = asked();
        for fake in &fakes {
            fake.set(|manner| {
                manner.silent = true;
                manner.takes = Duration::from_secs(1);
            });
        }
        let all = (0..40).map(|_| scene.router.encode(request(&["x"]), &COMMON, None));
        for answer in futures::future::join_all(all).await {
            assert_eq!(rows(&answer.unwrap().response), [vector(1, "x")]);
        }
        assert_eq!(asked(), before + 40, "each once");
        assert!(states(&scene).iter().all(|state| *state == "unhealthy"));
    }
}

#[tokio::test(start_paused = true)]
async fn of_those_that_are_out_the_one_last_well_is_asked() {
    let (a, b) = (Fake::new(1), Fake::new(1));
    let scene = scene(plain(), &[("a", &a), ("b", &b)]).await;
    scene.router.encode(request(&["warm"]), &COMMON, None).await.unwrap();
    for fake in [&a, &b] {
        fake.set(|manner| manner.sick = true);
        sleep(Duration::from_millis(500)).await;
    }
    let before = a.asked();
    for _ in 0..20 {
        scene.router.encode(request(&["x"]), &COMMON, None).await.unwrap();
    }
    assert_eq!(a.asked(), before);
}

#[tokio::test(start_paused = true)]
async fn a_hedge_answers_for_a_slow_replica_and_its_call_is_dropped() {
    let (a, b) = (Fake::new(1), Fake::new(1));
    let config = RoutingConfig {
        hedge_after_ms: Some(20),
        ..plain()
    };
    let scene = scene(config, &[("a", &a), ("b", &b)]).await;
    scene.router.encode(request(&["warm"]), &COMMON, None).await.unwrap();
    a.set(|manner| manner.takes = Duration::from_secs(60));
    for _ in 0..20 {
        let begun = Instant::now();
        scene.router.encode(request(&["x"]), &COMMON, None).await.unwrap();
        assert!(begun.elapsed() < Duration::from_millis(50), "{:?}", begun.elapsed());
    }
    assert!(a.dropped.load(Ordering::SeqCst) > 0);
}

#[tokio::test(start_paused = true)]
async fn a_replica_many_times_as_slow_is_left_alone() {
    let (a, b) = (Fake::new(1), Fake::new(1));
    let scene = scene(plain(), &[("a", &a), ("b", &b)]).await;
    a.set(|manner| manner.takes = Duration::from_millis(400));
    b.set(|manner| manner.takes = Duration::from_millis(2));
    for _ in 0..50 {
        scene.router.encode(request(&["x"]), &COMMON, None).await.unwrap();
    }
    // One request for the comparison of the two, and one if it is drawn first. In that case the
    // other is tried next.
    assert!(a.asked() <= 2, "{}", a.asked());
    assert!(b.asked() >= 50, "{}", b.asked());
}

#[tokio::test(start_paused = true)]
async fn a_replica_of_other_weights_is_never_asked_for_anybody() {
    for tells in [true, false] {
        let (a, b) = (Fake::new(1), Fake::new(2));
        for fake in [&a, &b] {
            fake.set(|manner| manner.tells = tells);
        }
        let scene = scene(plain(), &[("a", &a), ("b", &b)]).await;
        for _ in 0..50 {
            let answer = scene.router.encode(request(&["x"]), &COMMON, None).await.unwrap();
            assert_eq!(rows(&answer.response), [vector(1, "x")]);
        }
        assert_eq!(b.asked(), 1, "the comparison alone");
        let (id, why) = scene.router.refusals().remove(0);
        assert!(id == "e" && why.contains("`a`") && why.contains("`b`"), "{why}");
        a.set(|manner| manner.fails = Some(Code::Unavailable));
        let fault = scene.router.encode(request(&["x"]), &COMMON, None).await.unwrap_err();
        assert_eq!(fault.code, Code::Unavailable, "not answered from the other space");
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_is_refused_where_its_encoder_is_served_from_other_weights() {
    let (a, b, same) = (Fake::new(1), Fake::new(2), Fake::new(1));
    let by_id = BTreeMap::from([
        ("a", Arc::clone(&a)),
        ("b", Arc::clone(&b)),
        ("same", Arc::clone(&same)),
    ]);
    let (_registry, providers) = watch::channel(vec![provider("a", "e")].into());
    let connect = move |provider: &Provider| -> Result<Arc<dyn EncoderBackend>, Fault> {
        Ok(Arc::<Fake>::clone(&by_id[provider.id.as_str()]))
    };
    let router = Router::new(plain(), None, Vec::new(), providers, connect).await;
    let fault = router.admit(&provider("b", "e")).await.unwrap_err();
    assert_eq!(
        (fault.code, fault.reason.as_str()),
        (Code::FailedPrecondition, "OTHER_SPACE")
    );
    assert_eq!(fault.field.as_deref(), Some("provider.encoders[e]"));
    assert!(
        fault.message.contains("`a`") && fault.message.contains("`b`"),
        "{fault}"
    );
    router.admit(&provider("same", "e")).await.unwrap();
    router.admit(&provider("b", "another")).await.unwrap();
    // A new version of the same provider does not conflict with the old version.
    router.admit(&provider("a", "e")).await.unwrap();
    same.set(|manner| manner.fails = Some(Code::Unavailable));
    let fault = router.admit(&provider("same", "e")).await.unwrap_err();
    assert_eq!(fault.reason, "NOT_COMPARABLE");
}

#[tokio::test(start_paused = true)]
async fn a_provider_whose_vectors_change_is_noticed_by_the_probe() {
    let fake = Fake::new(1);
    fake.set(|manner| manner.tells = false);
    let config = RoutingConfig {
        probe_interval_seconds: 1,
        ..plain()
    };
    let scene = scene(config, &[("a", &fake)]).await;
    scene.router.encode(request(&["x"]), &COMMON, None).await.unwrap();
    sleep(Duration::from_millis(2500)).await;
    fake.set(|manner| manner.weights = 2);
    sleep(Duration::from_millis(2500)).await;
    let fault = scene.router.encode(request(&["x"]), &COMMON, None).await.unwrap_err();
    assert_eq!(
        (fault.code, fault.reason.as_str()),
        (Code::FailedPrecondition, "OTHER_SPACE")
    );
    // An update is consent.
    let mut changed = provider("a", "e");
    changed.etag = "2".to_owned();
    scene.registry.send(vec![changed].into()).unwrap();
    sleep(Duration::from_millis(200)).await;
    let answer = scene.router.encode(request(&["x"]), &COMMON, None).await.unwrap();
    assert_eq!(rows(&answer.response), [vector(2, "x")]);
}

#[tokio::test]
async fn a_provider_that_was_exchanged_while_no_gateway_ran_is_noticed() {
    let database = Database::open("sqlite::memory:").await.unwrap();
    let config = RoutingConfig {
        probe_interval_seconds: 3600,
        ..plain()
    };
    let until_kept = async |count: i64| {
        let kept = async || {
            let query = sqlx::query_scalar("SELECT COUNT(*) FROM fingerprints");
            let kept: i64 = query.fetch_one(database.pool()).await.unwrap();
            (kept == count).then_some(())
        };
        found("the fingerprints are in the database", kept).await;
    };
    let start = async |fake: &Arc<Fake>| {
        let memory = Memory::open(database.clone()).await.unwrap();
        let scene = scene_with(config.clone(), Some(memory), &[("a", fake)]).await;
        let _ = scene.router.encode(request(&["x"]), &COMMON, None).await;
        // The gateway checks an unchecked provider in parallel with the first requests.
        until("the provider is looked at", || fake.asked() > 1).await;
        // A comparison that this test awaits.
        scene.router.shared.table().route("e").unwrap().probe().await;
        until_kept(1).await;
        let then = scene.router.encode(request(&["x"]), &COMMON, None).await;
        (scene, then)
    };
    let weights = |weights| {
        let fake = Fake::new(weights);
        fake.set(|manner| manner.tells = false);
        fake
    };
    assert!(start(&weights(1)).await.1.is_ok());
    assert!(start(&weights(1)).await.1.is_ok());
    let (scene, refused) = start(&weights(2)).await;
    let fault = refused.unwrap_err();
    assert_eq!(fault.reason, "OTHER_SPACE");
    // Deleting it and registering it again is consent, also across another restart.
    scene.registry.send(Vec::new().into()).unwrap();
    until_kept(0).await;
    drop(scene);
    assert!(start(&weights(2)).await.1.is_ok());
    assert!(start(&weights(1)).await.1.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_other_weights_reaches_nobody() {
    let (a, b) = (Fake::new(1), Fake::new(1));
    let scene = scene(plain(), &[("a", &a), ("b", &b)]).await;
    scene.router.encode(request(&["warm"]), &COMMON, None).await.unwrap();
    b.set(|manner| manner.weights = 2);
    for _ in 0..50 {
        let answer = scene.router.encode(request(&["x"]), &COMMON, None).await.unwrap();
        assert_eq!(rows(&answer.response), [vector(1, "x")]);
    }
    assert_eq!(scene.router.refusals().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn whether_texts_were_cut_is_kept_and_never_made_up() {
    let fake = Fake::new(1);
    let scene = scene(with_cache(), &[("a", &fake)]).await;
    let cut = async |texts: &[&str]| {
        let answer = scene.router.encode(request(texts), &COMMON, None).await.unwrap();
        answer.response.truncated
    };
    assert_eq!(cut(&["one", "twotwo"]).await, [false, true]);
    assert_eq!(cut(&["twotwo"]).await, [true], "out of the cache");
    fake.set(|manner| manner.cuts_untold = true);
    // An answer reports truncation for all of its texts or for none.
    assert!(cut(&["three"]).await.is_empty());
    assert!(cut(&["three", "one"]).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn texts_are_encoded_once_among_requests_and_kept() {
    let fake = Fake::new(1);
    fake.set(|manner| manner.takes = Duration::from_millis(100));
    let scene = scene(with_cache(), &[("a", &fake)]).await;
    let both = ["one", "twotwo", "one"];
    let many = (0..30).map(|_| scene.router.encode(request(&both), &COMMON, None));
    for answer in futures::future::join_all(many).await {
        let response = answer.unwrap().response;
        assert_eq!(rows(&response), both.map(|text| vector(1, text)));
        assert_eq!(response.token_counts, [3, 6, 3]);
        assert_eq!(response.usage.unwrap().texts, 3);
    }
    assert_eq!(fake.texts.load(Ordering::SeqCst), 2, "each text once");
    let again = scene
        .router
        .encode(request(&["twotwo", "three"]), &COMMON, None)
        .await
        .unwrap();
    assert_eq!(rows(&again.response), [vector(1, "twotwo"), vector(1, "three")]);
    let usage = again.response.usage.unwrap();
    assert_eq!((usage.tokens, usage.cached_texts), (5, 1));
    // Another prompt gives another vector.
    let prompted = EncodeRequest {
        normalise: Some(true),
        ..request(&["one"])
    };
    scene.router.encode(prompted, &COMMON, None).await.unwrap();
    assert_eq!(fake.texts.load(Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn a_request_without_texts_is_refused_whether_answers_are_kept_or_not() {
    for config in [plain(), with_cache()] {
        let fake = Fake::new(1);
        let scene = scene(config, &[("a", &fake)]).await;
        let fault = scene.router.encode(request(&[]), &COMMON, None).await.unwrap_err();
        assert_eq!(
            (fault.code, fault.field.as_deref()),
            (Code::InvalidArgument, Some("inputs"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn failures_are_not_kept_and_a_caller_that_leaves_harms_no_other() {
    let fake = Fake::new(1);
    fake.set(|manner| manner.takes = Duration::from_millis(100));
    let scene = scene(with_cache(), &[("a", &fake)]).await;
    let response = scene
        .router
        .encode(request(&["bad", "good"]), &COMMON, None)
        .await
        .unwrap()
        .response;
    assert_eq!(response.errors.len(), 1);
    let response = scene
        .router
        .encode(request(&["good", "bad"]), &COMMON, None)
        .await
        .unwrap()
        .response;
    assert_eq!(response.errors[0].index, 1);
    assert_eq!(fake.texts.load(Ordering::SeqCst), 3, "the bad one is asked again");
    let router = scene.router.clone();
    let leaver = tokio::spawn(async move { router.encode(request(&["shared"]), &COMMON, None).await });
    sleep(Duration::from_millis(20)).await;
    let router = scene.router.clone();
    let waiter = tokio::spawn(async move { router.encode(request(&["shared"]), &COMMON, None).await });
    sleep(Duration::from_millis(20)).await;
    leaver.abort();
    assert_eq!(rows(&waiter.await.unwrap().unwrap().response), [vector(1, "shared")]);
}

#[tokio::test(start_paused = true)]
async fn the_registry_is_followed_and_unknown_ids_are_told_the_known_ones() {
    let (a, b) = (Fake::new(1), Fake::new(1));
    let scene = scene(plain(), &[("a", &a), ("b", &b)]).await;
    scene
        .registry
        .send(vec![provider("b", "f"), provider("nowhere", "g")].into())
        .unwrap();
    sleep(Duration::from_millis(200)).await;
    let fault = scene.router.encode(request(&["x"]), &COMMON, None).await.unwrap_err();
    assert_eq!(
        (fault.code, fault.field.as_deref()),
        (Code::NotFound, Some("encoder_id"))
    );
    assert!(fault.hint.unwrap().contains("f, g"));
    let long = "n".repeat(4097);
    let fault = scene.router.get(&long, None).await.unwrap_err();
    assert_eq!(
        (fault.code, fault.field.as_deref()),
        (Code::InvalidArgument, Some("encoder_id"))
    );
    assert!(!fault.message.contains(&long), "the id is not quoted");
    let asked = EncodeRequest {
        encoder_id: "g".to_owned(),
        ..request(&["x"])
    };
    let fault = scene.router.encode(asked, &COMMON, None).await.unwrap_err();
    assert!(
        fault.message.contains("nobody there"),
        "what is wrong with the provider is said: {fault}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_single_provider_that_rests_is_refused_quickly_with_a_time_to_come_back() {
    let fake = Fake::new(1);
    let config = RoutingConfig {
        breaker_first_ms: 10_000,
        breaker_longest_ms: 10_000,
        ..plain()
    };
    let scene = scene(config, &[("a", &fake)]).await;
    fake.set(|manner| manner.fails = Some(Code::Unavailable));
    for _ in 0..10 {
        scene.router.encode(request(&["x"]), &COMMON, None).await.unwrap_err();
    }
    let before = fake.asked();
    let fault = scene.router.encode(request(&["x"]), &COMMON, None).await.unwrap_err();
    assert_eq!((fault.code, fake.asked()), (Code::Unavailable, before));
    assert!(fault.retry_after.is_some() && fault.message.contains("`a`"), "{fault}");
}

/// A router over one encoder in this process.
async fn own(config: RoutingConfig, fake: &Arc<Fake>) -> Router {
    let (_providers, none) = watch::channel(Vec::new().into());
    let fixed = ConfiguredEncoders {
        name: "this process".to_owned(),
        backend: fake.clone(),
        remote: false,
    };
    let refuse = |_: &Provider| Err(Fault::internal("no providers here"));
    Router::new(config, None, vec![fixed], none, refuse).await
}

#[tokio::test(start_paused = true)]
async fn work_in_this_process_takes_its_time_and_is_not_repeated() {
    let impatient = RoutingConfig {
        attempt_timeout_ms: 50,
        ..plain()
    };
    let fake = Fake::new(1);
    fake.set(|manner| {
        manner.takes = Duration::from_millis(300);
        manner.open = true;
    });
    let router = own(impatient.clone(), &fake).await;
    let answer = router.encode(request(&["slow"]), &COMMON, None).await.unwrap();
    assert_eq!((rows(&answer.response).len(), fake.asked()), (1, 1));
    // Work that fails once would fail again.
    fake.set(|manner| {
        manner.takes = Duration::ZERO;
        manner.fails = Some(Code::Internal);
    });
    let fault = router.encode(request(&["broken"]), &COMMON, None).await.unwrap_err();
    assert_eq!((fault.code, fake.asked()), (Code::Internal, 2));
    // A provider elsewhere is limited by the attempt's timeout.
    let far = Fake::new(1);
    far.set(|manner| manner.takes = Duration::from_millis(300));
    let scene = scene(impatient, &[("a", &far)]).await;
    let fault = scene
        .router
        .encode(request(&["slow"]), &COMMON, None)
        .await
        .unwrap_err();
    assert_eq!((fault.reason.as_str(), far.asked()), ("ATTEMPT_TIMEOUT", 3));
}

/// Texts of four estimated tokens each.
fn many(count: usize) -> EncodeRequest {
    let texts: Vec<String> = (0..count).map(|number| format!("text number {number:04}")).collect();
    request(&texts.iter().map(String::as_str).collect::<Vec<_>>())
}

#[tokio::test(start_paused = true)]
async fn a_long_request_to_a_slow_provider_is_answered_in_parts() {
    let slow = Fake::new(1);
    slow.set(|manner| manner.takes_a_text = Duration::from_secs(1));
    // A hundred seconds of work, more than one attempt may take.
    let whole = RoutingConfig {
        part_tokens: 0,
        ..plain()
    };
    let refused = scene(whole, &[("a", &slow)])
        .await
        .router
        .encode(many(100), &COMMON, None)
        .await;
    assert_eq!(refused.unwrap_err().reason, "ATTEMPT_TIMEOUT");
    slow.texts.store(0, Ordering::SeqCst);
    let parts = RoutingConfig {
        part_tokens: 40,
        ..plain()
    };
    let here = scene(parts.clone(), &[("a", &slow)]).await;
    let answer = here.router.encode(many(100), &COMMON, None).await.unwrap().response;
    let expected: Vec<u8> = (0..100)
        .flat_map(|_| vector(1, "text number 0000"))
        .flat_map(f32::to_le_bytes)
        .collect();
    assert_eq!(answer.embeddings.unwrap().data, expected);
    assert_eq!((answer.token_counts.len(), answer.usage.unwrap().tokens), (100, 1600));
    assert_eq!(slow.texts.load(Ordering::SeqCst), 100, "each text once");

    // Parts that were answered are kept: only the part that failed is repeated.
    slow.set(|manner| manner.fails_once_on = Some("text number 0055"));
    slow.texts.store(0, Ordering::SeqCst);
    here.router.encode(many(100), &COMMON, None).await.unwrap();
    assert_eq!(slow.texts.load(Ordering::SeqCst), 110);

    // A request that fails in the end leaves its finished parts in the cache for the next one.
    let cached = RoutingConfig {
        cache_bytes: 1 << 20,
        attempts: 1,
        ..parts
    };
    let here = scene(cached, &[("a", &slow)]).await;
    slow.set(|manner| manner.fails_once_on = Some("text number 0099"));
    slow.texts.store(0, Ordering::SeqCst);
    assert_eq!(
        here.router.encode(many(100), &COMMON, None).await.unwrap_err().reason,
        "TOLD_TO"
    );
    here.router.encode(many(100), &COMMON, None).await.unwrap();
    assert_eq!(slow.texts.load(Ordering::SeqCst), 110);
}

#[tokio::test(start_paused = true)]
async fn one_that_answers_others_meanwhile_is_busy_and_has_not_failed() {
    let (queued, silent) = (Fake::new(1), Fake::new(1));
    let config = RoutingConfig {
        attempts: 1,
        attempt_timeout_ms: 500,
        ..plain()
    };
    let here = scene(config, &[("a", &queued)]).await;
    let failed = |here: &Scene| here.router.provider_health()[0].1.failed;
    // The first request waits behind the second, as in a queue.
    queued.set(|manner| manner.hangs = true);
    let (first, ()) = tokio::join!(here.router.encode(request(&["a"]), &COMMON, None), async {
        sleep(Duration::from_millis(100)).await;
        queued.set(|manner| manner.hangs = false);
        here.router.encode(request(&["b"]), &COMMON, None).await.unwrap();
    });
    assert_eq!(
        (first.unwrap_err().reason.as_str(), failed(&here)),
        ("ATTEMPT_TIMEOUT", 0)
    );
    // A provider that answers no request has failed.
    silent.set(|manner| manner.takes = Duration::from_secs(5));
    let config = RoutingConfig {
        attempts: 1,
        attempt_timeout_ms: 500,
        ..plain()
    };
    let there = scene(config, &[("a", &silent)]).await;
    there.router.encode(request(&["a"]), &COMMON, None).await.unwrap_err();
    assert_eq!(failed(&there), 1);
}
