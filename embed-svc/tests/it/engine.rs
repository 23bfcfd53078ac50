//! The queue under load: bounded, cancellable, aware of deadlines.

use std::{
    path::Path,
    sync::{Arc, Barrier},
    task::Poll,
    time::{Duration, Instant},
};

use futures::poll;
use isomer_embed::{
    EmbedError,
    device::Device,
    engine::{Engine, Limits, Priority, Replica},
    model::Model,
};
use isomer_service_kit::Fault;
use isomer_stubs::{promise::promised, wait::until};
use tokio::task::JoinHandle;

use crate::common::{HIDDEN, tiny};

/// A model whose only thread is held until `release`.
struct BlockedModel {
    engine: Arc<Engine>,
    model: Arc<Model>,
    gate: Arc<Barrier>,
}

impl BlockedModel {
    fn new(folder: &Path, limits: Limits) -> Self {
        tiny(folder);
        let model = Arc::new(Model::load(folder, &Device::Cpu).unwrap());
        let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
        let replica = Replica {
            model: model.clone(),
            pool: pool.clone(),
            interactive: pool.clone(),
        };
        let engine = Arc::new(Engine::start("tiny", vec![replica], limits).unwrap());
        let gate = Arc::new(Barrier::new(2));
        let held = gate.clone();
        pool.spawn(move || {
            held.wait();
        });
        Self { engine, model, gate }
    }

    /// Submits a text; when this returns, the text is in the queue or refused.
    async fn send(&self, tokens: usize, deadline: Option<Duration>) -> JoinHandle<Result<Vec<f32>, EmbedError>> {
        let engine = self.engine.clone();
        let deadline = deadline.map(|after| Instant::now() + after);
        let mut answer = Box::pin(async move {
            let text = vec![vec![9u32; tokens].into()];
            let encoded = engine.encode(text, Priority::Interactive, deadline).await;
            encoded.map(|encoded| encoded.outputs.text_vectors)
        });
        match poll!(&mut answer) {
            Poll::Ready(answer) => tokio::spawn(std::future::ready(answer)),
            Poll::Pending => tokio::spawn(answer),
        }
    }

    /// Submits a text with as many tokens as a batch takes, and waits until the model's thread has
    /// taken it.
    async fn send_and_start(&self) -> JoinHandle<Result<Vec<f32>, EmbedError>> {
        let sent = self.send(LIMITS.batch_tokens, None).await;
        until("the batch is taken", || self.engine.queued_tokens() == 0).await;
        sent
    }

    fn release(&self) {
        self.gate.wait();
    }
}

const LIMITS: Limits = Limits {
    batch_tokens: 20,
    queued_tokens: 30,
};

#[tokio::test]
async fn a_full_queue_refuses_with_a_retry_hint_and_serves_again_when_it_has_room() {
    let folder = tempfile::tempdir().unwrap();
    let held = BlockedModel::new(folder.path(), LIMITS);
    let running = held.send_and_start().await;
    let waiting = held.send(25, None).await;
    let error = held.send(10, None).await.await.unwrap().unwrap_err();
    assert!(
        matches!(error, EmbedError::Overloaded { queued_tokens: 25, .. }),
        "{error}"
    );
    let fault = Fault::from(error);
    promised("EncoderService.Encode RESOURCE_EXHAUSTED OVERLOADED", &fault);
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
    assert!(held.send(10, None).await.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_cancelled_request_makes_room_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let held = BlockedModel::new(folder.path(), LIMITS);
    let running = held.send_and_start().await;
    let cancelled = held.send(25, None).await;
    cancelled.abort();
    assert!(cancelled.await.unwrap_err().is_cancelled());
    // The request waits and is not refused.
    let next = held.send(25, None).await;
    held.release();
    assert!(running.await.unwrap().is_ok());
    assert!(next.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_passed_deadline_is_answered_without_waiting_for_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let held = BlockedModel::new(folder.path(), LIMITS);
    let running = held.send_and_start().await;
    let late = held.send(5, Some(Duration::from_millis(50))).await.await.unwrap();
    assert!(matches!(late, Err(EmbedError::DeadlineExceeded)));
    held.release();
    assert!(running.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_request_is_cut_into_pieces_and_put_together_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let held = BlockedModel::new(folder.path(), LIMITS);
    held.release();
    let texts: Vec<Vec<u32>> = (1..40u32).map(|n| vec![n; 1 + n as usize % 7]).collect();
    let encoded = held
        .engine
        .encode(texts.iter().cloned().map(Into::into).collect(), Priority::Batch, None)
        .await
        .unwrap();
    assert_eq!(encoded.outputs.text_vectors, held.model.encode(&texts).unwrap());
}

/// Replicas that share a model, each with its own thread.
fn replicas(folder: &Path, device: &Device, count: usize) -> (Arc<Engine>, Arc<Model>, Vec<Arc<rayon::ThreadPool>>) {
    tiny(folder);
    let model = Arc::new(Model::load(folder, device).unwrap());
    let pool = || Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    let pools: Vec<_> = (0..count).map(|_| pool()).collect();
    let replica = |pool: &Arc<rayon::ThreadPool>| Replica {
        model: model.clone(),
        pool: pool.clone(),
        interactive: pool.clone(),
    };
    let limits = Limits {
        batch_tokens: 64,
        queued_tokens: 1 << 20,
    };
    let engine = Engine::start("tiny", pools.iter().map(replica).collect(), limits).unwrap();
    (Arc::new(engine), model, pools)
}

/// Texts of one client, different from every other's.
fn texts(client: u32) -> Vec<Vec<u32>> {
    (0..12)
        .map(|i| {
            (0..1 + (client * 5 + i * 7) % 20)
                .map(|j| (client + 3 * i + 11 * j) % 61)
                .collect()
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_replicas_share_a_queue_and_give_the_vectors_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, model, pools) = replicas(folder.path(), &Device::Cpu, 2);
    // Only one replica works: the other's thread is held. Its lane still takes a batch, so its
    // answers wait.
    let gate = Arc::new(Barrier::new(2));
    let held = gate.clone();
    pools[0].spawn(move || {
        held.wait();
    });
    let ask = |client: u32| {
        let engine = engine.clone();
        tokio::spawn(async move {
            let texts = texts(client).into_iter().map(Into::into).collect();
            engine
                .encode(texts, Priority::Interactive, None)
                .await
                .unwrap()
                .outputs
                .text_vectors
        })
    };
    let answers: Vec<_> = (0..40).map(ask).collect();
    until("the other one goes on", || engine.batches()[1] >= 10).await;
    assert_eq!(engine.batches()[0], 0, "it is held");
    gate.wait();
    for (client, answer) in answers.into_iter().enumerate() {
        let expected = model.encode(&texts(client as u32)).unwrap();
        assert_eq!(answer.await.unwrap(), expected, "client {client}");
    }
    assert!(engine.batches()[0] >= 1, "the held batch was answered");
}

#[tokio::test]
async fn a_panic_fails_its_batch_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, model, _) = replicas(folder.path(), &Device::Cpu, 2);
    for round in 0..6u32 {
        // An id beyond the table: requests are validated before they get here.
        let beyond = vec![vec![1_000_000u32].into()];
        let error = engine.encode(beyond, Priority::Interactive, None).await.unwrap_err();
        assert!(error.to_string().contains("panicked on a batch"), "{error}");
        let good: Vec<_> = texts(round).into_iter().map(Into::into).collect();
        let answer = engine.encode(good, Priority::Interactive, None).await.unwrap();
        assert_eq!(answer.outputs.text_vectors, model.encode(&texts(round)).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_device_that_is_given_batches_ahead_answers_each_request_right() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, model, _) = replicas(folder.path(), &Device::candle(candle_core::Device::Cpu), 1);
    let ask = |client: u32| {
        let engine = engine.clone();
        tokio::spawn(async move {
            let texts = texts(client).into_iter().map(Into::into).collect();
            engine
                .encode(texts, Priority::Batch, None)
                .await
                .unwrap()
                .outputs
                .text_vectors
        })
    };
    let answers: Vec<_> = (0..30).map(ask).collect();
    for (client, answer) in answers.into_iter().enumerate() {
        let answer = answer.await.unwrap();
        let expected = model.encode(&texts(client as u32)).unwrap();
        assert_eq!(answer.len(), expected.len());
        let close = answer.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(close, "client {client}");
    }
}
