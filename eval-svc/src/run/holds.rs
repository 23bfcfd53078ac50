//! The references of a run to entries of the shared store.

use std::sync::Arc;

use isomer_retention::{Digest, Hold, Holder, Holds};
use isomer_service_kit::Tenant;

use crate::run::{RunContext, RunError, plan::Encoders, units::second_level::SecondLevel};

/// The shared store as used by runs.
#[derive(Debug, Clone)]
pub(crate) struct RunHolds {
    /// Records the references of runs.
    pub holds: Holds,
    /// The current run; absent between runs.
    pub hold: Option<Hold>,
    /// The class of arithmetic of this process.
    pub class: Arc<str>,
}

impl RunContext {
    /// The same for a tenant: other tenants do not find the entries of its runs in caches and
    /// stores.
    ///
    /// # Errors
    /// When the folder of its scores cannot be created.
    pub(crate) fn for_tenant(&self, tenant: &Tenant) -> Result<Self, RunError> {
        if *tenant == self.tenant {
            return Ok(self.clone());
        }
        Ok(Self {
            clients: self.clients.for_tenant(tenant),
            work: self.work.for_tenant(tenant),
            units: self.units.for_tenant(tenant).map_err(RunError::Units)?,
            tenant: tenant.clone(),
            ..self.clone()
        })
    }

    /// The same for a run: the entries that it finds or creates in the store are kept until the run
    /// is released.
    pub(crate) fn for_run(&self, id: &str) -> Self {
        let (Some(shared), Some(run)) = (&self.shared, Holder::run(id)) else {
            return self.clone();
        };
        let hold = shared.holds.of(&run);
        let second = SecondLevel::new(shared.holds.blobs().clone(), &shared.class, hold.clone(), &self.tenant);
        let shared = RunHolds {
            hold: Some(hold),
            ..shared.clone()
        };
        Self {
            work: self.work.for_holder(&run),
            units: self.units.with_second(second),
            shared: Some(shared),
            ..self.clone()
        }
    }

    /// Records that the run relies on the vectors computed by its encoders' weights.
    pub(crate) fn hold_vectors(&self, encoders: &Encoders) {
        let Some(hold) = self.shared.as_ref().and_then(|shared| shared.hold.as_ref()) else {
            return;
        };
        let spaces = encoders.iter().filter_map(|one| one.encoder.vector_space.as_ref());
        let weights = spaces.filter_map(|space| Digest::parse(&space.weights_digest));
        // Vectors can be computed again, so the run does not wait.
        hold.hold_soon(weights.collect());
    }

    /// Removes the references of a deleted or expired run from the store, so that entries without
    /// other references may be removed. Failures are logged. A reference that remains keeps its
    /// entries until the run is forgotten (`isomer store gc --forget-runs`).
    pub(crate) async fn release(&self, id: &str) {
        let Some(shared) = &self.shared else { return };
        if let Err(error) = isomer_retention::release(shared.holds.blobs(), id).await {
            tracing::warn!(%error, id, "cannot remove what the store says of a deleted run");
        }
    }
}
