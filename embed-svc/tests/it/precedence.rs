//! A query that arrives while a bulk batch is computed waits for at most one layer of it.

use std::{sync::Arc, time::Duration};

use futures::poll;
use isomer_embed::{
    batch::Sequence,
    device::Device,
    engine::{
        Common, Engine, Limits, Priority, Replica,
        precedence::{Event, Precedence},
    },
    model::Model,
};
use parking_lot::{Condvar, Mutex};

use crate::common::tiny;

const THREADS: usize = 2;
const LIMITS: Limits = Limits {
    batch_tokens: 1 << 14,
    queued_tokens: 1 << 20,
};
/// Maximum wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(30);

/// Past events, and the steps of the test.
#[derive(Default)]
struct Story {
    told: Mutex<StoryState>,
    changed: Condvar,
}

#[derive(Default)]
struct StoryState {
    events: Vec<Event>,
    /// Whether the query has been submitted.
    asked: bool,
    /// The precedence that is observed.
    precedence: Option<Precedence>,
}

impl Story {
    fn until(&self, mut happened: impl FnMut(&StoryState) -> bool) {
        let mut told = self.told.lock();
        while !happened(&told) {
            assert!(
                !self.changed.wait_for(&mut told, PATIENCE).timed_out(),
                "{:?}",
                told.events
            );
        }
    }

    fn tell(&self, change: impl FnOnce(&mut StoryState)) {
        change(&mut self.told.lock());
        self.changed.notify_all();
    }

    /// Number of layers that had started when an interactive batch ended, and of all layers.
    fn layers(&self) -> (usize, usize) {
        let told = self.told.lock();
        let begun = |events: &[Event]| events.iter().filter(|event| **event == Event::Layer).count();
        let ended = told.events.iter().position(|event| *event == Event::Ended);
        (
            begun(&told.events[..ended.unwrap_or(told.events.len())]),
            begun(&told.events),
        )
    }
}

/// A precedence whose layers do not start before the query has been submitted and, if it has its
/// own threads, has started; its batch is held until each thread of the bulk batch is paused.
fn observed(story: &Arc<Story>, apart: bool) -> Precedence {
    let observing = Arc::clone(story);
    let precedence = Precedence::observed(move |event| {
        observing.tell(|told| told.events.push(event));
        match event {
            Event::Layer if apart => observing.until(|told| told.events.contains(&Event::Began)),
            Event::Layer => observing.until(|told| told.asked),
            Event::Began => {
                let precedence = observing.told.lock().precedence.clone().unwrap();
                let began = std::time::Instant::now();
                while precedence.paused() < THREADS {
                    assert!(began.elapsed() < PATIENCE, "the bulk batch does not pause");
                    std::thread::yield_now();
                }
            }
            Event::Ended => {}
        }
    });
    story.tell(|told| told.precedence = Some(precedence.clone()));
    precedence
}

fn engine(model: &Arc<Model>, precedence: Precedence, apart: bool) -> Engine {
    let pool = || Arc::new(rayon::ThreadPoolBuilder::new().num_threads(THREADS).build().unwrap());
    let bulk = pool();
    let replica = Replica {
        model: Arc::clone(model),
        interactive: if apart { pool() } else { Arc::clone(&bulk) },
        pool: bulk,
    };
    let common = Common {
        precedence,
        ..Common::default()
    };
    Engine::start_beside("tiny", vec![replica], LIMITS, common).unwrap()
}

fn many() -> Vec<Vec<u32>> {
    (0..64)
        .map(|text| (0..24).map(|at| (text + 3 * at) % 61).collect())
        .collect()
}

fn sequences(texts: &[Vec<u32>]) -> Vec<Sequence> {
    texts.iter().cloned().map(Into::into).collect()
}

/// Number of a bulk batch's layers that had started when a query was answered that arrived with the
/// first of them, and the total number.
async fn begun_before_the_answer(apart: bool) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    tiny(folder.path());
    let model = Arc::new(Model::load(folder.path(), &Device::Cpu).unwrap());
    let story = Arc::new(Story::default());
    let engine = Arc::new(engine(&model, observed(&story, apart), apart));
    let (texts, query) = (many(), vec![vec![5u32, 6, 7]]);
    let bulk = {
        let (engine, texts) = (Arc::clone(&engine), sequences(&texts));
        tokio::spawn(async move { engine.encode(texts, Priority::Batch, None).await })
    };
    let begins = Arc::clone(&story);
    tokio::task::spawn_blocking(move || begins.until(|told| !told.events.is_empty()))
        .await
        .unwrap();
    let mut asked = Box::pin(engine.encode(sequences(&query), Priority::Interactive, None));
    assert!(poll!(&mut asked).is_pending(), "it is submitted");
    story.tell(|told| told.asked = true);
    let answer = asked.await.unwrap();
    let (before, _) = story.layers();
    assert_eq!(answer.outputs.text_vectors, model.encode(&query).unwrap());
    assert_eq!(
        bulk.await.unwrap().unwrap().outputs.text_vectors,
        model.encode(&texts).unwrap()
    );
    (before, story.layers().1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_waits_for_one_layer_of_a_bulk_batch_at_most() {
    let (before, all) = begun_before_the_answer(true).await;
    // Each thread has completed its current layer.
    assert!((1..=THREADS).contains(&before), "{before} of {all}");
    assert!(all >= 4 * THREADS, "{all}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_same_threads_a_query_waits_for_the_whole_batch() {
    let (before, all) = begun_before_the_answer(false).await;
    // The layers of the query are counted as well.
    assert_eq!(before, all);
    assert!(all > 4 * THREADS, "{all}");
}
