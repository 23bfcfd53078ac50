//! Makes variants that an answer lacked after the answer, for the next request.
//!
//! A search query cannot wait for a generator. So a request may take the available variants
//! (`AUGMENTATION_MODE_CACHED`, or a budget) and leave the rest to this queue. The queue is here
//! rather than in transform-svc, because the gateway knows whose key pays. Finished variants are in
//! the caches of transform-svc. The queue itself is in memory and is lost with the process; the
//! next request enqueues its texts again.
//!
//! The number of texts is bounded, also per payer. Each text is queued once, however many requests
//! lack it, and made by one of the gateways that share a database. The queue has the lowest
//! priority at generators and encoders, and pauses while transform-svc is overloaded or
//! unavailable.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use isomer_access::{AccessScope, Caller};
use isomer_proto::{
    encoder::v1::Priority,
    transform::v1::{
        AugmentRequest, AugmentResponse, AugmentationMode, AugmentationSpec, EncodeAugmentedRequest,
        EncodeAugmentedResponse, MissingReason, PartialFailurePolicy, TextItem, Variants,
        augmentation_service_client::AugmentationServiceClient,
    },
};
use isomer_service_kit::{
    Fault,
    config::{ConfigError, Validate},
    metric_name,
    metric_names::{self, Metric},
    telemetry::unsampled,
};
use isomer_usage::{Count, sum};
use parking_lot::Mutex;
use prost::{DecodeError, Message};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::{sync::Notify, time::timeout};
use tonic::Code;
use tracing::Instrument;

use super::{Servers, claims::Claims};
use crate::{billing, tenant};

/// Texts that left the queue, by outcome (`end`).
pub(crate) const TEXTS: &str = metric_name!("gateway", "missing_variants_texts", "total");
/// Texts that wait for their missing variants.
pub(crate) const WAITING: &str = metric_name!("gateway", "missing_variants", "waiting");

pub(crate) const ALL: &[Metric] = &[
    Metric::counter(TEXTS, "Texts whose missing variants were made or not, by end."),
    Metric::gauge(
        WAITING,
        metrics::Unit::Count,
        "Texts that wait for their missing variants.",
    ),
];

/// Maximum time for the variants of one text, including the wait for a generator.
const PATIENCE: Duration = Duration::from_secs(600);
/// Pause after transform-svc was overloaded or unavailable, unless it names a pause; doubled each
/// time.
const PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How variants that an answer lacked are made after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MissingVariantsConfig {
    /// Maximum number of waiting texts; others are not made. 0: none is made.
    pub texts: usize,
    /// Maximum number of waiting texts per key.
    pub texts_per_key: usize,
    /// Calls to the transform service at once.
    pub calls: usize,
}

impl Default for MissingVariantsConfig {
    fn default() -> Self {
        Self {
            texts: 10_000,
            texts_per_key: 2_500,
            calls: 4,
        }
    }
}

impl Validate for MissingVariantsConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        if self.texts > 0 && (self.calls == 0 || self.texts_per_key == 0) {
            let field = if self.calls == 0 { "calls" } else { "texts_per_key" };
            return Err(ConfigError::new(
                field,
                "is 0, so that nothing that waits would be made",
                "give 1 or more, or set texts to 0 to make none",
            ));
        }
        if self.calls > 64 {
            return Err(ConfigError::new(
                "calls",
                format!("{} calls at once", self.calls),
                "give 64 at most: work of queries comes first",
            ));
        }
        Ok(())
    }
}

impl MissingVariantsConfig {
    /// A configuration under which no variants are made.
    pub fn none() -> Self {
        Self {
            texts: 0,
            ..Self::default()
        }
    }
}

/// The queue. Cheap to clone; its work ends when the last clone is dropped.
#[derive(Debug, Clone)]
pub(crate) struct VariantQueue(Arc<Inner>);

struct Inner {
    config: MissingVariantsConfig,
    line: Mutex<Line>,
    more: Notify,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.line.lock().waiting.len();
        f.debug_struct("VariantQueue")
            .field("waiting", &waiting)
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<VariantRequest>,
    /// Texts that wait or are being made.
    known: HashSet<[u8; 32]>,
    by_payer: HashMap<String, usize>,
}

/// The missing variants of one text.
struct VariantRequest {
    caller: Option<Caller>,
    request: AugmentRequest,
    digest: [u8; 32],
}

impl VariantRequest {
    fn payer(&self) -> &str {
        self.caller.as_ref().map_or("", Caller::principal)
    }
}

/// Whether a request leaves what it lacks to the queue.
pub(crate) fn is_wanted(spec: Option<&AugmentationSpec>) -> bool {
    spec.is_some_and(|spec| {
        let cached = spec.mode() == AugmentationMode::Cached;
        spec.make_missing.unwrap_or(cached) && !spec.bypass_cache
    })
}

/// Reads the answer of a call, so that its missing variants can be made.
pub(crate) struct VariantReader {
    queue: VariantQueue,
    caller: Option<Caller>,
    spec: AugmentationSpec,
    items: Vec<TextItem>,
    read: fn(&[u8]) -> Result<Vec<Variants>, DecodeError>,
    /// Bytes of the answer so far; `None` after it was parsed.
    answer: Option<Vec<u8>>,
}

impl VariantReader {
    /// Watches a call to the gRPC service if it leaves missing variants to the queue.
    pub(crate) fn of_call(queue: &VariantQueue, path: &str, message: &[u8], caller: Option<&Caller>) -> Option<Self> {
        // The server refuses a message that cannot be decoded.
        let (spec, items, read): (_, _, fn(&[u8]) -> _) = match path {
            "/isomer.transform.v1.AugmentationService/Augment" => {
                let request = AugmentRequest::decode(message).ok()?;
                (request.spec, request.items, |bytes| {
                    Ok(AugmentResponse::decode(bytes)?.items)
                })
            }
            "/isomer.transform.v1.AugmentationService/EncodeAugmented" => {
                let request = EncodeAugmentedRequest::decode(message).ok()?;
                (request.spec, request.items, |bytes| {
                    Ok(EncodeAugmentedResponse::decode(bytes)?.used)
                })
            }
            _ => return None,
        };
        is_wanted(spec.as_ref()).then(|| Self {
            queue: queue.clone(),
            caller: caller.cloned(),
            spec: spec.unwrap_or_default(),
            items,
            read,
            answer: Some(Vec::new()),
        })
    }

    /// Reads a part of the answer, and enqueues its missing variants when it is complete.
    pub(crate) fn read(&mut self, data: &[u8]) {
        let Some(answer) = &mut self.answer else { return };
        answer.extend_from_slice(data);
        let Some(message) = billing::answer::frame(answer) else {
            return;
        };
        if let Ok(answered) = (self.read)(message) {
            self.queue
                .take(self.caller.as_ref(), &self.spec, &self.items, &answered);
        }
        self.answer = None;
    }
}

/// The outcome of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VariantOutcome {
    Made,
    /// A generator failed, or no attempt passed its checks.
    Failed,
    /// The queue was full.
    Full,
    /// The caller's own share of the queue was full.
    KeyFull,
    /// The caller's budget does not allow it.
    Budget,
    /// The caller is no longer permitted to request it.
    Refused,
    /// transform-svc or the database was overloaded or unavailable.
    Overloaded,
    /// Another gateway makes the variants.
    Elsewhere,
}

isomer_names::names!(VariantOutcome {
    Made = "made", Failed = "failed", Full = "full", KeyFull = "key_full", Budget = "budget",
    Refused = "refused", Overloaded = "overloaded", Elsewhere = "elsewhere"
});

impl VariantOutcome {
    fn count(self) {
        metrics::counter!(TEXTS, "end" => self.name()).increment(1);
    }
}

impl VariantQueue {
    /// A queue over servers of transform-svc; `None` if the configuration disables it. With
    /// `claims`, variants that another gateway is making are left to it. Must be called inside a
    /// Tokio runtime.
    pub(crate) fn start(
        config: MissingVariantsConfig,
        transform: Servers,
        max_message_bytes: usize,
        claims: Option<Claims>,
    ) -> Option<Self> {
        if config.texts == 0 {
            return None;
        }
        metric_names::describe(ALL);
        let inner = Arc::new(Inner {
            config,
            line: Mutex::default(),
            more: Notify::new(),
        });
        let client = AugmentationServiceClient::new(transform).max_decoding_message_size(max_message_bytes);
        let pause = Arc::new(Pause::default());
        for _ in 0..config.calls {
            let worker = work(
                Arc::downgrade(&inner),
                client.clone(),
                claims.clone(),
                Arc::clone(&pause),
            );
            tokio::spawn(worker.instrument(unsampled()));
        }
        Some(Self(inner))
    }

    /// Enqueues the variants that an answer lacked because of a budget or the caches.
    pub(crate) fn take(
        &self,
        caller: Option<&Caller>,
        spec: &AugmentationSpec,
        items: &[TextItem],
        answered: &[Variants],
    ) {
        // A text that two tenants lack counts as two texts.
        let tenant = tenant::of_caller(caller).scope();
        for variants in answered {
            let Some(item) = items.get(variants.index as usize) else {
                continue;
            };
            let lacking = variants
                .missing
                .iter()
                .filter(|missing| matches!(missing.reason(), MissingReason::NotCached | MissingReason::Budget))
                .filter_map(|missing| spec.sources.get(missing.source as usize).cloned());
            let spec = AugmentationSpec {
                sources: lacking.collect(),
                k: None,
                generation_budget: None,
                mode: AugmentationMode::Always.into(),
                partial_failure: PartialFailurePolicy::UseArrived.into(),
                make_missing: None,
                cascade: None,
                priority: Priority::Batch.into(),
                ..spec.clone()
            };
            if spec.sources.is_empty() {
                continue;
            }
            // The caller's ids may differ while everything else is equal. Only variants by rule
            // depend on them, and those are never missing.
            let item = TextItem {
                id: String::new(),
                ..item.clone()
            };
            let request = AugmentRequest {
                spec: Some(spec),
                items: vec![item],
            };
            let variant = VariantRequest {
                caller: caller.cloned(),
                digest: digest(tenant.as_deref(), &request),
                request,
            };
            if let Err(end) = self.0.push(variant) {
                end.count();
            }
        }
    }
}

impl Inner {
    fn push(&self, variant: VariantRequest) -> Result<(), VariantOutcome> {
        {
            let mut line = self.line.lock();
            if line.known.contains(&variant.digest) {
                return Ok(());
            }
            if line.waiting.len() >= self.config.texts {
                return Err(VariantOutcome::Full);
            }
            let of_payer = line.by_payer.entry(variant.payer().to_owned()).or_default();
            if *of_payer >= self.config.texts_per_key {
                return Err(VariantOutcome::KeyFull);
            }
            *of_payer += 1;
            line.known.insert(variant.digest);
            line.waiting.push_back(variant);
            line.record_depth();
        }
        self.more.notify_one();
        Ok(())
    }

    fn pop(&self) -> Option<VariantRequest> {
        let mut line = self.line.lock();
        let variant = line.waiting.pop_front()?;
        line.record_depth();
        if let Some(count) = line.by_payer.get_mut(variant.payer()) {
            *count -= 1;
            if *count == 0 {
                line.by_payer.remove(variant.payer());
            }
        }
        Some(variant)
    }

    fn done(&self, variant: &VariantRequest) {
        self.line.lock().known.remove(&variant.digest);
    }
}

impl Line {
    fn record_depth(&self) {
        metrics::gauge!(WAITING).set(self.waiting.len() as f64);
    }
}

/// The digest that identifies a queued text.
fn digest(tenant: Option<&str>, request: &AugmentRequest) -> [u8; 32] {
    let hasher = Sha256::new().chain_update(tenant.unwrap_or_default());
    hasher.chain_update(request.encode_to_vec()).finalize().into()
}

/// A pause that all workers observe.
#[derive(Default)]
struct Pause(Mutex<Duration>);

impl Pause {
    /// Waits as long as a fault requests, or twice as long as before.
    async fn after(&self, fault: &Fault) {
        let wait = {
            let mut last = self.0.lock();
            *last = last.saturating_mul(2).clamp(PAUSE, LONGEST_PAUSE);
            fault.retry_after.unwrap_or(*last).clamp(PAUSE, LONGEST_PAUSE)
        };
        tokio::time::sleep(wait).await;
    }

    fn over(&self) {
        *self.0.lock() = Duration::ZERO;
    }
}

async fn work(
    queue: Weak<Inner>,
    client: AugmentationServiceClient<Servers>,
    claims: Option<Claims>,
    pause: Arc<Pause>,
) {
    loop {
        let Some(inner) = queue.upgrade() else { return };
        let Some(variant) = inner.pop() else {
            // Checks now and then whether the queue still exists.
            let more = inner.more.notified();
            let _ = timeout(Duration::from_secs(5), more).await;
            continue;
        };
        drop(inner);
        let ended = match &claims {
            None => make(&client, &variant).await,
            Some(claims) => match claims.only_here(&variant.digest, make(&client, &variant)).await {
                Ok(made) => made.unwrap_or(Ok(VariantOutcome::Elsewhere)),
                Err(fault) => Err(fault),
            },
        };
        match &ended {
            Ok(end) => end.count(),
            Err(_) => VariantOutcome::Overloaded.count(),
        }
        let Some(inner) = queue.upgrade() else { return };
        inner.done(&variant);
        drop(inner);
        match ended {
            Ok(_) => pause.over(),
            Err(fault) => pause.after(&fault).await,
        }
    }
}

/// Makes the variants of one text, and charges the caller that requested them.
///
/// # Errors
/// If transform-svc is overloaded or unavailable.
async fn make(client: &AugmentationServiceClient<Servers>, variant: &VariantRequest) -> Result<VariantOutcome, Fault> {
    let caller = variant.caller.as_ref();
    if let Some(caller) = caller
        && let Err(fault) = caller
            .still_welcome()
            .and_then(|()| caller.require(AccessScope::Transform))
    {
        return Ok(match fault.code {
            Code::ResourceExhausted => VariantOutcome::Budget,
            _ => VariantOutcome::Refused,
        });
    }
    let most = billing::most::of_augment(&variant.request);
    let Ok(Ok(_reserved)) = timeout(PATIENCE, billing::reserve(caller, &most)).await else {
        return Ok(VariantOutcome::Budget);
    };
    let mut client = client.clone();
    let request = tenant::request(caller, variant.request.clone());
    let call = async { timeout(PATIENCE, client.augment(request)).await };
    let answer = match caller.filter(|caller| caller.is_counted()) {
        None => call.await,
        Some(caller) => {
            let caller = caller.clone();
            let count = Count::telling(move |used| caller.charge(sum::charged_tokens(used), used.cost_nano_usd));
            count.scope(call).await
        }
    };
    let status = match answer {
        Err(_) => return Ok(VariantOutcome::Failed),
        Ok(Ok(answer)) => {
            let missing = answer.get_ref().items.iter().any(|item| !item.missing.is_empty());
            return Ok(if missing {
                VariantOutcome::Failed
            } else {
                VariantOutcome::Made
            });
        }
        Ok(Err(status)) => status,
    };
    let fault = Fault::from_status(&status);
    match fault.code {
        Code::ResourceExhausted | Code::Unavailable => Err(fault),
        _ => {
            tracing::warn!(error = %fault, "missing variants cannot be made");
            Ok(VariantOutcome::Failed)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use isomer_proto::transform::v1::{
        MissingVariant, VariantSource,
        augmentation_service_server::{AugmentationService, AugmentationServiceServer},
    };
    use isomer_service_kit::Services;
    use isomer_stubs::{rpc, wait::until};
    use tokio::sync::Semaphore;
    use tonic::{Request, Response, Status};

    use super::*;
    use crate::{proxy::Servers, routing::RoutingConfig};

    fn inner(texts: usize, texts_per_key: usize) -> Inner {
        Inner {
            config: MissingVariantsConfig {
                texts,
                texts_per_key,
                calls: 1,
            },
            line: Mutex::default(),
            more: Notify::new(),
        }
    }

    fn wanted(number: u8) -> VariantRequest {
        VariantRequest {
            caller: None,
            request: AugmentRequest::default(),
            digest: [number; 32],
        }
    }

    #[test]
    fn the_queue_is_bounded_and_has_each_text_once() {
        let queue = inner(2, 2);
        assert_eq!([1, 1, 2].map(|number| queue.push(wanted(number))), [Ok(()); 3]);
        assert_eq!(queue.line.lock().waiting.len(), 2);
        assert_eq!(queue.push(wanted(3)), Err(VariantOutcome::Full));
        // A text in progress is not enqueued again, and its place in the queue is free.
        let first = queue.pop().unwrap();
        assert_eq!([1, 3].map(|number| queue.push(wanted(number))), [Ok(()); 2]);
        assert_eq!(queue.line.lock().waiting.len(), 2);
        queue.done(&first);
        queue.pop().unwrap();
        assert_eq!(
            queue.push(wanted(1)),
            Ok(()),
            "it may be wanted again, after an eviction"
        );
        assert_eq!(queue.line.lock().waiting.len(), 2);
    }

    #[test]
    fn one_key_does_not_take_all_of_it() {
        let queue = inner(10, 1);
        assert_eq!(queue.push(wanted(1)), Ok(()));
        assert_eq!(queue.push(wanted(2)), Err(VariantOutcome::KeyFull));
        queue.pop().unwrap();
        assert_eq!(queue.push(wanted(2)), Ok(()));
    }

    /// A stub that is overloaded at first. Later calls wait until they are released.
    #[derive(Debug, Clone)]
    struct Busy(Arc<BusyState>);

    #[derive(Debug)]
    struct BusyState {
        calls: AtomicUsize,
        made: Mutex<Vec<AugmentRequest>>,
        released: Semaphore,
    }

    impl Busy {
        fn new(calls_before: usize) -> Self {
            Self(Arc::new(BusyState {
                calls: AtomicUsize::new(calls_before),
                made: Mutex::default(),
                released: Semaphore::new(0),
            }))
        }

        fn calls(&self) -> usize {
            self.0.calls.load(SeqCst)
        }
    }

    #[tonic::async_trait]
    impl AugmentationService for Busy {
        async fn augment(&self, request: Request<AugmentRequest>) -> Result<Response<AugmentResponse>, Status> {
            if self.0.calls.fetch_add(1, SeqCst) == 0 {
                return Err(Fault::new(Code::ResourceExhausted, "OVERLOADED", "full").into());
            }
            self.0.released.acquire().await.unwrap().forget();
            self.0.made.lock().push(request.into_inner());
            Ok(Response::new(AugmentResponse::default()))
        }

        async fn encode_augmented(
            &self,
            _: Request<EncodeAugmentedRequest>,
        ) -> Result<Response<EncodeAugmentedResponse>, Status> {
            Err(Status::unimplemented("not used"))
        }
    }

    /// Number of calls to a service if two gateways lack the variants of one text.
    async fn asked_by_two(claims: [Option<Claims>; 2]) -> usize {
        let shared = claims.iter().all(Option::is_some);
        let busy = Busy::new(1);
        let service = Services::new().add(AugmentationServiceServer::new(busy.clone()));
        let servers = Servers::here(&RoutingConfig::default(), "stub", rpc::channel(service).await);
        let queues = claims.map(|claims| {
            let config = MissingVariantsConfig::default();
            VariantQueue::start(config, servers.clone(), 1 << 20, claims).unwrap()
        });
        let spec = AugmentationSpec {
            sources: vec![VariantSource::default()],
            mode: AugmentationMode::Cached.into(),
            ..AugmentationSpec::default()
        };
        let answered = Variants {
            missing: vec![MissingVariant {
                reason: MissingReason::NotCached.into(),
                ..MissingVariant::default()
            }],
            ..Variants::default()
        };
        for (number, queue) in queues.iter().enumerate() {
            let item = TextItem {
                id: format!("of gateway {number}"),
                text: "one text".to_owned(),
                ..TextItem::default()
            };
            queue.take(None, &spec, &[item], std::slice::from_ref(&answered));
        }
        let at_work = || queues.iter().filter(|queue| !queue.0.line.lock().known.is_empty());
        if shared {
            until("one leaves it to the other", || at_work().count() < 2).await;
        } else {
            until("both ask", || busy.calls() == 3).await;
        }
        busy.0.released.add_permits(2);
        until("both are done", || at_work().count() == 0).await;
        busy.0.made.lock().len()
    }

    #[tokio::test]
    async fn of_gateways_that_share_a_database_one_asks() {
        let database = isomer_database::Database::open("sqlite::memory:").await.unwrap();
        let one = Claims::open(database.clone()).await.unwrap();
        let other = Claims::open(database).await.unwrap();
        assert_eq!(asked_by_two([Some(one), Some(other)]).await, 1);
        assert_eq!(asked_by_two([None, None]).await, 2, "those that share none both do");
    }

    #[tokio::test]
    async fn it_pauses_while_the_service_is_overloaded_and_asks_for_nothing_else_than_what_lacked() {
        let busy = Busy::new(0);
        busy.0.released.add_permits(1);
        let channel = rpc::channel(Services::new().add(AugmentationServiceServer::new(busy.clone()))).await;
        let servers = Servers::here(&RoutingConfig::default(), "stub", channel);
        let config = MissingVariantsConfig {
            calls: 1,
            ..MissingVariantsConfig::default()
        };
        let queue = VariantQueue::start(config, servers, 1 << 20, None).unwrap();
        let source = |id: &str| VariantSource {
            generator_id: id.to_owned(),
            ..VariantSource::default()
        };
        let spec = AugmentationSpec {
            sources: ["there", "failed", "late", "uncached"].map(source).into(),
            k: Some(4),
            generation_budget: Some(prost_types::Duration { seconds: 1, nanos: 0 }),
            mode: AugmentationMode::Budget.into(),
            make_missing: Some(true),
            ..AugmentationSpec::default()
        };
        let missing = |source: u32, reason: MissingReason| MissingVariant {
            source,
            reason: reason.into(),
            ..MissingVariant::default()
        };
        let answered = [0, 1, 2].map(|index| Variants {
            index,
            sources: vec![0],
            missing: match index {
                2 => vec![missing(1, MissingReason::Checks)],
                _ => vec![
                    missing(1, MissingReason::Generator),
                    missing(2, MissingReason::Budget),
                    missing(3, MissingReason::NotCached),
                ],
            },
            ..Variants::default()
        });
        let items = ["dropped", "made", "whole"].map(|text| TextItem {
            text: text.to_owned(),
            ..TextItem::default()
        });
        let began = tokio::time::Instant::now();
        queue.take(None, &spec, &items, &answered);
        until("they are made", || !busy.0.made.lock().is_empty()).await;
        assert!(began.elapsed() >= PAUSE);
        let made = busy.0.made.lock().clone();
        let [made] = made.as_slice() else { panic!("{made:?}") };
        let asked = made.spec.as_ref().unwrap();
        let sources: Vec<&str> = asked
            .sources
            .iter()
            .map(|source| source.generator_id.as_str())
            .collect();
        assert_eq!(
            (made.items[0].text.as_str(), sources),
            ("made", vec!["late", "uncached"])
        );
        assert_eq!(
            (asked.mode(), asked.priority()),
            (AugmentationMode::Always, Priority::Batch)
        );
        assert_eq!((asked.k, asked.generation_budget), (None, None));
        until("it is done", || queue.0.line.lock().known.is_empty()).await;
        assert_eq!(busy.calls(), 2);
    }

    #[test]
    fn only_the_cached_mode_leaves_it_to_the_queue_unless_told() {
        let spec = |mode: AugmentationMode, make_missing, bypass_cache| AugmentationSpec {
            mode: mode.into(),
            make_missing,
            bypass_cache,
            ..AugmentationSpec::default()
        };
        assert!(is_wanted(Some(&spec(AugmentationMode::Cached, None, false))));
        assert!(is_wanted(Some(&spec(AugmentationMode::Budget, Some(true), false))));
        assert!(!is_wanted(Some(&spec(AugmentationMode::Cached, Some(false), false))));
        assert!(!is_wanted(Some(&spec(AugmentationMode::Budget, None, false))));
        assert!(!is_wanted(Some(&spec(AugmentationMode::Cached, None, true))));
        assert!(!is_wanted(None));
    }
}
