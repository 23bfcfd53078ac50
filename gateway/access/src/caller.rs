//! The caller of a request, which is put into the extensions of every admitted request.

use std::{fmt, sync::Arc};

use isomer_proto::gateway::v1::AccessScope;
use isomer_service_kit::{Fault, Tenant};

use crate::{
    access::{Inner, micros_now},
    faults,
    meter::{Meter, PeriodUsage, Permit, RemainingLimits},
    reserve::Reservation,
    scope::Scopes,
};

/// The caller of a request. Cheap to clone. The request counts as in flight while a clone lives. So
/// a handler that answers with a stream keeps a clone until the stream has ended.
#[derive(Clone)]
pub struct Caller(Arc<CallerIdentity>);

struct CallerIdentity {
    name: String,
    scopes: Scopes,
    account: Option<Account>,
}

/// A caller whose use is counted.
pub(crate) struct Account {
    pub(crate) meter: Arc<Meter>,
    pub(crate) access: Arc<Inner>,
    pub(crate) identity: Identity,
    pub(crate) needed: Scopes,
    /// Held until dropped; never read.
    pub(crate) _place: Permit,
}

/// The source of a caller's rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// An API key, by its id.
    Key(String),
    /// A token, which expires at this time, in microseconds since 1970.
    Token { expires: i64 },
}

impl Caller {
    /// Any caller of an open server.
    pub(crate) fn anyone() -> Self {
        Self(Arc::new(CallerIdentity {
            name: "anyone".to_owned(),
            scopes: Scopes::ALL,
            account: None,
        }))
    }

    /// A caller without rights, e.g. a health probe.
    pub(crate) fn nobody() -> Self {
        Self(Arc::new(CallerIdentity {
            name: "nobody".to_owned(),
            scopes: Scopes::NONE,
            account: None,
        }))
    }

    pub(crate) fn known(name: String, scopes: Scopes, account: Account) -> Self {
        Self(Arc::new(CallerIdentity {
            name,
            scopes,
            account: Some(account),
        }))
    }

    /// The key's name, the token's subject, `anyone` at an open server, `nobody` for probes. Never
    /// secret.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The account under which the caller is counted and audited: `key:ID`, `jwt:DIGEST`, or the
    /// name if nothing is counted.
    pub fn principal(&self) -> &str {
        self.0
            .account
            .as_ref()
            .map_or(&self.0.name, |account| &account.meter.principal)
    }

    /// The tenant of the caller's texts in caches. Cached results of one tenant are not served to
    /// another. All callers of an open server, or of a server with shared caches, are one tenant.
    pub fn tenant(&self) -> Tenant {
        let account = self.0.account.as_ref();
        account.map_or_else(Tenant::default, |account| {
            account.access.tenant(&account.meter.principal)
        })
    }

    /// Whether the caller's usage is counted. It is not at a server that is open to anyone.
    pub fn is_counted(&self) -> bool {
        self.0.account.is_some()
    }

    /// Name and principal together, as in the audit log.
    pub(crate) fn signature(&self) -> String {
        match &self.0.account {
            Some(account) => signature(&self.0.name, &account.meter.principal),
            None => self.0.name.clone(),
        }
    }

    pub fn scopes(&self) -> Scopes {
        self.0.scopes
    }

    /// The remaining allowance of its limits.
    pub fn remaining(&self) -> RemainingLimits {
        let account = self.0.account.as_ref();
        account.map_or_else(RemainingLimits::default, |account| {
            account.access.remaining(&account.identity, &account.meter)
        })
    }

    /// Refuses a caller without this scope, for needs that the path alone does not show, e.g.
    /// `transform` for an `augment` in the body of `/v1/embeddings`.
    ///
    /// # Errors
    /// `PERMISSION_DENIED` with the reason `WRONG_SCOPE`.
    pub fn require(&self, scope: AccessScope) -> Result<(), Fault> {
        if self.0.scopes.has(scope) {
            return Ok(());
        }
        Err(faults::wrong_scope(&self.0.name, scope))
    }

    /// Reserves the maximum usage of a request, in tokens and billionths of a US dollar. Reserves
    /// nothing for a caller without budgets.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED`: a budget is used up (`BUDGET_EXCEEDED`), or the rest is reserved for
    /// other requests (`BUDGET_RESERVED`).
    pub async fn reserve(&self, tokens: u64, cost_nano_usd: u64) -> Result<Option<Reservation>, Fault> {
        let Some(account) = &self.0.account else {
            return Ok(None);
        };
        let most = PeriodUsage {
            requests: 0,
            tokens,
            cost: cost_nano_usd,
        };
        let (access, meter) = (&account.access, &account.meter);
        let reserved = access.reserve(&account.identity, meter, &self.0.name, most).await;
        reserved.inspect_err(|fault| meter.count_refusal(fault))
    }

    /// Admits one more message of a stream: it counts as a request and waits until the rate limiter
    /// permits it.
    ///
    /// # Errors
    /// Those of the beginning of a request, except for the rate.
    pub async fn next_message(&self) -> Result<(), Fault> {
        let Some(account) = &self.0.account else { return Ok(()) };
        loop {
            self.still_welcome()?;
            let taken = account
                .access
                .take_request(&account.identity, &account.meter, &self.0.name);
            match taken.map_err(|fault| (fault.retry_after, fault)) {
                Ok(()) => return Ok(()),
                Err((Some(wait), _)) => tokio::time::sleep(wait).await,
                Err((None, fault)) => return Err(fault),
            }
        }
    }

    /// Charges usage: tokens, and billionths of a US dollar at the provider's price. It is counted
    /// at once, and written within a second.
    pub fn charge(&self, tokens: u64, cost_nano_usd: u64) {
        let Some(account) = &self.0.account else { return };
        account.access.count(
            &account.meter,
            PeriodUsage {
                requests: 0,
                tokens,
                cost: cost_nano_usd,
            },
        );
    }

    /// Checks again the conditions that may have changed since the request began: revocation,
    /// expiry, scopes, budgets. Streams call it before each message of the caller.
    ///
    /// # Errors
    /// Those of the beginning of a request.
    pub fn still_welcome(&self) -> Result<(), Fault> {
        let Some(account) = &self.0.account else { return Ok(()) };
        account.access.recheck(account, &self.0.name, micros_now())
    }

    /// Like [`Caller::still_welcome`], but without budgets, which the request itself may use up.
    /// Long answers call it before each message.
    ///
    /// # Errors
    /// Those of the beginning of a request.
    pub fn still_permitted(&self) -> Result<(), Fault> {
        let Some(account) = &self.0.account else { return Ok(()) };
        account.access.check_rights(account, &self.0.name, micros_now())
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("name", &self.0.name)
            .field("principal", &self.principal())
            .field("scopes", &self.0.scopes)
            .finish()
    }
}

/// A caller's name in the audit log.
pub(crate) fn signature(name: &str, principal: &str) -> String {
    format!("{name} ({principal})")
}
