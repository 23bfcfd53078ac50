//! A provider that offers encoders, and its state.

use std::sync::Arc;

use isomer_access::nano;
use isomer_adapters::{EncoderBackend, check::CheckOptions};
use isomer_proto::{common::v1::Usage, encoder::v1::Encoder};
use isomer_usage::Count;
use parking_lot::{Mutex, MutexGuard};

use super::{breaker::BreakerRules, memory::ProviderFingerprints, peer::Peer, space::Fingerprint};

#[derive(Debug)]
pub(crate) struct Replica {
    /// Its name is its id in the registry, or `this process` for local encoders.
    pub(crate) peer: Arc<Peer>,
    pub(crate) backend: Arc<dyn EncoderBackend>,
    /// Options of its probes.
    pub(crate) check: CheckOptions,
    /// US dollars per million tokens; 0 if it is free or unknown.
    pub(crate) price_per_million_tokens: f64,
    /// Its stored fingerprints; `None` for encoders in the configuration.
    pub(super) fingerprints: Option<ProviderFingerprints>,
    /// False for encoders of this process. They have no health checks, and have their own cache.
    pub(crate) remote: bool,
    /// Its encoders when last listed.
    known: Mutex<Vec<Encoder>>,
}

impl Replica {
    /// A replica from the configuration.
    pub(crate) fn new(name: String, backend: Arc<dyn EncoderBackend>, remote: bool, rules: BreakerRules) -> Self {
        Self {
            peer: Arc::new(if remote {
                Peer::new(name, rules)
            } else {
                Peer::here(name, rules)
            }),
            backend,
            check: CheckOptions::default(),
            price_per_million_tokens: 0.0,
            fingerprints: None,
            remote,
            known: Mutex::default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.peer.name
    }

    /// Its first fingerprint of an encoder, if known.
    pub(super) fn first(&self, encoder_id: &str) -> Option<Arc<Fingerprint>> {
        self.fingerprints.as_ref()?.first(encoder_id)
    }

    /// A part of `count` in which usage has the registry's price, whatever the provider reports.
    pub(super) fn charging(&self, count: &Count) -> Count {
        let price = self.price_per_million_tokens;
        count.priced_part(move |usage| Usage {
            cost_nano_usd: nano(usage.tokens as f64 * price / 1e6),
            ..*usage
        })
    }

    pub(crate) fn learnt(&self, known: Vec<Encoder>) {
        *self.listed() = known;
    }

    pub(crate) fn known(&self) -> Vec<Encoder> {
        self.listed().clone()
    }

    fn listed(&self) -> MutexGuard<'_, Vec<Encoder>> {
        self.known.lock()
    }
}

impl AsRef<Arc<Peer>> for Replica {
    fn as_ref(&self) -> &Arc<Peer> {
        &self.peer
    }
}
