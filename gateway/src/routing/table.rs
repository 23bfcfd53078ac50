//! The current assignment of encoders to providers.

use std::{collections::BTreeMap, sync::Arc};

use isomer_proto::gateway::v1::Provider;
use isomer_service_kit::{Fault, config::spelling::LONGEST_ID};

use super::{replica::Replica, route::Route};

/// Every provider and the routes over them; replaced as a whole when the registry changes.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) replicas: Vec<Member>,
    pub(super) routes: BTreeMap<String, Arc<Route>>,
}

/// A provider and the encoders that it offers.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) replica: Arc<Replica>,
    /// The provider's record; `None` for encoders of this process.
    pub(super) settings: Option<Provider>,
    /// Ids that it declares, or, for an open provider, those that it lists.
    pub(super) encoders: Vec<String>,
    /// Whether it accepts unlisted ids.
    pub(super) open: bool,
}

impl Table {
    /// Builds the table of these providers. Routes with the same providers as in `before` are kept,
    /// with their learnt state.
    pub(super) fn new(replicas: Vec<Member>, before: &Self, next_generation: &mut u64) -> Self {
        let mut claims: BTreeMap<String, Vec<Arc<Replica>>> = BTreeMap::new();
        for member in &replicas {
            for id in &member.encoders {
                claims.entry(id.clone()).or_default().push(Arc::clone(&member.replica));
            }
        }
        let routes = claims.into_iter().map(|(id, claimants)| {
            let kept = before.routes.get(&id).filter(|route| {
                let known: Vec<_> = route.replicas().collect();
                known.len() == claimants.len() && known.iter().zip(&claimants).all(|(a, b)| Arc::ptr_eq(a, b))
            });
            let route = kept.cloned().unwrap_or_else(|| {
                *next_generation += 1;
                Arc::new(Route::new(id.clone(), *next_generation, claimants))
            });
            (id, route)
        });
        let routes = routes.collect();
        Self { replicas, routes }
    }

    pub(super) fn route(&self, encoder_id: &str) -> Result<Arc<Route>, Fault> {
        if encoder_id.is_empty() {
            return Err(
                Fault::invalid("encoder_id", "names no encoder").hint("name one of those that ListEncoders lists")
            );
        }
        if let Some(route) = self.routes.get(encoder_id) {
            return Ok(Arc::clone(route));
        }
        if encoder_id.len() > LONGEST_ID {
            return Err(
                Fault::invalid("encoder_id", format!("an id of {} bytes", encoder_id.len())).hint(format!(
                    "give an id of at most {LONGEST_ID} bytes; ListEncoders lists them"
                )),
            );
        }
        // No provider lists this id (a folder, or a model that would have to be downloaded). A
        // provider that accepts unlisted ids may know it.
        match self.replicas.iter().find(|member| member.open) {
            Some(member) => Ok(Arc::new(Route::new(
                encoder_id.to_owned(),
                0,
                vec![Arc::clone(&member.replica)],
            ))),
            None => Err(Fault::not_found(
                "UNKNOWN_ENCODER",
                format!("no provider offers an encoder `{encoder_id}`"),
            )
            .field("encoder_id")
            .hint(format!("one of: {}", self.some_ids()))
            .with("encoder_id", encoder_id)),
        }
    }

    fn some_ids(&self) -> String {
        let ids: Vec<&str> = self.routes.keys().map(String::as_str).take(20).collect();
        if ids.is_empty() {
            "none is registered yet".to_owned()
        } else {
            ids.join(", ")
        }
    }
}
