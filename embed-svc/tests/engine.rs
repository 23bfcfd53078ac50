//! The queue under load: bounded, cancellable, aware of deadlines.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::{
    path::Path,
    sync::{Arc, Barrier},
    time::{Duration, Instant},
};

use common::{HIDDEN, tiny};
use isomer_embed::{
    EmbedError,
    device::Device,
    engine::{Engine, Limits, Priority},
    model::Model,
};
use isomer_service_kit::Fault;

/// A model whose only thread is held until `release`.
struct Held {
    engine: Arc<Engine>,
    model: Arc<Model>,
    gate: Arc<Barrier>,
}

impl Held {
    fn new(folder: &Path, limits: Limits) -> Self {
        tiny(folder);
        let model = Arc::new(Model::load(folder, &Device::Cpu).unwrap());
        let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
        let engine = Arc::new(Engine::start("tiny", model.clone(), limits, pool.clone()).unwrap());
        let gate = Arc::new(Barrier::new(2));
        let held = gate.clone();
        pool.spawn(move || {
            held.wait();
        });
        Self { engine, model, gate }
    }

    fn send(&self, tokens: usize, deadline: Option<Duration>) -> tokio::task::JoinHandle<Result<Vec<f32>, EmbedError>> {
        let engine = self.engine.clone();
        let deadline = deadline.map(|after| Instant::now() + after);
        tokio::spawn(async move {
            let text = vec![vec![9u32; tokens].into()];
            engine
                .encode(text, Priority::Interactive, deadline)
                .await
                .map(|encoded| encoded.vectors)
        })
    }

    fn release(&self) {
        self.gate.wait();
    }
}

/// Lets the spawned tasks and the model's thread take what they can.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

const LIMITS: Limits = Limits {
    batch_tokens: 20,
    queued_tokens: 30,
};

#[tokio::test]
async fn a_full_queue_refuses_with_a_retry_hint_and_serves_again_when_it_has_room() {
    let folder = tempfile::tempdir().unwrap();
    let held = Held::new(folder.path(), LIMITS);
    let running = held.send(20, None);
    settle().await;
    let waiting = held.send(25, None);
    settle().await;
    let error = held.send(10, None).await.unwrap().unwrap_err();
    assert!(
        matches!(error, EmbedError::Overloaded { queued_tokens: 25, .. }),
        "{error}"
    );
    let fault = Fault::from(error);
    assert_eq!(fault.code, tonic::Code::ResourceExhausted);
    assert!(
        fault
            .retry_after
            .is_some_and(|after| after >= Duration::from_millis(100))
    );
    held.release();
    assert_eq!(running.await.unwrap().unwrap().len(), HIDDEN);
    assert_eq!(
        waiting.await.unwrap().unwrap(),
        held.model.encode(&[vec![9u32; 25]]).unwrap()
    );
    assert!(held.send(10, None).await.unwrap().is_ok());
}

#[tokio::test]
async fn a_cancelled_request_makes_room_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let held = Held::new(folder.path(), LIMITS);
    let running = held.send(20, None);
    settle().await;
    let cancelled = held.send(25, None);
    settle().await;
    cancelled.abort();
    settle().await;
    let next = held.send(25, None);
    settle().await;
    assert!(!next.is_finished(), "it waits; it was not refused");
    held.release();
    assert!(running.await.unwrap().is_ok());
    assert!(next.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_passed_deadline_is_answered_without_waiting_for_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let held = Held::new(folder.path(), LIMITS);
    let running = held.send(20, None);
    settle().await;
    let started = Instant::now();
    let late = held.send(5, Some(Duration::from_millis(50))).await.unwrap();
    assert!(matches!(late, Err(EmbedError::DeadlineExceeded)));
    assert!(started.elapsed() < Duration::from_secs(5));
    held.release();
    assert!(running.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_request_is_cut_into_pieces_and_put_together_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let held = Held::new(folder.path(), LIMITS);
    held.release();
    let texts: Vec<Vec<u32>> = (1..40u32).map(|n| vec![n; 1 + n as usize % 7]).collect();
    let encoded = held
        .engine
        .encode(texts.iter().cloned().map(Into::into).collect(), Priority::Batch, None)
        .await
        .unwrap();
    assert_eq!(encoded.vectors, held.model.encode(&texts).unwrap());
}
