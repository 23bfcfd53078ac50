//! This process's view of the registry, and its live part.

use isomer_proto::gateway::v1::{Provider, ProviderSource, ProviderState};
use isomer_service_kit::Fault;
use prost::Message;
use sha2::{Digest, Sha256};

use crate::time::{Micros, timestamp};

/// A stored provider: its owner's settings and the gateway's fields.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    /// Without the fields that the gateway sets.
    pub(crate) settings: Provider,
    pub(crate) etag: String,
    pub(crate) created: Micros,
    pub(crate) updated: Micros,
    /// When its lease expires; 0: never.
    pub(crate) expires: Micros,
}

impl Record {
    pub(crate) fn is_alive(&self, now: Micros) -> bool {
        self.expires == 0 || self.expires > now
    }

    /// The provider as clients see it, but without its state.
    pub(crate) fn shown(&self) -> Provider {
        let source = match self.expires {
            0 => ProviderSource::Stored,
            _ => ProviderSource::Leased,
        };
        Provider {
            etag: self.etag.clone(),
            create_time: timestamp(self.created),
            update_time: timestamp(self.updated),
            expire_time: timestamp(self.expires),
            source: source.into(),
            ..self.settings.clone()
        }
    }
}

/// A provider without the fields that the gateway sets.
pub(crate) fn settings(provider: &Provider) -> Provider {
    Provider {
        create_time: None,
        update_time: None,
        etag: String::new(),
        expire_time: None,
        source: ProviderSource::Unspecified.into(),
        state: ProviderState::Unspecified.into(),
        state_detail: String::new(),
        ..provider.clone()
    }
}

/// A digest of a provider's settings. Equal settings have equal etags in every process.
pub(crate) fn etag(provider: &Provider) -> String {
    let mut rest = settings(provider);
    // Maps have no fixed order, so their encoding is not stable.
    let maps = [&mut rest.encoders, &mut rest.headers, &mut rest.input_types].map(std::mem::take);
    let mut digest = Sha256::new();
    let mut put = |bytes: &[u8]| {
        digest.update((bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    };
    put(&rest.encode_to_vec());
    for map in maps {
        let mut entries: Vec<_> = map.into_iter().collect();
        entries.sort();
        put(&(entries.len() as u64).to_le_bytes());
        for (key, value) in entries {
            put(key.as_bytes());
            put(value.as_bytes());
        }
    }
    hex::encode(&digest.finalize()[..16])
}

/// The view of this process.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The database's content at the last read.
    pub(crate) stored: Vec<Record>,
    /// The database's change counter at the last read.
    pub(crate) changes: i64,
    /// The file's declared providers, in no particular order.
    pub(crate) declared: Vec<Provider>,
    /// Why the file's current content is not in use.
    pub(crate) file_error: Option<Fault>,
}

impl State {
    /// Live providers in order of id. A declared provider takes precedence over a record of the
    /// same id.
    pub(crate) fn live(&self, now: Micros) -> Vec<Provider> {
        let recorded = self
            .stored
            .iter()
            .filter(|record| record.is_alive(now) && !self.declares(&record.settings.id));
        let mut live: Vec<Provider> = recorded
            .map(Record::shown)
            .chain(self.declared.iter().cloned())
            .collect();
        live.sort_by(|a, b| a.id.cmp(&b.id));
        live
    }

    pub(crate) fn declares(&self, id: &str) -> bool {
        self.declared.iter().any(|provider| provider.id == id)
    }

    /// Whether a known lease has expired.
    pub(crate) fn is_due(&self, now: Micros) -> bool {
        self.stored.iter().any(|record| !record.is_alive(now))
    }

    /// When the next lease expires.
    pub(crate) fn next_expiry(&self, now: Micros) -> Option<Micros> {
        let leases = self.stored.iter().map(|record| record.expires);
        leases.filter(|expires| *expires > now).min()
    }
}

/// Whether two lists have the same providers with the same settings; renewed leases do not count.
pub(crate) fn same(a: &[Provider], b: &[Provider]) -> bool {
    let key = |provider: &Provider| (provider.source, provider.id.clone(), provider.etag.clone());
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| key(a) == key(b))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn record(id: &str, expires: Micros) -> Record {
        let settings = Provider {
            id: id.to_owned(),
            ..Provider::default()
        };
        Record {
            etag: etag(&settings),
            settings,
            created: 1,
            updated: 2,
            expires,
        }
    }

    #[test]
    fn an_etag_tells_settings_apart_and_nothing_else() {
        let names = |order: &[&str]| -> HashMap<String, String> {
            order
                .iter()
                .map(|name| ((*name).to_owned(), format!("model {name}")))
                .collect()
        };
        let one = Provider {
            encoders: names(&["a", "b", "c", "d", "e"]),
            ..Provider::default()
        };
        let mut other = Provider {
            encoders: names(&["e", "d", "c", "b", "a"]),
            etag: "x".to_owned(),
            create_time: timestamp(7),
            state_detail: "slow".to_owned(),
            ..Provider::default()
        };
        assert_eq!(etag(&one), etag(&other));
        // The same entry in a different map makes a different provider.
        other.headers = std::mem::take(&mut other.encoders);
        assert_ne!(etag(&one), etag(&other));
    }

    #[test]
    fn the_file_stands_before_records_and_leases_end() {
        let mut state = State {
            stored: vec![record("b", 0), record("c", 50), record("a", 90)],
            ..State::default()
        };
        let ids = |state: &State, now| state.live(now).into_iter().map(|p| p.id).collect::<Vec<_>>();
        assert_eq!(ids(&state, 49), ["a", "b", "c"]);
        assert_eq!(ids(&state, 50), ["a", "b"]);
        assert!(state.is_due(50) && !state.is_due(49));
        assert_eq!(
            [state.next_expiry(49), state.next_expiry(50), state.next_expiry(90)],
            [Some(50), Some(90), None]
        );
        state.declared = vec![Provider {
            id: "b".to_owned(),
            source: ProviderSource::Declared.into(),
            ..Provider::default()
        }];
        let sources: Vec<_> = state.live(90).iter().map(Provider::source).collect();
        assert_eq!(sources, [ProviderSource::Declared]);
    }

    #[test]
    fn a_renewed_lease_is_no_change() {
        let before = [record("a", 50).shown()];
        assert!(same(&before, &[record("a", 60).shown()]));
        assert!(!same(&before, &[record("a", 0).shown()]), "a lease became a stay");
        assert!(!same(&before, &[]));
    }
}
