//! The queue: a JetStream stream with one message per subject, a durable consumer for each lane, a
//! bucket of lanes, a bucket of workers, and four subjects of core NATS: `done` (a unit completed),
//! `cancel` (stop a unit), `wanted` (does any dispatcher wait for it?) and `lane` (there is a new
//! lane).

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use async_nats::{
    Client, ConnectOptions, Subscriber,
    jetstream::{
        self, Context,
        consumer::{AckPolicy, PullConsumer, pull},
        kv,
        stream::{self, DiscardPolicy, RetentionPolicy, StorageType},
    },
};
use bytes::Bytes;
use futures::StreamExt;
use isomer_service_kit::{Fault, client::carry_trace, config::ConfigError};
use parking_lot::Mutex;
use uuid::Uuid;

use crate::{
    config::FleetConfig,
    unit::{Address, Kind, Lane, Unit, Waits},
    worker_info::{EXPIRES_AFTER, WorkerInfo},
};

/// Maximum wait for the first connection.
const CONNECTING: Duration = Duration::from_secs(10);
/// Maximum wait for an answer of the broker.
pub(crate) const ANSWER: Duration = Duration::from_secs(5);
/// How long a lane is not checked again after it was found or created.
const LANE_KNOWN: Duration = Duration::from_secs(3);
/// How long a list of workers is valid.
const WORKERS_KNOWN: Duration = Duration::from_secs(1);
/// How long other dispatchers have to answer that they wait for a unit.
const WANTED: Duration = Duration::from_millis(150);
/// Part of the broker's error if the subject already has a message.
const ALREADY: &str = "maximum messages per subject";

/// The queue cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the queue at {engine}: {what}: {message}")]
    Broker {
        /// Its address.
        engine: String,
        /// The operation that was tried.
        what: &'static str,
        /// The error it reported.
        message: String,
    },
    #[error(transparent)]
    Store(#[from] isomer_blobs::BlobError),
}

impl From<FleetError> for Fault {
    fn from(error: FleetError) -> Self {
        match error {
            FleetError::Store(error) => error.into(),
            FleetError::Config(config) => Self::precondition("FLEET_CONFIGURATION", config.to_string()),
            FleetError::Broker { .. } => Self::unavailable("QUEUE_UNAVAILABLE", error.to_string())
                .hint("check fleet.engine, and that the NATS server runs with JetStream (nats-server -js)"),
        }
    }
}

/// A connection to the queue. Cheap to clone.
#[derive(Clone)]
pub struct Queue {
    client: Client,
    jetstream: Context,
    config: Arc<FleetConfig>,
    /// When each lane was last found or created.
    known: Arc<Mutex<HashMap<String, Instant>>>,
    /// The workers, and when they were read.
    workers: Arc<Mutex<Option<(Instant, Vec<WorkerInfo>)>>>,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("engine", &self.config.engine)
            .finish_non_exhaustive()
    }
}

impl Queue {
    /// Connects, and creates the stream and buckets that are missing. Reconnects if the connection
    /// is lost later.
    ///
    /// # Errors
    /// If the broker does not answer, refuses the connection or has no JetStream, or if a cluster
    /// of brokers does not choose a leader within a minute.
    pub async fn connect(config: &FleetConfig) -> Result<Self, FleetError> {
        isomer_service_kit::tls::install_crypto();
        let failed = |what, message: String| FleetError::Broker {
            engine: config.engine.clone(),
            what,
            message,
        };
        let mut options = ConnectOptions::new()
            .name(format!("isomer {}", env!("CARGO_PKG_VERSION")))
            .connection_timeout(CONNECTING)
            .request_timeout(Some(ANSWER))
            .max_reconnects(None);
        if let Some(file) = &config.credentials_file {
            options = options.credentials_file(file).await.map_err(|error| {
                ConfigError::new(
                    "credentials_file",
                    format!("{} cannot be read: {error}", file.display()),
                    "name the .creds file of a NATS user",
                )
            })?;
        }
        if let Some(file) = &config.ca_file {
            options = options.add_root_certificates(file.clone());
        }
        let servers: Vec<&str> = config.engine.split(',').map(str::trim).collect();
        let connected = tokio::time::timeout(CONNECTING, options.connect(servers)).await;
        let client = match connected {
            Ok(connected) => connected.map_err(|error| failed("cannot connect", error.to_string()))?,
            Err(_) => {
                return Err(failed(
                    "cannot connect",
                    format!("no answer in {} s", CONNECTING.as_secs()),
                ));
            }
        };
        let mut jetstream = jetstream::new(client.clone());
        jetstream.set_timeout(ANSWER);
        let queue = Self {
            client,
            jetstream,
            config: Arc::new(config.clone()),
            known: Arc::default(),
            workers: Arc::default(),
        };
        queue.ready().await?;
        Ok(queue)
    }

    pub fn config(&self) -> &FleetConfig {
        &self.config
    }

    pub(crate) fn failed(&self, what: &'static str) -> impl Fn(String) -> FleetError + use<> {
        let engine = self.config.engine.clone();
        move |message| FleetError::Broker {
            engine: engine.clone(),
            what,
            message,
        }
    }

    fn subject(&self, lane: &str, address: &Address) -> String {
        format!("{}.work.{lane}.{address}", self.config.name)
    }

    /// The stream, created if missing.
    pub(crate) async fn stream(&self) -> Result<stream::Stream, FleetError> {
        let name = &self.config.name;
        let stream = self.jetstream.get_or_create_stream(stream::Config {
            name: format!("{name}-work"),
            description: Some("Units of Isomer's runs; the subject ends with a unit's content address".to_owned()),
            subjects: vec![format!("{name}.work.>")],
            retention: RetentionPolicy::WorkQueue,
            storage: StorageType::File,
            num_replicas: self.config.replicas,
            max_messages_per_subject: 1,
            discard: DiscardPolicy::New,
            discard_new_per_subject: true,
            ..stream::Config::default()
        });
        stream
            .await
            .map_err(|error| self.failed("cannot open the stream")(error.to_string()))
    }

    pub(crate) async fn lanes_bucket(&self) -> Result<kv::Store, FleetError> {
        let what = "Isomer's lanes: what each name stands for";
        self.bucket("lanes", what, Duration::ZERO).await
    }

    async fn runs_bucket(&self) -> Result<kv::Store, FleetError> {
        self.bucket("runs", "The units that Isomer's runs wait for", EXPIRES_AFTER)
            .await
    }

    /// Renews the record of the units for which a run waits.
    pub(crate) async fn record_run(&self, run: &str, waits: &[Waits]) -> Result<(), FleetError> {
        let bucket = self.runs_bucket().await?;
        let put = bucket.put(run, serde_json::to_vec(waits).unwrap_or_default().into());
        put.await
            .map_err(|error| self.failed("cannot record what a run waits for")(error.to_string()))?;
        Ok(())
    }

    /// Removes the record of a run that no longer waits.
    pub(crate) async fn forget_run(&self, run: &str) -> Result<(), FleetError> {
        let deleted = self.runs_bucket().await?.delete(run).await;
        deleted.map_err(|error| self.failed("cannot record that a run waits for nothing")(error.to_string()))
    }

    /// The units for which runs wait, by run.
    pub(crate) async fn runs(&self) -> Result<BTreeMap<String, Vec<Waits>>, FleetError> {
        let runs = self.all(&self.runs_bucket().await?).await?;
        Ok(runs.into_iter().map(|(run, waits, _)| (run, waits)).collect())
    }

    async fn workers_bucket(&self) -> Result<kv::Store, FleetError> {
        self.bucket("workers", "Isomer's workers that are there", EXPIRES_AFTER)
            .await
    }

    /// A bucket whose entries expire at an age (zero: never), created if missing.
    pub(crate) async fn bucket(&self, name: &str, what: &str, max_age: Duration) -> Result<kv::Store, FleetError> {
        let bucket = format!("{}-{name}", self.config.name);
        if let Ok(found) = self.jetstream.get_key_value(&bucket).await {
            return Ok(found);
        }
        let made = self.jetstream.create_key_value(kv::Config {
            bucket,
            description: what.to_owned(),
            history: 1,
            max_age,
            num_replicas: self.config.replicas,
            ..kv::Config::default()
        });
        made.await
            .map_err(|error| self.failed("cannot open a bucket")(error.to_string()))
    }

    /// Renews the record of a worker.
    pub(crate) async fn heartbeat(&self, worker: &WorkerInfo) -> Result<(), FleetError> {
        let bucket = self.workers_bucket().await?;
        let said = bucket
            .put(&worker.id, serde_json::to_vec(worker).unwrap_or_default().into())
            .await;
        said.map_err(|error| self.failed("cannot register a worker")(error.to_string()))?;
        Ok(())
    }

    /// Removes the record of a worker.
    pub(crate) async fn deregister(&self, worker: &WorkerInfo) -> Result<(), FleetError> {
        let bucket = self.workers_bucket().await?;
        let said = bucket.delete(&worker.id).await;
        said.map_err(|error| self.failed("cannot deregister a worker")(error.to_string()))
    }

    /// The registered workers, of any version and class.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub async fn workers(&self) -> Result<Vec<WorkerInfo>, FleetError> {
        let present = self.present_workers().await?;
        Ok(present.into_iter().map(|(worker, _)| worker).collect())
    }

    /// The registered workers, by id, and when each renewed its record, in milliseconds at the
    /// broker.
    pub(crate) async fn present_workers(&self) -> Result<Vec<(WorkerInfo, u64)>, FleetError> {
        let found = self.all::<WorkerInfo>(&self.workers_bucket().await?).await?;
        let mut workers: Vec<(WorkerInfo, u64)> = found.into_iter().map(|(_, worker, put)| (worker, put)).collect();
        workers.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id));
        Ok(workers)
    }

    /// [`Queue::workers`], cached for some seconds.
    pub(crate) async fn recent_workers(&self) -> Result<Vec<WorkerInfo>, FleetError> {
        let recent = |(at, _): &&(Instant, Vec<WorkerInfo>)| at.elapsed() < WORKERS_KNOWN;
        if let Some((_, workers)) = self.workers.lock().as_ref().filter(recent) {
            return Ok(workers.clone());
        }
        let workers = self.workers().await?;
        *self.workers.lock() = Some((Instant::now(), workers.clone()));
        Ok(workers)
    }

    /// The entries of a bucket, and when each was put, in milliseconds at the broker. Entries of
    /// other versions that cannot be read are left out.
    async fn all<T: serde::de::DeserializeOwned>(
        &self,
        bucket: &kv::Store,
    ) -> Result<Vec<(String, T, u64)>, FleetError> {
        let failed = self.failed("cannot read a bucket");
        let mut names = bucket.keys().await.map_err(|error| failed(error.to_string()))?;
        let mut all = Vec::new();
        let no_answer = |_| failed(format!("no answer in {} s", ANSWER.as_secs()));
        while let Some(name) = tokio::time::timeout(ANSWER, names.next()).await.map_err(no_answer)? {
            let name = name.map_err(|error| failed(error.to_string()))?;
            let entry = bucket.entry(&name).await.map_err(|error| failed(error.to_string()))?;
            let Some(entry) = entry.filter(|entry| entry.operation == kv::Operation::Put) else {
                continue;
            };
            if let Ok(value) = serde_json::from_slice(&entry.value) {
                let put = u64::try_from(entry.created.unix_timestamp_nanos() / 1_000_000);
                all.push((name, value, put.unwrap_or_default()));
            }
        }
        Ok(all)
    }

    /// Creates the consumer of a lane and publishes the lane to workers, unless done recently.
    async fn ensure_lane(&self, lane: &Lane) -> Result<(), FleetError> {
        let name = lane.name();
        let recent = |at: &Instant| at.elapsed() < LANE_KNOWN;
        if self.known.lock().get(&name).is_some_and(recent) {
            return Ok(());
        }
        let stream = self.stream().await?;
        let wanted = pull::Config {
            durable_name: Some(name.clone()),
            description: Some(format!("{} with {}", lane.kind, lane.of)),
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.config.lease(),
            // Workers count deliveries, so that a unit is given up with its reason.
            max_deliver: -1,
            filter_subject: format!("{}.work.{name}.*", self.config.name),
            max_ack_pending: if lane.max_in_flight == 0 {
                100_000
            } else {
                lane.max_in_flight.into()
            },
            ..pull::Config::default()
        };
        let made = stream.create_consumer(wanted).await;
        made.map_err(|error| self.failed("cannot open a lane")(error.to_string()))?;
        let bucket = self.lanes_bucket().await?;
        let record = serde_json::to_vec(lane).unwrap_or_default();
        if !matches!(bucket.get(&name).await, Ok(Some(known)) if known == record) {
            let put = bucket.put(&name, record.into()).await;
            put.map_err(|error| self.failed("cannot publish a lane")(error.to_string()))?;
            // Workers that miss the announcement find the lane at their next check.
            if let Err(error) = self.client.publish(self.lane_topic(), Bytes::new()).await {
                tracing::debug!(%error, "cannot announce a lane");
            }
        }
        self.known.lock().insert(name, Instant::now());
        Ok(())
    }

    fn lane_topic(&self) -> String {
        format!("{}.lane", self.config.name)
    }

    /// A message for each new lane, from now on.
    pub(crate) async fn new_lanes(&self) -> Result<Subscriber, FleetError> {
        let subscribed = self.client.subscribe(self.lane_topic()).await;
        subscribed.map_err(|error| self.failed("cannot subscribe")(error.to_string()))
    }

    /// Queues a unit for the workers of its lane, under a dispatch that is the same for every
    /// delivery of the unit. Has no effect if the unit is already queued or executed.
    ///
    /// # Errors
    /// If the broker does not answer or refuses.
    pub async fn publish(&self, unit: &Unit, dispatch: Uuid) -> Result<(), FleetError> {
        self.ensure_lane(unit.lane()).await?;
        let subject = self.subject(&unit.lane().name(), unit.address());
        let failed = self.failed("cannot queue a unit");
        let headers = trace_headers();
        let sent = self
            .jetstream
            .publish_with_headers(subject, headers, dispatch.to_string().into())
            .await;
        let accepted = sent.map_err(|error| failed(error.to_string()))?.await;
        match accepted {
            Ok(_) => Ok(()),
            Err(error) if format!("{error:?}").contains(ALREADY) => Ok(()),
            Err(error) => {
                // The stream may be gone; the next attempt creates it again.
                self.known.lock().clear();
                Err(failed(error.to_string()))
            }
        }
    }

    /// Removes a unit from the queue and stops the worker that executes it, unless another
    /// dispatcher waits for it.
    ///
    /// # Errors
    /// If the broker does not answer or refuses.
    pub async fn cancel(&self, unit: &Unit) -> Result<(), FleetError> {
        let asked = self.client.request(self.topic("wanted", unit.address()), Bytes::new());
        if matches!(tokio::time::timeout(WANTED, asked).await, Ok(Ok(_))) {
            return Ok(());
        }
        let stream = self.stream().await?;
        let subject = self.subject(&unit.lane().name(), unit.address());
        let purged = stream.purge().filter(subject).await;
        purged.map_err(|error| self.failed("cannot cancel a unit")(error.to_string()))?;
        self.announce("cancel", unit.address(), Bytes::new()).await
    }

    /// Removes units from the queue by their addresses, 64 hexadecimal digits each. A run that
    /// waits for one queues it again.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub async fn remove(&self, addresses: &[String]) -> Result<(), FleetError> {
        let stream = self.stream().await?;
        for address in addresses.iter().filter_map(|address| Address::parse(address)) {
            let subject = self.subject("*", &address);
            let purged = stream.purge().filter(subject).await;
            purged.map_err(|error| self.failed("cannot remove a unit")(error.to_string()))?;
        }
        Ok(())
    }

    fn topic(&self, topic: &str, address: &Address) -> String {
        format!("{}.{topic}.{address}", self.config.name)
    }

    /// Publishes a message about a unit to current subscribers.
    pub(crate) async fn announce(&self, topic: &str, address: &Address, what: Bytes) -> Result<(), FleetError> {
        let sent = self.client.publish(self.topic(topic, address), what).await;
        sent.map_err(|error| self.failed("cannot announce a unit")(error.to_string()))
    }

    /// Answers a `wanted` request.
    pub(crate) async fn reply(&self, message: &async_nats::Message) {
        if let Some(back) = message.reply.clone() {
            // If this fails the requester no longer waits.
            let _ = self.client.publish(back, Bytes::from_static(b"wanted")).await;
        }
    }

    /// Messages about all units from now on.
    pub(crate) async fn subscribe(&self, topic: &str) -> Result<Subscriber, FleetError> {
        let subscribed = self.client.subscribe(format!("{}.{topic}.*", self.config.name)).await;
        subscribed.map_err(|error| self.failed("cannot subscribe")(error.to_string()))
    }

    /// The lanes of some kinds from which a worker of a class may take units.
    pub(crate) async fn lanes(&self, kinds: &[Kind], class: &str) -> Result<Vec<Lane>, FleetError> {
        let mut lanes = self.all_lanes().await?;
        lanes.retain(|lane| kinds.contains(&lane.kind) && (lane.class.is_empty() || lane.class == class));
        Ok(lanes)
    }

    /// The lanes of this version, by name.
    pub(crate) async fn all_lanes(&self) -> Result<Vec<Lane>, FleetError> {
        let all = self.all::<Lane>(&self.lanes_bucket().await?).await?;
        // The name of a lane of another version does not match its content.
        let known = all.into_iter().filter(|(name, lane, _)| lane.name() == *name);
        let mut lanes: Vec<Lane> = known.map(|(_, lane, _)| lane).collect();
        lanes.sort_by_key(Lane::name);
        Ok(lanes)
    }

    /// The broker's time, in milliseconds since 1970.
    pub(crate) async fn now(&self) -> Result<u64, FleetError> {
        self.lanes_bucket().await?;
        Ok(self.bucket_times("lanes").await?.1)
    }

    pub(crate) async fn consumer(&self, lane: &Lane) -> Result<PullConsumer, FleetError> {
        let stream = self.stream().await?;
        let found = stream.get_consumer::<pull::Config>(&lane.name()).await;
        found.map_err(|error| self.failed("cannot open a lane")(error.to_string()))
    }

    /// When a bucket was created, and the broker's time, in milliseconds since 1970.
    pub(crate) async fn bucket_times(&self, name: &str) -> Result<(u64, u64), FleetError> {
        #[derive(serde::Deserialize)]
        struct Info {
            created: jiff::Timestamp,
            ts: jiff::Timestamp,
        }
        let failed = self.failed("cannot read the broker's clock");
        let subject = format!("STREAM.INFO.KV_{}-{name}", self.config.name);
        let answer: serde_json::Value = self
            .jetstream
            .request(subject, &serde_json::json!({}))
            .await
            .map_err(|error| failed(error.to_string()))?;
        let info: Info = serde_json::from_value(answer).map_err(|error| failed(error.to_string()))?;
        let millis = |time: jiff::Timestamp| u64::try_from(time.as_millisecond()).unwrap_or_default();
        Ok((millis(info.created), millis(info.ts)))
    }

    /// Pauses delivery in the lanes of a limit until a time at the broker (milliseconds since
    /// 1970). Units in progress continue.
    pub(crate) async fn pause_lanes(&self, limit: &str, until: u64) -> Result<(), FleetError> {
        let failed = self.failed("cannot pause a lane");
        let until = i64::try_from(until)
            .ok()
            .and_then(|until| jiff::Timestamp::from_millisecond(until).ok());
        let Some(until) = until else { return Ok(()) };
        let lanes = self.all::<Lane>(&self.lanes_bucket().await?).await?;
        for (name, ..) in lanes.iter().filter(|(_, lane, _)| lane.limit == limit) {
            let subject = format!("CONSUMER.PAUSE.{}-work.{name}", self.config.name);
            let request = serde_json::json!({ "pause_until": until.to_string() });
            let answer: serde_json::Value = self
                .jetstream
                .request(subject, &request)
                .await
                .map_err(|error| failed(error.to_string()))?;
            if let Some(error) = answer.get("error") {
                return Err(failed(error.to_string()));
            }
        }
        Ok(())
    }

    /// The address at the end of a subject.
    pub(crate) fn address_of(subject: &str) -> Option<Address> {
        Address::parse(subject.rsplit('.').next()?)
    }
}

/// The trace context of the current span, as headers of a message.
fn trace_headers() -> async_nats::HeaderMap {
    let mut carried = http::HeaderMap::new();
    carry_trace(&tracing::Span::current(), &mut carried);
    let mut headers = async_nats::HeaderMap::new();
    for (name, value) in &carried {
        if let Ok(value) = value.to_str() {
            headers.insert(name.as_str(), value);
        }
    }
    headers
}

/// The trace context in a message's headers.
pub(crate) fn trace_of(message: &async_nats::Message) -> http::HeaderMap {
    let mut carried = http::HeaderMap::new();
    for name in ["traceparent", "tracestate"] {
        let value = message.headers.as_ref().and_then(|headers| headers.get(name));
        if let Some(value) = value.and_then(|value| http::HeaderValue::from_str(value.as_str()).ok()) {
            carried.insert(name, value);
        }
    }
    carried
}

/// The address at the end of a subject, and the message.
pub(crate) fn about(message: async_nats::Message) -> Option<(Address, async_nats::Message)> {
    Some((Queue::address_of(&message.subject)?, message))
}
