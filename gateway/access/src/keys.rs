//! Creates, changes and revokes keys, and reads the audit log. Every change and its audit event are
//! one transaction.

use isomer_database::{Database, failed};
use isomer_service_kit::{Fault, config::Secret};
use tonic::Code;

use crate::{
    HeadFile,
    access::{Access, micros_now},
    audit::{self, Act, AuditEvent, AuditHead},
    calendar::{day_of, rfc3339},
    faults, key,
    limits::Limits,
    scope::Scopes,
    store::{self, KeyRecord, Usage},
};

/// Longest name of a key, in bytes.
const NAME_BYTES: usize = 200;
/// Maximum number of keys and events in a page.
pub(crate) const PAGE: i64 = 200;

/// The records of keys in a database, with or without a server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Keys {
    database: Database,
    /// Notified of every change at once.
    access: Option<Access>,
    head_file: Option<HeadFile>,
}

/// The properties of a new key.
#[derive(Debug, Clone, Default)]
pub struct NewKey {
    /// Its name for people.
    pub name: String,
    /// Its scopes; at least one.
    pub scopes: Scopes,
    pub limits: Limits,
    /// Its expiry in microseconds since 1970; absent: never.
    pub expires: Option<i64>,
}

/// A change to a key; absent fields are unchanged.
#[derive(Debug, Clone, Default)]
pub struct KeyChange {
    pub name: Option<String>,
    pub scopes: Option<Scopes>,
    /// New limits, replacing all of them.
    pub limits: Option<Limits>,
    /// New expiry; `Some(None)`: never.
    pub expires: Option<Option<i64>>,
}

impl Keys {
    /// Opens the records, and creates the tables if they do not exist.
    ///
    /// # Errors
    /// If the database cannot be read or written.
    pub async fn open(database: Database) -> Result<Self, Fault> {
        store::prepare(&database).await?;
        Ok(Self {
            database,
            access: None,
            head_file: None,
        })
    }

    /// Also records the newest event of the audit log in a file.
    #[must_use]
    pub fn with_head_file(self, file: Option<HeadFile>) -> Self {
        Self {
            head_file: file,
            ..self
        }
    }

    /// The newest event of the audit log according to its file; `None` without a file.
    ///
    /// # Errors
    /// Those of [`HeadFile::read`].
    pub fn acknowledged(&self) -> Result<Option<AuditHead>, Fault> {
        self.head_file.as_ref().map_or(Ok(None), HeadFile::read)
    }

    /// Creates a key. Only this call returns its text, because only its SHA-256 is stored.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` on the invalid field.
    pub async fn create(&self, who: &str, new: NewKey) -> Result<(KeyRecord, Secret), Fault> {
        let now = micros_now();
        check_name(&new.name)?;
        check_scopes(new.scopes)?;
        new.limits.check()?;
        check_expiry(new.expires, now)?;
        let fresh = key::fresh()?;
        let mut record = KeyRecord {
            id: fresh.id,
            digest: fresh.digest,
            name: new.name,
            scopes: new.scopes,
            limits: new.limits,
            created: now,
            created_by: who.to_owned(),
            expires: new.expires,
            revoked: None,
            changed: 0,
        };
        let mut transaction = self.database.pool().begin().await.map_err(failed)?;
        record.changed = store::next_change(&mut transaction).await?;
        store::insert(&mut transaction, &record).await?;
        let target = format!("key:{} {}", record.id, described(&record));
        let event = append(&mut transaction, who, "keys.create", &target).await?;
        transaction.commit().await.map_err(failed)?;
        self.log_event(&event, &record).await;
        Ok((record, fresh.text))
    }

    /// Registers a key that was made elsewhere, by its SHA-256; returns whether it is new here. If
    /// a key is registered already, it gets the given name and scopes and keeps the rest, so that
    /// the same import can be repeated.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` on the invalid field; `ALREADY_EXISTS` if another key has its id;
    /// `FAILED_PRECONDITION` for a revoked key.
    pub async fn import(&self, who: &str, text: &Secret, new: NewKey) -> Result<(KeyRecord, bool), Fault> {
        let now = micros_now();
        check_name(&new.name)?;
        check_scopes(new.scopes)?;
        new.limits.check()?;
        check_expiry(new.expires, now)?;
        let Some(given) = text.expose().and_then(key::read) else {
            return Err(
                Fault::invalid("key", "is not a key: mistyped, cut short, or of another kind")
                    .hint("give a key as `isomer keys create` prints it, alone"),
            );
        };
        let mut transaction = self.database.pool().begin().await.map_err(failed)?;
        let changed = store::next_change(&mut transaction).await?;
        if let Some(known) = store::one(&mut transaction, given.id).await? {
            // The rest of this transaction is that of an update.
            transaction.rollback().await.map_err(failed)?;
            if !known.digest.matches(&given.digest) {
                let id = given.id;
                return Err(Fault::new(
                    Code::AlreadyExists,
                    "OTHER_KEY",
                    format!("another key has the id iso_{id}"),
                )
                .field("key")
                .hint("make a new key; two keys never share an id by chance"));
            }
            if known.name == new.name && known.scopes == new.scopes && known.revoked.is_none() {
                return Ok((known, false));
            }
            let change = KeyChange {
                name: Some(new.name),
                scopes: Some(new.scopes),
                ..KeyChange::default()
            };
            let (record, _) = self.update(who, given.id, change).await?;
            return Ok((record, false));
        }
        let record = KeyRecord {
            id: given.id.to_owned(),
            digest: given.digest,
            name: new.name,
            scopes: new.scopes,
            limits: new.limits,
            created: now,
            created_by: who.to_owned(),
            expires: new.expires,
            revoked: None,
            changed,
        };
        store::insert(&mut transaction, &record).await?;
        let target = format!("key:{} {}", record.id, described(&record));
        let event = append(&mut transaction, who, "keys.import", &target).await?;
        transaction.commit().await.map_err(failed)?;
        self.log_event(&event, &record).await;
        Ok((record, true))
    }

    /// Whether a valid key exists, neither revoked nor expired.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn any_works(&self) -> Result<bool, Fault> {
        let now = micros_now();
        let all = store::changed_since(&self.database, 0).await?;
        Ok(all.iter().any(|record| record.check(now).is_ok()))
    }

    /// A key and its usage.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn get(&self, id: &str) -> Result<(KeyRecord, Usage), Fault> {
        let id = check_id(id)?;
        let mut transaction = self.database.pool().begin().await.map_err(failed)?;
        let record = store::one(&mut transaction, id).await?.ok_or_else(|| unknown(id))?;
        transaction.commit().await.map_err(failed)?;
        let usage = self.usage(&record).await?;
        Ok((record, usage))
    }

    /// A page of keys, oldest first, with the token of the next page. The token is empty on the
    /// last page.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a token that this server did not issue.
    pub async fn list(&self, page_size: u32, page_token: &str) -> Result<(Vec<(KeyRecord, Usage)>, String), Fault> {
        let size = page_length(page_size);
        let after = match page_token.split_once('.') {
            None if page_token.is_empty() => (i64::MIN, ""),
            Some((created, id)) => (created.parse().map_err(|_| bad_page())?, id),
            None => return Err(bad_page()),
        };
        let records = store::page(&self.database, after, size).await?;
        let next = match records.last() {
            Some(last) if records.len() as i64 == size => format!("{}.{}", last.created, last.id),
            _ => String::new(),
        };
        let mut keys = Vec::with_capacity(records.len());
        for record in records {
            let usage = self.usage(&record).await?;
            keys.push((record, usage));
        }
        Ok((keys, next))
    }

    /// Changes a key.
    ///
    /// # Errors
    /// `NOT_FOUND`, `FAILED_PRECONDITION` for a revoked key, `INVALID_ARGUMENT` on the invalid
    /// field.
    pub async fn update(&self, who: &str, id: &str, change: KeyChange) -> Result<(KeyRecord, Usage), Fault> {
        let id = check_id(id)?;
        change.name.as_deref().map_or(Ok(()), check_name)?;
        change.scopes.map_or(Ok(()), check_scopes)?;
        change.limits.as_ref().map_or(Ok(()), Limits::check)?;
        change.expires.map_or(Ok(()), |at| check_expiry(at, micros_now()))?;
        let changed = |mut record: KeyRecord| {
            if record.revoked.is_some() {
                return Err(
                    Fault::precondition("REVOKED_KEY", format!("the key iso_{id} was revoked"))
                        .hint("make another; a revoked key never works again"),
                );
            }
            record.name = change.name.unwrap_or(record.name);
            record.scopes = change.scopes.unwrap_or(record.scopes);
            record.limits = change.limits.unwrap_or(record.limits);
            record.expires = change.expires.unwrap_or(record.expires);
            Ok(Some(record))
        };
        let record = self.change(who, id, "keys.update", changed).await?;
        let usage = self.usage(&record).await?;
        Ok((record, usage))
    }

    /// Revokes a key permanently. Its record stays, for the audit log. A key that is already
    /// revoked is unchanged.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn revoke(&self, who: &str, id: &str) -> Result<KeyRecord, Fault> {
        let id = check_id(id)?;
        let changed = |mut record: KeyRecord| {
            if record.revoked.is_some() {
                return Ok(None);
            }
            record.revoked = Some(micros_now());
            Ok(Some(record))
        };
        self.change(who, id, "keys.revoke", changed).await
    }

    async fn change(
        &self,
        who: &str,
        id: &str,
        act: &str,
        changed: impl FnOnce(KeyRecord) -> Result<Option<KeyRecord>, Fault>,
    ) -> Result<KeyRecord, Fault> {
        let mut transaction = self.database.pool().begin().await.map_err(failed)?;
        let number = store::next_change(&mut transaction).await?;
        let known = store::one(&mut transaction, id).await?.ok_or_else(|| unknown(id))?;
        let Some(mut record) = changed(known.clone())? else {
            return Ok(known);
        };
        record.changed = number;
        store::update(&mut transaction, &record).await?;
        let target = match act {
            "keys.revoke" => format!("key:{id}"),
            _ => format!("key:{id} {}", described(&record)),
        };
        let event = append(&mut transaction, who, act, &target).await?;
        transaction.commit().await.map_err(failed)?;
        self.log_event(&event, &record).await;
        Ok(record)
    }

    async fn log_event(&self, event: &AuditEvent, record: &KeyRecord) {
        self.committed(event).await;
        if let Some(access) = &self.access {
            access.0.put(record.clone());
        }
    }

    async fn committed(&self, event: &AuditEvent) {
        audit::log(event);
        if let Some(file) = &self.head_file {
            file.advance(event, &self.database).await;
        }
    }

    /// Writes an act to the audit log.
    ///
    /// # Errors
    /// If the database cannot be written. In that case the act must not be reported as done.
    pub async fn audit(&self, who: &str, act: &str, target: &str, outcome: Result<(), &Fault>) -> Result<(), Fault> {
        let outcome = match outcome {
            Ok(()) => "OK",
            Err(fault) if fault.reason.is_empty() => isomer_service_kit::code_name(fault.code),
            Err(fault) => &fault.reason,
        };
        let act = Act {
            who,
            act,
            target,
            outcome,
        };
        let mut transaction = self.database.pool().begin().await.map_err(failed)?;
        let event = audit::append(&mut transaction, act).await?;
        transaction.commit().await.map_err(failed)?;
        self.committed(&event).await;
        Ok(())
    }

    /// Events after number `after`, oldest first, at most 200.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn audit_events(&self, after: i64, most: u32) -> Result<Vec<AuditEvent>, Fault> {
        audit::page(&self.database, after, page_length(most)).await
    }

    /// The newest event's number and hash in the database.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn audit_head(&self) -> Result<AuditHead, Fault> {
        audit::head(&self.database).await
    }

    async fn usage(&self, record: &KeyRecord) -> Result<Usage, Fault> {
        let principal = format!("key:{}", record.id);
        let (sums, last_used) = store::sums(&self.database, &principal, day_of(micros_now())).await?;
        Ok(Usage {
            day: sums.day.into(),
            month: sums.month.into(),
            total: sums.total.into(),
            last_used: Some(last_used).filter(|at| *at != 0),
        })
    }
}

impl Access {
    /// The keys of this access. A change through them takes effect at once.
    pub fn keys(&self) -> Keys {
        Keys {
            database: self.0.database.clone(),
            access: Some(self.clone()),
            // A database in memory is lost with the process anyway.
            head_file: self.0.config.head_file().filter(|_| !self.0.database.is_in_memory()),
        }
    }

    /// Writes an administrator's act to the audit log: its author ([`crate::Caller::principal`] and
    /// name), the act (`providers.create`), its object and its outcome. Never pass a secret; parts
    /// that look like a key of this gateway are removed.
    ///
    /// # Errors
    /// If the database cannot be written. In that case the act must not be reported as done.
    pub async fn audit(
        &self,
        who: &crate::Caller,
        act: &str,
        target: &str,
        outcome: Result<(), &Fault>,
    ) -> Result<(), Fault> {
        self.keys().audit(&who.signature(), act, target, outcome).await
    }
}

async fn append(
    transaction: &mut sqlx::Transaction<'_, sqlx::Any>,
    who: &str,
    act: &str,
    target: &str,
) -> Result<AuditEvent, Fault> {
    let outcome = "OK";
    let act = Act {
        who,
        act,
        target,
        outcome,
    };
    audit::append(transaction, act).await
}

/// A key's description in the audit log.
fn described(record: &KeyRecord) -> String {
    let limits = serde_json::to_string(&record.limits).unwrap_or_default();
    let expires = record.expires.map_or_else(|| "never".to_owned(), rfc3339);
    format!(
        "name={:?} scopes={} expires={expires} limits={limits}",
        record.name,
        record.scopes.joined()
    )
}

fn check_name(name: &str) -> Result<(), Fault> {
    if name.trim().is_empty() || name.len() > NAME_BYTES || name.chars().any(char::is_control) {
        return Err(
            Fault::invalid("name", "is empty, longer than 200 bytes, or has control characters")
                .hint("name the key's user, e.g. `search-team`"),
        );
    }
    if key::without_keys(name) != name {
        return Err(Fault::invalid("name", "holds a key").hint("names are shown to everyone; choose another"));
    }
    Ok(())
}

fn check_scopes(scopes: Scopes) -> Result<(), Fault> {
    if scopes.is_empty() {
        return Err(Fault::invalid("scopes", "is empty: the key could do nothing")
            .hint("give at least one of encode, transform, evaluate, admin"));
    }
    Ok(())
}

fn check_expiry(expires: Option<i64>, now: i64) -> Result<(), Fault> {
    match expires {
        Some(at) if at <= now => Err(Fault::invalid("expires", "is in the past").hint("give a future time, e.g. 90d")),
        _ => Ok(()),
    }
}

/// Validates an id, with or without the displayed prefix `iso_`.
fn check_id(id: &str) -> Result<&str, Fault> {
    let bare = id.strip_prefix(key::PREFIX).unwrap_or(id);
    if bare.len() != 12 || !bare.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase()) {
        // The message never repeats the value, because it may be a whole key.
        return Err(Fault::invalid("id", "is not the id of a key")
            .hint("give the 12 characters after `iso_`; `isomer keys list` shows them"));
    }
    Ok(bare)
}

fn unknown(id: &str) -> Fault {
    let fault = faults::unknown_key();
    Fault::not_found("UNKNOWN_KEY", format!("no key with the id {id}"))
        .field("id")
        .hint(fault.hint.unwrap_or_default())
}

fn bad_page() -> Fault {
    Fault::invalid("page_token", "was not issued here").hint("give the next_page_token of the previous page, or none")
}

fn page_length(asked: u32) -> i64 {
    match asked {
        0 => PAGE,
        n => i64::from(n).min(PAGE),
    }
}
