//! The caller, which is put into the extensions of every admitted request.

use std::{fmt, sync::Arc};

use isomer_service_kit::Fault;

use crate::{
    access::{Inner, micros_now},
    faults,
    meter::{Meter, Permit, Spent},
    reserve::Reservation,
    scope::{Scope, Scopes},
};

/// The caller that makes a request. Cheap to clone. While a clone lives, the request counts as in
/// flight, so a handler that answers in a stream keeps one until the stream has ended.
#[derive(Clone)]
pub struct Caller(Arc<Known>);

struct Known {
    name: String,
    scopes: Scopes,
    account: Option<Account>,
}

/// A caller whose use is counted.
pub(crate) struct Account {
    pub(crate) meter: Arc<Meter>,
    pub(crate) access: Arc<Inner>,
    pub(crate) identity: Identity,
    /// Held, not read.
    pub(crate) _place: Permit,
}

/// Where a caller's rights come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// An API key, by its id.
    Key(String),
    /// A token; it ends at this time, in microseconds since 1970.
    Token { expires: i64 },
}

impl Caller {
    /// Anyone, where a server stands open.
    pub(crate) fn anyone() -> Self {
        Self(Arc::new(Known {
            name: "anyone".to_owned(),
            scopes: Scopes::ALL,
            account: None,
        }))
    }

    /// Someone without rights, e.g. who asks whether the server lives.
    pub(crate) fn nobody() -> Self {
        Self(Arc::new(Known {
            name: "nobody".to_owned(),
            scopes: Scopes::NONE,
            account: None,
        }))
    }

    pub(crate) fn known(name: String, scopes: Scopes, account: Account) -> Self {
        Self(Arc::new(Known {
            name,
            scopes,
            account: Some(account),
        }))
    }

    /// The key's name, the token's subject, `anyone` where the server stands open, `nobody` at the
    /// probes. Never secret.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What the caller is counted and audited under: `key:ID`, `jwt:DIGEST`, or the name where
    /// nothing is counted.
    pub fn principal(&self) -> &str {
        self.0
            .account
            .as_ref()
            .map_or(&self.0.name, |account| &account.meter.principal)
    }

    /// Whether what the caller uses is counted: not where a server stands open to anyone.
    pub fn is_counted(&self) -> bool {
        self.0.account.is_some()
    }

    /// Name and principal in one, as the audit log has it.
    pub(crate) fn signature(&self) -> String {
        match &self.0.account {
            Some(account) => signature(&self.0.name, &account.meter.principal),
            None => self.0.name.clone(),
        }
    }

    /// What the caller may ask for.
    pub fn scopes(&self) -> Scopes {
        self.0.scopes
    }

    /// Refuses a caller who lacks a scope that the path alone did not show to be needed, e.g.
    /// `transform` for an `augment` in the body of `/v1/embeddings`.
    ///
    /// # Errors
    /// `PERMISSION_DENIED` with the reason `WRONG_SCOPE`.
    pub fn require(&self, scope: Scope) -> Result<(), Fault> {
        if self.0.scopes.has(scope) {
            return Ok(());
        }
        Err(faults::wrong_scope(&self.0.name, scope))
    }

    /// Sets aside what a request may use at most, tokens and billionths of a US dollar; nothing
    /// where the caller has no budget.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED`: a budget is used up (`BUDGET_EXCEEDED`), or what is left of it is set
    /// aside for other requests (`BUDGET_RESERVED`).
    pub async fn reserve(&self, tokens: u64, cost_nano_usd: u64) -> Result<Option<Reservation>, Fault> {
        let Some(account) = &self.0.account else {
            return Ok(None);
        };
        let most = Spent {
            requests: 0,
            tokens,
            cost: cost_nano_usd,
        };
        account
            .access
            .reserve(&account.identity, &account.meter, &self.0.name, most)
            .await
    }

    /// Admits one more message of a stream: it counts as a request, and waits until the rate of
    /// requests permits it.
    ///
    /// # Errors
    /// As when a request begins, but for the rate.
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

    /// Charges for what was used: tokens, and billionths of a US dollar by the provider's price.
    /// Kept at once, written within a second.
    pub fn charge(&self, tokens: u64, cost_nano_usd: u64) {
        let Some(account) = &self.0.account else { return };
        account.access.count(
            &account.meter,
            Spent {
                requests: 0,
                tokens,
                cost: cost_nano_usd,
            },
        );
    }

    /// Checks again what may have changed since the request began: revocation, expiry, budgets. For
    /// streams, before each message is worked on.
    ///
    /// # Errors
    /// As when a request begins.
    pub fn still_welcome(&self) -> Result<(), Fault> {
        let Some(account) = &self.0.account else { return Ok(()) };
        account
            .access
            .recheck(&account.identity, &account.meter, &self.0.name, micros_now())
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

/// How a caller is named on the audit log.
pub(crate) fn signature(name: &str, principal: &str) -> String {
    format!("{name} ({principal})")
}
