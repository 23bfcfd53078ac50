//! Checks, before the registry accepts a provider, whether it fits the providers already there.

use std::collections::BTreeSet;

use isomer_adapters::check::{self, CheckOptions};
use isomer_proto::gateway::v1::{CheckProviderResponse, Provider};
use isomer_service_kit::Fault;

use super::{Router, router::settings, space::Fingerprint};

impl Router {
    /// Refuses a provider whose record does not allow a connection, or that claims an encoder id
    /// that another provider serves with other weights.
    ///
    /// # Errors
    /// Those of [`isomer_adapters::connect`], such as `ADDRESS_REFUSED`; `FAILED_PRECONDITION` with
    /// the reason `OTHER_SPACE`, naming both; `UNAVAILABLE` if they cannot be compared now.
    pub async fn admit(&self, candidate: &Provider) -> Result<(), Fault> {
        let backend = (self.shared.connect)(&settings(candidate))?;
        let table = self.shared.table();
        let claimed: BTreeSet<&String> = candidate.encoders.keys().collect();
        let contested = claimed.into_iter().filter_map(|id| {
            let route = table.routes.get(id)?;
            let others: Vec<_> = route
                .replicas()
                .filter(|replica| replica.name() != candidate.id)
                .cloned()
                .collect();
            (!others.is_empty()).then_some((id, route, others))
        });
        let contested: Vec<_> = contested.collect();
        if contested.is_empty() {
            return Ok(());
        }
        let newcomer = self.shared.replica(candidate, backend);
        for (id, route, others) in contested {
            let field = format!("provider.encoders[{id}]");
            let theirs = Fingerprint::take(&newcomer, id).await.map_err(|fault| {
                let other = others[0].name();
                Fault::unavailable(
                    "NOT_COMPARABLE",
                    format!("encoder `{id}` is served by provider `{other}` too, and this one cannot be compared with it: {fault}"),
                )
                .field(&field)
                .hint("start it first, or give its encoder another id")
            })?;
            let reference = match route.reference() {
                Some((_, reference)) => reference,
                None => {
                    let taken = Fingerprint::take(&others[0], id).await.map_err(|fault| {
                        Fault::unavailable(
                            "NOT_COMPARABLE",
                            format!("encoder `{id}` is claimed by provider `{}`, which cannot be asked for a comparison: {fault}", others[0].name()),
                        )
                        .field(&field)
                        .hint("bring that one back or delete it, or give this encoder another id")
                    })?;
                    taken.into()
                }
            };
            if let Some(difference) = reference.differs(&theirs) {
                let other = others[0].name();
                return Err(Fault::precondition(
                    "OTHER_SPACE",
                    format!(
                        "provider `{}` claims encoder `{id}`, which provider `{other}` serves, but they are of two vector spaces: {difference}",
                        candidate.id
                    ),
                )
                .field(field)
                .hint("give the encoder an id of its own, e.g. with a version")
                .with("encoder_id", id)
                .with("provider", other));
            }
        }
        Ok(())
    }

    /// Probes a provider, registered or not.
    ///
    /// # Errors
    /// If its record does not allow a call.
    pub async fn check(&self, candidate: &Provider) -> Result<CheckProviderResponse, Fault> {
        let backend = (self.shared.connect)(&settings(candidate))?;
        let mut ids: Vec<String> = candidate.encoders.keys().cloned().collect();
        if ids.is_empty() {
            ids = backend.list().await?.into_iter().map(|encoder| encoder.id).collect();
        }
        ids.sort();
        // One encoder represents its provider: each probe takes a dozen calls, which may cost
        // money.
        let Some(id) = ids.first() else {
            return Ok(CheckProviderResponse {
                verdict: "it lists no encoder: there is nothing to check".to_owned(),
                ..CheckProviderResponse::default()
            });
        };
        let mut answer: CheckProviderResponse = check::check(&*backend, id, &CheckOptions::of(candidate)).await.into();
        if ids.len() > 1 {
            answer.verdict += &format!(" (checked `{id}`, the first of {} encoders)", ids.len());
        }
        Ok(answer)
    }
}
