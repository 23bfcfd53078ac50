//! Admission of requests: credentials, scopes and limits.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use http::{Method, request::Parts};
use isomer_database::Database;
use isomer_service_kit::{
    Fault, Tenant,
    config::{ConfigError, Secret, Validate},
};
use parking_lot::{Mutex, RwLock};

use crate::{
    attempts::Attempts,
    calendar::day_of,
    caller::{Account, Caller, Identity},
    config::{AccessConfig, Mode},
    credential::{self, Credential},
    faults, host,
    jwt::{Subject, Tokens},
    key::{self, KeyDigest},
    meter::{Meter, PeriodUsage, RemainingLimits},
    metric_names,
    path_requirement::{self, PathRequirement},
    store::{self, KeyRecord},
};

pub(crate) use crate::calendar::micros_now;

/// Minimum time between two lookups of an unknown key in the database.
const LOOKS: Duration = Duration::from_millis(50);
/// Keys, tokens, limits and the audit log of one gateway. Cheap to clone; must be used inside a
/// Tokio runtime.
#[derive(Clone, Debug)]
pub struct Access(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) config: AccessConfig,
    pub(crate) database: Database,
    /// This process's name in the database.
    pub(crate) holder: String,
    /// The secret from which tenant names are derived, so that nobody else can create one.
    tenant_secret: Secret,
    tokens: Option<Tokens>,
    pub(crate) attempts: Attempts,
    /// Whether callers must authenticate. With `auto` they must until the address is known to be
    /// loopback.
    required: AtomicBool,
    /// Whether the server is open on a loopback address. If so, requests must use the machine's own
    /// names.
    local_only: AtomicBool,
    /// Origins whose pages may also call an open server.
    origins: OnceLock<Vec<String>>,
    entries: RwLock<HashMap<String, Arc<Entry>>>,
    pub(crate) subjects: RwLock<HashMap<String, Arc<Meter>>>,
    /// The number of the last change to the keys that has been read.
    seen: AtomicI64,
    looked: tokio::sync::Mutex<Option<Instant>>,
    pub(crate) dirty: Mutex<Vec<Arc<Meter>>>,
    /// Permits one writer at a time: counts taken from a meter must be written before more are
    /// taken.
    pub(crate) writing: tokio::sync::Mutex<()>,
}

/// A key and its meters.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) record: KeyRecord,
    pub(crate) meter: Arc<Meter>,
}

impl Access {
    /// Opens the records, and starts to write counts and read changes. With the mode `auto`,
    /// callers must authenticate until [`Access::check_listen`] has seen a loopback address.
    ///
    /// # Errors
    /// If the configuration cannot work, or the database cannot be read.
    pub async fn open(config: AccessConfig, database: Database) -> Result<Self, Fault> {
        config.validate().map_err(|error| error.within("access"))?;
        isomer_service_kit::metric_names::describe(crate::metric_names::ALL);
        store::prepare(&database).await?;
        let tenant_secret = Secret::new(store::tenant_secret(&database, &key::secret()?).await?);
        let tokens = config.jwt.clone().map(Tokens::new).transpose()?;
        let inner = Arc::new(Inner {
            required: AtomicBool::new(config.mode != Mode::Open),
            local_only: AtomicBool::new(false),
            origins: OnceLock::new(),
            tokens,
            attempts: Attempts::default(),
            config,
            database,
            holder: uuid::Uuid::new_v4().to_string(),
            tenant_secret,
            entries: RwLock::default(),
            subjects: RwLock::default(),
            seen: AtomicI64::new(0),
            looked: tokio::sync::Mutex::default(),
            dirty: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
        });
        inner.read_changes().await?;
        tokio::spawn(crate::counts::beat(Arc::downgrade(&inner)));
        let access = Self(inner);
        access.report_lost_events().await?;
        Ok(access)
    }

    /// A database that was restored from a copy may lack acknowledged revocations.
    async fn report_lost_events(&self) -> Result<(), Fault> {
        let keys = self.keys();
        let (found, acknowledged) = (keys.audit_head().await?.seq, keys.acknowledged());
        match acknowledged.map(|head| head.map_or(0, |head| head.seq)) {
            Ok(acknowledged) if acknowledged > found => tracing::error!(
                acknowledged,
                found,
                "the database has lost audit events: keys that were revoked may work again; \
                 see `isomer keys audit --verify`"
            ),
            Ok(_) => {}
            Err(fault) => tracing::error!(%fault, "the newest audit event is not known"),
        }
        Ok(())
    }

    /// Permits pages of these origins if `auto` leaves a loopback address open to this machine
    /// (elsewhere keys and browsers decide). Only the first call has an effect.
    pub fn allow_pages(&self, origins: &[String]) {
        self.0.origins.get_or_init(|| origins.to_vec());
    }

    /// Decides the meaning of `auto` at this address. Refuses an address that is reachable from
    /// elsewhere if callers could not authenticate. Must be called before the port is served.
    ///
    /// # Errors
    /// If the address is not loopback, access is required, and there is neither a usable key nor an
    /// identity provider. The message says how to create the first key.
    pub async fn check_listen(&self, listen: SocketAddr) -> Result<(), ConfigError> {
        let config = &self.0.config;
        let required = config.required_at(listen);
        self.0.required.store(required, Ordering::Release);
        // This applies in every mode: a server that is open to all callers must not be open to
        // every page in a browser of this machine.
        let loopback = listen.ip().to_canonical().is_loopback();
        self.0.local_only.store(!required && loopback, Ordering::Release);
        if !required {
            if loopback {
                tracing::warn!(%listen, "every program of this machine may do everything; pages of other origins may not");
            } else {
                tracing::warn!(%listen, "anyone who reaches this address may do everything (access.mode = \"open\")");
            }
            return Ok(());
        }
        let now = micros_now();
        let usable = |entry: &Arc<Entry>| entry.record.check(now).is_ok();
        if self.0.tokens.is_none() && !self.0.entries.read().values().any(usable) {
            return Err(ConfigError::new(
                "access.mode",
                format!("{listen} asks for a key, and there is none yet"),
                "make the first with `isomer keys create --name NAME --scope encode --scope admin` (same configuration, no \
                 server needed), or listen on 127.0.0.1, or write access.mode = \"open\" to let anyone in",
            ));
        }
        Ok(())
    }

    /// Whether callers must authenticate.
    pub fn is_required(&self) -> bool {
        self.0.required.load(Ordering::Acquire)
    }

    /// Admits a request or refuses it. Reads the credential and removes it from the headers; checks
    /// it, the scopes that the path needs and the caller's limits; and puts a [`Caller`] into the
    /// request's extensions. For requests from the network only.
    ///
    /// # Errors
    /// `UNAUTHENTICATED` (`NO_KEY`, `SEVERAL_CREDENTIALS`, `BAD_HEADER`, `MISTYPED_KEY`,
    /// `UNKNOWN_KEY`, `REVOKED_KEY`, `EXPIRED_KEY`, `BAD_TOKEN`, `EXPIRED_TOKEN`),
    /// `PERMISSION_DENIED` (`WRONG_SCOPE`, `FOREIGN_HOST`, `FOREIGN_ORIGIN`), `RESOURCE_EXHAUSTED`
    /// (`TOO_MANY_AT_ONCE`, `BUDGET_EXCEEDED`, `RATE_LIMITED`) with a time to try again,
    /// `UNAVAILABLE` (`DATABASE`, `IDENTITY_PROVIDER`).
    pub async fn admit(&self, parts: &mut Parts) -> Result<(), Fault> {
        let admitted = self.0.admit(parts).await;
        credential::remove(&mut parts.headers);
        match admitted {
            Ok(caller) => {
                parts.extensions.insert(caller);
                Ok(())
            }
            Err(fault) => {
                metrics::counter!(metric_names::REFUSED, "reason" => fault.reason.clone()).increment(1);
                tracing::debug!(reason = %fault.reason, path = parts.uri.path(), "refused");
                Err(fault)
            }
        }
    }

    /// The `WWW-Authenticate` header of a 401 answer for this path. For pages it makes a browser
    /// show its password dialog.
    pub fn challenge(path: &str) -> &'static str {
        if path_requirement::is_page(path) {
            "Basic realm=\"isomer: a key as the password\", charset=\"UTF-8\""
        } else {
            "Bearer realm=\"isomer\""
        }
    }

    /// Writes the counts. Must be called when a server has drained. A process that is killed loses
    /// at most the counts of the last half second.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub async fn flush(&self) -> Result<(), Fault> {
        self.0.write_counts().await
    }
}

impl Inner {
    async fn admit(self: &Arc<Self>, parts: &Parts) -> Result<Caller, Fault> {
        let need = path_requirement::need(parts, &self.config);
        if !self.required.load(Ordering::Acquire) {
            return self.admit_open(parts, need).await;
        }
        let PathRequirement::Scopes(scopes) = need else {
            return Ok(Caller::nobody());
        };
        let reading = parts.method == Method::GET || parts.method == Method::HEAD;
        let basic = reading && path_requirement::is_page(parts.uri.path());
        if basic && parts.uri.path() == "/" && parts.uri.query().is_some() {
            host::check_page(&parts.headers)?;
        }
        let owner = match credential::read(&parts.headers, basic)? {
            Credential::None => return Err(faults::no_key()),
            Credential::Other => return Err(faults::not_ours()),
            Credential::Key(text) => self.by_key(text.expose().unwrap_or_default()).await?,
            Credential::Token(text) => self.by_token(text.expose().unwrap_or_default()).await?,
        };
        self.enter(owner, scopes, parts).await
    }

    /// Admits a request to an open server. A key of this gateway still applies its scopes and
    /// limits, so that limits can be tried out and a revoked key never seems to work. Other
    /// credentials are ignored: some clients cannot omit one.
    async fn admit_open(self: &Arc<Self>, parts: &Parts, need: PathRequirement) -> Result<Caller, Fault> {
        if self.local_only.load(Ordering::Acquire) {
            host::check_local(parts, self.origins.get().map_or(&[], Vec::as_slice))?;
        }
        let PathRequirement::Scopes(scopes) = need else {
            return Ok(Caller::nobody());
        };
        match credential::read(&parts.headers, false) {
            Ok(Credential::Key(text)) => {
                let owner = self.by_key(text.expose().unwrap_or_default()).await?;
                self.enter(owner, scopes, parts).await
            }
            Err(fault) if carries_ours(parts) => Err(fault),
            _ => Ok(Caller::anyone()),
        }
    }

    async fn by_key(self: &Arc<Self>, text: &str) -> Result<Owner, Fault> {
        let presented = key::read(text).ok_or_else(faults::mistyped)?;
        let mut entry = self.entry(presented.id);
        if entry.is_none() {
            self.look_again().await;
            entry = self.entry(presented.id);
        }
        // A comparison is also made for an unknown id, so that it takes as long as a wrong secret.
        let nothing = KeyDigest::of("");
        let stored = entry.as_ref().map_or(&nothing, |entry| &entry.record.digest);
        let matches = stored.matches(&presented.digest);
        let entry = entry.filter(|_| matches).ok_or_else(faults::unknown_key)?;
        entry.record.check(micros_now())?;
        Ok(Owner::Key(entry))
    }

    async fn by_token(&self, text: &str) -> Result<Owner, Fault> {
        let Some(tokens) = &self.tokens else {
            return Err(faults::not_ours());
        };
        Ok(Owner::Subject(tokens.verify(text).await?))
    }

    /// Admits a known caller within its rights, and counts its refusals.
    async fn enter(self: &Arc<Self>, owner: Owner, needed: crate::Scopes, parts: &Parts) -> Result<Caller, Fault> {
        let meter = match &owner {
            Owner::Key(entry) => Arc::clone(&entry.meter),
            Owner::Subject(subject) => self.subject_meter(&subject.principal),
        };
        let entered = self.enter_within_limits(owner, Arc::clone(&meter), needed, parts).await;
        if let Err(fault) = &entered {
            meter.count_refusal(fault);
        }
        entered
    }

    /// Checks scopes first, then limits, and the rate last, so that a request refused for another
    /// reason does not count against the rate. Budgets apply only if the request `spends`
    /// something.
    async fn enter_within_limits(
        self: &Arc<Self>,
        owner: Owner,
        meter: Arc<Meter>,
        needed: crate::Scopes,
        parts: &Parts,
    ) -> Result<Caller, Fault> {
        let now = micros_now();
        let (name, scopes, identity) = match &owner {
            Owner::Key(entry) => {
                let record = &entry.record;
                let identity = Identity::Key(record.id.clone());
                (&record.name, record.scopes, identity)
            }
            Owner::Subject(subject) => {
                let identity = Identity::Token {
                    expires: subject.expires,
                };
                (&subject.name, subject.scopes, identity)
            }
        };
        let limits = match &owner {
            Owner::Key(entry) => &entry.record.limits,
            Owner::Subject(_) => self.subject_limits(),
        };
        if let Some(scope) = scopes.lacks(needed) {
            let fault = faults::wrong_scope(name, scope);
            let access = Access(Arc::clone(self));
            access
                .note_attempt(parts, needed, (name, &meter.principal), &fault)
                .await;
            return Err(fault);
        }
        let place = meter.enter(name, limits)?;
        if !limits.budgets.is_empty() && !meter.is_loaded() {
            let (sums, _) = store::sums(&self.database, &meter.principal, day_of(now)).await?;
            meter.begin(sums);
        }
        if path_requirement::spends(parts) {
            meter.check_budgets(name, limits, now)?;
        }
        meter.take_request(name, limits, now)?;
        let one = PeriodUsage {
            requests: 1,
            ..PeriodUsage::default()
        };
        self.count(&meter, one);
        let account = Account {
            meter,
            access: Arc::clone(self),
            identity,
            needed,
            _place: place,
        };
        Ok(Caller::known(name.clone(), scopes, account))
    }

    /// Checks that a caller still has the rights that its request needed when it began: a key that
    /// is neither revoked nor expired, and its scopes.
    pub(crate) fn check_rights(&self, account: &Account, name: &str, now: i64) -> Result<(), Fault> {
        match &account.identity {
            Identity::Key(id) => {
                let entry = self.entry(id).ok_or_else(faults::unknown_key)?;
                entry.record.check(now)?;
                match entry.record.scopes.lacks(account.needed) {
                    Some(scope) => Err(faults::wrong_scope(name, scope)),
                    None => Ok(()),
                }
            }
            Identity::Token { expires } if *expires <= now => Err(faults::expired_token()),
            Identity::Token { .. } => Ok(()),
        }
    }

    /// Like [`Inner::check_rights`], and also checks that the budgets are not used up.
    pub(crate) fn recheck(&self, account: &Account, name: &str, now: i64) -> Result<(), Fault> {
        self.check_rights(account, name, now)?;
        match &account.identity {
            Identity::Key(id) => {
                let entry = self.entry(id).ok_or_else(faults::unknown_key)?;
                account.meter.check_budgets(name, &entry.record.limits, now)
            }
            Identity::Token { .. } => account.meter.check_budgets(name, self.subject_limits(), now),
        }
    }

    /// The remaining allowance of a caller's limits.
    pub(crate) fn remaining(&self, identity: &Identity, meter: &Meter) -> RemainingLimits {
        let now = micros_now();
        match identity {
            Identity::Key(id) => match self.entry(id) {
                Some(entry) => meter.remaining(&entry.record.limits, now),
                None => RemainingLimits::default(),
            },
            Identity::Token { .. } => meter.remaining(self.subject_limits(), now),
        }
    }

    /// Takes one request from the rate limiter and counts it.
    pub(crate) fn take_request(&self, identity: &Identity, meter: &Arc<Meter>, name: &str) -> Result<(), Fault> {
        let now = micros_now();
        match identity {
            Identity::Key(id) => {
                let entry = self.entry(id).ok_or_else(faults::unknown_key)?;
                meter.take_request(name, &entry.record.limits, now)?;
            }
            Identity::Token { .. } => meter.take_request(name, self.subject_limits(), now)?,
        }
        let one = PeriodUsage {
            requests: 1,
            ..PeriodUsage::default()
        };
        self.count(meter, one);
        Ok(())
    }

    /// The tenant of an account's texts in caches.
    pub(crate) fn tenant(&self, principal: &str) -> Tenant {
        match self.tenant_secret.expose() {
            Some(secret) if !self.config.share_caches => Tenant::of_account(secret.as_bytes(), principal),
            _ => Tenant::default(),
        }
    }

    pub(crate) fn count(&self, meter: &Arc<Meter>, spent: PeriodUsage) {
        for (name, amount) in [
            (metric_names::KEY_REQUESTS, spent.requests),
            (metric_names::KEY_TOKENS, spent.tokens),
            (metric_names::KEY_COST, spent.cost),
        ] {
            if amount > 0 {
                metrics::counter!(name, "key" => meter.label().to_owned()).increment(amount);
            }
        }
        if meter.add(spent, micros_now()) {
            self.dirty.lock().push(Arc::clone(meter));
        }
    }

    /// The meter and the limits of the account `principal`.
    pub(crate) fn account(&self, principal: &str) -> (Arc<Meter>, crate::Limits) {
        match principal.strip_prefix("key:").and_then(|id| self.entry(id)) {
            Some(entry) => (Arc::clone(&entry.meter), entry.record.limits.clone()),
            None => (self.subject_meter(principal), self.subject_limits().clone()),
        }
    }

    pub(crate) fn subject_limits(&self) -> &crate::Limits {
        static NONE: crate::Limits = crate::Limits {
            requests_per_second: None,
            max_concurrency: None,
            budgets: Vec::new(),
        };
        self.config.jwt.as_ref().map_or(&NONE, |jwt| &jwt.limits)
    }

    pub(crate) fn entry(&self, id: &str) -> Option<Arc<Entry>> {
        self.entries.read().get(id).cloned()
    }

    fn subject_meter(&self, principal: &str) -> Arc<Meter> {
        if let Some(meter) = self.subjects.read().get(principal) {
            return Arc::clone(meter);
        }
        let mut subjects = self.subjects.write();
        let meter = subjects
            .entry(principal.to_owned())
            .or_insert_with(|| Arc::new(Meter::new(principal.to_owned())));
        Arc::clone(meter)
    }

    /// Stores a key's current record, and keeps its meters.
    pub(crate) fn put(&self, record: KeyRecord) {
        let mut entries = self.entries.write();
        let known = entries.get(&record.id);
        if known.is_some_and(|entry| entry.record.changed > record.changed) {
            return;
        }
        let meter = match known {
            Some(entry) => Arc::clone(&entry.meter),
            None => Arc::new(Meter::new(format!("key:{}", record.id))),
        };
        entries.insert(record.id.clone(), Arc::new(Entry { record, meter }));
    }

    /// Reads all changes to the keys since the last read.
    pub(crate) async fn read_changes(&self) -> Result<(), Fault> {
        let since = self.seen.load(Ordering::Acquire);
        for record in store::changed_since(&self.database, since).await? {
            self.seen.fetch_max(record.changed, Ordering::AcqRel);
            self.put(record);
        }
        Ok(())
    }

    /// Reads keys that were created elsewhere a moment ago. Concurrent callers share one read
    /// (single-flight).
    async fn look_again(&self) {
        let arrived = Instant::now();
        let mut looked = self.looked.lock().await;
        if let Some(before) = *looked {
            if before >= arrived {
                return;
            }
            tokio::time::sleep_until((before + LOOKS).into()).await;
        }
        *looked = Some(Instant::now());
        // If this fails, the key stays unknown here. The log already reports that the database is
        // unavailable.
        let _ = self.read_changes().await;
    }
}

/// The caller that a credential identifies.
enum Owner {
    Key(Arc<Entry>),
    Subject(Arc<Subject>),
}

impl KeyRecord {
    /// Whether the key may be used.
    pub(crate) fn check(&self, now: i64) -> Result<(), Fault> {
        if self.revoked.is_some() {
            return Err(faults::revoked(&self.id));
        }
        match self.expires.filter(|at| *at <= now) {
            Some(at) => Err(faults::expired(&self.id, &crate::calendar::rfc3339(at))),
            None => Ok(()),
        }
    }
}

/// Whether any header contains a key of this gateway.
fn carries_ours(parts: &Parts) -> bool {
    let ours = |value: &http::HeaderValue| {
        let mut parts = value.as_bytes().windows(key::PREFIX.len());
        parts.any(|part| part == key::PREFIX.as_bytes())
    };
    credential::headers().any(|name| parts.headers.get_all(name).iter().any(ours))
}
