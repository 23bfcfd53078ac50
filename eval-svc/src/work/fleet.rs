//! Sends the requests of a run to the workers of a fleet.

use std::sync::Arc;

use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use isomer_fleet::{Answer, Claimant, Dispatcher, Kind, Lane, Overview, Unit, WorkerInfo};
use isomer_proto::{
    common::v1::Usage,
    encoder::v1::{EncodeRequest, EncodeResponse, Encoder},
    transform::v1::{
        JudgeRequest, JudgeResponse, TextItem, TransformSpec, TransformStreamEnd, transform_stream_response::Event,
    },
};
use isomer_retention::Holder;
use isomer_service_kit::Fault;
use prost::Message;

use super::{
    Batching, LocalEngine, Producer, RequestKind, WorkEngine,
    wire::{EncodeUnit, JudgeUnit, TransformUnit, Transformed},
};

/// Texts of one unit of generation. Finished texts are stored one by one, so a worker that dies
/// loses at most those in progress.
const TEXTS: usize = 32;
/// Pairs of one unit of rating.
const PAIRS: usize = 16;

/// Queues requests and reads their answers.
#[derive(Debug, Clone)]
pub(crate) struct FleetEngine {
    dispatcher: Dispatcher,
    /// The class of arithmetic of this process.
    class: Arc<str>,
    own: LocalEngine,
    /// The run that the requests belong to, if another replica may continue it.
    run: Option<Claimant>,
}

impl FleetEngine {
    /// Requests that need no generator go to `own`.
    pub(crate) fn new(dispatcher: Dispatcher, class: &str, own: LocalEngine) -> Self {
        Self {
            dispatcher,
            class: class.into(),
            own,
            run: None,
        }
    }

    /// The lane of a generator. A model in the worker's process must compute in the class of this
    /// process, so that its texts are those that this process would generate.
    fn lane(&self, kind: Kind, producer: &Producer) -> Lane {
        Lane {
            kind,
            of: format!("{} {}", producer.generator, producer.key),
            class: if producer.local {
                self.class.to_string()
            } else {
                String::new()
            },
            max_in_flight: 0,
            // A model in the worker's process has no limits to share.
            limit: if producer.local {
                String::new()
            } else {
                producer.key.clone()
            },
        }
    }
}

fn unreadable(error: &prost::DecodeError) -> Fault {
    Fault::internal(format!("the answer of a unit of work cannot be read: {error}"))
}

impl WorkEngine for FleetEngine {
    fn of_run(&self, run: &str) -> Arc<dyn WorkEngine> {
        Arc::new(Self {
            run: Some(Claimant::new(run)),
            ..self.clone()
        })
    }

    /// The claim of a unit says which run counted it.
    fn recounts_encoding(&self) -> bool {
        true
    }

    fn for_holder(&self, holder: &Holder) -> Arc<dyn WorkEngine> {
        Arc::new(Self {
            dispatcher: self.dispatcher.for_holder(holder),
            own: self.own.held_by(holder),
            ..self.clone()
        })
    }

    fn describe_workers(&self) -> BoxFuture<'static, Result<Option<String>, Fault>> {
        let (dispatcher, class) = (self.dispatcher.clone(), Arc::clone(&self.class));
        async move {
            let workers = dispatcher.queue().workers().await?;
            Ok(Some(workers_in_words(&workers, &class)))
        }
        .boxed()
    }

    fn overview(&self) -> BoxFuture<'static, Result<Option<Overview>, Fault>> {
        let dispatcher = self.dispatcher.clone();
        async move { Ok(Some(dispatcher.queue().overview().await?)) }.boxed()
    }

    fn wait_for_cancellations(&self) -> BoxFuture<'static, ()> {
        let dispatcher = self.dispatcher.clone();
        async move { dispatcher.wait_for_cancellations().await }.boxed()
    }

    fn batching(&self, piece: RequestKind, own: Batching) -> Batching {
        let items = match piece {
            RequestKind::Transform => TEXTS,
            RequestKind::Judge => PAIRS,
            RequestKind::Encode => own.items,
        };
        Batching {
            items: own.items.min(items),
            in_flight: self.dispatcher.queue().config().units_in_flight,
        }
    }

    fn transform(
        &self,
        producer: &Producer,
        spec: TransformSpec,
        items: Vec<TextItem>,
    ) -> BoxStream<'static, Result<Event, Fault>> {
        if producer.generator.is_empty() {
            return self.own.transform(producer, spec, items);
        }
        let request = TransformUnit {
            expected: producer.into(),
            // The default of the worker may be another generator.
            spec: TransformSpec {
                generator_id: producer.generator.clone(),
                ..spec
            },
            items,
        };
        let unit = Unit::new(
            self.lane(Kind::Transform, producer),
            &[],
            request.encode_to_vec().into(),
        );
        let (dispatcher, run) = (self.dispatcher.clone(), self.run.clone());
        let asked = async move {
            let found = dispatcher.request_for(run.as_ref(), unit).await?;
            let answer = Transformed::decode(found.content.clone()).map_err(|error| unreadable(&error))?;
            Ok::<_, Fault>(events(answer, &found))
        };
        stream::once(asked)
            .flat_map(|events| match events {
                Ok(events) => stream::iter(events).map(Ok).boxed(),
                Err(fault) => stream::once(async { Err(fault) }).boxed(),
            })
            .boxed()
    }

    fn judge(&self, producer: &Producer, request: JudgeRequest) -> BoxFuture<'static, Result<JudgeResponse, Fault>> {
        let request = JudgeUnit {
            expected: producer.into(),
            request: JudgeRequest {
                generator_id: producer.generator.clone(),
                ..request
            },
        };
        let unit = Unit::new(self.lane(Kind::Judge, producer), &[], request.encode_to_vec().into());
        let (dispatcher, run) = (self.dispatcher.clone(), self.run.clone());
        async move {
            let found = dispatcher.request_for(run.as_ref(), unit).await?;
            let mut answer = JudgeResponse::decode(found.content).map_err(|error| unreadable(&error))?;
            if found.counted {
                answer.usage = None;
                let producers = answer
                    .ratings
                    .iter_mut()
                    .filter_map(|rating| rating.provenance.as_mut());
                producers.for_each(|provenance| provenance.cache_hit = true);
            }
            Ok(answer)
        }
        .boxed()
    }

    fn encode(&self, encoder: &Encoder, request: EncodeRequest) -> BoxFuture<'static, Result<EncodeResponse, Fault>> {
        let space = encoder.vector_space.clone().unwrap_or_default();
        let lane = Lane {
            kind: Kind::Encode,
            of: format!("{} {}", encoder.id, space.digest),
            class: self.class.to_string(),
            max_in_flight: 0,
            limit: String::new(),
        };
        let unit = EncodeUnit { space, request };
        let unit = Unit::new(lane, &[], unit.encode_to_vec().into());
        let (dispatcher, run) = (self.dispatcher.clone(), self.run.clone());
        async move {
            let found = dispatcher.request_for(run.as_ref(), unit).await?;
            let mut answer = EncodeResponse::decode(found.content).map_err(|error| unreadable(&error))?;
            if found.counted {
                answer.usage = None;
            }
            Ok(answer)
        }
        .boxed()
    }
}

/// Describes the workers of a run.
fn workers_in_words(workers: &[WorkerInfo], class: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let count = |n: usize| {
        if n == 1 {
            "1 worker".to_owned()
        } else {
            format!("{n} workers")
        }
    };
    let (of_version, others): (Vec<_>, Vec<_>) = workers.iter().partition(|worker| worker.version == version);
    let other_class = of_version.iter().filter(|worker| worker.class != class).count();
    let at_once = Kind::ALL.map(|kind| {
        let most: usize = of_version.iter().filter_map(|worker| worker.kinds.get(&kind)).sum();
        format!("{kind} {most}")
    });
    let mut words = format!(
        "{} (units at once: {}); encoders and local generators run in the class {class}",
        count(of_version.len()),
        at_once.join(", ")
    );
    if other_class > 0 {
        words.push_str(&format!(
            "; {} of another class: remote generators only",
            count(other_class)
        ));
    }
    if !others.is_empty() {
        words.push_str(&format!(
            "; not used, of another version than {version}: {}",
            count(others.len())
        ));
    }
    words
}

/// An answer as the events of a transform service's stream.
fn events(answer: Transformed, found: &Answer) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::with_capacity(answer.results.len() + 1);
    for mut result in answer.results {
        if found.counted {
            result.usage = None;
            if let Some(provenance) = &mut result.provenance {
                provenance.cache_hit = true;
            }
        }
        events.push(Event::Result(result));
    }
    let usage = if found.counted { Usage::default() } else { answer.usage };
    events.push(Event::End(TransformStreamEnd {
        usage: Some(usage),
        ..TransformStreamEnd::default()
    }));
    events
}
