//! A unit of work belongs to the trace of the run that requested it, whichever worker executes it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use isomer_blobs::{BlobStore, StoreConfig};
use isomer_fleet::{Address, Dispatcher, Executor, FleetConfig, Kind, Lane, Queue, Unit, UnitOutput, worker};
use isomer_retention::Holds;
use isomer_service_kit::{
    Fault,
    client::carry_trace,
    telemetry::{self, TelemetryConfig},
};
use isomer_tests::fleet::Nats;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Instrument;

/// The trace that the current span belongs to.
fn trace() -> String {
    let mut headers = tonic::metadata::MetadataMap::new().into_headers();
    carry_trace(&tracing::Span::current(), &mut headers);
    let context = headers.get("traceparent").expect("a trace").to_str().unwrap();
    context.split('-').nth(1).unwrap().to_owned()
}

/// Responds with the trace of the current span.
struct TraceExecutor;

impl Executor for TraceExecutor {
    fn class(&self) -> &str {
        "x"
    }

    fn execute(
        &self,
        _unit: &Address,
        _kind: Kind,
        _request: bytes::Bytes,
        _dispatch: Option<uuid::Uuid>,
    ) -> BoxFuture<'_, Result<UnitOutput, Fault>> {
        async {
            Ok(UnitOutput {
                answer: trace().into_bytes().into(),
                cacheable: true,
            })
        }
        .boxed()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unit_belongs_to_the_trace_of_who_asked_for_it() {
    let traces = SdkTracerProvider::builder();
    let _kept = telemetry::init_with("fleet", &TelemetryConfig::default(), traces).unwrap();
    let (nats, store) = (Nats::start(), tempfile::tempdir().unwrap());
    let config = FleetConfig {
        engine: nats.url(),
        republish_seconds: 1,
        ..FleetConfig::default()
    };
    let blobs = BlobStore::open(&StoreConfig {
        url: store.path().display().to_string(),
        ..StoreConfig::default()
    })
    .unwrap()
    .unwrap();
    let queue = Queue::connect(&config).await.unwrap();
    let kinds = BTreeMap::from([(Kind::Transform, 1)]);
    let never = std::future::pending();
    let source = worker::UnitSource {
        queue,
        blobs: blobs.clone(),
    };
    let working = worker::work(source, Arc::new(TraceExecutor), kinds, never, Duration::ZERO);
    tokio::spawn(working);
    let queue = Queue::connect(&config).await.unwrap();
    let dispatcher = Dispatcher::open(queue, Holds::new(blobs)).await.unwrap();
    let ask = async |text: &'static str| {
        let lane = Lane {
            kind: Kind::Transform,
            of: "a generator".to_owned(),
            class: String::new(),
            max_in_flight: 0,
            limit: String::new(),
        };
        let unit = Unit::new(lane, &[], text.into());
        let answered = async {
            let own = trace();
            let answer = dispatcher.request(unit).await.unwrap();
            (own, String::from_utf8(answer.content.to_vec()).unwrap())
        };
        answered.instrument(tracing::info_span!(parent: None, "run")).await
    };
    let (first, worked) = ask("first").await;
    assert_eq!(worked, first);
    let (second, worked) = ask("second").await;
    assert_eq!(worked, second);
    assert_ne!(first, second, "each run has a trace of its own");
}
