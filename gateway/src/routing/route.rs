//! The providers of one encoder, which must be of one vector space.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use isomer_proto::common::v1::VectorSpace;
use isomer_service_kit::Fault;
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::Mutex as AsyncMutex, time::Instant};

use super::{
    attempts::is_refusal,
    epoch::Epoch,
    metrics,
    replica::Replica,
    space::{Fingerprint, Identity},
};

/// Reason of a provider whose vectors are of another space.
pub(super) const OTHER_SPACE: &str = "OTHER_SPACE";
/// In place of a number of outages: the provider's vectors must be checked.
const DISTRUSTED: u64 = u64::MAX;
/// Shortest time between two comparisons of a route's providers.
const BETWEEN_COMPARISONS: Duration = Duration::from_secs(1);

/// One encoder id and the providers that claim it.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) encoder_id: String,
    /// Identifies the vector space in cache keys: another provider list has another number.
    pub(super) generation: u64,
    claims: Vec<Claim>,
    /// Replaced when cached vectors may be of a different space from new ones.
    epoch: Mutex<Arc<Epoch>>,
    /// Whether any request has arrived yet: an unused model is not loaded only for a comparison.
    asked: AtomicBool,
    /// Locked while claims are compared; the time of the last comparison.
    compared: AsyncMutex<Option<Instant>>,
    /// Whether the gateway has tried to take the first fingerprint of a single provider.
    looked: AtomicBool,
}

/// A provider that claims to serve the encoder.
#[derive(Debug)]
struct Claim {
    replica: Arc<Replica>,
    state: Mutex<State>,
    /// The provider's outages when its vectors were last checked.
    confirmed: AtomicU64,
    /// Locked while they are checked.
    looking: AsyncMutex<()>,
}

#[derive(Debug, Clone)]
enum State {
    /// Not compared yet.
    New,
    /// Serves the route's vector space. Holds its first fingerprint, and the identity in its
    /// answers.
    Held(Option<Arc<Fingerprint>>, Option<Identity>),
    /// Serves another vector space.
    Refused(String),
}

impl Claim {
    /// Compares a first or stored fingerprint with the provider's current vectors.
    async fn hold(&self, encoder_id: &str, taken: Fingerprint, identity: Option<Identity>) {
        let first = match self.replica.first(encoder_id) {
            Some(first) => first,
            None => {
                let taken = Arc::new(taken);
                if let Some(kept) = &self.replica.fingerprints {
                    kept.keep(encoder_id, &taken).await;
                }
                *self.state() = State::Held(Some(taken), identity);
                return;
            }
        };
        match first.differs(&taken) {
            Some(difference) => self.refuse(encoder_id, &changed(&difference)),
            None => *self.state() = State::Held(Some(first), identity),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The reason of its refusal, if it is refused.
    fn refused(&self) -> Result<(), Fault> {
        match &*self.state() {
            State::Refused(why) => Err(Fault::unavailable(
                OTHER_SPACE,
                format!("provider `{}`: {why}", self.replica.name()),
            )),
            _ => Ok(()),
        }
    }

    /// Its first fingerprint, and the identity in its answers.
    fn known(&self) -> (Option<Arc<Fingerprint>>, Option<Identity>) {
        match &*self.state() {
            State::Held(first, identity) => (first.clone(), identity.clone()),
            _ => (None, None),
        }
    }

    /// Whether no other server can have answered at its address since its vectors were checked. A
    /// provider that reports its weights is compared at each answer.
    fn is_current(&self) -> bool {
        let reports = || {
            let (first, identity) = self.known();
            let identity = identity.or_else(|| Some(first?.identity().clone()));
            identity.is_some_and(|identity| identity.is_reported())
        };
        self.confirmed.load(Ordering::Acquire) == self.replica.peer.outages() || reports()
    }

    fn refuse(&self, encoder_id: &str, why: &str) {
        tracing::error!(
            provider = self.replica.name(),
            encoder = encoder_id,
            why,
            "provider serves another vector space: it gets no requests"
        );
        ::metrics::counter!(metrics::OTHER_SPACE, "provider" => self.replica.name().to_owned()).increment(1);
        *self.state() = State::Refused(why.to_owned());
    }
}

fn changed(difference: &str) -> String {
    format!("its vectors have changed: before and now, {difference}")
}

impl Route {
    pub(super) fn new(encoder_id: String, generation: u64, replicas: Vec<Arc<Replica>>) -> Self {
        let alone = replicas.len() == 1;
        let claim = |replica: Arc<Replica>| Claim {
            // A single provider is only compared with itself.
            state: Mutex::new(if alone {
                State::Held(replica.first(&encoder_id), None)
            } else {
                State::New
            }),
            confirmed: AtomicU64::new(replica.peer.outages()),
            looking: AsyncMutex::default(),
            replica,
        };
        let claims = replicas.into_iter().map(claim).collect();
        Self {
            encoder_id,
            generation,
            claims,
            epoch: Mutex::new(Arc::new(Epoch::new(!alone))),
            asked: AtomicBool::new(false),
            compared: AsyncMutex::new(None),
            looked: AtomicBool::new(false),
        }
    }

    pub(super) fn replicas(&self) -> impl Iterator<Item = &Arc<Replica>> {
        self.claims.iter().map(|claim| &claim.replica)
    }

    /// The current epoch of the vectors.
    pub(super) fn epoch(&self) -> Arc<Epoch> {
        Arc::clone(&self.epoch.lock())
    }

    /// Ends an epoch in which vectors differed from one another. Its cached vectors are no longer
    /// used, and each provider is compared with its first vectors before it answers.
    pub(super) fn distrust(&self, epoch: &Arc<Epoch>) {
        let mut current = self.epoch.lock();
        if !Arc::ptr_eq(&current, epoch) {
            return;
        }
        tracing::warn!(
            encoder = self.encoder_id,
            "vectors that are kept differ from new ones: they are dropped"
        );
        *current = Arc::new(current.next());
        for claim in &self.claims {
            claim.confirmed.store(DISTRUSTED, Ordering::Release);
        }
    }

    /// Ends the epoch if nothing shows whether the vectors of an unreachable provider stayed the
    /// same.
    fn end_epoch(&self) {
        let mut current = self.epoch.lock();
        if current.is_used() {
            *current = Arc::new(current.next());
        }
    }

    fn claim(&self, replica: &Arc<Replica>) -> Option<&Claim> {
        self.claims.iter().find(|claim| Arc::ptr_eq(&claim.replica, replica))
    }

    /// A replica's index in the route.
    pub(super) fn place(&self, replica: &Arc<Replica>) -> usize {
        let place = self.replicas().position(|one| Arc::ptr_eq(one, replica));
        place.unwrap_or_default()
    }

    /// Checks a provider's vectors if it was unreachable since the last check, because another
    /// model may answer at its address now.
    ///
    /// # Errors
    /// `UNAVAILABLE` with the reason [`OTHER_SPACE`] if they have changed; the provider's error if
    /// it does not answer.
    pub(super) async fn confirm(&self, replica: &Arc<Replica>) -> Result<(), Fault> {
        let Some(claim) = self.claim(replica).filter(|_| replica.remote) else {
            return Ok(());
        };
        claim.refused()?;
        if self.generation == 0 || claim.is_current() {
            return Ok(());
        }
        let _one = claim.looking.lock().await;
        if !claim.is_current() {
            self.look(claim).await?;
        }
        claim.refused()
    }

    /// Compares the vectors of the replica at this index with its first ones.
    ///
    /// # Errors
    /// Those of [`Route::confirm`].
    pub(super) async fn compare_again(&self, place: usize) -> Result<(), Fault> {
        let Some(claim) = self.claims.get(place) else {
            return Ok(());
        };
        let _one = claim.looking.lock().await;
        claim.refused()?;
        self.look(claim).await?;
        claim.refused()
    }

    /// Compares a provider's vectors with its first ones. The caller holds `looking`.
    async fn look(&self, claim: &Claim) -> Result<(), Fault> {
        // An outage during the check requires another check.
        let outages = claim.replica.peer.outages();
        let stale = claim.confirmed.load(Ordering::Acquire) != outages;
        let (first, identity) = claim.known();
        if first.is_none() && stale && !self.epoch().is_used() {
            // No vectors were returned yet from which new ones could differ.
            claim.confirmed.store(outages, Ordering::Release);
            return Ok(());
        }
        let taken = Fingerprint::take(&claim.replica, &self.encoder_id).await;
        if first.is_none() && stale {
            self.end_epoch();
        }
        match (taken, first) {
            (Ok(taken), None) => claim.hold(&self.encoder_id, taken, identity).await,
            (Ok(taken), Some(first)) => {
                if let Some(difference) = first.differs(&taken) {
                    claim.refuse(&self.encoder_id, &changed(&difference));
                }
            }
            // The encoder accepts only other kinds of texts, so there is nothing to compare.
            (Err(fault), None) if is_refusal(&fault) => {}
            (Err(fault), _) => return Err(fault),
        }
        claim.confirmed.store(outages, Ordering::Release);
        Ok(())
    }

    /// Whether answers come over a network and may be cached.
    pub(super) fn remote(&self) -> bool {
        self.replicas().all(|replica| replica.remote)
    }

    /// Returns the providers of the route's one vector space. Compares those that have not been
    /// compared yet.
    pub(super) async fn usable(&self) -> Result<Vec<Arc<Replica>>, Fault> {
        self.asked.store(true, Ordering::Relaxed);
        if self.held().is_empty() {
            self.compare().await;
        }
        let held = self.held();
        if !held.is_empty() {
            return Ok(held);
        }
        Err(match self.refusal() {
            Some(why) => Fault::precondition(OTHER_SPACE, why)
                .hint("an index made before must be made again from the new vectors: update the provider (any change of it is taken as consent), or bring back the former model"),
            None => {
                let names: Vec<&str> = self.replicas().map(|replica| replica.name()).collect();
                Fault::unavailable(
                    "NO_PROVIDER",
                    format!("no provider of encoder `{}` answers: {}", self.encoder_id, names.join(", ")),
                )
                .retry_after(Duration::from_secs(1))
            }
        })
    }

    fn held(&self) -> Vec<Arc<Replica>> {
        let held = self
            .claims
            .iter()
            .filter(|claim| matches!(*claim.state(), State::Held(..)));
        held.map(|claim| Arc::clone(&claim.replica)).collect()
    }

    /// The reason why a claim is refused, if one is.
    pub(super) fn refusal(&self) -> Option<String> {
        self.claims.iter().find_map(|claim| match &*claim.state() {
            State::Refused(why) => Some(format!(
                "provider `{}` for encoder `{}`: {why}",
                claim.replica.name(),
                self.encoder_id
            )),
            _ => None,
        })
    }

    /// The fingerprint of the first provider that was checked.
    pub(super) fn reference(&self) -> Option<(String, Arc<Fingerprint>)> {
        self.claims.iter().find_map(|claim| match &*claim.state() {
            State::Held(Some(fingerprint), _) => Some((claim.replica.name().to_owned(), Arc::clone(fingerprint))),
            _ => None,
        })
    }

    /// Compares the uncompared claims with the first claim that answers. Concurrent callers share
    /// one comparison (single-flight).
    async fn compare(&self) {
        let mut last = self.compared.lock().await;
        if last.is_some_and(|last| last.elapsed() < BETWEEN_COMPARISONS) {
            return;
        }
        let new: Vec<&Claim> = self
            .claims
            .iter()
            .filter(|claim| matches!(*claim.state(), State::New))
            .collect();
        let asked = new
            .iter()
            .map(|claim| Fingerprint::take(&claim.replica, &self.encoder_id));
        let outages: Vec<u64> = new.iter().map(|claim| claim.replica.peer.outages()).collect();
        let answers = futures::future::join_all(asked).await;
        for ((claim, answer), outages) in new.into_iter().zip(answers).zip(outages) {
            claim.confirmed.store(outages, Ordering::Release);
            match answer {
                Err(fault) => {
                    tracing::warn!(provider = claim.replica.name(), encoder = self.encoder_id, %fault, "provider could not be compared")
                }
                Ok(taken) => match self.reference() {
                    Some((first, reference)) if let Some(difference) = reference.differs(&taken) => {
                        claim.refuse(
                            &self.encoder_id,
                            &format!("it and provider `{first}` differ: {difference}"),
                        );
                    }
                    _ => claim.hold(&self.encoder_id, taken, None).await,
                },
            }
        }
        *last = Some(Instant::now());
    }

    /// Takes the fingerprints again, if the route is in use. Reports providers that changed, and
    /// compares those that could not be compared before.
    pub(super) async fn probe(&self) {
        if !self.asked.load(Ordering::Relaxed) || !self.remote() {
            return;
        }
        if self.claims.iter().any(|claim| matches!(*claim.state(), State::New)) {
            self.compare().await;
        }
        for claim in &self.claims {
            if !matches!(*claim.state(), State::Held(..)) {
                continue;
            }
            let _one = claim.looking.lock().await;
            // Health checks and requests report servers that do not answer.
            let _ = self.look(claim).await;
        }
    }

    /// Whether a check is needed before the next probe is due: for claims that could not be
    /// compared, or for a single provider that was not checked since this process began.
    pub(super) fn wants_look(&self, probing: bool) -> bool {
        if !self.asked.load(Ordering::Relaxed) || !self.remote() {
            return false;
        }
        let any = |wanted: fn(&State) -> bool| self.claims.iter().any(|claim| wanted(&claim.state()));
        if any(|state| matches!(state, State::New)) {
            // Not during a comparison: probes would pile up behind a provider that does not answer.
            return self.compared.try_lock().is_ok();
        }
        let alone = self.claims.len() == 1;
        probing && alone && any(|state| matches!(state, State::Held(..))) && !self.looked.swap(true, Ordering::Relaxed)
    }

    /// Compares an answer's vector space with the provider's earlier answers and with those of the
    /// route's other providers.
    pub(super) fn fits(&self, replica: &Arc<Replica>, space: Option<&VectorSpace>) -> Result<(), Fault> {
        let Some(claim) = self.claim(replica) else {
            return Ok(());
        };
        claim.refused()?;
        let Some(space) = space.filter(|_| replica.remote) else {
            return Ok(());
        };
        let now = Identity::of(space);
        let others = self.claims.iter().filter_map(|claim| match &*claim.state() {
            State::Held(fingerprint, identity) => identity
                .clone()
                .or_else(|| fingerprint.as_ref().map(|taken| taken.identity().clone())),
            _ => None,
        });
        let others: Vec<Identity> = others.collect();
        if let Some(difference) = others.iter().find_map(|other| other.differs(&now)) {
            let why = format!("an answer is not of the model of the answers before it: {difference}");
            claim.refuse(&self.encoder_id, &why);
            return claim.refused();
        }
        if let State::Held(_, identity @ None) = &mut *claim.state() {
            *identity = Some(now);
        }
        Ok(())
    }
}
