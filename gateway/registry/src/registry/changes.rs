//! Changes to the registry: admission, updates, leases and deletion.

use std::{sync::Arc, time::Duration};

use isomer_proto::gateway::v1::{Provider, UpdateProviderRequest};
use isomer_service_kit::Fault;
use tonic::Code;

use super::{Inner, Registry, unknown};
use crate::{
    config::ProvidersConfig,
    mask::Changes,
    screening::Screening,
    state::{Record, etag, settings},
    store::InsertOutcome,
    time::{Micros, micros, now},
    validate::{self, Author},
};

/// Maximum time for checking a provider before it is admitted.
const ADMISSION: Duration = Duration::from_secs(30);

impl Registry {
    pub(crate) async fn create(&self, wanted: &Provider) -> Result<Provider, Fault> {
        validate::provider(wanted, Author::Caller, &self.inner.config)?;
        let _one = self.inner.changing.lock().await;
        self.insert(wanted).await
    }

    /// Adds a validated provider; the caller holds `changing`.
    async fn insert(&self, wanted: &Provider) -> Result<Provider, Fault> {
        let inner = &self.inner;
        if inner.state().declares(&wanted.id) {
            return Err(taken(&wanted.id).hint(format!("{} declares it: choose another id", inner.file())));
        }
        inner.refuse_stay_without_database(wanted)?;
        // Checked before the provider is called; the database has the final decision.
        if inner.store.find(&wanted.id, now()).await?.is_some() {
            return Err(taken(&wanted.id).hint("update it, or choose another id"));
        }
        let settings = settings(wanted);
        inner.admit(&settings).await?;
        let (now, lease) = (now(), lease_of(&settings, &inner.config)?);
        let record = Record {
            etag: etag(&settings),
            settings,
            created: now,
            updated: now,
            expires: lease.map_or(0, |lease| now.saturating_add(lease)),
        };
        match inner
            .store
            .insert(&record, lease.unwrap_or_default(), inner.config.max_providers, now)
            .await?
        {
            InsertOutcome::Done => {}
            InsertOutcome::Taken => return Err(taken(&wanted.id).hint("update it, or choose another id")),
            InsertOutcome::Full => {
                let most = inner.config.max_providers;
                let problem = format!("there are {most} providers already, which is the limit");
                return Err(Fault::new(Code::ResourceExhausted, "TOO_MANY_PROVIDERS", problem)
                    .hint("delete some, or raise providers.max_providers"));
            }
        }
        inner.reload().await?;
        inner.leases.notify_one();
        tracing::info!(provider = %wanted.id, address = %wanted.address, leased = lease.is_some(), "provider registered");
        Ok(self.with_status(record.shown()))
    }

    pub(crate) async fn update(&self, request: &UpdateProviderRequest) -> Result<Provider, Fault> {
        let inner = &self.inner;
        let Some(wanted) = &request.provider else {
            return Err(Fault::invalid("provider", "is missing").hint("give the provider's id and its new fields"));
        };
        validate::id(&wanted.id)?;
        let changes = Changes::of(request.update_mask.as_ref(), wanted)?;
        inner.refuse_declared(&wanted.id)?;
        let _one = inner.changing.lock().await;
        let Some(before) = inner.store.find(&wanted.id, now()).await? else {
            return match request.allow_missing {
                true if wanted.etag.is_empty() => {
                    validate::provider(wanted, Author::Caller, &inner.config)?;
                    self.insert(wanted).await
                }
                true => Err(changed(&wanted.id)),
                false => Err(unknown(&wanted.id).hint("register it, or allow_missing")),
            };
        };
        if !wanted.etag.is_empty() && wanted.etag != before.etag {
            return Err(changed(&wanted.id));
        }
        let settings = changes.applied(&before.settings, wanted);
        validate::provider(&settings, Author::Caller, &inner.config)?;
        inner.refuse_stay_without_database(&settings)?;
        let etag = etag(&settings);
        if etag != before.etag {
            inner.admit(&settings).await?;
        }
        let (now, lease) = (now(), lease_of(&settings, &inner.config)?);
        let record = Record {
            updated: if etag == before.etag { before.updated } else { now },
            etag,
            settings,
            expires: match (changes.has_lease(), lease) {
                (false, _) => before.expires,
                (true, None) => 0,
                (true, Some(lease)) => now.saturating_add(lease),
            },
            ..before
        };
        let begun = changes.has_lease().then(|| lease.unwrap_or_default());
        if record.etag != before.etag || begun.is_some() {
            if !inner.store.replace(&record, &before.etag, begun, now).await? {
                return Err(changed(&wanted.id));
            }
            inner.reload().await?;
            inner.leases.notify_one();
            tracing::info!(provider = %wanted.id, "provider updated");
        }
        Ok(self.with_status(record.shown()))
    }

    pub(crate) async fn renew(&self, id: &str) -> Result<Micros, Fault> {
        let inner = &self.inner;
        validate::id(id).map_err(|fault| fault.field("id"))?;
        inner.refuse_declared(id)?;
        let now = now();
        if let Some(expires) = inner.store.renew(id, now).await? {
            inner.renewed(id, expires);
            return Ok(expires);
        }
        match inner.store.find(id, now).await? {
            Some(_) => Err(Fault::precondition(
                "NO_LEASE",
                format!("provider `{id}` has no lease, so it does not expire"),
            )
            .field("id")
            .hint("there is nothing to renew")),
            None => Err(unknown(id).hint("its lease expired, or it was deleted: register it again")),
        }
    }

    pub(crate) async fn delete(&self, id: &str, etag: &str) -> Result<(), Fault> {
        let inner = &self.inner;
        validate::id(id).map_err(|fault| fault.field("id"))?;
        inner.refuse_declared(id)?;
        // Does not wait for a provider that is being checked. A concurrent update then finds that
        // this one is gone.
        let before = inner.store.find(id, now()).await?.ok_or_else(|| unknown(id))?;
        if !etag.is_empty() && etag != before.etag {
            return Err(changed(id));
        }
        if !inner.store.delete(id, &before.etag, now()).await? {
            return Err(changed(id));
        }
        inner.reload().await?;
        tracing::info!(provider = %id, "provider deleted");
        Ok(())
    }
}

impl Inner {
    pub(super) fn screening(&self) -> Result<&Arc<dyn Screening>, Fault> {
        let starting = || {
            Fault::unavailable("STARTING", "the gateway cannot check providers yet")
                .retry_after(Duration::from_secs(1))
                .hint("try again in a moment")
        };
        self.screening.get().ok_or_else(starting)
    }

    async fn admit(&self, candidate: &Provider) -> Result<(), Fault> {
        let admission = self.screening()?.admit(candidate);
        tokio::time::timeout(ADMISSION, admission).await.unwrap_or_else(|_| {
            let problem = format!(
                "provider `{}` could not be checked within {} s",
                candidate.id,
                ADMISSION.as_secs()
            );
            Err(Fault::new(Code::DeadlineExceeded, "SLOW_PROVIDER", problem).hint("check that its address answers"))
        })
    }

    fn refuse_declared(&self, id: &str) -> Result<(), Fault> {
        if !self.state().declares(id) {
            return Ok(());
        }
        let file = self.file();
        Err(
            Fault::precondition("DECLARED", format!("{file} declares provider `{id}`"))
                .hint(format!("change {file}; it is read again within seconds"))
                .with("file", file),
        )
    }

    fn refuse_stay_without_database(&self, provider: &Provider) -> Result<(), Fault> {
        if self.durable || provider.lease.is_some() {
            return Ok(());
        }
        Err(Fault::precondition(
            "NO_DATABASE",
            "this gateway has no database: the provider would be forgotten when it stops",
        )
        .field("provider.lease")
        .hint("give the gateway a database, or register with a lease"))
    }

    fn file(&self) -> String {
        self.config
            .file
            .as_ref()
            .map(|file| file.display().to_string())
            .unwrap_or_default()
    }
}

fn lease_of(provider: &Provider, config: &ProvidersConfig) -> Result<Option<Micros>, Fault> {
    let lease = provider.lease.as_ref().map(|lease| validate::lease(lease, config));
    Ok(lease.transpose()?.map(micros))
}

fn taken(id: &str) -> Fault {
    Fault::new(
        Code::AlreadyExists,
        "PROVIDER_EXISTS",
        format!("there is a provider `{id}` already"),
    )
    .field("provider.id")
    .with("provider", id)
}

fn changed(id: &str) -> Fault {
    Fault::new(
        Code::Aborted,
        "ETAG_MISMATCH",
        format!("provider `{id}` has changed since it was read"),
    )
    .hint("read it again and repeat your change")
    .with("provider", id)
}
