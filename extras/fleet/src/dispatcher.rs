//! The side that requests units and waits for their answers.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::StreamExt;
use isomer_blobs::{BlobStore, Put};
use isomer_retention::{Digest, Hold, Holder, Holds, Kind};
use isomer_service_kit::Fault;
use isomer_usage::Claimant;
use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::mpsc};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::{
    queue::{FleetError, Queue, about},
    unit::{Address, Lane, Unit, Waits},
    worker::{Completion, UNIT_MISSING},
};

/// Pause before a failed request to the queue or the store is retried.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The hint if the store cannot be used.
const STORE_HINT: &str = "check store.url, its credentials, and that the store can be reached";
/// Maximum wait for cancelled units to leave the queue.
const LONGEST_CANCELLATION: Duration = Duration::from_secs(3);

#[derive(Debug, Clone)]
pub struct UnitAnswer {
    pub content: Bytes,
    /// Whether another dispatcher has counted its usage.
    pub counted: bool,
    /// Its name in the store.
    name: String,
}

/// How often the dispatcher checks whether the lanes for which a run waits have changed.
const REPORT_AFTER: Duration = Duration::from_secs(1);
/// Interval at which the record of a run's waits is renewed, because it expires.
const REPORT_AGAIN: Duration = Duration::from_secs(3);

/// By run, then by lane name: the lane, and the number of its units for which the run waits.
type PendingUnits = Mutex<BTreeMap<String, BTreeMap<String, Waits>>>;

type Waiters = Mutex<HashMap<Address, Vec<mpsc::UnboundedSender<Completion>>>>;

/// Requests units from the workers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Dispatcher {
    inner: Arc<Inner>,
    /// The holder of the requested units.
    hold: Option<Hold>,
    /// The run that waits for them.
    run: Option<Arc<str>>,
}

#[derive(Debug)]
struct Inner {
    queue: Queue,
    blobs: BlobStore,
    holds: Holds,
    waiters: Arc<Waiters>,
    pending: Arc<PendingUnits>,
    /// Cancellations in progress.
    cancelling: TaskTracker,
    _listening: [AbortOnDropHandle<()>; 3],
}

impl Dispatcher {
    /// Subscribes to the completions of units, whose answers are in the store of `holds`.
    ///
    /// # Errors
    /// If the queue refuses.
    pub async fn open(queue: Queue, holds: Holds) -> Result<Self, FleetError> {
        let blobs = holds.blobs().clone();
        let waiters = Arc::<Waiters>::default();
        let mut ended = queue.subscribe("done").await?;
        let mut wanted = queue.subscribe("wanted").await?;
        let telling = {
            let waiters = Arc::clone(&waiters);
            tokio::spawn(async move {
                while let Some(message) = ended.next().await {
                    let Some((address, message)) = about(message) else {
                        continue;
                    };
                    let completion = serde_json::from_slice::<Completion>(&message.payload).unwrap_or(Completion::Done);
                    for waiter in waiters.lock().get(&address).into_iter().flatten() {
                        // A waiter that has left removes itself.
                        let _ = waiter.send(completion.clone());
                    }
                }
            })
        };
        let answering = {
            let (waiters, queue) = (Arc::clone(&waiters), queue.clone());
            tokio::spawn(async move {
                while let Some(message) = wanted.next().await {
                    let Some((address, message)) = about(message) else {
                        continue;
                    };
                    let ours = waiters.lock().contains_key(&address);
                    if ours {
                        queue.reply(&message).await;
                    }
                }
            })
        };
        let pending = Arc::<PendingUnits>::default();
        let reporting = tokio::spawn(report_runs(queue.clone(), Arc::clone(&pending)));
        Ok(Self {
            inner: Arc::new(Inner {
                queue,
                blobs,
                holds,
                waiters,
                pending,
                cancelling: TaskTracker::new(),
                _listening: [telling, answering, reporting].map(AbortOnDropHandle::new),
            }),
            hold: None,
            run: None,
        })
    }

    /// A dispatcher for a holder, which relies on the units that it requests. Units without a
    /// holder may be removed from the store.
    #[must_use]
    pub fn for_holder(&self, holder: &Holder) -> Self {
        Self {
            hold: Some(self.inner.holds.of(holder)),
            run: match holder {
                Holder::Run(id) => Some(id.as_str().into()),
                Holder::Unit(_) => None,
            },
            ..self.clone()
        }
    }

    pub fn queue(&self) -> &Queue {
        &self.inner.queue
    }

    /// Waits until cancelled units have left the queue, for at most some seconds. Call it before
    /// the process ends.
    pub async fn wait_for_cancellations(&self) {
        let cancelling = &self.inner.cancelling;
        cancelling.close();
        // After the timeout a worker may execute an unneeded unit.
        let _ = tokio::time::timeout(LONGEST_CANCELLATION, cancelling.wait()).await;
        cancelling.reopen();
    }

    pub fn blobs(&self) -> &BlobStore {
        &self.inner.blobs
    }

    /// Returns the answer of a unit. Its usage counts for the first dispatcher that reads it.
    ///
    /// # Errors
    /// Those of [`Dispatcher::request_for`].
    pub async fn request(&self, unit: Unit) -> Result<UnitAnswer, Fault> {
        self.request_for(None, unit).await
    }

    /// Returns the answer of a unit that is not requested again. Nothing of it stays in the store,
    /// so its address must differ from those of units on which a run relies. If another caller
    /// waits for an equal unit in the meantime, that unit is executed again, and usage counts for
    /// each.
    ///
    /// # Errors
    /// Those of [`Dispatcher::request_for`].
    pub async fn request_once(&self, unit: Unit) -> Result<Bytes, Fault> {
        let address = unit.address().clone();
        let answer = self.request_for(None, unit).await?;
        let parts = vec![answer.name, address.claim(), address.request()];
        if let Err(error) = self.inner.blobs.remove_all(parts).await {
            tracing::debug!(%error, unit = %address, "parts of a unit stay in the store; `isomer store gc` removes them");
        }
        Ok(answer.content)
    }

    /// Returns the answer of a unit, from the store or from a worker. Waits while the queue cannot
    /// be reached. Dropping the future cancels the unit, unless another dispatcher waits for it.
    /// Its usage counts for the claimant, if one is named.
    ///
    /// # Errors
    /// If a worker reports a permanent failure or the unit has failed too often, if no worker takes
    /// the unit, or if the store fails.
    pub async fn request_for(&self, claimant: Option<&Claimant>, unit: Unit) -> Result<UnitAnswer, Fault> {
        let inner = &self.inner;
        if let Some(hold) = &self.hold {
            let digest = unit.address().digest();
            let held = hold.hold(vec![digest]).await;
            held.map_err(|error| Fault::unavailable("STORE_UNAVAILABLE", error.to_string()).hint(STORE_HINT))?;
        }
        let answered = unit.address().answer();
        if let Some(answer) = self.with_retry(|| inner.blobs.get(&answered)).await? {
            return self.claim(&unit, answer, claimant).await;
        }
        let unit = Arc::new(unit);
        let mut waiting = UnitWaiter::enter(inner, &unit);
        let _pending = self.run.as_deref().map(|run| PendingUnit::enter(inner, run, &unit));
        let (name, request) = (unit.address().request(), unit.request().clone());
        let (mut queued, mut unserved_since) = (false, None);
        let dispatch = claimant.map_or_else(uuid::Uuid::new_v4, |run| {
            run.dispatch(unit.address().as_str().as_bytes())
        });
        loop {
            self.check_workers(&unit, &mut unserved_since).await?;
            // The worker reads the request, so it is stored before the unit is queued. It is stored
            // again if another waiter for an equal unit has removed it in the meantime.
            if !queued || !self.with_retry(|| inner.blobs.exists(&name)).await? {
                self.with_retry(|| inner.blobs.put_new(&name, &request)).await?;
            }
            queued = true;
            if let Err(error) = inner.queue.publish(&unit, dispatch).await {
                tracing::warn!(%error, unit = %unit.address(), "cannot queue a unit; retrying");
                tokio::time::sleep(RETRY_AFTER).await;
            }
            let again = tokio::time::sleep(inner.queue.config().republish_after());
            let completion = tokio::select! {
                completion = waiting.completions.recv() => completion,
                () = again => None,
            };
            match completion {
                Some(Completion::Failed(failed)) => {
                    let fault = Fault::from(failed);
                    let removed =
                        fault.reason == UNIT_MISSING && !self.with_retry(|| inner.blobs.exists(&name)).await?;
                    if !removed {
                        waiting.done = true;
                        return Err(fault);
                    }
                }
                Some(Completion::Partial { name }) => {
                    if let Some(answer) = self.with_retry(|| inner.blobs.get(&name)).await? {
                        waiting.done = true;
                        return Ok(UnitAnswer {
                            content: answer,
                            counted: false,
                            name,
                        });
                    }
                }
                // Completions are not stored, so the store is also read without one.
                Some(Completion::Done) | None => {
                    if let Some(answer) = self.with_retry(|| inner.blobs.get(&answered)).await? {
                        waiting.done = true;
                        return self.claim(&unit, answer, claimant).await;
                    }
                }
            }
        }
    }

    /// Stores an input of several units under its own digest, unless it exists. Its name
    /// ([`input_name`]) is part of the requests of these units.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn put_input(&self, digest: Digest, content: &Bytes) -> Result<(), Fault> {
        if let Some(hold) = &self.hold {
            let held = hold.hold(vec![digest]).await;
            held.map_err(|error| Fault::unavailable("STORE_UNAVAILABLE", error.to_string()).hint(STORE_HINT))?;
        }
        let (blobs, name) = (&self.inner.blobs, input_name(&digest));
        if !self.with_retry(|| blobs.exists(&name)).await? {
            self.with_retry(|| blobs.put_new(&name, content)).await?;
        }
        Ok(())
    }

    /// Removes an input that no other unit will read. If a unit reads it nevertheless, its worker
    /// reports that it is missing. Failures are logged: `isomer store gc` removes remaining inputs.
    pub async fn remove_input(&self, digest: Digest) {
        if let Err(error) = self.inner.blobs.remove(&input_name(&digest)).await {
            tracing::debug!(%error, %digest, "an input of a unit stays in the store");
        }
    }

    /// Whether a worker takes units of a lane. Returns true if that is unknown because the queue
    /// cannot be reached.
    pub async fn has_worker(&self, lane: &Lane) -> bool {
        let workers = self.inner.queue.recent_workers().await;
        workers.map_or(true, |workers| workers.iter().any(|worker| worker.accepts(lane)))
    }

    /// Checks that a worker takes units of the lane. `unserved_since` is the time since which there
    /// has been none.
    ///
    /// # Errors
    /// If there has been none for longer than `worker_wait_seconds`.
    async fn check_workers(&self, unit: &Unit, unserved_since: &mut Option<Instant>) -> Result<(), Fault> {
        let (queue, lane) = (&self.inner.queue, unit.lane());
        // This is unknown while the broker cannot be reached.
        let Ok(workers) = queue.recent_workers().await else {
            return Ok(());
        };
        if workers.iter().any(|worker| worker.accepts(lane)) {
            *unserved_since = None;
            return Ok(());
        }
        let since = *unserved_since.get_or_insert_with(Instant::now);
        let others: Vec<String> = workers
            .iter()
            .map(|other| format!("{} ({}, {})", other.host, other.class, other.version))
            .collect();
        let message = format!(
            "no worker takes units of `{}` with {}{}",
            lane.kind,
            lane.resource(),
            if lane.class.is_empty() {
                String::new()
            } else {
                format!(" in the class {}", lane.class)
            }
        );
        tracing::warn!(others = others.join("; "), "{message}; waiting");
        if since.elapsed() < queue.config().worker_wait() {
            return Ok(());
        }
        let hint = format!(
            "start one of this version on a machine of the same kind: isomer worker --engine {} --store {} --lanes {}=1; what was \
             done is kept",
            queue.config().engine,
            self.inner.blobs.url(),
            lane.kind
        );
        Err(Fault::precondition("NO_WORKER", message).hint(hint))
    }

    /// Claims the usage of an answer, unless another dispatcher has. A claim that another process
    /// made for the same claimant counts here again.
    async fn claim(&self, unit: &Unit, content: Bytes, claimant: Option<&Claimant>) -> Result<UnitAnswer, Fault> {
        if claimant.is_some_and(|run| !run.count_here(unit.address().as_str().as_bytes())) {
            return Ok(UnitAnswer {
                content,
                counted: true,
                name: unit.address().answer(),
            });
        }
        let (name, id) = (
            unit.address().claim(),
            claimant.map_or_else(uuid::Uuid::now_v7, Claimant::id),
        );
        let blobs = &self.inner.blobs;
        let counted = match self.with_retry(|| blobs.put_new(&name, id.as_bytes())).await? {
            Put::Created => false,
            // This is its own claim if only the reply to it was lost, or if another process made it
            // for the same claimant.
            Put::Exists => {
                let claimed_by = self.with_retry(|| blobs.get(&name)).await?;
                claimed_by.is_none_or(|other| other != id.as_bytes()[..])
            }
        };
        Ok(UnitAnswer {
            content,
            counted,
            name: unit.address().answer(),
        })
    }

    /// A request to the store, retried once after the retries of the store client are exhausted.
    async fn with_retry<T, F>(&self, act: impl Fn() -> F) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, isomer_blobs::BlobError>>,
    {
        match act().await {
            Ok(value) => Ok(value),
            Err(error) => {
                tracing::warn!(%error, "the store failed; retrying once");
                tokio::time::sleep(RETRY_AFTER).await;
                act().await.map_err(|error| FleetError::from(error).into())
            }
        }
    }
}

/// The name in the store of an input of several units.
pub fn input_name(digest: &Digest) -> String {
    format!("{}/{digest}", Kind::Inputs.place("", digest))
}

/// Reports to all processes, at intervals, the units for which the runs of this process wait.
async fn report_runs(queue: Queue, pending: Arc<PendingUnits>) {
    let mut announced: BTreeMap<String, (Instant, Vec<String>)> = BTreeMap::new();
    loop {
        tokio::time::sleep(REPORT_AFTER).await;
        let now = pending.lock().clone();
        for (run, lanes) in &now {
            let names: Vec<String> = lanes.keys().cloned().collect();
            let known = announced.get(run);
            if known.is_some_and(|(at, known)| at.elapsed() < REPORT_AGAIN && *known == names) {
                continue;
            }
            let waits: Vec<Waits> = lanes.values().cloned().collect();
            match queue.record_run(run, &waits).await {
                Ok(()) => {
                    announced.insert(run.clone(), (Instant::now(), names));
                }
                Err(error) => tracing::debug!(%error, run, "cannot record what a run waits for; trying again"),
            }
        }
        for run in announced.keys().filter(|run| !now.contains_key(*run)) {
            if let Err(error) = queue.forget_run(run).await {
                tracing::debug!(%error, run, "cannot remove what a run waited for; the record expires");
            }
        }
        announced.retain(|run, _| now.contains_key(run));
    }
}

/// A unit that a run waits for, until it is dropped.
struct PendingUnit<'a> {
    pending: &'a PendingUnits,
    run: String,
    lane: String,
}

impl<'a> PendingUnit<'a> {
    fn enter(inner: &'a Inner, run: &str, unit: &Unit) -> Self {
        let lane = unit.lane().name();
        let mut pending = inner.pending.lock();
        let lanes = pending.entry(run.to_owned()).or_default();
        let waits = lanes.entry(lane.clone()).or_insert_with(|| Waits {
            lane: unit.lane().clone(),
            units: 0,
        });
        waits.units += 1;
        Self {
            pending: &inner.pending,
            run: run.to_owned(),
            lane,
        }
    }
}

impl Drop for PendingUnit<'_> {
    fn drop(&mut self) {
        let mut pending = self.pending.lock();
        let Some(lanes) = pending.get_mut(&self.run) else {
            return;
        };
        if let Some(waits) = lanes.get_mut(&self.lane) {
            waits.units -= 1;
            if waits.units == 0 {
                lanes.remove(&self.lane);
            }
        }
        if lanes.is_empty() {
            pending.remove(&self.run);
        }
    }
}

/// A waiter for a unit. Dropping it before it is done cancels the unit.
struct UnitWaiter<'a> {
    inner: &'a Inner,
    unit: Arc<Unit>,
    completions: mpsc::UnboundedReceiver<Completion>,
    done: bool,
}

impl<'a> UnitWaiter<'a> {
    fn enter(inner: &'a Inner, unit: &Arc<Unit>) -> Self {
        let (sender, completions) = mpsc::unbounded_channel();
        inner
            .waiters
            .lock()
            .entry(unit.address().clone())
            .or_default()
            .push(sender);
        Self {
            inner,
            unit: Arc::clone(unit),
            completions,
            done: false,
        }
    }
}

impl Drop for UnitWaiter<'_> {
    fn drop(&mut self) {
        self.completions.close();
        let mut waiters = self.inner.waiters.lock();
        let last = waiters.get_mut(self.unit.address()).is_some_and(|all| {
            all.retain(|waiter| !waiter.is_closed());
            all.is_empty()
        });
        if last {
            waiters.remove(self.unit.address());
        }
        if last
            && !self.done
            && let Ok(runtime) = Handle::try_current()
        {
            let (queue, unit) = (self.inner.queue.clone(), Arc::clone(&self.unit));
            let cancelled = async move {
                if let Err(error) = queue.cancel(&unit).await {
                    tracing::warn!(%error, unit = %unit.address(), "a cancelled unit is still queued");
                }
            };
            self.inner.cancelling.spawn_on(cancelled, &runtime);
        }
    }
}
