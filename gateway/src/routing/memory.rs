//! Remembers the providers' first vectors across restarts.
//!
//! A model that was replaced while no gateway ran is detected like one that is replaced while a
//! gateway runs. A fingerprint belongs to one version of a provider's record. Any change of the
//! record is consent to a new fingerprint, and so is deleting the provider and registering it
//! again.

use std::{collections::HashMap, sync::Arc};

use isomer_database::{Database, failed};
use isomer_proto::gateway::v1::Provider;
use isomer_service_kit::Fault;
use parking_lot::{Mutex, MutexGuard};
use prost::Message;
use sqlx::Row;

use super::{router::settings, space::Fingerprint};

const STEPS: &[&str] = &[
    // settings: the provider's record, in protobuf, in hexadecimal. taken: the fingerprint as JSON.
    "CREATE TABLE fingerprints (
        provider TEXT NOT NULL,
        encoder TEXT NOT NULL,
        settings TEXT NOT NULL,
        taken TEXT NOT NULL,
        PRIMARY KEY (provider, encoder)
    )",
];

/// The first fingerprints of all providers.
#[derive(Debug)]
pub(crate) struct Memory {
    database: Database,
    /// By provider, then by encoder.
    first: Mutex<HashMap<String, HashMap<String, First>>>,
}

#[derive(Debug)]
struct First {
    settings: Provider,
    taken: Arc<Fingerprint>,
}

/// Brings the table up to date.
pub(crate) async fn prepare(database: &Database) -> Result<(), Fault> {
    database.migrate("fingerprints", STEPS).await
}

impl Memory {
    /// Reads all fingerprints. Unreadable ones are dropped and taken again.
    pub(crate) async fn open(database: Database) -> Result<Arc<Self>, Fault> {
        prepare(&database).await?;
        let rows = sqlx::query("SELECT provider, encoder, settings, taken FROM fingerprints");
        let rows = rows.fetch_all(database.pool()).await.map_err(failed)?;
        let mut first: HashMap<String, HashMap<String, First>> = HashMap::new();
        for row in rows {
            let text = |column: &str| row.try_get::<String, _>(column).map_err(failed);
            let settings = hex::decode(text("settings")?)
                .ok()
                .and_then(|bytes| Provider::decode(&*bytes).ok());
            let taken = serde_json::from_str(&text("taken")?).ok();
            if let (Some(settings), Some(taken)) = (settings, taken) {
                let of_provider = first.entry(text("provider")?).or_default();
                of_provider.insert(
                    text("encoder")?,
                    First {
                        settings,
                        taken: Arc::new(taken),
                    },
                );
            }
        }
        Ok(Arc::new(Self {
            database,
            first: Mutex::new(first),
        }))
    }

    fn first(&self) -> MutexGuard<'_, HashMap<String, HashMap<String, First>>> {
        self.first.lock()
    }

    /// Removes the fingerprints of a deleted provider.
    pub(crate) async fn forget(&self, provider: &str) {
        if self.first().remove(provider).is_none() {
            return;
        }
        let query = sqlx::query("DELETE FROM fingerprints WHERE provider = $1").bind(provider);
        if let Err(error) = query.execute(self.database.pool()).await {
            tracing::warn!(provider, fault = %failed(error), "the fingerprints of a provider could not be deleted");
        }
    }
}

/// The stored fingerprints of one provider.
#[derive(Debug, Clone)]
pub(crate) struct ProviderFingerprints {
    memory: Arc<Memory>,
    settings: Provider,
}

impl ProviderFingerprints {
    pub(crate) fn new(memory: Arc<Memory>, provider: &Provider) -> Self {
        Self {
            memory,
            settings: settings(provider),
        }
    }

    /// The provider's first fingerprint of an encoder.
    pub(super) fn first(&self, encoder_id: &str) -> Option<Arc<Fingerprint>> {
        let memory = self.memory.first();
        let first = memory.get(&self.settings.id)?.get(encoder_id)?;
        (first.settings == self.settings).then(|| Arc::clone(&first.taken))
    }

    /// Stores the fingerprint. If the database is unavailable, it is kept until this process ends.
    pub(super) async fn keep(&self, encoder_id: &str, taken: &Arc<Fingerprint>) {
        let provider = &self.settings.id;
        let first = First {
            settings: self.settings.clone(),
            taken: Arc::clone(taken),
        };
        self.memory
            .first()
            .entry(provider.clone())
            .or_default()
            .insert(encoder_id.to_owned(), first);
        let Ok(json) = serde_json::to_string(&**taken) else {
            return;
        };
        let query = sqlx::query(
            "INSERT INTO fingerprints (provider, encoder, settings, taken) VALUES ($1, $2, $3, $4)
             ON CONFLICT (provider, encoder) DO UPDATE SET settings = excluded.settings, taken = excluded.taken",
        );
        let query = query
            .bind(provider)
            .bind(encoder_id)
            .bind(hex::encode(self.settings.encode_to_vec()))
            .bind(json);
        if let Err(error) = query.execute(self.memory.database.pool()).await {
            tracing::warn!(provider, encoder = encoder_id, fault = %failed(error), "the fingerprint of a provider could not be stored");
        }
    }
}
